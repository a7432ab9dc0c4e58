/* tests/unit/message/test_codec.c: round trips of every message type, tables in chunks, and random
 * input. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/id.h"
#include "common/message/codec_fields.h"
#include "tests/unit/message/codec_fixture.h"

/* --- one message of every type, full and minimal ---------------------------------------------- */

static char long_id[TFE_ID_MAX + 1], long_label[TFE_LABEL_MAX + 1], long_host[TFE_HOST_MAX + 1];
static char long_tail[MSG_TAIL_MAX + 1], long_sentence[MSG_SENTENCE_MAX + 1];
static char long_submitted[MSG_SUBMIT_MAX + 1];
static char long_spec[MSG_SPEC_MAX + 1], long_masked[MSG_SPEC_MAX + MSG_MASKS_MAX + 1];
static uint8_t many_bytes[MSG_CHUNK_MAX]; /* may contain any byte, including NUL */
#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
static uint16_t many_ports[MSG_NPROC_MAX];
static uint32_t many_pids[MSG_PIDS_MAX];

static const struct msg_exited full_exited = {.epoch = MSG_NUMBER_MAX,
                                              .local_rank = 63,
                                              .code = 0,
                                              .signal = 9,
                                              .stopped = true,
                                              .tail = long_tail,
                                              .end = ENDING_START_FAILED,
                                              .restart = MSG_NUMBER_MAX};
static const struct msg_running full_running = {.run = MSG_RUN_MAX,
                                                .rank = 65536 * 64 - 1,
                                                .nodes = 65536,
                                                .world = 65536 * 64,
                                                .digest = UINT64_MAX,
                                                .host = long_host,
                                                .ports = many_ports,
                                                .n_ports = 64,
                                                .cause = CAUSE_DRAINED};
static const struct msg_row rows[] = {{0, "10.0.0.1", 1, TASK_WORKER, 0},
                                      {1, long_host, 65535, TASK_WORKER, 0},
                                      {7, "[::1]", 80, TASK_WORKER, 0}};

static void fill_texts(void)
{
    memset(long_id, 'i', TFE_ID_MAX);
    memset(long_label, 'l', TFE_LABEL_MAX);
    memset(long_host, 'h', TFE_HOST_MAX);
    memset(long_tail, 't', MSG_TAIL_MAX);
    memset(long_spec, 's', sizeof long_spec - 1);
    memset(long_masked, 'm', sizeof long_masked - 1);
    memset(long_submitted, 's', sizeof long_submitted - 1);
    for (size_t i = 0; i < MSG_CHUNK_MAX; i++) {
        many_bytes[i] = (uint8_t)i;
    }
    memset(long_sentence, 's', MSG_SENTENCE_MAX);
    for (size_t i = 0; i < MSG_NPROC_MAX; i++) {
        many_ports[i] = (uint16_t)(65535 - i);
    }
    for (size_t i = 0; i < MSG_PIDS_MAX; i++) {
        many_pids[i] = (uint32_t)(INT32_MAX - (int)i);
    }
}

static const struct msg_metric many_metrics[] = {{"loss", 0.25}, {"val/acc-1.0_x", -1e300}};

static const char *const many_labels[] = {"gpu=a100", "zone=", "k=v=w"};

