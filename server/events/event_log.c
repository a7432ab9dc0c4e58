/* server/events/event_log.c: buffer of recent events, their numbers and rate limits. If the buffer
 * is full, the oldest event of the owner with most events is removed: the events of one key do not
 * displace those of others. */
#include "server/events/event_log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/channel/admission.h"
#include "common/cli/log.h"
#include "common/cli/log_throttle.h"
#include "common/records/schemas.h"
#include "server/store/writer.h"

/* Number of events in memory, about 300 bytes each. */
#define BUFFERED_MAX 1000
/* Gap in the numbers after a restart, larger than the number of events that can wait for the disk:
 * a number that a killed server has shown but not stored is never reused. */
#define NUMBER_GAP 20000
/* Rate limit per kind and job: of a fleet that comes or goes at once, only the first events are
 * stored. */
#define CAUSE_BURST 100
#define CAUSE_INTERVAL_MS 1000
#define CAUSES 4096
/* Rate limit of all events: fifty per second to the disk. */
#define TOTAL_BURST 2000
#define TOTAL_INTERVAL_MS 20
/* Rate limit per owner of jobs, a quarter of the total, so that no key uses up what others need. */
#define OWNERS 1024
#define OWNER_BURST (TOTAL_BURST / 4)
#define OWNER_INTERVAL_MS (TOTAL_INTERVAL_MS * 4)
/* Number of queued rows above which events are not stored, because ledger rows have priority. */
#define WAITING_MAX 5000

struct entry {
    struct msg_event_row *row;
    struct admission_slot slot;
};

struct events {
    const struct rdzv *core;
    struct writer *writer; /* destination of events; NULL to keep them in memory only */
    struct throttle *each, *of_owner;
    struct rate all;
    events_owner_fn *owner_of; /* returns the owner of a job; NULL if each job is its own owner */
    const void *owner_ctx;
    struct admission *admission;       /* buffered events by owner */
    struct entry *v[BUFFERED_MAX + 1]; /* buffered events by number, oldest first */
    uint32_t n;
    uint64_t newest;
    uint64_t last_removed; /* highest number of an event that is not buffered; 0 if none is */
};

int events_new(const struct rdzv *core, struct events **ret)
{
    struct events *e = calloc(1, sizeof(*e));
    if (!e) {
        return TFE_ENOMEM;
    }
    e->core = core;
    e->each = throttle_new(CAUSES, CAUSE_BURST, CAUSE_INTERVAL_MS);
    e->of_owner = throttle_new(OWNERS, OWNER_BURST, OWNER_INTERVAL_MS);
    const struct admission_config config = {
        .capacity = BUFFERED_MAX, .quota_max = BUFFERED_MAX, .evicts_oldest = true};
    if (!e->each || !e->of_owner || admission_new(&config, &e->admission) != 0) {
        events_free(e);
        return TFE_ENOMEM;
    }
    *ret = e;
    return 0;
}

static void remove_at(struct events *e, uint32_t i)
{
    struct entry *entry = e->v[i];
    e->n--;
    memmove(&e->v[i], &e->v[i + 1], (e->n - i) * sizeof(struct entry *));
    admission_leave(e->admission, &entry->slot);
    free(entry->row);
    free(entry);
}

void events_free(struct events *e)
{
    if (!e) {
        return;
    }
    while (e->n > 0) {
        remove_at(e, e->n - 1);
    }
    admission_free(e->admission);
    free(e->each);
    free(e->of_owner);
    free(e);
}

void events_set_owner_fn(struct events *e, events_owner_fn *owner_of, const void *ctx)
{
    e->owner_of = owner_of;
    e->owner_ctx = ctx;
}

static const struct msg_event_row *at(const struct events *e, uint32_t i)
{
    return e->v[i]->row;
}

/* Writes the owner for which an event counts: that of its job, else the job itself. Returns its
 * length, 0 for the server's own events. */
static size_t owner_of(const struct events *e, const char *job, uint8_t ret[ADMISSION_NAME_MAX])
{
    size_t n = job[0] != '\0' && e->owner_of ? e->owner_of(e->owner_ctx, job, ret) : 0;
    if (n == 0) {
        n = strnlen(job, ADMISSION_NAME_MAX);
        memcpy(ret, job, n);
    }
    return n;
}

/* Adds a row, whose ownership is taken. Returns 0 or TFE_ENOMEM. */
static int put(struct events *e, struct msg_event_row *row)
{
    uint8_t owner[ADMISSION_NAME_MAX] = "";
    const size_t n = owner_of(e, row->job, owner);
    const struct admission_claim claim = {.by = {[ADMISSION_KEY] = {owner, n > 0 ? n : 1}},
                                          .cost = 1}; /* the server's own events are named "" */
    struct entry *entry = calloc(1, sizeof(*entry));
    if (!entry || admission_enter(e->admission, &claim, entry, &entry->slot) != 0) {
        free(entry);
        free(row);
        return TFE_ENOMEM;
    }
    entry->row = row;
    e->v[e->n++] = entry;
    e->newest = row->number;
    const struct admission_slot *evicted =
        admission_next_eviction(e->admission, &entry->slot, NULL);
    if (evicted) {
        uint32_t i = 0;
        while (e->v[i] != evicted->owner) {
            i++;
        }
        const uint64_t number = at(e, i)->number;
        e->last_removed = number > e->last_removed ? number : e->last_removed;
        remove_at(e, i);
    }
    return 0;
}

static int load_event(void *ctx, const struct tfe_msg *row)
{
    struct msg_event_row *copy = record_copy(&schema_event, &row->u.event_row);
    return copy ? put(ctx, copy) : TFE_ENOMEM;
}

