/* server/core/evaluator.c: starts, restarts and stops the evaluator. */
#include "server/core/evaluator.h"

#include "common/base/backoff.h"
#include "server/core/epoch.h"
#include "server/core/job.h"
#include "server/core/layout.h"
#include "server/core/node.h"
#include "server/core/notice.h"
#include "server/core/states.h"
#include "server/core/table.h"
#include "server/core/verdict.h"
#include "server/core/worker_restart.h"

#define PAUSE_FIRST_MS 1000
#define PAUSE_MAX_MS 60000
/* An evaluator that has run for this long is restarted at once. */
#define STEADY_MS 60000

void evaluator_begin_run(struct job *job)
{
    job->evaluator = (struct evaluator){.node = NULL};
}

static void send_start(struct rdzv *r, struct job *job)
{
    struct evaluator *e = &job->evaluator;
    tables_send(r, job, e->node, e->epoch);
    send_node(r, e->node, MSG_START)->u.start =
        (struct msg_start){.epoch = e->epoch,
                           .run = job->run.number,
                           .rank = layout_world(job),
                           .world = layout_world(job),
                           .nodes = job->epoch.n_slots,
                           .cause = job->epoch.cause,
                           .table_digest = job->epoch.digest,
                           .evaluates = true};
    e->start_visit = e->node->session.visit;
}

static void begin(struct rdzv *r, struct job *job, struct node *node)
{
    /* The evaluator takes the epoch number, so nodes that were READY for it get PREPARE again. */
    job->evaluator = (struct evaluator){.node = node,
                                        .epoch = epoch_reserve_number(job),
                                        .runs = true,
                                        .since = r->now,
                                        .not_before = tfe_mono_add(r->now, PAUSE_FIRST_MS)};
    send_trace(r, TRACE_EVALUATOR, job, node, 0, "starts");
    send_start(r, job);
    epoch_prepare_spares(r, job);
}

static void start_again(struct rdzv *r, struct job *job)
{
    struct evaluator *e = &job->evaluator;
    e->runs = true;
    e->since = r->now;
    e->n_restarts++;
    e->start_visit = e->node->session.visit;
    send_trace(r, TRACE_EVALUATOR, job, e->node, e->n_restarts, "restarts");
    send_node(r, e->node, MSG_RESTART)->u.restart =
        (struct msg_restart){.epoch = e->epoch, .number = e->n_restarts};
}

/* --- notices and drains --- */

/* Returns true if a node that no epoch needs, and whose machine stays, could evaluate. */
static bool has_relief(struct job *job)
{
    const struct node *node =
        job->state == JOB_RUNNING && !job->pending_switch.is_set && !job->success.is_here
            ? rank_assignment_pick_evaluator(job)
            : NULL;
    return node && node->notice.kind == 0;
}

static void stop_evaluator(struct rdzv *r, struct job *job)
{
    struct evaluator *e = &job->evaluator;
    e->is_stopping = true;
    send_node(r, e->node, MSG_STOP)->u.stop = (struct msg_stop){
        .epoch = e->epoch, .planned = true, .cause = notice_cause(&e->node->notice)};
}

/* Clears the evaluator; its node gets PREPARE and may become a member. */
static void release_node(struct rdzv *r, struct job *job)
{
    struct node *node = job->evaluator.node;
    evaluator_clear(&job->evaluator);
    if (node_is_connected(node)) {
        node_prepare(r, node);
    }
}

void evaluator_leave(struct rdzv *r, struct job *job)
{
    struct evaluator *e = &job->evaluator;
    if (!e->node || job_is_over(job)) {
        return;
    }
    if (!e->runs && evaluator_is_leaving(job)) {
        release_node(r, job); /* rather than restart it there */
        return;
    }
    if (e->is_stopping || e->is_finishing || e->node->notice.kind == 0 ||
        !node_is_connected(e->node)) {
        return; /* a disconnected node gets it when it reconnects */
    }
    if (is_past(r, worker_leaves_at(r, e->node)) || has_relief(job)) {
        send_trace(r, TRACE_EVALUATOR, job, e->node, 0, "leaves");
        stop_evaluator(r, job);
    }
}

struct tfe_mono evaluator_leaves_at(const struct rdzv *r, const struct job *job)
{
    const struct evaluator *e = &job->evaluator;
    bool is_due = e->node && e->runs && !e->is_stopping && !e->is_finishing &&
                  e->node->notice.is_leaving && node_is_connected(e->node);
    return is_due ? worker_leaves_at(r, e->node) : TFE_MONO_NEVER;
}

/* --- while it runs ---------------------------------------------------------------------------- */

