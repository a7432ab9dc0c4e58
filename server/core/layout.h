/* server/core/layout.h: layout of an epoch: its slots, the replicas of each, what follows from each
 * (design 11), and which node gets which slot (design 4.5). A replica is one trainer's entry in
 * TensorFlow's cluster. */
#ifndef TFE_SERVER_CORE_LAYOUT_H
#define TFE_SERVER_CORE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/message/msg.h"

struct job;
struct node;
struct text;

/* Slots are in the order chief (if the job has one), workers, ps. A worker's node has nproc
 * replicas, any other node one. */

/* layout_extra: nodes that an epoch has besides its workers. layout_max_nodes: nodes that the job
 * has at most, the evaluator included. */
uint32_t layout_extra(const struct job_spec *spec);
uint32_t layout_extra_now(
    const struct job *job); /* number of nodes besides its workers that the current epoch has */
uint32_t layout_max_nodes(const struct job_spec *spec);
/* layout_world_of: trainers in an epoch of n_slots nodes with this spec. layout_slot_of: slot whose
 * first rank this is, or n_slots if no slot begins there. */
uint32_t layout_world_of(const struct job_spec *spec, uint32_t n_slots);
uint32_t layout_slot_of(const struct job_spec *spec, uint32_t n_slots, uint32_t rank);

/* Returns true if ps serve the workers' variables: then the epoch can continue without one of the
 * workers. */
bool layout_has_ps(const struct job *job);
/* Returns the rank of the slot's first trainer; those of its other trainers follow. */
uint32_t layout_rank(const struct job *job, uint32_t slot);
uint32_t layout_trainers(const struct job *job, uint32_t slot);
/* In the current epoch: role of a slot, slot of the first ps, number of trainers. */
enum tfe_task layout_task(const struct job *job, uint32_t slot);
uint32_t layout_first_ps(const struct job *job);
uint32_t layout_world(const struct job *job);

/* Sets role and first (the rank where the role begins) of the row of this rank. */
void layout_set_role(const struct job *job, uint32_t rank, struct msg_row *ret);
/* Returns how many replicas exist for nodes that are pinned to the role. */
uint32_t layout_replicas_of(const struct job_spec *spec, enum tfe_task task);
/* Returns true if roles are shown to users; in a job of workers alone, ranks suffice. */
bool layout_has_roles(const struct job_spec *spec);

/* layout_starts_first: returns true if the member gets START at once. The others get it once all of
 * those listen (layout_may_start_rest), or after layout_head_start_ms: a trainer that connects to
 * one that does not listen yet loses up to a second in TensorFlow's back-off. */
bool layout_starts_first(const struct job *job, const struct node *node);
bool layout_may_start_rest(const struct job *job);
uint32_t layout_head_start_ms(const struct job *job);
/* The chief writes the checkpoints; in a job without that role the first worker does. */
bool layout_is_chief(const struct job *job, const struct node *node);
struct node *layout_chief(const struct job *job);
/* layout_counts_for_success: returns true if the member's exit status 0 counts for the job's
 * success. layout_needed_successes: returns how many such members must succeed. That is the chief
 * or, if the job says so and has no chief role, all workers. */
bool layout_counts_for_success(const struct job *job, const struct node *node);
uint32_t layout_needed_successes(const struct job *job);
/* Returns true if the end of this member is waited for after the job has succeeded. */
bool layout_is_awaited(const struct job *job, const struct node *node);
/* Returns true if the epoch can continue without this member's trainers while min others work: a
 * served worker whose success is not needed. */
bool layout_can_lose(const struct job *job, const struct node *node);

/* Returns true if so many members are accounted for that the old cluster cannot complete another
 * step: any one task of a synchronous cluster; the chief if there are ps; all members if the
 * remaining ones could mistake tasks of the next epoch for their own, because they look for them at
 * the same addresses (design 6). */
bool layout_is_stopped(const struct job *job);

/* Returns true if a switch waits for the fence of this slot when nothing is known of its trainers.
 * In a cluster with ps that is the chief's only. */
bool layout_needs_fence(const struct job *job, uint32_t slot);

/* layout_is_enough: returns true if the ready nodes can fill an epoch with min workers.
 * layout_is_full (below): with max workers and everything else that the job wants. */
bool layout_is_enough(const struct job *job);
/* Returns true if the ready nodes, and the members that stay, could fill an epoch with this many
 * workers and ps. */
bool layout_would_suffice(const struct job *job, uint32_t min, uint32_t n_ps);
bool layout_is_full(const struct job *job);
/* Returns how many more nodes an epoch needs. */
uint32_t layout_lacking(const struct job *job);
/* Returns how many ready nodes could work in an epoch in addition to those of the current one.
 * may_evaluate: if the job needs an evaluator, one of them becomes that first. */
uint32_t layout_spares(const struct job *job, bool may_evaluate);
/* Returns true if the job wants an evaluator, has none on a node that stays, and none has ended
 * well. */
bool layout_needs_evaluator(const struct job *job);
/* Appends what an epoch still lacks, such as "1 ps and 2 workers". */
void layout_describe_lacking(const struct job *job, struct text *text);

/* --- rank assignment -------------------------------------------------------------------------- */

/* Assigns the ready nodes with the best claims, at most max workers, to the slots of the next
 * epoch, and returns the number of slots. Reads the old slots from the nodes, which keep them until
 * epoch.c assigns the new ones. Precondition: layout_is_enough. */
uint32_t rank_assignment_fill(struct job *job, struct node **slots);
/* Returns true if the spare could take over the slot of a member that may have to leave. */
bool rank_assignment_can_relieve(const struct job *job, const struct node *spare);
/* Returns the ready node that should evaluate, or NULL if none can be spared. Precondition: an
 * epoch runs. */
struct node *rank_assignment_pick_evaluator(struct job *job);

#endif
