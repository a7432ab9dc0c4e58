/* common/base/rate.h: so many at once, and one more each so many milliseconds. Pure. */
#ifndef TFE_COMMON_BASE_RATE_H
#define TFE_COMMON_BASE_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"

/* Zeroed: nothing has passed yet. */
struct rate {
    struct tfe_mono paid; /* until when that which has passed counts */
};

/* Whether one more passes; it counts then. Times may begin anywhere, below 0 too. */
static inline bool rate_pass(struct rate *rate, struct tfe_mono now, int64_t each_ms, int64_t burst)
{
    if (tfe_mono_sub(rate->paid, now) > (burst - 1) * each_ms) {
        return false;
    }
    rate->paid = tfe_mono_add(tfe_mono_max(rate->paid, now), each_ms);
    return true;
}

/* What was not the other's doing does not count. */
static inline void rate_refund(struct rate *rate, int64_t each_ms)
{
    rate->paid.ms -= each_ms;
}

#endif
