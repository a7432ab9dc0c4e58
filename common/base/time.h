/* common/base/time.h: distinct types for steady and civil time. Pure: does not read a clock. */
#ifndef TFE_COMMON_BASE_TIME_H
#define TFE_COMMON_BASE_TIME_H

#include <stdbool.h>
#include <stdint.h>

/* A time on the steady clock (CLOCK_BOOTTIME, which advances while the machine is suspended), in
 * milliseconds. Only differences are meaningful, and only within one machine. */
struct tfe_mono {
    int64_t ms;
};

/* A time on the civil clock, in milliseconds since 1970-01-01 UTC. For display and files, never for
 * decisions, because the civil clock can jump. */
struct tfe_wall {
    int64_t ms;
};

/* "No deadline": later than any other time. */
#define TFE_MONO_NEVER ((struct tfe_mono){.ms = INT64_MAX})

static inline bool tfe_mono_is_never(struct tfe_mono t)
{
    return t.ms == INT64_MAX;
}

/* Returns t + ms, saturating at TFE_MONO_NEVER. Precondition: ms >= 0. */
static inline struct tfe_mono tfe_mono_add(struct tfe_mono t, int64_t ms)
{
    if (t.ms > 0 && ms > INT64_MAX - t.ms) {
        return TFE_MONO_NEVER;
    }
    return (struct tfe_mono){.ms = t.ms + ms};
}

/* Returns a - b in milliseconds. Times of one process are too close for an overflow. */
static inline int64_t tfe_mono_sub(struct tfe_mono a, struct tfe_mono b)
{
    return a.ms - b.ms;
}

static inline bool tfe_mono_before(struct tfe_mono a, struct tfe_mono b)
{
    return a.ms < b.ms;
}

static inline struct tfe_mono tfe_mono_min(struct tfe_mono a, struct tfe_mono b)
{
    return a.ms < b.ms ? a : b;
}

static inline struct tfe_mono tfe_mono_max(struct tfe_mono a, struct tfe_mono b)
{
    return a.ms > b.ms ? a : b;
}

#endif
