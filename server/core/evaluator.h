/* server/core/evaluator.h: the evaluator: a node outside the cluster, with no part in its fences,
 * ranks and success (design 11). It has an epoch number of its own, runs on while epochs come and
 * go, and is restarted alone. */
#ifndef TFE_SERVER_CORE_EVALUATOR_H
#define TFE_SERVER_CORE_EVALUATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/msg.h"

struct job;
struct node;
struct rdzv;

/* Evaluator of a job. Written by evaluator.c. */
struct evaluator {
    struct node *node;   /* node of the evaluator; NULL if there is none */
    uint64_t epoch;      /* number of the epoch of its START */
    uint64_t n_restarts; /* number of its last RESTART */
    bool runs;           /* START or RESTART was sent, and no EXITED has come since */
    /* the chief has succeeded, and STOP was sent: the evaluator ends after its last evaluation */
    bool is_finishing;
    bool is_stopping;      /* STOP was sent because its machine will be terminated, or may */
    bool is_done;          /* it has ended well in this run and is not started again */
    struct tfe_mono due;   /* while it does not run: time of the next restart */
    struct tfe_mono since; /* while it runs: time of the last start */
    uint32_t pause_ms;     /* pause before its last start */
    uint64_t start_visit;  /* connection on which it was last sent START or RESTART */
    /* no other evaluator starts before this time, because each one takes an epoch number */
    struct tfe_mono not_before;
};

/* Clears the evaluator, whose node is gone or has another task: another node may replace it. */
static inline void evaluator_clear(struct evaluator *e)
{
    *e = (struct evaluator){.is_done = e->is_done, .not_before = e->not_before};
}

/* Starts a new run: no evaluator has ended yet. */
void evaluator_begin_run(struct job *job);
/* Starts or restarts the evaluator if a node can be spared. Returns when to call again.
 * Precondition: RUNNING. */
struct tfe_mono evaluator_settle(struct rdzv *r, struct job *job);
/* Stops the evaluator in time before its machine is terminated, or at once if another node can
 * replace it. The replacement starts after it has ended. */
void evaluator_leave(struct rdzv *r, struct job *job);
/* Returns when evaluator_leave must be called again. */
struct tfe_mono evaluator_leaves_at(const struct rdzv *r, const struct job *job);
/* Returns true if the job's end waits for the evaluator. */
bool evaluator_is_awaited(const struct job *job);
/* Handles an EXITED. Returns true if it was the evaluator's. */
bool evaluator_handle_exited(struct rdzv *r, struct node *node, const struct msg_exited *exited);
/* Handles a JOIN of a node that evaluates. Returns true if the node is the job's evaluator and
 * continues. */
bool evaluator_handle_join(struct rdzv *r, struct node *node, const struct msg_join *join);
/* If the evaluator's node could fill the only slot that an epoch lacks, stops the evaluator, so
 * that its node becomes READY. Precondition: no epoch runs. */
void evaluator_yield(struct rdzv *r, struct job *job);

#endif
