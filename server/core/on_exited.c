/* server/core/on_exited.c: EXITED: the trainers of a node have come to their end, well or not. */
#include "server/core/job.h"
#include "server/core/on.h"

int on_exited(struct rdzv *r, struct node *node, const struct msg_exited *exited)
{
    if (!exited_is_sound(exited, node->job->spec.nproc)) {
        return TFE_EINVAL;
    }
    ending_take(r, node, exited, false);
    return 0;
}
