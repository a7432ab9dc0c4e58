/* server/events/histogram.h: histogram of durations with the bucket scheme of Prometheus. */
#ifndef TFE_SERVER_EVENTS_HISTOGRAM_H
#define TFE_SERVER_EVENTS_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

/* Upper bounds of the buckets, from imperceptible delays to an outage. */
#define HISTOGRAM_BOUNDS_MS                                                                        \
    {                                                                                              \
        1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000                     \
    }
#define HISTOGRAM_BOUNDS 14

struct histogram {
    uint64_t n[HISTOGRAM_BOUNDS + 1]; /* count per bucket: the first bound that is not exceeded; the
                                      last bucket is unbounded */
    uint64_t sum_ms;
};

/* Counts a duration; ignores one below 0 (unknown). */
static inline void histogram_add(struct histogram *s, int64_t ms)
{
    static const int64_t bounds[HISTOGRAM_BOUNDS] = HISTOGRAM_BOUNDS_MS;
    size_t i = 0;
    if (ms < 0) {
        return;
    }
    while (i < HISTOGRAM_BOUNDS && ms > bounds[i]) {
        i++;
    }
    s->n[i]++;
    s->sum_ms += (uint64_t)ms;
}

#endif
