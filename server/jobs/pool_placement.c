/* server/jobs/pool_placement.c: carries out the scheduler's decisions and sets the conditions of
 * jobs. */
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "server/jobs/pool_private.h"
#include "server/session.h"

/* Time for a released node to leave its job by a planned switch. */
#define RELEASE_MS 60000
/* --- decisions of the scheduler --- */

static void send_assign(struct pool_node *node)
{
    struct pool_job *job = node->job;
    const struct tfe_msg msg = {.type = MSG_ASSIGN,
                                .u.assign = {.assignment = node->assignment,
                                             .has_role = pool_job_has_roles(job),
                                             .role = node->task,
                                             .run_key = job->run_key.text,
                                             .spec = job->spec}};
    if (node->session) {
        node->is_assign_sent = true;
        pool_node_send(node, &msg);
    }
}

/* Sends ASSIGN to the nodes of the job whose assignment is durable. */
static void send_assignments(struct pool_job *job)
{
    struct pool_node *node;
    TAILQ_FOREACH(node, &job->nodes, of_job)
    {
        if (!node->is_assign_sent && !node->is_leaving && node->version <= job->written) {
            send_assign(node);
        }
    }
}

static const char *release_text(enum placement_reason reason)
{
    switch (reason) {
    case PLACEMENT_NO_REASON:
        return "its release was already requested";
    case PLACEMENT_TOO_MANY:
        return "the job's maximum was lowered";
    case PLACEMENT_TAKEN:
        return "another job needs it to reach its minimum";
    case PLACEMENT_SUSPENDED:
        return "the job is suspended";
    case PLACEMENT_OVER:
        return "the job has ended";
    case PLACEMENT_TOO_FEW:
        return "the job lacks nodes and other jobs wait";
    case PLACEMENT_UNKNOWN:
        return "the server does not know its assignment";
    case PLACEMENT_REMOVED:
        return "the node leaves the pool";
    case PLACEMENT_ABOVE_QUOTA:
        return "the job lacks nodes and its minimum exceeds its quota";
    }
    return "";
}

/* Adds one event per job, for any number of nodes. */
static void report_moves(struct pool *p)
{
    struct pool_job *job;
    TAILQ_FOREACH(job, &p->jobs, link)
    {
        const struct msg_event_row assigned = {.kind = "assigned", .job = job->name.text};
        const struct msg_event_row released = {.kind = "released", .job = job->name.text};
        if (job->n_assigned > 0) {
            events_report(p->config.events, &assigned, "the job receives %u %s of the pool",
                          (unsigned)job->n_assigned, job->n_assigned == 1 ? "node" : "nodes");
        }
        if (job->n_released > 0) {
            events_report(p->config.events, &released, "%u %s of the job %s released: %s",
                          (unsigned)job->n_released, job->n_released == 1 ? "node" : "nodes",
                          job->n_released == 1 ? "is" : "are", job->release_reason);
        }
        job->n_assigned = job->n_released = 0;
    }
}

/* Returns the cause of the epoch that the job begins without the node. */
static enum tfe_cause cause_of(const struct pool_node *node, enum placement_reason reason)
{
    switch (reason) {
    case PLACEMENT_TOO_MANY:
        return CAUSE_RESIZED;
    case PLACEMENT_TAKEN:
    case PLACEMENT_TOO_FEW:
    case PLACEMENT_ABOVE_QUOTA:
        return CAUSE_REASSIGNED;
    case PLACEMENT_SUSPENDED:
        return CAUSE_SUSPENDED;
    case PLACEMENT_REMOVED:
        return CAUSE_DRAINED;
    case PLACEMENT_NO_REASON:
    case PLACEMENT_UNKNOWN:
    case PLACEMENT_OVER:
        break;
    }
    return node->release_cause;
}

