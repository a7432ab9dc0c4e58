/* tests/unit/fake_memory.c: see fake_memory.h. */
#include "tests/unit/fake_memory.h"

#include <stdio.h>
#include <string.h>

static char meminfo[128] = "MemTotal: 1 kB\nMemAvailable: 1 kB\n";

void fake_memory_set(uint64_t total_kib, uint64_t free_kib)
{
    (void)snprintf(meminfo, sizeof meminfo, "MemTotal: %llu kB\nMemAvailable: %llu kB\n",
                   (unsigned long long)total_kib, (unsigned long long)free_kib);
}

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    if (strcmp(path, "/proc/meminfo") == 0) {
        return fmemopen(meminfo, strlen(meminfo), mode);
    }
    return __real_fopen(strcmp(path, "/proc/self/cgroup") == 0 ? "/dev/null" : path, mode);
}
