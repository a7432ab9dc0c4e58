/* server/core/on_drain.c: an operator takes a node out of its job, in an orderly way: no later
 * epoch has it, its trainers end with their epoch (plan.c says when), and then it is told that it
 * may go. */
#include "server/core/core.h"
#include "server/core/events.h"

/* Whether somebody still waits for what becomes of its trainers. Where the job waits for nodes, and
 * where they have ended well, nobody does. */
static bool is_needed(const struct node *node)
{
    const struct job *job = node->job;
    return node->seat != NO_SEAT && job->state != JOB_WAITING &&
           !(job->state == JOB_RUNNING && node->accounted);
}

void drain_end(struct rdzv *r, struct node *node)
{
    uint32_t session = node->session;
    if (!node->drained || session == NO_SESSION || is_needed(node)) {
        return; /* one that is not here is told when it is back, unless its lease ends before */
    }
    send_trace(r, TRACE_NODE_LEFT, node->job, node, 0, node->name);
    node_remove(r, node);
    struct msg_finish *finish = &send_to(r, session, MSG_FINISH)->u.finish;
    finish->result = RESULT_DRAINED;
    finish->run = node->job->run;
    finish->sentence = "this node was drained by an operator; its job goes on without it";
    send_close(r, session);
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

/* Whether the node is in the job's record, or about to be: an epoch that was put together from a
 * part of its members never is. */
static bool is_kept(const struct node *node)
{
    const struct job *job = node->job;
    return node->seat != NO_SEAT && !node->gone && !job_is_over(job) && !job->write.is_over &&
           (job->state == JOB_COMMITTING || job->durable_epoch == job->epoch.number);
}

void on_drain(struct rdzv *r, struct node *node, uint32_t within_ms)
{
    struct job *job = node->job;
    if (node->drained && within_ms == MSG_UNSET) {
        return;
    }
    if (!node->drained) {
        send_trace(r, TRACE_NODE_DRAINING, job, node, 0, node->name);
    }
    bool was_drained = node->drained;
    node->drained = true;
    node_take_notice(r, node, NOTICE_OPERATOR, within_ms);
    drain_end(r, node);
    if (!was_drained && is_kept(node)) {
        write_in_turn(r, job); /* so that a server that is started again goes on with it */
    }
    job_settle(r, job);
    job_drop_if_unused(r, job);
}
