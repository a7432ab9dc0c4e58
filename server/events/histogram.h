/* server/events/histogram.h: how a time is spread: how many were at most so long, as Prometheus has
 * it. */
#ifndef TFE_SERVER_EVENTS_HISTOGRAM_H
#define TFE_SERVER_EVENTS_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

/* From what nobody notices to what stops a fleet. */
#define SPREAD_BOUNDS_MS                                                                           \
    {                                                                                              \
        1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000                     \
    }
#define SPREAD_BOUNDS 14

struct spread {
    uint64_t n[SPREAD_BOUNDS + 1]; /* by the first bound that it does not pass; the rest */
    uint64_t sum_ms;
};

/* Below 0: it is not known, and not counted. */
static inline void spread_add(struct spread *s, int64_t ms)
{
    static const int64_t bounds[SPREAD_BOUNDS] = SPREAD_BOUNDS_MS;
    size_t i = 0;
    if (ms < 0) {
        return;
    }
    while (i < SPREAD_BOUNDS && ms > bounds[i]) {
        i++;
    }
    s->n[i]++;
    s->sum_ms += (uint64_t)ms;
}

#endif
