/* server/scheduler/gain.h: estimates what one more worker contributes to a job, from its throughput
 * with two numbers of workers. Pure. */
#ifndef TFE_SERVER_SCHEDULER_GAIN_H
#define TFE_SERVER_SCHEDULER_GAIN_H

#include <stdint.h>

/* Value if nothing is known: each worker contributes as much as those before it. */
#define GAIN_WHOLE_MILLI 1000u

struct gain {
    struct {
        uint32_t workers; /* number of workers; 0 if not measured yet */
        double rate;
    } now, before; /* measurements with the present and with the previous number of workers */
};

/* Adds a measurement: throughput with this number of workers (at least one), always in the same
 * unit. */
void gain_add(struct gain *g, uint32_t workers, double rate);

/* Returns the contribution of one more worker in thousandths of the average worker at the smaller
 * of the two sizes; 1 to 1000. */
uint32_t gain_milli(const struct gain *g);

#endif
