/* server/core/presence.h: a node comes and goes: its connection, its place. */
#ifndef TFE_SERVER_CORE_PRESENCE_H
#define TFE_SERVER_CORE_PRESENCE_H

#include <stdint.h>

struct node;
struct rdzv;

/* It is here, on this connection; it has a lease from now on. */
void node_attach(struct rdzv *r, struct node *node, uint32_t session);
/* Its session is no longer its own; what it was ready for is void. */
void node_detach(struct rdzv *r, struct node *node);
/* The place is free: no lease, no session. A member stays in the tree as gone until the next epoch.
 */
void node_remove(struct rdzv *r, struct node *node);
/* Asks it to get ready for the next epoch, and to answer on its ports where others should try them.
 */
void node_prepare(struct rdzv *r, struct node *node);
/* Within what time it is to come back (node_spread_ms), as it is told now; returned. */
uint32_t node_tell_spread(struct node *node, uint32_t spread_ms);

#endif
