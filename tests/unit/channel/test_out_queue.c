/* tests/unit/channel/test_out_queue.c: an output queue on a socket that accepts a few bytes at a
 * time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/channel/out_queue.h"
#include "tests/unit/test_runner.h"

/* Returns the expected byte at a position of the stream. */
static uint8_t byte_at(size_t position)
{
    return (uint8_t)(position * 7 + position / 256);
}

static void add(struct out_queue *queue, size_t *position, size_t n)
{
    uint8_t *room = out_queue_reserve(queue, n);
    assert_non_null(room);
    for (size_t i = 0; i < n; i++) {
        room[i] = byte_at((*position)++);
    }
    out_queue_add(queue, n);
}

/* Reads up to most bytes and checks that they continue the stream. */
static size_t take(int fd, size_t *position, size_t max)
{
    uint8_t bytes[4096];
    assert_true(max <= sizeof bytes);
    const ssize_t got = recv(fd, bytes, max, MSG_DONTWAIT);
    for (ssize_t i = 0; i < got; i++) {
        assert_int_equal(bytes[i], byte_at((*position)++));
    }
    return got > 0 ? (size_t)got : 0;
}

static void make_pair(int ends[2])
{
    const int small = 1; /* the kernel raises this to its minimum */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
}

TEST(out_queue, what_goes_in_comes_out_in_order_in_whatever_pieces)
{
    int ends[2];
    make_pair(ends);
    struct out_queue queue = {0};
    size_t in = 0;
    size_t out = 0;
    unsigned pieces = 0;
    for (unsigned round = 0; round < 3000; round++) {
        const size_t n = 1 + (round * 2654435761u >> 8) % (round % 50 == 0 ? 16402 : 300);
        add(&queue, &in, n);
        assert_true(queue.n <= in);
        const int rc = out_queue_write(&queue, ends[0]);
        assert_true(rc == 0 || rc == TFE_EMORE);
        assert_int_equal(rc == 0, out_queue_is_empty(&queue));
        pieces += take(ends[1], &out, 1 + round % 700) > 0;
    }
    for (unsigned i = 0; i < 1000000 && out < in; i++) {
        (void)!out_queue_write(&queue, ends[0]);
        (void)take(ends[1], &out, 997);
    }
    assert_int_equal(out, in);
    assert_true(pieces > 1000);
    assert_true(out_queue_is_empty(&queue));
    assert_int_equal(queue.n, 0);
    assert_null(queue.first);
    assert_null(queue.last);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(close(ends[1]), 0);
}

TEST(out_queue, what_is_dropped_is_gone)
{
    struct out_queue queue = {0};
    size_t in = 0;
    add(&queue, &in, 10);
    add(&queue, &in, 20000);
    assert_int_equal(queue.n, 20010);
    out_queue_clear(&queue);
    assert_true(out_queue_is_empty(&queue));
    out_queue_clear(&queue);
}

TEST(out_queue, room_that_is_not_used_costs_nothing)
{
    int ends[2];
    make_pair(ends);
    struct out_queue queue = {0};
    assert_non_null(out_queue_reserve(&queue, 100));
    assert_true(out_queue_is_empty(&queue));
    assert_int_equal(out_queue_write(&queue, ends[0]), 0);
    size_t in = 0;
    size_t out = 0;
    add(&queue, &in, 5);
    assert_int_equal(out_queue_write(&queue, ends[0]), 0);
    assert_int_equal(take(ends[1], &out, 100), 5);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(close(ends[1]), 0);
}

TEST(out_queue, a_reader_that_is_gone_is_an_error_and_no_signal)
{
    int ends[2];
    make_pair(ends);
    struct out_queue queue = {0};
    size_t in = 0;
    add(&queue, &in, 5);
    assert_int_equal(close(ends[1]), 0);
    assert_int_equal(out_queue_write(&queue, ends[0]), TFE_ESYS);
    assert_int_equal(errno, EPIPE);
    out_queue_clear(&queue);
    assert_int_equal(close(ends[0]), 0);
}
