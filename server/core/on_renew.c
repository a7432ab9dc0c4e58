/* server/core/on_renew.c: RENEW: the lease goes on. O(1), no allocation. */
#include "server/core/core.h"

void on_renew(struct rdzv *r, struct node *node, const struct msg_renew *renew)
{
    if (!TFE_BUG(renew_forgets)) {
        lease_renew(r, node);
    }
    struct msg_renewed *renewed = &send_to(r, node->session, MSG_RENEWED)->u.renewed;
    renewed->number = renew->number;
    renewed->ttl_ms = lease_ttl_ms(r, node->job);
    renewed->fence_ms = lease_node_fence_ms(r, node);
}
