/* server/core/evaluator.h: the node that evaluates: outside of the cluster, its fences, its numbers
 * and its success (design 11). It has an epoch's number of its own, goes on while epochs come and
 * go, and starts again alone. */
#ifndef TFE_SERVER_CORE_EVALUATOR_H
#define TFE_SERVER_CORE_EVALUATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/msg.h"

struct job;
struct node;
struct rdzv;

/* Written by evaluator.c. */
struct evaluator {
    struct node *node;     /* NULL: none */
    uint64_t epoch;        /* of its START */
    uint64_t n_restarts;   /* number of the last RESTART */
    bool runs;             /* it was told to, and has not said that it ended */
    bool is_judging;       /* the chief has ended well: it has been told that it may end, too */
    bool is_stopping;      /* it has been told to end: its machine goes, or may */
    bool is_done;          /* it has ended well in this run: it does not start again */
    struct tfe_mono due;   /* not running: it starts again then */
    struct tfe_mono since; /* running: it does since then */
    uint32_t pause_ms;     /* before its last start */
    uint64_t told_visit;   /* on which it was told last */
    struct tfe_mono not_before; /* nobody else begins before: each takes a number */
};

/* It is gone, or does something else: another one may take its part. */
static inline void evaluator_clear(struct evaluator *e)
{
    *e = (struct evaluator){.is_done = e->is_done, .not_before = e->not_before};
}

/* A new run. */
void evaluator_begin_run(struct job *job);
/* Starts it where somebody can be spared, and again. Returns when there is more to do.
 * Precondition: RUNNING. */
struct tfe_mono evaluator_settle(struct rdzv *r, struct job *job);
/* Has it end in time where its machine goes, or at once where another node can go on in its place:
 * nobody does before it has ended. */
void evaluator_leave(struct rdzv *r, struct job *job);
/* When there is more of that to do. */
struct tfe_mono evaluator_leaves_at(const struct rdzv *r, const struct job *job);
/* Whether it is waited for at the job's end. */
bool evaluator_judges(const struct job *job);
/* An EXITED: true if it was the evaluator's. */
bool evaluator_take_end(struct rdzv *r, struct node *node, const struct msg_exited *exited);
/* What a JOIN says that tells of an evaluator: true if it is the job's and goes on. */
bool evaluator_take_join(struct rdzv *r, struct node *node, const struct msg_join *join);
/* Its node could fill the only place that an epoch lacks: it is told to stop, and will be READY for
 * that. Precondition: no epoch runs. */
void evaluator_yield(struct rdzv *r, struct job *job);

#endif
