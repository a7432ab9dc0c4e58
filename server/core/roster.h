/* server/core/roster.h: which places an epoch has, who has them, and what follows from each (design
 * 11). A place is one trainer's entry in TensorFlow's cluster; a node's trainers have places side
 * by side. All of them are workers. */
#ifndef TFE_SERVER_CORE_ROSTER_H
#define TFE_SERVER_CORE_ROSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/msg.h"

struct job;
struct node;

/* Of the first of the node's trainers; the others' follow on. */
uint32_t roster_rank(const struct job *job, uint32_t seat);
/* The seat of the node whose first trainer has that rank. */
uint32_t roster_seat(const struct job *job, uint32_t rank);
/* Trainers in an epoch of so many nodes. */
uint32_t roster_world(const struct job *job, uint32_t n_seats);

/* What the trainer of that rank is in the cluster: role and first of its row. */
void roster_name(const struct job *job, uint32_t rank, struct msg_row *ret);

/* Who must listen before the others are told to start: TensorFlow's coordination service runs
 * there. */
bool roster_is_leader(const struct job *job, const struct node *node);
struct node *roster_leader(const struct job *job);
/* Who writes checkpoints, and whose exit 0 is the job's success. */
bool roster_is_chief(const struct job *job, const struct node *node);
struct node *roster_chief(const struct job *job);

/* Whether enough of the old cluster is accounted for that it cannot complete another step, whatever
 * else of it still runs: of a synchronous one, any one task; all where those that are left may take
 * the next epoch's tasks for it, for they look for it at the same addresses (design 6). */
bool roster_is_stopped(const struct job *job);

/* The ready nodes with the best claims, at most max, on the seats of the next epoch; how many. Old
 * seats are read from the nodes, which keep them until epoch.c gives the new ones out. */
uint32_t roster_fill(struct job *job, struct node **seats);

#endif
