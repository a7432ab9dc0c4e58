/* server/events/event_text.h: converts traces and ledger rows to events. */
#ifndef TFE_SERVER_EVENTS_EVENT_TEXT_H
#define TFE_SERVER_EVENTS_EVENT_TEXT_H

#include "server/events/event_log.h"

/* Adds the event of a trace of the core, which trace_log.h logs. */
void event_of_trace(struct events *e, const struct rdzv_trace *trace);

/* Reports an epoch's first step and the duration of each phase before it. */
void event_of_first_step(struct events *e, const char *job, const struct msg_epoch_row *row);

#endif
