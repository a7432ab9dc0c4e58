/* server/core/on_exited.c: EXITED: the trainers of a node have ended, well or not. */
#include "server/core/job.h"
#include "server/core/on.h"

int on_exited(struct rdzv *r, struct node *node, const struct msg_exited *exited)
{
    if (!exited_is_sound(exited, node->job->spec.nproc)) {
        return TFE_EINVAL;
    }
    if (evaluator_take_end(r, node, exited)) {
        send_noted(r, node, exited->epoch);
        drain_end(r, node);
        return 0;
    }
    ending_take(r, node, exited, false);
    if (roster_can_miss(node->job, node) && node->job->state == JOB_RUNNING &&
        !node->job->wish.is_there) {
        drain_end(r, node);
    }
    return 0;
}
