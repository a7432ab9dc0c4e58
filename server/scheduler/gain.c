/* server/scheduler/gain.c: slope of the throughput between two numbers of workers. */
#include "server/scheduler/gain.h"

#include <stdbool.h>

void gain_add(struct gain *g, uint32_t workers, double rate)
{
    if (g->now.workers != workers && g->now.workers != 0) {
        g->before = g->now;
    }
    g->now.workers = workers;
    g->now.rate = rate;
}

uint32_t gain_milli(const struct gain *g)
{
    if (g->before.workers == 0) {
        return GAIN_WHOLE_MILLI;
    }
    const bool has_grown = g->now.workers > g->before.workers;
    const double few = has_grown ? g->before.workers : g->now.workers;
    const double more = has_grown ? g->now.workers : g->before.workers;
    const double slow = has_grown ? g->before.rate : g->now.rate;
    const double fast = has_grown ? g->now.rate : g->before.rate;
    if (!(slow > 0)) {
        return GAIN_WHOLE_MILLI; /* the job stood still, which says nothing about its size */
    }
    const double milli = GAIN_WHOLE_MILLI * ((fast - slow) / (more - few)) / (slow / few);
    return milli >= GAIN_WHOLE_MILLI ? GAIN_WHOLE_MILLI : milli > 1 ? (uint32_t)milli : 1;
}
