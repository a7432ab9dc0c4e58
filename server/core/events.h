/* server/core/events.h: what the core does with each event: on_*.c. */
#ifndef TFE_SERVER_CORE_EVENTS_H
#define TFE_SERVER_CORE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/msg.h"

struct job;
struct node;
struct rdzv;

/* --- on_*.c: one event each, with room for its actions reserved --- */

/* TFE_EINVAL, TFE_ESTATE, TFE_ENOMEM: nothing changed. */
int on_join(struct rdzv *r, uint32_t session, const struct msg_join *join) TFE_MUST_CHECK;
void on_renew(struct rdzv *r, struct node *node, const struct msg_renew *renew);
/* TFE_EINVAL: not as many ports as the job has processes, a port 0, or no host. */
int on_ready(struct rdzv *r, struct node *node, const struct msg_ready *ready) TFE_MUST_CHECK;
void on_listening(struct rdzv *r, struct node *node, const struct msg_listening *listening);
/* TFE_EINVAL: no such local rank, or a tail that is too long. */
int on_exited(struct rdzv *r, struct node *node, const struct msg_exited *exited) TFE_MUST_CHECK;
/* Whether it can come from a node with so many trainers. */
bool exited_is_sound(const struct msg_exited *exited, uint32_t nproc);
/* on_exited's work for an EXITED that is sound. */
void take_exited(struct rdzv *r, struct node *node, const struct msg_exited *exited, bool was_away);
/* What follows from it for the running epoch, of which the node is a member that was not accounted
 * for. The caller settles the job. */
void judge_exited(struct rdzv *r, struct node *node, const struct msg_exited *exited,
                  bool was_away);
void on_goodbye(struct rdzv *r, struct node *node);
int on_processes(struct rdzv *r, struct node *node,
                 const struct msg_processes *processes) TFE_MUST_CHECK;
void on_progress(struct rdzv *r, struct node *node, const struct msg_progress *progress);
/* TFE_EINVAL: no such kind. */
int on_notice(struct rdzv *r, struct node *node, const struct msg_notice *notice) TFE_MUST_CHECK;
void on_closed(struct rdzv *r, struct node *node);
void on_lease_over(struct rdzv *r, struct node *node);

/* --- on_drain.c, on_evict.c, on_stop_job.c: an operator's orders, likewise --- */

void on_drain(struct rdzv *r, struct node *node, uint32_t within_ms);
void on_evict(struct rdzv *r, struct node *node);
void on_stop_job(struct rdzv *r, struct job *job);
/* The node is in no later epoch: for a machine that goes away, and for an operator's order.
 * within_ms may be MSG_UNSET. */
void node_take_notice(struct rdzv *r, struct node *node, enum tfe_notice kind, uint32_t within_ms);
/* Lets a drained node go if it is here and nothing waits for it any more. */
void drain_end(struct rdzv *r, struct node *node);
/* … and all drained nodes of the job. */
void drain_end_all(struct rdzv *r, struct job *job);
/* Whether the JOIN is of a node that was evicted; it has been answered then. node: what is kept of
 * it, or NULL. */
bool evict_refuses(struct rdzv *r, uint32_t session, struct node *node,
                   const struct msg_join *join);

#endif
