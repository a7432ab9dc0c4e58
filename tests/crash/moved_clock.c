/* tests/crash/moved_clock.c: preloaded into programs of ours, gives them a clock that a test moves:
 * a machine that was suspended, or hours that pass in a moment.
 *
 * MOVED_CLOCK=F   two 64-bit numbers in the file F, in nanoseconds, say how far CLOCK_MONOTONIC and
 * CLOCK_BOOTTIME are ahead of the kernel's. They may change at any time. Then a timerfd of that
 * clock that is due rings, and what waits until a time of CLOCK_MONOTONIC has waited long enough,
 * as it would have without this; nothing else is woken. */
#undef _FORTIFY_SOURCE /* the names below are to be functions */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS INT64_C(1000000000)
#define SLICE_NS (10 * INT64_C(1000000)) /* how soon a change is noticed */
#define FDS 1024

enum { MONOTONIC, BOOTTIME, CLOCKS };

static const _Atomic int64_t *ahead; /* by clock; NULL: nobody moves it */

/* What is to ring, by descriptor: when, on the moved clock; 0 not at all. */
static struct {
    int64_t at;
    int64_t every;
    int8_t clock; /* 1 + which, as far as we have seen it being made */
} timers[FDS];

static int64_t seen[CLOCKS]; /* of `ahead`, by this process's timers */

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("MOVED_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        return;
    }
    void *map = mmap(NULL, CLOCKS * sizeof(*ahead), PROT_READ, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (map == MAP_FAILED) {
        abort();
    }
    ahead = map;
}

static int which(clockid_t id)
{
    switch (id) {
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
        return MONOTONIC;
    case CLOCK_BOOTTIME:
        return BOOTTIME;
    default:
        return -1;
    }
}

static int64_t ns_of(const struct timespec *t)
{
    return (int64_t)t->tv_sec * SECOND_NS + t->tv_nsec;
}

static struct timespec timespec_of(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / SECOND_NS, .tv_nsec = ns % SECOND_NS};
}

int clock_gettime(clockid_t id, struct timespec *ret)
{
    int rc = (int)syscall(SYS_clock_gettime, id, ret);
    int clock = which(id);
    if (rc == 0 && ahead && clock >= 0) {
        *ret = timespec_of(ns_of(ret) + ahead[clock]);
    }
    return rc;
}

static int64_t now(int clock)
{
    struct timespec t;
    (void)clock_gettime(clock == BOOTTIME ? CLOCK_BOOTTIME : CLOCK_MONOTONIC, &t);
    return ns_of(&t);
}

/* --- timers ----------------------------------------------------------------------------------- */

int timerfd_create(int id, int flags)
{
    int fd = (int)syscall(SYS_timerfd_create, id, flags);
    if (fd >= 0 && fd < FDS) {
        timers[fd].clock = (int8_t)(1 + which(id));
        timers[fd].at = 0;
    }
    return fd;
}

/* Of a descriptor that was made under another number, too. */
static int clock_of(int fd)
{
    char text[512] = "";
    (void)snprintf(text, sizeof(text), "/proc/self/fdinfo/%d", fd);
    int info = open(text, O_RDONLY | O_CLOEXEC);
    if (info >= 0) {
        ssize_t n = read(info, text, sizeof(text) - 1);
        text[n > 0 ? n : 0] = '\0';
        (void)close(info);
        const char *id = strstr(text, "clockid: ");
        if (id) {
            return which((clockid_t)atoi(id + strlen("clockid: ")));
        }
    }
    return timers[fd].clock - 1; /* in a sandbox */
}

