/* bench/machine.h: clock, cores and descriptor limits for the benchmarks. */
#ifndef TFE_BENCH_MACHINE_H
#define TFE_BENCH_MACHINE_H

#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>

static inline uint64_t machine_ns(clockid_t clock)
{
    struct timespec t = {0};
    (void)clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline uint64_t machine_us(void)
{
    return machine_ns(CLOCK_MONOTONIC) / 1000;
}

static inline double machine_s(void)
{
    return (double)machine_ns(CLOCK_MONOTONIC) / 1e9;
}

/* Sleeps for a kernel clock tick, the resolution of libevent's timers. A load generator that dozes
 * is not woken by each answer, just as agents on other machines do not interrupt the server's
 * processor. */
static inline void machine_doze(void)
{
    const struct timespec tick = {.tv_nsec = 4000000};
    (void)nanosleep(&tick, NULL);
}

/* Raises the descriptor limit to the hard limit, for thousands of connections. */
static inline void machine_raise_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

/* Pins this process to a core; has no effect if the core does not exist. */
static inline void machine_pin(unsigned core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    (void)sched_setaffinity(0, sizeof set, &set);
}

#endif
