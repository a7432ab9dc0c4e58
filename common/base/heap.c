/* common/base/heap.c: the process heap as struct tfe_mem. */
#include "common/base/heap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static void *resize(void *ctx, void *p, size_t n)
{
    if (n == 0) {
        free(p);
        return NULL;
    }
    return realloc(p, n);
}

const struct tfe_mem heap_mem = {.resize = resize};

void must_succeed(bool is_made)
{
    if (!is_made) {
        (void)fprintf(stderr, "%s: cannot continue: out of memory\n",
                      program_invocation_short_name);
        exit(EXIT_FAILURE);
    }
}

void *must_alloc(size_t n)
{
    void *part = calloc(1, n);
    must_succeed(part);
    return part;
}
