/* server/events/log_tails.c: the last lines of failed trainers. */
#include "server/events/log_tails.h"

#include <stdlib.h>
#include <string.h>

static void drop(struct log_tail *tail)
{
    free(tail->text);
    free(tail);
}

/* Adds `by` to the counts of all tails of this job and node. Counts are stored, because at the end
 * of an epoch thousands of trainers fail at once and a pairwise comparison would be quadratic. */
static void count(struct log_tails *tails, const struct log_tail *of, int by)
{
    for (unsigned i = 0; i < tails->n; i++) {
        struct log_tail *tail = tails->v[i];
        if (strcmp(tail->job.text, of->job.text) == 0) {
            tail->of_job += (unsigned)by;
            tail->of_node += strcmp(tail->node.text, of->node.text) == 0 ? (unsigned)by : 0;
        }
    }
}

/* Returns the tail to drop: the oldest of the node and job that have most. */
static unsigned longest(const struct log_tails *tails)
{
    unsigned found = 0;
    for (unsigned i = 1; i < tails->n; i++) {
        const struct log_tail *a = tails->v[i];
        const struct log_tail *b = tails->v[found];
        found = a->of_job > b->of_job || (a->of_job == b->of_job && a->of_node > b->of_node)
                    ? i
                    : found;
    }
    return found;
}

void log_tails_add(struct log_tails *tails, struct log_tail *tail)
{
    tail->of_job = tail->of_node = 0;
    for (unsigned i = 0; i < tails->n; i++) {
        const bool is_of_job = strcmp(tails->v[i]->job.text, tail->job.text) == 0;
        tail->of_job += is_of_job;
        tail->of_node += is_of_job && strcmp(tails->v[i]->node.text, tail->node.text) == 0;
    }
    tails->v[tails->n++] = tail;
    count(tails, tail, 1);
    if (tails->n > LIMIT_LOG_TAILS) {
        unsigned i = longest(tails);
        struct log_tail *gone = tails->v[i];
        for (tails->n--; i < tails->n; i++) {
            tails->v[i] = tails->v[i + 1];
        }
        count(tails, gone, -1);
        drop(gone);
    }
}

void log_tails_forget(struct log_tails *tails, const char *job)
{
    unsigned n = 0;
    for (unsigned i = 0; i < tails->n; i++) {
        if (strcmp(tails->v[i]->job.text, job) == 0) {
            drop(tails->v[i]);
        } else {
            tails->v[n++] = tails->v[i];
        }
    }
    tails->n = n;
}

const struct log_tail *log_tails_get(const struct log_tails *tails, unsigned i)
{
    return i < tails->n ? tails->v[i] : NULL;
}

void log_tails_done(struct log_tails *tails)
{
    for (unsigned i = 0; i < tails->n; i++) {
        drop(tails->v[i]);
    }
    tails->n = 0;
}
