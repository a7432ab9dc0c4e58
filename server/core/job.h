/* server/core/job.h: a job with all its parts, and its runs (design 4.10). Includes the headers of
 * the parts. */
#ifndef TFE_SERVER_CORE_JOB_H
#define TFE_SERVER_CORE_JOB_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/id.h"
#include "common/base/time.h"
#include "common/message/job_spec.h"
#include "server/core/core.h"
#include "server/core/epoch.h"
#include "server/core/evaluator.h"
#include "server/core/failure.h"
#include "server/core/job_progress.h"
#include "server/core/join_limits.h"
#include "server/core/lease.h"
#include "server/core/ledger.h"
#include "server/core/node.h"
#include "server/core/persist.h"
#include "server/core/plan.h"
#include "server/core/rebuild.h"
#include "server/core/states.h"
#include "server/core/table.h"
#include "server/core/verdict.h"
#include "server/core/view.h"

struct text;

/* Runs of a job. Written by job.c. */
struct run {
    uint32_t number;   /* number of the present run, from 1 */
    struct tfe_id key; /* run key of the present run (--run), or "" */
    bool is_new;       /* no epoch of the run has been formed yet: the gather window applies */
    char sentence[MSG_SENTENCE_MAX];         /* reason of the run's end */
    struct tfe_wall ended;                   /* time of the run's end; 0 if unknown */
    struct rdzv_run_end past[RDZV_RUNS_MAX]; /* earlier named runs, the oldest first */
    uint32_t n_past;
};

/* When the job entered its present state, and what it waits for there. Written by states.c and,
 * when a run begins, by job.c; the last two fields by on_join.c. */
struct job_phase {
    struct tfe_mono waiting_since; /* in WAITING: since when */
    struct tfe_mono ready_since;   /* in GATHERING: when min nodes were ready */
    struct tfe_mono switch_began;  /* in PREPARING: when the switch began */
    struct tfe_mono stop_began;    /* in COMMITTING: when an operator stopped the job */
    /* in PREPARING, and at the end of RUNNING: slot of the member that was still awaited at the
     * last check */
    uint32_t awaited_slot;
    /* In PREPARING: until when the switch waits for fences (0 if it does not), and the slot whose
     * fence is the last one; n_slots if it is no member's. */
    struct tfe_mono fence_until;
    uint32_t fence_slot;
    /* in PREPARING: until when ps and workers continue serving the chief; NEVER if STOP has been
     * sent to them */
    struct tfe_mono serve_until;
    enum tfe_job_state visible_state; /* the state shown to users */
    struct tfe_wall visible_since; /* when the job entered the state shown to users; 0 if unknown */
    /* After the next epoch's number was raised: how many spares were READY for the old number, and
     * until when the switch waits for them to be READY for the new one. 0 if none. */
    uint32_t raised_spares;
    struct tfe_mono raised_until;
};

struct job {
    RB_ENTRY(job) by_name;
    struct job *next_dead;
    struct tfe_id name;
    struct job_spec spec;    /* effective options of the job, defaults filled in */
    bool is_resized;         /* an operator has set the numbers of nodes in this run */
    bool is_ps_resized;      /* an operator has set the number of ps in this run */
    struct holder opened_by; /* key that opened the job; unknown after a restart */

    enum job_state state;
    struct job_phase phase;
    struct core_timer timer; /* when to settle the job again */
    bool is_touched;         /* something of the job has changed in this step */

    struct node_tree nodes;
    uint32_t n_nodes;      /* number of nodes, including those that are gone and keep a slot */
    uint32_t n_connected;  /* number of nodes with a session */
    uint32_t n_ready;      /* number of nodes that are READY for the next epoch */
    uint64_t memory_bytes; /* sum of the memory that the nodes use for kept state, in bytes */
    struct tfe_mono last_join;
    /* nodes that still answer probes on their ports, by their READY */
    struct answering_tree answering;
    struct probe_tree probes; /* nodes that are being probed, by the probe's id */

    struct run run;
    struct epoch epoch;
    struct progress progress;
    struct evaluator evaluator;
    struct tables tables;
    struct pending_switch pending_switch;
    struct success success;
    struct plan plan;
    struct budget budget;
    struct failure failure;
    struct first_start first_start;
    struct mass_loss mass_loss;
    struct fence fence;
    struct rebuild rebuild;
    struct persist persist;
    struct ledger ledger;
    struct wait wait;
    struct version version; /* TensorFlow version of the job's nodes */

