/* tests/unit/limbs/hand_clock.h: clock_mono, and libevent's timers, moved by the story. For
 * programs that are linked with --wrap of clock_mono, event_add and event_del. */
#ifndef TFE_TESTS_UNIT_LIMBS_HAND_CLOCK_H
#define TFE_TESTS_UNIT_LIMBS_HAND_CLOCK_H

#include <stdint.h>

struct event_base;

/* Forgets all timers. */
void hand_clock_init(void);

/* Moves the clock, and stops at each timer on the way. */
void hand_clock_pass(struct event_base *base, int64_t ms);

#endif
