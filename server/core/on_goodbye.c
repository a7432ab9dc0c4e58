/* server/core/on_goodbye.c: GOODBYE: a node leaves by itself; its trainers have ended. */
#include "server/core/job.h"
#include "server/core/on.h"
#include "server/core/presence.h"

void on_goodbye(struct rdzv *r, struct node *node, const struct msg_goodbye *goodbye)
{
    struct job *job = node->job;
    uint32_t session = node->session.number;
    bool ran = place_is_held(node);
    send_trace(r, TRACE_NODE_LEFT, job, node, 0, node->name);
    verdict_excuse(r, node);
    seat_account(node);
    node_remove(r, node);
    send_close(r, session);
    if (ran && !job->success.is_here) {
        place_lose(r, node,
                   goodbye->interrupted     ? CAUSE_INTERRUPTED
                   : node->notice.kind != 0 ? CAUSE_PREEMPTED
                                            : CAUSE_DRAINED);
    }
    job_touch(job);
}
