/* tests/unit/wire/test_codec.c: every message there and back, tables in chunks, and garbage. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/id.h"
#include "tests/unit/wire/codec_fixture.h"

/* --- one message of every type, full and minimal ---------------------------------------------- */

static char long_id[TFE_ID_MAX + 1], long_label[TFE_LABEL_MAX + 1], long_host[TFE_HOST_MAX + 1];
static char long_tail[MSG_TAIL_MAX + 1], long_sentence[MSG_SENTENCE_MAX + 1];
static uint16_t many_ports[MSG_NPROC_MAX];
static uint32_t many_pids[MSG_PIDS_MAX];

static const struct msg_exited full_exited = {.epoch = UINT64_MAX,
                                              .local_rank = 63,
                                              .code = 0,
                                              .signal = 9,
                                              .stopped = true,
                                              .tail = long_tail,
                                              .end = ENDING_START_FAILED};
static const struct msg_running full_running = {.run = UINT32_MAX,
                                                .rank = 65536 * 64 - 1,
                                                .nodes = 65536,
                                                .world = 65536 * 64,
                                                .digest = UINT64_MAX,
                                                .host = long_host,
                                                .ports = many_ports,
                                                .n_ports = 64,
                                                .cause = CAUSE_DRAINED};
static const struct msg_row rows[] = {{0, "10.0.0.1", 1}, {1, long_host, 65535}, {7, "[::1]", 80}};

static void fill_texts(void)
{
    memset(long_id, 'i', TFE_ID_MAX);
    memset(long_label, 'l', TFE_LABEL_MAX);
    memset(long_host, 'h', TFE_HOST_MAX);
    memset(long_tail, 't', MSG_TAIL_MAX);
    memset(long_sentence, 's', MSG_SENTENCE_MAX);
    for (size_t i = 0; i < MSG_NPROC_MAX; i++) {
        many_ports[i] = (uint16_t)(65535 - i);
    }
    for (size_t i = 0; i < MSG_PIDS_MAX; i++) {
        many_pids[i] = (uint32_t)(INT32_MAX - (int)i);
    }
}

