/* server/query/query_demand.c: responds to DEMAND: nodes that jobs want and nodes that the pool
 * has. All rows are collected in one call, so that they are consistent. */
#include <stdlib.h>
#include <string.h>

#include "server/jobs/pool_private.h"

/* Maximum number of rows: 250 label sets per role, and every class of nodes in the pool. Label
 * sets beyond that, in queue order, are left out. */
#define ROWS_MAX (PLACEMENT_TASKS * 250u + PLACEMENT_CLASSES_MAX)

struct demand_rows {
    struct rows rows;
    struct msg_demand_row v[ROWS_MAX]; /* each row owns its labels */
    size_t n, sent;
    uint32_t idle[PLACEMENT_CLASSES_MAX]; /* idle nodes per class that are not yet counted in a row
                                             with a role */
    bool failed;                          /* true if memory ran out */
};

static int compare_labels(const void *a, const void *b)
{
    const char *const *x = a;
    const char *const *y = b;
    return strcmp(*x, *y);
}

/* Returns the sorted labels joined by commas, to be freed by the caller, or NULL if out of memory.
 */
static char *join_labels(const char **labels, size_t n)
{
    size_t bytes = 1;
    size_t at = 0;
    qsort(labels, n, sizeof(*labels), compare_labels);
    for (size_t i = 0; i < n; i++) {
        bytes += strlen(labels[i]) + 1;
    }
    char *text = calloc(1, bytes);
    for (size_t i = 0; text && i < n; i++) {
        const size_t length = strlen(labels[i]);
        if (i > 0) {
            text[at++] = ',';
        }
        memcpy(text + at, labels[i], length);
        at += length;
    }
    return text;
}

/* Appends a row; takes ownership of labels. Returns NULL if out of memory or full. */
static struct msg_demand_row *add_row(struct demand_rows *d, char *labels)
{
    if (!labels || d->n == ROWS_MAX) {
        d->failed = d->failed || !labels;
        free(labels);
        return NULL;
    }
    struct msg_demand_row *row = &d->v[d->n++];
    *row = (struct msg_demand_row){.labels = labels};
    return row;
}

static struct msg_demand_row *row_of(struct demand_rows *d, const struct placement *p, size_t at,
                                     enum tfe_task task)
{
    const char *labels[PLACEMENT_LABELS_MAX];
    size_t n = 0;
    size_t cursor = 0;
    while (n < PLACEMENT_LABELS_MAX && (labels[n] = placement_label(p, at, task, &cursor))) {
        n++;
    }
    char *text = join_labels(labels, n);
    for (size_t i = 0; text && i < d->n; i++) {
        if (d->v[i].role == task && strcmp(d->v[i].labels, text) == 0) {
            free(text);
            return &d->v[i];
        }
    }
    struct msg_demand_row *row = add_row(d, text);
    if (row) {
        row->has_role = true;
        row->role = task;
    }
    return row;
}

/* Counts up to `max` idle nodes that fit this job, and marks them as counted. */
static uint32_t take_idle(struct demand_rows *d, const struct placement *p, size_t at,
                          enum tfe_task task, uint32_t max)
{
    uint32_t sum = 0;
    for (uint32_t class = 0; class < PLACEMENT_CLASSES_MAX && sum < max; class ++) {
        if (d->idle[class] > 0 && placement_may_have(p, at, task, class)) {
            const uint32_t n = d->idle[class] < max - sum ? d->idle[class] : max - sum;
            d->idle[class] -= n;
            sum += n;
        }
    }
    return sum;
}

/* Returns the first deadline among the nodes of the job with this task whose machines will be
 * preempted; 0 if there is none. */
static struct tfe_wall first_deadline(const struct pool *p, const char *job, enum tfe_task task)
{
    struct tfe_wall first = {.ms = 0};
    const struct pool_job *found = pool_job_find(p, job);
    const struct pool_node *node;
    if (!found) {
        return first;
    }
    TAILQ_FOREACH(node, &found->nodes, of_job)
    {
        if (node->task == task && node->ends_at.ms > 0 &&
            (first.ms == 0 || node->ends_at.ms < first.ms)) {
            first = node->ends_at;
        }
    }
    return first;
}

static void add_job(struct demand_rows *d, const struct pool *pool, size_t at)
{
    const struct placement *p = pool->placement;
    struct placement_demand tasks[PLACEMENT_TASKS];
    const size_t n = placement_demand(p, at, tasks);
    for (size_t i = 0; i < n; i++) {
        const enum tfe_task task = tasks[i].task;
        struct msg_demand_row *row = row_of(d, p, at, task);
        if (!row) {
            continue;
        }
        const uint32_t lacking = tasks[i].max > tasks[i].held ? tasks[i].max - tasks[i].held : 0;
        const uint32_t idle = take_idle(d, p, at, task, lacking);
        const struct tfe_wall deadline = first_deadline(pool, tasks[i].job, task);
        row->min_nodes += tasks[i].min;
        row->wanted += tasks[i].max;
        row->assigned += tasks[i].held;
        row->idle += idle;
        row->pending += lacking - idle;
        if (deadline.ms > 0 && (row->deadline.ms == 0 || deadline.ms < row->deadline.ms)) {
            row->deadline = deadline;
        }
    }
}

static void add_class(struct demand_rows *d, const struct placement_supply *nodes)
{
    const char *labels[PLACEMENT_LABELS_MAX];
    size_t n = 0;
    for (size_t at = 0; at < nodes->n_bytes && n < PLACEMENT_LABELS_MAX;
         at += strlen(nodes->labels + at) + 1) {
        labels[n++] = nodes->labels + at;
    }
    struct msg_demand_row *row = add_row(d, join_labels(labels, n));
    if (row) {
        row->nodes = nodes->here;
        row->idle = nodes->idle;
    }
}

static int demand_next(struct rows *rows, struct tfe_msg *ret)
{
    struct demand_rows *d = (struct demand_rows *)rows;
    *ret = (struct tfe_msg){.type = MSG_STATUS_END};
    if (d->sent < d->n) {
        *ret = (struct tfe_msg){.type = MSG_DEMAND_ROW, .u.demand_row = d->v[d->sent++]};
    }
    return 0;
}

static void demand_free(struct rows *rows)
{
    struct demand_rows *d = (struct demand_rows *)rows;
    for (size_t i = 0; i < d->n; i++) {
        free((char *)(uintptr_t)d->v[i].labels);
    }
    free(d);
}

int rows_demand(struct pool *p, struct rows **ret)
{
    static const struct rows_ops ops = {.next = demand_next, .free = demand_free};
    struct placement_supply classes[PLACEMENT_CLASSES_MAX] = {{.here = 0}};
    struct demand_rows *d = rows_new(&ops, sizeof(*d), ret);
    if (!d) {
        return TFE_ENOMEM;
    }
    for (uint32_t class = 0; class < PLACEMENT_CLASSES_MAX; class ++) {
        if (placement_supply(p->placement, class, &classes[class])) {
            d->idle[class] = classes[class].idle;
        }
    }
    for (size_t at = 0; at < placement_jobs(p->placement); at++) {
        add_job(d, p, at);
    }
    for (uint32_t class = 0; class < PLACEMENT_CLASSES_MAX; class ++) {
        if (classes[class].here > 0) {
            add_class(d, &classes[class]);
        }
    }
    if (d->failed) {
        demand_free(&d->rows);
        return TFE_ENOMEM;
    }
    return 0;
}
