/* tests/unit/scheduler/churn.h: simulated days of a pool in which machines come and go and jobs are
 * submitted, changed and end. An oracle, which keeps its own accounts from the actions alone,
 * checks after every step that no rule of placement.h is broken. */
#ifndef TFE_TESTS_UNIT_SCHEDULER_CHURN_H
#define TFE_TESTS_UNIT_SCHEDULER_CHURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DAYS_NODES_MAX 10000u
#define DAYS_JOBS_MAX 200u

struct days {
    uint64_t seed;
    uint32_t n_nodes, n_jobs;
    int64_t ms;       /* virtual duration */
    int64_t life_ms;  /* average lifetime of a spot machine */
    uint32_t largest; /* largest minimum of a job, in nodes */
    /* there are quotas: of all jobs, of two teams and of two kinds. They come, change and go, while
     * the cloud's reports of machines change */
    bool has_quotas;
    bool has_warnings; /* machines are warned; some then go away, and some do not */
};

struct days_told {
    size_t n_steps;
    double *step_us; /* processor time of each step, by size; the caller frees it */
    double *walk_us; /* processor time of reading each node and job once, now and then */
    size_t n_walks;
    /* number of nodes assigned; taken from other jobs; of jobs that have ended */
    uint64_t assigned, taken, ended;
};

/* Simulates the days. A broken rule fails the test and reports the step and the seed. */
void days_run(const struct days *days, struct days_told *ret);

#endif
