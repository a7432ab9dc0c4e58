/* common/channel/out_queue.h: queue of bytes to be written to a socket. Private to the channel. */
#ifndef TFE_COMMON_CHANNEL_OUT_QUEUE_H
#define TFE_COMMON_CHANNEL_OUT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

struct out_block;

/* A list of blocks; an empty queue has none. Zeroed: empty. */
struct out_queue {
    struct out_block *first;
    struct out_block *last;
    size_t n; /* number of queued bytes */
};

static inline bool out_queue_is_empty(const struct out_queue *queue)
{
    return queue->n == 0;
}

/* Returns space for n contiguous bytes at the end of the queue, to be filled and then added, or
 * NULL if out of memory. */
uint8_t *out_queue_reserve(struct out_queue *queue, size_t n);

/* Adds the first n bytes of the space returned by the last out_queue_reserve. */
void out_queue_add(struct out_queue *queue, size_t n);

/* Writes once, as much as the socket accepts. Returns 0 if the queue is empty, TFE_EMORE if bytes
 * remain (wait until the socket is writable), TFE_ESYS with errno set. */
int out_queue_write(struct out_queue *queue, int fd) TFE_MUST_CHECK;

/* Drops all queued bytes. */
void out_queue_clear(struct out_queue *queue);

#endif
