/* server/ctl/order.h: what drain, evict and stop share: an order, its answer, and what is printed.
 */
#ifndef TFE_SERVER_CTL_ORDER_H
#define TFE_SERVER_CTL_ORDER_H

#include "common/base/msg.h"
#include "server/ctl/settings.h"

struct order {
    struct tfe_msg msg;
    const char *verb; /* {"done": verb, key: operand} with --json */
    const char *key;
    const char *operand;
    const char *sentence; /* for people, behind "key operand " */
};

/* Sends it with an admin's token and prints that it was done. As request_run. */
int order_run(const struct ctl_settings *settings, const struct order *order);

/* Whether this can be a node's id or label; if not, it has said so on stderr. */
bool order_node_is_sound(const char *node);

#endif
