/* tests/sim/jobs.h: the jobs of a simulation: sizes, scripts, and what their trainers have reached.
 */
#ifndef TFE_TESTS_SIM_JOBS_H
#define TFE_TESTS_SIM_JOBS_H

#include "common/base/id.h"
#include "tests/sim/names.h"
#include "tests/sim/world.h"

/* How the trainers of a job behave. Times in ms; lo and hi are a range that is drawn from the seed
 * per trainer and epoch, so that it does not shift with anything else. */
struct trainer_spec {
    uint32_t start_lo, start_hi; /* from spawn to a listening server */
    uint32_t step_ms;
    uint64_t steps;              /* of the whole training; 0: without end */
    uint32_t checkpoint_every;   /* steps */
    uint32_t finish_hi;          /* after the last step each rank ends within this */
    uint32_t peers_lo, peers_hi; /* a peer's process is gone: collective failure */
    uint32_t frozen_ms;          /* a peer does not answer: heartbeats are missed */
    uint32_t vanished_ms;        /* a peer's machine is gone */
    uint32_t kill_lo, kill_hi;   /* from SIGKILL to the grave */
    uint32_t fail_rank;          /* this rank … */
    uint64_t fail_at;            /* … ends by itself after so many steps of an epoch … */
    uint32_t fail_code;          /* … with this code, 0: not at all … */
    uint32_t fail_epochs;        /* … in so many epochs */
    uint32_t fail_start;   /* all ranks end by themselves with this code, and never listen; 0: no */
    uint32_t tell_ms;      /* its scripts tell progress so often; 0: never */
    uint32_t listens;      /* 1: … and can be asked to save, and to stop */
    uint32_t deaf;         /* 1: … which they do not do */
    uint32_t save_ms;      /* a checkpoint that is asked for takes so long */
    uint32_t mute;         /* 1: who fails with its peers leaves no last words */
    uint32_t memory_every; /* steps from snapshot to snapshot in memory; 0: there is none */
};

/* A disk that is lost may bring an earlier epoch's success back. */
#define JOB_DONE_MAX 8

struct job {
    struct tfe_id name;
    uint32_t min, max, nproc;
    uint32_t max_restarts; /* wish or MSG_UNSET */
    uint32_t elastic_ms;   /* wish or MSG_UNSET */
    bool new_run;          /* its agents ask for one */
    bool no_grow, grow_now;
    uint32_t n_ps, chief;        /* among min and max, which count nodes of every role here … */
    bool evaluator;              /* … but this one */
    uint32_t min_running;        /* as in struct job_spec */
    bool all_workers, linger;    /* as in struct job_spec; the first of jobs without roles */
    uint64_t done[JOB_DONE_MAX]; /* epochs that have succeeded, the last ones */
    uint32_t n_done;
    uint64_t left_epoch;       /* in which a worker is done, or was started in vain */
    uint32_t chief_grace_ms;   /* wish or MSG_UNSET */
    uint32_t preempt_grace_ms; /* of its agents */
    uint32_t run_key;          /* number of the run its agents name; 0: they name none */
    uint64_t script;
    struct trainer_spec spec;
    uint64_t checkpoint; /* step that the next cluster begins with */
    uint64_t reached;    /* the highest step any cluster has made */
    uint32_t failed;     /* epochs that ended by fail_rank */
    uint32_t failed_up;  /* processes that ended by fail_start */
    bool over;           /* the server has said so */
};

struct jobs *jobs_new(struct world *w);
void jobs_free(struct world *w);
/* Index. Precondition: no job of this name. */
uint32_t jobs_add(struct world *w, const char *name, uint32_t min, uint32_t max, uint32_t nproc);
struct job *jobs_get(struct world *w, uint32_t job);
uint32_t jobs_count(const struct world *w);
/* Whether not all places of the job are workers'. */
bool job_has_roles(const struct job *job);
void job_note_done(struct job *job, uint64_t epoch);
bool job_is_done(const struct job *job, uint64_t epoch);
/* Trainers of the node with this first rank in an epoch of so many; of an epoch of so many nodes.
 */
uint32_t job_trainers(const struct job *job, uint32_t rank, uint32_t world);
uint32_t job_world(const struct job *job, uint32_t nodes);
/* NAMES_NONE: there is none. */
uint32_t jobs_find(const struct world *w, const char *name);
/* What the server's core may hold for the jobs. */
size_t jobs_memory(const struct world *w);

#endif
