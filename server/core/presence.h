/* server/core/presence.h: connects and disconnects nodes, and removes them. */
#ifndef TFE_SERVER_CORE_PRESENCE_H
#define TFE_SERVER_CORE_PRESENCE_H

#include <stdint.h>

struct node;
struct rdzv;

/* Attaches the node to a session and grants it a lease. */
void node_attach(struct rdzv *r, struct node *node, uint32_t session);
/* Detaches the node from its session. Its READY becomes void. */
void node_detach(struct rdzv *r, struct node *node);
/* Removes the node: it has neither lease nor session any more. A member stays in the tree, marked
 * as gone, until the next epoch. */
void node_remove(struct rdzv *r, struct node *node);
/* Sends PREPARE for the next epoch, which also asks the node to answer probes if its address must
 * be verified. */
void node_prepare(struct rdzv *r, struct node *node);
/* Notes the reconnect spread (node_spread_ms) that is sent to the node now, and returns it. */
uint32_t node_tell_spread(struct node *node, uint32_t spread_ms);

#endif
