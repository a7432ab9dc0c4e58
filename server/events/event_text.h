/* server/events/event_text.h: converts traces and ledger rows to events. */
#ifndef TFE_SERVER_EVENTS_EVENT_TEXT_H
#define TFE_SERVER_EVENTS_EVENT_TEXT_H

#include "server/events/event_log.h"

/* Adds the event of a trace of the core, which trace_log.h logs; a trace_fn with a struct events as
 * ctx. */
void event_of_trace(void *ctx, const struct rdzv_trace *trace);

/* Handles a ledger row as it is written: reports an epoch's first step and the duration of each
 * phase. */
void event_of_ledger(struct events *e, const char *job, const struct msg_epoch_row *row);

#endif
