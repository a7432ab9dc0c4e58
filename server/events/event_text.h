/* server/events/event_text.h: converts traces, ledger rows and orders to events. */
#ifndef TFE_SERVER_EVENTS_EVENT_TEXT_H
#define TFE_SERVER_EVENTS_EVENT_TEXT_H

#include "server/events/event_log.h"

/* Handles a trace of the core; a trace_fn with a struct events as ctx. */
void event_of_trace(void *ctx, const struct rdzv_trace *trace);

/* Handles a ledger row as it is written: reports an epoch's first step and the duration of each
 * phase. */
void event_of_ledger(struct events *e, const char *job, const struct msg_epoch_row *row);

/* Reports that the store rejects writes (rc < 0), or accepts them again (0). */
void event_of_store(struct events *e, int rc, const char *reason);

/* Reports an order, its subject and its result. who: label or id of the key. job: NULL if
 * unknown. */
void event_of_order(struct events *e, const char *who, const char *order, const char *job,
                    const char *about, const char *result);

#endif