static void release(struct pool *p, struct pool_node *node, uint64_t assignment,
                    enum placement_reason reason)
{
    const struct tfe_msg msg = {.type = MSG_RELEASE,
                                .u.release = {.assignment = assignment,
                                              .within_ms = RELEASE_MS,
                                              .message = release_text(reason),
                                              .over = reason == PLACEMENT_OVER}};
    /* The assignment was not durable yet: the agent never received it and does not acknowledge its
     * end. */
    const bool is_unsent = node->session && !node->is_assign_sent && assignment == node->assignment;
    if (assignment == node->assignment && !node->is_leaving) {
        node->is_leaving = true;
        node->release_cause = cause_of(node, reason);
        node->since = clock_wall();
        p->n_released++;
        if (node->job) {
            node->job->n_released++;
            node->job->release_reason = release_text(reason);
        }
    }
    if (is_unsent || !tfe_mono_is_never(node->rests)) {
        node->rests = clock_mono(); /* nothing of the assignment is left on the node */
        pool_wake(p, node->rests);
    } else if (reason !=
               PLACEMENT_REMOVED) { /* for a removed node, the removal has been sent already */
        pool_node_send(node, &msg);
    }
}

static void carry_out(struct pool *p, const struct placement_actions *actions)
{
    struct pool_job *job = NULL;
    for (size_t i = 0; i < actions->n; i++) {
        const struct placement_action *a = &actions->v[i];
        struct pool_node *node =
            pool_node_find(p, a->node); /* NULL if the action concerns only a job */
        if (!job || strcmp(job->name.text, a->job) != 0) { /* actions of one job are consecutive */
            job = pool_job_find(p, a->job);
        }
        if (a->type == PLACEMENT_WAITS && job) {
            job->is_stale = true; /* the condition must show it */
            pool_wake(p, clock_mono());
        }
        if (!node) {
            continue;
        }
        if (a->type == PLACEMENT_RELEASE) {
            release(p, node, a->assignment, a->reason);
        } else if (a->type == PLACEMENT_LEAVE) {
            node->out = OUT_IDLE;
            pool_node_send_removal(node, 0);
        } else if (job) {
            pool_node_attach(p, node, job, a->assignment, a->task);
            job->n_assigned++;
            job->is_stale = true; /* the job may have its whole minimum now */
            pool_wake(p, clock_mono());
            p->n_assigned++;
        }
    }
    if (actions->n > 0) {
        report_moves(p);
    }
}

static void on_written(void *ctx, int rc, struct record_list *page, const char *reason);

void pool_write(struct pool *p)
{
    struct pool_job *job;
    TAILQ_FOREACH(job, &p->jobs, link)
    {
        pool_job_write(job, on_written);
        if (!job->request && job->version != job->written && p->writer) {
            pool_wake(p, job->again);
        }
    }
}

int pool_step(struct pool *p, struct placement_event event)
{
    struct placement_actions actions;
    event.now = clock_mono();
    int rc = placement_step(p->placement, &event, &actions);
    if (rc == 0) {
        p->deadline = actions.deadline;
        carry_out(p, &actions);
        pool_wake(p, p->deadline);
    }
    if (!event.is_more_to_come) {
        pool_write(p);
    }
    return rc;
}

/* --- jobs --- */

int pool_place(struct pool *p, struct pool_job *job)
{
    const struct pool_needs *needs = &job->needs;
    struct pool_label wanted[MSG_POOL_LABELS_MAX];
    struct placement_label labels[MSG_POOL_LABELS_MAX];
    struct placement_options options = {.priority = needs->priority,
                                        .is_suspended = needs->suspend,
                                        .preempt = needs->preempt,
                                        .labels = labels,
                                        .min = {[TASK_WORKER] = needs->min_nodes,
                                                [TASK_CHIEF] = needs->chief,
                                                [TASK_PS] = needs->n_ps,
                                                [TASK_EVALUATOR] = needs->evaluator}};
    int rc = pool_job_labels(job, wanted, &options.n_labels);
    if (rc != 0) {
        return rc;
    }
    memcpy(options.max, options.min, sizeof(options.max));
    options.max[TASK_WORKER] = needs->max_nodes;
    for (size_t i = 0; i < options.n_labels; i++) {
        labels[i] = (struct placement_label){wanted[i].tasks, wanted[i].text};
    }
    rc = pool_step(p, (struct placement_event){.type = job->is_placed ? PLACEMENT_JOB_CHANGED
                                                                      : PLACEMENT_JOB_SUBMITTED,
                                               .job = job->name.text,
                                               .options = &options});
    job->is_placed = job->is_placed || rc == 0;
    job->is_stale = true;
    pool_wake(p, clock_mono());
    return rc;
}

