/* common/net/heap.c: malloc(3) behind struct tfe_mem. */
#include "common/net/heap.h"

#include <stdlib.h>

static void *resize(void *ctx, void *p, size_t n)
{
    (void)ctx;
    if (n == 0) {
        free(p);
        return NULL;
    }
    return realloc(p, n);
}

const struct tfe_mem heap_mem = {.resize = resize};
