/* tests/unit/fake_clock.c: see fake_clock.h. */
#include "tests/unit/fake_clock.h"

#include <event2/event.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

#define START_MS 1000000
/* A timer's real timeout encodes when it is due: these many seconds for each millisecond, so that
 * the real clock never gets there. */
#define SCALE_S 1000
#define MARGIN_S 100 /* a second of rounding does not change the result of the division */

static _Atomic int64_t now_ms = START_MS;
static time_t began; /* less than SCALE_S - MARGIN_S seconds ago */

int __real_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
    if (id != CLOCK_BOOTTIME && id != CLOCK_REALTIME) {
        return __real_clock_gettime(id, ret); /* of threads that wait for each other */
    }
    const int64_t ms = now_ms + (id == CLOCK_REALTIME ? FAKE_CLOCK_CIVIL_MS : 0);
    *ret = (struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    return 0;
}

int __real_event_add(struct event *event, const struct timeval *tv);
int __wrap_event_add(struct event *event, const struct timeval *tv);
int __wrap_event_add(struct event *event, const struct timeval *tv)
{
    if (!tv || event_get_fd(event) >= 0) {
        return __real_event_add(event, tv);
    }
    const int64_t due_ms = now_ms + tv->tv_sec * 1000 + tv->tv_usec / 1000;
    return __real_event_add(event, &(struct timeval){.tv_sec = due_ms * SCALE_S + MARGIN_S});
}

void fake_clock_init(void)
{
    began = time(NULL);
    now_ms = START_MS;
}

struct next_timer {
    struct event *event; /* NULL if no timer is due */
    int64_t due_ms;
};

static int compare_timer(const struct event_base *base, const struct event *event, void *arg)
{
    struct next_timer *next = arg;
    struct timeval tv;
    if (event_get_fd(event) < 0 && event_pending(event, EV_TIMEOUT, &tv)) {
        const int64_t due_ms = (tv.tv_sec - began) / SCALE_S;
        if (due_ms < next->due_ms) {
            *next = (struct next_timer){(struct event *)(uintptr_t)event, due_ms};
        }
    }
    return 0;
}

void fake_clock_pass(struct event_base *base, int64_t ms)
{
    const int64_t end_ms = now_ms + ms;
    while (base && !event_base_got_break(base)) {
        struct next_timer next = {NULL, end_ms + 1};
        (void)event_base_foreach_event(base, compare_timer, &next);
        if (!next.event) {
            break;
        }
        now_ms = next.due_ms > now_ms ? next.due_ms : now_ms;
        event_active(next.event, EV_TIMEOUT, 0);
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
    }
    now_ms = end_ms;
}
