/* server/events/event_text.h: the one table by which what the server does becomes events for
 * people. */
#ifndef TFE_SERVER_EVENTS_EVENT_TEXT_H
#define TFE_SERVER_EVENTS_EVENT_TEXT_H

#include "server/events/event_log.h"

/* What the core tells of itself. A trace_fn; ctx is a struct events. */
void event_of_trace(void *ctx, const struct rdzv_trace *trace);

/* A row of the ledger, as it is noted: the first step of an epoch, and what each phase took. */
void event_of_ledger(struct events *e, const char *job, const struct msg_epoch_row *row);

/* The store takes nothing (rc < 0), or does again (0). */
void event_of_store(struct events *e, int rc, const char *reason);

/* An order, what it was about, and what came of it; who: the label or id of the key. job: NULL not
 * known. */
void event_of_order(struct events *e, const char *who, const char *order, const char *job,
                    const char *about, const char *result);

#endif