static const struct tfe_msg samples[] = {
    M(JOIN, join, long_id, long_id, long_label, 65536, 65536, 64, 0, D, 0, 1, D, true, UINT64_MAX,
      5, 6, INT32_MAX, &full_exited, true, long_id, true, D, &full_running),
    M(JOIN, join, "j", "n", "", 1, 1, 1, U, U, U, U, U, false, 0, 0, 0, 0, NULL, false, NULL, false,
      U, NULL),
    M(RENEW, renew, UINT64_MAX),
    M(RENEW, renew, 0),
    M(READY, ready, UINT64_MAX, long_host, many_ports, MSG_NPROC_MAX, UINT64_MAX, true),
    M(READY, ready, 1, "h", many_ports, 1, 0, false),
    M(LISTENING, listening, UINT64_MAX),
    M(LISTENING, listening, 1),
    M(EXITED, exited, UINT64_MAX, 63, 255, 0, true, long_tail, ENDING_OUT_OF_MEMORY),
    M(EXITED, exited, 1, 0, 0, 0, false, ""),
    M(GOODBYE, goodbye, true),
    M(GOODBYE, goodbye, false),
    M(PROCESSES, processes, INT32_MAX, many_pids, MSG_PIDS_MAX, many_pids, MSG_PIDS_MAX),
    M(PROCESSES, processes, 0, NULL, 0, NULL, 0),
    M(WELCOME, welcome, long_id, UINT64_MAX, UINT32_MAX, D, D, D, D, D),
    M(WELCOME, welcome, "n", 0, 1, 1, 1, 1, 0, 0),
    M(RENEWED, renewed, UINT64_MAX, D, D, D),
    M(RENEWED, renewed, 0, 1, 1, 0),
    M(PREPARE, prepare, UINT64_MAX, true, true),
    M(PREPARE, prepare, 1, false, false),
    M(PROGRESS, progress, UINT64_MAX, true, UINT64_MAX, true, UINT64_MAX, UINT32_MAX, UINT64_MAX,
      true),
    M(PROGRESS, progress, 1, false, 0, true, 0, 0, 0, false),
    M(PROGRESS, progress, 1, true, 0, false, 0, 0, 0, false),
    M(NOTICE, notice, NOTICE_OPERATOR, D, true, true),
    M(NOTICE, notice, NOTICE_REBALANCE, U, false, false),
    M(STOP, stop, UINT64_MAX, true),
    M(STOP, stop, 1, false),
    M(SAVE, save, UINT64_MAX, UINT64_MAX, D),
    M(SAVE, save, 1, 1, U),
    M(TABLE, table, UINT64_MAX, 8, UINT64_MAX, rows, COUNT(rows), true),
    M(TABLE, table, 1, 65536 * 64, 0, NULL, 0),
    M(START, start, UINT64_MAX, UINT32_MAX, 65536 * 64 - 1, 65536 * 64, 65536, CAUSE_PREEMPTED,
      UINT64_MAX, D),
    M(START, start, 1, 1, 0, 1, 1, CAUSE_START, 0, 0),
    M(NOTED, noted, UINT64_MAX),
    M(NOTED, noted, 1),
    M(LEASE_ENDED, lease_ended, UINT64_MAX),
    M(LEASE_ENDED, lease_ended, 0),
    M(FINISH, finish, RESULT_DRAINED, UINT32_MAX, long_sentence),
    M(FINISH, finish, RESULT_SUCCEEDED, 1, ""),
    M(REFUSED, refused, REFUSAL_EVICTED, long_sentence),
    M(PROBE, probe, UINT64_MAX, PROBE_SUSPECT, long_id, long_host, many_ports, MSG_NPROC_MAX),
    M(PROBE, probe, 0, PROBE_ADDRESS, "n", "h", many_ports, 1),
    M(PROBED, probed, UINT64_MAX, PROBE_REFUSED),
    M(PROBED, probed, 0, PROBE_ANSWERED_OURS),
    M(REFUSED, refused, REFUSAL_ADDRESS_UNREACHABLE, long_sentence),
    M(REFUSED, refused, REFUSAL_STORE, long_sentence),
    M(REFUSED, refused, REFUSAL_NOT_AUTHORISED, ""),
    M(STATUS, status, long_id),
    M(STATUS, status, NULL),
    M(STATUS_JOB, status_job, long_id, "running", UINT32_MAX, UINT64_MAX, 1, 65536, 64, UINT32_MAX),
    M(STATUS_JOB, status_job, "j", "waiting", 0, 0, 1, 1, 1, 0),
    M(STATUS_NODE, status_node, long_id, long_label, ROLE_LEAVING, true, 0, long_host, 65535,
      INT32_MAX, {1, many_pids, MSG_PIDS_MAX, many_pids, MSG_PIDS_MAX}),
    M(STATUS_NODE, status_node, "n", "", ROLE_MEMBER, false, 0, NULL, 0, 0, {0, NULL, 0, NULL, 0}),
    M(STATUS_END, status_end, UINT32_MAX),
    M(STATUS_END, status_end, 0),
    M(DRAIN, drain, long_label, D),
    M(DRAIN, drain, "n", U),
    M(EVICT, evict, long_label),
    M(EVICT, evict, "a label"),
    M(STOP_JOB, stop_job, long_id),
    M(STOP_JOB, stop_job, "j"),
    M(DONE, done, 0),
    M(EPOCHS, epochs, long_id),
    M(EPOCH_ROW, epoch_row, UINT32_MAX, UINT64_MAX, CAUSE_PREEMPTED, long_label, true, 65536,
      {{INT64_MAX}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}, true, UINT64_MAX, true, UINT64_MAX, true),
    M(EPOCH_ROW, epoch_row, 1, 1, CAUSE_START, "", false, 0, {{0}}, false, 0, false, 0, false),
    M(EPOCH_ROW, epoch_row, 1, 1, CAUSE_START, "", false, 1, {{0}}, true, 0, true, 0, false),
    M(BACKUP, backup, "/"),
    M(BACKUP, backup, "/var/backups/a file"),
};

