/* tests/unit/base/test_values.c: error codes, ids, the allocator interface, message names, text,
 * UTF-8, times, random numbers. */
#include <stdio.h>
#include <string.h>

#include "common/base/backoff.h"
#include "common/base/error.h"
#include "common/base/id.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/base/time.h"
#include "common/message/cluster_table.h"
#include "common/message/msg.h"
#include "common/text/escape.h"
#include "common/text/text.h"
#include "common/text/utf8.h"
#include "tests/job_options.h"
#include "tests/unit/base/flaky.h"
#include "tests/unit/test_runner.h"

TEST(error, every_code_is_negative_its_own_and_has_a_sentence)
{
    static const int codes[] = {
#define CODE(name, code, sentence) code,
        TFE_ERRORS(CODE)
#undef CODE
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        assert_true(codes[i] < 0);
        assert_string_not_equal(tfe_error_sentence(codes[i]), "unknown error");
        for (size_t k = 0; k < i; k++) {
            assert_int_not_equal(codes[i], codes[k]);
        }
    }
    assert_string_equal(tfe_error_sentence(TFE_ENOMEM), "out of memory");
    assert_string_equal(tfe_error_sentence(0), "unknown error");
}

TEST(id, is_short_and_plain)
{
    char longest[TFE_ID_MAX + 2];
    memset(longest, 'a', sizeof(longest));
    longest[TFE_ID_MAX + 1] = '\0';
    assert_false(id_is_valid(longest));
    longest[TFE_ID_MAX] = '\0';
    assert_true(id_is_valid(longest));
    assert_true(id_is_valid("a.B_9-"));
    static const char *const bad[] = {"",  "a b", "a/b", "\xc3\xa4", "a\n",   "a:b",
                                      ".", "..",  ".a",  "-x",       "--help"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(id_is_valid(bad[i]));
    }
    assert_false(id_is_valid(NULL));
}

TEST(shown, a_printed_line_moves_no_cursor)
{
    static const char *const lines[][2] = {
        {"plain \xc3\xa4\t1", "plain \xc3\xa4\t1"},
        {"\x1b[31mred\x1b[0m", "red"},
        {"\x1b[1;31;1000mx\x1b[?25l", "x"},
        {"\x1b]0;title\x07", "\\u001b]0;title\\u0007"},
        {"\x1b[2", "\\u001b[2"},
        {"\x1b[", "\\u001b["},
        {"\x1b", "\\u001b"},
        {"10 %\r20 %\r30 %\r", "30 %"},
        {"\r\r", ""},
        {"1/2\b\b\b2/2", "1/22/2"},
        {"\xc2\x9b"
         "2J",
         "\\u009b2J"},
        {"\xe2\x80\xaegnp", "\\u202egnp"},
        {"\xff", "\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char room[ESCAPE_LINE_MAX(64) + 1];
        room[escape_line(lines[i][0], strlen(lines[i][0]), room)] = '\0';
        assert_string_equal(room, lines[i][1]);
    }
    char all[256];
    char room[ESCAPE_LINE_MAX(sizeof(all))];
    memset(all, 0x7f, sizeof(all)); /* each byte takes the widest escape */
    assert_int_equal(escape_line(all, sizeof(all), room), sizeof(room));
}

TEST(id, any_text_becomes_one)
{
    static const char *const texts[][2] = {{"", "_"},      {"host-1.b", "host-1.b"},
                                           {"..", "_."},   {"-x", "_x"},
                                           {"a b", "a-b"}, {"\xc3\xa4", "_-"}};
    struct tfe_id id;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        id_from_text(&id, texts[i][0]);
        assert_string_equal(id.text, texts[i][1]);
        assert_true(id_is_valid(id.text));
    }
    char longer[TFE_ID_MAX + 9];
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    id_from_text(&id, longer);
    assert_int_equal(strlen(id.text), TFE_ID_MAX);
}

TEST(id, a_bad_text_leaves_the_old_one)
{
    struct tfe_id id;
    assert_int_equal(id_set(&id, "before"), 0);
    assert_int_equal(id_set(&id, "not one"), TFE_EINVAL);
    assert_string_equal(id.text, "before");
    struct tfe_id other;
    assert_int_equal(id_set(&other, "befora"), 0);
    assert_true(id_compare(&other, &id) < 0);
    assert_int_equal(id_compare(&id, &id), 0);
}

