/* tests/sim/explore.h: random simulation from one seed: jobs, machines, periods of faults, checks
 * after each period. */
#ifndef TFE_TESTS_SIM_EXPLORE_H
#define TFE_TESTS_SIM_EXPLORE_H

#include <stdbool.h>
#include <stdint.h>

struct explore_options {
    uint64_t seed;
    uint32_t agents; /* number of agents; 0: drawn from the seed */
    uint64_t events;
    uint64_t until; /* stop at this event; 0: no limit */
    bool wire;
    bool one_job; /* a single job for all agents */
    bool roles;   /* jobs have ps, a chief, an evaluator */
    bool verbose;
    bool quiet; /* print only the seed of a violation, not what led to it */
};

struct explore_result {
    uint64_t events;
    uint64_t hash;
    uint64_t epochs;
    uint64_t rounds;
    int64_t virtual_ms;
    bool violation;
    char rule[32];
};

void explore_seed(const struct explore_options *options, struct explore_result *ret);

#endif
