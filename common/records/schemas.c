/* common/records/schemas.c: the schemas of all records: fields, keys, headings, and their order in
 * JSON. Tables select their own columns. */
#include "common/records/schemas.h"

#include <stdio.h>

#include "common/channel/endpoint.h"
#include "common/message/principal.h"
#include "common/records/text_table.h"

#define COUNT(fields) (sizeof(fields) / sizeof((fields)[0]))

/* id: key of the identifying field. given_: the part of struct size_ that messages provide. */
#define SCHEMA(id_, fields_, size_, given_)                                                        \
    {                                                                                              \
        .id = (id_), .fields = (fields_), .n_fields = COUNT(fields_),                              \
        .size = sizeof(struct size_), .given = sizeof(struct given_)                               \
    }

/* --- jobs ------------------------------------------------------------------------------------- */

#define FIELD(of, member, type_, key_, head_)                                                      \
    .key = (key_), .head = (head_), .type = (type_), .offset = offsetof(struct of, member)
#define HAS(of, member) .has = offsetof(struct of, member)
/* OR_0: 0 means unknown. TIMES: the number is shown multiplied by a factor. */
#define OR_0 .is_0_unknown = true
#define TIMES(scale_) OR_0, .scale = (scale_)

#define JOB(...) FIELD(msg_status_job, __VA_ARGS__)

static const char *job_state(const void *row, char *buf)
{
    return msg_job_state_name(((const struct msg_status_job *)row)->state);
}

/* Origin of the job's nodes: assigned from the pool, or agents started by a user. */
static const char *job_origin(const void *row, char *buf)
{
    return ((const struct msg_status_job *)row)->is_submitted ? "submitted" : "agents";
}

static const char *job_phase(const void *row, char *buf)
{
    const char *phase = ((const struct msg_status_job *)row)->phase;
    return phase && phase[0] != '\0' ? phase : NULL;
}

static const char *job_nodes(const void *row, char *buf)
{
    const struct msg_status_job *job = row;
    (void)snprintf(buf, RECORD_TEXT_MAX, "%u",
                   (unsigned)(job->is_submitted ? job->n_assigned : job->nodes));
    return buf;
}

/* Returns why the job has failed, how it failed last and when the next attempt follows, or what it
 * waits for. */
static const char *job_reason(const void *row, char *buf)
{
    const struct msg_status_job *job = row;
    char span[RECORD_TEXT_MAX];
    if (!job->reason || msg_job_is_over(job->state) || job->retry_ms == 0) {
        return job->reason ? job->reason : job->waits;
    }
    const int n = snprintf(buf, RECORD_TEXT_MAX, "%s; next try in %s", job->reason,
                           text_table_duration(job->retry_ms, span));
    return n < RECORD_TEXT_MAX ? buf : job->reason;
}

