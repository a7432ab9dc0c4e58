/* server/core/on_lease_over.c: end of a lease: removes the node. */
#include "server/core/job.h"
#include "server/core/on.h"
#include "server/core/presence.h"

void on_lease_over(struct rdzv *r, struct node *node)
{
    if (doubt_postpones(r, node)) {
        return;
    }
    struct job *job = node->job;
    uint32_t session = node->session.number;
    bool ran = place_is_held(node);
    send_trace(r, TRACE_NODE_LOST, job, node, 0, "its lease is over");
    verdict_excuse(r, node);
    node_remove(r, node);
    /* the node's guard may prove the end of its trainers before the fence */
    probe_suspect(r, node);
    if (session != NO_SESSION) {
        /* An agent that was frozen finds this in its socket and stops at once. */
        send_to(r, session, MSG_LEASE_ENDED)->u.lease_ended.epoch = job->epoch.number;
        send_close(r, session);
    }
    if (ran && !job->success.is_here) {
        place_lose(r, node, CAUSE_NODE_LOST);
    }
    job_touch(job);
}
