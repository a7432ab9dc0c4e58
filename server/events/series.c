/* server/events/series.c: metrics of runs as thinned time series. */
#include "server/events/series.h"

#include <bsd/sys/tree.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/heap.h"
#include "common/base/id.h"
#include "common/cli/log.h"
#include "common/text/text.h"

/* Maximum number of points of all series, 40 bytes each. A series that begins beyond the limit
 * stores its newest point only. */
#define POINTS_ALL_MAX 1000000u

struct point {
    uint64_t ord, epoch, step;
    int64_t at_ms;
    double value;
};

struct entry {
    char name[MSG_METRIC_NAME_MAX + 1];
    struct point last; /* newest point; ord 0 if there is none */
    struct point *v;   /* points whose ord is a multiple of stride; NULL if none are stored */
    uint32_t n;        /* number of stored points, at most SERIES_POINTS_MAX */
    uint64_t stride;
};

struct job_series {
    RB_ENTRY(job_series) link;
    struct tfe_id job;
    uint32_t run;
    struct entry *v; /* series, sorted by name */
    size_t n, cap;
};
RB_HEAD(job_series_tree, job_series);

struct series {
    const struct rdzv *core;
    struct job_series_tree jobs;
    uint32_t n_jobs;
    uint32_t n_points; /* number of points for which memory is allocated */
    bool is_full_logged;
};

static int compare(const struct job_series *a, const struct job_series *b)
{
    return id_compare(&a->job, &b->job);
}

RB_GENERATE_INTERNAL(job_series_tree, job_series, link, compare, __attribute__((unused)) static)

static void drop_entries(struct series *s, struct job_series *of)
{
    for (size_t i = 0; i < of->n; i++) {
        s->n_points -= of->v[i].v ? SERIES_POINTS_MAX : 0;
        free(of->v[i].v);
    }
    of->n = 0;
}

static void forget(struct series *s, struct job_series *of)
{
    RB_REMOVE(job_series_tree, &s->jobs, of);
    s->n_jobs--;
    drop_entries(s, of);
    free(of->v);
    free(of);
}

/* Forgets the jobs that the core no longer knows. */
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

int series_new(const struct rdzv *core, struct series **ret)
{
    struct series *s = calloc(1, sizeof(*s));
    if (!s) {
        return TFE_ENOMEM;
    }
    s->core = core;
    RB_INIT(&s->jobs);
    *ret = s;
    return 0;
}

void series_free(struct series *s)
{
    while (s && !RB_EMPTY(&s->jobs)) {
        forget(s, RB_ROOT(&s->jobs));
    }
    free(s);
}

/* --- adding ----------------------------------------------------------------------------------- */

static struct job_series *find(const struct series *s, const char *job)
{
    struct job_series key;
    struct job_series_tree *tree = (struct job_series_tree *)(uintptr_t)&s->jobs;
    return id_set(&key.job, job) == 0 ? RB_FIND(job_series_tree, tree, &key) : NULL;
}

/* Returns the job's series, created if necessary, or NULL if there are too many jobs, the run is an
 * earlier one, or memory is out. */
static struct job_series *find_or_make(struct series *s, const char *job, uint32_t run)
{
    struct job_series *of = find(s, job);
    if (!of && s->n_jobs == SERIES_JOBS_MAX) {
        tidy(s);
    }
    if (!of && s->n_jobs < SERIES_JOBS_MAX && (of = calloc(1, sizeof(*of))) != NULL) {
        (void)id_set(&of->job, job);
        of->run = run;
        RB_INSERT(job_series_tree, &s->jobs, of);
        s->n_jobs++;
    }
    if (!of && !s->is_full_logged) {
        s->is_full_logged = true;
        log_warn("metrics_not_kept", LOG_S("job", job), LOG_U("jobs_max", SERIES_JOBS_MAX));
    }
    if (of && run > of->run) {
        drop_entries(s, of);
        of->run = run;
    }
    return of && run == of->run ? of : NULL;
}

static struct entry *entry_of(struct series *s, struct job_series *of, const char *name)
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
    of->v[i] = (struct entry){.stride = 1};
    text_setf(of->v[i].name, sizeof(of->v[i].name), "%s", name);
    if (s->n_points <= POINTS_ALL_MAX - SERIES_POINTS_MAX) {
        of->v[i].v = calloc(SERIES_POINTS_MAX, sizeof(struct point));
        s->n_points += of->v[i].v ? SERIES_POINTS_MAX : 0;
    }
    return &of->v[i];
}

