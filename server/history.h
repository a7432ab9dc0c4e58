/* server/history.h: answers what only the store can answer: EPOCHS and BACKUP. */
#ifndef TFE_SERVER_HISTORY_H
#define TFE_SERVER_HISTORY_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/msg.h"

struct channel;
struct event_base;
struct history;
struct rdzv;
struct writer;

/* Sends the answer to EPOCHS (EPOCH_ROW …, STATUS_END) or BACKUP (DONE), or REFUSED, once the store
 * has given it and at the pace at which the asker reads. *ret is freed by the caller before the
 * channel. TFE_ENOMEM: nothing will be answered. */
int history_answer(struct event_base *base, struct writer *writer, const struct rdzv *core,
                   struct channel *ch, const struct tfe_msg *question,
                   struct history **ret) TFE_MUST_CHECK;

/* Whether the answer is complete (or cannot be completed any more). */
bool history_is_over(const struct history *history);

/* Whether anything was sent since this was asked last, or the store is still at it: the asker owes
 * us nothing. */
bool history_has_moved(struct history *history);

/* NULL is allowed. */
void history_free(struct history *history);

#endif
