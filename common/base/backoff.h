/* common/base/backoff.h: exponential backoff between retries. Pure. */
#ifndef TFE_COMMON_BASE_BACKOFF_H
#define TFE_COMMON_BASE_BACKOFF_H

#include <stdint.h>

#include "common/base/rng.h"

/* Returns the wait after a wait of `last` (0 if none): `first`, then doubling up to `max`. Works in
 * any unit. */
static inline uint32_t backoff_next(uint32_t last, uint32_t first, uint32_t max)
{
    if (last == 0) {
        return first;
    }
    return last > max / 2 ? max : last * 2;
}

/* Returns a random part of the wait, so that clients which failed together do not retry
 * together. */
static inline uint32_t backoff_jitter(struct rng *rng, uint32_t wait)
{
    return (uint32_t)rng_between(rng, 1, wait > 0 ? wait : 1);
}

#endif
