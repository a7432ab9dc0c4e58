/* server/core/worker_restart.h: workers without which an epoch continues: their trainers are
 * started again in place, or their slot stays empty (design 11). Only for members for which
 * layout_can_lose holds. */
#ifndef TFE_SERVER_CORE_WORKER_RESTART_H
#define TFE_SERVER_CORE_WORKER_RESTART_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/msg.h"

struct job;
struct node;
struct rdzv;

/* Returns how many workers of the current epoch run or are about to be started again. O(nodes) in
 * jobs with ps. */
uint32_t workers_running(const struct job *job);
/* Returns how many served workers of the current epoch have ended with exit status 0. */
uint32_t workers_done(const struct job *job);
/* Returns true if the running epoch continues with fewer workers than min. A spare that could be a
 * worker does not become the evaluator then. */
bool workers_below_min(const struct job *job);
/* Returns how many nodes could work in the next epoch and do not in this one: READY nodes, and
 * members that are out of the epoch for reasons that are not their own. */
uint32_t workers_spare(const struct job *job);

/* The member's trainers are gone or out of reach: the epoch continues without them if the chief
 * trains and min others work; else it ends for this cause. */
void worker_lose(struct rdzv *r, struct node *node, enum tfe_cause cause);
/* A node leaves the job: removes it, closes its session if it has one, and ends the epoch for this
 * cause unless it can continue without the node. has_ended: none of its trainers runs any more. */
void worker_leave(struct rdzv *r, struct node *node, enum tfe_cause cause, bool has_ended);
/* The trainers of a served worker have ended with exit status 0: they are not started again in this
 * epoch, and the job does not grow any more. */
void worker_finish(struct rdzv *r, struct node *node);
/* Schedules a restart of trainers that have ended while their agent lives, unless too many restarts
 * brought no step. charged: after a pause, if the job has made no progress. by_policy: the restart
 * policy is Always and the trainer ended well; such restarts are not limited. Returns false if the
 * epoch cannot continue. */
bool worker_handle_exit(struct rdzv *r, struct node *node, bool charged, bool by_policy);
/* Handles what a JOIN of the member's own process says of its slot. Returns true if nothing else
 * follows from the JOIN. */
bool worker_handle_join(struct rdzv *r, struct node *node, const struct msg_join *join);
/* Returns true if a later RESTART than the EXITED's has been sent, which the node has not
 * received. */
bool worker_is_behind(const struct node *node, const struct msg_exited *exited);

/* Another process has joined with the node's id: trainers that were waiting for a restart are
 * lost. */
void worker_note_takeover(struct rdzv *r, struct node *node);

/* Returns when the trainers of a leaving node are stopped if no checkpoint is waited for: in time
 * for the stop grace. NEVER if the node does not leave. */
struct tfe_mono worker_leaves_at(const struct rdzv *r, const struct node *node);
/* The member's machine will be terminated: schedules the stop of its trainers without a new epoch.
 * Returns false if the epoch needs the member. */
bool worker_schedule_drain(struct rdzv *r, struct node *node);
/* Sends the restarts and stops that are due. Returns when the next one is due. Precondition:
 * RUNNING. */
struct tfe_mono workers_settle(struct rdzv *r, struct job *job);

#endif
