/* server/query/operator.h: an operator's orders: who is meant, what the core says to it, and the
 * answer.
 */
#ifndef TFE_SERVER_QUERY_OPERATOR_H
#define TFE_SERVER_QUERY_OPERATOR_H

#include "common/base/id.h"
#include "common/message/msg.h"
#include "server/core/rdzv.h"

/* Hands one event to the core and carries out what it asks for; what rdzv_step returned. */
typedef int (*operator_step_fn)(void *ctx, const struct rdzv_event *event);

struct operator_answer {
    struct tfe_msg msg; /* DONE, or REFUSED with the sentence below */
    struct tfe_id job;  /* DONE: who was meant; "" where the order names none */
    struct tfe_id node;
    char name[TFE_LABEL_MAX + 1]; /* of the node */
    char token[MSG_KEY_HEX + 1];  /* that it came with; "" not known */
    char sentence[MSG_SENTENCE_MAX];
};

/* Carries out DRAIN, EVICT, CANCEL, GROW, SCALE or FORGET, which `by` may order. event.now is
 * step's business. */
void operator_obey(const struct rdzv *core, operator_step_fn step, void *ctx,
                   const struct principal *by, const struct tfe_msg *order,
                   struct operator_answer *ret);

#endif
