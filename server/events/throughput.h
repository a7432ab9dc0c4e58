/* server/events/throughput.h: how fast an epoch goes: steps and samples of the last quarter of a
 * minute. */
#ifndef TFE_SERVER_EVENTS_THROUGHPUT_H
#define TFE_SERVER_EVENTS_THROUGHPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"

#define THROUGHPUT_MARKS 8

struct throughput {
    bool has_step; /* of this run */
    uint64_t step, samples;
    struct {
        struct tfe_mono at;
        uint64_t step, samples;
    } marks[THROUGHPUT_MARKS]; /* a ring, two seconds apart */
    unsigned first, n;
};

/* Another epoch begins: what it is fast in is not known yet. */
void throughput_begin(struct throughput *p);
/* So far it has come; samples 0: not said. */
void throughput_add(struct throughput *p, struct tfe_mono now, uint64_t step, uint64_t samples);
/* Per second. False: not known yet. */
bool throughput_steps(const struct throughput *p, struct tfe_mono now, double *ret);
bool throughput_samples(const struct throughput *p, struct tfe_mono now, double *ret);

#endif
