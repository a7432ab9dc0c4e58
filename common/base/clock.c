/* common/base/clock.c: reads the system clocks. */
#include "common/base/clock.h"

#include <time.h>

static int64_t clock_read_ms(clockid_t id)
{
    /* clock_gettime cannot fail: every supported kernel has both clocks. */
    struct timespec now = {0};
    (void)clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000 + (int64_t)now.tv_nsec / 1000000;
}

struct tfe_mono clock_mono(void)
{
    return (struct tfe_mono){.ms = clock_read_ms(CLOCK_BOOTTIME)};
}

struct tfe_wall clock_wall(void)
{
    return (struct tfe_wall){.ms = clock_read_ms(CLOCK_REALTIME)};
}

int64_t clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}
