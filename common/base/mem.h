/* common/base/mem.h: the allocator that is handed in, so that pure code can be made to run out of
 * memory. */
#ifndef TFE_COMMON_BASE_MEM_H
#define TFE_COMMON_BASE_MEM_H

#include <stddef.h>

/* resize(ctx, NULL, n) allocates, resize(ctx, p, n) grows or shrinks, resize(ctx, p, 0) frees and
 * returns NULL. As realloc(3), a failed call returns NULL and leaves p as it was. The struct is
 * borrowed by whoever keeps a pointer to it and must outlive them. */
struct tfe_mem {
    void *(*resize)(void *ctx, void *p, size_t n);
    void *ctx;
};

/* Zeroed memory for count objects of size bytes, or NULL (also when the product overflows).
 * Precondition: count and size are not 0. */
void *mem_new(const struct tfe_mem *mem, size_t count, size_t size);

/* Frees; p may be NULL. */
void mem_free(const struct tfe_mem *mem, void *p);

/* Makes room for at least need objects of size bytes in *array, whose capacity is *cap, growing by
 * half again or more. array: a pointer to a pointer of any type. TFE_ENOMEM: nothing changed. New
 * room is not zeroed. */
int mem_reserve(const struct tfe_mem *mem, void *array, size_t *cap, size_t need, size_t size);

/* Likewise for exactly n objects, where the capacity is kept elsewhere. */
int mem_resize(const struct tfe_mem *mem, void *array, size_t n, size_t size);

#endif
