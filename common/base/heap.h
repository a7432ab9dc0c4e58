/* common/base/heap.h: the process heap as the allocator for pure cores, and allocations that must
 * succeed. */
#ifndef TFE_COMMON_BASE_HEAP_H
#define TFE_COMMON_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/mem.h"

extern const struct tfe_mem heap_mem;

/* --- start-up allocations without which the program cannot run -------------------------------- */

/* Returns n zeroed bytes for free(3), never NULL. If no memory is left, prints an error to stderr
 * and exits with status 1. */
void *must_alloc(size_t n) __attribute__((returns_nonnull, malloc));

/* Exits as must_alloc does if is_made is false, for objects that other allocators make. */
void must_succeed(bool is_made);

#endif