static const struct tfe_msg samples[] = {
    M(JOIN, join, long_id, long_id, long_id,
      {65536, 65536, 64, 1000000, D, 0, 1, D, D, true, 6, 65536, true, true, true, true, true,
       JOB_RESTART_MAX, 6},
      true, long_id, true, INT32_MAX, MSG_NUMBER_MAX, 5, &full_exited, &full_running, NODE_SECRET,
      true, long_id, NODE_SECRET, 65535, long_host, true, TASK_EVALUATOR, true, MSG_NUMBER_MAX),
    M(JOIN, join, "j", "n", "", {1, 1, 1, U, U, U, U, U, U, false, 0}, false, NULL, false, 0, 0, 0,
      NULL, NULL, NODE_SECRET, false, NULL, NULL, 0, NULL, true, TASK_WORKER),
    M(JOIN, join, "j", "n", "", {1, 1, 1, U, U, U, U, U, U, false, 0}, false, NULL, false, 0, 0, 0,
      NULL, NULL, NODE_SECRET, false, NULL, NULL, 0),
    M(RENEW, renew, UINT64_MAX),
    M(RENEW, renew, 0),
    M(READY, ready, MSG_NUMBER_MAX, long_host, many_ports, MSG_NPROC_MAX, UINT64_MAX, true, long_id,
      {MSG_NUMBER_MAX, true, MSG_NUMBER_MAX, MSG_STEP_MAX}),
    M(READY, ready, 1, "h", many_ports, 1, 0, false),
    M(LISTENING, listening, MSG_NUMBER_MAX),
    M(LISTENING, listening, 1),
    M(EXITED, exited, MSG_NUMBER_MAX, 63, 255, 0, true, long_tail, ENDING_OUT_OF_MEMORY),
    M(EXITED, exited, 1, 0, 0, 0, false, ""),
    M(GOODBYE, goodbye, true, true),
    M(GOODBYE, goodbye, false),
    M(PROCESSES, processes, INT32_MAX, many_pids, MSG_PIDS_MAX, many_pids, MSG_PIDS_MAX),
    M(PROCESSES, processes, 0, NULL, 0, NULL, 0),
    M(WELCOME, welcome, long_id, UINT64_MAX, MSG_RUN_MAX, D, D, D, D, D, long_sentence),
    M(WELCOME, welcome, "n", 0, 1, 1, 1, 1, 0, 0),
    M(RENEWED, renewed, UINT64_MAX, D, D, D, long_sentence, D, true),
    M(RENEWED, renewed, 0, 1, 1, 0),
    M(PREPARE, prepare, MSG_NUMBER_MAX, true, true),
    M(PREPARE, prepare, 1, false, false),
    M(PROGRESS, progress, MSG_NUMBER_MAX, MSG_STEP_MAX, MSG_STEP_MAX, MSG_NUMBER_MAX, UINT32_MAX,
      true, true, true, true, {MSG_NUMBER_MAX, true, MSG_NUMBER_MAX, MSG_STEP_MAX}, MSG_STEP_MAX,
      true, MSG_NUMBER_MAX, true),
    M(PROGRESS, progress, 1, 0, 0, 0, 0, false, false, false, true, {1, true, 1, 0}, 0, false),
    M(PROGRESS, progress, 1, 0, 0, 0, 0, false, true, false),
    M(PROGRESS, progress, 1, 0, 0, 0, 0, true, false, false),
    M(NOTICE, notice, NOTICE_OPERATOR, D, true, true, true),
    M(NOTICE, notice, NOTICE_REBALANCE, U, false, false),
    M(STOP, stop, MSG_NUMBER_MAX, true, CAUSE_PREEMPTED, long_label, long_sentence, true),
    M(STOP, stop, 1, false),
    M(SAVE, save, MSG_NUMBER_MAX, MSG_NUMBER_MAX, D, true),
    M(SAVE, save, 1, 1, U),
    M(TABLE, table, MSG_NUMBER_MAX, 8, UINT64_MAX, rows, COUNT(rows), true),
    M(TABLE, table, 1, 65536 * 64, 0, NULL, 0),
    M(START, start, MSG_NUMBER_MAX, MSG_RUN_MAX, 65536 * 64 - 1, 65536 * 64, 65536,
      CAUSE_INTERRUPTED, UINT64_MAX, D),
    M(START, start, 1, 1, 0, 1, 1, CAUSE_START, 0, 0),
    M(START, start, 1, 1, 5, 5, 3, CAUSE_START, 0, 0, true),
    M(RESTART, restart, MSG_NUMBER_MAX, MSG_NUMBER_MAX),
    M(RESTART, restart, 1, 1),
    M(NOTED, noted, MSG_NUMBER_MAX),
    M(NOTED, noted, 1),
    M(LEASE_ENDED, lease_ended, MSG_NUMBER_MAX),
    M(LEASE_ENDED, lease_ended, 0),
    M(FINISH, finish, RESULT_DRAINED, MSG_RUN_MAX, long_sentence),
    M(FINISH, finish, RESULT_SUCCEEDED, 1, ""),
    M(REFUSED, refused, REFUSAL_EVICTED, long_sentence),
    M(REFUSED, refused, REFUSAL_COMMIT_MISMATCH, "", UINT64_MAX),
    M(PROBE, probe, UINT64_MAX, PROBE_SUSPECT, long_id, long_host, many_ports, MSG_NPROC_MAX,
      65535),
    M(PROBE, probe, 0, PROBE_ADDRESS, "n", "h", many_ports, 1),
    M(PROBED, probed, UINT64_MAX, PROBE_REFUSED),
    M(PROBED, probed, 0, PROBE_ANSWERED_OURS),
    M(DEATH, death, NODE_SECRET),
    M(REFUSED, refused, REFUSAL_ADDRESS_UNREACHABLE, long_sentence),
    M(REFUSED, refused, REFUSAL_STORE, long_sentence),
    M(REFUSED, refused, REFUSAL_NOT_AUTHORISED, ""),
    M(STATUS, status, long_id, false, true),
    M(STATUS, status, NULL, true, false),
    M(HEALTH, health, "store", long_sentence, D),
    M(HEALTH, health, "late", "s", 0),
    M(STATUS_JOB, status_job, long_id, STATE_SET_ASIDE, "running", MSG_RUN_MAX, MSG_NUMBER_MAX, 1,
      65536, 64, UINT32_MAX, long_sentence, D, 65536, 65536, 65536, 65536, UINT32_MAX, 65536, true,
      true, true, MSG_STEP_MAX, true, 12.5, true, 1e9, MSG_STEP_MAX, MSG_STEP_MAX, D, long_label,
      UINT32_MAX, UINT64_MAX, 65536, 65536, 65536, 65536, {INT64_MAX}, {INT64_MAX}, long_sentence,
      D, true, 1000, UINT32_MAX, {INT64_MAX}, true, long_masked, true, MSG_STEP_MAX, {INT64_MAX}),
    M(STATUS_JOB, status_job, "j", STATE_WAITING, "", 0, 0, 1, 1, 1, 0),
    M(STATUS_NODE, status_node, long_id, long_id, ROLE_LEAVING, true, 0, long_host, 65535,
      INT32_MAX, {1, many_pids, MSG_PIDS_MAX, many_pids, MSG_PIDS_MAX}, long_sentence,
      {MSG_NUMBER_MAX, true, MSG_NUMBER_MAX, MSG_STEP_MAX}, true, TASK_PS, 65536 * 64 - 1,
      {64, 1 << 20, 8, long_label, 81920, "2.21.0", "gce", "z", "n2", true, true},
      {UINT32_MAX, 1, 2, 1, WARMTH_COLD}, 2100, true, "preempt", {INT64_MAX}, {INT64_MAX}),
    M(STATUS_NODE, status_node, "n", "", ROLE_MEMBER, false, 0, NULL, 0, 0, {0, NULL, 0, NULL, 0}),
    M(STATUS_END, status_end, UINT32_MAX, UINT64_MAX),
    M(STATUS_END, status_end, 0),
    M(DRAIN, drain, long_id, D),
    M(DRAIN, drain, "n", U),
    M(ENROL, enrol, NODE_SECRET),
    M(ENROLLED, enrolled, "0123456789abcdef0123456789abcdef", NODE_SECRET, "00ff", {INT64_MAX}),
    M(GAUGES, gauges, 0),
    M(DEMAND, demand, 0),
    M(DEMAND_ROW, demand_row, "", false, 0, 0, 0, 0, 0, 0, 0, {0}),
    M(DEMAND_ROW, demand_row, "gpu=a100,zone=b", true, TASK_PS, 1, 2, 3, 4, 5, 6, {7}),
    M(GAUGE, gauge, "tfe_epoch_phase_seconds_bucket", "phase=stop,le=0.1", 1e300, "histogram",
      long_sentence),
    M(GAUGE, gauge, "tfe_jobs", "", 0, NULL, NULL),
    M(AGENTS, agents, 0),
    M(AGENT_ROW, agent_row, long_id, "k", "label", "team-*", "[::1]:1", true, "n", long_id, "j",
      {INT64_MAX}),
    M(AGENT_ROW, agent_row, "k", "k", "", "*", "a", false, "", "", "", {0}),
    M(REVOKE_AGENT, revoke_agent, long_id),
    M(MACHINE_INFO, machine_info, UINT32_MAX, MSG_NUMBER_MAX, 8, long_label, MSG_NUMBER_MAX,
      long_id, "aws", "eu-west-1a", "p4d.24xlarge", true, true, "gpu: GPU 0 is lost"),
    M(MACHINE_INFO, machine_info, 0),
    M(MACHINE_STATS, machine_stats, UINT32_MAX, MSG_NUMBER_MAX, MSG_NUMBER_MAX, MSG_NUMBER_MAX,
      WARMTH_WARM),
    M(MACHINE_STATS, machine_stats, 0),
    M(METRICS, metrics, MSG_NUMBER_MAX, MSG_STEP_MAX, 1, 2, many_metrics, COUNT(many_metrics)),
    M(METRICS, metrics, 1, 0),
    M(ARTIFACT, artifact, MSG_NUMBER_MAX, ARTIFACT_FAILED, "s3://b/m", MSG_NUMBER_MAX,
      MSG_NUMBER_MAX, long_label),
    M(ARTIFACT, artifact, 1, ARTIFACT_STORING, "m", 0, 0, NULL),
    M(EVENTS, events, long_id, UINT64_MAX, UINT32_MAX),
    M(EVENTS, events, NULL, 0, 0),
    M(EVENT_ROW, event_row, UINT64_MAX, {INT64_MAX}, "lost", EVENT_ERROR, long_id, MSG_RUN_MAX,
      MSG_NUMBER_MAX, long_id, long_id, long_sentence),
    M(EVENT_ROW, event_row, 1, {0}, "k", EVENT_INFO, "", 0, 0, "", "", ""),
    M(SERIES, series, long_id, MSG_RUN_MAX, "loss", UINT64_MAX),
    M(SERIES, series, "j", 0, NULL, 0),
    M(SERIES_ROW, series_row, long_id, MSG_RUN_MAX, "loss", UINT64_MAX, MSG_NUMBER_MAX,
      MSG_STEP_MAX, {INT64_MAX}, -0.5),
    M(SERIES_ROW, series_row, "j", 1, "n", 1, 0, 0, {0}, 0),
    M(AUDIT, audit, 0),
    M(AUDIT_ROW, audit_row, UINT64_MAX, {INT64_MAX}, "k", "label", "[::1]:1", "EVICT", "n", "done",
      long_id),
    M(AUDIT_ROW, audit_row, 1, {0}, "", "", "a", "w", "", "r", "h"),
    M(UNBAN, unban, long_id),
    M(BANS, bans, 0),
    M(BAN_ROW, ban_row, long_id, "j", "k", long_id, "k", {INT64_MAX}),
    M(BAN_ROW, ban_row, "n", "j", "", "", "", {0}),
    M(EVICT, evict, long_id, D),
    M(EVICT, evict, "a-label", 0),
    M(FORGET, forget, long_id),
    M(GROW, grow, long_id),
    M(DONE, done, 0),
    M(EPOCHS, epochs, long_id),
    M(EPOCH_ROW, epoch_row, MSG_RUN_MAX, MSG_NUMBER_MAX, CAUSE_PREEMPTED, long_label, true, 65536,
      {{INT64_MAX}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}, true, MSG_STEP_MAX, true, MSG_STEP_MAX,
      true, UINT32_MAX),
    M(EPOCH_ROW, epoch_row, 1, 1, CAUSE_START, "", false, 0, {{0}}, false, 0, false, 0, false),
    M(EPOCH_ROW, epoch_row, 1, 1, CAUSE_START, "", false, 1, {{0}}, true, 0, true, 0, false),
    M(BACKUP, backup, "a"),
    M(BACKUP, backup, "2026-11-22_nightly.db"),
    M(TOKEN_CREATE, token_create, 3, long_id, D, MSG_KEY_USES_MAX, long_id, MSG_NODES_MAX),
    M(TOKEN_CREATE, token_create, 1, "*", 0, 0, ""),
    M(TOKEN, token, "0123", "tfe1_agent_"),
    M(TOKENS, tokens, 0),
    M(TOKEN_ROW, token_row, long_id, 3, "team-*", "label", UINT8_MAX, MSG_KEY_USES_MAX, "a,b",
      {INT64_MAX}, {INT64_MAX}, {INT64_MAX}, "good", MSG_NODES_MAX),
    M(TOKEN_ROW, token_row, "k", 1, "*", "", 0, 0, "", {0}, {0}, {0}, ""),
    M(TOKEN_REVOKE, token_revoke, "a-label"),
    M(TOKEN_ROTATE, token_rotate, ROTATE_RENEW),
    M(TOKEN_ROTATE, token_rotate, ROTATE_REMOVE),
    M(LOGS, logs, long_id, true, 65536 * 64 - 1, long_id, MSG_NUMBER_MAX, true, U - 1, {INT64_MAX}),
    M(LOGS, logs, "j", false, 0, NULL, 0, false, U, {0}),
    M(LOG_LINES, log_lines, long_id, long_id, MSG_NUMBER_MAX, 0, STREAM_STDERR, {INT64_MAX},
      long_tail, UINT64_MAX, true, true),
    M(LOG_LINES, log_lines, "n", "", 0, 7, STREAM_STDOUT, {0}, "", 0, false, false),
    M(LOG_REQUEST, log_request, UINT64_MAX, true, 65536 * 64 - 1, MSG_NUMBER_MAX, true, 0,
      {INT64_MAX}, MSG_LOG_WINDOW_MAX),
    M(LOG_REQUEST, log_request, 0, false, 0, 0, false, U, {0}, 1),
    M(LOG_CREDIT, log_credit, UINT64_MAX, MSG_LOG_WINDOW_MAX),
    M(LOG_STOP, log_stop, UINT64_MAX),
    M(LOG_CHUNK, log_chunk, UINT64_MAX, MSG_NUMBER_MAX, 0, STREAM_STDOUT, {INT64_MAX}, long_tail,
      UINT64_MAX, UINT64_MAX),
    M(LOG_CHUNK, log_chunk, 0, 1, 0, STREAM_STDERR, {0}, "", 0),
    M(LOG_DONE, log_done, 1),
    M(POOL, pool, many_labels, COUNT(many_labels), 65536, MSG_NUMBER_MAX, D, 65536, long_id,
      long_host, long_id, NODE_SECRET),
    M(POOL, pool, NULL, 0, 0, 0, 0, 0, "", NULL, "n", NODE_SECRET),
    M(FREED, freed, MSG_NUMBER_MAX, 255, long_sentence),
    M(FREED, freed, 1, 0, ""),
    M(ASSIGN, assign, MSG_NUMBER_MAX, long_spec, true, TASK_EVALUATOR, long_id),
    M(ASSIGN, assign, 1, "{}", true, TASK_WORKER, "r"),
    M(ASSIGN, assign, 1, "{}", false, TASK_WORKER, "r"),
    M(RELEASE, release, MSG_NUMBER_MAX, D, long_sentence, OUT_EVICTED, true),
    M(RELEASE, release, 0, 0, "", OUT_NOT, false),
    M(SUBMIT, submit, long_id, long_submitted),
    M(SUBMIT, submit, "j", "{}"),
    M(CONDITION_ROW, condition_row, "Waiting", true, "WaitsForNodes", {INT64_MAX}, long_sentence),
    M(CONDITION_ROW, condition_row, "c", false, "r", {0}, ""),
    M(POOL_NODES, pool_nodes, 0),
    M(POOL_ROW, pool_row, long_id, long_id, "a=b,c=d", long_host, "assigned", {INT64_MAX},
      MSG_NUMBER_MAX, long_id, true, TASK_PS,
      {64, 1 << 20, 8, long_label, 81920, "2.21.0", "gce", "z", "n2", true, true}),
    M(POOL_ROW, pool_row, "n", "", "", NULL, "free", {0}, 0, "", false, TASK_WORKER),
    M(FETCH, fetch, DIGEST, MSG_BUNDLE_MAX, MSG_FETCH_MAX, long_sentence),
    M(FETCH, fetch, DIGEST, 0, 1, NULL),
    M(CHUNK, chunk, DIGEST, MSG_BUNDLE_MAX - MSG_CHUNK_MAX, MSG_BUNDLE_MAX, many_bytes,
      MSG_CHUNK_MAX, ""),
    M(CHUNK, chunk, DIGEST, 0, 0, NULL, 0, long_sentence),
    M(BUNDLE_HAVE, bundle_have, DIGEST, MSG_BUNDLE_MAX),
    M(BUNDLE_WANT, bundle_want, DIGEST, MSG_BUNDLE_MAX - 1, MSG_BUNDLE_MAX),
    M(BUNDLE_WANT, bundle_want, DIGEST, 0, 1),
    M(BUNDLE_PUT, bundle_put, DIGEST, MSG_BUNDLE_MAX, many_bytes, MSG_CHUNK_MAX, true),
    M(BUNDLE_PUT, bundle_put, DIGEST, 0, many_bytes, 1, false),
    M(SCALE, scale, long_id, 1, 65536, 65536),
    M(SCALE, scale, "j", 1, 1, U),
    M(SUSPEND, suspend, long_id),
    M(RESUME, resume, long_id),
    M(CANCEL, cancel, long_id),
    M(RERUN, rerun, long_id),
};

