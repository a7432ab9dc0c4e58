/* server/events.c: the ring of the newest events, their numbers, and which are worth being kept. */
#include "server/events.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/clock.h"
#include "common/net/log.h"
#include "common/net/throttle.h"
#include "common/rows/kinds.h"
#include "server/store/writer.h"

/* Some 300 bytes each. */
#define RING 1000
/* What a server that was killed has told and not written yet is never the number of something else:
 * more than ever wait for the disk. */
#define LEAP 20000
/* Of one kind and job at once: a fleet that comes or goes together is told by its first ones. */
#define AT_ONCE 100
#define ONE_EACH_MS 1000
#define CAUSES 4096
/* Of all, whatever makes them: fifty a second on the disk. */
#define ALL_AT_ONCE 2000
#define ALL_EACH_MS 20
/* So many rows wait for a disk that takes none: the ledger's go first. */
#define WAITING_MAX 5000

struct events {
    const struct rdzv *core;
    struct writer *writer; /* NULL: they are kept here alone */
    struct throttle *each;
    struct rate all;
    struct msg_event_row *ring[RING]; /* by number % RING would leave gaps: by order of coming */
    uint32_t first, n;
    uint64_t newest;
    bool has_more; /* there are older ones on the disk */
};

int events_new(const struct rdzv *core, struct events **ret)
{
    struct events *e = calloc(1, sizeof(*e));
    if (!e) {
        return TFE_ENOMEM;
    }
    e->core = core;
    e->each = throttle_new(CAUSES, AT_ONCE, ONE_EACH_MS);
    if (!e->each) {
        events_free(e);
        return TFE_ENOMEM;
    }
    *ret = e;
    return 0;
}

void events_free(struct events *e)
{
    if (!e) {
        return;
    }
    for (uint32_t i = 0; i < e->n; i++) {
        free(e->ring[(e->first + i) % RING]);
    }
    free(e->each);
    free(e);
}

static const struct msg_event_row *at(const struct events *e, uint32_t i)
{
    return e->ring[(e->first + i) % RING];
}

/* Takes the row. */
static void put(struct events *e, struct msg_event_row *row)
{
    if (e->n == RING) {
        free(e->ring[e->first]);
        e->first = (e->first + 1) % RING;
        e->n--;
        e->has_more = true;
    }
    e->ring[(e->first + e->n++) % RING] = row;
    e->newest = row->number;
}

static int take(void *ctx, const struct tfe_msg *row)
{
    struct events *e = ctx;
    struct msg_event_row *copy = row_copy(&kind_event, &row->u.event_row);
    if (!copy) {
        return TFE_ENOMEM;
    }
    put(e, copy);
    return 0;
}

int events_load(struct events *e, struct store *store, struct tfe_why *why)
{
    const struct store_page page = {.type = MSG_EVENT_ROW, .last = RING, .max = RING};
    int rc = store_read_page(store, &page, take, e, why);
    e->has_more = e->n == RING;
    e->newest += e->newest > 0 ? LEAP : 0;
    return rc;
}

void events_keep(struct events *e, struct writer *writer)
{
    e->writer = writer;
}

/* --- one more --------------------------------------------------------------------------------- */

static bool passes(struct events *e, const struct msg_event_row *row, uint64_t *ret_hidden)
{
    char cause[TFE_ID_MAX + 64];
    int n = snprintf(cause, sizeof(cause), "%s %s", row->kind, row->job);
    return throttle_pass(e->each, cause, (size_t)n, ret_hidden) &&
           rate_pass(&e->all, clock_mono(), ALL_EACH_MS, ALL_AT_ONCE);
}

static const char *text(const char *text)
{
    return text ? text : "";
}

static void keep(struct events *e, const struct msg_event_row *row)
{
    const struct tfe_msg msg = {.type = MSG_EVENT_ROW, .u.event_row = *row};
    if (e->writer && (writer_n_rows(e->writer) >= WAITING_MAX ||
                      writer_keep(e->writer, &msg, NULL, NULL, NULL) != 0)) {
        log_warn("event_not_kept", LOG_S("kind", row->kind), LOG_U("number", row->number));
    }
}

void events_add(struct events *e, const struct msg_event_row *said)
{
    struct msg_status_job job;
    char says[MSG_SENTENCE_MAX];
    uint64_t hidden = 0;
    struct msg_event_row row = *said;
    row.job = text(row.job);
    if (!passes(e, &row, &hidden)) {
        return;
    }
    row.node = text(row.node);
    row.name = text(row.name);
    row.at = clock_wall();
    row.number = e->newest + 1;
    if (row.run == 0 && row.job[0] != '\0' && rdzv_find_job(e->core, row.job, &job) == 0) {
        row.run = job.run;
    }
    if (hidden > 0) {
        (void)snprintf(says, sizeof(says), "%.900s (and %llu more that are not told)", row.says,
                       (unsigned long long)hidden);
        row.says = says;
    }
    struct msg_event_row *copy = row_copy(&kind_event, &row);
    if (!copy) {
        log_warn("event_lost", LOG_S("kind", row.kind));
        return;
    }
    put(e, copy);
    keep(e, copy);
}

void events_addf(struct events *e, const struct msg_event_row *row, const char *format, ...)
{
    char says[MSG_SENTENCE_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(says, sizeof(says), format, args);
    va_end(args);
    struct msg_event_row said = *row;
    said.says = says;
    events_add(e, &said);
}

/* --- looking ---------------------------------------------------------------------------------- */

static bool is_of(const struct msg_event_row *row, const char *job)
{
    return !job || strcmp(row->job, job) == 0;
}

const struct msg_event_row *events_next(const struct events *e, const char *job, uint64_t after)
{
    uint32_t low = 0;
    uint32_t high = e->n;
    while (low < high) { /* the first above `after` */
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

bool events_has_after(const struct events *e, uint64_t after)
{
    return !e->has_more || (e->n > 0 && at(e, 0)->number <= after + 1);
}

uint64_t events_before_last(const struct events *e, const char *job, uint32_t last, bool *ret_all)
{
    uint32_t found = 0;
    uint32_t i = e->n;
    while (i > 0 && found < last) {
        found += is_of(at(e, --i), job);
    }
    *ret_all = found == last || !e->has_more;
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
