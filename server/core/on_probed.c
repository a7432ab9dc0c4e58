/* server/core/on_probed.c: PROBED, or the end of its time limit: what other nodes found out about a
 * node. */
#include "server/core/job.h"
#include "server/core/on.h"
#include "server/core/presence.h"

/* Refuses a node that no other node reaches: it must use another address. The reason is in
 * r->sentence. */
static void refuse(struct rdzv *r, struct node *node)
{
    uint32_t session = node->session.number;
    send_refused(r, session, REFUSAL_ADDRESS_UNREACHABLE, r->sentence);
    send_trace(r, TRACE_NODE_REFUSED, node->job, node, (uint64_t)REFUSAL_ADDRESS_UNREACHABLE,
               r->sentence);
    node_remove(r, node);
    send_close(r, session);
}

static void take(struct rdzv *r, struct node *node, enum probe_news news)
{
    switch (news) {
    case PROBE_NO_NEWS:
        return;
    case PROBE_DEAD:
        seat_prove_dead(node);
        if (node->job->state == JOB_RUNNING && !node->job->success.is_here) {
            place_lose(r, node, CAUSE_NODE_LOST);
        }
        return;
    case PROBE_UNREACHABLE:
        refuse(r, node);
        return;
    }
}

int on_probed(struct rdzv *r, struct node *prober, const struct msg_probed *probed)
{
    if (probed->result < PROBE_ANSWERED_OURS || probed->result > PROBE_REFUSED) {
        return TFE_EINVAL;
    }
    struct node *node = NULL;
    enum probe_news news = probe_take_answer(r, prober, probed, &node);
    take(r, node, news);
    return 0;
}

void on_probe_over(struct rdzv *r, struct node *node)
{
    take(r, node, probe_take_timeout(r, node));
    job_touch(node->job);
}
