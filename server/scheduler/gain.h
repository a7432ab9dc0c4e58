/* server/scheduler/gain.h: what one more worker brings a job, by how fast it was seen to work with
 * some, and then with more or fewer. Pure. */
#ifndef TFE_SERVER_SCHEDULER_GAIN_H
#define TFE_SERVER_SCHEDULER_GAIN_H

#include <stdint.h>

/* As long as nothing is known: each worker brings as much as those before it. */
#define GAIN_WHOLE_MILLI 1000u

struct gain {
    struct {
        uint32_t workers; /* 0: not seen yet */
        double rate;
    } now, before; /* of the size that it has, and of the last other one */
};

/* The job was seen to do so much a second with so many workers, at least one; always in the same
 * unit. */
void gain_take(struct gain *g, uint32_t workers, double rate);

/* In thousandths of what a worker brings on average at the smaller of the two sizes, 1 to 1000. */
uint32_t gain_milli(const struct gain *g);

#endif