static const struct record_field job_fields[] = {
    {JOB(job, RECORD_TEXT, "job", "JOB")},
    {.key = "origin", .type = RECORD_WORD, .text = job_origin},
    {JOB(run, RECORD_U32, "run", "RUN")},
    {.key = "state", .head = "STATE", .type = RECORD_WORD, .text = job_state},
    {JOB(phase, RECORD_TEXT, NULL,
         NULL)}, /* declares the pointer for record_copy; shown by the next field */
    {.key = "phase", .type = RECORD_WORD, .text = job_phase},
    {JOB(since, RECORD_TIME, "since_ms", "SINCE")},
    {JOB(ended, RECORD_TIME, "ended_ms", NULL)},
    {JOB(reason, RECORD_TEXT, "reason", NULL)},
    {JOB(retry_ms, RECORD_AGE, "retry_in_ms", NULL)},
    {JOB(epoch, RECORD_U64, "epoch", "EPOCH")},
    {JOB(min_nodes, RECORD_U32, "min", "MIN")},
    {JOB(max_nodes, RECORD_U32, "max", "MAX")},
    {JOB(waits, RECORD_TEXT, "waits", NULL)},
    {JOB(members, RECORD_U32, "members", NULL)},
    {JOB(nodes, RECORD_U32, "nodes_known", NULL)},
    {JOB(connected, RECORD_U32, "connected", NULL)},
    {JOB(ready, RECORD_U32, "ready", NULL)},
    {JOB(restarts, RECORD_U32, "restarts", NULL)},
    {JOB(restarts_left, RECORD_U32, "restarts_left", NULL)},
    {JOB(n_ps, RECORD_U32, "ps", "PS")},
    {JOB(chief, RECORD_BOOL, "chief", NULL)},
    {JOB(evaluator, RECORD_BOOL, "evaluator", NULL)},
    {JOB(waits_since_ms, RECORD_AGE, "waited_ms", NULL)},
    {JOB(waits_ms, RECORD_AGE, "waits_up_to_ms", NULL)},
    {JOB(step, RECORD_U64, "step", "STEP"), HAS(msg_status_job, has_step)},
    {JOB(total, RECORD_U64, "total", "TOTAL"), OR_0},
    {JOB(samples, RECORD_U64, "samples", "SAMPLES"), OR_0},
    {JOB(steps_per_s, RECORD_REAL, "steps_per_s", "STEPS/S"), HAS(msg_status_job, has_steps_per_s)},
    {JOB(samples_per_s, RECORD_REAL, "samples_per_s", "SAMPLES/S"),
     HAS(msg_status_job, has_samples_per_s)},
    {JOB(slow, RECORD_TEXT, "slow", "SLOW")},
    {JOB(straggler_times_milli, RECORD_U32, "slow_times", NULL), TIMES(1e-3)},
    {JOB(memory_bytes, RECORD_U64, "memory_bytes", NULL)},
    {JOB(workers, RECORD_U32, "workers", NULL), OR_0},
    {JOB(workers_working, RECORD_U32, "workers_working", NULL)},
    {JOB(workers_done, RECORD_U32, "workers_done", NULL)},
    {JOB(alone, RECORD_U32, "alone", NULL)},
    {JOB(priority, RECORD_U32, "priority", "PRIORITY"), HAS(msg_status_job, is_submitted)},
    {JOB(n_assigned, RECORD_U32, "nodes_assigned", NULL), HAS(msg_status_job, is_submitted)},
    {JOB(created, RECORD_TIME, "created_ms", "CREATED")},
    {JOB(spec, RECORD_JSON, "spec", NULL)},
    {JOB(saved_step, RECORD_U64, "saved_step", NULL), HAS(msg_status_job, has_saved)},
    {JOB(saved, RECORD_TIME, "saved_ms", NULL)},
    {JOB(lingers, RECORD_BOOL, "lingers", NULL)},
    {.head = "NODES", .type = RECORD_WORD, .text = job_nodes},
    {.head = "REASON", .type = RECORD_TEXT, .text = job_reason},
};

const struct record_schema schema_job = SCHEMA("job", job_fields, msg_status_job, msg_status_job);

/* --- server health ---------------------------------------------------------------------------- */

#define HEALTH(...) FIELD(msg_health, __VA_ARGS__)

static const struct record_field health_fields[] = {
    {HEALTH(component, RECORD_TEXT, "component", NULL)},
    {HEALTH(message, RECORD_TEXT, "message", NULL)},
    {HEALTH(since_ms, RECORD_AGE, "age_ms", NULL)},
};

const struct record_schema schema_health =
    SCHEMA("component", health_fields, msg_health, msg_health);

/* --- nodes ------------------------------------------------------------------------------------ */

#define NODE(...) FIELD(msg_status_node, __VA_ARGS__)
#define MIB (1ULL << 20)
_Static_assert(ENDPOINT_TEXT_MAX <= RECORD_TEXT_MAX, "an address is made there");

/* Returns role and index, as in the names of log files: "worker-0". */
static const char *place(const void *row, char *buf)
{
    const struct msg_status_node *node = row;
    (void)snprintf(buf, RECORD_TEXT_MAX, "%s-%u", msg_task_name(node->task), (unsigned)node->index);
    return node->has_place ? buf : NULL;
}

static const char *role(const void *row, char *buf)
{
    return msg_role_name(((const struct msg_status_node *)row)->role);
}

/* Returns the role for tables; a member of a job with roles is shown by role and index, such as
 * "chief-0". */
static const char *shown_role(const void *row, char *buf)
{
    const struct msg_status_node *node = row;
    return node->role == ROLE_MEMBER && node->has_place ? place(row, buf) : role(row, buf);
}

static const char *address(const void *row, char *buf)
{
    const struct msg_status_node *node = row;
    bool is_known = node->host && node->host[0] != '\0';
    return is_known ? endpoint_format(buf, node->host, node->port) : NULL;
}

