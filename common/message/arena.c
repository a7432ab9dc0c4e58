/* common/message/arena.c: capped bump allocator for one decoded frame. */
#include "common/message/arena.h"

#include <stdalign.h>
#include <stdlib.h>

#define ARENA_ALIGN alignof(max_align_t)

int arena_init(struct arena *arena, size_t cap)
{
    *arena = (struct arena){0};
    if (cap == 0 || cap > ARENA_CAP) {
        return TFE_EINVAL;
    }
    arena->base = malloc(cap);
    if (!arena->base) {
        return TFE_ENOMEM;
    }
    arena->cap = cap;
    return 0;
}

void arena_done(struct arena *arena)
{
    if (arena) {
        free(arena->base);
        *arena = (struct arena){0};
    }
}

/* malloc aligns the base, so aligning the offset is enough. protobuf-c treats NULL as an error even
 * for a request of 0 bytes, so n == 0 is no special case. */
void *arena_alloc(struct arena *arena, size_t n)
{
    size_t start = (arena->used + (ARENA_ALIGN - 1)) / ARENA_ALIGN * ARENA_ALIGN;
    if (!arena->base || start > arena->cap || n > arena->cap - start) {
        arena->is_exhausted = true;
        return NULL;
    }
    arena->used = start + n;
    return arena->base + start;
}
