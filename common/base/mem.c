/* common/base/mem.c: helpers on top of an injected allocator. */
#include "common/base/mem.h"

#include <stdint.h>
#include <string.h>

#include "common/base/error.h"

void *mem_new(const struct tfe_mem *mem, size_t count, size_t size)
{
    if (count > SIZE_MAX / size) {
        return NULL;
    }
    void *p = mem->resize(mem->ctx, NULL, count * size);
    if (p) {
        memset(p, 0, count * size);
    }
    return p;
}

void mem_free(const struct tfe_mem *mem, void *p)
{
    if (p) {
        mem->resize(mem->ctx, p, 0);
    }
}

int mem_reserve(const struct tfe_mem *mem, void *array, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap) {
        return 0;
    }
    size_t grown = *cap + *cap / 2;
    if (grown < need) {
        grown = need;
    }
    int rc = mem_resize(mem, array, grown, size);
    *cap = rc == 0 ? grown : *cap;
    return rc;
}

int mem_resize(const struct tfe_mem *mem, void *array, size_t n, size_t size)
{
    void *p; /* copied, because the array may have any pointer type */
    memcpy(&p, array, sizeof(p));
    p = n > SIZE_MAX / size ? NULL : mem->resize(mem->ctx, p, n * size);
    if (!p) {
        return TFE_ENOMEM;
    }
    memcpy(array, &p, sizeof(p));
    return 0;
}
