/* agent/output/output_drain.c: writes whole lines to a shared stream without ever waiting for it.
 */
#include "agent/output/output_drain.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/net/clock.h"

/* Written at once: what a pipe takes whole, so that lines of several writers stay whole, and what a
 * terminal has room for when it says that it has. A file has no such limits. */
#define CHUNK_PIPE ((size_t)PIPE_BUF)
#define CHUNK_TERMINAL ((size_t)256)
#define CHUNK_FILE ((size_t)64 * 1024)

#define PREFIX_MAX 16 /* "[4294967295] " */

struct drain {
    int fd;
    bool
        own; /* opened here, non-blocking; else fd is shared and its flags are not ours to change */
    bool socket; /* send(2) can say "do not wait" for one call */
    bool direct; /* a file: always takes everything, and epoll does not know it */
    bool dead;   /* nobody reads it any more */
    size_t chunk;
    struct event *writable; /* pending while something is queued */
    drain_room_fn *on_room;
    void *ctx;
    char *queue; /* the bytes at .. at + n */
    size_t at;
    size_t n;
    size_t cap;
    uint64_t lost; /* lines that found no room since the last one that did */
    uint32_t patience_ms;
    struct tfe_mono moved; /* when it last took something, or had nothing to take */
};

/* A descriptor is shared with the shell and with everybody else who inherited it, flags included. A
 * new open of the same pipe or terminal has flags of its own. */
static void drain_take_fd(struct drain *drain, int fd)
{
    struct stat st;
    drain->fd = fd;
    drain->chunk = CHUNK_PIPE;
    if (fstat(fd, &st) != 0) {
        drain->dead = true;
        return;
    }
    drain->socket = S_ISSOCK(st.st_mode);
    if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)) {
        char path[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        int own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (own >= 0) {
            drain->fd = own;
            drain->own = true;
        } else if (S_ISCHR(st.st_mode)) {
            drain->chunk = CHUNK_TERMINAL;
        }
    } else if (!drain->socket) {
        drain->direct = true;
        drain->chunk = CHUNK_FILE;
    }
}

/* How much of the queue to write at once: whole lines if one fits. */
static size_t drain_portion(const struct drain *drain)
{
    if (drain->n <= drain->chunk) {
        return drain->n;
    }
    const char *start = drain->queue + drain->at;
    const char *end = memrchr(start, '\n', drain->chunk);
    return end ? (size_t)(end - start) + 1 : drain->chunk;
}

