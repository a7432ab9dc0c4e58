/* tests/crash/loaded_dice.c: preloaded into programs of ours, makes names for jobs that others
 * have.
 *
 * LOADED_DICE=N   the first N times that JOB_NAME_RANDOM random bytes are wanted they are zeros.
 * All other randomness, that of keys, is libsodium's. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/job_name.h"

void randombytes_buf(void *buffer, size_t size);

void randombytes_buf(void *buffer, size_t size)
{
    static long left = -1;
    if (left < 0) {
        const char *text = getenv("LOADED_DICE");
        left = text ? strtol(text, NULL, 10) : 0;
    }
    if (size == JOB_NAME_RANDOM && left > 0) {
        left--;
        memset(buffer, 0, size);
        return;
    }
    void (*own)(void *buffer, size_t size);
    *(void **)&own = dlsym(RTLD_NEXT, "randombytes_buf");
    own(buffer, size);
}
