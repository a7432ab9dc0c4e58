/* server/series.c: see series.h. */
#include "server/series.h"

#include <bsd/sys/tree.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/id.h"
#include "common/base/rate.h"
#include "common/base/series.h"
#include "common/base/text.h"
#include "common/net/clock.h"
#include "common/net/heap.h"
#include "common/net/log.h"
#include "common/net/timer.h"
#include "server/store/writer.h"

#define FLUSH_MS 5000
/* Points that wait for that; with as many the writer gets them at once. */
#define PENDING_MAX 1000
/* Of all jobs together: what goes on the disk. Of more jobs each is told less often. */
#define POINT_EACH_MS 5
#define POINTS_AT_ONCE 1000
/* So many rows wait for a disk that takes none: points are what can be spared. */
#define WAITING_MAX 4000

struct entry {
    char name[MSG_METRIC_NAME_MAX + 1];
    struct msg_series_row last; /* ord 0: none yet */
};

struct job_series {
    RB_ENTRY(job_series) link;
    struct tfe_id job;
    uint32_t run;
    struct entry *v; /* by name */
    size_t n, cap;
};
RB_HEAD(job_series_tree, job_series);

struct pending {
    struct tfe_id job;
    struct entry entry;
};

struct series {
    const struct rdzv *core;
    struct writer *writer; /* NULL: nothing is kept */
    struct job_series_tree jobs;
    uint32_t n_jobs;
    struct pending *pending;
    size_t n_pending, cap_pending;
    struct event *flush;
    struct rate rate;
    bool is_full_told;
};

static int compare(const struct job_series *a, const struct job_series *b)
{
    return id_compare(&a->job, &b->job);
}

RB_GENERATE_INTERNAL(job_series_tree, job_series, link, compare, __attribute__((unused)) static)

static void forget(struct series *s, struct job_series *of)
{
    RB_REMOVE(job_series_tree, &s->jobs, of);
    s->n_jobs--;
    free(of->v);
    free(of);
}

/* Jobs that are no more. */
static void tidy(struct series *s)
{
    struct msg_status_job status;
    for (struct job_series *of = RB_MIN(job_series_tree, &s->jobs), *next; of; of = next) {
        next = RB_NEXT(job_series_tree, &s->jobs, of);
        if (rdzv_find_job(s->core, of->job.text, &status) != 0) {
            forget(s, of);
        }
    }
}

static void on_flush(evutil_socket_t fd, short what, void *ctx)
{
    series_flush(ctx);
}

int series_new(struct event_base *base, const struct rdzv *core, struct series **ret)
{
    struct series *s = calloc(1, sizeof(*s));
    if (!s) {
        return TFE_ENOMEM;
    }
    s->core = core;
    RB_INIT(&s->jobs);
    s->flush = evtimer_new(base, on_flush, s);
    if (!s->flush) {
        free(s);
        return TFE_ENOMEM;
    }
    *ret = s;
    return 0;
}

void series_free(struct series *s)
{
    if (!s) {
        return;
    }
    while (!RB_EMPTY(&s->jobs)) {
        forget(s, RB_ROOT(&s->jobs));
    }
    event_free(s->flush);
    free(s->pending);
    free(s);
}

void series_keep(struct series *s, struct writer *writer)
{
    s->writer = writer;
}

/* --- one more point --------------------------------------------------------------------------- */

static const struct job_series *find(const struct series *s, const char *job)
{
    struct job_series key;
    struct job_series_tree *tree = (struct job_series_tree *)(uintptr_t)&s->jobs;
    return id_set(&key.job, job) == 0 ? RB_FIND(job_series_tree, tree, &key) : NULL;
}

/* NULL: there are too many, or no memory. */
static struct job_series *find_or_make(struct series *s, const char *job, uint32_t run)
{
    struct job_series *of = (struct job_series *)(uintptr_t)find(s, job);
    if (!of && s->n_jobs == SERIES_JOBS_MAX) {
        tidy(s);
    }
    if (!of && s->n_jobs < SERIES_JOBS_MAX && (of = calloc(1, sizeof(*of))) != NULL) {
        (void)id_set(&of->job, job);
        of->run = run;
        RB_INSERT(job_series_tree, &s->jobs, of);
        s->n_jobs++;
    }
    if (!of && !s->is_full_told) {
        s->is_full_told = true;
        log_warn("metrics_not_kept", LOG_S("job", job), LOG_U("jobs_max", SERIES_JOBS_MAX));
    }
    if (of && run > of->run) {
        of->run = run;
        of->n = 0;
    }
    return of && run == of->run ? of : NULL;
}

