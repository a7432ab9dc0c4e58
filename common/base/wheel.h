/* common/base/wheel.h: a hierarchical timing wheel of intrusive timers: O(1) to set, move and
 * cancel, without allocation. Pure. */
#ifndef TFE_COMMON_BASE_WHEEL_H
#define TFE_COMMON_BASE_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/time.h"

/* Geometry of the wheel: 64 slots per level, each as long as the whole level below. Eleven levels
 * hold every non-negative 64-bit time. */
#define WHEEL_BITS 6
#define WHEEL_SLOTS (1 << WHEEL_BITS)
#define WHEEL_LEVELS 11

/* A timer, embedded in the object that it belongs to. Zeroed: not set. */
struct wheel_timer {
    struct wheel_timer *next; /* next timer in the list; NULL if not set */
    struct wheel_timer *prev;
    struct tfe_mono due;
    uint8_t level; /* level of the timer; WHEEL_LEVELS if on the due list */
    uint8_t slot;
};

struct wheel {
    int64_t now_ms;
    uint64_t used[WHEEL_LEVELS];
    struct wheel_timer slots[WHEEL_LEVELS][WHEEL_SLOTS]; /* list heads */
    struct wheel_timer due;                              /* list head */
};

/* Returns the object that embeds the timer: WHEEL_OWNER(t, struct node, lease). */
#define WHEEL_OWNER(timer, type, member) ((type *)(void *)((char *)(timer)-offsetof(type, member)))

/* Initialises an empty wheel. Precondition of all functions: times are not negative. */
void wheel_init(struct wheel *wheel, struct tfe_mono now);

/* Sets or moves a timer. A due time in the past counts as the wheel's time, which is that of the
 * last peek or of the timer it returned. TFE_MONO_NEVER cancels the timer. */
void wheel_set(struct wheel *wheel, struct wheel_timer *timer, struct tfe_mono due);
void wheel_cancel(struct wheel *wheel, struct wheel_timer *timer);

static inline bool wheel_is_set(const struct wheel_timer *timer)
{
    return timer->next != NULL;
}

/* Returns the first timer due at or before now, which stays set, or NULL if none is due. Timers are
 * returned by due time; timers with equal times in the order they were set, except postponed ones.
 * now must not go backwards. */
struct wheel_timer *wheel_peek(struct wheel *wheel, struct tfe_mono now);

/* Returns a time before which no timer is due, or TFE_MONO_NEVER if none is set. The time may be
 * early for distant and postponed timers; call again then. */
struct tfe_mono wheel_next(const struct wheel *wheel);

#endif
