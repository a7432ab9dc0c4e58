/* server/core/on.h: what the core does with each event: on_*.c. Room for actions is reserved;
 * whatever changes a job touches it (job.h), and the door lets states.c look at it afterwards. */
#ifndef TFE_SERVER_CORE_ON_H
#define TFE_SERVER_CORE_ON_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/message/msg.h"

struct job;
struct node;
struct rdzv;
struct rdzv_event;

/* --- an agent's messages --- */

/* TFE_EINVAL, TFE_ESTATE, TFE_ENOMEM: nothing changed. *ret_job: the job that it was about; NULL:
 * none. */
int on_join(struct rdzv *r, uint32_t session, const struct msg_join *join,
            struct job **ret_job) TFE_MUST_CHECK;
void on_renew(struct rdzv *r, struct node *node, const struct msg_renew *renew);
/* TFE_EINVAL: not as many ports as the job has processes, a port 0, or no host. */
int on_ready(struct rdzv *r, struct node *node, const struct msg_ready *ready) TFE_MUST_CHECK;
void on_listening(struct rdzv *r, struct node *node, const struct msg_listening *listening);
/* TFE_EINVAL: no such local rank, or a tail that is too long. */
int on_exited(struct rdzv *r, struct node *node, const struct msg_exited *exited) TFE_MUST_CHECK;
void on_goodbye(struct rdzv *r, struct node *node, const struct msg_goodbye *goodbye);
int on_processes(struct rdzv *r, struct node *node,
                 const struct msg_processes *processes) TFE_MUST_CHECK;
void on_progress(struct rdzv *r, struct node *node, const struct msg_progress *progress);
/* TFE_EINVAL: no such kind. */
int on_notice(struct rdzv *r, struct node *node, const struct msg_notice *notice) TFE_MUST_CHECK;
/* TFE_EINVAL: no such result. */
int on_probed(struct rdzv *r, struct node *prober, const struct msg_probed *probed) TFE_MUST_CHECK;
int on_death(struct rdzv *r, struct node *by, const struct msg_death *death);
void on_facts(struct node *node, const struct msg_facts *facts);

/* --- what happens to nodes by itself --- */

void on_closed(struct rdzv *r, struct node *node);
void on_lease_over(struct rdzv *r, struct node *node);
void on_probe_over(struct rdzv *r, struct node *node);
void on_quarantine_over(struct rdzv *r, struct node *node);

/* --- the disk --- */

void on_written(struct rdzv *r, struct job *job, const struct rdzv_event *event);

/* --- an operator's orders --- */

void on_drain(struct rdzv *r, struct node *node, uint32_t within_ms);
void on_evict(struct rdzv *r, struct node *node);
void on_stop_job(struct rdzv *r, struct job *job);
/* TFE_ESTATE: nobody is there who could be taken in now. */
int on_grow(struct job *job) TFE_MUST_CHECK;
/* n_ps: MSG_UNSET as many as now. TFE_ESTATE: it is over; TFE_EAUTH: it cannot have so many ps;
 * TFE_EINVAL, TFE_ENOMEM: nothing changed. */
int on_resize(struct rdzv *r, struct job *job, uint32_t min, uint32_t max,
              uint32_t n_ps) TFE_MUST_CHECK;
/* A job that was set aside, as one that can be forgotten. NULL: there is none. */
struct job *on_forget_aside(struct rdzv *r, const char *name);
/* TFE_ESTATE: it goes on, or there are nodes of it. */
int on_forget(struct rdzv *r, struct job *job) TFE_MUST_CHECK;
void on_forget_old(struct rdzv *r, struct tfe_wall before);

#endif