/* --- comparing -------------------------------------------------------------------------------- */

#define SAME(field) assert_true(a->field == b->field)
#define SAME_TEXT(field) assert_same_text(a->field, b->field)

static void assert_same_text(const char *a, const char *b)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a) {
        assert_string_equal(a, b);
    }
}

static void same_exited(const struct msg_exited *a, const struct msg_exited *b)
{
    SAME(epoch), SAME(local_rank), SAME(code), SAME(signal), SAME(stopped), SAME_TEXT(tail);
    SAME(end);
}

static void same_running(const struct msg_running *a, const struct msg_running *b)
{
    SAME(run), SAME(rank), SAME(nodes), SAME(world), SAME(digest), SAME_TEXT(host);
    SAME(n_ports), SAME(cause);
    assert_memory_equal(a->ports, b->ports, a->n_ports * sizeof(*a->ports));
}

static void same_join(const struct msg_join *a, const struct msg_join *b)
{
    SAME_TEXT(job), SAME_TEXT(node), SAME_TEXT(node_name);
    SAME(min_nodes), SAME(max_nodes), SAME(nproc), SAME(max_restarts), SAME(gather_ms);
    SAME(grow_wait_ms), SAME(stop_grace_ms), SAME(highest_epoch), SAME(running_epoch);
    SAME(script_digest), SAME(pid), SAME(elastic_timeout_ms), SAME(new_run);
    assert_int_equal(a->exited == NULL, b->exited == NULL);
    if (a->exited) {
        same_exited(a->exited, b->exited);
    }
    SAME(durable), SAME_TEXT(run_key), SAME(no_grow), SAME(chief_grace_ms);
    assert_int_equal(a->running == NULL, b->running == NULL);
    if (a->running) {
        same_running(a->running, b->running);
    }
}

static void same_renew(const struct msg_renew *a, const struct msg_renew *b)
{
    SAME(number);
}

static void same_ready(const struct msg_ready *a, const struct msg_ready *b)
{
    SAME(epoch), SAME_TEXT(host), SAME(table_digest), SAME(n_ports), SAME(answering);
    assert_memory_equal(a->ports, b->ports, a->n_ports * sizeof(*a->ports));
}

static void same_listening(const struct msg_listening *a, const struct msg_listening *b)
{
    SAME(epoch);
}

static void same_goodbye(const struct msg_goodbye *a, const struct msg_goodbye *b)
{
    SAME(drained);
}

static void same_pids(const uint32_t *a, size_t a_n, const uint32_t *b, size_t b_n)
{
    assert_int_equal(a_n, b_n);
    if (a_n) {
        assert_memory_equal(a, b, a_n * sizeof(*a));
    }
}

static void same_processes(const struct msg_processes *a, const struct msg_processes *b)
{
    SAME(guard_pid);
    same_pids(a->trainer_pids, a->n_trainer_pids, b->trainer_pids, b->n_trainer_pids);
    same_pids(a->standby_pids, a->n_standby_pids, b->standby_pids, b->n_standby_pids);
}

static void same_welcome(const struct msg_welcome *a, const struct msg_welcome *b)
{
    SAME_TEXT(node), SAME(incarnation), SAME(run), SAME(ttl_ms), SAME(fence_ms), SAME(renew_ms);
    SAME(spread_ms), SAME(stop_grace_ms);
}

static void same_renewed(const struct msg_renewed *a, const struct msg_renewed *b)
{
    SAME(number), SAME(ttl_ms), SAME(fence_ms), SAME(spread_ms);
}

static void same_prepare(const struct msg_prepare *a, const struct msg_prepare *b)
{
    SAME(epoch), SAME(fresh_ports), SAME(answer);
}

static void same_stop(const struct msg_stop *a, const struct msg_stop *b)
{
    SAME(epoch), SAME(planned);
}

static void same_save(const struct msg_save *a, const struct msg_save *b)
{
    SAME(epoch), SAME(number), SAME(within_ms);
}

