/* common/channel/out_queue.h: bytes that wait for a socket to take them. Private to the channel. */
#ifndef TFE_COMMON_CHANNEL_OUT_QUEUE_H
#define TFE_COMMON_CHANNEL_OUT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

struct out_block;

/* A chain of blocks; nothing is allocated while it is empty. Zeroed, it is empty. */
struct out_queue {
    struct out_block *first;
    struct out_block *last;
    size_t n; /* bytes waiting */
};

static inline bool out_queue_is_empty(const struct out_queue *queue)
{
    return queue->n == 0;
}

/* Room for n bytes in one piece at the end of the queue, to be filled and then added; NULL: no
 * memory. */
uint8_t *out_queue_room(struct out_queue *queue, size_t n);

/* Adds the first n bytes of the room that was taken last. */
void out_queue_add(struct out_queue *queue, size_t n);

/* Writes once, as much as the socket takes. 0: the queue is empty. TFE_EMORE: bytes are left, wait
 * until the socket is writable. TFE_ESYS: errno says why. */
int out_queue_write(struct out_queue *queue, int fd) TFE_MUST_CHECK;

/* Drops all. */
void out_queue_clear(struct out_queue *queue);

#endif
