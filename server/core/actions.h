/* server/core/actions.h: the actions of one step. Memory is reserved before anything changes, so
 * that adding an action cannot fail. */
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

/* Reserves memory for every action that one event can cause in the job (NULL: in no job). Returns 0
 * or TFE_ENOMEM. */
int actions_reserve(struct rdzv *r, const struct job *job) TFE_MUST_CHECK;

/* Appends an action of this type, zeroed otherwise. */
struct rdzv_action *send_action(struct rdzv *r, enum rdzv_action_type type);
/* Appends a SEND of a message of this type to session, zeroed otherwise. */
struct tfe_msg *send_to(struct rdzv *r, uint32_t session, enum tfe_msg_type type);
/* Appends a SEND of a message of this type to a connected node, zeroed otherwise. */
struct tfe_msg *send_node(struct rdzv *r, const struct node *node, enum tfe_msg_type type);
void send_close(struct rdzv *r, uint32_t session);
/* Sends FINISH with the result, then closes the session. */
void send_finish(struct rdzv *r, uint32_t session, enum tfe_result result, uint32_t run,
                 const char *sentence);
void send_refused(struct rdzv *r, uint32_t session, enum tfe_refusal code, const char *sentence);
/* Sends STOP for an epoch in which no failure is known. */
void send_stop(struct rdzv *r, const struct node *node, uint64_t epoch);
void send_noted(struct rdzv *r, const struct node *node, uint64_t epoch);
/* Appends a trace. Returns it, valid until the next action, for setting the fields that are rarely
 * used. */
struct rdzv_trace *send_trace(struct rdzv *r, enum rdzv_trace_kind kind, const struct job *job,
                              const struct node *node, uint64_t number, const char *text);

#endif