/* To the kernel, in its own time. */
static int arm(int fd, int clock)
{
    int64_t real = timers[fd].at - ahead[clock];
    struct itimerspec spec = {.it_value = timespec_of(real > 0 ? real : 1),
                              .it_interval = timespec_of(timers[fd].every)};
    return (int)syscall(SYS_timerfd_settime, fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *spec, struct itimerspec *old)
{
    int clock = ahead && fd >= 0 && fd < FDS ? clock_of(fd) : -1;
    int64_t value = ns_of(&spec->it_value);
    if (clock < 0 || value == 0) {
        if (fd >= 0 && fd < FDS) {
            timers[fd].at = 0;
        }
        return (int)syscall(SYS_timerfd_settime, fd, flags, spec, old);
    }
    timers[fd].clock = (int8_t)(1 + clock);
    timers[fd].at = flags & TFD_TIMER_ABSTIME ? value : now(clock) + value;
    timers[fd].every = ns_of(&spec->it_interval);
    return arm(fd, clock);
}

/* The clocks may have been moved. */
static void look(void)
{
    for (int clock = 0; clock < CLOCKS; clock++) {
        int64_t is = ahead[clock];
        for (int fd = 0; is != seen[clock] && fd < FDS; fd++) {
            if (timers[fd].at != 0 && timers[fd].clock == 1 + clock && arm(fd, clock) != 0) {
                timers[fd].at = 0; /* it is closed */
            }
        }
        seen[clock] = is;
    }
}

/* --- waits ------------------------------------------------------------------------------------ */

/* What is left of a wait, in slices: how long the next one lasts, or nothing. */
static struct timespec slice(int64_t until)
{
    int64_t left = until == INT64_MAX ? SLICE_NS : until - now(MONOTONIC);
    left = left < 0 ? 0 : left;
    return timespec_of(left < SLICE_NS ? left : SLICE_NS);
}

static int64_t until_of(int64_t ns)
{
    return ns < 0 ? INT64_MAX : now(MONOTONIC) + ns;
}

static bool is_over(int64_t until)
{
    return until != INT64_MAX && now(MONOTONIC) >= until;
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
    if (!ahead) {
        struct timespec copy = timeout ? *timeout : (struct timespec){0};
        return (int)syscall(SYS_ppoll, fds, n, timeout ? &copy : NULL, mask, sizeof(uint64_t));
    }
    int64_t until = until_of(timeout ? ns_of(timeout) : -1);
    for (;;) {
        look();
        struct timespec wait = slice(until);
        int rc = (int)syscall(SYS_ppoll, fds, n, &wait, mask, sizeof(uint64_t));
        if (rc != 0 || is_over(until)) {
            return rc;
        }
    }
}

int poll(struct pollfd *fds, nfds_t n, int ms)
{
    struct timespec timeout = timespec_of((int64_t)ms * 1000000);
    return ppoll(fds, n, ms < 0 ? NULL : &timeout, NULL);
}

/* As they are called by who was built with _FORTIFY_SOURCE. */
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask,
                size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask,
                size_t size)
{
    (void)size;
    return ppoll(fds, n, timeout, mask);
}

int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t size);
int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t size)
{
    (void)size;
    return poll(fds, n, ms);
}

int epoll_wait(int ep, struct epoll_event *events, int n, int ms)
{
    if (!ahead) {
        return (int)syscall(SYS_epoll_wait, ep, events, n, ms);
    }
    int64_t until = until_of(ms < 0 ? -1 : (int64_t)ms * 1000000);
    for (;;) {
        look();
        struct timespec wait = slice(until);
        int rc =
            (int)syscall(SYS_epoll_wait, ep, events, n, (int)((ns_of(&wait) + 999999) / 1000000));
        if (rc != 0 || is_over(until)) {
            return rc;
        }
    }
}

/* How Python sleeps. */
int clock_nanosleep(clockid_t id, int flags, const struct timespec *request, struct timespec *left)
{
    int clock = ahead ? which(id) : -1;
    if (clock < 0) {
        return syscall(SYS_clock_nanosleep, id, flags, request, left) == 0 ? 0 : errno;
    }
    int64_t until = flags & TIMER_ABSTIME ? ns_of(request) : now(clock) + ns_of(request);
    for (int64_t rest = until - now(clock); rest > 0; rest = until - now(clock)) {
        struct timespec wait = timespec_of(rest < SLICE_NS ? rest : SLICE_NS);
        if (syscall(SYS_clock_nanosleep, id, 0, &wait, NULL) != 0) {
            if (left) {
                *left = timespec_of(rest);
            }
            return errno;
        }
    }
    return 0;
}
