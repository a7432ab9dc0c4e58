/* server/events/series.c: metrics of runs as thinned time series. */
#include "server/events/series.h"

#include <bsd/sys/tree.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/heap.h"
#include "common/base/id.h"
#include "common/text/text.h"

/* Maximum number of series with points, 20 KB each. One that begins beyond the limit takes the
 * points of the oldest series of the owner of jobs that has most; if that is its own owner, only
 * its newest point is stored. */
#define SERIES_ALL_MAX 2000u

struct point {
    uint64_t ord, epoch, step;
    int64_t at_ms;
    double value;
};

/* The points of a series whose ord is a multiple of stride. */
struct points {
    struct admission_slot slot;
    struct job_series *of;
    uint64_t stride;
    uint32_t n;
    struct point v[SERIES_POINTS_MAX];
};

struct entry {
    char name[MSG_METRIC_NAME_MAX + 1];
    struct point last;     /* newest point; ord 0 if there is none */
    struct points *points; /* NULL if only the newest point is stored */
};

struct job_series {
    RB_ENTRY(job_series) link;
    struct tfe_id job;
    uint32_t run;
    uint8_t owner[ADMISSION_NAME_MAX]; /* owner of the job when it reported its first metric */
    size_t n_owner;
    struct entry *v; /* series, sorted by name */
    size_t n, cap;
};
RB_HEAD(job_series_tree, job_series);

struct series {
    struct job_series_tree jobs;
    uint32_t n_jobs;
    struct admission *admission; /* series with points, by owner */
    events_owner_fn *owner_of;   /* returns the owner of a job; NULL if each job is its own owner */
    const void *owner_ctx;
};

static int compare(const struct job_series *a, const struct job_series *b)
{
    return id_compare(&a->job, &b->job);
}

RB_GENERATE_INTERNAL(job_series_tree, job_series, link, compare, __attribute__((unused)) static)

static void drop_points(struct series *s, struct points *points)
{
    if (points) {
        admission_leave(s->admission, &points->slot);
        free(points);
    }
}

static void drop_entries(struct series *s, struct job_series *of)
{
    for (size_t i = 0; i < of->n; i++) {
        drop_points(s, of->v[i].points);
    }
    of->n = 0;
}

static void drop(struct series *s, struct job_series *of)
{
    RB_REMOVE(job_series_tree, &s->jobs, of);
    s->n_jobs--;
    drop_entries(s, of);
    free(of->v);
    free(of);
}

int series_new(struct series **ret)
{
    struct series *s = calloc(1, sizeof(*s));
    if (!s) {
        return TFE_ENOMEM;
    }
    const struct admission_config config = {.capacity = SERIES_ALL_MAX,
                                            .quota_max = SERIES_ALL_MAX};
    RB_INIT(&s->jobs);
    if (admission_new(&config, &s->admission) != 0) {
        free(s);
        return TFE_ENOMEM;
    }
    *ret = s;
    return 0;
}

void series_set_owner_fn(struct series *s, events_owner_fn *owner_of, const void *ctx)
{
    s->owner_of = owner_of;
    s->owner_ctx = ctx;
}

void series_free(struct series *s)
{
    if (!s) {
        return;
    }
    while (!RB_EMPTY(&s->jobs)) {
        drop(s, RB_ROOT(&s->jobs));
    }
    admission_free(s->admission);
    free(s);
}

/* --- adding ----------------------------------------------------------------------------------- */

static struct job_series *find(const struct series *s, const char *job)
{
    struct job_series key;
    struct job_series_tree *tree = (struct job_series_tree *)(uintptr_t)&s->jobs;
    return id_set(&key.job, job) == 0 ? RB_FIND(job_series_tree, tree, &key) : NULL;
}

static void set_owner(const struct series *s, struct job_series *of)
{
    of->n_owner = s->owner_of ? s->owner_of(s->owner_ctx, of->job.text, of->owner) : 0;
    if (of->n_owner == 0) {
        of->n_owner = strlen(of->job.text);
        memcpy(of->owner, of->job.text, of->n_owner);
    }
}

void series_forget(struct series *s, const char *job)
{
    struct job_series *of = find(s, job);
    if (of) {
        drop(s, of);
    }
}

/* Returns the job's series, created if necessary, or NULL if the run is an earlier one, or memory
 * is out. */
static struct job_series *find_or_make(struct series *s, const char *job, uint32_t run)
{
    struct job_series *of = find(s, job);
    if (!of && s->n_jobs < SERIES_JOBS_MAX && (of = calloc(1, sizeof(*of))) != NULL) {
        (void)id_set(&of->job, job);
        of->run = run;
        set_owner(s, of);
        RB_INSERT(job_series_tree, &s->jobs, of);
        s->n_jobs++;
    }
    if (of && run > of->run) {
        drop_entries(s, of);
        of->run = run;
    }
    return of && run == of->run ? of : NULL;
}

/* Removes the points of a series; its newest point stays. */
static void evict(struct series *s, struct points *points)
{
    const struct job_series *of = points->of;
    for (size_t i = 0; i < of->n; i++) {
        if (of->v[i].points == points) {
            of->v[i].points = NULL;
        }
    }
    drop_points(s, points);
}

/* Returns space for the points of one more series of the job, or NULL if its owner has most of all
 * or memory is out. */
static struct points *points_new(struct series *s, struct job_series *of)
{
    const struct admission_claim claim = {.by = {[ADMISSION_KEY] = {of->owner, of->n_owner}},
                                          .cost = 1};
    struct points *points = calloc(1, sizeof(*points));
    if (!points || admission_enter(s->admission, &claim, points, &points->slot) != 0) {
        free(points);
        return NULL;
    }
    points->of = of;
    points->stride = 1;
    struct admission_slot *slot = admission_next_eviction(s->admission, &points->slot, NULL);
    if (slot == &points->slot) {
        drop_points(s, points);
        return NULL;
    }
    if (slot) {
        evict(s, slot->owner);
    }
    return points;
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
    of->v[i] = (struct entry){.points = NULL};
    text_setf(of->v[i].name, sizeof(of->v[i].name), "%s", name);
    of->v[i].points = points_new(s, of);
    return &of->v[i];
}

/* Appends a point; drops every second point if the series is full. */
static void add_point(struct points *points, const struct point *point)
{
    if (!points || point->ord % points->stride != 0) {
        return;
    }
    if (points->n == SERIES_POINTS_MAX) {
        uint32_t kept = 0;
        points->stride *= 2;
        for (uint32_t i = 0; i < points->n; i++) {
            if (points->v[i].ord % points->stride == 0) {
                points->v[kept++] = points->v[i];
            }
        }
        points->n = kept;
    }
    if (point->ord % points->stride == 0) {
        points->v[points->n++] = *point;
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
    add_point(entry->points, &entry->last);
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
    const struct points *points = entry ? entry->points : NULL;
    for (uint32_t i = 0; points && i < points->n; i++) {
        if (points->v[i].ord > after) {
            *ret = row_of(of, entry, &points->v[i]);
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
