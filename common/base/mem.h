/* common/base/mem.h: an injected allocator, so that tests can make pure code run out of memory. */
#ifndef TFE_COMMON_BASE_MEM_H
#define TFE_COMMON_BASE_MEM_H

#include <stddef.h>

/* resize(ctx, NULL, n) allocates, resize(ctx, p, n) grows or shrinks, resize(ctx, p, 0) frees and
 * returns NULL. As with realloc(3), a failed call returns NULL and leaves p unchanged. The struct
 * is borrowed and must outlive all objects that hold a pointer to it. */
struct tfe_mem {
    void *(*resize)(void *ctx, void *p, size_t n);
    void *ctx;
};

/* Returns zeroed memory for count objects of size bytes, or NULL (also on overflow). Precondition:
 * count and size are not 0. */
void *mem_new(const struct tfe_mem *mem, size_t count, size_t size);

/* Frees p, which may be NULL. */
void mem_free(const struct tfe_mem *mem, void *p);

/* Grows *array, whose capacity is *cap, to at least need objects of size bytes, by half of its
 * capacity or more. array points to a pointer of any type. New elements are not zeroed. Returns
 * TFE_ENOMEM without a change if out of memory. */
int mem_reserve(const struct tfe_mem *mem, void *array, size_t *cap, size_t need, size_t size);

/* Resizes *array to exactly n objects; otherwise as mem_reserve. The caller stores the capacity. */
int mem_resize(const struct tfe_mem *mem, void *array, size_t n, size_t size);

#endif
