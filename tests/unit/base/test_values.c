/* tests/unit/base/test_values.c: error codes, ids, the handed-in allocator, message names, text,
 * times, random. */
#include <stdio.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/base/mem.h"
#include "common/base/msg.h"
#include "common/base/rng.h"
#include "common/base/table.h"
#include "common/base/text.h"
#include "common/base/time.h"
#include "tests/unit/base/flaky.h"
#include "tests/unit/story.h"

TEST(error, every_code_has_its_own_name_a_sentence_and_a_band)
{
    NO_FIXTURE;
    static const int codes[] = {
#define CODE(name, code, band, sentence) code,
        TFE_ERRORS(CODE)
#undef CODE
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        assert_true(codes[i] < 0);
        assert_string_not_equal(tfe_error_name(codes[i]), "TFE_E?");
        assert_string_not_equal(tfe_error_sentence(codes[i]), "unknown error");
        for (size_t k = 0; k < i; k++) {
            assert_int_not_equal(codes[i], codes[k]);
        }
    }
    assert_string_equal(tfe_error_name(TFE_ENOMEM), "TFE_ENOMEM");
    assert_int_equal(tfe_error_band(TFE_ENOMEM), TFE_BAND_REQUEST);
    assert_int_equal(tfe_error_band(TFE_EPROTO), TFE_BAND_SESSION);
}

TEST(error, an_unknown_code_is_the_worst)
{
    NO_FIXTURE;
    assert_string_equal(tfe_error_name(-1000), "TFE_E?");
    assert_string_equal(tfe_error_sentence(0), "unknown error");
    assert_int_equal(tfe_error_band(7), TFE_BAND_PROCESS);
}

TEST(id, is_short_and_plain)
{
    NO_FIXTURE;
    char longest[TFE_ID_MAX + 2];
    memset(longest, 'a', sizeof(longest));
    longest[TFE_ID_MAX + 1] = '\0';
    assert_false(id_is_valid(longest));
    longest[TFE_ID_MAX] = '\0';
    assert_true(id_is_valid(longest));
    assert_true(id_is_valid("a.B_9-"));
    static const char *const bad[] = {"", "a b", "a/b", "\xc3\xa4", "a\n", "a:b"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(id_is_valid(bad[i]));
    }
    assert_false(id_is_valid(NULL));
}

TEST(id, a_bad_text_leaves_the_old_one)
{
    NO_FIXTURE;
    struct tfe_id id;
    assert_int_equal(id_set(&id, "before"), 0);
    assert_int_equal(id_set(&id, "not one"), TFE_EINVAL);
    assert_string_equal(id.text, "before");
    struct tfe_id other;
    assert_int_equal(id_set(&other, "befora"), 0);
    assert_true(id_compare(&other, &id) < 0);
    assert_int_equal(id_compare(&id, &id), 0);
}

TEST(mem, new_is_zeroed_and_overflow_is_refused)
{
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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

TEST(text, puts_together_and_cuts)
{
    NO_FIXTURE;
    char buffer[16];
    struct text text;
    text_init(&text, buffer, sizeof(buffer));
    text_add(&text, "n=");
    text_add(&text, NULL);
    text_add_u64(&text, 0);
    text_add(&text, " ");
    text_add_u64(&text, 1234567);
    assert_string_equal(buffer, "n=0 1234567");
    text_add_u64(&text, UINT64_MAX);
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
    NO_FIXTURE;
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
    /* A newline that ends the text starts no line. */
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

TEST(table, digest_is_fnv1a_over_host_nul_port)
{
    NO_FIXTURE;
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
    NO_FIXTURE;
    struct tfe_mono t = {.ms = 5};
    assert_int_equal(tfe_mono_add(t, 7).ms, 12);
    assert_true(tfe_mono_is_never(tfe_mono_add(TFE_MONO_NEVER, 1)));
    assert_true(tfe_mono_is_never(tfe_mono_add(t, INT64_MAX)));
    assert_int_equal(tfe_mono_add((struct tfe_mono){.ms = -3}, 1).ms, -2);
}

TEST(rng, replays_and_keeps_to_its_bounds)
{
    NO_FIXTURE;
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
    /* The reference output of splitmix64 for seed 0. */
    rng_init(&a, 0);
    assert_true(rng_next(&a) == UINT64_C(0xe220a8397b1dcdaf));
}

int main(void)
{
    const struct CMUnitTest stories[] = {
        STORY(error, every_code_has_its_own_name_a_sentence_and_a_band),
        STORY(error, an_unknown_code_is_the_worst),
        STORY(id, is_short_and_plain),
        STORY(id, a_bad_text_leaves_the_old_one),
        STORY(mem, new_is_zeroed_and_overflow_is_refused),
        STORY(mem, reserve_grows_by_half_and_fails_without_a_trace),
        STORY(msg, names_are_what_logs_and_json_say),
        STORY(msg, no_number_is_given_twice),
        STORY(text, puts_together_and_cuts),
        STORY(text, a_tail_starts_at_a_line_where_there_is_one),
        STORY(table, digest_is_fnv1a_over_host_nul_port),
        STORY(time, adding_saturates_at_never),
        STORY(rng, replays_and_keeps_to_its_bounds),
    };
    return cmocka_run_group_tests(stories, NULL, NULL);
}