static struct entry *entry_of(struct job_series *of, const char *name)
{
    size_t i = 0;
    while (i < of->n && strcmp(of->v[i].name, name) < 0) {
        i++;
    }
    if (i < of->n && strcmp(of->v[i].name, name) == 0) {
        return &of->v[i];
    }
    if (of->n == SERIES_NAMES_MAX ||
        mem_reserve(&heap_mem, &of->v, &of->cap, of->n + 1, sizeof(*of->v)) != 0) {
        return NULL;
    }
    memmove(&of->v[i + 1], &of->v[i], (of->n - i) * sizeof(*of->v));
    of->n++;
    of->v[i] = (struct entry){.last.ord = 0};
    text_setf(of->v[i].name, sizeof(of->v[i].name), "%s", name);
    return &of->v[i];
}

static void pend(struct series *s, const struct job_series *of, const struct entry *entry)
{
    if (!s->writer || mem_reserve(&heap_mem, &s->pending, &s->cap_pending, s->n_pending + 1,
                                  sizeof(*s->pending)) != 0) {
        return;
    }
    s->pending[s->n_pending++] = (struct pending){of->job, *entry};
    if (s->n_pending == PENDING_MAX) {
        series_flush(s);
    } else if (!evtimer_pending(s->flush, NULL)) {
        (void)timer_after(s->flush, FLUSH_MS);
    }
}

bool series_add(struct series *s, const struct msg_series_row *point)
{
    struct job_series *of = find_or_make(s, point->job, point->run);
    struct entry *entry = of ? entry_of(of, point->name) : NULL;
    if (!entry) {
        return false;
    }
    const uint64_t ord = entry->last.ord;
    entry->last = *point;
    entry->last.job = NULL; /* what it points to is filled in where it is told */
    entry->last.name = NULL;
    entry->last.at = clock_wall();
    entry->last.ord = ord;
    if (!rate_pass(&s->rate, clock_mono(), POINT_EACH_MS, POINTS_AT_ONCE)) {
        return true;
    }
    entry->last.ord++;
    if (entry->last.ord % series_stride(entry->last.ord) == 0) {
        pend(s, of, entry);
    }
    return true;
}

void series_flush(struct series *s)
{
    const bool takes = s->writer && writer_n_rows(s->writer) < WAITING_MAX;
    for (size_t i = 0; takes && i < s->n_pending; i++) {
        struct tfe_msg msg = {.type = MSG_SERIES_ROW, .u.series_row = s->pending[i].entry.last};
        msg.u.series_row.job = s->pending[i].job.text;
        msg.u.series_row.name = s->pending[i].entry.name;
        if (writer_keep(s->writer, &msg, NULL, NULL, NULL) != 0) {
            break; /* for want of memory: a gap in a curve */
        }
    }
    s->n_pending = 0;
    (void)evtimer_del(s->flush);
}

/* --- what is there ---------------------------------------------------------------------------- */

static int take(void *ctx, const struct tfe_msg *row)
{
    struct series *s = ctx;
    const struct msg_series_row *point = &row->u.series_row;
    struct job_series *of = find_or_make(s, point->job, point->run);
    struct entry *entry = of ? entry_of(of, point->name) : NULL;
    if (entry) {
        entry->last = *point;
        entry->last.job = entry->last.name = NULL;
    }
    return 0;
}

int series_load(struct series *s, struct store *store, struct tfe_why *why)
{
    struct msg_status_job job = {.job = NULL};
    int rc = 0;
    while (rc == 0 && s->n_jobs < SERIES_JOBS_MAX && rdzv_view_job(s->core, job.job, &job) == 0) {
        const struct store_page page = {
            .type = MSG_SERIES_ROW, .job = job.job, .max = SERIES_NAMES_MAX};
        rc = store_read_page(store, &page, take, s, why);
    }
    return rc;
}

bool series_last(const struct series *s, const char *job, const char *after,
                 struct msg_series_row *ret)
{
    const struct job_series *of = find(s, job);
    for (size_t i = 0; of && i < of->n; i++) {
        if (of->v[i].last.ord > 0 && (!after || strcmp(of->v[i].name, after) > 0)) {
            *ret = of->v[i].last;
            ret->job = of->job.text;
            ret->name = of->v[i].name;
            return true;
        }
    }
    return false;
}
