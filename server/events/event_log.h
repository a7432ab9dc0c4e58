/* server/events/event_log.h: events for operators: numbered, durable, bounded, each with one
 * sentence. Traces of the core become events by a table (event_text.c).
 *
 *     traces of the core ──┬─► trace_log.c ──────────────────────────► log
 *                          └─► event_text.c ─► events_add ─┬─► buffer in memory
 *     ledger, orders, store, pool ─► events_report ─┘      └─► writer ─► store
 *                                          └──────────────────────────► log
 *
 * Clients that follow read the buffer; the store is read only for events that the buffer has
 * removed. */
#ifndef TFE_SERVER_EVENTS_EVENT_LOG_H
#define TFE_SERVER_EVENTS_EVENT_LOG_H

#include "common/channel/admission.h"
#include "common/message/msg.h"
#include "common/text/reason.h"
#include "server/core/rdzv.h"
#include "server/store/store.h"

struct events;
struct writer;

/* Makes an empty log. core must outlive it. Returns 0 or TFE_ENOMEM. */
int events_new(const struct rdzv *core, struct events **ret) TFE_MUST_CHECK;
/* Frees the log. NULL is allowed. */
void events_free(struct events *e);

/* Loads the newest stored events; numbers continue above them. Call before the writer owns the
 * store. Returns an error of store_read. */
int events_load(struct events *e, struct store *store, struct tfe_reason *reason) TFE_MUST_CHECK;
/* Stores further events through the writer, which must outlive the log. */
void events_attach_writer(struct events *e, struct writer *writer);

/* Sets the function that writes the owner of a job to ret and returns its length, 0 if unknown.
 * Rate and buffer have a share per owner. */
typedef size_t events_owner_fn(const void *ctx, const char *job, uint8_t ret[ADMISSION_NAME_MAX]);
void events_set_owner_fn(struct events *e, events_owner_fn *owner_of, const void *ctx);

/* Adds an event with kind, level, sentence, and the texts that are not NULL. Sets number, time and,
 * if the core knows the job, its run. Limits the rate per kind and job; the next event's sentence
 * reports how many were suppressed. Returns the event, borrowed until the next one is added, or
 * NULL if it was suppressed or memory ran out. */
const struct msg_event_row *events_add(struct events *e, const struct msg_event_row *row);
/* Adds an event with a formatted sentence, and logs it: kind as the name, the texts, and the
 * sentence as `message`. */
void events_report(struct events *e, const struct msg_event_row *row, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns the newest event in memory about the artifacts of a job's run, borrowed until the next
 * one is added, or NULL if there is none. */
const struct msg_event_row *events_artifacts(const struct events *e, const char *job, uint32_t run);
/* Returns the first event with a number above `after` (of job, unless NULL), borrowed until the
 * next one is added, or NULL if there is none. */
const struct msg_event_row *events_next(const struct events *e, const char *job, uint64_t after);
/* True if all events above `after` are in memory. */
bool events_has_after(const struct events *e, uint64_t after);
/* Returns the number after which the newest `last` events (of job) in memory follow. *ret_all: the
 * store need not be read, because that many are in memory, or no more exist. Those of a job are
 * complete; of all jobs, those that the buffer has removed for other owners' events are missing. */
uint64_t events_before_last(const struct events *e, const char *job, uint32_t last, bool *ret_all);
/* Returns the highest event number, 0 if there was none. */
uint64_t events_newest(const struct events *e);

/* Returns the core whose events are logged. */
const struct rdzv *events_core(const struct events *e);

#endif
