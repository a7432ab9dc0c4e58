/* common/message/codec_fields.c: the field tables of all messages (PROTOCOL.md section 5). */
#include "common/message/codec_fields.h"

#include "common/base/id.h"
#include "common/message/codec_text.h"
#include "tfe.pb-c.h"

/* Maximum number of trainers: MSG_NPROC_MAX on each of MSG_NODES_MAX nodes. */
#define WORLD_MAX (MSG_NODES_MAX * MSG_NPROC_MAX)
#define CODE_MAX 255   /* maximum exit status */
#define SIGNAL_MAX 128 /* maximum signal number on any supported system */
#define STATE_MAX 64   /* maximum length of a one-word text */

/* --- macros for table rows -------------------------------------------------------------------- */

/* A field of struct msg_MESSAGE: number in tfe.proto, member (whose name is the field's name),
 * range and, unless it is 0 or "", the value that means "absent". */
#define FIELD(message, number, member, ...) FIELD_AS(message, number, member, #member, __VA_ARGS__)

/* FIELD for a field whose name differs from the member's, or whose member is nested.
 * TFE_EPOCH_TIMES and JOB_SPEC_FIELDS generate such rows. */
#define FIELD_AS(message, number, member, name, ...)                                               \
    ROW(message, number, member, name, sizeof(MEMBER(message, member)), __VA_ARGS__)

/* PART: the member is an embedded struct msg_MEMBER. PART_OR_NULL: the member points to one, or is
 * NULL. */
