/* common/base/backoff.h: waits between tries, each twice as long as the one before. Pure. */
#ifndef TFE_COMMON_BASE_BACKOFF_H
#define TFE_COMMON_BASE_BACKOFF_H

#include <stdint.h>

#include "common/base/rng.h"

/* The wait that follows one of `last` (0: there was none): first, then doubling up to max. In any
 * unit. */
static inline uint32_t backoff_next(uint32_t last, uint32_t first, uint32_t max)
{
    if (last == 0) {
        return first;
    }
    return last > max / 2 ? max : last * 2;
}

/* A random part of that wait, so that many who failed together do not come back together. */
static inline uint32_t backoff_jitter(struct rng *rng, uint32_t wait)
{
    return (uint32_t)rng_between(rng, 1, wait > 0 ? wait : 1);
}

#endif
