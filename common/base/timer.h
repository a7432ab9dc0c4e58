/* common/base/timer.h: helpers for libevent timers and events. */
#ifndef TFE_COMMON_BASE_TIMER_H
#define TFE_COMMON_BASE_TIMER_H

#include <event2/event.h>
#include <stdint.h>
#include <sys/time.h>

/* Arms the timer to fire once after ms (0 or less: in the next iteration of the loop), replacing an
 * earlier time. Returns 0, or -1 if out of memory, which cannot happen if the timer is already
 * armed. */
static inline int timer_after(struct event *timer, int64_t ms)
{
    struct timeval tv = {0};
    if (ms > 0) {
        tv.tv_sec = (time_t)(ms / 1000);
        tv.tv_usec = (suseconds_t)(ms % 1000 * 1000);
    }
    return event_add(timer, &tv);
}

/* Frees *event unless it is NULL, and sets it to NULL. */
static inline void event_drop(struct event **event)
{
    if (*event) {
        event_free(*event);
        *event = NULL;
    }
}

#endif
