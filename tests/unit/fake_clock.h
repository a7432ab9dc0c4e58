/* tests/unit/fake_clock.h: a clock and libevent timers that a test moves by hand. For programs that
 * are linked with --wrap of clock_gettime and event_add (tfe_fake_clock in CMakeLists.txt).
 * CLOCK_BOOTTIME and CLOCK_REALTIME stand still between calls; timers without a descriptor fire
 * only when the test passes their time. Safe to read from other threads. */
#ifndef TFE_TESTS_UNIT_FAKE_CLOCK_H
#define TFE_TESTS_UNIT_FAKE_CLOCK_H

#include <stdint.h>

struct event_base;

/* Civil time at the monotonic time 0. */
#define FAKE_CLOCK_CIVIL_MS 1700000000000ll

/* Sets the clocks to a fixed time; no timer may exist. */
void fake_clock_init(void);

/* Moves the clock by ms, one timer of this base after another, until one breaks the loop. base
 * NULL: fires no timer. */
void fake_clock_pass(struct event_base *base, int64_t ms);

#endif
