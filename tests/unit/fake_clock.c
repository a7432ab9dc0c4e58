/* tests/unit/fake_clock.c: see fake_clock.h. */
#include "tests/unit/fake_clock.h"

#include <event2/event.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "common/base/time.h"
#include "tests/unit/test_runner.h"

enum { TIMERS = 64 };

#define START_MS 1000000

static _Atomic int64_t now_ms = START_MS;

static struct {
    struct event *event; /* NULL: this entry is free */
    struct tfe_mono due;
} timers[TIMERS];

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

int __real_event_del(struct event *event);
int __wrap_event_del(struct event *event);
int __wrap_event_del(struct event *event)
{
    for (size_t i = 0; i < TIMERS; i++) {
        if (timers[i].event == event) {
            timers[i].event = NULL;
        }
    }
    return __real_event_del(event);
}

int __real_event_add(struct event *event, const struct timeval *tv);
int __wrap_event_add(struct event *event, const struct timeval *tv);
int __wrap_event_add(struct event *event, const struct timeval *tv)
{
    static const struct timeval far = {
        .tv_sec = 1000000}; /* pending, but the real clock never gets there */
    if (!tv || event_get_fd(event) >= 0) {
        return __real_event_add(event, tv);
    }
    (void)__wrap_event_del(event);
    for (size_t i = 0; i < TIMERS; i++) {
        if (!timers[i].event) {
            timers[i].event = event;
            timers[i].due.ms = now_ms + tv->tv_sec * 1000 + tv->tv_usec / 1000;
            return __real_event_add(event, &far);
        }
    }
    fail_msg("more than %d timers", TIMERS);
    return -1;
}

void fake_clock_init(void)
{
    memset(timers, 0, sizeof timers);
    now_ms = START_MS;
}

static size_t next_timer(int64_t end_ms)
{
    size_t next = TIMERS;
    for (size_t i = 0; i < TIMERS; i++) {
        if (timers[i].event && timers[i].due.ms <= end_ms &&
            (next == TIMERS || tfe_mono_before(timers[i].due, timers[next].due))) {
            next = i;
        }
    }
    return next;
}

void fake_clock_pass(struct event_base *base, int64_t ms)
{
    const int64_t end_ms = now_ms + ms;
    for (size_t next; base && (next = next_timer(end_ms)) < TIMERS;) {
        struct event *event = timers[next].event;
        now_ms = timers[next].due.ms > now_ms ? timers[next].due.ms : now_ms;
        timers[next].event = NULL;
        event_active(event, EV_TIMEOUT, 0);
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
    }
    now_ms = end_ms;
}
