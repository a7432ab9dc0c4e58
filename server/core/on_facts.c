/* server/core/on_facts.c: FACTS: properties of a node's machine. One of them has an effect: whether
 * it is a spot machine, which counts in the next rank assignment (seating.c). No epoch ends because
 * of it. */
#include "server/core/job.h"
#include "server/core/on.h"

void on_facts(struct node *node, const struct msg_facts *facts)
{
    /* otherwise the message says nothing about it, and the earlier value stays */
    if (facts->has_spot) {
        node->is_spot = facts->is_spot;
    }
}