static void same_progress(const struct msg_progress *a, const struct msg_progress *b)
{
    SAME(epoch), SAME(has_step), SAME(step), SAME(has_saved), SAME(saved_step), SAME(saves);
    SAME(answers), SAME(listens);
}

static void same_notice(const struct msg_notice *a, const struct msg_notice *b)
{
    SAME(kind), SAME(deadline_ms), SAME(withdrawn), SAME(uncertain);
}

static void same_row(const struct msg_row *a, const struct msg_row *b)
{
    SAME(rank), SAME_TEXT(host), SAME(port);
}

static void same_table(const struct msg_table *a, const struct msg_table *b)
{
    SAME(epoch), SAME(world), SAME(base_digest), SAME(turned), SAME(n_rows);
    for (size_t i = 0; i < a->n_rows; i++) {
        same_row(&a->rows[i], &b->rows[i]);
    }
}

static void same_start(const struct msg_start *a, const struct msg_start *b)
{
    SAME(epoch), SAME(run), SAME(rank), SAME(world), SAME(nodes), SAME(cause), SAME(table_digest),
        SAME(fence_ms);
}

static void same_noted(const struct msg_noted *a, const struct msg_noted *b)
{
    SAME(epoch);
}

static void same_lease_ended(const struct msg_lease_ended *a, const struct msg_lease_ended *b)
{
    SAME(epoch);
}

static void same_probe(const struct msg_probe *a, const struct msg_probe *b)
{
    SAME(probe), SAME(kind), SAME_TEXT(node), SAME_TEXT(host), SAME(n_ports);
    assert_memory_equal(a->ports, b->ports, a->n_ports * sizeof(*a->ports));
}

static void same_probed(const struct msg_probed *a, const struct msg_probed *b)
{
    SAME(probe), SAME(result);
}

static void same_finish(const struct msg_finish *a, const struct msg_finish *b)
{
    SAME(result), SAME(run), SAME_TEXT(sentence);
}

static void same_refused(const struct msg_refused *a, const struct msg_refused *b)
{
    SAME(code), SAME_TEXT(sentence);
}

static void same_status(const struct msg_status *a, const struct msg_status *b)
{
    SAME_TEXT(job);
}

static void same_status_job(const struct msg_status_job *a, const struct msg_status_job *b)
{
    SAME_TEXT(job), SAME_TEXT(state), SAME(run), SAME(epoch), SAME(min_nodes), SAME(max_nodes);
    SAME(nproc), SAME(restarts);
}

static void same_status_node(const struct msg_status_node *a, const struct msg_status_node *b)
{
    SAME_TEXT(node), SAME_TEXT(name), SAME(role), SAME(has_rank), SAME(rank), SAME_TEXT(host);
    SAME(port), SAME(pid);
    same_processes(&a->processes, &b->processes);
}

static void same_status_end(const struct msg_status_end *a, const struct msg_status_end *b)
{
    SAME(jobs);
}

static void same_drain(const struct msg_drain *a, const struct msg_drain *b)
{
    SAME_TEXT(node), SAME(within_ms);
}

static void same_evict(const struct msg_evict *a, const struct msg_evict *b)
{
    SAME_TEXT(node);
}

static void same_stop_job(const struct msg_stop_job *a, const struct msg_stop_job *b)
{
    SAME_TEXT(job);
}

static void same_done(const struct msg_done *a, const struct msg_done *b)
{
    (void)a, (void)b; /* it says nothing */
}

static void same_epochs(const struct msg_epochs *a, const struct msg_epochs *b)
{
    SAME_TEXT(job);
}

static void same_epoch_row(const struct msg_epoch_row *a, const struct msg_epoch_row *b)
{
    SAME(run), SAME(epoch), SAME(cause), SAME_TEXT(blamed), SAME(planned), SAME(members);
    SAME(has_saved), SAME(saved_step), SAME(has_lost), SAME(lost_steps), SAME(over);
    for (int i = 0; i < EPOCH__TIMES; i++) {
        SAME(at[i].ms);
    }
}