static ssize_t drain_write(const struct drain *drain, size_t n)
{
    const char *start = drain->queue + drain->at;
    if (drain->socket) {
        return send(drain->fd, start, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    if (!drain->own && !drain->direct) {
        struct pollfd ready = {.fd = drain->fd, .events = POLLOUT};
        if (poll(&ready, 1, 0) == 0) {
            errno = EAGAIN;
            return -1;
        }
    }
    return write(drain->fd, start, n);
}

/* Writes what the stream takes now. */
static void drain_push(struct drain *drain)
{
    while (drain->n != 0) {
        ssize_t n = drain->dead ? (ssize_t)drain->n : drain_write(drain, drain_portion(drain));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            return;
        }
        if (n < 0) {
            /* A full disk may empty again; a pipe without a reader stays one. Training goes on. */
            drain->dead = errno != ENOSPC && errno != EDQUOT && errno != EIO;
            n = (ssize_t)drain->n;
        }
        drain->at += (size_t)n;
        drain->n -= (size_t)n;
        drain->moved = clock_mono();
    }
    drain->at = 0;
    if (drain->cap > 2 * DRAIN_QUEUE_MAX) { /* it was an exception */
        free(drain->queue);
        drain->queue = NULL;
        drain->cap = 0;
    }
}

/* Room for more bytes at the end of the queue. False: no memory. */
static bool drain_reserve(struct drain *drain, size_t more)
{
    if (drain->at != 0) {
        memmove(drain->queue, drain->queue + drain->at, drain->n);
        drain->at = 0;
    }
    if (drain->n + more <= drain->cap) {
        return true;
    }
    size_t cap = drain->cap * 2 > drain->n + more ? drain->cap * 2 : drain->n + more;
    char *grown = realloc(drain->queue, cap);
    if (!grown) {
        return false;
    }
    drain->queue = grown;
    drain->cap = cap;
    return true;
}

static void drain_append(struct drain *drain, const char *bytes, size_t n)
{
    memcpy(drain->queue + drain->at + drain->n, bytes, n);
    drain->n += n;
}

bool drain_line(struct drain *drain, uint32_t rank, const char *line, size_t n, size_t limit)
{
    char lost[96] = "";
    char prefix[PREFIX_MAX];
    int p = snprintf(prefix, sizeof prefix, "[%u] ", (unsigned)rank);
    int l = 0;
    if (drain->lost) {
        l = snprintf(lost, sizeof lost, "tfe-agent: %llu lines were lost here: nobody took them\n",
                     (unsigned long long)drain->lost);
    }
    size_t bytes = (size_t)l + (size_t)p + n + 1;
    if (drain->n == 0) {
        drain->moved = clock_mono();
    }
    if (drain->n + bytes > limit) {
        if (limit == DRAIN_QUEUE_HARD_MAX ||
            tfe_mono_sub(clock_mono(), drain->moved) < drain->patience_ms) {
            return false;
        }
        drain->lost++;
        return true;
    }
    if (!drain_reserve(drain, bytes)) {
        drain->lost++; /* waiting would not end: an empty queue never gets more room */
        return true;
    }
    drain_append(drain, lost, (size_t)l);
    drain_append(drain, prefix, (size_t)p);
    drain_append(drain, line, n);
    drain_append(drain, "\n", 1);
    drain->lost = 0;
    return true;
}

void drain_lose_line(struct drain *drain)
{
    drain->lost++;
}

void drain_flush(struct drain *drain)
{
    drain_push(drain);
    if (drain->n != 0 && event_add(drain->writable, NULL) != 0) {
        /* Cannot be watched, so it cannot be waited for either. */
        drain->direct = true;
        drain_push(drain);
    }
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct drain *drain = arg;
    (void)fd;
    (void)what;
    drain_flush(drain);
    if (drain->n <= DRAIN_QUEUE_MAX / 2) {
        drain->on_room(drain->ctx, drain);
        drain_flush(drain);
    }
}

int drain_new(struct event_base *base, int fd, uint32_t patience_ms, drain_room_fn *on_room,
              void *ctx, struct drain **ret)
{
    struct drain *drain = calloc(1, sizeof *drain);
    if (!drain) {
        return TFE_ENOMEM;
    }
    drain_take_fd(drain, fd);
    drain->patience_ms = patience_ms;
    drain->moved = clock_mono();
    drain->on_room = on_room;
    drain->ctx = ctx;
    drain->writable = event_new(base, drain->fd, EV_WRITE, on_writable, drain);
    if (!drain->writable) {
        drain_free(drain, 0);
        return TFE_ENOMEM;
    }
    *ret = drain;
    return 0;
}

void drain_free(struct drain *drain, uint32_t timeout_ms)
{
    if (!drain) {
        return;
    }
    struct tfe_mono give_up = tfe_mono_add(clock_mono(), timeout_ms);
    drain_push(drain);
    for (int64_t left; drain->n != 0 && (left = tfe_mono_sub(give_up, clock_mono())) > 0;
         drain_push(drain)) {
        struct pollfd ready = {.fd = drain->fd, .events = POLLOUT};
        poll(&ready, 1, left < INT_MAX ? (int)left : INT_MAX);
    }
    if (drain->writable) {
        event_free(drain->writable);
    }
    if (drain->own) {
        close(drain->fd);
    }
    free(drain->queue);
    free(drain);
}
