/* common/base/heap.h: the process's own heap, as the allocator that cores are handed. */
#ifndef TFE_COMMON_BASE_HEAP_H
#define TFE_COMMON_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/mem.h"

extern const struct tfe_mem heap_mem;

/* --- what a program is made of, mostly at its start, and cannot run without --- */

/* Zeroed memory, never NULL: without it the process says so on stderr and ends with status 1. For
 * free(3). */
void *part_new(size_t n) __attribute__((returns_nonnull, malloc));

/* The same end where something else has not been made for want of memory. */
void part_must(bool is_made);

#endif
