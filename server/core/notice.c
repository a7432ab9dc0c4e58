/* server/core/notice.c: notices: a node's machine will be terminated, or an operator takes the node
 * out. */
#include "server/core/notice.h"

#include "server/core/epoch.h"
#include "server/core/job.h"
#include "server/core/job_progress.h"
#include "server/core/node.h"
#include "server/core/plan.h"
#include "server/core/states.h"
#include "server/core/worker_restart.h"

/* Withdraws the notice. A node that was leaving and has no slot gets PREPARE, because its READY did
 * not count while it was leaving. */
static void stay(struct rdzv *r, struct node *node)
{
    struct job *job = node->job;
    bool left = node->notice.is_leaving;
    send_trace(r, TRACE_NODE_STAYS, job, node, 0, node->name);
    ready_set(node, left ? 0 : node->ready.epoch);
    notice_forget(node);
    if (left && !epoch_engages(job, node) && !node->report.is_given) {
        node_prepare(r, node);
    }
}

void notice_forget(struct node *node)
{
    if (!node->notice.is_drained) {
        node->notice.kind = 0;
        node->notice.is_leaving = false;
        node->notice.is_interrupted = false;
        node->notice.released_for = (enum tfe_cause)0;
        node->slot.will_drain = false;
        plan_recount(node->job);
    }
}

void notice_withdraw(struct rdzv *r, struct node *node)
{
    if (node->notice.kind != 0 && !node->notice.is_drained) {
        stay(r, node);
        job_touch(node->job);
    }
}

void notice_restore_drained(struct rdzv *r, struct node *node)
{
    node->notice = (struct notice){.kind = NOTICE_OPERATOR,
                                   .is_leaving = true,
                                   .is_drained = true,
                                   .since = r->now,
                                   .deadline = TFE_MONO_NEVER};
}

void notice_apply(struct rdzv *r, struct node *node, enum tfe_notice kind, uint32_t within_ms)
{
    struct job *job = node->job;
    struct notice *notice = &node->notice;
    bool is_first = notice->kind == 0;
    bool leaves = kind != NOTICE_REBALANCE;
    struct tfe_mono deadline =
        within_ms == MSG_UNSET ? TFE_MONO_NEVER : tfe_mono_add(r->now, within_ms);
    if (notice->is_leaving && !leaves) {
        if (notice->is_drained) {
            return;
        }
        stay(r, node); /* the stronger notice was withdrawn, and the weaker one remains */
    }
    if (notice->is_leaving && notice->is_drained && kind != NOTICE_OPERATOR) {
        deadline = tfe_mono_min(deadline, notice->deadline);
        kind = NOTICE_OPERATOR;
    }
    if (leaves && !notice->is_leaving) {
        notice->since = r->now;
        ready_set(node, 0);
        notice->is_leaving = true;
    } else if (is_first) {
        notice->since = r->now;
    }
    notice->kind = kind;
    notice->deadline = deadline;
    if (leaves && !node->slot.is_draining && worker_schedule_drain(r, node)) {
        plan_recount(job); /* no new epoch is needed */
    } else if (is_first) {
        plan_count(job, node);
    } else {
        plan_recount(job);
    }
    /* An epoch that has not started is given up at once. If rank 0 has ended well instead, the job
     * is about to end, and its members are released with it. */
    if (leaves && job->state == JOB_COMMITTING && epoch_engages(job, node) &&
        !node->slot.is_accounted) {
        switch_plan(job, notice_cause(notice), node);
    }
    job_touch(job);
}

/* --- releasing drained nodes ------------------------------------------------------------------ */

/* Returns true if the job still has to learn whether the node's trainers have ended. That is not
 * so while the job waits for nodes, or once the trainers have ended permanently. */
static bool is_needed(const struct node *node)
{
    const struct job *job = node->job;
    if (node_evaluates(node) && job->evaluator.runs && !job_is_over(job)) {
        return true; /* the next evaluator starts after this one has ended */
    }
    return node_is_member(node) && job->state != JOB_WAITING &&
           !(job->state == JOB_RUNNING && node->slot.is_accounted && !node->slot.is_due);
}

void drain_end(struct rdzv *r, struct node *node)
{
    uint32_t session = node->session.number;
    if (!node->notice.is_drained || !node_is_connected(node) || is_needed(node)) {
        /* a disconnected node is released when it reconnects, unless its lease ends before */
        return;
    }
    send_trace(r, TRACE_NODE_LEFT, node->job, node, 0, node->name);
    node_remove(r, node);
    send_finish(r, session, RESULT_DRAINED, node->job->run.number,
                "this node was drained by an operator; its job continues without it");
}

void drain_end_all(struct rdzv *r, struct job *job)
{
    struct node *node;
    struct node *next;
    RB_FOREACH_SAFE(node, node_tree, &job->nodes, next)
    {
        drain_end(r, node);
    }
}
