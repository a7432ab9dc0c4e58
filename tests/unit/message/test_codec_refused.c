/* tests/unit/message/test_codec_refused.c: invalid values are refused when encoding and when
 * decoding. */
#include <math.h>
#include <string.h>

#include "tests/unit/message/codec_fixture.h"

static uint16_t many_ports[MSG_NPROC_MAX + 1];
static uint32_t many_pids[MSG_PIDS_MAX + 1];

/* --- values out of range ---------------------------------------------------------------------- */

static const uint16_t zero_port[] = {0};
static const uint32_t zero_pid[] = {0}, negative_pid[] = {0x80000000u};
static const struct msg_metric not_finite = {"n", NAN}, no_name = {"", 1}, odd_name = {"a b", 1};
static const struct msg_metric many_metrics[MSG_METRICS_MAX + 1] = {{"n", 1}};
static char too_long[MSG_TAIL_MAX + 2];
static const uint8_t some_bytes[MSG_CHUNK_MAX + 1] = {1};
#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ODD_DIGEST "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef"
static const char *const words[] = {"no-label"}, *const servers_label[] = {"@jobs=a"};
static const char *many_labels[MSG_POOL_LABELS_MAX + 1];
static char long_submitted[MSG_SUBMIT_MAX + 2]; /* one character too long */
static char long_spec[MSG_SPEC_MAX + 2];        /* one character too long */
static const struct msg_exited bad_exited = {.epoch = 0, .tail = ""};
static const struct msg_exited two_ends = {.epoch = 1, .code = 1, .signal = 9, .tail = ""};

#define JOIN(job, node, name, min, max, nproc, gather, grow, grace, pid, exited)                   \
    M(JOIN, join, job, node, name, {min, max, nproc, 0, gather, grow, grace, grace, 0, false, 0},  \
      false, NULL, false, pid, 0, 0, exited, NULL, NODE_SECRET)
/* A valid JOIN except for these values, with a RUNNING of two nodes. */
#define RUNS(epoch, key, chief, running)                                                           \
    "j", "n", "", {1, 1, 1, 0, 0, 0, 0, 0, chief, false, 0}, false, key, false, 0, 1, epoch, NULL, \
        running, NODE_SECRET
#define RUNNING(run, rank, nodes, world, host, ports, n, cause)                                    \
    &(const struct msg_running)                                                                    \
    {                                                                                              \
        run, rank, nodes, world, 1, host, ports, n, (enum tfe_cause)(cause)                        \
    }
#define ROW(...) &(const struct msg_row){__VA_ARGS__, TASK_WORKER, 0}, 1

/* The encoder refuses these messages, and so does the decoder: both use the same layout and rules.
 */
