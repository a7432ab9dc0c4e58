/* server/core/roster.h: which places an epoch has, and what follows from each (design 11). A place
 * is one trainer's entry in TensorFlow's cluster; a node's trainers have places side by side. */
#ifndef TFE_SERVER_CORE_ROSTER_H
#define TFE_SERVER_CORE_ROSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/message/msg.h"

struct job;
struct node;
struct text;

/* An epoch's nodes have their seats in the order chief (of a job that has one), workers, ps. A
 * worker's node has nproc places, any other one. */

/* Nodes that an epoch has besides its workers; nodes that the job has at most, the evaluator's with
 * them. */
uint32_t roster_extra(const struct job_spec *spec);
uint32_t roster_extra_now(const struct job *job); /* … that the present one has */
uint32_t roster_most(const struct job_spec *spec);
/* Trainers in an epoch of so many nodes that wants this; of its node with that first rank the seat,
 * n_seats: no node begins there. */
uint32_t roster_world_of(const struct job_spec *spec, uint32_t n_seats);
uint32_t roster_seat_of(const struct job_spec *spec, uint32_t n_seats, uint32_t rank);

/* Whether workers are served variables by ps: then one of them may be lost, and the others go on.
 */
bool roster_has_servers(const struct job *job);
/* Of the first of the node's trainers; the others' follow on. */
uint32_t roster_rank(const struct job *job, uint32_t seat);
uint32_t roster_trainers(const struct job *job, uint32_t seat);
/* In the present epoch: a seat's role, the seat of its first ps, its trainers. */
enum tfe_task roster_task(const struct job *job, uint32_t seat);
uint32_t roster_first_ps(const struct job *job);
uint32_t roster_world(const struct job *job);

/* What the trainer of that rank is in the cluster: role and first of its row. */
void roster_name(const struct job *job, uint32_t rank, struct msg_row *ret);
/* How many places there are for nodes that are pinned to that role. */
uint32_t roster_places_of(const struct job_spec *spec, enum tfe_task task);
/* Whether people are told it: where all are workers their ranks say as much. */
bool roster_is_named(const struct job_spec *spec);

/* Who is told to start at once. The others follow once all of those listen, or after so long: who
 * connects to one that does not listen yet loses up to a second in a back-off of TensorFlow's. */
bool roster_begins(const struct job *job, const struct node *node);
bool roster_may_follow(const struct job *job);
uint32_t roster_head_start_ms(const struct job *job);
/* Who writes checkpoints. */
bool roster_is_chief(const struct job *job, const struct node *node);
struct node *roster_chief(const struct job *job);
/* Whether the member's exit 0 counts for the job's success, and how many such members it takes: the
 * chief; where the job says so and has no chief by role, all workers. */
bool roster_counts(const struct job *job, const struct node *node);
uint32_t roster_needed(const struct job *job);
/* Whether it is waited for after that: the others end by themselves, or are let run. */
bool roster_follows(const struct job *job, const struct node *node);
/* Whether the epoch can go on without this member's trainers, as long as min others work: a worker
 * that is served, where its success is not needed. */
bool roster_can_miss(const struct job *job, const struct node *node);

/* Whether enough of the old cluster is accounted for that it cannot complete another step, whatever
 * else of it still runs: of a synchronous one, any one task; the chief, where there are ps; all
 * where those that are left may take the next epoch's tasks for it, for they look for it at the
 * same addresses (design 6). */
bool roster_is_stopped(const struct job *job);

/* … else, whether this seat's end is waited for, when nothing is known of it: of a chief that has
 * ps nobody else's. */
bool roster_is_fenced(const struct job *job, uint32_t seat);

/* Whether the ready nodes can have all places that an epoch needs, with min workers; with max of
 * them, and all else that the job wants. */
bool roster_is_enough(const struct job *job);
/* Whether there would be, for so many workers and ps, if the members that stay were asked. */
bool roster_would_do(const struct job *job, uint32_t min, uint32_t n_ps);
bool roster_is_full(const struct job *job);
/* How many nodes more it would take. */
uint32_t roster_lacking(const struct job *job);
/* How many ready nodes could work in an epoch besides the present one's. may_evaluate: one of them
 * evaluates first, where that is wanted. */
uint32_t roster_spares(const struct job *job, bool may_evaluate);
/* Nobody evaluates, or will for long, and somebody could. */
bool roster_wants_evaluator(const struct job *job);
/* What an epoch still lacks, for people: "1 ps and 2 workers". */
void roster_lacks(const struct job *job, struct text *text);

#endif
