/* server/core/on_closed.c: a connection ended without GOODBYE: the node is suspect until it
 * reconnects. */
#include "server/core/job.h"
#include "server/core/on.h"
#include "server/core/presence.h"

void on_closed(struct rdzv *r, struct node *node)
{
    node_detach(r, node);
    send_trace(r, TRACE_NODE_SUSPECT, node->job, node, 0, node->name);
    probe_suspect(r, node);
    job_touch(node->job);
}
