/* server/scheduler/match.h: whether nodes of several kinds are enough for several tasks at once,
 * and who may take which without spoiling it for the others. Pure.
 *
 * A kind is a set of tasks that such a node may have (bit 1 << task). By Hall's theorem all needs
 * can be met exactly if for each set of tasks there are as many nodes that may have one of them as
 * the set needs; with four tasks that are fifteen sums, so nothing here is a guess. */
#ifndef TFE_SERVER_SCHEDULER_MATCH_H
#define TFE_SERVER_SCHEDULER_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#define MATCH_TASKS 4u
#define MATCH_SETS (1u << MATCH_TASKS)

struct match {
    uint32_t nodes[MATCH_SETS]; /* by kind */
    uint32_t need[MATCH_TASKS];
};

/* How many more nodes there are that may have one of the set's tasks than it needs; below 0: it
 * lacks as many. */
int64_t match_spare(const struct match *m, unsigned set);

/* The smallest set of tasks that lacks the most nodes; 0: nothing is lacking. One more node helps
 * exactly if its kind meets this set. A kind that does not help now never will, by more nodes. */
uint8_t match_lacking(const struct match *m);

/* How many nodes are lacking. */
uint32_t match_lacks(const struct match *m);

/* How many nodes of this kind the task can have so that what is left is enough for the others.
 * Precondition: nothing is lacking. If each kind is asked once, in any order, and what it says is
 * taken, the task gets all it needs. */
uint32_t match_most(const struct match *m, unsigned task, uint8_t kind);

/* Gives the task n nodes of this kind. Precondition: there are as many, and it needs as many. */
void match_take(struct match *m, unsigned task, uint8_t kind, uint32_t n);

#endif
