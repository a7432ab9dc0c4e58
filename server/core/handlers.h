/* server/core/handlers.h: the handlers of the core's events. Memory for actions has been reserved.
 * A handler that changes a job calls job_touch; the entry point then settles the job. */
#ifndef TFE_SERVER_CORE_HANDLERS_H
#define TFE_SERVER_CORE_HANDLERS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/message/msg.h"

struct job;
struct node;
struct rdzv;
struct rdzv_event;

/* --- messages of agents --- */

/* Handles JOIN. Sets *ret_job to the job concerned, or NULL. Returns TFE_EINVAL, TFE_ESTATE or
 * TFE_ENOMEM; nothing has changed then. */
int on_join(struct rdzv *r, uint32_t session, const struct msg_join *join,
            struct job **ret_job) TFE_MUST_CHECK;
/* Handles RENEW: extends the lease, and tells a node that does not train why. O(1), no
 * allocation. */
void on_renew(struct rdzv *r, struct node *node, const struct msg_renew *renew);
/* Handles READY. Returns TFE_EINVAL if the number of ports is not the job's number of processes per
 * node, a port is 0, or the host is missing. */
int on_ready(struct rdzv *r, struct node *node, const struct msg_ready *ready) TFE_MUST_CHECK;
void on_listening(struct rdzv *r, struct node *node, const struct msg_listening *listening);
/* Handles EXITED. Returns TFE_EINVAL if the local rank does not exist or the tail is too long. */
int on_exited(struct rdzv *r, struct node *node, const struct msg_exited *exited) TFE_MUST_CHECK;
/* Handles GOODBYE: the node leaves by itself; its trainers have ended. */
void on_goodbye(struct rdzv *r, struct node *node, const struct msg_goodbye *goodbye);
/* Handles PROCESSES: process ids, for display only. */
int on_processes(struct rdzv *r, struct node *node,
                 const struct msg_processes *processes) TFE_MUST_CHECK;
/* Handles PROGRESS. O(1), unless a checkpoint or a newly listening script settles the job. */
void on_progress(struct rdzv *r, struct node *node, const struct msg_progress *progress);
/* Handles NOTICE. Returns TFE_EINVAL if the kind is invalid. */
int on_notice(struct rdzv *r, struct node *node, const struct msg_notice *notice) TFE_MUST_CHECK;
/* Handles PROBED. Returns TFE_EINVAL if the result is invalid. */
int on_probed(struct rdzv *r, struct node *prober, const struct msg_probed *probed) TFE_MUST_CHECK;
/* Handles DEATH: a node brings a proof of termination, which a guard hands out only after its agent
 * has ended and the last process that it had started is reaped (design 5). */
int on_death(struct rdzv *r, struct node *by, const struct msg_death *death);
/* Handles FACTS. One property of the machine has an effect: whether it is a spot machine, which
 * counts in the next rank assignment. No epoch ends because of it. */
void on_machine_info(struct node *node, const struct msg_machine_info *machine_info);

/* --- lost connections and timers --- */

/* The connection ended without GOODBYE: the node is suspect until it reconnects. */
void on_closed(struct rdzv *r, struct node *node);
/* The lease has ended: removes the node, unless a mass loss extends the lease. */
void on_lease_over(struct rdzv *r, struct node *node);
/* The time limit of a probe has passed, or the next try is due. */
void on_probe_over(struct rdzv *r, struct node *node);
/* The quarantine has ended: the node may try again. */
void on_quarantine_over(struct rdzv *r, struct node *node);

/* --- results of writes to the store --- */

void on_written(struct rdzv *r, struct job *job, const struct rdzv_event *event);

/* --- commands of operators --- */

/* Drains a node in an orderly way: it is in no later epoch, its trainers end with their epoch
 * (plan.c decides when), and then it is released. */
void on_drain(struct rdzv *r, struct node *node, uint32_t within_ms);
/* Takes a node out of its job at once, connected or not. That proves nothing about its trainers:
 * unless accounted for, they are waited for until their fence. */
void on_evict(struct rdzv *r, struct node *node);
/* Cancels a job, in any state. */
void on_stop_job(struct rdzv *r, struct job *job);
/* Adds the waiting nodes to a running job, whatever work that loses, and also if the job does not
 * grow by itself. Returns TFE_ESTATE if no node could be added now. */
int on_grow(struct job *job) TFE_MUST_CHECK;
/* Sets the number of nodes, overriding the options of the job's agents. A running epoch that has
 * more is ended by a planned switch (plan.c); one that has fewer continues. n_ps: MSG_UNSET keeps
 * the number. Returns TFE_ESTATE if the job is over, TFE_EAUTH if it cannot have that number of ps,
 * TFE_EINVAL, or TFE_ENOMEM; nothing has changed then. */
int on_resize(struct rdzv *r, struct job *job, uint32_t min, uint32_t max,
              uint32_t n_ps) TFE_MUST_CHECK;
/* Returns a job whose record is unreadable as one that can be forgotten, or NULL if there is none
 * of this name. */
struct job *on_forget_aside(struct rdzv *r, const char *name);
/* Handles a forget command. Returns TFE_ESTATE if the job is not over or has nodes. */
int on_forget(struct rdzv *r, struct job *job) TFE_MUST_CHECK;
void on_forget_old(struct rdzv *r, struct tfe_wall before);

#endif
