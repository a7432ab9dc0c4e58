/* server/core/on_progress.c: PROGRESS: how far a node's trainers have come. O(1). */
#include "server/core/core.h"

void on_progress(struct rdzv *r, struct node *node, const struct msg_progress *progress)
{
    (void)r;
    if (node->seat != NO_SEAT && progress->epoch == node->job->epoch.number) {
        node->progress = *progress;
    }
}
