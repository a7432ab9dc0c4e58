/* server/core/on_renew.c: RENEW: the lease goes on. O(1), no allocation. */
#include "server/core/core.h"
#include "server/core/events.h"

void on_renew(struct rdzv *r, struct node *node, const struct msg_renew *renew)
{
    struct lease_terms terms = TFE_BUG(renew_forgets) ? lease_terms(r, node) : lease_renew(r, node);
    struct msg_renewed *renewed = &send_to(r, node->session, MSG_RENEWED)->u.renewed;
    renewed->number = renew->number;
    renewed->ttl_ms = terms.ttl_ms;
    renewed->fence_ms = terms.fence_ms;
    /* Who came early joined a small job. A spread that is longer than needed does no harm. */
    uint32_t spread = node_spread_ms(node, terms.ttl_ms);
    if (spread > node->told_spread_ms) {
        renewed->spread_ms = node->told_spread_ms = spread;
    }
}
