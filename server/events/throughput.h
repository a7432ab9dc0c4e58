/* server/events/throughput.h: steps and samples per second of an epoch over the last 15 seconds. */
#ifndef TFE_SERVER_EVENTS_THROUGHPUT_H
#define TFE_SERVER_EVENTS_THROUGHPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"

#define THROUGHPUT_MARKS 8

struct throughput {
    bool has_step; /* step is known for this run */
    uint64_t step, samples;
    struct {
        struct tfe_mono at;
        uint64_t step, samples;
    } marks[THROUGHPUT_MARKS]; /* ring of measurements, two seconds apart */
    unsigned first, n;
};

/* Begins a new epoch, whose rates are unknown at first. */
void throughput_begin(struct throughput *p);
/* Adds a report of progress; samples 0 if not reported. */
void throughput_add(struct throughput *p, struct tfe_mono now, uint64_t step, uint64_t samples);
/* Return the rate per second in *ret, or false if unknown. */
bool throughput_steps(const struct throughput *p, struct tfe_mono now, double *ret);
bool throughput_samples(const struct throughput *p, struct tfe_mono now, double *ret);

#endif