static const struct tfe_msg out_of_range[] = {
    JOIN("", "n", "", 1, 1, 1, 0, 0, 0, 0, NULL),
    JOIN(NULL, "n", "", 1, 1, 1, 0, 0, 0, 0, NULL),
    JOIN("a/b", "n", "", 1, 1, 1, 0, 0, 0, 0, NULL),
    JOIN("..", "n", "", 1, 1, 1, 0, 0, 0, 0, NULL),
    JOIN("j", "n", "..", 1, 1, 1, 0, 0, 0, 0, NULL),
    JOIN("j", "n n", "", 1, 1, 1, 0, 0, 0, 0, NULL),
    JOIN("j", too_long, "", 1, 1, 1, 0, 0, 0, 0, NULL),
    JOIN("j", "n", NULL, 1, 1, 1, 0, 0, 0, 0, NULL),
    JOIN("j", "n", too_long, 1, 1, 1, 0, 0, 0, 0, NULL),
    JOIN("j", "n", "a\nb", 1, 1, 1, 0, 0, 0, 0, NULL),
    JOIN("j", "n", "\x7f", 1, 1, 1, 0, 0, 0, 0, NULL),
    JOIN("j", "n", "", 0, 1, 1, 0, 0, 0, 0, NULL),
    JOIN("j", "n", "", 2, 1, 1, 0, 0, 0, 0, NULL),
    JOIN("j", "n", "", 1, 65537, 1, 0, 0, 0, 0, NULL),
    JOIN("j", "n", "", 1, 1, 0, 0, 0, 0, 0, NULL),
    JOIN("j", "n", "", 1, 1, 65, 0, 0, 0, 0, NULL),
    JOIN("j", "n", "", 1, 1, 1, D + 1, 0, 0, 0, NULL),
    JOIN("j", "n", "", 1, 1, 1, 0, D + 1, 0, 0, NULL),
    JOIN("j", "n", "", 1, 1, 1, 0, 0, U - 1, 0, NULL),
    JOIN("j", "n", "", 1, 1, 1, 0, 0, 0, 0x80000000u, NULL),
    JOIN("j", "n", "", 1, 1, 1, 0, 0, 0, 0, &bad_exited),
    JOIN("j", "n", "", 1, 1, 1, 0, 0, 0, 0, &two_ends),
    M(JOIN, join, "j", "n", "", {1, 1, 1, 0, 0, 0, 0, 0, 0, false, 0}, false, NULL, false, 0, 0, 0,
      NULL, NULL, "too short"),
    M(JOIN, join, "j", "n", "", {1, 1, 1, 0, 0, 0, 0, 0, 0, false, 0}, false, NULL, false, 0, 0, 0,
      NULL, NULL, NULL),
    M(READY, ready, 0, "h", many_ports, 1, 0, false),
    M(READY, ready, 1, "", many_ports, 1, 0, false),
    M(READY, ready, 1, NULL, many_ports, 1, 0, false),
    M(READY, ready, 1, "a\"b", many_ports, 1, 0, false),
    M(READY, ready, 1, too_long, many_ports, 1, 0, false),
    M(READY, ready, 1, "h", many_ports, 0, 0, false),
    M(READY, ready, 1, "h", many_ports, MSG_NPROC_MAX + 1, 0, false),
    M(READY, ready, 1, "h", zero_port, 1, 0, false),
    M(READY, ready, 1, "h", many_ports, 1, 0, false, NULL, {MSG_NUMBER_MAX + 1, false, 0, 0}),
    M(READY, ready, 1, "h", many_ports, 1, 0, false, NULL, {0, false, MSG_NUMBER_MAX + 1, 0}),
    M(READY, ready, 1, "h", many_ports, 1, 0, false, NULL, {0, true, 1, MSG_STEP_MAX + 1}),
    M(RESTART, restart, 0, 1),
    M(RESTART, restart, 1, 0),
    M(RESTART, restart, 1, MSG_NUMBER_MAX + 1),
    M(START, start, 1, 1, 4, 5, 3, CAUSE_START, 0, 0, true),
    M(EXITED, exited, 1, 0, 0, 0, false, "", ENDING_EXITED, MSG_NUMBER_MAX + 1),
    M(LISTENING, listening, 0),
    M(LISTENING, listening, MSG_NUMBER_MAX + 1),
    M(PROGRESS, progress, MSG_NUMBER_MAX + 1, 0, 0, 0, 0, false, false, false),
    M(PROGRESS, progress, 1, MSG_STEP_MAX + 1, 0, 0, 0, true, false, false),
    M(PROGRESS, progress, 1, 0, MSG_STEP_MAX + 1, 0, 0, false, true, false),
    M(PROGRESS, progress, 1, 0, 0, MSG_NUMBER_MAX + 1, 0, false, false, false),
    M(PROGRESS, progress, 1, 0, 0, 0, 0, false, false, false, false,
      {0, false, MSG_NUMBER_MAX + 1, 0}),
    M(PROGRESS, progress, 1, 0, 0, 0, 0, false, false, false, true, {0}, MSG_STEP_MAX + 1),
    M(SAVE, save, 1, MSG_NUMBER_MAX + 1, U),
    M(JOIN, join, "j", "n", "", {1, 1, 1, 0, 0, 0, 0, 0, 0, false, 0}, false, NULL, false, 0,
      MSG_NUMBER_MAX + 1, 0, NULL, NULL),
    M(JOIN, join, RUNS(1, "k", 0, RUNNING(MSG_RUN_MAX + 1, 0, 2, 2, "h", many_ports, 1, 1))),
    M(EXITED, exited, 0, 0, 0, 0, false, ""),
    M(EXITED, exited, 1, 64, 0, 0, false, ""),
    M(EXITED, exited, 1, 0, 256, 0, false, ""),
    M(EXITED, exited, 1, 0, 0, 129, false, ""),
    M(EXITED, exited, 1, 0, 1, 9, false, ""),
    M(EXITED, exited, 1, 0, 0, 0, false, too_long),
    M(EXITED, exited, 1, 0, 0, 0, false, NULL),
    M(EXITED, exited, 1, 0, 0, 0, false, "", (enum tfe_ending)5),
    M(JOIN, join, RUNS(1, "", 0, NULL)),
    M(JOIN, join, RUNS(1, "a key", 0, NULL)),
    M(JOIN, join, RUNS(1, "k", D + 1, NULL)),
    M(JOIN, join, RUNS(0, "k", 0, RUNNING(1, 0, 2, 2, "h", many_ports, 1, 1))),
    M(JOIN, join, RUNS(1, "k", 0, RUNNING(0, 0, 2, 2, "h", many_ports, 1, 1))),
    M(JOIN, join, RUNS(1, "k", 0, RUNNING(1, 2, 2, 2, "h", many_ports, 1, 1))),
    M(JOIN, join, RUNS(1, "k", 0, RUNNING(1, 0, 0, 2, "h", many_ports, 1, 1))),
    M(JOIN, join, RUNS(1, "k", 0, RUNNING(1, 0, 3, 2, "h", many_ports, 1, 1))),
    M(JOIN, join, RUNS(1, "k", 0, RUNNING(1, 0, 1, 0, "h", many_ports, 1, 1))),
    M(JOIN, join, RUNS(1, "k", 0, RUNNING(1, 0, 2, 2, "", many_ports, 1, 1))),
    M(JOIN, join, RUNS(1, "k", 0, RUNNING(1, 0, 2, 2, "h", zero_port, 1, 1))),
    M(JOIN, join, RUNS(1, "k", 0, RUNNING(1, 0, 2, 2, "h", many_ports, 2, 1))),
    M(JOIN, join, RUNS(1, "k", 0, RUNNING(1, 0, 2, 2, "h", many_ports, 1, 99))),
    M(PROCESSES, processes, 0x80000000u, NULL, 0, NULL, 0),
    M(PROCESSES, processes, 0, zero_pid, 1, NULL, 0),
    M(PROCESSES, processes, 0, NULL, 0, negative_pid, 1),
    M(PROCESSES, processes, 0, many_pids, MSG_PIDS_MAX + 1, NULL, 0),
    M(WELCOME, welcome, "", 0, 1, 1, 1, 1, 0, 0),
    M(WELCOME, welcome, "n", 0, 0, 1, 1, 1, 0, 0),
    M(WELCOME, welcome, "n", 0, 1, 0, 1, 1, 0, 0),
    M(WELCOME, welcome, "n", 0, 1, 1, 0, 1, 0, 0),
    M(WELCOME, welcome, "n", 0, 1, 1, 1, 0, 0, 0),
    M(WELCOME, welcome, "n", 0, 1, 1, 1, 1, D + 1, 0),
    M(WELCOME, welcome, "n", 0, 1, 1, 1, 1, 0, U),
    M(RENEWED, renewed, 0, 0, 1, 0),
    M(RENEWED, renewed, 0, 1, D + 1, 0),
    M(RENEWED, renewed, 0, 1, 1, D + 1),
    M(RENEWED, renewed, 0, 1, 1, 0, ""),
    M(RENEWED, renewed, 0, 1, 1, 0, "s", D + 1),
    M(PREPARE, prepare, 0, false, false),
    M(STOP, stop, 0, false),
    M(STOP, stop, 1, false, 0, ""),
    M(STOP, stop, 1, false, 0, "a\nb"),
    M(PROGRESS, progress, 0, 0, 0, 0, 0, false, false, false),
    M(NOTICE, notice, (enum tfe_notice)0, U, false, false),
    M(NOTICE, notice, (enum tfe_notice)6, U, false, false),
    M(NOTICE, notice, NOTICE_PREEMPT, D + 1, false, false),
    M(SAVE, save, 0, 1, U),
    M(SAVE, save, 1, 0, U),
    M(SAVE, save, 1, 1, D + 1),
    M(TABLE, table, 0, 1, 0, NULL, 0),
    M(TABLE, table, 1, 0, 0, NULL, 0),
    M(TABLE, table, 1, 65536 * 64 + 1, 0, NULL, 0),
    M(TABLE, table, 1, 2, 0, ROW(2, "h", 1)),
    M(TABLE, table, 1, 2, 0, ROW(1, "", 1)),
    M(TABLE, table, 1, 2, 0, ROW(1, "h", 0)),
    M(START, start, 0, 1, 0, 1, 1, CAUSE_START, 0),
    M(START, start, 1, 0, 0, 1, 1, CAUSE_START, 0),
    M(START, start, 1, 1, 1, 1, 1, CAUSE_START, 0),
    M(START, start, 1, 1, 0, 0, 1, CAUSE_START, 0),
    M(START, start, 1, 1, 0, 1, 0, CAUSE_START, 0),
    M(START, start, 1, 1, 0, 1, 2, CAUSE_START, 0),
    M(START, start, 1, 1, 0, 1, 1, (enum tfe_cause)0, 0),
    M(START, start, 1, 1, 0, 1, 1, (enum tfe_cause)12, 0),
    M(START, start, 1, 1, 0, 1, 1, CAUSE_START, 0, D + 1),
    M(NOTED, noted, 0),
    M(PROBE, probe, 1, (enum tfe_probe_kind)0, "n", "h", many_ports, 1),
    M(PROBE, probe, 1, (enum tfe_probe_kind)3, "n", "h", many_ports, 1),
    M(PROBE, probe, 1, PROBE_ADDRESS, "", "h", many_ports, 1),
    M(PROBE, probe, 1, PROBE_ADDRESS, "n n", "h", many_ports, 1),
    M(PROBE, probe, 1, PROBE_ADDRESS, "n", "", many_ports, 1),
    M(PROBE, probe, 1, PROBE_ADDRESS, "n", "a\"b", many_ports, 1),
    M(PROBE, probe, 1, PROBE_ADDRESS, "n", "h", many_ports, 0),
    M(PROBE, probe, 1, PROBE_ADDRESS, "n", "h", many_ports, MSG_NPROC_MAX + 1),
    M(PROBE, probe, 1, PROBE_ADDRESS, "n", "h", zero_port, 1),
    M(PROBED, probed, 1, (enum tfe_probe_result)0),
    M(PROBED, probed, 1, (enum tfe_probe_result)6),
    M(DEATH, death, NULL),
    M(DEATH, death, ""),
    M(DEATH, death, "ABCD"),
    M(DEATH, death, "abcd"),
    M(FINISH, finish, (enum tfe_result)0, 1, ""),
    M(FINISH, finish, (enum tfe_result)5, 1, ""),
    M(FINISH, finish, RESULT_FAILED, 0, ""),
    M(FINISH, finish, RESULT_FAILED, 1, NULL),
    M(FINISH, finish, RESULT_FAILED, 1, too_long),
    M(REFUSED, refused, (enum tfe_refusal)0, ""),
    M(REFUSED, refused, (enum tfe_refusal)12, ""),
    M(REFUSED, refused, REFUSAL_BAD_REQUEST, too_long),
    M(ARTIFACT, artifact, 0, ARTIFACT_STORED, "m"),
    M(ARTIFACT, artifact, 1, (enum tfe_artifact)4, "m"),
    M(ARTIFACT, artifact, 1, ARTIFACT_STORED, ""),
    M(ARTIFACT, artifact, 1, ARTIFACT_STORED, "a\nb"),
    M(ARTIFACT, artifact, 1, ARTIFACT_STORED, "m", .error = ""),
    M(METRICS, metrics, 0, 1),
    M(METRICS, metrics, 1, 1, 0, 0, &not_finite, 1),
    M(METRICS, metrics, 1, 1, 0, 0, &no_name, 1),
    M(METRICS, metrics, 1, 1, 0, 0, &odd_name, 1),
    M(METRICS, metrics, 1, 1, 0, 0, many_metrics, MSG_METRICS_MAX + 1),
    M(MACHINE_INFO, machine_info, .gpu = ""),
    M(MACHINE_INFO, machine_info, .zone = "a\nb"),
    M(MACHINE_INFO, machine_info, .failed_check = "a\nb"),
    M(MACHINE_STATS, machine_stats, .standby = (enum tfe_standby)4),
    M(EVENTS, events, ""),
    M(EVENT_ROW, event_row, 0, {1}, "k", EVENT_INFO, "", 0, 0, "", "", ""),
    M(EVENT_ROW, event_row, 1, {1}, "k", (enum tfe_event_level)3, "", 0, 0, "", "", ""),
    M(SERIES, series, "j", 0, "a b", 0),
    M(SERIES_ROW, series_row, "j", 1, "n", 1, 0, 0, {0}, HUGE_VAL),
    M(STATUS, status, ""),
    M(GAUGE, gauge, "", "", 0),
    M(GAUGE, gauge, too_long, "", 0),
    M(GAUGE, gauge, "jobs", "a\nb", 0),
    M(GAUGE, gauge, "jobs", "", HUGE_VAL),
    M(GAUGE, gauge, "jobs", "", 0, "", "help"),
    M(GAUGE, gauge, "jobs", "", 0, "gauge", "a\nb"),
    M(STATUS_JOB, status_job, "j", STATE_RUNNING, "s", 1, 1, 1, 1, 1, 0, NULL, 0, 65537),
    M(STATUS_JOB, status_job, "", STATE_RUNNING, "s", 1, 1, 1, 1, 1, 0),
    M(STATUS_JOB, status_job, "j", STATE_RUNNING, too_long, 1, 1, 1, 1, 1, 0),
    M(STATUS_JOB, status_job, "j", (enum tfe_job_state)10, "s", 1, 1, 1, 1, 1, 0),
    M(STATUS_JOB, status_job, "j", STATE_RUNNING, "s", 1, 1, 2, 1, 1, 0),
    M(STATUS_NODE, status_node, "", "", ROLE_SPARE, false, 0, NULL, 0, 0, {0, NULL, 0, NULL, 0}),
    M(STATUS_NODE, status_node, "n", "\t", ROLE_SPARE, false, 0, NULL, 0, 0, {0, NULL, 0, NULL, 0}),
    M(STATUS_NODE, status_node, "n", "", (enum tfe_node_role)8, false, 0, NULL, 0, 0,
      {0, NULL, 0, NULL, 0}),
    M(STATUS_NODE, status_node, "n", "", ROLE_SPARE, true, 65536 * 64, NULL, 0, 0,
      {0, NULL, 0, NULL, 0}),
    M(STATUS_NODE, status_node, "n", "", ROLE_SPARE, false, 0, "a b", 0, 0, {0, NULL, 0, NULL, 0}),
    M(STATUS_NODE, status_node, "n", "", ROLE_SPARE, false, 0, NULL, 0, 0,
      {0, zero_pid, 1, NULL, 0}),
    M(DRAIN, drain, "", U),
    M(DRAIN, drain, NULL, U),
    M(DRAIN, drain, "a\nb", U),
    M(DRAIN, drain, too_long, U),
    M(DRAIN, drain, "n", D + 1),
    M(UNBAN, unban, ""),
    M(EVICT, evict, "n", D + 1),
    M(EVICT, evict, ""),
    M(EVICT, evict, "\x7f"),
    M(CANCEL, cancel, ""),
    M(EPOCHS, epochs, ""),
    M(EPOCH_ROW, epoch_row, 0, 1, CAUSE_START, "", false, 1),
    M(EPOCH_ROW, epoch_row, 1, 0, CAUSE_START, "", false, 1),
    M(EPOCH_ROW, epoch_row, 1, 1, CAUSE_START, "a\nb", false, 1),
    M(EPOCH_ROW, epoch_row, 1, 1, CAUSE_START, "", false, 65537),
    M(TOKEN_CREATE, token_create, 0, "*", 0, 0, ""),
    M(TOKEN_CREATE, token_create, 4, "*", 0, 0, ""),
    M(TOKEN_CREATE, token_create, 1, "", 0, 0, ""),
    M(TOKEN_CREATE, token_create, 1, "a b", 0, 0, ""),
    M(TOKEN_CREATE, token_create, 1, too_long, 0, 0, ""),
    M(TOKEN_CREATE, token_create, 1, "*", D + 1, 0, ""),
    M(TOKEN_CREATE, token_create, 1, "*", 0, MSG_KEY_USES_MAX + 1, ""),
    M(TOKEN_CREATE, token_create, 1, "*", 0, 0, "a\nb"),
    M(TOKEN_CREATE, token_create, 3, "a", 0, 0, "", MSG_NODES_MAX + 1),
    M(TOKEN_ROW, token_row, "k", 3, "a", "", 0, 0, "", {0}, {0}, {0}, "", MSG_NODES_MAX + 1),
    M(TOKEN_REVOKE, token_revoke, ""),
    M(TOKEN_REVOKE, token_revoke, too_long),
    M(TOKEN_ROTATE, token_rotate, (enum tfe_rotation)0),
    M(TOKEN_ROTATE, token_rotate, (enum tfe_rotation)5),
    M(LOGS, logs, "", false, 0, NULL, 0, false, U),
    M(LOGS, logs, "j", true, 65536 * 64, NULL, 0, false, U),
    M(LOGS, logs, "j", false, 0, "", 0, false, U),
    M(LOGS, logs, "j", false, 0, NULL, MSG_NUMBER_MAX + 1, false, U),
    M(LOG_LINES, log_lines, "n", "", 1, 0, (enum tfe_stream)0, {0}, ""),
    M(LOG_LINES, log_lines, "n", "", 1, 0, (enum tfe_stream)3, {0}, ""),
    M(LOG_REQUEST, log_request, 1, false, 0, 0, false, U, {0}, 0),
    M(LOG_REQUEST, log_request, 1, false, 0, 0, false, U, {0}, MSG_LOG_WINDOW_MAX + 1),
    M(LOG_CREDIT, log_credit, 1, 0),
    M(LOG_CHUNK, log_chunk, 1, 0, 0, STREAM_STDOUT, {0}, ""),
    M(LOG_CHUNK, log_chunk, 1, 1, 65536 * 64, STREAM_STDOUT, {0}, ""),
    M(BACKUP, backup, ""),
    M(BACKUP, backup, "a/path"),
    M(BACKUP, backup, ".."),
    M(BACKUP, backup, ".hidden"),
    M(BACKUP, backup, "with\ncontrol"),
    M(CANCEL, cancel, "a/b"),
    M(POOL, pool, words, 1, 0, 0, 0, 0, "", NULL, "n", NODE_SECRET),
    M(POOL, pool, servers_label, 1, 0, 0, 0, 0, "", NULL, "n", NODE_SECRET),
    M(POOL, pool, NULL, 1, 0, 0, 0, 0, "", NULL, "n", NODE_SECRET),
    M(POOL, pool, many_labels, MSG_POOL_LABELS_MAX + 1, 0, 0, 0, 0, "", NULL, "n", NODE_SECRET),
    M(POOL, pool, NULL, 0, 0, 0, 0, 0, "", NULL, "n", "short"),
    M(POOL, pool, NULL, 0, 0, 0, 0, 65537, "", NULL, "n", NODE_SECRET),
    M(FREED, freed, 0, 0, ""),
    M(FREED, freed, 1, 256, ""),
    M(RELEASE, release, 1, D + 1, ""),
    M(RELEASE, release, 1, 0, "", (enum tfe_out)4),
    M(ASSIGN, assign, 0, "{}", false, TASK_WORKER, "r"),
    M(ASSIGN, assign, 1, "{}", true, (enum tfe_task)4, "r"),
    M(ASSIGN, assign, 1, "{}", false, 0, ".."),
    M(ASSIGN, assign, 1, "{", false, 0, "k"),
    M(ASSIGN, assign, 1, long_spec, false, 0, "k"),
    M(SUBMIT, submit, "a/b", "{}"),
    M(SUBMIT, submit, "j", ""),
    M(SUBMIT, submit, "j", long_submitted),
    M(STATUS_JOB, status_job, "j", STATE_RUNNING, "s", 1, 1, 1, 1, 1, 0, .spec = "{"),
    M(FETCH, fetch, DIGEST, 0, 0, NULL),
    M(FETCH, fetch, "ab", 0, 1, NULL),
    M(FETCH, fetch, ODD_DIGEST, 0, 1, NULL),
    M(FETCH, fetch, DIGEST, MSG_BUNDLE_MAX + 1, 1, NULL),
    M(FETCH, fetch, DIGEST, 0, MSG_FETCH_MAX + 1, NULL),
    M(FETCH, fetch, DIGEST, 0, 1, ""),
    M(CHUNK, chunk, DIGEST, 0, 0, NULL, 0, ""),
    M(CHUNK, chunk, DIGEST, 2, 2, some_bytes, 1, ""),
    M(CHUNK, chunk, DIGEST, 0, 9, some_bytes, 1, "why"),
    M(CHUNK, chunk, DIGEST, 0, MSG_BUNDLE_MAX, some_bytes, MSG_CHUNK_MAX + 1, ""),
    M(CHUNK, chunk, DIGEST, 0, 9, NULL, 1, ""),
    M(BUNDLE_HAVE, bundle_have, DIGEST, 0),
    M(BUNDLE_HAVE, bundle_have, DIGEST, MSG_BUNDLE_MAX + 1),
    M(BUNDLE_WANT, bundle_want, DIGEST, 1, 1),
    M(BUNDLE_PUT, bundle_put, DIGEST, 0, NULL, 0, false),
    M(BUNDLE_PUT, bundle_put, DIGEST, 0, some_bytes, MSG_CHUNK_MAX + 1, false),
    M(SCALE, scale, "j", 2, 1, MSG_UNSET),
    M(SCALE, scale, "j", 0, 1, MSG_UNSET),
    M(SCALE, scale, "j", 1, 1, 0),
    M(CONDITION_ROW, condition_row, "", false, "r", {0}, ""),
};