#define PART(message, number, member)                                                              \
    ROW(message, number, member, #member, sizeof(MEMBER(message, member)), .kind = CODEC_PART,     \
        .part = (&member##_layout))
#define PART_OR_NULL(message, number, member)                                                      \
    ROW(message, number, member, #member, sizeof(*MEMBER(message, member)), .kind = CODEC_PART,    \
        .part = (&member##_layout), .absent = CODEC_NULL)

/* LIST: the member points to n_MEMBER elements; the count is limited to n_min..n_max. */
#define LIST(message, number, member, n_min_, n_max_, ...)                                         \
    ROW(message, number, member, #member, sizeof(*MEMBER(message, member)), .kind = CODEC_LIST,    \
        .companion = offsetof(struct msg_##message, n_##member), .n_min = (n_min_),                \
        .n_max = (n_max_), __VA_ARGS__)

#define MEMBER(message, member) (((struct msg_##message *)0)->member)
#define ROW(message, number, member, name_, size_, ...)                                            \
    [number] = {.name = (name_),                                                                   \
                .offset = offsetof(struct msg_##message, member),                                  \
                .size = (size_),                                                                   \
                __VA_ARGS__}

#define FROM_TO(low, high) .min = (low), .max = (high)
#define UP_TO(high) .max = (high)
#define NUMBER UP_TO(UINT64_MAX)
#define NUMBER_32 UP_TO(UINT32_MAX)
#define COUNTED FROM_TO(1, MSG_NUMBER_MAX)
#define COUNTED_OR_0 UP_TO(MSG_NUMBER_MAX)
#define EPOCH COUNTED
#define EPOCH_OR_0 COUNTED_OR_0
#define RUN FROM_TO(1, MSG_RUN_MAX)
#define STEP UP_TO(MSG_STEP_MAX)
#define DURATION UP_TO(MSG_DURATION_MAX_MS)
/* Duration of a periodic timer. 0 is rejected, because it would cause a busy loop. */
#define PERIOD FROM_TO(1, MSG_DURATION_MAX_MS)
#define NODES FROM_TO(1, MSG_NODES_MAX)
#define NPROC FROM_TO(1, MSG_NPROC_MAX)
#define WORLD FROM_TO(1, WORLD_MAX)
#define PORT FROM_TO(1, UINT16_MAX)
/* Process ids. Kernels assign positive 32-bit numbers. */
#define PID FROM_TO(1, INT32_MAX)
#define PID_OR_0 UP_TO(INT32_MAX)
#define FLAG UP_TO(1)
#define REAL UP_TO(UINT64_MAX) /* is_legal_number rejects NaN and infinities */
#define ENUM UP_TO(UINT32_MAX) /* the descriptor defines the valid values */

#define TEXT(low, high, is_legal_) .kind = CODEC_TEXT, .is_legal = (is_legal_), FROM_TO(low, high)
/* Limits of each text in a list. */
#define TEXT_OF(low, high, is_legal_) .is_legal = (is_legal_), FROM_TO(low, high)
#define ID TEXT(1, TFE_ID_MAX, id_is_valid)
#define HOST TEXT(1, TFE_HOST_MAX, is_host)
#define LABEL TEXT(0, TFE_ID_MAX, is_id_or_empty)
/* One or more node labels, formatted for display. */
#define NODES_NAMED(low) TEXT(low, TFE_LABEL_MAX, is_line)
/* Id or label of a node. */
#define NODE ID
#define SENTENCE TEXT(0, MSG_SENTENCE_MAX, NULL)

#define OR_UNSET .absent = CODEC_UNSET
#define OR_NULL .absent = CODEC_NULL
#define PRESENT_IF(message, flag) .companion = offsetof(struct msg_##message, flag)

#define PORTS(message, number) LIST(message, number, ports, 1, MSG_NPROC_MAX, PORT)
#define PIDS(message, number, member) LIST(message, number, member, 0, MSG_PIDS_MAX, PID)

#define FIELDS(message) static const struct codec_field message##_fields[]
#define LAYOUT(message)                                                                            \
    {                                                                                              \
        .descriptor = &tfe__##message##__descriptor, .fields = message##_fields,                   \
        .n_fields = sizeof(message##_fields) / sizeof(message##_fields[0]),                        \
        .size = sizeof(struct msg_##message)                                                       \
    }
#define PART_LAYOUT(message) static const struct codec_layout message##_layout = LAYOUT(message)

/* --- messages of agents ----------------------------------------------------------------------- */

FIELDS(renew) = {FIELD(renew, 1, number, NUMBER), FIELD(renew, 2, idle_ms, DURATION),
                 FIELD(renew, 3, others_ended, FLAG)};
FIELDS(listening) = {FIELD(listening, 1, epoch, EPOCH)};

#define HEX(low, high) TEXT(2 * (low), 2 * (high), is_hex)
#define PORT_OR_0 UP_TO(UINT16_MAX)
FIELDS(enrol) = {FIELD(enrol, 1, public_key, HEX(32, 32))};
FIELDS(death) = {FIELD(death, 1, certificate, HEX(32, 32))};
FIELDS(goodbye) = {FIELD(goodbye, 1, drained, FLAG), FIELD(goodbye, 2, interrupted, FLAG)};
FIELDS(probed) = {FIELD(probed, 1, probe, NUMBER), FIELD(probed, 2, result, ENUM)};

FIELDS(exited) = {
    FIELD(exited, 1, epoch, EPOCH),
    FIELD(exited, 2, local_rank, UP_TO(MSG_NPROC_MAX - 1)),
    FIELD(exited, 3, code, UP_TO(CODE_MAX)),
    FIELD(exited, 4, signal, UP_TO(SIGNAL_MAX)),
    FIELD(exited, 5, stopped, FLAG),
    FIELD(exited, 6, tail, TEXT(0, MSG_TAIL_MAX, NULL)),
    FIELD(exited, 7, end, ENUM),
    FIELD(exited, 30, restart, COUNTED_OR_0),
};
PART_LAYOUT(exited);

FIELDS(running) = {
    FIELD(running, 1, run, RUN),
    FIELD(running, 2, rank, NUMBER),
    FIELD(running, 3, nodes, NODES),
    FIELD(running, 4, world, WORLD),
    FIELD(running, 5, digest, NUMBER),
    FIELD(running, 6, host, HOST),
    PORTS(running, 7),
    FIELD(running, 8, cause, ENUM),
};
PART_LAYOUT(running);

/* Rows of JOIN generated from the job settings (job_spec.h). */
#define SPEC_COUNT(low, high) FROM_TO(low, high)
#define SPEC_DURATION(low, high) FROM_TO(low, high)
#define SPEC_FLAG(low, high) FLAG
#define SPEC_DIGEST(low, high) NUMBER
#define SPEC_SAME .absent = 0
#define SPEC_FIRST .absent = 0
#define SPEC_OPTIONAL OR_UNSET
#define SPEC_ROW(name, type, kind, who, low, high, setting, tag, ...)                              \
    FIELD_AS(join, tag, spec.name, #name, SPEC_##kind(low, high), SPEC_##who),

FIELDS(join) = {
    FIELD(join, 1, job, ID),
    FIELD(join, 2, node, ID),
    FIELD(join, 3, node_name, LABEL),
    FIELD(join, 11, highest_epoch, EPOCH_OR_0),
    FIELD(join, 12, running_epoch, EPOCH_OR_0),
    FIELD(join, 14, pid, PID_OR_0),
    PART_OR_NULL(join, 15, exited),
    FIELD(join, 17, new_run, FLAG),
    FIELD(join, 18, durable, FLAG),
    FIELD(join, 19, run_key, ID, OR_NULL),
    PART_OR_NULL(join, 22, running),
    FIELD(join, 23, node_secret, TEXT(MSG_NODE_SECRET_CHARS, MSG_NODE_SECRET_CHARS, id_is_valid)),
    FIELD(join, 24, fixed_ports, FLAG),
    FIELD(join, 25, tensorflow, ID, OR_NULL),
    FIELD(join, 29, proof_hash, HEX(32, 32), OR_NULL),
    FIELD(join, 30, guard_port, PORT_OR_0),
    FIELD(join, 31, host, HOST, OR_NULL),
    FIELD(join, 43, role, ENUM, PRESENT_IF(join, has_role)),
    FIELD(join, 44, evaluates, FLAG),
    FIELD(join, 45, restart, COUNTED_OR_0),
    JOB_SPEC_FIELDS(SPEC_ROW)};

FIELDS(memory) = {
    FIELD(memory, 1, bytes, COUNTED_OR_0),
    FIELD(memory, 2, epoch, EPOCH_OR_0),
    FIELD(memory, 3, step, STEP, PRESENT_IF(memory, has_snapshot)),
};
PART_LAYOUT(memory);

FIELDS(ready) = {
    FIELD(ready, 1, epoch, EPOCH),
    FIELD(ready, 2, host, HOST),
    PORTS(ready, 3),
    /* 0 if the node holds no table. */
    FIELD(ready, 4, table_digest, NUMBER),
    FIELD(ready, 5, answering, FLAG),
    FIELD(ready, 6, tensorflow, ID, OR_NULL),
    PART(ready, 7, memory),
};

FIELDS(processes) = {
    FIELD(processes, 1, guard_pid, PID_OR_0),
    PIDS(processes, 2, trainer_pids),
    PIDS(processes, 3, standby_pids),
};
PART_LAYOUT(processes);

FIELDS(progress) = {
    FIELD(progress, 1, epoch, EPOCH),
    FIELD(progress, 2, step, STEP, PRESENT_IF(progress, has_step)),
    FIELD(progress, 3, saved_step, STEP, PRESENT_IF(progress, has_saved)),
    FIELD(progress, 4, saves, NUMBER),
    FIELD(progress, 5, answers, COUNTED_OR_0),
    FIELD(progress, 6, listens, FLAG),
    PART(progress, 7, memory),
    FIELD(progress, 8, from_step, STEP, PRESENT_IF(progress, has_from)),
    FIELD(progress, 9, ends, FLAG),
    FIELD(progress, 10, snapshot_answers, COUNTED_OR_0),
    FIELD(progress, 30, partitioned, FLAG),
    FIELD(progress, 31, alone, FLAG),
};

#define KNOWN_TEXT TEXT(1, TFE_LABEL_MAX, is_line), OR_NULL
FIELDS(machine_info) = {
    FIELD(machine_info, 1, cores, NUMBER_32),
    FIELD(machine_info, 2, memory_mib, COUNTED_OR_0),
    FIELD(machine_info, 3, gpus, NUMBER_32),
    FIELD(machine_info, 4, gpu, KNOWN_TEXT),
    FIELD(machine_info, 5, gpu_memory_mib, COUNTED_OR_0),
    FIELD(machine_info, 6, tensorflow, ID, OR_NULL),
    FIELD(machine_info, 7, cloud, KNOWN_TEXT),
    FIELD(machine_info, 8, zone, KNOWN_TEXT),
    FIELD(machine_info, 9, instance, KNOWN_TEXT),
    FIELD(machine_info, 10, is_spot, FLAG, PRESENT_IF(machine_info, has_spot)),
    FIELD(machine_info, 11, failed_check, KNOWN_TEXT),
};
PART_LAYOUT(machine_info);

FIELDS(machine_stats) = {
    FIELD(machine_stats, 1, load_milli, NUMBER_32), FIELD(machine_stats, 2, free_mib, COUNTED_OR_0),
    FIELD(machine_stats, 3, step_us, COUNTED_OR_0), FIELD(machine_stats, 4, work_us, COUNTED_OR_0),
    FIELD(machine_stats, 5, standby, ENUM),
};
PART_LAYOUT(machine_stats);

#define METRIC_NAME TEXT(1, MSG_METRIC_NAME_MAX, is_metric_name)
FIELDS(metric) = {FIELD(metric, 1, name, METRIC_NAME), FIELD(metric, 2, value, REAL)};
PART_LAYOUT(metric);

FIELDS(metrics) = {
    FIELD(metrics, 1, epoch, EPOCH),
    FIELD(metrics, 2, step, STEP),
    FIELD(metrics, 3, samples, STEP),
    FIELD(metrics, 4, total, STEP),
    LIST(metrics, 5, metrics, 0, MSG_METRICS_MAX, .part = &metric_layout),
};

#define ARTIFACT_PLACE TEXT(1, MSG_PLACE_MAX, is_line)
FIELDS(artifact) = {
    FIELD(artifact, 1, epoch, EPOCH),          FIELD(artifact, 2, state, ENUM),
    FIELD(artifact, 3, place, ARTIFACT_PLACE), FIELD(artifact, 4, files, COUNTED_OR_0),
    FIELD(artifact, 5, bytes, COUNTED_OR_0),   FIELD(artifact, 6, error, KNOWN_TEXT),
};

FIELDS(notice) = {
    FIELD(notice, 1, kind, ENUM),        FIELD(notice, 2, deadline_ms, DURATION, OR_UNSET),
    FIELD(notice, 3, withdrawn, FLAG),   FIELD(notice, 4, uncertain, FLAG),
    FIELD(notice, 5, interrupted, FLAG),
};

/* --- messages of the server to agents --------------------------------------------------------- */

FIELDS(stop) = {
    FIELD(stop, 1, epoch, EPOCH),
    FIELD(stop, 2, planned, FLAG),
    FIELD(stop, 3, cause, UP_TO(UINT32_MAX)),
    FIELD(stop, 4, blamed, NODES_NAMED(1), OR_NULL),
    FIELD(stop, 5, message, TEXT(1, MSG_SENTENCE_MAX, NULL), OR_NULL),
    FIELD(stop, 6, in_memory, FLAG),
};
FIELDS(noted) = {FIELD(noted, 1, epoch, EPOCH)};
FIELDS(lease_ended) = {FIELD(lease_ended, 1, epoch, EPOCH_OR_0)}; /* 0 if the job has no epoch */
FIELDS(refused) = {FIELD(refused, 1, code, ENUM), FIELD(refused, 2, sentence, SENTENCE),
                   FIELD(refused, 3, commit, NUMBER)};

FIELDS(welcome) = {
    FIELD(welcome, 1, node, ID),
    FIELD(welcome, 2, incarnation, NUMBER),
    FIELD(welcome, 3, run, RUN),
    FIELD(welcome, 4, ttl_ms, PERIOD),
    FIELD(welcome, 5, fence_ms, PERIOD),
    FIELD(welcome, 6, renew_ms, PERIOD),
    FIELD(welcome, 7, spread_ms, DURATION),
    FIELD(welcome, 8, stop_grace_ms, DURATION),
    FIELD(welcome, 9, message, TEXT(1, MSG_SENTENCE_MAX, NULL), OR_NULL),
};

FIELDS(renewed) = {
    FIELD(renewed, 1, number, NUMBER),
    FIELD(renewed, 2, ttl_ms, PERIOD),
    FIELD(renewed, 3, fence_ms, PERIOD),
    FIELD(renewed, 4, spread_ms, DURATION),
    FIELD(renewed, 5, waits, TEXT(1, MSG_SENTENCE_MAX, NULL), OR_NULL),
    FIELD(renewed, 6, waits_ms, DURATION),
    FIELD(renewed, 7, no_wait, FLAG),
};

FIELDS(prepare) = {
    FIELD(prepare, 1, epoch, EPOCH),
    FIELD(prepare, 2, fresh_ports, FLAG),
    FIELD(prepare, 3, answer, FLAG),
};

FIELDS(row) = {
    FIELD(row, 1, rank, NUMBER), FIELD(row, 2, host, HOST),    FIELD(row, 3, port, PORT),
    FIELD(row, 4, role, ENUM),   FIELD(row, 5, first, NUMBER),
};
PART_LAYOUT(row);

FIELDS(table) = {
    FIELD(table, 1, epoch, EPOCH),
    FIELD(table, 2, world, WORLD),
    FIELD(table, 3, base_digest, NUMBER),
    /* Rows are encoded after all other fields, by put_row, because their number depends on the
     * space left. */
    LIST(table, 4, rows, 0, MSG_ROWS_PER_CHUNK, .part = &row_layout, .is_late = true),
    FIELD(table, 5, turned, FLAG),
};

FIELDS(start) = {
    FIELD(start, 1, epoch, EPOCH),
    FIELD(start, 2, run, RUN),
    FIELD(start, 3, rank, NUMBER),
    FIELD(start, 4, world, WORLD),
    FIELD(start, 5, nodes, NODES),
    FIELD(start, 6, cause, ENUM),
    FIELD(start, 7, table_digest, NUMBER),
    /* 0 if the fence is unchanged. */
    FIELD(start, 8, fence_ms, DURATION),
    FIELD(start, 30, evaluates, FLAG),
};

FIELDS(restart) = {FIELD(restart, 1, epoch, EPOCH), FIELD(restart, 2, number, COUNTED)};

FIELDS(probe) = {
    FIELD(probe, 1, probe, NUMBER),
    FIELD(probe, 2, kind, ENUM),
    FIELD(probe, 3, node, ID),
    FIELD(probe, 4, host, HOST),
    PORTS(probe, 5),
    FIELD(probe, 6, guard_port, PORT_OR_0),
};

FIELDS(finish) = {
    FIELD(finish, 1, result, ENUM),
    FIELD(finish, 2, run, RUN),
    FIELD(finish, 3, sentence, SENTENCE),
};

FIELDS(save) = {
    FIELD(save, 1, epoch, EPOCH),
    FIELD(save, 2, number, COUNTED),
    FIELD(save, 3, within_ms, DURATION, OR_UNSET),
    FIELD(save, 4, in_memory, FLAG),
};

/* --- messages between tfe-ctl and the server -------------------------------------------------- */

FIELDS(status) = {
    FIELD(status, 1, job, ID, OR_NULL),
    FIELD(status, 70, jobs_only, FLAG),
    FIELD(status, 71, detail, FLAG),
};
FIELDS(status_end) = {FIELD(status_end, 1, jobs, NUMBER), FIELD(status_end, 50, newest, NUMBER)};
FIELDS(drain) = {FIELD(drain, 1, node, NODE), FIELD(drain, 2, within_ms, DURATION, OR_UNSET)};
FIELDS(grow) = {FIELD(grow, 1, job, ID)};
FIELDS(forget) = {FIELD(forget, 1, job, ID)};
FIELDS(evict) = {FIELD(evict, 1, node, NODE), FIELD(evict, 2, for_ms, DURATION)};
FIELDS(done) = {{.name = NULL}}; /* placeholder: C has no empty array */
FIELDS(epochs) = {FIELD(epochs, 1, job, ID)};
FIELDS(backup) = {FIELD(backup, 1, name, ID)};

#define MOMENT(message, number, member)                                                            \
    FIELD_AS(message, number, member.ms, /* NOLINT(bugprone-macro-parentheses) */                  \
             #member "_ms", UP_TO(INT64_MAX))

/* A job as JSON; its reader validates the content. */
#define SPEC TEXT(2, MSG_SPEC_MAX, NULL)
#define LABELS(message, number, member, high, is_legal_)                                           \
    LIST(message, number, member, 0, MSG_POOL_LABELS_MAX, TEXT_OF(1, high, is_legal_))

FIELDS(status_job) = {
    FIELD(status_job, 1, job, ID),
    FIELD(status_job, 2, phase, TEXT(0, STATE_MAX, is_line)),
    FIELD(status_job, 3, run, UP_TO(MSG_RUN_MAX)),
    /* 0 if the job has no epoch. */
    FIELD(status_job, 4, epoch, EPOCH_OR_0),
    FIELD(status_job, 5, min_nodes, NODES),
    FIELD(status_job, 6, max_nodes, NODES),
    FIELD(status_job, 7, nproc, NPROC),
    FIELD(status_job, 8, restarts, NUMBER),
    FIELD(status_job, 9, waits, TEXT(1, MSG_SENTENCE_MAX, NULL), OR_NULL),
    FIELD(status_job, 10, waits_ms, DURATION),
    FIELD(status_job, 70, members, UP_TO(MSG_NODES_MAX)),
    FIELD(status_job, 71, nodes, UP_TO(MSG_NODES_MAX)),
    FIELD(status_job, 72, connected, UP_TO(MSG_NODES_MAX)),
    FIELD(status_job, 73, ready, UP_TO(MSG_NODES_MAX)),
    FIELD(status_job, 74, restarts_left, NUMBER),
    FIELD(status_job, 30, n_ps, UP_TO(MSG_NODES_MAX)),
    FIELD(status_job, 31, chief, FLAG),
    FIELD(status_job, 32, evaluator, FLAG),
    FIELD(status_job, 50, step, STEP, PRESENT_IF(status_job, has_step)),
    FIELD(status_job, 51, steps_per_s, REAL, PRESENT_IF(status_job, has_steps_per_s)),
    FIELD(status_job, 52, samples_per_s, REAL, PRESENT_IF(status_job, has_samples_per_s)),
    FIELD(status_job, 53, total, STEP),
    FIELD(status_job, 54, samples, STEP),
    FIELD(status_job, 55, waits_since_ms, DURATION),
    FIELD(status_job, 56, slow, NODES_NAMED(1), OR_NULL),
    FIELD(status_job, 57, straggler_times_milli, NUMBER_32),
    FIELD(status_job, 58, memory_bytes, NUMBER),
    FIELD(status_job, 75, workers, UP_TO(MSG_NODES_MAX)),
    FIELD(status_job, 76, workers_working, UP_TO(MSG_NODES_MAX)),
    FIELD(status_job, 77, workers_done, UP_TO(MSG_NODES_MAX)),
    FIELD(status_job, 78, alone, UP_TO(MSG_NODES_MAX)),
    FIELD(status_job, 80, state, ENUM),
    MOMENT(status_job, 81, since),
    MOMENT(status_job, 82, ended),
    FIELD(status_job, 83, reason, TEXT(1, MSG_SENTENCE_MAX, NULL), OR_NULL),
    FIELD(status_job, 84, retry_ms, DURATION),
    FIELD(status_job, 85, is_submitted, FLAG),
    FIELD(status_job, 86, priority, UP_TO(MSG_PRIORITY_MAX)),
    FIELD(status_job, 87, n_assigned, NUMBER_32),
    MOMENT(status_job, 88, created),
    FIELD(status_job, 91, lingers, FLAG),
    FIELD(status_job, 40, spec, TEXT(2, MSG_SPEC_MAX + MSG_MASKS_MAX, NULL), OR_NULL),
    FIELD(status_job, 38, saved_step, STEP, PRESENT_IF(status_job, has_saved)),
    MOMENT(status_job, 39, saved),
};

FIELDS(health) = {
    FIELD(health, 1, component, TEXT(1, STATE_MAX, is_line)),
    FIELD(health, 2, message, TEXT(1, MSG_SENTENCE_MAX, NULL)),
    FIELD(health, 3, since_ms, DURATION),
};

FIELDS(status_node) = {
    FIELD(status_node, 1, node, ID),
    FIELD(status_node, 2, name, LABEL),
    FIELD(status_node, 3, role, ENUM),
    FIELD(status_node, 4, rank, UP_TO(WORLD_MAX - 1), PRESENT_IF(status_node, has_rank)),
    FIELD(status_node, 5, host, HOST, OR_NULL),
    FIELD(status_node, 6, port, UP_TO(UINT16_MAX)),
    FIELD(status_node, 7, pid, PID_OR_0),
    PART(status_node, 8, processes),
    FIELD(status_node, 9, waits, TEXT(1, MSG_SENTENCE_MAX, NULL), OR_NULL),
    PART(status_node, 10, memory),
    FIELD(status_node, 30, task, ENUM, PRESENT_IF(status_node, has_place)),
    FIELD(status_node, 31, index, UP_TO(WORLD_MAX - 1)),
    PART(status_node, 50, machine_info),
    PART(status_node, 51, machine_stats),
    FIELD(status_node, 52, times_milli, NUMBER_32),
    FIELD(status_node, 53, slow, FLAG),
    FIELD(status_node, 54, notice, TEXT(1, STATE_MAX, is_line), OR_NULL),
    FIELD_AS(status_node, 55, notice_at.ms, "notice_at_ms", UP_TO(INT64_MAX)),
    FIELD_AS(status_node, 56, notice_deadline.ms, "notice_deadline_ms", UP_TO(INT64_MAX)),
};

FIELDS(epoch_row) = {
    FIELD(epoch_row, 1, run, RUN),
    FIELD(epoch_row, 2, epoch, EPOCH),
    FIELD(epoch_row, 3, cause, ENUM),
    FIELD(epoch_row, 4, blamed, NODES_NAMED(0)),
    FIELD(epoch_row, 5, planned, FLAG),
    FIELD(epoch_row, 6, members, UP_TO(MSG_NODES_MAX)),
#define EPOCH_TIME(NAME, name)                                                                     \
    FIELD_AS(epoch_row, 7 + EPOCH_##NAME, at[EPOCH_##NAME].ms, #name "_ms", UP_TO(INT64_MAX)),
    TFE_EPOCH_TIMES(EPOCH_TIME)
#undef EPOCH_TIME
    /* Absent if unknown or not yet known. */
    FIELD(epoch_row, 15, saved_step, STEP, PRESENT_IF(epoch_row, has_saved)),
    FIELD(epoch_row, 16, lost_steps, STEP, PRESENT_IF(epoch_row, has_lost)),
    FIELD(epoch_row, 17, over, FLAG),
    FIELD(epoch_row, 30, restarts, NUMBER),
    FIELD(epoch_row, 31, failed, FLAG),
};

#define SCOPE TEXT(1, MSG_SCOPE_MAX, is_scope)
#define KEY_LABEL LABEL
#define KEY ID /* id or label of a key */

FIELDS(token_create) = {
    FIELD(token_create, 1, role, FROM_TO(1, 3)),
    FIELD(token_create, 2, scope, SCOPE),
    FIELD(token_create, 3, ttl_ms, DURATION),
    FIELD(token_create, 4, uses, UP_TO(MSG_KEY_USES_MAX)),
    FIELD(token_create, 5, label, KEY_LABEL),
    FIELD(token_create, 6, quota, UP_TO(MSG_NODES_MAX)),
};

FIELDS(token) = {FIELD(token, 1, key, KEY), FIELD(token, 2, text, TEXT(1, MSG_TOKEN_MAX, is_line))};
FIELDS(tokens) = {{.name = NULL}};

FIELDS(token_row) = {
    FIELD(token_row, 1, key, KEY),
    FIELD(token_row, 2, role, FROM_TO(1, 3)),
    FIELD(token_row, 3, scope, SCOPE),
    FIELD(token_row, 4, label, KEY_LABEL),
    FIELD(token_row, 5, generation, UP_TO(UINT8_MAX)),
    FIELD(token_row, 6, uses, UP_TO(MSG_KEY_USES_MAX)),
    FIELD(token_row, 7, used_by, TEXT(0, MSG_KEY_NODES_MAX, is_line)),
    MOMENT(token_row, 8, made),
    MOMENT(token_row, 9, expires),
    MOMENT(token_row, 10, revoked),
    FIELD(token_row, 11, state, TEXT(0, STATE_MAX, is_line)),
    FIELD(token_row, 12, quota, UP_TO(MSG_NODES_MAX)),
};

FIELDS(enrolled) = {
    FIELD(enrolled, 1, key, HEX(16, 16)),
    FIELD(enrolled, 2, secret, HEX(32, 32)),
    FIELD(enrolled, 3, certificate, HEX(1, MSG_CERTIFICATE_MAX)),
    MOMENT(enrolled, 4, expires),
};

FIELDS(agents) = {{.name = NULL}};
FIELDS(agent_row) = {
    FIELD(agent_row, 1, key, KEY),
    FIELD(agent_row, 2, token, KEY),
    FIELD(agent_row, 3, label, KEY_LABEL),
    FIELD(agent_row, 4, jobs, SCOPE),
    FIELD(agent_row, 5, from, TEXT(0, TFE_LABEL_MAX, is_line)),
    FIELD(agent_row, 6, enrolled, FLAG),
    FIELD(agent_row, 7, node, TEXT(0, TFE_ID_MAX, is_line)),
    FIELD(agent_row, 8, name, LABEL),
    FIELD(agent_row, 9, job, TEXT(0, TFE_ID_MAX, is_line)),
    MOMENT(agent_row, 10, expires),
};
FIELDS(revoke_agent) = {FIELD(revoke_agent, 1, node, NODE)};

FIELDS(unban) = {FIELD(unban, 1, node, NODE)};
FIELDS(bans) = {{.name = NULL}};
FIELDS(ban_row) = {
    FIELD(ban_row, 1, node, ID),
    FIELD(ban_row, 2, job, ID),
    FIELD(ban_row, 3, key, TEXT(0, MSG_KEY_HEX, is_line)),
    FIELD(ban_row, 4, name, LABEL),
    MOMENT(ban_row, 5, until),
    FIELD(ban_row, 6, token, TEXT(0, MSG_KEY_HEX, is_line)),
};

FIELDS(audit) = {{.name = NULL}};
FIELDS(audit_row) = {
    FIELD(audit_row, 1, number, FROM_TO(1, UINT64_MAX)),
    MOMENT(audit_row, 2, at),
    FIELD(audit_row, 3, key, TEXT(0, MSG_KEY_HEX, is_line)),
    FIELD(audit_row, 4, label, KEY_LABEL),
    FIELD(audit_row, 5, from, TEXT(0, TFE_LABEL_MAX, is_line)),
    FIELD(audit_row, 6, what, TEXT(0, STATE_MAX, is_line)),
    FIELD(audit_row, 7, about, TEXT(0, MSG_AUDIT_ABOUT_MAX, is_line)),
    FIELD(audit_row, 8, result, TEXT(0, STATE_MAX, is_line)),
    FIELD(audit_row, 9, hash, TEXT(1, STATE_MAX, is_line)),
};

FIELDS(gauges) = {{.name = NULL}};
FIELDS(gauge) = {
    FIELD(gauge, 1, name, TEXT(1, STATE_MAX, is_line)),
    FIELD(gauge, 2, labels, TEXT(0, MSG_GAUGE_LABELS_MAX, is_line)),
    FIELD(gauge, 4, value, REAL),
    FIELD(gauge, 5, type, TEXT(1, STATE_MAX, is_line), OR_NULL),
    FIELD(gauge, 6, help, TEXT(1, MSG_SENTENCE_MAX, is_line), OR_NULL),
};

FIELDS(token_revoke) = {FIELD(token_revoke, 1, key, KEY)};
FIELDS(token_rotate) = {FIELD(token_rotate, 1, step, ENUM)};

#define STREAM_OF(message, number) FIELD(message, number, stream, ENUM)
#define LINES_TEXT TEXT(0, MSG_LOG_TEXT_MAX, NULL)
#define WINDOW FROM_TO(1, MSG_LOG_WINDOW_MAX)
#define RANK UP_TO(WORLD_MAX - 1)

FIELDS(logs) = {
    FIELD(logs, 1, job, ID),
    FIELD(logs, 2, rank, RANK, PRESENT_IF(logs, has_rank)),
    FIELD(logs, 3, node, NODE, OR_NULL),
    FIELD(logs, 4, epoch, EPOCH_OR_0),
    FIELD(logs, 5, follow, FLAG),
    FIELD(logs, 6, lines, UP_TO(UINT32_MAX - 1), OR_UNSET),
    MOMENT(logs, 7, since),
};

FIELDS(log_lines) = {
    FIELD(log_lines, 1, node, ID),
    FIELD(log_lines, 2, name, LABEL),
    FIELD(log_lines, 3, epoch, EPOCH_OR_0),
    FIELD(log_lines, 4, rank, RANK),
    STREAM_OF(log_lines, 5),
    MOMENT(log_lines, 6, at),
    FIELD(log_lines, 7, text, LINES_TEXT),
    FIELD(log_lines, 8, lost, NUMBER),
    FIELD(log_lines, 9, tail, FLAG),
    FIELD(log_lines, 10, silent, FLAG),
};

FIELDS(log_request) = {
    FIELD(log_request, 1, request, NUMBER),
    FIELD(log_request, 2, rank, RANK, PRESENT_IF(log_request, has_rank)),
    FIELD(log_request, 3, epoch, EPOCH_OR_0),
    FIELD(log_request, 4, follow, FLAG),
    FIELD(log_request, 5, lines, UP_TO(UINT32_MAX - 1), OR_UNSET),
    MOMENT(log_request, 6, since),
    FIELD(log_request, 7, window, WINDOW),
};

FIELDS(log_credit) = {FIELD(log_credit, 1, request, NUMBER), FIELD(log_credit, 2, bytes, WINDOW)};
FIELDS(log_stop) = {FIELD(log_stop, 1, request, NUMBER)};

FIELDS(log_chunk) = {
    FIELD(log_chunk, 1, request, NUMBER),
    FIELD(log_chunk, 2, epoch, EPOCH),
    FIELD(log_chunk, 3, rank, RANK),
    STREAM_OF(log_chunk, 4),
    MOMENT(log_chunk, 5, at),
    FIELD(log_chunk, 6, text, LINES_TEXT),
    FIELD(log_chunk, 7, lost, NUMBER),
    FIELD(log_chunk, 8, behind, NUMBER),
};

FIELDS(log_done) = {FIELD(log_done, 1, request, NUMBER)};

FIELDS(events) = {
    FIELD(events, 1, job, ID, OR_NULL),
    FIELD(events, 2, after, NUMBER),
    FIELD(events, 3, last, NUMBER_32),
};
FIELDS(event_row) = {
    FIELD(event_row, 1, number, FROM_TO(1, UINT64_MAX)),
    MOMENT(event_row, 2, at),
    FIELD(event_row, 3, kind, TEXT(1, STATE_MAX, is_line)),
    FIELD(event_row, 4, level, ENUM),
    FIELD(event_row, 5, job, TEXT(0, TFE_ID_MAX, is_line)),
    FIELD(event_row, 6, run, UP_TO(MSG_RUN_MAX)),
    FIELD(event_row, 7, epoch, EPOCH_OR_0),
    FIELD(event_row, 8, node, TEXT(0, TFE_ID_MAX, is_line)),
    FIELD(event_row, 9, name, LABEL),
    FIELD(event_row, 10, message, SENTENCE),
};

FIELDS(series) = {
    FIELD(series, 1, job, ID),
    FIELD(series, 2, run, UP_TO(MSG_RUN_MAX)),
    FIELD(series, 3, name, METRIC_NAME, OR_NULL),
    FIELD(series, 4, after, NUMBER),
};
FIELDS(series_row) = {
    FIELD(series_row, 1, job, ID),
    FIELD(series_row, 2, run, RUN),
    FIELD(series_row, 3, name, METRIC_NAME),
    FIELD(series_row, 4, ord, FROM_TO(1, UINT64_MAX)),
    FIELD(series_row, 5, epoch, EPOCH_OR_0),
    FIELD(series_row, 6, step, STEP),
    MOMENT(series_row, 7, at),
    FIELD(series_row, 8, value, REAL),
};

/* --- messages of the pool --------------------------------------------------------------------- */

FIELDS(pool) = {
    LABELS(pool, 1, labels, MSG_POOL_LABEL_MAX, is_label),
    FIELD(pool, 2, slot, UP_TO(MSG_NODES_MAX)),
    FIELD(pool, 3, assignment, COUNTED_OR_0),
    FIELD(pool, 4, idle_exit_ms, DURATION),
    FIELD(pool, 5, node_name, LABEL),
    FIELD(pool, 6, host, HOST, OR_NULL),
    FIELD(pool, 7, node, ID),
    FIELD(pool, 8, node_secret, TEXT(MSG_NODE_SECRET_CHARS, MSG_NODE_SECRET_CHARS, id_is_valid)),
    FIELD(pool, 25, floor, UP_TO(MSG_NODES_MAX)),
};
FIELDS(freed) = {
    FIELD(freed, 1, assignment, COUNTED),
    FIELD(freed, 2, code, UP_TO(CODE_MAX)),
    FIELD(freed, 3, message, SENTENCE),
};
FIELDS(assign) = {
    FIELD(assign, 1, assignment, COUNTED),
    FIELD(assign, 4, role, ENUM, PRESENT_IF(assign, has_role)),
    FIELD(assign, 5, run_key, ID),
    FIELD(assign, 6, spec, SPEC),
};
FIELDS(release) = {
    FIELD(release, 1, assignment, COUNTED_OR_0),
    FIELD(release, 2, within_ms, DURATION),
    FIELD(release, 3, message, SENTENCE),
    FIELD(release, 4, out, ENUM),
    FIELD(release, 5, over, FLAG),
};

#define DIGEST TEXT(MSG_BUNDLE_HEX, MSG_BUNDLE_HEX, is_hex)
#define BUNDLE_OFFSET UP_TO(MSG_BUNDLE_MAX)
#define BLOB(message, number, member, n_min, high)                                                 \
    ROW(message, number, member, #member, 0, .kind = CODEC_BYTES,                                  \
        .companion = offsetof(struct msg_##message, n_##member), FROM_TO(n_min, high))
FIELDS(fetch) = {
    FIELD(fetch, 1, digest, DIGEST),
    FIELD(fetch, 2, offset, BUNDLE_OFFSET),
    FIELD(fetch, 3, length, FROM_TO(1, MSG_FETCH_MAX)),
    FIELD(fetch, 8, error, TEXT(1, MSG_SENTENCE_MAX, NULL), OR_NULL),
};
FIELDS(chunk) = {
    FIELD(chunk, 1, digest, DIGEST),       FIELD(chunk, 2, offset, BUNDLE_OFFSET),
    FIELD(chunk, 3, total, BUNDLE_OFFSET), BLOB(chunk, 4, data, 0, MSG_CHUNK_MAX),
    FIELD(chunk, 8, message, SENTENCE),
};
FIELDS(bundle_have) = {
    FIELD(bundle_have, 1, digest, DIGEST),
    FIELD(bundle_have, 2, total, FROM_TO(1, MSG_BUNDLE_MAX)),
};
FIELDS(bundle_want) = {
    FIELD(bundle_want, 1, digest, DIGEST),
    FIELD(bundle_want, 2, offset, BUNDLE_OFFSET),
    FIELD(bundle_want, 3, until, FROM_TO(1, MSG_BUNDLE_MAX)),
};
FIELDS(bundle_put) = {
    FIELD(bundle_put, 1, digest, DIGEST),
    FIELD(bundle_put, 2, offset, BUNDLE_OFFSET),
    BLOB(bundle_put, 3, data, 1, MSG_CHUNK_MAX),
    FIELD(bundle_put, 4, is_last, FLAG),
};

FIELDS(submit) = {FIELD(submit, 2, job, ID), FIELD(submit, 3, spec, TEXT(2, MSG_SUBMIT_MAX, NULL))};
FIELDS(condition_row) = {
    FIELD(condition_row, 1, name, TEXT(1, STATE_MAX, is_line)),
    FIELD(condition_row, 2, status, FLAG),
    FIELD(condition_row, 3, reason, TEXT(1, STATE_MAX, is_line)),
    MOMENT(condition_row, 4, at),
    FIELD(condition_row, 5, message, SENTENCE),
};
FIELDS(pool_nodes) = {{.name = NULL}};
FIELDS(demand) = {{.name = NULL}};
FIELDS(demand_row) = {
    FIELD(demand_row, 1, labels, TEXT(0, MSG_DEMAND_LABELS_MAX, is_line)),
    FIELD(demand_row, 2, role, ENUM, PRESENT_IF(demand_row, has_role)),
    FIELD(demand_row, 3, min_nodes, NUMBER_32),
    FIELD(demand_row, 4, wanted, NUMBER_32),
    FIELD(demand_row, 5, assigned, NUMBER_32),
    FIELD(demand_row, 6, idle, NUMBER_32),
    FIELD(demand_row, 7, pending, NUMBER_32),
    FIELD(demand_row, 8, nodes, NUMBER_32),
    MOMENT(demand_row, 9, deadline),
};
FIELDS(pool_row) = {
    FIELD(pool_row, 1, node, ID),
    FIELD(pool_row, 2, name, LABEL),
    FIELD(pool_row, 3, labels, TEXT(0, MSG_POOL_LABELS_MAX *(MSG_POOL_LABEL_MAX + 1), is_line)),
    FIELD(pool_row, 4, host, HOST, OR_NULL),
    FIELD(pool_row, 5, state, TEXT(1, STATE_MAX, is_line)),
    MOMENT(pool_row, 6, since),
    FIELD(pool_row, 7, assignment, COUNTED_OR_0),
    FIELD(pool_row, 8, job, TEXT(0, TFE_ID_MAX, is_line)),
    FIELD(pool_row, 9, role, ENUM, PRESENT_IF(pool_row, has_role)),
    PART(pool_row, 50, machine_info),
};
FIELDS(scale) = {
    FIELD(scale, 1, job, ID),
    FIELD(scale, 3, min_nodes, NODES),
    FIELD(scale, 4, max_nodes, NODES),
    FIELD(scale, 5, n_ps, NODES, OR_UNSET),
};
FIELDS(suspend) = {FIELD(suspend, 1, job, ID)};
FIELDS(resume) = {FIELD(resume, 1, job, ID)};
FIELDS(cancel) = {FIELD(cancel, 1, job, ID)};
FIELDS(rerun) = {FIELD(rerun, 1, job, ID)};

/* --- lookup by message type ------------------------------------------------------------------- */

const struct codec_layout *codec_layout_of(enum tfe_msg_type type)
{
    static const struct codec_layout layouts[] = {
#define LAYOUT_OF(NAME, name, number, sender) [number] = LAYOUT(name),
        TFE_MSGS(LAYOUT_OF)
#undef LAYOUT_OF
    };
    bool is_known = (size_t)type < sizeof(layouts) / sizeof(layouts[0]) && layouts[type].size > 0;
    return is_known ? &layouts[type] : NULL;
}
