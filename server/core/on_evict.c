/* server/core/on_evict.c: an operator takes a node out of its job at once, connected or not. That
 * proves nothing about its trainers: unless accounted for, they are waited for until their
 * fence. */
#include "server/core/job.h"
#include "server/core/on.h"
#include "server/core/presence.h"

void on_evict(struct rdzv *r, struct node *node)
{
    struct job *job = node->job;
    uint32_t session = node->session.number;
    bool ran = place_is_held(node);
    send_trace(r, TRACE_NODE_EVICTED, job, node, 0, node->name);
    ban_add(r, &job->name, &node->id);
    node_remove(r, node);
    if (session != NO_SESSION) {
        send_refused(r, session, REFUSAL_EVICTED, ban_sentence);
        send_close(r, session);
    }
    if (ran && !job->success.is_here) {
        place_lose(r, node, CAUSE_DRAINED);
    }
    job_touch(job);
}
