/* tests/sim/clock.h: the clock of one machine, with a rate of its own, which a hypervisor can
 * stop. */
#ifndef TFE_TESTS_SIM_CLOCK_H
#define TFE_TESTS_SIM_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"

#define SIM_NEVER INT64_MAX

/* A clock that runs ppm / 1,000,000 as fast as virtual time, from an anchor on. */
struct sim_clock {
    int64_t world_ms;
    int64_t own_ms;
    int64_t ppm;
    bool stopped;
};

static inline struct tfe_mono clock_read(const struct sim_clock *clock, int64_t world_ms)
{
    int64_t own = clock->own_ms;
    if (!clock->stopped) {
        own += (world_ms - clock->world_ms) * clock->ppm / 1000000;
    }
    return (struct tfe_mono){.ms = own};
}

/* Returns the first millisecond of virtual time at which the clock shows at least this; SIM_NEVER
 * if it is stopped, or for TFE_MONO_NEVER. */
static inline int64_t clock_when(const struct sim_clock *clock, struct tfe_mono own)
{
    if (tfe_mono_is_never(own) || clock->stopped || own.ms > INT64_MAX / 2000000) {
        return SIM_NEVER;
    }
    if (own.ms <= clock->own_ms) {
        return clock->world_ms;
    }
    return clock->world_ms + ((own.ms - clock->own_ms) * 1000000 + clock->ppm - 1) / clock->ppm;
}

/* Sets another rate from now on, or stops or restarts the clock. */
static inline void clock_set(struct sim_clock *clock, int64_t world_ms, int64_t ppm, bool stopped)
{
    int64_t own = clock_read(clock, world_ms).ms;
    *clock =
        (struct sim_clock){.world_ms = world_ms, .own_ms = own, .ppm = ppm, .stopped = stopped};
}

#endif