    size_t cap_nodes;
    size_t cap_rows;
    size_t cap_slots;
    struct node **chosen; /* scratch array for the choice of members */
};

RB_PROTOTYPE(job_tree, job, by_name, job_compare)
int job_compare(const struct job *a, const struct job *b);

/* Marks the job as changed: it is settled at the end of the step. */
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

/* Returns true if the evaluator will not evaluate again after it has ended: its machine
 * will be terminated, or it was stopped in favour of a node that stays. */
static inline bool evaluator_is_leaving(const struct job *job)
{
    const struct evaluator *e = &job->evaluator;
    return e->node && (e->is_stopping || e->node->notice.is_leaving);
}

/* Returns the number that the job's next epoch will have. */
static inline uint64_t epoch_next(const struct job *job)
{
    return job->epoch.highest + 1;
}

/* Returns true if the node is a member of an epoch that is running or about to start. */
static inline bool epoch_engages(const struct job *job, const struct node *node)
{
    return node_is_member(node) && (job->state == JOB_RUNNING || job->state == JOB_COMMITTING);
}

struct job *job_find(const struct rdzv *r, const char *name);
/* Creates a job without nodes whose run 1 has the name run_key (NULL: none). Unset options of the
 * spec take the server's defaults. The job is in no tree yet. Returns NULL if out of memory. */
struct job *job_new(struct rdzv *r, const char *name, const struct job_spec *spec,
                    const char *run_key);
void job_insert(struct rdzv *r, struct job *job);
/* Reserves memory for a job of this many nodes with these sizes, so that no later switch needs an
 * allocation. Returns 0 or TFE_ENOMEM. */
int job_reserve(struct rdzv *r, struct job *job, size_t nodes,
                const struct job_spec *spec) TFE_MUST_CHECK;
/* Starts the first run of a job, or the next run of a job that is over, with this spec. Epoch
 * numbers continue. */
void job_begin_run(struct rdzv *r, struct job *job, const struct job_spec *spec,
                   const char *run_key);
/* Returns true if the job has no nodes, so that the next node to join may change its options. nproc
 * must be unchanged unless no trainer of the job can still run. */
bool job_is_open_to(const struct rdzv *r, struct job *job, const struct job_spec *spec);
/* Replaces the job's options, except sizes that an operator has set. */
void job_change(struct rdzv *r, struct job *job, const struct job_spec *spec);
/* Takes all nodes out of their slots and removes them. */
void job_clear(struct rdzv *r, struct job *job);
/* Frees a job that is in no tree, with its remaining nodes. */
void job_free(struct rdzv *r, struct job *job);
/* Returns true if forgetting the job would lose only its name, numbers and result: it is over or
 * waits for nodes, has no nodes, no record on its way to the store, and no trainer that may still
 * run. */
bool job_is_idle(const struct rdzv *r, struct job *job);
/* Forgets the job if it never had an epoch and has no node left, or if its record has been
 * deleted. */
void job_drop_if_unused(struct rdzv *r, struct job *job);

/* --- runs ------------------------------------------------------------------------------------- */

/* Continues a run of this number that has begun under an earlier server. */
void run_go_on(struct job *job, uint32_t number);
/* Sets the present run from a record. */
void run_restore(struct job *job, uint32_t number, const char *sentence, struct tfe_wall ended);
/* Notes that an epoch of the run has been formed or adopted: the gather window is closed. */
void run_begun(struct job *job);

/* Returns how and when the run ended. Precondition: the job is over. */
struct rdzv_run_end run_last(const struct job *job);
/* Returns the earlier ended run of this name, or NULL. The job's last run is not included. */
const struct rdzv_run_end *run_find(const struct job *job, const char *key);
/* Appends "job J run N ended RESULT at TIME". */
void run_describe(struct text *text, const struct job *job, const struct rdzv_run_end *run);
/* Sends a late node how its run ended, and closes its session. */
void run_send_end(struct rdzv *r, const struct job *job, const struct rdzv_run_end *run,
                  uint32_t session);

/* Sets when and why the run ends. sentence NULL keeps the reason. */
void run_end_as(struct job *job, struct tfe_wall when, const char *sentence);

#endif