TEST(id, a_shorter_one_leaves_nothing_of_a_longer)
{
    struct tfe_id id;
    assert_int_equal(id_set(&id, "before"), 0);
    assert_int_equal(id_set(&id, "b"), 0);
    assert_string_equal(id.text, "b");
}

TEST(mem, new_is_zeroed_and_overflow_is_refused)
{
    struct flaky flaky = {0};
    struct tfe_mem mem = flaky_mem(&flaky);
    unsigned char *p = mem_new(&mem, 3, 5);
    assert_non_null(p);
    for (int i = 0; i < 15; i++) {
        assert_int_equal(p[i], 0);
    }
    mem_free(&mem, p);
    mem_free(&mem, NULL);
    assert_null(mem_new(&mem, SIZE_MAX / 2, 3));
    assert_int_equal(flaky.blocks, 0);
}

TEST(mem, reserve_grows_by_half_and_fails_without_a_trace)
{
    struct flaky flaky = {0};
    struct tfe_mem mem = flaky_mem(&flaky);
    void *array = NULL;
    size_t cap = 0;
    assert_int_equal(mem_reserve(&mem, &array, &cap, 10, 4), 0);
    assert_int_equal(cap, 10);
    assert_int_equal(mem_reserve(&mem, &array, &cap, 7, 4), 0);
    assert_int_equal(flaky.asked, 1);
    void *before = array;
    flaky.fail_at = 2;
    assert_int_equal(mem_reserve(&mem, &array, &cap, 11, 4), TFE_ENOMEM);
    assert_ptr_equal(array, before);
    assert_int_equal(cap, 10);
    assert_int_equal(mem_reserve(&mem, &array, &cap, 11, 4), 0);
    assert_int_equal(cap, 15);
    assert_int_equal(mem_reserve(&mem, &array, &cap, SIZE_MAX / 2, 4), TFE_ENOMEM);
    assert_int_equal(cap, 15);
    mem_free(&mem, array);
    assert_int_equal(flaky.blocks, 0);
}

TEST(msg, names_are_what_logs_and_json_say)
{
    assert_string_equal(msg_type_name(MSG_JOIN), "JOIN");
    assert_string_equal(msg_type_name(MSG_LEASE_ENDED), "LEASE_ENDED");
    assert_string_equal(msg_type_name((enum tfe_msg_type)255), "?");
    assert_string_equal(msg_refusal_name(REFUSAL_SIZE_MISMATCH), "size_mismatch");
    assert_string_equal(msg_refusal_name((enum tfe_refusal)0), "?");
    assert_string_equal(msg_cause_name(CAUSE_NODE_LOST), "node_lost");
    assert_string_equal(msg_cause_name((enum tfe_cause)99), "?");
    assert_string_equal(msg_result_name(RESULT_SUCCEEDED), "succeeded");
    assert_string_equal(msg_result_name((enum tfe_result)99), "?");
    assert_string_equal(msg_role_name(ROLE_SPARE), "spare");
    assert_string_equal(msg_ending_name(ENDING_OUT_OF_MEMORY), "out_of_memory");
    assert_string_equal(msg_ending_name((enum tfe_ending)5), "?");
    assert_string_equal(msg_role_name((enum tfe_node_role)99), "?");
    assert_string_equal(msg_probe_kind_name(PROBE_SUSPECT), "suspect");
    assert_string_equal(msg_probe_kind_name((enum tfe_probe_kind)99), "?");
    assert_string_equal(msg_probe_result_name(PROBE_NO_ANSWER), "no_answer");
    assert_string_equal(msg_probe_result_name((enum tfe_probe_result)99), "?");
}

TEST(msg, no_number_is_given_twice)
{
    static const int types[] = {
#define TYPE(NAME, name, number, sender) number,
        TFE_MSGS(TYPE)
#undef TYPE
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        assert_in_range(types[i], 1, 255);
        for (size_t k = 0; k < i; k++) {
            assert_int_not_equal(types[i], types[k]);
        }
    }
}

