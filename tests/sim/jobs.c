/* tests/sim/jobs.c: the jobs of a simulation. */
#include "tests/sim/jobs.h"

#include <stdlib.h>

#include "common/message/msg.h"
#include "tests/sim/check.h"

#define MEMORY_PER_JOB 12288u
/* Memory for three copies of a table and its changes, plus half as much for growth. */
#define MEMORY_PER_SEAT 1536u
#define MEMORY_PER_ROW 160u

struct jobs {
    struct job **v; /* jobs do not move, because their names are borrowed */
    uint32_t n;
    size_t cap;
    struct names names;
    size_t memory;
};

static const struct trainer_spec usual = {
    .start_lo = 2000,
    .start_hi = 2000,
    .step_ms = 100,
    .checkpoint_every = 10,
    .finish_hi = 50,
    .peers_lo = 900,
    .peers_hi = 1000,
    .frozen_ms = 9000,
    .vanished_ms = 10500,
    .kill_lo = 32,
    .kill_hi = 90,
};

struct jobs *jobs_new(struct world *w)
{
    w->jobs = sim_alloc(1, sizeof(*w->jobs));
    return w->jobs;
}

void jobs_free(struct world *w)
{
    for (uint32_t i = 0; i < w->jobs->n; i++) {
        free(w->jobs->v[i]);
    }
    free(w->jobs->v);
    names_done(&w->jobs->names);
    free(w->jobs);
    w->jobs = NULL;
}

uint32_t jobs_add(struct world *w, const char *name, uint32_t min, uint32_t max, uint32_t nproc)
{
    struct jobs *jobs = w->jobs;
    jobs->v = sim_grow(jobs->v, jobs->n, &jobs->cap, sizeof(struct job *));
    struct job *job = sim_alloc(1, sizeof(*job));
    if (id_set(&job->name, name)) {
        check_honest(w->check, "the simulator", "the name of a job", 0);
    }
    job->min = min;
    job->max = max;
    job->nproc = nproc;
    job->max_restarts = MSG_UNSET;
    job->elastic_ms = MSG_UNSET;
    job->chief_grace_ms = MSG_UNSET;
    job->preempt_grace_ms = 30000;
    job->script = 1;
    job->spec = usual;
    jobs->v[jobs->n] = job;
    names_add(&jobs->names, job->name.text, jobs->n);
    check_job(w->check, jobs->n, min, max, nproc);
    size_t seats = max < w->n_nodes ? max : w->n_nodes;
    jobs->memory += MEMORY_PER_JOB + seats * (MEMORY_PER_SEAT + (size_t)nproc * MEMORY_PER_ROW);
    return jobs->n++;
}

struct job *jobs_get(struct world *w, uint32_t job)
{
    return w->jobs->v[job];
}

bool job_has_roles(const struct job *job)
{
    return job->n_ps > 0 || job->chief || job->evaluator;
}

void job_note_done(struct job *job, uint64_t epoch)
{
    job->done[job->n_done++ % JOB_DONE_MAX] = epoch;
}

bool job_is_done(const struct job *job, uint64_t epoch)
{
    for (uint32_t i = 0; i < job->n_done && i < JOB_DONE_MAX; i++) {
        if (job->done[i] == epoch) {
            return true;
        }
    }
    return false;
}

uint32_t job_trainers(const struct job *job, uint32_t rank, uint32_t world)
{
    bool is_worker = rank >= job->chief && rank + job->n_ps < world;
    return is_worker ? job->nproc : 1;
}

uint32_t job_world(const struct job *job, uint32_t nodes)
{
    uint32_t extra = job->chief + job->n_ps;
    return nodes > extra ? extra + (nodes - extra) * job->nproc : nodes;
}

uint32_t jobs_count(const struct world *w)
{
    return w->jobs->n;
}

uint32_t jobs_find(const struct world *w, const char *name)
{
    uint32_t n = 0;
    while (n < TFE_ID_MAX && name[n]) {
        n++;
    }
    return names_find(&w->jobs->names, name, n);
}

size_t jobs_memory(const struct world *w)
{
    return w->jobs->memory;
}