static const char *memory(const void *row, char *buf)
{
    uint64_t bytes = ((const struct msg_status_node *)row)->memory.bytes;
    (void)snprintf(buf, RECORD_TEXT_MAX, "%llu MiB", (unsigned long long)(bytes + MIB - 1) / MIB);
    return bytes > 0 ? buf : NULL;
}

/* Returns the ratio of step times, and marks a slow node. */
static const char *times(const void *row, char buf[RECORD_TEXT_MAX])
{
    const struct msg_status_node *node = row;
    (void)snprintf(buf, RECORD_TEXT_MAX, "%.2f%s", node->times_milli / 1000.0,
                   node->slow ? " slow" : "");
    return node->times_milli > 0 ? buf : NULL;
}

static const char *standby(const void *row, char *buf)
{
    return msg_standby_name(((const struct msg_status_node *)row)->machine_stats.standby);
}

static const char *standby_if_any(const void *row, char *buf)
{
    const struct msg_status_node *node = row;
    return node->machine_stats.standby != WARMTH_NONE ? standby(row, buf) : NULL;
}

#define PIDS(member, key)                                                                          \
    NODE(processes.member, RECORD_PIDS, key, NULL),                                                \
        .n = offsetof(struct msg_status_node, processes.n_##member)

static const struct record_field node_fields[] = {
    {NODE(node, RECORD_TEXT, "node", "NODE")},
    {NODE(name, RECORD_TEXT, "name", "NAME")},
    {.key = "state", .type = RECORD_WORD, .text = role},
    {.head = "ROLE", .type = RECORD_WORD, .text = shown_role},
    {NODE(rank, RECORD_U32, "rank", "RANK"), HAS(msg_status_node, has_rank)},
    {.key = "place", .type = RECORD_WORD, .text = place},
    {NODE(host, RECORD_TEXT, NULL,
          NULL)}, /* declares the pointer for record_copy; shown as address */
    {.key = "address", .head = "ADDRESS", .type = RECORD_TEXT, .text = address},
    {NODE(pid, RECORD_PID, "pid", "PID")},
    {NODE(processes.guard_pid, RECORD_PID, "guard_pid", NULL)},
    {PIDS(trainer_pids, "trainer_pids")},
    {PIDS(standby_pids, "standby_pids")},
    {NODE(waits, RECORD_TEXT, "waits", NULL)},
    {NODE(memory.bytes, RECORD_U64, "memory_bytes", NULL)},
    {NODE(memory.epoch, RECORD_U64, "snapshot_epoch", NULL),
     HAS(msg_status_node, memory.has_snapshot)},
    {NODE(memory.step, RECORD_U64, "snapshot_step", "SNAPSHOT"),
     HAS(msg_status_node, memory.has_snapshot)},
    {.head = "MEMORY", .type = RECORD_TEXT, .text = memory},
    {NODE(machine_info.cores, RECORD_U32, "cores", "CORES"), OR_0},
    {NODE(machine_info.memory_mib, RECORD_U64, "memory_mib", NULL), OR_0},
    {NODE(machine_info.gpus, RECORD_U32, "gpus", "GPUS"), OR_0},
    {NODE(machine_info.gpu, RECORD_TEXT, "gpu", "GPU")},
    {NODE(machine_info.gpu_memory_mib, RECORD_U64, "gpu_memory_mib", NULL), OR_0},
    {NODE(machine_info.tensorflow, RECORD_TEXT, "tensorflow", NULL)},
    {NODE(machine_info.cloud, RECORD_TEXT, "cloud", NULL)},
    {NODE(machine_info.zone, RECORD_TEXT, "zone", "ZONE")},
    {NODE(machine_info.instance, RECORD_TEXT, "instance", "TYPE")},
    {NODE(machine_info.is_spot, RECORD_BOOL, "spot", "SPOT"),
     HAS(msg_status_node, machine_info.has_spot)},
    {NODE(machine_info.failed_check, RECORD_TEXT, "failed_check", "FAILED CHECK")},
    {NODE(machine_stats.load_milli, RECORD_U32, "load", "LOAD"), TIMES(1e-3)},
    {NODE(machine_stats.free_mib, RECORD_U64, "free_mib", NULL), OR_0},
    {NODE(machine_stats.step_us, RECORD_U64, "step_ms", "STEP MS"), TIMES(1e-3)},
    {NODE(machine_stats.work_us, RECORD_U64, "work_ms", "WORK MS"), TIMES(1e-3)},
    {.key = "standby", .type = RECORD_WORD, .text = standby},
    {.head = "STANDBY", .type = RECORD_WORD, .text = standby_if_any},
    {NODE(times_milli, RECORD_U32, "times", NULL), TIMES(1e-3)},
    {.head = "TIMES", .type = RECORD_WORD, .text = times},
    {NODE(slow, RECORD_BOOL, "slow", NULL)},
    {NODE(notice, RECORD_TEXT, "notice", "NOTICE")},
    {NODE(notice_at, RECORD_TIME, "notice_at_ms", NULL)},
    {NODE(notice_deadline, RECORD_TIME, "notice_deadline_ms", NULL)},
};

const struct record_schema schema_node = SCHEMA("node", node_fields, node_record, msg_status_node);

static const struct record_field node_of_job_fields[] = {
    {FIELD(node_record, job, RECORD_TEXT, "job", "JOB")},
    {.type = RECORD_PART, .offset = offsetof(struct node_record, node), .part = &schema_node},
};

const struct record_schema schema_node_of_job =
    SCHEMA("node", node_of_job_fields, node_record, node_record);

/* --- epochs ----------------------------------------------------------------------------------- */

#define EPOCH(...) FIELD(epoch_record, __VA_ARGS__)

static const char *cause(const void *row, char *buf)
{
    return msg_cause_name(((const struct msg_epoch_row *)row)->cause);
}

static const char *blamed(const void *row, char *buf)
{
    const struct msg_epoch_row *epoch = row;
    return epoch->blamed[0] != '\0' ? epoch->blamed : NULL;
}

static const char *cause_and_blamed(const void *row, char *buf)
{
    const struct msg_epoch_row *epoch = row;
    (void)snprintf(buf, RECORD_TEXT_MAX, epoch->blamed[0] != '\0' ? "%s (%s)" : "%s",
                   msg_cause_name(epoch->cause), epoch->blamed);
    return buf;
}

/* Returns the step of the newest checkpoint, or "yes" if one was seen whose step is unknown. */
static const char *epoch_saved(const void *row, char *buf)
{
    const struct epoch_record *epoch = row;
    (void)snprintf(buf, RECORD_TEXT_MAX, "%llu", (unsigned long long)epoch->row.saved_step);
    if (epoch->row.has_saved) {
        return buf;
    }
    return epoch->saved > 0 ? "yes" : NULL;
}

#define EPOCH_TIME(NAME, name) {EPOCH(row.at[EPOCH_##NAME], RECORD_TIME, #name "_ms", NULL)},

static const struct record_field epoch_fields[] = {
    {EPOCH(row.run, RECORD_U32, "run", "RUN")},
    {EPOCH(row.epoch, RECORD_U64, "epoch", "EPOCH")},
    {EPOCH(began, RECORD_TIME, NULL, "BEGAN")},
    {.key = "cause", .type = RECORD_WORD, .text = cause},
    {EPOCH(row.blamed, RECORD_TEXT, NULL,
           NULL)}, /* declares the pointer for record_copy; shown by the next field */
    {.key = "blamed", .type = RECORD_TEXT, .text = blamed},
    {EPOCH(row.planned, RECORD_BOOL, "planned", NULL)},
    {EPOCH(row.members, RECORD_U32, "members", "NODES")},
    {.head = "CAUSE", .type = RECORD_TEXT, .text = cause_and_blamed},
    TFE_EPOCH_TIMES(EPOCH_TIME) /**/
    {EPOCH(standstill, RECORD_DURATION, "standstill_ms", "STANDSTILL"),
     .lower_bound = offsetof(struct epoch_record, is_lower_bound)},
    {EPOCH(running, RECORD_DURATION, "running_ms", "RUNNING")},
    {EPOCH(row.saved_step, RECORD_U64, "saved_step", NULL), HAS(epoch_record, row.has_saved)},
    {EPOCH(saved, RECORD_TIME, "saved_ms", NULL)},
    {.head = "SAVED", .type = RECORD_WORD, .text = epoch_saved},
    {EPOCH(row.lost_steps, RECORD_U64, "lost_steps", "LOST"), HAS(epoch_record, row.has_lost)},
    {EPOCH(row.over, RECORD_BOOL, "over", NULL)},
    {EPOCH(row.restarts, RECORD_U32, "restarts", "RESTARTS")},
    {EPOCH(is_lower_bound, RECORD_BOOL, "standstill_at_least", NULL)},
};
_Static_assert(sizeof(struct tfe_wall) == sizeof(int64_t), "a MOMENT");

const struct record_schema schema_epoch =
    SCHEMA("epoch", epoch_fields, epoch_record, msg_epoch_row);

/* --- keys ------------------------------------------------------------------------------------- */

#define KEY(name) offsetof(struct msg_token_row, name)

static const char *key_role(const void *row, char *buf)
{
    (void)buf;
    return principal_role_name((enum principal_role)((const struct msg_token_row *)row)->role);
}

static const char *key_uses(const void *row, char *buf)
{
    const struct msg_token_row *key = row;
    unsigned used = key->used_by[0] != '\0';
    for (const char *c = key->used_by; *c != '\0'; c++) {
        used += *c == ',';
    }
    (void)snprintf(buf, RECORD_TEXT_MAX, key->uses > 0 ? "%u/%u" : "-", used, (unsigned)key->uses);
    return buf;
}

static const char *key_quota(const void *row, char *buf)
{
    const struct msg_token_row *key = row;
    (void)snprintf(buf, RECORD_TEXT_MAX, "%u", (unsigned)key->quota);
    return key->quota == 0 ? "-" : key->quota == MSG_NODES_MAX ? "any" : buf;
}

static const struct record_field token_row_fields[] = {
    {.key = "key", .head = "KEY", .type = RECORD_TEXT, .offset = KEY(key)},
    {.key = "token_role", .head = "ROLE", .type = RECORD_WORD, .text = key_role},
    {.key = "jobs", .head = "JOBS", .type = RECORD_TEXT, .offset = KEY(scope)},
    {.key = "label", .head = "LABEL", .type = RECORD_TEXT, .offset = KEY(label)},
    {.key = "generation", .head = "ROOT", .type = RECORD_U32, .offset = KEY(generation)},
    {.key = "uses", .type = RECORD_U32, .offset = KEY(uses)},
    {.head = "USES", .type = RECORD_WORD, .text = key_uses},
    {.key = "quota", .type = RECORD_U32, .offset = KEY(quota)},
    {.head = "QUOTA", .type = RECORD_WORD, .text = key_quota},
    {.key = "used_by", .type = RECORD_TEXT, .offset = KEY(used_by)},
    {.key = "made_ms", .head = "MADE", .type = RECORD_TIME, .offset = KEY(made)},
    {.key = "expires_ms", .head = "EXPIRES", .type = RECORD_TIME, .offset = KEY(expires)},
    {.key = "revoked_ms", .type = RECORD_TIME, .offset = KEY(revoked)},
    {.key = "state", .head = "STATE", .type = RECORD_TEXT, .offset = KEY(state)},
};

const struct record_schema schema_token_row =
    SCHEMA("key", token_row_fields, msg_token_row, msg_token_row);

static const struct record_field token_fields[] = {
    {.key = "key", .type = RECORD_TEXT, .offset = offsetof(struct msg_token, key)},
    {.key = "token", .type = RECORD_TEXT, .offset = offsetof(struct msg_token, text)},
};

const struct record_schema schema_token = SCHEMA("key", token_fields, msg_token, msg_token);

/* --- metrics of the server -------------------------------------------------------------------- */

static const struct record_field gauge_fields[] = {
    {.key = "name", .type = RECORD_TEXT, .offset = offsetof(struct msg_gauge, name)},
    {.key = "labels", .type = RECORD_LABELS, .offset = offsetof(struct msg_gauge, labels)},
    {.key = "value", .type = RECORD_REAL, .offset = offsetof(struct msg_gauge, value)},
    {.key = "type", .type = RECORD_TEXT, .offset = offsetof(struct msg_gauge, type)},
    {.key = "help", .type = RECORD_TEXT, .offset = offsetof(struct msg_gauge, help)},
};

const struct record_schema schema_gauge = SCHEMA(NULL, gauge_fields, msg_gauge, msg_gauge);

/* --- bans ------------------------------------------------------------------------------------- */

#define BAN(name) offsetof(struct msg_ban_row, name)

static const struct record_field ban_row_fields[] = {
    {.key = "node", .head = "NODE", .type = RECORD_TEXT, .offset = BAN(node)},
    {.key = "job", .head = "JOB", .type = RECORD_TEXT, .offset = BAN(job)},
    {.key = "name", .head = "NAME", .type = RECORD_TEXT, .offset = BAN(name)},
    {.key = "key", .head = "KEY", .type = RECORD_TEXT, .offset = BAN(key)},
    {.key = "token", .type = RECORD_TEXT, .offset = BAN(token)},
    {.key = "until_ms", .head = "UNTIL", .type = RECORD_TIME, .offset = BAN(until)},
};

const struct record_schema schema_ban_row =
    SCHEMA("node", ban_row_fields, msg_ban_row, msg_ban_row);

/* --- agents' keys ----------------------------------------------------------------------------- */

#define AGENT(name) offsetof(struct msg_agent_row, name)

static const struct record_field agent_row_fields[] = {
    {.key = "name", .head = "NAME", .type = RECORD_TEXT, .offset = AGENT(name)},
    {.key = "node", .head = "NODE", .type = RECORD_TEXT, .offset = AGENT(node)},
    {.key = "job", .head = "JOB", .type = RECORD_TEXT, .offset = AGENT(job)},
    {.key = "key", .head = "KEY", .type = RECORD_TEXT, .offset = AGENT(key)},
    {.key = "enrolled", .type = RECORD_BOOL, .offset = AGENT(enrolled)},
    {.key = "token", .head = "TOKEN", .type = RECORD_TEXT, .offset = AGENT(token)},
    {.key = "label", .head = "LABEL", .type = RECORD_TEXT, .offset = AGENT(label)},
    {.key = "jobs", .head = "JOBS", .type = RECORD_TEXT, .offset = AGENT(jobs)},
    {.key = "from", .head = "FROM", .type = RECORD_TEXT, .offset = AGENT(from)},
    {.key = "expires_ms", .head = "EXPIRES", .type = RECORD_TIME, .offset = AGENT(expires)},
};

const struct record_schema schema_agent_row =
    SCHEMA("key", agent_row_fields, msg_agent_row, msg_agent_row);

/* --- audit log -------------------------------------------------------------------------------- */

#define AUDIT(name) offsetof(struct msg_audit_row, name)

static const struct record_field audit_row_fields[] = {
    {.key = "number", .head = "NUMBER", .type = RECORD_U64, .offset = AUDIT(number)},
    {.key = "at_ms", .head = "AT", .type = RECORD_TIME, .offset = AUDIT(at)},
    {.key = "key", .head = "KEY", .type = RECORD_TEXT, .offset = AUDIT(key)},
    {.key = "label", .head = "LABEL", .type = RECORD_TEXT, .offset = AUDIT(label)},
    {.key = "from", .head = "FROM", .type = RECORD_TEXT, .offset = AUDIT(from)},
    {.key = "what", .head = "WHAT", .type = RECORD_TEXT, .offset = AUDIT(what)},
    {.key = "about", .head = "ABOUT", .type = RECORD_TEXT, .offset = AUDIT(about)},
    {.key = "result", .head = "RESULT", .type = RECORD_TEXT, .offset = AUDIT(result)},
    {.key = "hash", .type = RECORD_TEXT, .offset = AUDIT(hash)},
};

const struct record_schema schema_audit_row =
    SCHEMA("number", audit_row_fields, msg_audit_row, msg_audit_row);

/* --- trainer output --------------------------------------------------------------------------- */

#define LINES(name) offsetof(struct msg_log_lines, name)

static const char *stream_word(const void *row, char *buf)
{
    return msg_stream_name(((const struct msg_log_lines *)row)->stream);
}

static const struct record_field log_lines_fields[] = {
    {.key = "node", .type = RECORD_TEXT, .offset = LINES(node)},
    {.key = "name", .type = RECORD_TEXT, .offset = LINES(name)},
    {.key = "epoch", .type = RECORD_U64, .offset = LINES(epoch)},
    {.key = "rank", .type = RECORD_U32, .offset = LINES(rank)},
    {.key = "stream", .type = RECORD_WORD, .text = stream_word},
    {.key = "at_ms", .type = RECORD_TIME, .offset = LINES(at)},
    {.key = "text", .type = RECORD_TEXT, .offset = LINES(text)},
    {.key = "lost", .type = RECORD_U64, .offset = LINES(lost)},
    {.key = "tail", .type = RECORD_BOOL, .offset = LINES(tail)},
    {.key = "silent", .type = RECORD_BOOL, .offset = LINES(silent)},
};

const struct record_schema schema_log_lines =
    SCHEMA(NULL, log_lines_fields, msg_log_lines, msg_log_lines);
/* --- events, and points of series ------------------------------------------------------------- */

#define EVENT(...) FIELD(msg_event_row, __VA_ARGS__)

static const char *level(const void *row, char buf[RECORD_TEXT_MAX])
{
    return msg_event_level_name(((const struct msg_event_row *)row)->level);
}

static const char *text_or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static const char *event_job(const void *row, char buf[RECORD_TEXT_MAX])
{
    return text_or_null(((const struct msg_event_row *)row)->job);
}

static const char *event_node(const void *row, char buf[RECORD_TEXT_MAX])
{
    return text_or_null(((const struct msg_event_row *)row)->node);
}

static const char *event_name(const void *row, char buf[RECORD_TEXT_MAX])
{
    return text_or_null(((const struct msg_event_row *)row)->name);
}

static const struct record_field event_fields[] = {
    {EVENT(number, RECORD_U64, "number", "NUMBER")},
    {EVENT(at, RECORD_TIME, "at_ms", "AT")},
    {EVENT(kind, RECORD_TEXT, "kind", "KIND")},
    {.key = "level", .type = RECORD_WORD, .text = level},
    {EVENT(job, RECORD_TEXT, NULL, NULL)}, /* job, node and name: declare the pointers for
                                              record_copy; shown by fields below */
    {EVENT(node, RECORD_TEXT, NULL, NULL)},
    {EVENT(name, RECORD_TEXT, NULL, NULL)},
    {.key = "job", .head = "JOB", .type = RECORD_TEXT, .text = event_job},
    {EVENT(run, RECORD_U32, "run", NULL), OR_0},
    {EVENT(epoch, RECORD_U64, "epoch", "EPOCH"), OR_0},
    {.key = "node", .type = RECORD_TEXT, .text = event_node},
    {.key = "name", .head = "NAME", .type = RECORD_TEXT, .text = event_name},
    {EVENT(message, RECORD_TEXT, "message", "MESSAGE")},
};

const struct record_schema schema_event =
    SCHEMA("number", event_fields, msg_event_row, msg_event_row);

#define POINT(...) FIELD(msg_series_row, __VA_ARGS__)

static const struct record_field point_fields[] = {
    {POINT(job, RECORD_TEXT, "job", "JOB")},
    {POINT(run, RECORD_U32, "run", "RUN")},
    {POINT(name, RECORD_TEXT, "name", "NAME")},
    {POINT(ord, RECORD_U64, "ord", NULL)},
    {POINT(epoch, RECORD_U64, "epoch", "EPOCH"), OR_0},
    {POINT(step, RECORD_U64, "step", "STEP")},
    {POINT(at, RECORD_TIME, "at_ms", "AT")},
    {POINT(value, RECORD_REAL, "value", "VALUE")},
};

const struct record_schema schema_point =
    SCHEMA("name", point_fields, msg_series_row, msg_series_row);

/* --- conditions, pool nodes and demand -------------------------------------------------------- */

#define CONDITION(...) FIELD(msg_condition_row, __VA_ARGS__)

static const struct record_field condition_fields[] = {
    {CONDITION(name, RECORD_TEXT, "condition", "CONDITION")},
    {CONDITION(status, RECORD_BOOL, "status", "STATUS")},
    {CONDITION(reason, RECORD_TEXT, "reason", "REASON")},
    {CONDITION(at, RECORD_TIME, "at_ms", "AT")},
    {CONDITION(message, RECORD_TEXT, "message", "MESSAGE")},
};

const struct record_schema schema_condition =
    SCHEMA("condition", condition_fields, msg_condition_row, msg_condition_row);

#define POOLED(...) FIELD(msg_pool_row, __VA_ARGS__)

static const char *pool_task(const void *row, char *buf)
{
    const struct msg_pool_row *node = row;
    return node->has_role ? msg_task_name(node->role) : NULL;
}

static const char *pool_job(const void *row, char buf[RECORD_TEXT_MAX])
{
    return text_or_null(((const struct msg_pool_row *)row)->job);
}

static const struct record_field pool_node_fields[] = {
    {POOLED(node, RECORD_TEXT, "node", "NODE")},
    {POOLED(name, RECORD_TEXT, "name", "NAME")},
    {POOLED(state, RECORD_TEXT, "state", "STATE")},
    {POOLED(job, RECORD_TEXT, NULL,
            NULL)}, /* declares the pointer for record_copy; shown by the next field */
    {.key = "job", .head = "JOB", .type = RECORD_TEXT, .text = pool_job},
    {.key = "role", .head = "ROLE", .type = RECORD_WORD, .text = pool_task},
    {POOLED(assignment, RECORD_U64, "assignment", NULL), OR_0},
    {POOLED(since, RECORD_TIME, "since_ms", "SINCE")},
    {POOLED(labels, RECORD_LABELS, "labels", "LABELS")},
    {POOLED(host, RECORD_TEXT, "host", "HOST")},
    {POOLED(machine_info.cores, RECORD_U32, "cores", "CORES"), OR_0},
    {POOLED(machine_info.memory_mib, RECORD_U64, "memory_mib", NULL), OR_0},
    {POOLED(machine_info.gpus, RECORD_U32, "gpus", "GPUS"), OR_0},
    {POOLED(machine_info.gpu, RECORD_TEXT, "gpu", "GPU")},
    {POOLED(machine_info.gpu_memory_mib, RECORD_U64, "gpu_memory_mib", NULL), OR_0},
    {POOLED(machine_info.tensorflow, RECORD_TEXT, "tensorflow", NULL)},
    {POOLED(machine_info.cloud, RECORD_TEXT, "cloud", NULL)},
    {POOLED(machine_info.zone, RECORD_TEXT, "zone", "ZONE")},
    {POOLED(machine_info.instance, RECORD_TEXT, "instance", "TYPE")},
    {POOLED(machine_info.is_spot, RECORD_BOOL, "spot", "SPOT"),
     HAS(msg_pool_row, machine_info.has_spot)},
    {POOLED(machine_info.failed_check, RECORD_TEXT, "failed_check", "FAILED CHECK")},
};

const struct record_schema schema_pool_node =
    SCHEMA("node", pool_node_fields, msg_pool_row, msg_pool_row);

#define DEMAND(...) FIELD(msg_demand_row, __VA_ARGS__)

static const char *demand_role(const void *row, char *buf)
{
    const struct msg_demand_row *demand = row;
    return demand->has_role ? msg_task_name(demand->role) : NULL;
}

static const struct record_field demand_fields[] = {
    {DEMAND(labels, RECORD_LABELS, "labels", "LABELS")},
    {.key = "role", .head = "ROLE", .type = RECORD_WORD, .text = demand_role},
    {DEMAND(min_nodes, RECORD_U32, "min", "MIN"), HAS(msg_demand_row, has_role)},
    {DEMAND(wanted, RECORD_U32, "wanted", "WANTED"), HAS(msg_demand_row, has_role)},
    {DEMAND(assigned, RECORD_U32, "assigned", "ASSIGNED"), HAS(msg_demand_row, has_role)},
    {DEMAND(pending, RECORD_U32, "pending", "PENDING"), HAS(msg_demand_row, has_role)},
    {DEMAND(deadline, RECORD_TIME, "deadline_ms", "DEADLINE")},
    {DEMAND(nodes, RECORD_U32, "pool_nodes", "NODES"), OR_0},
    {DEMAND(idle, RECORD_U32, "idle", "IDLE")},
};

const struct record_schema schema_demand =
    SCHEMA(NULL, demand_fields, msg_demand_row, msg_demand_row);

/* --- lookup by message type ------------------------------------------------------------------- */

const struct record_schema *schema_of(enum tfe_msg_type type)
{
    static const struct {
        enum tfe_msg_type type;
        const struct record_schema *kind;
    } kinds[] = {
        {MSG_STATUS_JOB, &schema_job},      {MSG_STATUS_NODE, &schema_node},
        {MSG_EPOCH_ROW, &schema_epoch},     {MSG_TOKEN, &schema_token},
        {MSG_AUDIT_ROW, &schema_audit_row}, {MSG_BAN_ROW, &schema_ban_row},
        {MSG_TOKEN_ROW, &schema_token_row}, {MSG_AGENT_ROW, &schema_agent_row},
        {MSG_HEALTH, &schema_health},       {MSG_GAUGE, &schema_gauge},
        {MSG_LOG_LINES, &schema_log_lines}, {MSG_EVENT_ROW, &schema_event},
        {MSG_SERIES_ROW, &schema_point},    {MSG_CONDITION_ROW, &schema_condition},
        {MSG_POOL_ROW, &schema_pool_node},  {MSG_DEMAND_ROW, &schema_demand},
    };
    for (size_t i = 0; i < COUNT(kinds); i++) {
        if (kinds[i].type == type) {
            return kinds[i].kind;
        }
    }
    return NULL;
}
