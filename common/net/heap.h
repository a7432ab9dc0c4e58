/* common/net/heap.h: the process's own heap, as the allocator that cores are handed. */
#ifndef TFE_COMMON_NET_HEAP_H
#define TFE_COMMON_NET_HEAP_H

#include "common/base/mem.h"

extern const struct tfe_mem heap_mem;

#endif
