/* server/query/operator.h: carries out the orders of operators: finds the node or job, steps the
 * core, and makes the response. */
#ifndef TFE_SERVER_QUERY_OPERATOR_H
#define TFE_SERVER_QUERY_OPERATOR_H

#include "common/base/id.h"
#include "common/message/msg.h"
#include "server/core/rdzv.h"

/* Passes one event to the core and executes its actions. Returns the result of rdzv_step(). */
typedef int (*operator_step_fn)(void *ctx, const struct rdzv_event *event);

struct operator_response {
    struct tfe_msg msg; /* DONE, or REFUSED with the sentence in the field `sentence` */
    struct tfe_id job;  /* DONE: the job that the order concerned; "" if the order names none */
    struct tfe_id node;
    char name[TFE_LABEL_MAX + 1]; /* label of the node */
    char token[MSG_KEY_HEX + 1];  /* id of the token that the node joined with; "" if unknown */
    char sentence[MSG_SENTENCE_MAX];
};

/* Carries out DRAIN, EVICT, CANCEL, GROW, SCALE or FORGET. Precondition: `by` may give this order.
 * step sets event.now. */
void operator_execute(const struct rdzv *core, operator_step_fn step, void *ctx,
                      const struct principal *by, const struct tfe_msg *order,
                      struct operator_response *ret);

#endif
