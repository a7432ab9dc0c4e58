/* server/core/on_lease_over.c: nothing was heard of a node for a whole lease: its place is free. */
#include "server/core/core.h"
#include "server/core/doubt.h"
#include "server/core/events.h"

void on_lease_over(struct rdzv *r, struct node *node)
{
    if (doubt_postpones(r, node)) {
        return;
    }
    struct job *job = node->job;
    uint32_t session = node->session;
    bool ran = job_engages(job, node) && !node->accounted;
    send_trace(r, TRACE_NODE_LOST, job, node, 0, "its lease is over");
    if (node->seat != NO_SEAT) {
        fault_excuse(r, job);
    }
    node_remove(r, node);
    if (session != NO_SESSION) {
        /* A thawed agent finds this in its socket and stops at once. */
        send_to(r, session, MSG_LEASE_ENDED)->u.lease_ended.epoch = job->epoch.number;
        send_close(r, session);
    }
    if (ran && !job->rank0_finished && !TFE_BUG(loss_ignored)) {
        ledger_blame(job, node);
        job_want_switch(job, CAUSE_NODE_LOST);
    }
    job_settle(r, job);
    job_drop_if_unused(r, job);
}
