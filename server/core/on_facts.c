/* server/core/on_facts.c: FACTS: what a node's machine is. One word of it decides something:
 * whether the cloud may take the machine back, which says where it is best placed (seating.c). It
 * counts when places are next given out, and nobody is stopped for it. */
#include "server/core/job.h"
#include "server/core/on.h"

void on_facts(struct node *node, const struct msg_facts *facts)
{
    if (facts->has_spot) { /* else nothing is said of it: what was said before stands */
        node->is_spot = facts->is_spot;
    }
}
