/* server/core/on_quarantine_over.c: end of a quarantine: the node may try again. */
#include "server/core/job.h"
#include "server/core/on.h"
#include "server/core/presence.h"

void on_quarantine_over(struct rdzv *r, struct node *node)
{
    if (node_is_connected(node) && !epoch_engages(node->job, node)) {
        node_prepare(r, node);
    }
    job_touch(node->job);
}
