/* tests/unit/base/flaky.h: an allocator that counts, and fails on request. */
#ifndef TFE_TESTS_UNIT_BASE_FLAKY_H
#define TFE_TESTS_UNIT_BASE_FLAKY_H

#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

struct flaky {
    uint64_t asked;   /* number of allocation requests */
    uint64_t fail_at; /* number of the request that fails, from 1; 0 for none */
    int64_t blocks;   /* allocated blocks */
};

static inline void *flaky_resize(void *ctx, void *p, size_t n)
{
    struct flaky *flaky = ctx;
    if (n == 0) {
        flaky->blocks -= p != NULL;
        free(p);
        return NULL;
    }
    if (++flaky->asked == flaky->fail_at) {
        return NULL;
    }
    if (p) {
        /* Always moves the block, so that a stale pointer into the old one is detected. */
        void *fresh = malloc(n);
        if (!fresh) {
            abort();
        }
        const size_t was = malloc_usable_size(p);
        memcpy(fresh, p, was < n ? was : n);
        memset(p, 0x5a, was);
        free(p);
        return fresh;
    }
    flaky->blocks++;
    void *fresh = malloc(n);
    if (!fresh) {
        abort();
    }
    return fresh;
}

static inline struct tfe_mem flaky_mem(struct flaky *flaky)
{
    return (struct tfe_mem){.resize = flaky_resize, .ctx = flaky};
}

#endif
