/* server/core/place.h: a worker's place in an epoch that goes on without it: its trainers end and
 * are started again where they were, or it stays empty (design 11). For members that
 * roster_can_miss, and for those alone. */
#ifndef TFE_SERVER_CORE_PLACE_H
#define TFE_SERVER_CORE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/msg.h"

struct job;
struct node;
struct rdzv;

/* Nodes of the present epoch whose trainers work, or will again. O(nodes) where there are ps. */
uint32_t place_count(const struct job *job);
/* Workers of the present epoch, served by ps, whose trainers have ended with exit status 0. */
uint32_t place_count_done(const struct job *job);
/* Whether the running epoch goes on with fewer workers than min: a spare that could be one does not
 * evaluate then. */
bool place_is_lacking(const struct job *job);
/* Nodes that could work in a next epoch and do not in this one: READY ones, and members that had to
 * leave their place empty and do not for their own sake. */
uint32_t place_spares(const struct job *job);

/* Whether the epoch still counts on this member's trainers: they run, or are to start again. */
bool place_is_held(const struct node *node);
/* The member has no trainers any more, or nobody knows of any: the epoch goes on without it where
 * the chief trains and min others work, and is over otherwise, for that cause. */
void place_lose(struct rdzv *r, struct node *node, enum tfe_cause cause);
/* A served worker's trainers have ended with exit status 0: they do not start again in this epoch,
 * and the job does not grow any more. */
void place_finish(struct rdzv *r, struct node *node);
/* Its trainers have ended, whose agent lives: they are to be started again, unless that has been in
 * vain. charged: with a pause, where the job has made no progress. wanted: its restart policy is
 * Always and it has ended well, which is never in vain. Returns false where the epoch cannot go on.
 */
bool place_take_end(struct rdzv *r, struct node *node, bool charged, bool wanted);
/* What a member's JOIN says of its place, which no other process has; true: that is all that
 * follows.
 */
bool place_take_join(struct rdzv *r, struct node *node, const struct msg_join *join);
/* Whether it is started again after that one, which it has not heard of. */
bool place_is_behind(const struct node *node, const struct msg_exited *exited);

/* Another process has come with its id: it cannot start again what the first one had. */
void place_take_over(struct rdzv *r, struct node *node);

/* By when a node that leaves is stopped where it is waited for no checkpoint of its own: in time
 * for the stop grace; NEVER: it does not leave. */
struct tfe_mono place_leaves_at(const struct rdzv *r, const struct node *node);
/* Its machine will go away: the place is drained, with no new epoch, in time before that. False: it
 * cannot be missed. */
bool place_take_notice(struct rdzv *r, struct node *node);
/* Starts again and drains what is due. Returns when the next one is. Precondition: RUNNING. */
struct tfe_mono place_settle(struct rdzv *r, struct job *job);

#endif
