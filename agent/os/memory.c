/* agent/os/memory.c: implementation of memory.h. */
#include "agent/os/memory.h"

#include <stddef.h>

#include "agent/os/cgroup.h"

/* Minimum of the available memory as a percentage and in bytes, which may come
 * from different limits. */
struct headroom {
    uint32_t percent;
    uint64_t bytes;
};

static void headroom_reduce(struct headroom *headroom, uint64_t left, uint64_t whole)
{
    uint32_t percent = whole ? (uint32_t)(left >= whole ? 100 : left / (whole / 100 + 1)) : 100;
    headroom->percent = percent < headroom->percent ? percent : headroom->percent;
    headroom->bytes = left < headroom->bytes ? left : headroom->bytes;
}

static void apply_machine(struct headroom *headroom)
{
    uint64_t whole; /* in KiB, like available */
    uint64_t available;
    if (cgroup_number("/proc", "meminfo", "MemTotal:", &whole) &&
        cgroup_number("/proc", "meminfo", "MemAvailable:", &available)) {
        headroom_reduce(headroom, available << 10, whole << 10);
    }
}

/* File names of one version of cgroups. */
struct names {
    const char *controller;
    const char *limit;
    const char *used;
    const char *cache; /* key in memory.stat: used memory that is reclaimed on demand */
};

/* Applies the limits of this process's cgroup and of every cgroup above it. */
static void apply_cgroups(struct headroom *headroom, const struct names *names)
{
    char directory[PATH_MAX];
    bool should_continue = cgroup_own(names->controller, directory);
    while (should_continue) {
        uint64_t limit;
        uint64_t used;
        uint64_t cache = 0;
        if (cgroup_number(directory, names->limit, NULL, &limit) &&
            cgroup_number(directory, names->used, NULL, &used) && limit < UINT64_MAX / 4) {
            (void)cgroup_number(directory, "memory.stat", names->cache, &cache);
            used = used > cache ? used - cache : 0;
            headroom_reduce(headroom, limit > used ? limit - used : 0, limit);
        }
        should_continue = cgroup_up(directory);
    }
}

static struct headroom headroom_now(void)
{
    static const struct names versions[] = {
        {NULL, "memory.max", "memory.current", "inactive_file"},
        {"memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
    };
    struct headroom headroom = {.percent = 100, .bytes = UINT64_MAX};
    apply_machine(&headroom);
    for (int i = 0; i < 2; i++) {
        apply_cgroups(&headroom, &versions[i]);
    }
    return headroom;
}

uint32_t memory_free_percent(void)
{
    return headroom_now().percent;
}

uint64_t memory_free_bytes(void)
{
    return headroom_now().bytes;
}

uint64_t memory_kills(void)
{
    char directory[PATH_MAX];
    uint64_t kills;
    if (cgroup_own(NULL, directory) &&
        cgroup_number(directory, "memory.events", "oom_kill", &kills)) {
        return kills;
    }
    if (cgroup_own("memory", directory) &&
        cgroup_number(directory, "memory.oom_control", "oom_kill", &kills)) {
        return kills;
    }
    return cgroup_number("/proc", "vmstat", "oom_kill", &kills) ? kills : 0;
}
