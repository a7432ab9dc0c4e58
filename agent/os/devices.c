/* agent/os/devices.c: implementation of devices.h. */
#include "agent/os/devices.h"

#include <glob.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint32_t devices_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        return (uint32_t)CPU_COUNT(&set);
    }
    /* the machine has more processors than a cpu_set_t holds */
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
}

uint32_t devices_gpus(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    uint32_t n = 0;
    if (visible) {
        /* CUDA stops at the first invalid name, so "-1" hides all GPUs. */
        for (const char *at = visible; *at && *at != '-' && *at != ','; n++) {
            at += strcspn(at, ",");
            at += *at == ',';
        }
        return n;
    }
    glob_t found;
    if (glob("/dev/nvidia[0-9]*", GLOB_NOSORT, NULL, &found) == 0) {
        n = (uint32_t)found.gl_pathc;
        globfree(&found);
    }
    return n;
}
