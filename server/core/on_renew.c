/* server/core/on_renew.c: RENEW: extends the lease, and tells a node that does not train why. O(1),
 * no allocation. */
#include "server/core/core.h"
#include "server/core/job.h"
#include "server/core/node.h"
#include "server/core/on.h"
#include "server/core/presence.h"
#include "server/core/wait.h"

void on_renew(struct rdzv *r, struct node *node, const struct msg_renew *renew)
{
    struct lease_terms terms = lease_renew(r, node);
    success_note_rank0(r, node, renew);
    struct msg_renewed *renewed = &send_node(r, node, MSG_RENEWED)->u.renewed;
    renewed->number = renew->number;
    renewed->ttl_ms = terms.ttl_ms;
    renewed->fence_ms = terms.fence_ms;
    /* Raise the reconnect spread as the job grows; never lower it. */
    uint32_t spread = node_spread_ms(node, terms.ttl_ms);
    if (spread > node->session.told_spread_ms) {
        renewed->spread_ms = node_tell_spread(node, spread);
    }
    renewed->waits = wait_words(r, node, &renewed->waits_ms);
}