static void same_backup(const struct msg_backup *a, const struct msg_backup *b)
{
    SAME_TEXT(path);
}

static void assert_same(const struct tfe_msg *a, const struct tfe_msg *b)
{
    assert_int_equal(a->type, b->type);
    switch (a->type) {
#define CASE(NAME, name, number, sender)                                                           \
    case MSG_##NAME:                                                                               \
        same_##name(&a->u.name, &b->u.name);                                                       \
        break;
        TFE_MSGS(CASE)
#undef CASE
    }
}

/* --- there and back --------------------------------------------------------------------------- */

TEST(codec, every_message_survives_full_and_minimal)
{
    NO_FIXTURE;
    bool is_covered[256] = {false};
    for (size_t i = 0; i < COUNT(samples); i++) {
        struct tfe_msg got;
        size_t n = encode(&samples[i]);
        assert_int_equal(bytes[0], samples[i].type);
        assert_int_equal(decode(bytes, n, &got), 0);
        assert_same(&samples[i], &got);
        is_covered[samples[i].type] = true;
    }
#define COVERED(NAME, name, number, sender) assert_true(is_covered[number]);
    TFE_MSGS(COVERED)
#undef COVERED
}

TEST(codec, bytes_are_what_protocol_md_says)
{
    NO_FIXTURE;
    static const struct tfe_msg renew = M(RENEW, renew, 5);
    static const struct tfe_msg status = M(STATUS, status, "ab");
    static const struct msg_row row = {1, "h", 300};
    static const struct tfe_msg table = M(TABLE, table, 3, 2, 0, &row, 1);
    static const uint8_t renew_bytes[] = {2, 0x08, 5};
    static const uint8_t status_bytes[] = {64, 0x0a, 2, 'a', 'b'};
    static const struct tfe_msg drain = M(DRAIN, drain, "ab", U);
    static const struct tfe_msg done = M(DONE, done, 0);
    static const struct tfe_msg progress = M(PROGRESS, progress, 3, true, 300, true, 0, 1, 2, true);
    static const struct tfe_msg notice = M(NOTICE, notice, NOTICE_PREEMPT, 120, false, false);
    static const struct tfe_msg save = M(SAVE, save, 3, 2, U);
    static const struct tfe_msg stop = M(STOP, stop, 3, true);
    static const uint8_t progress_bytes[] = {8, 0x08, 3, 0x10, 0xac, 2,    0x18,
                                             0, 0x20, 1, 0x28, 2,    0x30, 1};
    static const uint8_t notice_bytes[] = {9, 0x08, 2, 0x10, 120};
    static const uint8_t save_bytes[] = {43, 0x08, 3, 0x10, 2};
    static const uint8_t stop_bytes[] = {35, 0x08, 3, 0x10, 1};
    assert_int_equal(encode(&progress), sizeof(progress_bytes));
    assert_memory_equal(bytes, progress_bytes, sizeof(progress_bytes));
    assert_int_equal(encode(&notice), sizeof(notice_bytes));
    assert_memory_equal(bytes, notice_bytes, sizeof(notice_bytes));
    assert_int_equal(encode(&save), sizeof(save_bytes));
    assert_memory_equal(bytes, save_bytes, sizeof(save_bytes));
    assert_int_equal(encode(&stop), sizeof(stop_bytes));
    assert_memory_equal(bytes, stop_bytes, sizeof(stop_bytes));
    static const uint8_t drain_bytes[] = {68, 0x0a, 2, 'a', 'b'};
    static const uint8_t done_bytes[] = {71};
    static const uint8_t table_bytes[] = {36, 0x08, 3, 0x10, 2,    0x22, 8,   0x08,
                                          1,  0x12, 1, 'h',  0x18, 0xac, 0x02};
    assert_int_equal(encode(&renew), sizeof(renew_bytes));
    assert_memory_equal(bytes, renew_bytes, sizeof(renew_bytes));
    assert_int_equal(encode(&status), sizeof(status_bytes));
    assert_memory_equal(bytes, status_bytes, sizeof(status_bytes));
    assert_int_equal(encode(&drain), sizeof(drain_bytes));
    assert_memory_equal(bytes, drain_bytes, sizeof(drain_bytes));
    assert_int_equal(encode(&done), sizeof(done_bytes));
    assert_memory_equal(bytes, done_bytes, sizeof(done_bytes));
    assert_int_equal(encode(&table), sizeof(table_bytes));
    assert_memory_equal(bytes, table_bytes, sizeof(table_bytes));
}

