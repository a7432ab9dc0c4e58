/* tests/unit/base/flaky.h: an allocator that counts, and fails when it is told to. */
#ifndef TFE_TESTS_UNIT_BASE_FLAKY_H
#define TFE_TESTS_UNIT_BASE_FLAKY_H

#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

struct flaky {
    uint64_t asked;   /* calls that wanted memory */
    uint64_t fail_at; /* this one of them fails, counted from 1; 0 none */
    int64_t blocks;   /* alive */
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
        /* Always moves: whoever kept a pointer into the old block is found out. */
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