void pool_set_end(struct pool_job *job)
{
    const struct tfe_wall since = job->is_over ? pool_job_condition(job)->at : job->started;
    const uint32_t ms =
        !job->is_over ? (since.ms > 0 && !job->needs.suspend ? job->needs.active_deadline_ms : 0)
        : job->needs.ttl_ms == MSG_UNSET ? 0
                                         : job->needs.ttl_ms + 1;
    const int64_t gone = clock_wall().ms - since.ms;
    job->ends = TFE_MONO_NEVER;
    if (ms > 0) {
        job->ends = tfe_mono_add(clock_mono(), gone < 0 ? ms : gone > ms ? 0 : ms - gone);
        pool_wake(job->pool, job->ends);
    }
}

static void report_end(struct pool *p, const struct pool_job *job)
{
    (void)pool_step(p, (struct placement_event){.type = PLACEMENT_JOB_OVER,
                                                .job = job->name.text,
                                                .keeps_nodes = job->lingers});
}

void pool_end(struct pool *p, struct pool_job *job, enum tfe_job_state how, const char *reason,
              const char *message)
{
    pool_job_is(job, how, reason, message);
    job->is_over = true;
    pool_set_end(job);
    report_end(p, job);
}

void pool_end_lingering(struct pool *p, struct pool_job *job)
{
    job->lingers = false;
    pool_stop_in_core(p, job);
    report_end(p, job);
}

static void end_as_failed(struct pool *p, struct pool_job *job, bool is_used_up)
{
    char reason[MSG_SENTENCE_MAX];
    struct msg_status_job row = {.job = job->name.text};
    rdzv_view_reason(p->config.core, &row, reason);
    pool_end(p, job, STATE_FAILED, is_used_up ? CONDITION_USED_UP : "JobFailed", reason);
}

/* Ends the job's run in the core. */
void pool_stop_in_core(const struct pool *p, const struct pool_job *job)
{
    struct msg_status_job row;
    if (pool_job_in_core(job, &row)) {
        (void)p->config.ops->order(
            p->config.ops_ctx, &(struct rdzv_event){.type = RDZV_STOP_JOB, .job = job->name.text});
    }
}

/* Ends the job as failed on the server's own decision; its trainers end as by STOP_JOB. */
void pool_fail(struct pool *p, struct pool_job *job, const char *reason, const char *message)
{
    const struct msg_event_row row = {
        .kind = "job_finished", .level = EVENT_ERROR, .job = job->name.text};
    pool_stop_in_core(p, job);
    events_report(p->config.events, &row, "the job has failed: %s", message);
    pool_end(p, job, STATE_FAILED, reason, message);
}

/* The job has no nodes or too few: sets the condition, which says whether its quota is the reason.
 */
static void set_waiting(struct pool_job *job, const struct placement_view *view)
{
    char message[sizeof(job->conditions[0].message)];
    if (!view || !view->quota) {
        pool_job_is_usual(job, STATE_WAITING);
        return;
    }
    const bool is_above = view->quota_lacks == 0;
    (void)snprintf(message, sizeof(message),
                   is_above ? "its minimum exceeds the quota of jobs %s"
                            : "it waits for nodes of the quota of jobs %s, which other jobs use",
                   view->quota);
    pool_job_is(job, STATE_WAITING, is_above ? "AboveQuota" : "WaitsForQuota", message);
}

static void set_running(struct pool_job *job)
{
    pool_job_is_usual(job, STATE_RUNNING);
    job->failures = 0;
    job->start_error[0] = '\0';
    if (job->started.ms == 0) {
        job->started = clock_wall();
        pool_job_touch(job);
        pool_set_end(job);
    }
}

/* The job is neither over nor suspended, and no epoch runs. If nodes are on their way, it is
 * starting. */
static void set_not_running(struct pool *p, struct pool_job *job, const struct msg_status_job *row)
{
    const struct msg_event_row event = {.kind = "waiting", .job = job->name.text};
    const bool is_new = pool_job_is_fresh(job) || pool_job_state(job) == STATE_SUSPENDED;
    struct placement_view view;
    const bool is_known = pool_job_view(job, &view);
    if ((row && row->state != STATE_WAITING) || (is_known && view.state == PLACEMENT_JOB_PLACED)) {
        pool_job_is_usual(job, job->started.ms == 0 ? STATE_STARTING : STATE_RESTARTING);
        return;
    }
    set_waiting(job, is_known ? &view : NULL);
    if (is_new && is_known && view.state == PLACEMENT_JOB_QUEUED) {
        events_report(p->config.events, &event, "the job waits for nodes of the pool");
    }
}