/* Appends a point; drops every second point if the series is full. */
static void add_point(struct entry *entry, const struct point *point)
{
    if (!entry->v || point->ord % entry->stride != 0) {
        return;
    }
    if (entry->n == SERIES_POINTS_MAX) {
        uint32_t kept = 0;
        entry->stride *= 2;
        for (uint32_t i = 0; i < entry->n; i++) {
            if (entry->v[i].ord % entry->stride == 0) {
                entry->v[kept++] = entry->v[i];
            }
        }
        entry->n = kept;
    }
    if (point->ord % entry->stride == 0) {
        entry->v[entry->n++] = *point;
    }
}

bool series_add(struct series *s, const struct msg_series_row *point)
{
    struct job_series *of = find_or_make(s, point->job, point->run);
    struct entry *entry = of ? entry_of(s, of, point->name) : NULL;
    if (!entry) {
        return false;
    }
    const int64_t now_ms = clock_wall().ms;
    /* Start above all numbers of an earlier server, so that a client that asks for later points
     * gets them. */
    const uint64_t first = now_ms > 0 ? (uint64_t)now_ms : 1;
    entry->last = (struct point){.ord = entry->last.ord > 0 ? entry->last.ord + 1 : first,
                                 .epoch = point->epoch,
                                 .step = point->step,
                                 .at_ms = now_ms,
                                 .value = point->value};
    add_point(entry, &entry->last);
    return true;
}

/* --- reading ---------------------------------------------------------------------------------- */

static struct msg_series_row row_of(const struct job_series *of, const struct entry *entry,
                                    const struct point *point)
{
    return (struct msg_series_row){.job = of->job.text,
                                   .run = of->run,
                                   .name = entry->name,
                                   .ord = point->ord,
                                   .epoch = point->epoch,
                                   .step = point->step,
                                   .at.ms = point->at_ms,
                                   .value = point->value};
}

bool series_last(const struct series *s, const char *job, const char *after,
                 struct msg_series_row *ret)
{
    const struct job_series *of = find(s, job);
    for (size_t i = 0; of && i < of->n; i++) {
        if (of->v[i].last.ord > 0 && (!after || strcmp(of->v[i].name, after) > 0)) {
            *ret = row_of(of, &of->v[i], &of->v[i].last);
            return true;
        }
    }
    return false;
}

/* Finds the first point of the series with an ord above `after`. */
static bool find_point(const struct series *s, const char *job, const char *name, uint64_t after,
                       struct msg_series_row *ret)
{
    const struct job_series *of = find(s, job);
    const struct entry *entry = NULL;
    for (size_t i = 0; of && i < of->n; i++) {
        entry = strcmp(of->v[i].name, name) == 0 ? &of->v[i] : entry;
    }
    for (uint32_t i = 0; entry && i < entry->n; i++) {
        if (entry->v[i].ord > after) {
            *ret = row_of(of, entry, &entry->v[i]);
            return true;
        }
    }
    return false;
}

struct series_rows {
    struct rows rows;
    const struct series *series;
    struct tfe_id job;
    uint32_t run; /* run number; 0 for the newest run */
    char name[MSG_METRIC_NAME_MAX +
              1]; /* name of the series; "" for the newest point of each series */
    char after[MSG_METRIC_NAME_MAX + 1]; /* name of the last row sent; "" if none */
    uint64_t ord;                        /* ord of the last row sent */
};

static int series_rows_next(struct rows *rows, struct tfe_msg *ret)
{
    struct series_rows *r = (struct series_rows *)rows;
    struct msg_series_row *row = &ret->u.series_row;
    const bool is_there =
        r->name[0] != '\0'
            ? find_point(r->series, r->job.text, r->name, r->ord, row)
            : series_last(r->series, r->job.text, r->after[0] != '\0' ? r->after : NULL, row);
    if (!is_there || (r->run != 0 && row->run != r->run)) {
        *ret = (struct tfe_msg){.type = MSG_STATUS_END};
        return 0;
    }
    ret->type = MSG_SERIES_ROW;
    r->ord = row->ord;
    text_setf(r->after, sizeof(r->after), "%s", row->name);
    return 0;
}

int rows_series(const struct series *series, const struct msg_series *asked, struct rows **ret)
{
    static const struct rows_ops ops = {.next = series_rows_next};
    struct series_rows *r = rows_new(&ops, sizeof(*r), ret);
    if (!r) {
        return TFE_ENOMEM;
    }
    r->series = series;
    r->run = asked->run;
    r->ord = asked->after;
    (void)id_set(&r->job, asked->job); /* the codec has validated the id */
    text_setf(r->name, sizeof(r->name), "%s", asked->name ? asked->name : "");
    return 0;
}