TEST(codec, without_room_nothing_is_encoded)
{
    NO_FIXTURE;
    for (size_t i = 0; i < COUNT(samples); i++) {
        size_t n = encode(&samples[i]);
        for (size_t cap = 0; cap < n; cap++) {
            uint8_t *out = malloc(cap + !cap);
            size_t ret;
            assert_int_equal(codec_encode(&samples[i], out, cap, &ret), TFE_ETOOBIG);
            free(out);
        }
    }
}

TEST(codec, a_message_cut_anywhere_is_refused_or_still_in_range)
{
    NO_FIXTURE;
    for (size_t i = 0; i < COUNT(samples); i++) {
        size_t n = encode(&samples[i]);
        for (size_t cut = 0; cut < n; cut++) {
            struct tfe_msg got;
            uint8_t again[SEAL_PLAIN_MAX];
            size_t again_n;
            int rc = decode(bytes, cut, &got);
            if (rc) {
                assert_int_equal(rc, TFE_EPROTO);
            } else {
                assert_int_equal(codec_encode(&got, again, sizeof(again), &again_n), 0);
            }
        }
    }
}

TEST(codec, unknown_types_are_told_apart_and_lengths_have_limits)
{
    NO_FIXTURE;
    for (unsigned type = 0; type < 256; type++) {
        bool is_known = false;
#define IS_KNOWN(NAME, name, number, sender) is_known |= type == (number);
        TFE_MSGS(IS_KNOWN)
#undef IS_KNOWN
        struct tfe_msg got = {.type = (enum tfe_msg_type)type};
        uint8_t in[] = {(uint8_t)type, 0xff};
        size_t n;
        assert_int_equal(decode(in, 2, &got), is_known ? TFE_EPROTO : TFE_EUNKNOWN);
        if (!is_known) {
            assert_int_equal(codec_encode(&got, bytes, sizeof(bytes), &n), TFE_EINVAL);
        }
    }
    struct tfe_msg got;
    assert_int_equal(decode(bytes, 0, &got), TFE_EPROTO);
    /* Legal but for its size: field 101, a text of 16,361 bytes and then of one more. */
    static uint8_t big[SEAL_PLAIN_MAX + 1] = {MSG_STOP, 0x08, 1, 0xaa, 0x06, 0xe9, 0x7f};
    assert_int_equal(decode(big, SEAL_PLAIN_MAX, &got), 0);
    big[5]++;
    assert_int_equal(decode(big, sizeof(big), &got), TFE_EPROTO);
}

TEST(codec, fields_of_a_later_version_are_skipped)
{
    NO_FIXTURE;
    /* Field 100 as varint, 101 as bytes, 102 as eight bytes, 103 as four. */
    static const uint8_t later[] = {0xa0, 0x06, 0x96, 0x01, 0xaa, 0x06, 3, 'x', 0,
                                    'y',  0xb1, 0x06, 1,    2,    3,    4, 5,   6,
                                    7,    8,    0xbd, 0x06, 1,    2,    3, 4};
    for (size_t i = 0; i < COUNT(samples); i++) {
        struct tfe_msg got;
        size_t n = encode(&samples[i]);
        memcpy(bytes + n, later, sizeof(later));
        assert_int_equal(decode(bytes, n + sizeof(later), &got), 0);
        assert_same(&samples[i], &got);
    }
}

/* --- the table in chunks ---------------------------------------------------------------------- */