TEST(codec, value_out_of_range_is_not_encoded)
{
    for (size_t i = 0; i < COUNT(out_of_range); i++) {
        size_t n;
        int rc = codec_encode(&out_of_range[i], bytes, sizeof(bytes), &n);
        if (rc != TFE_EINVAL) {
            fail_msg("row %zu gives %d", i, rc);
        }
    }
}

/* Given as bytes, since the project's encoder cannot produce them. */
TEST(codec, value_out_of_range_is_not_decoded)
{
    static const struct {
        const char *what;
        size_t n;
        uint8_t in[40];
    } cases[] = {
        {"LISTENING of epoch 0", 3, {4, 0x08, 0}},
        {"STOP without its required epoch", 1, {35}},
        {"RENEW with a cut varint", 3, {2, 0x08, 0x80}},
        {"RENEW with a varint of 11 bytes",
         13,
         {2, 0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}},
        {"STATUS of a job with a NUL", 6, {64, 0x0a, 3, 'a', 0, 'b'}},
        {"STATUS of a job with an escape", 6, {64, 0x0a, 3, 'a', 27, 'b'}},
        {"STATUS of a job longer than the frame", 4, {64, 0x0a, 200, 'a'}},
        {"READY, port 65537", 11, {3, 0x08, 1, 0x12, 1, 'h', 0x1a, 3, 0x81, 0x80, 4}},
        {"READY, port 0", 9, {3, 0x08, 1, 0x12, 1, 'h', 0x1a, 1, 0}},
        {"READY without ports", 6, {3, 0x08, 1, 0x12, 1, 'h'}},
        {"READY, host with a quote", 9, {3, 0x08, 1, 0x12, 1, '"', 0x1a, 1, 1}},
        {"TABLE, port 65537",
         16,
         {36, 0x08, 1, 0x10, 1, 0x22, 9, 0x08, 0, 0x12, 1, 'h', 0x18, 0x81, 0x80, 4}},
        {"TABLE, rank of the world's size",
         14,
         {36, 0x08, 1, 0x10, 1, 0x22, 7, 0x08, 1, 0x12, 1, 'h', 0x18, 1}},
        {"PROBE, port 65537",
         16,
         {40, 0x08, 1, 0x10, 1, 0x1a, 1, 'n', 0x22, 1, 'h', 0x2a, 3, 0x81, 0x80, 4}},
        {"PROBE without ports", 11, {40, 0x08, 1, 0x10, 1, 0x1a, 1, 'n', 0x22, 1, 'h'}},
        {"PROBED, result 6", 5, {10, 0x08, 1, 0x10, 6}},
        {"STATUS_NODE, port 65537", 10, {66, 0x0a, 1, 'n', 0x18, 1, 0x30, 0x81, 0x80, 4}},
        {"REFUSED, code 12", 5, {42, 0x08, 12, 0x12, 0}},
        {"REFUSED, code -1",
         14,
         {42, 0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0x12, 0}},
        {"REFUSED, sentence with a NUL", 6, {42, 0x08, 1, 0x12, 1, 0}},
        {"EXITED, code 256", 6, {5, 0x08, 1, 0x18, 0x80, 2}},
        {"EXITED, code and signal", 7, {5, 0x08, 1, 0x18, 1, 0x20, 9}},
        {"DRAIN without its node", 1, {68}},
        {"CANCEL of a job with a NUL", 6, {120, 0x0a, 3, 'a', 0, 'b'}},
        {"PROGRESS of epoch 0", 3, {8, 0x08, 0}},
        {"NOTICE, kind 6", 3, {9, 0x08, 6}},
        {"NOTICE, the deadline that is none", 9, {9, 0x08, 2, 0x10, 255, 255, 255, 255, 15}},
        {"SAVE without its number", 3, {43, 0x08, 1}},
        {"RENEWED, ttl 0", 7, {33, 0x08, 1, 0x10, 0, 0x18, 1}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct tfe_msg got;
        int rc = decode(cases[i].in, cases[i].n, &got);
        if (rc != TFE_EPROTO) {
            fail_msg("%s gives %d", cases[i].what, rc);
        }
    }
}

/* Raises one number of an encoded message above its limit. */
TEST(codec, list_above_its_limit_is_refused)
{
    struct tfe_msg got;
    uint8_t in[4096] = {MSG_READY, 0x08, 1, 0x12, 1, 'h', 0x1a, MSG_NPROC_MAX};
    memset(in + 8, 1, MSG_NPROC_MAX + 1);
    assert_int_equal(decode(in, 8 + MSG_NPROC_MAX, &got), 0);
    in[7]++;
    assert_int_equal(decode(in, 8 + MSG_NPROC_MAX + 1, &got), TFE_EPROTO);

    uint8_t pids[256] = {MSG_PROCESSES, 0x12, MSG_PIDS_MAX};
    memset(pids + 3, 1, MSG_PIDS_MAX + 1);
    assert_int_equal(decode(pids, 3 + MSG_PIDS_MAX, &got), 0);
    pids[2]++;
    assert_int_equal(decode(pids, 3 + MSG_PIDS_MAX + 1, &got), TFE_EPROTO);

    static uint8_t table[SEAL_PLAIN_MAX] = {MSG_TABLE, 0x08, 1, 0x10, 1};
    static const uint8_t row[] = {0x22, 7, 0x08, 0, 0x12, 1, 'h', 0x18, 1};
    size_t n = 5;
    for (size_t i = 0; i <= MSG_ROWS_PER_CHUNK; i++) {
        memcpy(table + n, row, sizeof(row));
        n += sizeof(row);
    }
    assert_int_equal(decode(table, n - sizeof(row), &got), 0);
    assert_int_equal(got.u.table.n_rows, MSG_ROWS_PER_CHUNK);
    assert_int_equal(decode(table, n, &got), TFE_EPROTO);

    static uint8_t tail[SEAL_PLAIN_MAX] = {MSG_EXITED, 0x08, 1, 0x32, 0x81, 0x20}; /* length 4097 */
    memset(tail + 6, 't', MSG_TAIL_MAX + 1);
    assert_int_equal(decode(tail, 6 + MSG_TAIL_MAX + 1, &got), TFE_EPROTO);
    tail[4] = 0x80;
    assert_int_equal(decode(tail, 6 + MSG_TAIL_MAX, &got), 0);
    assert_int_equal(strlen(got.u.exited.tail), MSG_TAIL_MAX);
}

TEST(codec, control_characters_of_programs_are_replaced)
{
    struct tfe_msg got;
    static const struct tfe_msg exited =
        M(EXITED, exited, 1, 0, 1, 0, false, "a\x1b[31m\tb\r\n\x01\x7f\xc3\xa9");
    assert_int_equal(decode(bytes, encode(&exited), &got), 0);
    assert_string_equal(got.u.exited.tail, "a?[31m\tb?\n??\xc3\xa9");
    static const struct tfe_msg refused = M(REFUSED, refused, REFUSAL_BAD_REQUEST, "x\x07y");
    assert_int_equal(decode(bytes, encode(&refused), &got), 0);
    assert_string_equal(got.u.refused.sentence, "x?y");
}

int main(void)
{
    memset(too_long, 'x', sizeof(too_long) - 1);
    memset(many_ports, 1, sizeof(many_ports));
    memset(many_pids, 1, sizeof(many_pids));
    memset(long_spec, 's', sizeof long_spec - 1);
    memset(long_submitted, 's', sizeof long_submitted - 1);
    for (size_t i = 0; i < COUNT(many_labels); i++) {
        many_labels[i] = "a=b";
    }
    return stories_run(set_up, tear_down);
}