/* Sets the condition of the job from its state in the core. */
void pool_refresh(struct pool *p, struct pool_job *job)
{
    struct msg_status_job row;
    const bool is_there = pool_job_in_core(job, &row);
    const struct rdzv_run run = rdzv_get_run(p->config.core, job->name.text);
    job->is_stale = false;
    if (job->lingers && (!is_there || row.state != STATE_RUNNING)) {
        pool_end_lingering(p, job); /* all trainers have ended, or would start again */
    }
    if (job->is_over || !job->is_placed) {
        return;
    }
    if (is_there && row.state == STATE_SUCCEEDED) {
        pool_end(p, job, STATE_SUCCEEDED, "JobSucceeded", "the job has succeeded");
    } else if (is_there && run.lingers) {
        job->lingers = true;
        pool_end(p, job, STATE_SUCCEEDED, "JobSucceeded",
                 "the job has succeeded; the remaining trainers run until they end, the job is "
                 "cancelled or its ttl expires");
    } else if (is_there && row.state == STATE_FAILED) {
        end_as_failed(p, job, run.is_used_up);
    } else if (is_there && row.state == STATE_CANCELLED) {
        pool_end(p, job, STATE_CANCELLED, "JobCancelled", "it " RDZV_CANCELLED);
    } else if (job->needs.suspend) {
        pool_job_is_usual(job, STATE_SUSPENDED);
    } else if (is_there && row.state == STATE_RUNNING) {
        set_running(job);
    } else {
        set_not_running(p, job, is_there ? &row : NULL);
    }
    pool_write(p);
}

void pool_trace(struct pool *p, const struct rdzv_trace *trace)
{
    if (trace->job && (trace->kind == TRACE_JOB_STATE || trace->kind == TRACE_JOB_FINISHED ||
                       trace->kind == TRACE_LINGERS || trace->kind == TRACE_RESTARTS)) {
        struct pool_job *job = pool_job_find(p, trace->job);
        if (job) {
            job->is_stale = true; /* do not query or step the core inside a trace callback */
            pool_wake(p, clock_mono());
        }
    }
}

/* The write of a job's row has ended. */
static void on_written(void *ctx, int rc, struct record_list *page, const char *reason)
{
    struct pool_job *job = ctx;
    struct pool *p = job->pool;
    (void)page;
    job->request = NULL;
    if (rc == 0) {
        job->written = job->writing;
        job->again.ms = 0;
    } else {
        log_error("job_not_written", LOG_S("job", job->name.text), LOG_S("reason", reason));
        job->again = tfe_mono_add(clock_mono(), POOL_CHECK_MS);
        if (!job->is_placed && !job->is_over) {
            pool_job_is(job, STATE_FAILED, "NotStored", "it could not be written to the database");
            job->is_over = true;
        }
    }
    pool_job_settle(job, rc, reason);
    if (job->is_gone && (job->is_replaced || (rc == 0 && job->written == job->version))) {
        pool_job_free(job);
        return;
    }
    if (rc == 0 && !job->is_placed && !job->is_gone && !job->is_over) {
        const int fault = pool_place(p, job);
        if (fault != 0) {
            pool_end(p, job, STATE_FAILED, "NotPlaced", tfe_error_sentence(fault));
        }
    }
    send_assignments(job);
    pool_write(p);
}

int pool_forget(struct pool *p, const char *name)
{
    struct pool_job *job = pool_job_find(p, name);
    if (!job) {
        return TFE_ENOENT;
    }
    if (!job->is_over || !TAILQ_EMPTY(&job->nodes)) {
        return TFE_ESTATE;
    }
    (void)pool_step(
        p, (struct placement_event){.type = PLACEMENT_JOB_FORGOTTEN, .job = job->name.text});
    job->is_gone = true;
    job->ends = TFE_MONO_NEVER;
    pool_job_touch(job);
    pool_write(p);
    return 0;
}

bool pool_holds(const struct pool *p, const char *name)
{
    const struct pool_job *job = pool_job_find(p, name);
    return job && (!job->is_over || !TAILQ_EMPTY(&job->nodes));
}
