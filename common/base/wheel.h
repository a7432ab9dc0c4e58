/* common/base/wheel.h: a hierarchical timing wheel of intrusive timers: O(1) to set, move and
 * cancel, no allocation. Pure. */
#ifndef TFE_COMMON_BASE_WHEEL_H
#define TFE_COMMON_BASE_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/time.h"

/* 64 slots a level, each level's slot as long as the whole level below: eleven levels hold every
 * non-negative 64-bit time. */
#define WHEEL_BITS 6
#define WHEEL_SLOTS (1 << WHEEL_BITS)
#define WHEEL_LEVELS 11

/* Lives in the object that waits. All zero: not set. */
struct wheel_timer {
    struct wheel_timer *next; /* NULL: not set */
    struct wheel_timer *prev;
    struct tfe_mono due;
    uint8_t level; /* WHEEL_LEVELS: on the due list */
    uint8_t slot;
};

struct wheel {
    int64_t now_ms;
    uint64_t used[WHEEL_LEVELS];
    struct wheel_timer slots[WHEEL_LEVELS][WHEEL_SLOTS]; /* list heads */
    struct wheel_timer due;                              /* list head */
};

/* The object around a member: WHEEL_OWNER(t, struct node, lease). */
#define WHEEL_OWNER(timer, type, member) ((type *)(void *)((char *)(timer)-offsetof(type, member)))

/* Precondition here and below: times are not negative. */
void wheel_init(struct wheel *wheel, struct tfe_mono now);

/* Sets, or moves. A due time in the past counts as the wheel's present: that of the last peek, or
 * of the timer it returned. TFE_MONO_NEVER cancels. */
void wheel_set(struct wheel *wheel, struct wheel_timer *timer, struct tfe_mono due);
void wheel_cancel(struct wheel *wheel, struct wheel_timer *timer);

static inline bool wheel_is_set(const struct wheel_timer *timer)
{
    return timer->next != NULL;
}

/* The first timer due at or before now, still set; NULL if none. In order of due time, among equals
 * in the order they were set, but for those that were moved on. now must not go backwards. */
struct wheel_timer *wheel_peek(struct wheel *wheel, struct tfe_mono now);

/* Nothing is due before this time (it may be too early for far timers and for moved ones: look
 * again then). TFE_MONO_NEVER: nothing is set. */
struct tfe_mono wheel_next(const struct wheel *wheel);

#endif