TEST(shown, characters_that_control_are_escaped_and_all_others_stay)
{
    static const struct {
        const char *text;
        const char *shown;
    } cases[] = {
        {"", ""},
        {"\x1b[2J\n\x7f", "\\u001b[2J\\u000a\\u007f"},
        {"\xc2\x80\xc2\x9f\xc2\xa0", "\\u0080\\u009f\xc2\xa0"},
        {"\xd8\x9c\xe2\x80\x8d\xe2\x80\x8e\xe2\x80\x8f", "\\u061c\xe2\x80\x8d\\u200e\\u200f"},
        {"\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xae\xe2\x80\xaf",
         "\xe2\x80\xa7\\u2028\\u202e\xe2\x80\xaf"},
        {"\xe2\x81\xa5\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa",
         "\xe2\x81\xa5\\u2066\\u2069\xe2\x81\xaa"},
        {"\xc2\xff\xf0\x9f\x9a\x80", "\xef\xbf\xbd\xef\xbf\xbd\xf0\x9f\x9a\x80"},
    };
    char room[64];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_string_equal(escape_text(cases[i].text, room, sizeof(room)), cases[i].shown);
    }
    assert_string_equal(escape_text("ab\x1b", room, 8), "ab"); /* an escape is never cut */
    assert_string_equal(escape_text("ab\x1b", room, 9), "ab\\u001b");
}

TEST(text, puts_together_and_cuts)
{
    char buffer[16];
    struct text text;
    text_init(&text, buffer, sizeof(buffer));
    text_add(&text, "n=");
    text_add(&text, NULL);
    text_addf(&text, "%llu", (unsigned long long)0);
    text_add(&text, " ");
    text_addf(&text, "%llu", (unsigned long long)1234567);
    assert_string_equal(buffer, "n=0 1234567");
    text_addf(&text, "%llu", (unsigned long long)UINT64_MAX);
    assert_string_equal(buffer, "n=0 12345671844");
    text_add(&text, "more");
    assert_int_equal(text.n, 15);
    char one[1];
    text_init(&text, one, sizeof(one));
    text_add(&text, "x");
    assert_string_equal(one, "");
}

TEST(text, a_tail_starts_at_a_line_where_there_is_one)
{
    char buffer[64];
    struct text text;
    text_init(&text, buffer, sizeof(buffer));
    text_add_tail(&text, "first\nsecond\nthird", 14);
    assert_string_equal(buffer, "second\nthird");
    text_init(&text, buffer, sizeof(buffer));
    text_add_tail(&text, "0123456789", 4);
    assert_string_equal(buffer, "6789");
    text_init(&text, buffer, sizeof(buffer));
    text_add_tail(&text, "short", 64);
    assert_string_equal(buffer, "short");
    /* A final newline starts no line. */
    text_init(&text, buffer, sizeof(buffer));
    text_add_tail(&text, "0123456789\n", 4);
    assert_string_equal(buffer, "789\n");
}

static uint64_t digest_by_hand(const char *bytes, size_t n)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < n; i++) {
        hash ^= (unsigned char)bytes[i];
        hash *= UINT64_C(1099511628211);
    }
    return hash;
}

TEST(text, days_have_the_dates_of_the_calendar)
{
    static const struct {
        int64_t s;
        const char *date;
    } days[] = {{0, "1970-01-01"},         {951782400, "2000-02-29"}, /* the last day of 400 years
                                                                         that begin in March */
                {951868800, "2000-03-01"}, {4107456000, "2100-02-28"}, {4107542400, "2100-03-01"},
                {1703980800, "2023-12-31"}};
    for (size_t i = 0; i < sizeof(days) / sizeof(days[0]); i++) {
        char room[64];
        struct text text;
        text_init(&text, room, sizeof(room));
        text_add_wall(&text, (struct tfe_wall){.ms = days[i].s * 1000});
        assert_memory_equal(room, days[i].date, strlen(days[i].date));
    }
}

TEST(table, digest_is_fnv1a_over_host_nul_port)
{
    struct msg_row rows[] = {{.rank = 0, .host = "a", .port = 0x1234},
                             {.rank = 1, .host = "bc", .port = 80}};
    static const char bytes[] = "a\0\x12\x34"
                                "bc\0\0P";
    assert_int_equal(table_digest(rows, 2), digest_by_hand(bytes, sizeof(bytes) - 1));
    assert_int_equal(table_digest(NULL, 0), UINT64_C(14695981039346656037));
    uint64_t before = table_digest(rows, 2);
    rows[1].port = 81;
    assert_int_not_equal(table_digest(rows, 2), before);
}

