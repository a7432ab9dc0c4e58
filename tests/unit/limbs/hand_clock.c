/* tests/unit/limbs/hand_clock.c: see hand_clock.h. */
#include "tests/unit/limbs/hand_clock.h"

#include <event2/event.h>
#include <stddef.h>
#include <string.h>

#include "common/net/clock.h"

enum { TIMERS = 8 };

static struct {
    struct tfe_mono now;
    struct {
        struct event *event;
        struct tfe_mono due;
    } timers[TIMERS];
} hand;

struct tfe_mono __wrap_clock_mono(void);
struct tfe_mono __wrap_clock_mono(void)
{
    return hand.now;
}

int __real_event_del(struct event *event);
int __wrap_event_del(struct event *event);
int __wrap_event_del(struct event *event)
{
    for (size_t i = 0; i < TIMERS; i++) {
        if (hand.timers[i].event == event) {
            hand.timers[i].event = NULL;
        }
    }
    return __real_event_del(event);
}

int __real_event_add(struct event *event, const struct timeval *tv);
int __wrap_event_add(struct event *event, const struct timeval *tv);
int __wrap_event_add(struct event *event, const struct timeval *tv)
{
    if (!tv || event_get_fd(event) >= 0) {
        return __real_event_add(event, tv);
    }
    (void)__wrap_event_del(event);
    for (size_t i = 0; i < TIMERS; i++) {
        if (!hand.timers[i].event) {
            hand.timers[i].event = event;
            hand.timers[i].due = tfe_mono_add(hand.now, tv->tv_sec * 1000 + tv->tv_usec / 1000);
            return 0;
        }
    }
    return -1;
}

void hand_clock_init(void)
{
    memset(&hand, 0, sizeof hand);
    hand.now.ms = 1000000;
}

void hand_clock_pass(struct event_base *base, int64_t ms)
{
    struct tfe_mono end = tfe_mono_add(hand.now, ms);
    for (;;) {
        size_t next = TIMERS;
        for (size_t i = 0; i < TIMERS; i++) {
            if (hand.timers[i].event && !tfe_mono_before(end, hand.timers[i].due) &&
                (next == TIMERS || tfe_mono_before(hand.timers[i].due, hand.timers[next].due))) {
                next = i;
            }
        }
        if (next == TIMERS) {
            break;
        }
        hand.now = tfe_mono_max(hand.now, hand.timers[next].due);
        event_active(hand.timers[next].event, EV_TIMEOUT, 0);
        hand.timers[next].event = NULL;
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
    }
    hand.now = end;
}
