/* common/base/clock.h: the only place where a program reads the machine's clocks. */
#ifndef TFE_COMMON_BASE_CLOCK_H
#define TFE_COMMON_BASE_CLOCK_H

#include <stdint.h>

#include "common/base/time.h"

/* CLOCK_BOOTTIME: unlike CLOCK_MONOTONIC it runs on while the machine is suspended, and hibernation
 * is one of the ways spot machines go. */
struct tfe_mono clock_mono(void);

/* Microseconds of CLOCK_MONOTONIC: to tell how long something took, and for nothing else. */
int64_t clock_us(void);

/* CLOCK_REALTIME. */
struct tfe_wall clock_wall(void);

#endif
