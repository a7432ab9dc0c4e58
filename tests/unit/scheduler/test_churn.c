/* tests/unit/scheduler/test_churn.c: days of pools in which machines come and go: no rule of
 * placement.h is broken at any step (churn.h). bench/placement.py runs two whole days of the large
 * pool and reports figures. */
#include <stdlib.h>

#include "tests/unit/scheduler/churn.h"
#include "tests/unit/test_runner.h"

#define HOUR INT64_C(3600000)

static struct days_told told;

static void run(const struct days *days)
{
    days_run(days, &told);
    free(told.step_us);
    free(told.walk_us);
}

TEST(churn, small_pools_keep_all_rules)
{
    uint64_t taken = 0;
    uint64_t ended = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        run(&(struct days){.seed = seed,
                           .n_nodes = 12,
                           .n_jobs = 5,
                           .ms = 24 * HOUR,
                           .life_ms = HOUR,
                           .largest = 3});
        taken += told.taken;
        ended += told.ended;
    }
    assert_true(taken > 500 && ended > 500);
}

TEST(churn, pools_with_quotas_keep_all_rules)
{
    uint64_t taken = 0;
    uint64_t ended = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        run(&(struct days){.seed = seed,
                           .n_nodes = 12,
                           .n_jobs = 6,
                           .ms = 24 * HOUR,
                           .life_ms = HOUR,
                           .largest = 3,
                           .has_quotas = true});
        taken += told.taken;
        ended += told.ended;
    }
    assert_true(taken > 500 && ended > 500);
}

TEST(churn, pools_with_warned_machines_keep_all_rules)
{
    uint64_t assigned = 0;
    uint64_t taken = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        run(&(struct days){.seed = seed,
                           .n_nodes = 12,
                           .n_jobs = 5,
                           .ms = 24 * HOUR,
                           .life_ms = HOUR,
                           .largest = 3,
                           .has_quotas = seed % 2 == 0,
                           .has_warnings = true});
        assigned += told.assigned;
        taken += told.taken;
    }
    assert_true(assigned > 5000 && taken > 500);
}

TEST(churn, large_pool_keeps_all_rules)
{
    run(&(struct days){.seed = 7,
                       .n_nodes = DAYS_NODES_MAX,
                       .n_jobs = DAYS_JOBS_MAX,
                       .ms = HOUR,
                       .life_ms = 6 * HOUR,
                       .largest = 75});
    assert_true(told.assigned > 10000 && told.taken > 100 && told.ended > 20);
}
