/* server/events/event_log.h: what has happened, for people: numbered, durable, bounded, one plain
 * sentence each. What the core tells of itself becomes events by one table (event_text.c).
 *
 *   core's traces, ledger ──► event_text.c ──┐
 *   orders, refusals, store, reports ─────────┴──► events_add ──► a ring of the newest, in memory
 *                                                            └──► the writer: the store's table
 *
 * Who follows reads the ring; the disk is asked only for what is older. */
#ifndef TFE_SERVER_EVENTS_EVENT_LOG_H
#define TFE_SERVER_EVENTS_EVENT_LOG_H

#include "common/base/reason.h"
#include "common/channel/admission.h"
#include "common/message/msg.h"
#include "server/core/rdzv.h"
#include "server/store/store.h"

struct events;
struct writer;

/* core outlives it. TFE_ENOMEM. */
int events_new(const struct rdzv *core, struct events **ret) TFE_MUST_CHECK;
/* NULL is allowed. */
void events_free(struct events *e);

/* Takes in the newest of what is kept: numbers go on above that. Before the store is the writer's.
 * As store_read_events. */
int events_load(struct events *e, struct store *store, struct tfe_reason *reason) TFE_MUST_CHECK;
/* From here on events are kept there; it outlives e. */
void events_keep(struct events *e, struct writer *writer);

/* Names whom the events of a job count for, in ret: its length, 0 if that is not known. The ring
 * and the rate have a share for each; in the ring the oldest event of whoever has most makes room.
 */
typedef size_t events_owner_fn(const void *ctx, const char *job, uint8_t ret[ADMISSION_NAME_MAX]);
void events_own(struct events *e, events_owner_fn *owner_of, const void *ctx);

/* Adds an event: kind, level, says, and of the texts those that are not NULL. Number and time are
 * its own, and so is the run where the core knows the job. Of those of one kind and job that come
 * all at once some are left out, and counted in the next one's sentence. */
void events_add(struct events *e, const struct msg_event_row *row);
/* The same with a sentence that is made here, as text_addf. */
void events_addf(struct events *e, const struct msg_event_row *row, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The one with the first number above `after` (of job, if that is not NULL); borrowed until the
 * next one is added. NULL: there is none. */
const struct msg_event_row *events_next(const struct events *e, const char *job, uint64_t after);
/* Whether all above `after` are here, and not on the disk only. */
bool events_has_after(const struct events *e, uint64_t after);
/* The number behind which there are the newest `last` (of job). *ret_all: so many are here, or no
 * more were ever kept. */
uint64_t events_before_last(const struct events *e, const char *job, uint32_t last, bool *ret_all);
/* 0: there was none. */
uint64_t events_newest(const struct events *e);

/* The core that they are about. */
const struct rdzv *events_core(const struct events *e);

#endif
