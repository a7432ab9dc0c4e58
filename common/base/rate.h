/* common/base/rate.h: rate limit: a burst, then one event per interval (GCRA). Pure. */
#ifndef TFE_COMMON_BASE_RATE_H
#define TFE_COMMON_BASE_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"

/* State of one rate limit. Zeroed: no event has passed yet. */
struct rate {
    struct tfe_mono
        paid; /* time until which admitted events count against the rate (GCRA arrival time) */
};

/* Returns true if one more event passes, and counts it. Times may be negative. */
static inline bool rate_pass(struct rate *rate, struct tfe_mono now, int64_t each_ms, int64_t burst)
{
    if (tfe_mono_sub(rate->paid, now) > (burst - 1) * each_ms) {
        return false;
    }
    rate->paid = tfe_mono_add(tfe_mono_max(rate->paid, now), each_ms);
    return true;
}

/* Takes back one counted event, for an event that the peer did not cause. */
static inline void rate_refund(struct rate *rate, int64_t each_ms)
{
    rate->paid.ms -= each_ms;
}

#endif
