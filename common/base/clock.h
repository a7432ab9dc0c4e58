/* common/base/clock.h: the only module that reads the system clocks. */
#ifndef TFE_COMMON_BASE_CLOCK_H
#define TFE_COMMON_BASE_CLOCK_H

#include <stdint.h>

#include "common/base/time.h"

/* Reads CLOCK_BOOTTIME. Unlike CLOCK_MONOTONIC this clock advances while the machine is suspended,
 * as preemptible machines can be. */
struct tfe_mono clock_mono(void);

/* Returns microseconds of CLOCK_MONOTONIC, only for measuring durations. */
int64_t clock_us(void);

/* Reads CLOCK_REALTIME. */
struct tfe_wall clock_wall(void);

#endif
