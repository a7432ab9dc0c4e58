/* server/core/on_notice.c: NOTICE: a node says that its machine will go away, or that it will not
 * after all. */
#include "server/core/core.h"
#include "server/core/events.h"

/* Asks it to be READY again where it has no seat: what it said while it was leaving did not count.
 */
static void stay(struct rdzv *r, struct node *node)
{
    struct job *job = node->job;
    bool left = node->leaving;
    send_trace(r, TRACE_NODE_STAYS, job, node, 0, node->name);
    node_set_ready(node, left ? 0 : node->ready_epoch);
    node->notice = 0;
    node->leaving = false;
    plan_recount(job);
    if (left && !job_engages(job, node) && !node->reports) {
        node_prepare(r, node);
    }
}

static void take_back(struct rdzv *r, struct node *node)
{
    if (node->notice == 0 || node->drained) {
        return; /* an operator's order stands, whatever its machine says */
    }
    stay(r, node);
    job_settle(r, node->job);
}

void node_take_notice(struct rdzv *r, struct node *node, enum tfe_notice kind, uint32_t within_ms)
{
    struct job *job = node->job;
    bool is_first = node->notice == 0;
    bool leaves = kind != NOTICE_REBALANCE;
    struct tfe_mono deadline =
        within_ms == MSG_UNSET ? TFE_MONO_NEVER : tfe_mono_add(r->now, within_ms);
    if (node->leaving && !leaves) {
        if (node->drained) {
            return;
        }
        stay(r, node); /* what said more has been withdrawn, and this is what still stands */
    }
    if (node->leaving && node->drained && kind != NOTICE_OPERATOR) {
        deadline = tfe_mono_min(deadline, node->notice_deadline);
        kind = NOTICE_OPERATOR;
    }
    if (leaves && !node->leaving) {
        node->noticed = r->now;
        node_set_ready(node, 0);
        node->leaving = true;
    } else if (is_first) {
        node->noticed = r->now;
    }
    node->notice = kind;
    node->notice_deadline = deadline;
    if (is_first) {
        plan_count(job, node);
    } else {
        plan_recount(job);
    }
    /* An epoch that has not begun is given up at once. Once rank 0 has ended well the job is about
     * to end: its members are let go with it. */
    if (leaves && job->state == JOB_COMMITTING && job_engages(job, node) && !node->accounted) {
        ledger_blame(job, node);
        job_plan_switch(job, node->drained ? CAUSE_DRAINED : CAUSE_PREEMPTED);
    }
    job_settle(r, job);
}

int on_notice(struct rdzv *r, struct node *node, const struct msg_notice *notice)
{
    if (notice->kind < NOTICE_REBALANCE || notice->kind > NOTICE_OPERATOR ||
        (notice->deadline_ms != MSG_UNSET && notice->deadline_ms > MSG_DURATION_MAX_MS)) {
        return TFE_EINVAL;
    }
    if (notice->withdrawn) {
        take_back(r, node);
        return 0;
    }
    if (node->notice != notice->kind) {
        send_trace(r, TRACE_NODE_NOTICED, node->job, node,
                   notice->deadline_ms == MSG_UNSET ? 0 : notice->deadline_ms,
                   msg_notice_name(notice->kind))
            ->uncertain = notice->uncertain;
    }
    node_take_notice(r, node, notice->kind, notice->deadline_ms);
    return 0;
}