TEST(codec, a_table_of_any_size_travels_in_chunks)
{
    NO_FIXTURE;
    enum { WORLD = 3000 };
    static struct msg_row big[WORLD];
    static const size_t caps[] = {300, 1000, SEAL_PLAIN_MAX};
    for (uint32_t i = 0; i < WORLD; i++) {
        big[i] = (struct msg_row){i, i % 3 ? "10.0.0.1" : long_host, (uint16_t)(i + 1)};
    }
    const struct msg_table whole = {9, WORLD, 77, big, WORLD, false};
    for (size_t c = 0; c < COUNT(caps); c++) {
        size_t first = 0, n, count;
        while (first < WORLD) {
            struct tfe_msg got;
            assert_int_equal(codec_encode_table_chunk(&whole, first, bytes, caps[c], &n, &count),
                             0);
            assert_true(n <= caps[c]);
            assert_in_range(count, 1, MSG_ROWS_PER_CHUNK);
            assert_int_equal(decode(bytes, n, &got), 0);
            struct msg_table part = whole;
            part.rows = big + first;
            part.n_rows = count;
            same_table(&part, &got.u.table);
            /* As codec_encode would have made it, and one row more would not have fitted. */
            struct tfe_msg same = {.type = MSG_TABLE, .u.table = part};
            uint8_t other[SEAL_PLAIN_MAX];
            size_t other_n;
            assert_int_equal(codec_encode(&same, other, caps[c], &other_n), 0);
            assert_int_equal(other_n, n);
            assert_memory_equal(other, bytes, n);
            if (first + count < WORLD) {
                same.u.table.n_rows++;
                assert_int_equal(codec_encode(&same, other, caps[c], &other_n), TFE_ETOOBIG);
            }
            first += count;
        }
        assert_int_equal(first, WORLD);
    }
}

TEST(codec, a_chunk_has_512_rows_at_most)
{
    NO_FIXTURE;
    static struct msg_row small[MSG_ROWS_PER_CHUNK + 1];
    for (uint32_t i = 0; i <= MSG_ROWS_PER_CHUNK; i++) {
        small[i] = (struct msg_row){i, "h", 1};
    }
    struct tfe_msg msg = M(TABLE, table, 1, MSG_ROWS_PER_CHUNK + 1, 0, small, COUNT(small));
    size_t n, count;
    assert_int_equal(codec_encode_table_chunk(&msg.u.table, 0, bytes, sizeof(bytes), &n, &count),
                     0);
    assert_int_equal(count, 512);
    assert_int_equal(codec_encode(&msg, bytes, sizeof(bytes), &n), TFE_ETOOBIG);
    msg.u.table.n_rows--;
    assert_int_equal(codec_encode(&msg, bytes, sizeof(bytes), &n), 0);
}