struct tfe_mono evaluator_settle(struct rdzv *r, struct job *job)
{
    struct evaluator *e = &job->evaluator;
    if (job->success.is_here && !job->spec.linger && evaluator_is_awaited(job) &&
        !e->is_finishing && node_is_connected(e->node)) {
        e->is_finishing = true;
        send_node(r, e->node, MSG_STOP)->u.stop =
            (struct msg_stop){.epoch = e->epoch, .planned = true};
    }
    if (!job->spec.evaluator || e->is_done || job->success.is_here) {
        return TFE_MONO_NEVER;
    }
    if (!e->node) {
        /* If this epoch is ending, the next one may need the node. */
        struct node *node = job->pending_switch.is_set ? NULL : rank_assignment_pick_evaluator(job);
        if (node && !node->has_role && workers_below_min(job)) {
            node = NULL; /* the node is to replace the worker that is lost */
        }
        if (node && !is_past(r, job->evaluator.not_before)) {
            return job->evaluator.not_before;
        }
        if (node) {
            begin(r, job, node);
        }
        return TFE_MONO_NEVER;
    }
    if (e->runs || !node_is_connected(e->node)) {
        return TFE_MONO_NEVER;
    }
    if (!is_past(r, e->due)) {
        return e->due;
    }
    start_again(r, job);
    return TFE_MONO_NEVER;
}

bool evaluator_is_awaited(const struct job *job)
{
    return job->evaluator.node && job->evaluator.runs;
}

bool evaluator_handle_exited(struct rdzv *r, struct node *node, const struct msg_exited *exited)
{
    struct job *job = node->job;
    struct evaluator *e = &job->evaluator;
    if (e->node != node || exited->epoch != e->epoch) {
        return false;
    }
    if (!e->runs || exited->restart < e->n_restarts) {
        return true; /* already known */
    }
    e->runs = false;
    e->n_restarts = exited->restart;
    /* Its ending counts neither as success nor as fault, so the policy decides only whether it is
     * restarted. */
    e->is_done = verdict_is_good(exited)
                     ? !verdict_is_again(job, TASK_EVALUATOR, exited)
                     : verdict_is_permanent(job, TASK_EVALUATOR, exited,
                                            verdict_find(r, node, exited, false));
    bool was_steady = tfe_mono_sub(r->now, e->since) >= STEADY_MS || exited->stopped;
    e->pause_ms = was_steady ? 0 : backoff_next(e->pause_ms, PAUSE_FIRST_MS, PAUSE_MAX_MS);
    e->due = tfe_mono_add(r->now, e->pause_ms);
    send_trace(r, TRACE_EVALUATOR, job, node, exited->signal ? 128 + exited->signal : exited->code,
               "ended");
    if (e->is_done) {
        release_node(r, job);
    }
    job_touch(job);
    return true;
}

/* Adopts a running or ended evaluator after a restart of the server. */
static void adopt(struct rdzv *r, struct node *node, const struct msg_join *join)
{
    struct job *job = node->job;
    bool runs = join->running_epoch != 0;
    job->evaluator = (struct evaluator){.node = node,
                                        .epoch = runs ? join->running_epoch : join->exited->epoch,
                                        /* if it has ended, the ending is handled next */
                                        .runs = true,
                                        .since = r->now,
                                        .n_restarts = runs ? join->restart : join->exited->restart};
    send_trace(r, TRACE_EVALUATOR, job, node, job->evaluator.n_restarts, "has reconnected");
}

bool evaluator_handle_join(struct rdzv *r, struct node *node, const struct msg_join *join)
{
    struct job *job = node->job;
    struct evaluator *e = &job->evaluator;
    const struct msg_exited *exited = join->exited;
    bool reports_evaluator = join->evaluates && (join->running_epoch != 0 || exited);
    bool is_free = !e->node && !e->is_done && job->spec.evaluator && !node_is_member(node) &&
                   !job_is_over(job) && job->epoch.n_slots > 0;
    if (reports_evaluator && is_free) {
        adopt(r, node, join);
    }
    if (e->node != node) {
        return false;
    }
    if (reports_evaluator && join->running_epoch == e->epoch) {
        e->runs = true;
        if (e->is_stopping) {
            stop_evaluator(r, job); /* STOP was lost with the connection */
        }
        return true;
    }
    if (reports_evaluator && exited && exited->epoch == e->epoch) {
        send_noted(r, node, exited->epoch);
        if (e->runs && exited->restart < e->n_restarts) {
            e->runs = false; /* the RESTART was lost: send the same number once more */
            e->n_restarts--;
            e->due = r->now;
        } else {
            (void)evaluator_handle_exited(r, node, exited);
        }
        return e->node == node;
    }
    if (join->highest_epoch < e->epoch && e->start_visit != node->session.visit &&
        !evaluator_is_leaving(job)) {
        send_start(r, job); /* START was lost with the connection */
        return true;
    }
    evaluator_clear(e);
    return false;
}

void evaluator_yield(struct rdzv *r, struct job *job)
{
    struct evaluator *e = &job->evaluator;
    struct node *node = e->node;
    if (!node || !node_is_connected(node) || node->has_role || node->notice.is_leaving ||
        layout_lacking(job) != 1) {
        return;
    }
    send_trace(r, TRACE_EVALUATOR, job, node, 0, "is stopped because its node is needed");
    send_stop(r, node, e->epoch);
    evaluator_clear(e);
    node_prepare(r, node);
}
