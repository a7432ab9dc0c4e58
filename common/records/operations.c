/* common/records/operations.c: the table of queries and orders, and the JSON documents of whole
 * responses. */
#include "common/records/operations.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/message/principal.h"
#include "common/records/epoch_summary.h"
#include "common/records/json_text.h"
#include "common/records/schemas.h"

/* --- order of the records of STATUS ------------------------------------------------------------
 */

/* Sort key of a record: its job's state, then the job, then its own position. */
struct place {
    const struct msg_status_job *job;
    const struct msg_status_node
        *node; /* the node; NULL for the job's own record or a point of a series */
    struct record row;
    size_t at; /* original index */
};

static int liveliness(const struct msg_status_job *job)
{
    return job->state == STATE_RUNNING                                    ? 0
           : msg_job_is_over(job->state)                                  ? 3
           : job->state == STATE_WAITING || job->state == STATE_SUSPENDED ? 2
                                                                          : 1;
}

static int sign(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_jobs(const struct msg_status_job *a, const struct msg_status_job *b)
{
    int by = liveliness(a) - liveliness(b);
    if (!by && a->state == STATE_WAITING &&
        b->state == STATE_WAITING) { /* by priority, in the order in which waiting jobs get nodes */
        by = sign(b->priority, a->priority);
        by = by ? by : sign((uint64_t)a->created.ms, (uint64_t)b->created.ms);
    }
    by = by ? by : sign((uint64_t)a->since.ms / 1000, (uint64_t)b->since.ms / 1000);
    return by ? by : strcmp(a->job, b->job);
}

static int compare_nodes(const struct msg_status_node *a, const struct msg_status_node *b)
{
    return a->has_rank && b->has_rank ? sign(a->rank, b->rank) : b->has_rank - a->has_rank;
}

static int compare(const void *left, const void *right)
{
    const struct place *a = left;
    const struct place *b = right;
    int by = a->job == b->job ? 0 : compare_jobs(a->job, b->job);
    if (!by && (!a->node || !b->node)) {
        by = !b->node - !a->node; /* records that are not nodes retain their order */
    }
    by = by || !a->node ? by : compare_nodes(a->node, b->node);
    return by ? by : sign(a->at, b->at);
}

/* Sorts the records: health first, then jobs with their nodes: running jobs, starting jobs, waiting
 * jobs, finished jobs; within each group the job longest in its state first. Nodes are sorted by
 * rank, those without rank last. Returns TFE_ENOMEM, or TFE_ESTATE for a node without a job. */
static int sort_status(struct record_list *rows)
{
    struct place *places = calloc(rows->n ? rows->n : 1, sizeof *places);
    const struct msg_status_job *job = NULL;
    int rc = places ? 0 : TFE_ENOMEM;
    size_t from = 0;
    while (from < rows->n && rows->v[from].schema == &schema_health) {
        from++;
    }
    for (size_t i = from; rc == 0 && i < rows->n; i++) {
        bool is_job = rows->v[i].schema == &schema_job;
        bool is_node = rows->v[i].schema == &schema_node;
        job = is_job ? rows->v[i].at : job;
        rc = job ? 0 : TFE_ESTATE;
        places[i] =
            (struct place){job, is_node ? (const void *)rows->v[i].at : NULL, rows->v[i], i};
    }
    if (rc == 0) {
        qsort(places + from, rows->n - from, sizeof *places, compare);
        for (size_t i = from; i < rows->n; i++) {
            rows->v[i] = places[i].row;
        }
    }
    free(places);
    return rc;
}

/* --- jobs ------------------------------------------------------------------------------------- */

/* Returns the name of the list, in the preceding job's object, that records of this schema belong
 * to; NULL if none. */
static const char *list_of(const struct record_schema *schema)
{
    return schema == &schema_node        ? "nodes"
           : schema == &schema_condition ? "conditions"
           : schema == &schema_pool_node ? "pool"
                                         : NULL;
}

static int begin_job(json_t *jobs, json_t *job, bool has_nodes, bool has_detail)
{
    int failed = json_object_set_new(job, "metrics", json_object());
    if (has_nodes) {
        failed |= json_object_set_new(job, "nodes", json_array());
    }
    if (has_detail) {
        failed |= json_object_set_new(job, "conditions", json_array());
        failed |= json_object_set_new(job, "pool", json_array());
    }
    return failed | json_array_append_new(jobs, job);
}

static json_t *jobs_json(const struct record_list *rows, const struct msg_status *request)
{
    json_t *jobs = json_array();
    json_t *job = NULL;
    int failed = !jobs;
    for (size_t i = 0; i < rows->n && !failed; i++) {
        const struct record *row = &rows->v[i];
        const char *list = list_of(row->schema);
        if (row->schema == &schema_job) {
            job = record_json(row->schema, row->at);
            failed = begin_job(jobs, job, !request->jobs_only, request->detail);
        } else if (row->schema == &schema_point) {
            const struct msg_series_row *point = row->at;
            failed = json_object_set_new(json_object_get(job, "metrics"), point->name,
                                         json_real(point->value));
        } else if (list) {
            failed = json_array_append_new(json_object_get(job, list),
                                           record_json(row->schema, row->at));
        }
    }
    if (failed) {
        json_decref(jobs);
        return NULL;
    }
    return jobs;
}

/* {"jobs": [... with "nodes": [...]], "health": [...]} */
static json_t *status_json(const struct record_list *rows, const struct tfe_msg *request)
{
    return json_pack("{s:o, s:o}", "jobs", jobs_json(rows, &request->u.status), "health",
                     record_list_json(rows, &schema_health));
}

/* The job with "metrics", "nodes", "conditions" and "pool". */
static json_t *job_json(const struct record_list *rows, const struct tfe_msg *request)
{
    json_t *jobs = jobs_json(rows, &request->u.status);
    json_t *job = json_incref(json_array_get(jobs, 0));
    json_decref(jobs);
    return job;
}

/* Adds to each node the name of its job. */
static int arrange_nodes(struct record_list *rows)
{
    const struct msg_status_job *job = NULL;
    const int rc = sort_status(rows);
    for (size_t i = 0; rc == 0 && i < rows->n; i++) {
        if (rows->v[i].schema == &schema_job) {
            job = rows->v[i].at;
        } else if (rows->v[i].schema == &schema_node && job) {
            ((struct node_record *)rows->v[i].at)->job = job->job;
            rows->v[i].schema = &schema_node_of_job;
        }
    }
    return rc;
}

/* --- ledgers ---------------------------------------------------------------------------------- */

static json_t *total_json(const struct epochs_total *total)
{
    json_t *by_cause = json_object();
    for (unsigned i = 0; i < EPOCHS_CAUSES; i++) {
        if (total->standstill[i] > 0 &&
            json_object_set_new(by_cause, msg_cause_name((enum tfe_cause)i),
                                json_integer(total->standstill[i])) != 0) {
            json_decref(by_cause);
            return NULL;
        }
    }
    if (total->now > 0 &&
        json_object_set_new(by_cause, "now", json_integer((json_int_t)total->now)) != 0) {
        json_decref(by_cause);
        return NULL;
    }
    /* Convert to tenths of a percent, because all numbers in the API are integers. */
    return json_pack(
        "{s:I, s:I, s:o, s:o, s:o, s:b}", "running_ms", (json_int_t)total->running, "standstill_ms",
        (json_int_t)total->standstill_all, "standstill_ms_by_cause", by_cause, "lost_steps",
        total->has_lost ? json_integer((json_int_t)total->lost_steps) : json_null(),
        "useful_permille",
        total->useful < 0 ? json_null() : json_integer((json_int_t)(total->useful * 10 + 0.5)),
        "standstill_at_least", total->is_lower_bound);
}

/* Returns the current standstill, which no epoch record contains, and its reason. */
static json_t *now_json(const struct epochs_total *total)
{
    return total->now < 0 ? json_null()
                          : json_pack("{s:I, s:s, s:o}", "standstill_ms", (json_int_t)total->now,
                                      "state", msg_job_state_name(total->job->state), "waits",
                                      json_from_text(total->job->waits));
}

static int arrange_epochs(struct record_list *rows)
{
    epochs_compute(rows, clock_wall());
    return 0;
}

static json_t *epochs_json(const struct record_list *ledger, const struct tfe_msg *request)
{
    struct epochs_total total;
    epochs_sum(ledger, clock_wall(), &total);
    return json_pack("{s:s, s:o, s:o, s:o}", "job", request->u.epochs.job, "epochs",
                     record_list_json(ledger, &schema_epoch), "total", total_json(&total), "now",
                     now_json(&total));
}

/* --- other documents -------------------------------------------------------------------------- */

/* "newest" is the highest number, or the one after which events were requested if there are none.
 */
static json_t *events_json(const struct record_list *rows, const struct tfe_msg *request)
{
    const struct msg_event_row *last = rows->n > 0 ? rows->v[rows->n - 1].at : NULL;
    return json_pack("{s:o, s:I}", "events", record_list_json(rows, &schema_event), "newest",
                     (json_int_t)(last ? last->number : request->u.events.after));
}

static json_t *series_json(const struct record_list *rows, const struct tfe_msg *request)
{
    return json_pack("{s:s, s:o}", "job", request->u.series.job, "points",
                     record_list_json(rows, &schema_point));
}

static json_t *token_json(const struct record_list *rows, const struct tfe_msg *request)
{
    return rows->n == 1 ? record_json(&schema_token, rows->v[0].at) : NULL;
}

/* --- the table -------------------------------------------------------------------------------- */

#define OPERAND(member) .operand_at = offsetof(struct tfe_msg, u.member)
#define LIST(name, schema_) .list = (name), .schema = &(schema_)
#define ORDER(name_, type_, member)                                                                \
    {                                                                                              \
        .name = (name_), .request = {.type = (type_)}, OPERAND(member)                             \
    }

const struct operation operations[OPERATION__COUNT] = {
    [OPERATION_STATUS] = {.request = {.type = MSG_STATUS},
                          OPERAND(status.job),
                          .arrange = sort_status,
                          .json = status_json},
    [OPERATION_JOBS] = {.request = {.type = MSG_STATUS, .u.status.jobs_only = true},
                        .arrange = sort_status,
                        .json = status_json},
    [OPERATION_JOB] = {.request = {.type = MSG_STATUS, .u.status.detail = true},
                       OPERAND(status.job),
                       .arrange = sort_status,
                       .json = job_json},
    [OPERATION_CONDITIONS] = {.request = {.type = MSG_STATUS,
                                          .u.status = {.jobs_only = true, .detail = true}},
                              OPERAND(status.job),
                              LIST("conditions", schema_condition)},
    [OPERATION_NODES] = {.request = {.type = MSG_STATUS},
                         OPERAND(status.job),
                         .arrange = arrange_nodes,
                         LIST("nodes", schema_node_of_job)},
    [OPERATION_EPOCHS] = {.request = {.type = MSG_EPOCHS},
                          OPERAND(epochs.job),
                          .arrange = arrange_epochs,
                          .json = epochs_json},
    [OPERATION_EVENTS] = {.request = {.type = MSG_EVENTS},
                          OPERAND(events.job),
                          .json = events_json},
    [OPERATION_SERIES] = {.request = {.type = MSG_SERIES},
                          OPERAND(series.job),
                          .json = series_json},
    [OPERATION_LOGS] = {.request = {.type = MSG_LOGS},
                        OPERAND(logs.job),
                        LIST("lines", schema_log_lines)},
    [OPERATION_POOL] = {.request = {.type = MSG_POOL_NODES}, LIST("pool", schema_pool_node)},
    [OPERATION_DEMAND] = {.request = {.type = MSG_DEMAND}, LIST("demand", schema_demand)},
    [OPERATION_GAUGES] = {.request = {.type = MSG_GAUGES}, LIST("gauges", schema_gauge)},
    [OPERATION_AGENTS] = {.request = {.type = MSG_AGENTS}, LIST("agents", schema_agent_row)},
    [OPERATION_BANS] = {.request = {.type = MSG_BANS}, LIST("bans", schema_ban_row)},
    [OPERATION_AUDIT] = {.request = {.type = MSG_AUDIT}, LIST("audit", schema_audit_row)},
    [OPERATION_TOKENS] = {.request = {.type = MSG_TOKENS}, LIST("keys", schema_token_row)},
    [OPERATION_TOKEN_CREATE] = {.request = {.type = MSG_TOKEN_CREATE}, .json = token_json},
    [OPERATION_SUBMIT] = {.name = "submit", .request = {.type = MSG_SUBMIT}},
    [OPERATION_SCALE] = {.name = "scale",
                         .request = {.type = MSG_SCALE, .u.scale.n_ps = MSG_UNSET},
                         OPERAND(scale.job)},
    [OPERATION_GROW] = ORDER("grow", MSG_GROW, grow.job),
    [OPERATION_SUSPEND] = ORDER("suspend", MSG_SUSPEND, suspend.job),
    [OPERATION_RESUME] = ORDER("resume", MSG_RESUME, resume.job),
    [OPERATION_CANCEL] = ORDER("cancel", MSG_CANCEL, cancel.job),
    [OPERATION_RESTART] = ORDER("restart", MSG_RERUN, rerun.job),
    [OPERATION_FORGET] = ORDER("forget", MSG_FORGET, forget.job),
    [OPERATION_DRAIN] = {.name = "drain",
                         .request = {.type = MSG_DRAIN, .u.drain.within_ms = MSG_UNSET},
                         OPERAND(drain.node)},
    [OPERATION_EVICT] = ORDER("evict", MSG_EVICT, evict.node),
    [OPERATION_UNBAN] = ORDER("unban", MSG_UNBAN, unban.node),
    [OPERATION_REVOKE_AGENT] = ORDER("revoke-agent", MSG_REVOKE_AGENT, revoke_agent.node),
    [OPERATION_TOKEN_REVOKE] = ORDER("token-revoke", MSG_TOKEN_REVOKE, token_revoke.key),
    [OPERATION_TOKEN_ROTATE] = {.name = "token-rotate", .request = {.type = MSG_TOKEN_ROTATE}},
    [OPERATION_BACKUP] = ORDER("backup", MSG_BACKUP, backup.name),
};

void operation_set_operand(enum operation_id id, const char *operand, struct tfe_msg *request)
{
    memcpy((char *)request + operations[id].operand_at, &operand, sizeof(operand));
}

struct tfe_msg operation_request(enum operation_id id, const char *operand)
{
    struct tfe_msg request = operations[id].request;
    if (operations[id].operand_at > 0) {
        operation_set_operand(id, operand, &request);
    }
    return request;
}

bool operation_needs_admin(enum operation_id id)
{
    const struct principal observer = {.role = PRINCIPAL_OBSERVER, .scope = PRINCIPAL_EVERY_JOB};
    return principal_fault(&observer, operations[id].request.type, NULL) != NULL;
}

int operation_arrange(enum operation_id id, struct record_list *rows)
{
    return operations[id].arrange ? operations[id].arrange(rows) : 0;
}

json_t *operation_json(enum operation_id id, const struct record_list *rows,
                       const struct tfe_msg *request)
{
    const struct operation *op = &operations[id];
    return op->json ? op->json(rows, request)
                    : json_pack("{s:o}", op->list, record_list_json(rows, op->schema));
}
