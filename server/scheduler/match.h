/* server/scheduler/match.h: decides whether nodes of several kinds suffice for several tasks at
 * once, and how many nodes one task may take without starving the others. Pure.
 *
 * A kind is the set of tasks that a node may have (bit 1 << task). By Hall's theorem all needs can
 * be met exactly if, for each set of tasks, at least as many nodes may have one of them as the set
 * needs. With four tasks these are fifteen sums, so the result is exact. */
#ifndef TFE_SERVER_SCHEDULER_MATCH_H
#define TFE_SERVER_SCHEDULER_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#define MATCH_TASKS 4u
#define MATCH_SETS (1u << MATCH_TASKS)

struct match {
    uint32_t nodes[MATCH_SETS]; /* number of nodes by kind */
    uint32_t need[MATCH_TASKS];
};

/* Returns by how many the nodes that may have one of the set's tasks exceed its need; negative if
 * nodes are lacking. */
int64_t match_spare(const struct match *m, unsigned set);

/* Returns the smallest set of tasks that lacks the most nodes; 0 if nothing is lacking. One more
 * node helps exactly if its kind meets this set. A kind that does not help now will not help after
 * more nodes either. */
uint8_t match_lacking(const struct match *m);

/* Returns how many nodes are lacking. */
uint32_t match_lacks(const struct match *m);

/* Returns how many nodes of this kind the task can have so that the rest is enough for the other
 * tasks. Precondition: nothing is lacking. If each kind is queried once, in any order, and the
 * result is taken each time, the task gets all it needs. */
uint32_t match_max(const struct match *m, unsigned task, uint8_t kind);

/* Gives the task n nodes of this kind. Precondition: there are that many, and it needs that
 * many. */
void match_assign(struct match *m, unsigned task, uint8_t kind, uint32_t n);

#endif
