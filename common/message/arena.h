/* common/message/arena.h: capped bump memory for one decoded frame; reset as a whole. */
#ifndef TFE_COMMON_MESSAGE_ARENA_H
#define TFE_COMMON_MESSAGE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* A frame of 16 KiB can grow 72-fold when parsed (design 3.2); what honest messages
 * need is below 256 KiB. */
#define ARENA_CAP (512 * 1024)

struct arena {
    uint8_t *base;
    size_t used;
    size_t cap;
    bool is_exhausted; /* it has said no since the last reset */
};

/* TFE_ENOMEM. cap is at most ARENA_CAP. */
int arena_init(struct arena *arena, size_t cap) TFE_MUST_CHECK;
void arena_done(struct arena *arena);

/* Aligned for every object type; NULL when the cap is reached. Not zeroed. */
void *arena_take(struct arena *arena, size_t n);

static inline void arena_reset(struct arena *arena)
{
    arena->used = 0;
    arena->is_exhausted = false;
}

#endif
