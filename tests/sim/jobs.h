/* tests/sim/jobs.h: jobs of a simulation: sizes, scripts, and what their trainers have reached. */
#ifndef TFE_TESTS_SIM_JOBS_H
#define TFE_TESTS_SIM_JOBS_H

#include "common/base/id.h"
#include "tests/sim/names.h"
#include "tests/sim/world.h"

/* Behaviour of a job's trainers. Times are in ms; lo and hi are a range from which a value is drawn
 * per trainer and epoch, independent of all other draws. */
struct trainer_spec {
    uint32_t start_lo, start_hi; /* time from the spawn to a listening server */
    uint32_t step_ms;
    uint64_t steps;            /* number of steps of the whole training; 0: unlimited */
    uint32_t checkpoint_every; /* number of steps between two checkpoints */
    uint32_t finish_hi;        /* maximum time after the last step until a rank ends */
    /* time until a collective fails because a peer's process is gone */
    uint32_t peers_lo, peers_hi;
    uint32_t frozen_ms;        /* time until a collective fails because a peer does not respond */
    uint32_t vanished_ms;      /* time until a collective fails because a peer's machine is gone */
    uint32_t kill_lo, kill_hi; /* time from SIGKILL until the process is reaped */
    uint32_t fail_rank;        /* rank that fails by itself (fail_at, fail_code, fail_epochs) */
    uint64_t fail_at;          /* number of steps of an epoch after which fail_rank fails */
    uint32_t fail_code;        /* exit code of fail_rank; 0: it does not fail */
    uint32_t fail_epochs;      /* number of epochs in which fail_rank fails */
    uint32_t fail_start; /* exit code with which all ranks end before they listen; 0: they do not */
    uint32_t tell_ms;    /* interval at which scripts report progress; 0: never */
    uint32_t listens;    /* 1: scripts can be asked to save and to stop */
    uint32_t deaf;       /* 1: scripts listen, but ignore requests to save */
    uint32_t save_ms;    /* time that a requested checkpoint takes */
    uint32_t mute;       /* 1: a trainer that fails because of its peers leaves no output */
    uint32_t memory_every; /* number of steps between two snapshots in memory; 0: none */
};

/* Number of successful epochs remembered, because a lost database may bring an earlier epoch's
 * success back. */
#define JOB_DONE_MAX 8

struct job {
    struct tfe_id name;
    uint32_t min, max, nproc;
    uint32_t max_restarts; /* option, or MSG_UNSET */
    uint32_t elastic_ms;   /* option, or MSG_UNSET */
    bool new_run;          /* its agents start with --new-run */
    bool no_grow, grow_now;
    uint32_t n_ps, chief;     /* number of ps, and 1 with a chief; included in min and max here */
    bool evaluator;           /* the job wants an evaluator, which is not included in min and max */
    uint32_t min_running;     /* as in struct job_spec */
    bool all_workers, linger; /* as in struct job_spec; all_workers for jobs without roles only */
    uint64_t done[JOB_DONE_MAX]; /* numbers of the last epochs that have succeeded */
    uint32_t n_done;
    /* number of an epoch in which a worker is done or was restarted too often */
    uint64_t left_epoch;
    uint32_t chief_grace_ms;   /* option, or MSG_UNSET */
    uint32_t preempt_grace_ms; /* preempt grace of its agents */
    uint32_t run_key;          /* number in the run key that its agents use; 0: none */
    uint64_t script;
    struct trainer_spec spec;
    uint64_t checkpoint; /* step from which the next cluster starts */
    uint64_t reached;    /* highest step that any cluster has made */
    uint32_t failed;     /* number of epochs ended by fail_rank */
    uint32_t failed_up;  /* number of processes ended by fail_start */
    bool over;           /* the server has reported the end of the job */
};

struct jobs *jobs_new(struct world *w);
void jobs_free(struct world *w);
/* Adds a job and returns its index. Precondition: no job has this name. */
uint32_t jobs_add(struct world *w, const char *name, uint32_t min, uint32_t max, uint32_t nproc);
struct job *jobs_get(struct world *w, uint32_t job);
uint32_t jobs_count(const struct world *w);
/* Returns true if the job has replicas that are no workers. */
bool job_has_roles(const struct job *job);
void job_note_done(struct job *job, uint64_t epoch);
bool job_is_done(const struct job *job, uint64_t epoch);
/* job_trainers: returns the number of trainers of the node with this first rank, in an epoch of
 * this world size; the second function, of an epoch of that many nodes. */
uint32_t job_trainers(const struct job *job, uint32_t rank, uint32_t world);
uint32_t job_world(const struct job *job, uint32_t nodes);
/* Returns the index of the job, or NAMES_NONE if there is none. */
uint32_t jobs_find(const struct world *w, const char *name);
/* Returns the memory that the server's core may hold for the jobs. */
size_t jobs_memory(const struct world *w);

#endif
