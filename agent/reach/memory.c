/* agent/reach/memory.c: see memory.h. */
#include "agent/reach/memory.h"

#include <stddef.h>

#include "agent/reach/cgroup.h"

static uint32_t percent(uint64_t part, uint64_t whole)
{
    return whole ? (uint32_t)(part >= whole ? 100 : part / (whole / 100 + 1)) : 100;
}

static uint32_t of_machine(void)
{
    uint64_t whole;
    uint64_t available;
    if (!cgroup_number("/proc", "meminfo", "MemTotal:", &whole) ||
        !cgroup_number("/proc", "meminfo", "MemAvailable:", &available)) {
        return 100;
    }
    return percent(available, whole);
}

/* The names of one version of control groups. */
struct names {
    const char *controller;
    const char *limit;
    const char *used;
    const char *cache; /* key in memory.stat: used, but given back when wanted */
};

/* Every group from our own up may have a limit. */
static uint32_t of_groups(const struct names *names)
{
    char directory[PATH_MAX];
    uint32_t least = 100;
    bool goes_on = cgroup_own(names->controller, directory);
    while (goes_on) {
        uint64_t limit;
        uint64_t used;
        uint64_t cache = 0;
        if (cgroup_number(directory, names->limit, NULL, &limit) &&
            cgroup_number(directory, names->used, NULL, &used) && limit < UINT64_MAX / 4) {
            (void)cgroup_number(directory, "memory.stat", names->cache, &cache);
            used = used > cache ? used - cache : 0;
            uint32_t here = percent(limit > used ? limit - used : 0, limit);
            least = here < least ? here : least;
        }
        goes_on = cgroup_up(directory);
    }
    return least;
}

uint32_t memory_free_percent(void)
{
    static const struct names versions[] = {
        {NULL, "memory.max", "memory.current", "inactive_file"},
        {"memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
    };
    uint32_t least = of_machine();
    for (int i = 0; i < 2; i++) {
        uint32_t here = of_groups(&versions[i]);
        least = here < least ? here : least;
    }
    return least;
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
