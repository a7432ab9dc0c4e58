/* bench/placement_cost.c: the cost of a placement step in a large pool, and a check that no
 * placement rule is broken meanwhile (tests/unit/scheduler/churn.h). Prints one JSON object.
 *
 * Usage: tfe-bench-placement SEED HOURS */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/scheduler/churn.h"

#define HOUR_MS 3600000

int main(int argc, char **argv)
{
    if (argc != 3) {
        (void)fprintf(stderr, "usage: tfe-bench-placement SEED HOURS\n");
        return 2;
    }
    struct days days = {.seed = strtoull(argv[1], NULL, 10),
                        .n_nodes = DAYS_NODES_MAX,
                        .n_jobs = DAYS_JOBS_MAX,
                        .ms = strtoll(argv[2], NULL, 10) * HOUR_MS,
                        .life_ms = 6 * HOUR_MS,
                        .largest = 75};
    struct days_told told;
    days_run(&days, &told);
    const size_t n = told.n_steps;
    (void)printf("{\"steps\": %zu, \"median_us\": %.2f, \"p99_us\": %.2f, \"worst_us\": %.2f, "
                 "\"walk_us\": %.2f, \"assigned\": %llu, \"taken\": %llu, \"ended\": %llu}\n",
                 n, told.step_us[n / 2], told.step_us[n / 100 * 99], told.step_us[n - 1],
                 told.walk_us[told.n_walks / 2], (unsigned long long)told.assigned,
                 (unsigned long long)told.taken, (unsigned long long)told.ended);
    free(told.step_us);
    free(told.walk_us);
    return 0;
}
