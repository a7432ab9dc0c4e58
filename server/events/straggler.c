/* server/events/straggler.c: detects stragglers by step times.
 *
 * Workers that all-reduce their gradients have equal step times, whichever of them is slow, because
 * the others wait. The CPU time within a step distinguishes them. If that is unknown for most of
 * them (or if they do not wait for each other), the step times are compared. */
#include "server/events/straggler.h"

#include <stdio.h>
#include <stdlib.h>

/* A node becomes a straggler at 1.5 times the median, found in 2 consecutive checks, and recovers
 * below 1.25 times. */
#define STRAGGLER_MILLI 1500
#define GOOD_MILLI 1250
#define SLOW_CHECKS 2
/* Differences below this are noise. */
#define NOISE_US 2000

int straggler_begin(struct straggler_detector *j, size_t n)
{
    *j = (struct straggler_detector){.n_steps = 0};
    j->steps = calloc(n + 1, sizeof(uint64_t));
    j->works = calloc(n + 1, sizeof(uint64_t));
    if (!j->steps || !j->works) {
        straggler_end(j);
        return TFE_ENOMEM;
    }
    return 0;
}

void straggler_end(struct straggler_detector *j)
{
    free(j->steps);
    free(j->works);
}

void straggler_add(struct straggler_detector *j, const struct msg_machine_stats *machine_stats)
{
    if (machine_stats->step_us > 0) {
        j->steps[j->n_steps++] = machine_stats->step_us;
    }
    if (machine_stats->work_us > 0) {
        j->works[j->n_works++] = machine_stats->work_us;
    }
}

static int compare(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

void straggler_sort(struct straggler_detector *j)
{
    j->by_work = j->n_works >= 2 && 2 * j->n_works > j->n_steps;
    qsort(j->steps, j->n_steps, sizeof(uint64_t), compare);
    qsort(j->works, j->n_works, sizeof(uint64_t), compare);
}

/* Returns the median of v without one element `own`; n >= 2. Of two middle elements the smaller. */
static uint64_t median_of_others(const uint64_t *v, size_t n, uint64_t own)
{
    const size_t middle = (n - 2) / 2;
    return v[middle] >= own ? v[middle + 1] : v[middle];
}

void straggler_update(const struct straggler_detector *j,
                      const struct msg_machine_stats *machine_stats, struct straggler *at)
{
    const uint64_t *v = j->by_work ? j->works : j->steps;
    const size_t n = j->by_work ? j->n_works : j->n_steps;
    const uint64_t own = !machine_stats ? 0
                         : j->by_work   ? machine_stats->work_us
                                        : machine_stats->step_us;
    at->times_milli = 0;
    if (own == 0 || n < 2) {
        at->slow_checks = 0;
        at->is_slow = false;
        return;
    }
    const uint64_t others = median_of_others(v, n, own);
    const uint64_t times = own * 1000 / others;
    at->by_work = j->by_work;
    at->own_us = own;
    at->others_us = others;
    at->times_milli = times < UINT32_MAX ? (uint32_t)times : UINT32_MAX;
    const bool seems_slow = times >= STRAGGLER_MILLI && own - others >= NOISE_US;
    at->slow_checks = seems_slow ? (uint8_t)(at->slow_checks + (at->slow_checks < SLOW_CHECKS)) : 0;
    at->is_slow = at->is_slow ? times > GOOD_MILLI : at->slow_checks == SLOW_CHECKS;
}

const char *straggler_duration_text(uint64_t us, char buf[32])
{
    if (us < 10 * 1000000) {
        (void)snprintf(buf, 32, "%.*f ms", us < 10000 ? 1 : 0, (double)us / 1000);
    } else {
        (void)snprintf(buf, 32, "%.1f s", (double)us / 1e6);
    }
    return buf;
}
