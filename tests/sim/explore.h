/* tests/sim/explore.h: one seed's random world: jobs, machines, stretches of faults, judgement at
 * rest. */
#ifndef TFE_TESTS_SIM_EXPLORE_H
#define TFE_TESTS_SIM_EXPLORE_H

#include <stdbool.h>
#include <stdint.h>

struct explore_wish {
    uint64_t seed;
    uint32_t agents; /* 0: drawn from the seed */
    uint64_t events;
    uint64_t until; /* stop at this event; 0: not */
    bool wire;
    bool one_job; /* of all agents, however many */
    bool roles;   /* jobs with ps, chief, evaluator */
    bool verbose;
    bool quiet; /* of a violation its seed only, not what came before */
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

void explore_seed(const struct explore_wish *wish, struct explore_result *ret);

#endif