TEST(codec, chunks_at_their_edges)
{
    NO_FIXTURE;
    const struct msg_row row = {0, long_host, 1};
    const struct msg_row bad = {1, "h", 1};
    struct msg_table whole = {9, 1, 0, &row, 1, false};
    struct tfe_msg got;
    size_t n, count;
    assert_int_equal(codec_encode_table_chunk(&whole, 1, bytes, sizeof(bytes), &n, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(decode(bytes, n, &got), 0);
    assert_int_equal(got.u.table.n_rows, 0);
    assert_int_equal(codec_encode_table_chunk(&whole, 2, bytes, sizeof(bytes), &n, &count),
                     TFE_EINVAL);
    for (size_t cap = 0; cap < 200; cap++) {
        assert_int_equal(codec_encode_table_chunk(&whole, 0, bytes, cap, &n, &count), TFE_ETOOBIG);
    }
    whole.rows = &bad;
    assert_int_equal(codec_encode_table_chunk(&whole, 0, bytes, sizeof(bytes), &n, &count),
                     TFE_EINVAL);
    whole.epoch = 0;
    assert_int_equal(codec_encode_table_chunk(&whole, 0, bytes, sizeof(bytes), &n, &count),
                     TFE_EINVAL);
}

/* --- garbage ---------------------------------------------------------------------------------- */

/* xorshift64*, seeded: the same garbage every time. */
static uint64_t noise_state;

static uint32_t noise(void)
{
    noise_state ^= noise_state >> 12;
    noise_state ^= noise_state << 25;
    noise_state ^= noise_state >> 27;
    return (uint32_t)(noise_state * 0x2545F4914F6CDD1Du >> 32);
}

/* Whatever is accepted can be said again: it is in range. */
static void decode_and_say_again(const uint8_t *in, size_t n)
{
    static uint8_t again[SEAL_PLAIN_MAX];
    struct tfe_msg got;
    size_t again_n;
    int rc = decode(in, n, &got);
    if (rc == 0) {
        rc = codec_encode(&got, again, sizeof(again), &again_n);
        assert_true(rc == 0);
    } else {
        assert_true(rc == TFE_EPROTO || rc == TFE_EUNKNOWN || rc == TFE_ENOMEM);
    }
}

TEST(codec, random_bytes_do_no_harm)
{
    NO_FIXTURE;
    static const uint8_t types[] = {
#define NUMBER(NAME, name, number, sender) number,
        TFE_MSGS(NUMBER)
#undef NUMBER
    };
    noise_state = 20240607;
    for (int i = 0; i < 100000; i++) {
        size_t n = 1 + noise() % 96;
        for (size_t at = 0; at < n; at++) {
            bytes[at] = (uint8_t)noise();
        }
        bytes[0] = types[noise() % COUNT(types)];
        decode_and_say_again(bytes, n);
    }
}

TEST(codec, honest_messages_with_a_few_bytes_changed_do_no_harm)
{
    NO_FIXTURE;
    static uint8_t in[SEAL_PLAIN_MAX];
    noise_state = 7;
    for (size_t i = 0; i < COUNT(samples); i++) {
        size_t n = encode(&samples[i]);
        for (int round = 0; round < 3000; round++) {
            memcpy(in, bytes, n);
            for (uint32_t edits = 1 + noise() % 4; edits; edits--) {
                /* Near the front, mostly: that is where tags and lengths are. */
                size_t reach = noise() % 2 && n > 40 ? 40 : n;
                in[noise() % reach] = (uint8_t)noise();
            }
            decode_and_say_again(in, n);
        }
    }
}

/* The largest growth known: a frame full of the smallest repeated elements. */
TEST(codec, a_frame_that_grows_stops_at_the_arena_s_cap)
{
    NO_FIXTURE;
    struct tfe_msg got;
    static uint8_t in[SEAL_PLAIN_MAX];
    for (size_t at = 1; at + 1 < sizeof(in); at += 2) {
        in[at] = 0x22; /* an empty Row */
    }
    in[0] = MSG_TABLE;
    int rc = decode(in, sizeof(in) - 1, &got);
    assert_true(rc == TFE_EPROTO || rc == TFE_ENOMEM);
    for (size_t at = 1; at + 1 < sizeof(in); at += 2) {
        in[at] = 0x78; /* unknown field 15, varint 0 */
    }
    in[0] = MSG_STOP;
    rc = decode(in, sizeof(in) - 1, &got);
    assert_true(rc == TFE_EPROTO || rc == TFE_ENOMEM);
}

int main(void)
{
    fill_texts();
    const struct CMUnitTest tests[] = {
        STORY(codec, every_message_survives_full_and_minimal),
        STORY(codec, bytes_are_what_protocol_md_says),
        STORY(codec, without_room_nothing_is_encoded),
        STORY(codec, a_message_cut_anywhere_is_refused_or_still_in_range),
        STORY(codec, unknown_types_are_told_apart_and_lengths_have_limits),
        STORY(codec, fields_of_a_later_version_are_skipped),
        STORY(codec, a_table_of_any_size_travels_in_chunks),
        STORY(codec, a_chunk_has_512_rows_at_most),
        STORY(codec, chunks_at_their_edges),
        STORY(codec, random_bytes_do_no_harm),
        STORY(codec, honest_messages_with_a_few_bytes_changed_do_no_harm),
        STORY(codec, a_frame_that_grows_stops_at_the_arena_s_cap),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