TEST(time, adding_saturates_at_never)
{
    struct tfe_mono t = {.ms = 5};
    assert_int_equal(tfe_mono_add(t, 7).ms, 12);
    assert_true(tfe_mono_is_never(tfe_mono_add(TFE_MONO_NEVER, 1)));
    assert_true(tfe_mono_is_never(tfe_mono_add(t, INT64_MAX)));
    assert_int_equal(tfe_mono_add((struct tfe_mono){.ms = -3}, 1).ms, -2);
}

TEST(rng, replays_and_keeps_to_its_bounds)
{
    struct rng a;
    struct rng b;
    rng_init(&a, 42);
    rng_init(&b, 42);
    bool low = false;
    bool high = false;
    for (int i = 0; i < 10000; i++) {
        uint64_t v = rng_between(&a, 3, 7);
        assert_int_equal(v, rng_between(&b, 3, 7));
        assert_in_range(v, 3, 7);
        low = low || v == 3;
        high = high || v == 7;
    }
    assert_true(low && high);
    assert_int_equal(rng_between(&a, 9, 9), 9);
    (void)rng_between(&a, 0, UINT64_MAX);
    /* Reference output of splitmix64 for seed 0. */
    rng_init(&a, 0);
    assert_true(rng_next(&a) == UINT64_C(0xe220a8397b1dcdaf));
}

TEST(utf8, is_repaired_byte_by_byte)
{
#define GONE "\xef\xbf\xbd"
    static const char *const cases[][2] = {
        {"", ""},
        {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
         "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xff", GONE},
        {"x\x80y", "x" GONE "y"},
        /* An overlong '/', a surrogate, a code point above U+10FFFF, an incomplete sequence. */
        {"\xc0\xaf", GONE GONE},
        {"\xed\xa0\x80", GONE GONE GONE},
        {"\xf4\x90\x80\x80", GONE GONE GONE GONE},
        {"\xe2\x82", GONE GONE},
        {"\xe2\x82\"", GONE GONE "\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[UTF8_REPAIRED_MAX(32)];
        const size_t n = utf8_repair(cases[i][0], strlen(cases[i][0]), out);
        assert_string_equal(out, cases[i][1]);
        assert_int_equal(n, strlen(out));
    }
#undef GONE
}

TEST(utf8, is_cut_before_a_character_that_is_not_whole_and_only_there)
{
    assert_int_equal(utf8_cut("a\xc3\xa9", 3), 3);
    assert_int_equal(utf8_cut("a\xc3", 2), 1);
    assert_int_equal(utf8_cut("a\xe2\x82\xac", 4), 4);
    assert_int_equal(utf8_cut("a\xe2\x82", 3), 1);
    assert_int_equal(utf8_cut("a\xf0\x9f\x98", 4), 1);
    assert_int_equal(utf8_cut("ab", 2), 2);
}

TEST(backoff, doubles_from_the_first_to_the_longest)
{
    static const uint32_t waits[] = {100, 200, 400, 800, 1000, 1000};
    uint32_t wait = 0;
    for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        wait = backoff_next(wait, 100, 1000);
        assert_int_equal(wait, waits[i]);
    }
    assert_int_equal(backoff_next(UINT32_MAX - 1, 1, UINT32_MAX), UINT32_MAX);
    assert_int_equal(backoff_next(3, 1, 7), 6);
}

TEST(backoff, a_jittered_wait_is_any_part_of_it)
{
    struct rng rng;
    rng_init(&rng, 1);
    bool seen[5] = {false};
    for (int i = 0; i < 100; i++) {
        uint32_t wait = backoff_jitter(&rng, 4);
        assert_in_range(wait, 1, 4);
        seen[wait] = true;
    }
    assert_true(seen[1] && seen[2] && seen[3] && seen[4]);
    assert_int_equal(backoff_jitter(&rng, 0), 1);
}

TEST(job_spec, has_to_agree_in_what_all_want_alike_and_in_nothing_else)
{
    const struct job_spec first = job_of_size(1, 4, 2);
    struct job_spec other = first;
    other.script_digest = 7; /* the first node's digest counts */
    other.grow_now = other.no_grow = other.retry_start = true;
    other.max_restarts = 9; /* an option that may differ */
    assert_true(job_spec_agrees(&first, &other));
    other.max_nodes = 5;
    assert_false(job_spec_agrees(&first, &other));
    other = first;
    other.chief = true;
    assert_false(job_spec_agrees(&first, &other));
    other = first;
    other.commit = UINT64_C(1) << 63; /* in no byte that a narrower comparison reads */
    assert_false(job_spec_agrees(&first, &other));
}
