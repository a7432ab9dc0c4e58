/* tests/unit/scheduler/churn.h: virtual days of a pool in which machines come and go and jobs are
 * handed in, changed and over; a judge with books of its own, made from the actions alone, sees
 * that no rule of placement.h is broken at any step. */
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
    int64_t ms;       /* virtual */
    int64_t life_ms;  /* of a spot machine, on average */
    uint32_t largest; /* minimum of a job, in nodes */
    bool has_quotas; /* of all jobs, of two teams and of two kinds, which come, change and go, while
                      * the cloud's word of machines changes */
    bool has_warnings; /* of machines that then go, or do not */
};

struct days_told {
    size_t n_steps;
    double *step_us; /* of processor time, by size; the caller's to free */
    double *walk_us; /* … that reading each node and job once took, now and then */
    size_t n_walks;
    uint64_t assigned, taken, ended; /* nodes given; taken for others; jobs that were over */
};

/* A broken rule fails the story, and says at which step of the seed. */
void days_run(const struct days *days, struct days_told *ret);

#endif
