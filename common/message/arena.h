/* common/message/arena.h: capped bump allocator for one decoded frame; reset as a whole. */
#ifndef TFE_COMMON_MESSAGE_ARENA_H
#define TFE_COMMON_MESSAGE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* Cap of one decoded frame. A frame of 16 KiB can grow 72-fold when parsed (design 3.2); valid
 * messages need less than 256 KiB. */
#define ARENA_CAP (512 * 1024)

struct arena {
    uint8_t *base;
    size_t used;
    size_t cap;
    bool is_exhausted; /* an allocation has failed since the last reset */
};

/* Allocates an arena of cap bytes, at most ARENA_CAP. Returns 0 or TFE_ENOMEM. */
int arena_init(struct arena *arena, size_t cap) TFE_MUST_CHECK;
void arena_done(struct arena *arena);

/* Returns n bytes aligned for every object type and not zeroed, or NULL if the cap is reached. */
void *arena_alloc(struct arena *arena, size_t n);

static inline void arena_reset(struct arena *arena)
{
    arena->used = 0;
    arena->is_exhausted = false;
}

#endif
