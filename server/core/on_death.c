/* server/core/on_death.c: DEATH: a node brings a proof of termination, which a guard hands out only
 * after its agent has ended and the last process that it had started is reaped (design 5). */
#include <string.h>

#include "server/core/job.h"
#include "server/core/on.h"
#include "server/core/presence.h"

/* Handles a proven end: the node's process will never reconnect, and none of its trainers runs,
 * whatever it reported last. */
static void take(struct rdzv *r, struct node *node, const struct node *by)
{
    struct job *job = node->job;
    uint32_t session = node->session.number;
    bool ran = place_is_held(node);
    /* A node without a slot may have been proven dead when it had one. */
    bool is_news = node_is_member(node);
    if (is_news && !node->seat.is_dead &&
        !node->seat.is_taken_over) { /* the other process's trainers may live */
        send_trace(r, TRACE_NODE_DEAD, job, node, 0, by->id.text);
    }
    verdict_excuse(r, node);
    node_note_death(node, NULL, 0);
    seat_prove_dead(node);
    node_remove(r, node);
    if (session != NO_SESSION) {
        send_close(r, session); /* the end of the connection was not seen */
    }
    if (ran && !job->success.is_here) {
        place_lose(r, node, CAUSE_NODE_LOST);
    }
    job_touch(job);
}

int on_death(struct rdzv *r, struct node *by, const struct msg_death *death)
{
    struct node *node;
    struct node *next;
    if (!id_is_valid(death->certificate)) {
        return TFE_EINVAL;
    }
    RB_FOREACH_SAFE(node, node_tree, &by->job->nodes, next)
    {
        if (node != by && strcmp(node->proof_hash.text, death->certificate) == 0) {
            take(r, node, by);
        }
    }
    return 0;
}
