/* common/base/series.h: how a series that only grows is kept in a bounded number of points: every
 * point at first, then every second, every fourth … Pure. */
#ifndef TFE_COMMON_BASE_SERIES_H
#define TFE_COMMON_BASE_SERIES_H

#include <stdint.h>

#define SERIES_POINTS_MAX 1000u

/* Points are numbered from 1. Of a series whose newest is ord those are kept whose number is a
 * multiple of this power of two: 500 to SERIES_POINTS_MAX of them, once there were so many. */
static inline uint64_t series_stride(uint64_t ord)
{
    uint64_t stride = 1;
    while (ord / stride >= SERIES_POINTS_MAX) {
        stride *= 2;
    }
    return stride;
}

#endif