int events_load(struct events *e, struct store *store, struct tfe_reason *reason)
{
    const struct store_page page = {.type = MSG_EVENT_ROW, .last = BUFFERED_MAX};
    int rc = store_read(store, &page, load_event, e, reason);
    e->last_removed = e->n == BUFFERED_MAX ? at(e, 0)->number - 1 : 0;
    e->newest += e->newest > 0 ? NUMBER_GAP : 0;
    return rc;
}

void events_attach_writer(struct events *e, struct writer *writer)
{
    e->writer = writer;
}

/* --- adding ----------------------------------------------------------------------------------- */

static bool passes(struct events *e, const struct msg_event_row *row, uint64_t *ret_hidden)
{
    char cause[TFE_ID_MAX + 64];
    uint8_t owner[ADMISSION_NAME_MAX];
    uint64_t of_cause = 0;
    uint64_t of_owner = 0;
    int n = snprintf(cause, sizeof(cause), "%s %s", row->kind, row->job);
    const size_t n_owner = owner_of(e, row->job, owner);
    if (!throttle_pass(e->each, cause, (size_t)n, &of_cause)) {
        return false;
    }
    if (n_owner > 0 && !throttle_pass(e->of_owner, owner, n_owner, &of_owner)) {
        e->each->hidden += of_cause; /* the next event of this cause reports them */
        return false;
    }
    *ret_hidden = of_cause + of_owner;
    return rate_pass(&e->all, clock_mono(), TOTAL_INTERVAL_MS, TOTAL_BURST);
}

static const char *text(const char *text)
{
    return text ? text : "";
}

static void store_event(struct events *e, const struct msg_event_row *row)
{
    const struct tfe_msg msg = {.type = MSG_EVENT_ROW, .u.event_row = *row};
    if (e->writer && (writer_n_rows(e->writer) >= WAITING_MAX ||
                      writer_put(e->writer, &msg, NULL, NULL, NULL) != 0)) {
        log_warn("event_not_stored", LOG_S("kind", row->kind), LOG_U("number", row->number));
    }
}

const struct msg_event_row *events_add(struct events *e, const struct msg_event_row *given)
{
    struct msg_status_job job;
    char sentence[MSG_SENTENCE_MAX];
    uint64_t hidden = 0;
    struct msg_event_row row = *given;
    row.job = text(row.job);
    if (!passes(e, &row, &hidden)) {
        return NULL;
    }
    row.node = text(row.node);
    row.name = text(row.name);
    row.at = clock_wall();
    row.number = e->newest + 1;
    if (row.run == 0 && row.job[0] != '\0' && rdzv_find_job(e->core, row.job, &job) == 0) {
        row.run = job.run;
    }
    if (hidden > 0) {
        (void)snprintf(sentence, sizeof(sentence), "%.900s (and %llu more, not shown)", row.message,
                       (unsigned long long)hidden);
        row.message = sentence;
    }
    struct msg_event_row *copy = record_copy(&schema_event, &row);
    if (!copy || put(e, copy) != 0) {
        log_warn("event_lost", LOG_S("kind", row.kind));
        return NULL;
    }
    store_event(e, copy);
    return copy;
}

void events_report(struct events *e, const struct msg_event_row *row, const char *format, ...)
{
    char sentence[MSG_SENTENCE_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    struct msg_event_row event = *row;
    event.message = sentence;
    const struct msg_event_row *added = events_add(e, &event);
    if (added) {
        LOG_AT((enum log_level)(LOG_INFO_ + (int)added->level), added->kind, LOG_S("job", row->job),
               LOG_S("node", row->node), LOG_S("name", row->name),
               LOG_U(row->epoch > 0 ? "epoch" : NULL, row->epoch), LOG_S("message", added->message),
               LOG_END_);
    }
}

/* --- reading ---------------------------------------------------------------------------------- */

static bool is_of(const struct msg_event_row *row, const char *job)
{
    return !job || strcmp(row->job, job) == 0;
}

const struct msg_event_row *events_next(const struct events *e, const char *job, uint64_t after)
{
    uint32_t low = 0;
    uint32_t high = e->n;
    while (low < high) { /* binary search for the first number above `after` */
        uint32_t middle = low + (high - low) / 2;
        if (at(e, middle)->number > after) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    while (low < e->n && !is_of(at(e, low), job)) {
        low++;
    }
    return low < e->n ? at(e, low) : NULL;
}

const struct msg_event_row *events_artifacts(const struct events *e, const char *job, uint32_t run)
{
    for (uint32_t i = e->n; i > 0; i--) {
        const struct msg_event_row *row = at(e, i - 1);
        if (row->run == run && strncmp(row->kind, "artifacts_", strlen("artifacts_")) == 0 &&
            is_of(row, job)) {
            return row;
        }
    }
    return NULL;
}

bool events_has_after(const struct events *e, uint64_t after)
{
    return after >= e->last_removed;
}

uint64_t events_before_last(const struct events *e, const char *job, uint32_t last, bool *ret_all)
{
    uint32_t found = 0;
    uint32_t i = e->n;
    while (i > 0 && found < last) {
        found += is_of(at(e, --i), job);
    }
    const bool is_complete = !job || i == e->n || at(e, i)->number > e->last_removed;
    *ret_all = e->last_removed == 0 || (found == last && is_complete);
    return e->n > 0 && i < e->n ? at(e, i)->number - 1 : e->newest;
}

uint64_t events_newest(const struct events *e)
{
    return e->newest;
}

const struct rdzv *events_core(const struct events *e)
{
    return e->core;
}
