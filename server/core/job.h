/* server/core/job.h: a job, put together from its parts: who includes it has those, too. */
#ifndef TFE_SERVER_CORE_JOB_H
#define TFE_SERVER_CORE_JOB_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/id.h"
#include "common/base/time.h"
#include "common/message/job_spec.h"
#include "server/core/core.h"
#include "server/core/doubt.h"
#include "server/core/epoch.h"
#include "server/core/evaluator.h"
#include "server/core/fence.h"
#include "server/core/first_start.h"
#include "server/core/job_state.h"
#include "server/core/ledger.h"
#include "server/core/node.h"
#include "server/core/place.h"
#include "server/core/plan.h"
#include "server/core/rebuild.h"
#include "server/core/room.h"
#include "server/core/roster.h"
#include "server/core/run.h"
#include "server/core/seating.h"
#include "server/core/table.h"
#include "server/core/told.h"
#include "server/core/verdict.h"
#include "server/core/version.h"
#include "server/core/wait.h"
#include "server/core/wish.h"
#include "server/core/write.h"

/* Since when it is in its state, and what it waits for there. Written by states.c. */
struct job_phase {
    struct tfe_mono waiting_since; /* WAITING */
    struct tfe_mono ready_since;   /* GATHERING: min were ready */
    struct tfe_mono switch_began;  /* PREPARING */
    struct tfe_mono stop_began;    /* COMMITTING: an operator has stopped it */
    uint32_t awaited_seat; /* PREPARING, RUNNING to its end: who was not done when it looked last */
    /* PREPARING: until when it waits for the fences, 0 not; and of the seat whose is the last,
     * n_seats: nobody's there. */
    struct tfe_mono fence_until;
    uint32_t fence_seat;
    struct tfe_mono serve_until; /* PREPARING: ps and workers have not been told STOP; NEVER */
    enum tfe_job_state word;     /* the state shown to users */
    struct tfe_wall word_since;  /* when the job entered it; 0 if unknown */
    /* The number was raised; so many spares who were READY are so again by then, or late. 0: none.
     */
    uint32_t raised_spares;
    struct tfe_mono raised_until;
};

/* Notes the state that people see. An unchanged one keeps its time. */
static inline void phase_set_word(struct job_phase *phase, enum tfe_job_state word,
                                  struct tfe_wall now)
{
    if (phase->word != word) {
        phase->word = word;
        phase->word_since = now;
    }
}

/* WAITING begins. */
static inline void phase_wait(struct job_phase *phase, struct tfe_mono now)
{
    phase->waiting_since = now;
}

/* A chief is being stopped: ps and workers serve it until then; NEVER: they do not any more. */
static inline void phase_serve(struct job_phase *phase, struct tfe_mono until)
{
    phase->serve_until = until;
}

/* A spare that was READY for a number that is raised has so long to say it again before a switch
 * goes on without it. */
#define READY_AGAIN_MS 1000

static inline void phase_raise(struct job_phase *phase, struct tfe_mono now, uint32_t spares)
{
    if (phase->raised_spares == 0) {
        phase->raised_spares = spares;
        phase->raised_until = tfe_mono_add(now, READY_AGAIN_MS);
    }
}

struct job {
    RB_ENTRY(job) by_name;
    struct job *next_dead;
    struct tfe_id name;
    struct job_spec spec;    /* what it wants; every wish has a value */
    bool is_resized;         /* its sizes are an operator's, in this run … */
    bool is_ps_resized;      /* … and so is its number of ps */
    struct holder opened_by; /* not known after a restart */

    enum job_state state;
    struct job_phase phase;
    struct core_timer timer; /* when the state looks again */
    bool is_touched;         /* something of it has changed in this step */

    struct node_tree nodes;
    uint32_t n_nodes;      /* in the tree */
    uint32_t n_connected;  /* with a session */
    uint32_t n_ready;      /* READY for the next epoch */
    uint64_t memory_bytes; /* that its nodes have given for state (ready.h) */
    struct tfe_mono last_join;
    struct answering_tree answering; /* nodes whose READY said that they still answer */
    struct probe_tree probes;        /* nodes, by the id of the probe that is under way */

