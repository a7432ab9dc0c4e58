/* common/records/record_order.c: sorts the records of STATUS. */
#include "common/records/record_order.h"

#include <stdlib.h>
#include <string.h>

#include "common/records/schemas.h"

/* Sort key of a record: its job's state, then the job, then its own position. */
struct place {
    const struct msg_status_job *job;
    const struct msg_status_node
        *node; /* the node; NULL for the job's own record or a point of a series */
    struct record row;
    size_t at; /* original index */
};

bool records_job_is_over(const struct msg_status_job *job)
{
    return msg_job_is_over(job->state);
}

static int liveliness(const struct msg_status_job *job)
{
    return job->state == STATE_RUNNING                                    ? 0
           : records_job_is_over(job)                                     ? 3
           : job->state == STATE_WAITING || job->state == STATE_SUSPENDED ? 2
                                                                          : 1;
}

static int sign(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_jobs(const struct msg_status_job *a, const struct msg_status_job *b)
{
    int by = liveliness(a) - liveliness(b);
    if (!by && a->state == STATE_WAITING &&
        b->state == STATE_WAITING) { /* by priority, in the order in which waiting jobs get nodes */
        by = sign(b->priority, a->priority);
        by = by ? by : sign((uint64_t)a->created.ms, (uint64_t)b->created.ms);
    }
    by = by ? by : sign((uint64_t)a->since.ms / 1000, (uint64_t)b->since.ms / 1000);
    return by ? by : strcmp(a->job, b->job);
}

static int compare_nodes(const struct msg_status_node *a, const struct msg_status_node *b)
{
    return a->has_rank && b->has_rank ? sign(a->rank, b->rank) : b->has_rank - a->has_rank;
}

static int compare(const void *left, const void *right)
{
    const struct place *a = left;
    const struct place *b = right;
    int by = a->job == b->job ? 0 : compare_jobs(a->job, b->job);
    if (!by && (!a->node || !b->node)) {
        by = !b->node - !a->node; /* records that are not nodes retain their order */
    }
    by = by || !a->node ? by : compare_nodes(a->node, b->node);
    return by ? by : sign(a->at, b->at);
}

int records_sort_status(struct record_list *rows)
{
    struct place *places = calloc(rows->n ? rows->n : 1, sizeof *places);
    const struct msg_status_job *job = NULL;
    int rc = places ? 0 : TFE_ENOMEM;
    size_t from = 0;
    while (from < rows->n && rows->v[from].schema == &schema_health) {
        from++;
    }
    for (size_t i = from; rc == 0 && i < rows->n; i++) {
        bool is_job = rows->v[i].schema == &schema_job;
        bool is_node = rows->v[i].schema == &schema_node;
        job = is_job ? rows->v[i].at : job;
        rc = job ? 0 : TFE_ESTATE;
        places[i] =
            (struct place){job, is_node ? (const void *)rows->v[i].at : NULL, rows->v[i], i};
    }
    if (rc == 0) {
        qsort(places + from, rows->n - from, sizeof *places, compare);
        for (size_t i = from; i < rows->n; i++) {
            rows->v[i] = places[i].row;
        }
    }
    free(places);
    return rc;
}