/* --- comparison ------------------------------------------------------------------------------- */

static const void *pointer_at(const void *at)
{
    const void *pointer;
    memcpy(&pointer, at, sizeof(pointer));
    return pointer;
}

static void assert_same_text(const char *a, const char *b)
{
    assert_int_equal(!a, !b);
    if (a) {
        assert_string_equal(a, b);
    }
}

/* Compares two structs field by field as the codec's layout lists them and blanks what it has
 * compared; the remaining bytes must be equal. So a sample that sets a member without a layout row
 * fails. (Samples are static: their padding is zero.) */
static void assert_same_struct(const struct codec_layout *layout, const void *a, const void *b)
{
    uint8_t left[sizeof(struct tfe_msg)], right[sizeof(struct tfe_msg)];
    memcpy(left, a, layout->size);
    memcpy(right, b, layout->size);
    for (size_t i = 1; i < layout->n_fields; i++) {
        const struct codec_field *row = &layout->fields[i];
        size_t n = row->kind == CODEC_PART ? 1 : 0;
        bool is_pointer = row->kind != CODEC_NUMBER;
        const char *x = pointer_at(left + row->offset), *y = pointer_at(right + row->offset);
        if (row->kind == CODEC_TEXT) {
            assert_same_text(x, y);
        } else if (row->kind == CODEC_LIST) {
            memcpy(&n, left + row->companion, sizeof(n));
            assert_memory_equal(left + row->companion, right + row->companion, sizeof(n));
        } else if (row->kind == CODEC_BYTES) {
            memcpy(&n, left + row->companion, sizeof(n));
            assert_memory_equal(left + row->companion, right + row->companion, sizeof(n));
            assert_true(n == 0 || memcmp(x, y, n) == 0);
            n = 0;
        } else if (row->kind == CODEC_PART && row->absent == CODEC_NULL) {
            assert_int_equal(!x, !y);
            n = x ? 1 : 0;
        } else if (row->kind == CODEC_PART) {
            x = (const char *)a + row->offset, y = (const char *)b + row->offset;
            is_pointer = false;
            memset(left + row->offset, 0, row->size);
            memset(right + row->offset, 0, row->size);
        }
        for (size_t k = 0; k < n && row->part; k++) {
            assert_same_struct(row->part, x + k * row->part->size, y + k * row->part->size);
        }
        for (size_t k = 0; k < n && row->is_legal; k++) {
            assert_same_text(pointer_at(x + k * row->size), pointer_at(y + k * row->size));
        }
        if (n > 0 && !row->part && !row->is_legal) {
            assert_memory_equal(x, y, n * row->size);
        }
        memset(left + row->offset, 0, is_pointer ? sizeof(x) : 0);
        memset(right + row->offset, 0, is_pointer ? sizeof(y) : 0);
    }
    assert_memory_equal(left, right, layout->size);
}

