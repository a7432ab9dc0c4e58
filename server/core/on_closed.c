/* server/core/on_closed.c: a connection ended without GOODBYE: the node is suspect until it is
 * back. */
#include "server/core/core.h"
#include "server/core/events.h"

void on_closed(struct rdzv *r, struct node *node)
{
    struct job *job = node->job;
    node_detach(r, node);
    send_trace(r, TRACE_NODE_SUSPECT, job, node, 0, node->name);
    if (TFE_BUG(account_suspects)) {
        node_account(node);
    }
    probe_suspect(r, node);
    job_settle(r, job);
}
