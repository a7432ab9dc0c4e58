/* server/core/on_drain.c: an operator takes a node out of its job in an orderly way: it is in no
 * later epoch, its trainers end with their epoch (plan.c decides when), and then it is released. */
#include "server/core/job.h"
#include "server/core/on.h"

void on_drain(struct rdzv *r, struct node *node, uint32_t within_ms)
{
    struct job *job = node->job;
    bool was_drained = node->notice.is_drained;
    if (was_drained && within_ms == MSG_UNSET) {
        return;
    }
    if (!was_drained) {
        send_trace(r, TRACE_NODE_DRAINING, job, node, 0, node->name);
    }
    notice_set_drained(node);
    notice_apply(r, node, NOTICE_OPERATOR, within_ms);
    drain_end(r, node);
    if (!was_drained && node_is_member(node) && !node->is_gone && write_is_kept(job)) {
        write_in_turn(r, job); /* a restarted server continues the drain */
    }
}
