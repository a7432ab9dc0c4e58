/* server/core/seating.h: rank assignment: which node gets which slot of an epoch (design 4.5,
 * 11). */
#ifndef TFE_SERVER_CORE_SEATING_H
#define TFE_SERVER_CORE_SEATING_H

#include <stdbool.h>
#include <stdint.h>

struct job;
struct node;

/* Assigns the ready nodes with the best claims, at most max workers, to the slots of the next
 * epoch, and returns the number of slots. Reads the old slots from the nodes, which keep them until
 * epoch.c assigns the new ones. Precondition: roster_is_enough. */
uint32_t seating_fill(struct job *job, struct node **seats);
/* Returns true if the spare could take over the slot of a member that may have to leave. */
bool seating_can_relieve(const struct job *job, const struct node *spare);
/* Returns the ready node that should evaluate, or NULL if none can be spared. Precondition: an
 * epoch runs. */
struct node *seating_evaluator(struct job *job);

#endif