static void assert_same(const struct tfe_msg *a, const struct tfe_msg *b)
{
    assert_int_equal(a->type, b->type);
    assert_same_struct(codec_layout_of(a->type), &a->u, &b->u);
}

/* --- round trips ------------------------------------------------------------------------------ */

TEST(codec, every_message_round_trips_full_and_minimal)
{
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

TEST(codec, lists_of_every_length_round_trip)
{
    uint32_t pids[64]; /* one- and two-byte varints, for packed lengths below and above 127 */
    for (size_t wide = 0; wide <= 64; wide++) {
        for (size_t i = 0; i < 64; i++) {
            pids[i] = i < wide ? 200 : 100;
        }
        struct tfe_msg msg = {.type = MSG_PROCESSES,
                              .u.processes = {.trainer_pids = pids, .n_trainer_pids = 64}};
        struct tfe_msg got;
        size_t n = encode(&msg);
        assert_int_equal(decode(bytes, n, &got), 0);
        assert_same(&msg, &got);
    }
}

TEST(codec, bytes_match_protocol_md)
{
    static const struct msg_row row = {1, "h", 300, TASK_WORKER, 0};
    static const struct {
        struct tfe_msg msg;
        size_t n;
        uint8_t bytes[18];
    } cases[] = {
        {M(RENEW, renew, 5), 3, {2, 0x08, 5}},
        {M(STOP, stop, 3, true), 5, {35, 0x08, 3, 0x10, 1}},
        {M(SAVE, save, 3, 2, U), 5, {43, 0x08, 3, 0x10, 2}},
        {M(SAVE, save, 3, 2, U, true), 7, {43, 0x08, 3, 0x10, 2, 0x20, 1}},
        {M(STOP, stop, 3, true, 0, NULL, NULL, true), 7, {35, 0x08, 3, 0x10, 1, 0x30, 1}},
        {M(NOTICE, notice, NOTICE_PREEMPT, 120, false, false), 5, {9, 0x08, 2, 0x10, 120}},
        {M(PROGRESS, progress, 3, 300, 0, 2, 1, true, true, true, false, {0}, 0, true),
         18,
         {8, 0x08, 3, 0x10, 0xac, 2, 0x18, 0, 0x20, 1, 0x28, 2, 0x30, 1, 0x3a, 0, 0x48, 1}},
        {M(STATUS, status, "ab"), 5, {64, 0x0a, 2, 'a', 'b'}},
        {M(DRAIN, drain, "ab", U), 5, {68, 0x0a, 2, 'a', 'b'}},
        {M(DONE, done, 0), 1, {71}},
        {M(TABLE, table, 3, 2, 0, &row, 1),
         15,
         {36, 0x08, 3, 0x10, 2, 0x22, 8, 0x08, 1, 0x12, 1, 'h', 0x18, 0xac, 0x02}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(encode(&cases[i].msg), cases[i].n);
        assert_memory_equal(bytes, cases[i].bytes, cases[i].n);
    }
}

/* A table is left out, because its rows are encoded last. */
TEST(codec, bytes_match_protobuf_c)
{
    for (size_t i = 0; i < COUNT(samples); i++) {
        static uint8_t packed[SEAL_PLAIN_MAX];
        size_t n = encode(&samples[i]);
        ProtobufCMessage *pb = protobuf_c_message_unpack(
            codec_layout_of(samples[i].type)->descriptor, NULL, n - 1, bytes + 1);
        assert_non_null(pb);
        assert_int_equal(protobuf_c_message_pack(pb, packed), n - 1);
        if (samples[i].type != MSG_TABLE) {
            assert_memory_equal(packed, bytes + 1, n - 1);
        }
        protobuf_c_message_free_unpacked(pb, NULL);
    }
}

TEST(codec, too_small_buffer_is_refused)
{
    for (size_t i = 0; i < COUNT(samples); i++) {
        size_t n = encode(&samples[i]);
        for (size_t cap = 0; cap <= n; cap++) {
            uint8_t *out = malloc(cap + !cap);
            size_t ret;
            assert_int_equal(codec_encode(&samples[i], out, cap, &ret), cap < n ? TFE_ETOOBIG : 0);
            if (cap == n) {
                assert_memory_equal(out, bytes, n);
            }
            free(out);
        }
    }
}

TEST(codec, truncated_message_is_refused_or_in_range)
{
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

TEST(codec, unknown_type_is_distinguished_and_lengths_are_limited)
{
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
    /* Valid except for its size: field 101 is a text of 16,361 bytes, then of 16,362. */
    static uint8_t big[SEAL_PLAIN_MAX + 1] = {MSG_STOP, 0x08, 1, 0xaa, 0x06, 0xe9, 0x7f};
    assert_int_equal(decode(big, SEAL_PLAIN_MAX, &got), 0);
    big[5]++;
    assert_int_equal(decode(big, sizeof(big), &got), TFE_EPROTO);
}

TEST(codec, fields_of_a_later_version_are_skipped)
{
    /* Unknown fields: 100 as varint, 101 as bytes, 102 as fixed64, 103 as fixed32. */
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

/* --- tables in chunks ------------------------------------------------------------------------- */

TEST(codec, table_of_any_size_is_sent_in_chunks)
{
    enum { WORLD = 3000 };
    static struct msg_row big[WORLD];
    static const size_t caps[] = {300, 1000, SEAL_PLAIN_MAX};
    for (uint32_t i = 0; i < WORLD; i++) {
        big[i].rank = i;
        big[i].host = i % 3 ? "10.0.0.1" : long_host;
        big[i].port = (uint16_t)(i + 1);
    }
    static const struct msg_table whole = {9, WORLD, 77, big, WORLD, false};
    for (size_t c = 0; c < COUNT(caps); c++) {
        size_t first = 0, n, count;
        while (first < WORLD) {
            struct tfe_msg got;
            assert_int_equal(codec_encode_table_chunk(&whole, first, bytes, caps[c], &n, &count),
                             0);
            assert_true(n <= caps[c]);
            assert_in_range(count, 1, MSG_ROWS_PER_CHUNK);
            assert_int_equal(decode(bytes, n, &got), 0);
            static struct tfe_msg same = {.type = MSG_TABLE};
            memcpy(&same.u.table, &whole, sizeof(whole));
            same.u.table.rows = big + first;
            same.u.table.n_rows = count;
            assert_same(&same, &got);
            /* A chunk equals the output of codec_encode, and one more row would not have fitted. */
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

TEST(codec, chunk_has_at_most_512_rows)
{
    static struct msg_row small[MSG_ROWS_PER_CHUNK + 1];
    for (uint32_t i = 0; i <= MSG_ROWS_PER_CHUNK; i++) {
        small[i] = (struct msg_row){i, "h", 1, TASK_WORKER, 0};
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

TEST(codec, chunk_at_its_limits_round_trips)
{
    const struct msg_row row = {0, long_host, 1, TASK_WORKER, 0};
    const struct msg_row bad = {1, "h", 1, TASK_WORKER, 0};
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

/* --- random input ----------------------------------------------------------------------------- */

/* xorshift64* with a fixed seed, so that every run uses the same input. */
static uint64_t noise_state;

static uint32_t noise(void)
{
    noise_state ^= noise_state >> 12;
    noise_state ^= noise_state << 25;
    noise_state ^= noise_state >> 27;
    return (uint32_t)(noise_state * 0x2545F4914F6CDD1Du >> 32);
}

/* A message that is accepted can be encoded again, so its values are in range. */
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

TEST(codec, random_bytes_are_handled)
{
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

TEST(codec, valid_messages_with_changed_bytes_are_handled)
{
    static uint8_t in[SEAL_PLAIN_MAX];
    noise_state = 7;
    for (size_t i = 0; i < COUNT(samples); i++) {
        size_t n = encode(&samples[i]);
        for (int round = 0; round < 3000; round++) {
            memcpy(in, bytes, n);
            for (uint32_t edits = 1 + noise() % 4; edits; edits--) {
                /* Half of the changes hit the first 40 bytes, where most tags and lengths are. */
                size_t reach = noise() % 2 && n > 40 ? 40 : n;
                in[noise() % reach] = (uint8_t)noise();
            }
            decode_and_say_again(in, n);
        }
    }
}

/* The largest known growth: a frame full of the smallest repeated elements. */
TEST(codec, growing_message_stops_at_the_arena_limit)
{
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
    return stories_run(set_up, tear_down);
}