    struct run run;
    struct epoch epoch;
    struct told told;
    struct evaluator evaluator;
    struct tables tables;
    struct switch_wish wish;
    struct success success;
    struct plan plan;
    struct budget budget;
    struct first_start first_start;
    struct doubt doubt;
    struct fence fence;
    struct rebuild rebuild;
    struct write write;
    struct ledger ledger;
    struct wait wait;
    struct version version; /* of TensorFlow */

    size_t cap_nodes;
    size_t cap_rows;
    size_t cap_seats;
    struct node **chosen; /* scratch of the choice of members */
};

RB_PROTOTYPE(job_tree, job, by_name, job_compare)
int job_compare(const struct job *a, const struct job *b);

/* Something of it has changed: states.c looks at it at the end of the step. */
static inline void job_touch(struct job *job)
{
    job->is_touched = true;
}

static inline bool job_is_over(const struct job *job)
{
    return job->state == JOB_SUCCEEDED || job->state == JOB_FAILED || job->state == JOB_CANCELLED;
}

static inline enum tfe_result job_result(const struct job *job)
{
    return job_result_of(job->state);
}

static inline bool node_evaluates(const struct node *node)
{
    return node->job->evaluator.node == node;
}

/* Whether who evaluates will do so no more once it has ended: its machine goes, or it has been told
 * to end for one that stays. */
static inline bool evaluator_is_leaving(const struct job *job)
{
    const struct evaluator *e = &job->evaluator;
    return e->node && (e->is_stopping || e->node->notice.is_leaving);
}

/* The number of its next epoch. */
static inline uint64_t epoch_next(const struct job *job)
{
    return job->epoch.highest + 1;
}

/* Whether the node has a part in an epoch that runs or is about to, which it was READY for. */
static inline bool epoch_engages(const struct job *job, const struct node *node)
{
    return node_is_member(node) && (job->state == JOB_RUNNING || job->state == JOB_COMMITTING);
}

struct job *job_find(const struct rdzv *r, const char *name);
/* A job that nobody has joined yet; its run 1 has that name (NULL: none). Wishes of the spec that
 * are open are the server's. It is in no tree. NULL: out of memory. */
struct job *job_new(struct rdzv *r, const char *name, const struct job_spec *spec,
                    const char *run_key);
void job_insert(struct rdzv *r, struct job *job);
/* Room for a job of so many nodes with these sizes, so that no switch needs memory. TFE_ENOMEM. */
int job_reserve(struct rdzv *r, struct job *job, size_t nodes,
                const struct job_spec *spec) TFE_MUST_CHECK;
/* The first run of a job, or the next of one that is over, as this spec wants it; epochs are
 * numbered on. */
void job_begin_run(struct rdzv *r, struct job *job, const struct job_spec *spec,
                   const char *run_key);
/* Whether nobody is in the job, so that who comes may ask for something else: as many trainers on a
 * node as before, unless nothing of it may run any more. */
bool job_is_open_to(const struct rdzv *r, struct job *job, const struct job_spec *spec);
/* It wants that from now on, but for sizes that an operator has given it. */
void job_change(struct rdzv *r, struct job *job, const struct job_spec *spec);
/* None of its nodes has a place any more. */
void job_clear(struct rdzv *r, struct job *job);
/* Frees a job that is in no tree, with the nodes that it still has. */
void job_free(struct rdzv *r, struct job *job);
/* Whether nobody would miss it but for its name, numbers and end: it is over, or waits for nodes,
 * none is left, and nothing is on its way to the disk or may still run. */
bool job_is_idle(const struct rdzv *r, struct job *job);
/* Forgets a job that never had an epoch and has no node left, or whose record is gone. */
void job_drop_if_unused(struct rdzv *r, struct job *job);

#endif
