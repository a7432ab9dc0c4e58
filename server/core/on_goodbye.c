/* server/core/on_goodbye.c: GOODBYE: a node leaves on its own wish; its trainers have ended. */
#include "server/core/core.h"
#include "server/core/events.h"

void on_goodbye(struct rdzv *r, struct node *node)
{
    struct job *job = node->job;
    uint32_t session = node->session;
    bool ran = job_engages(job, node) && !node->accounted;
    send_trace(r, TRACE_NODE_LEFT, job, node, 0, node->name);
    if (node->seat != NO_SEAT) {
        fault_excuse(r, job);
    }
    node_account(node);
    node_remove(r, node);
    send_close(r, session);
    if (ran && !job->rank0_finished) {
        ledger_blame(job, node);
        job_want_switch(job, node->notice ? CAUSE_PREEMPTED : CAUSE_DRAINED);
    }
    job_settle(r, job);
    job_drop_if_unused(r, job);
}
