/* server/core/actions.h: the list of actions of one step. Room is reserved before anything changes,
 * so that adding one cannot fail. */
#ifndef TFE_SERVER_CORE_ACTIONS_H
#define TFE_SERVER_CORE_ACTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "server/core/rdzv.h"

struct job;
struct node;

struct action_list {
    struct rdzv_action *v;
    size_t n;
    size_t cap;
};

/* Room for everything that one event can cause in the job (NULL: in none). TFE_ENOMEM. */
int actions_reserve(struct rdzv *r, const struct job *job) TFE_MUST_CHECK;

/* The next action, zeroed but for its type. */
struct rdzv_action *send_action(struct rdzv *r, enum rdzv_action_type type);
/* The next SEND, zeroed but for session and type of message. */
struct tfe_msg *send_to(struct rdzv *r, uint32_t session, enum tfe_msg_type type);
/* … to a node that is connected. */
struct tfe_msg *send_node(struct rdzv *r, const struct node *node, enum tfe_msg_type type);
void send_close(struct rdzv *r, uint32_t session);
/* Tells a node how it ended, and lets it go. */
void send_finish(struct rdzv *r, uint32_t session, enum tfe_result result, uint32_t run,
                 const char *sentence);
void send_refused(struct rdzv *r, uint32_t session, enum tfe_refusal code, const char *sentence);
/* STOP of an epoch in which nothing is known to have failed. */
void send_stop(struct rdzv *r, const struct node *node, uint64_t epoch);
void send_noted(struct rdzv *r, const struct node *node, uint64_t epoch);
/* Returns it for what is seldom said; until the next action. */
struct rdzv_trace *send_trace(struct rdzv *r, enum rdzv_trace_kind kind, const struct job *job,
                              const struct node *node, uint64_t number, const char *text);

#endif
