/* server/core/seating.h: who has which of an epoch's places (design 4.5, 11): claims, and who keeps
 * the seat that it had. */
#ifndef TFE_SERVER_CORE_SEATING_H
#define TFE_SERVER_CORE_SEATING_H

#include <stdbool.h>
#include <stdint.h>

struct job;
struct node;

/* The ready nodes with the best claims, at most max workers, on the seats of the next epoch; how
 * many. Old seats are read from the nodes, which keep them until epoch.c gives the new ones out.
 * Precondition: roster_is_enough. */
uint32_t seating_fill(struct job *job, struct node **seats);
/* Whether that spare could have the place of a member that may have to go. */
bool seating_can_relieve(const struct job *job, const struct node *spare);
/* The ready node that is to evaluate; NULL: none can be spared. Precondition: an epoch runs. */
struct node *seating_evaluator(struct job *job);

#endif
