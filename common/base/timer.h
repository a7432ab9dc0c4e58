/* common/base/timer.h: libevent's timers in the milliseconds of this house, and the end of events.
 */
#ifndef TFE_COMMON_BASE_TIMER_H
#define TFE_COMMON_BASE_TIMER_H

#include <event2/event.h>
#include <stdint.h>
#include <sys/time.h>

/* Lets the timer fire once, in ms (0 or less: in the loop's next turn), in place of what it waited
 * for. Returns 0, or -1: no memory, which cannot be where the timer is waiting already. */
static inline int timer_after(struct event *timer, int64_t ms)
{
    struct timeval tv = {0};
    if (ms > 0) {
        tv.tv_sec = (time_t)(ms / 1000);
        tv.tv_usec = (suseconds_t)(ms % 1000 * 1000);
    }
    return event_add(timer, &tv);
}

/* Frees it, if there is one, and forgets it. */
static inline void event_drop(struct event **event)
{
    if (*event) {
        event_free(*event);
        *event = NULL;
    }
}

#endif
