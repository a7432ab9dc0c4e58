/* common/channel/out_queue.c: a list of blocks, written with one sendmsg(2) at a time. */
#include "common/channel/out_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Size of the first block. A renewal answer has about 30 bytes, and most queues hold only a few of
 * those. */
#define OUT_FIRST_BLOCK 192
/* Size of further blocks. */
#define OUT_BLOCK 8192
/* Blocks per write: more than half a megabyte of tables, which no socket accepts at once. */
#define OUT_IOV 64

struct out_block {
    struct out_block *next;
    size_t head; /* offset of the first byte not yet sent; bytes[head .. n) are queued */
    size_t n;
    size_t cap;
    uint8_t bytes[];
};

uint8_t *out_queue_reserve(struct out_queue *queue, size_t n)
{
    struct out_block *block = queue->last;
    if (block && block->cap - block->n >= n) {
        return block->bytes + block->n;
    }
    const size_t usual = block ? OUT_BLOCK : OUT_FIRST_BLOCK;
    const size_t cap = n > usual ? n : usual;
    block = malloc(sizeof *block + cap);
    if (!block) {
        return NULL;
    }
    *block = (struct out_block){.cap = cap};
    if (queue->last) {
        queue->last->next = block;
    } else {
        queue->first = block;
    }
    queue->last = block;
    return block->bytes;
}

void out_queue_add(struct out_queue *queue, size_t n)
{
    queue->last->n += n;
    queue->n += n;
}

/* Removes n sent bytes from the front, and blocks that have become empty. */
static void out_queue_drop(struct out_queue *queue, size_t n)
{
    while (queue->first) {
        struct out_block *block = queue->first;
        const size_t waiting = block->n - block->head;
        const size_t take = n < waiting ? n : waiting;
        block->head += take;
        n -= take;
        queue->n -= take;
        if (block->head < block->n) {
            return;
        }
        queue->first = block->next;
        if (!queue->first) {
            queue->last = NULL;
        }
        free(block);
    }
}

int out_queue_write(struct out_queue *queue, int fd)
{
    if (out_queue_is_empty(queue)) {
        return 0;
    }
    struct iovec iov[OUT_IOV];
    size_t iov_n = 0;
    for (struct out_block *b = queue->first; b && iov_n < OUT_IOV; b = b->next) {
        iov[iov_n++] = (struct iovec){.iov_base = b->bytes + b->head, .iov_len = b->n - b->head};
    }
    const struct msghdr message = {.msg_iov = iov, .msg_iovlen = iov_n};
    const ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
        return errno == EAGAIN || errno == EINTR ? TFE_EMORE : TFE_ESYS;
    }
    out_queue_drop(queue, (size_t)sent);
    return out_queue_is_empty(queue) ? 0 : TFE_EMORE;
}

void out_queue_clear(struct out_queue *queue)
{
    while (queue->first) {
        struct out_block *block = queue->first;
        queue->first = block->next;
        free(block);
    }
    *queue = (struct out_queue){0};
}
