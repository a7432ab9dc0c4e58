/* agent/output/output_drain.c: implementation of output_drain.h. */
#include "agent/output/output_drain.h"

#include <errno.h>
#include <event2/buffer.h>
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

#include "agent/output/loss_report.h"
#include "common/base/clock.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/cli/log.h"
#include "common/text/escape.h"

/* Maximum size of one write: what a pipe accepts atomically, so that lines of several writers do
 * not mix, and what a writable terminal has space for. A file has no limit. */
#define CHUNK_PIPE ((size_t)PIPE_BUF)
#define CHUNK_TERMINAL ((size_t)256)
#define CHUNK_FILE ((size_t)64 * 1024)

/* Allocation unit of the queue, so that the data of one read is contiguous. */
#define QUEUE_BLOCK ((size_t)80 * 1024)

#define PREFIX_MAX 32 /* for "[evaluator-4294967295] " */

struct drain {
    int fd;
    const char *name;
    bool
        /* opened here as non-blocking; otherwise fd is shared and its flags must not change */
        own;
    bool socket; /* send(2) has a flag for not blocking */
    bool direct; /* a regular file, which accepts everything and which epoll does not support */
    bool dead;   /* no process reads the stream any more */
    bool is_terminal; /* control characters of trainers are escaped */
    size_t chunk;
    struct event *writable; /* pending while data is queued */
    drain_space_fn *on_space;
    void *ctx;
    struct evbuffer *queue;
    uint64_t lost; /* lines discarded since the last one that was queued */
    struct loss_report loss_report;
    uint32_t patience_ms;
    struct tfe_mono moved; /* when the stream last accepted data or the queue was empty */
};

/* Opens the pipe or terminal again, because the given descriptor shares its flags with the shell
 * and all other processes that inherited it. */
static void drain_reopen(struct drain *drain, int fd)
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

/* Returns how much of the queue to write at once: complete lines if one fits. */
static size_t drain_portion(const struct drain *drain)
{
    size_t n = evbuffer_get_length(drain->queue);
    if (n <= drain->chunk) {
        return n;
    }
    const char *start = (const char *)evbuffer_pullup(drain->queue, (ssize_t)drain->chunk);
    const char *end = start ? memrchr(start, '\n', drain->chunk) : NULL;
    return end ? (size_t)(end - start) + 1 : drain->chunk;
}

static ssize_t drain_write(const struct drain *drain, size_t n)
{
    if (drain->socket) {
        return send(drain->fd, evbuffer_pullup(drain->queue, (ssize_t)n), n,
                    MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    if (!drain->own && !drain->direct) {
        struct pollfd ready = {.fd = drain->fd, .events = POLLOUT};
        if (poll(&ready, 1, 0) == 0) {
            errno = EAGAIN;
            return -1;
        }
    }
    return write(drain->fd, evbuffer_pullup(drain->queue, (ssize_t)n), n);
}

static void log_lost(struct drain *drain, uint64_t lines, const char *reason)
{
    if (loss_add(&drain->loss_report, lines)) {
        log_warn("output_not_taken", LOG_S("stream", drain->name),
                 LOG_U("lost_lines", drain->loss_report.lines), LOG_S("reason", reason));
    }
}

static void log_recovered(struct drain *drain)
{
    uint64_t lines;
    if (loss_end(&drain->loss_report, &lines)) {
        log_info("output_taken_again", LOG_S("stream", drain->name), LOG_U("lost_lines", lines));
    }
}

static uint64_t lines_queued(const struct drain *drain)
{
    uint64_t n = 0;
    struct evbuffer_ptr at = evbuffer_search(drain->queue, "\n", 1, NULL);
    for (; at.pos >= 0; at = evbuffer_search(drain->queue, "\n", 1, &at)) {
        n++;
        if (evbuffer_ptr_set(drain->queue, &at, 1, EVBUFFER_PTR_ADD) != 0) {
            break;
        }
    }
    return n;
}

/* Writes what the stream accepts now. */
static void drain_push(struct drain *drain)
{
    for (size_t left; (left = evbuffer_get_length(drain->queue)) != 0;) {
        ssize_t n = drain_write(drain, drain_portion(drain));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            return;
        }
        if (n < 0) {
            /* A full disk may recover, but a pipe without a reader does not. Training
             * continues in either case. */
            drain->dead = errno != ENOSPC && errno != EDQUOT && errno != EIO;
            log_lost(drain, lines_queued(drain), strerror(errno));
            n = (ssize_t)left;
        }
        evbuffer_drain(drain->queue, (size_t)n);
        drain->moved = clock_mono();
    }
}

void drain_discard_line(struct drain *drain)
{
    drain->lost++;
    log_lost(drain, 1, "nobody takes them");
}

bool drain_line(struct drain *drain, const char *name, const char *line, size_t n, size_t limit)
{
    char lost[96] = "";
    char prefix[PREFIX_MAX];
    int p = snprintf(prefix, sizeof prefix, "[%s] ", name);
    int l = 0;
    if (drain->lost) {
        l = snprintf(lost, sizeof lost, "tfe-agent: %llu lines were lost here: nobody took them\n",
                     (unsigned long long)drain->lost);
    }
    if (drain->dead) {
        log_lost(drain, 1, "nobody reads it any more");
        return true;
    }
    size_t bytes = (size_t)l + (size_t)p + (drain->is_terminal ? ESCAPE_LINE_MAX(n) : n) + 1;
    size_t queued = evbuffer_get_length(drain->queue);
    if (queued == 0) {
        drain->moved = clock_mono();
    }
    if (queued + bytes > limit) {
        if (limit == DRAIN_QUEUE_HARD_MAX ||
            tfe_mono_sub(clock_mono(), drain->moved) < drain->patience_ms) {
            return false;
        }
        drain_discard_line(drain);
        return true;
    }
    struct evbuffer_iovec room;
    size_t piece = queued == 0 && bytes < QUEUE_BLOCK ? QUEUE_BLOCK : bytes;
    if (evbuffer_reserve_space(drain->queue, (ssize_t)piece, &room, 1) != 1) {
        drain_discard_line(drain); /* an empty queue cannot get more memory by waiting */
        return true;
    }
    char *at = mempcpy(room.iov_base, lost, (size_t)l);
    at = mempcpy(at, prefix, (size_t)p);
    at = drain->is_terminal ? at + escape_line(line, n, at) : mempcpy(at, line, n);
    *at++ = '\n';
    room.iov_len = (size_t)(at - (char *)room.iov_base);
    evbuffer_commit_space(drain->queue, &room, 1);
    drain->lost = 0;
    log_recovered(drain);
    return true;
}

void drain_flush(struct drain *drain)
{
    drain_push(drain);
    if (evbuffer_get_length(drain->queue) != 0 && event_add(drain->writable, NULL) != 0) {
        /* The descriptor cannot be polled, so write without waiting. */
        drain->direct = true;
        drain_push(drain);
    }
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct drain *drain = arg;
    drain_flush(drain);
    if (evbuffer_get_length(drain->queue) <= DRAIN_QUEUE_MAX / 2) {
        drain->on_space(drain->ctx, drain);
        drain_flush(drain);
    }
}

struct drain *drain_new(struct event_base *base, int fd, const char *name, uint32_t patience_ms,
                        drain_space_fn *on_space, void *ctx)
{
    struct drain *drain = must_alloc(sizeof *drain);
    drain->name = name;
    drain_reopen(drain, fd);
    drain->is_terminal = isatty(fd);
    drain->patience_ms = patience_ms;
    drain->moved = clock_mono();
    drain->on_space = on_space;
    drain->ctx = ctx;
    drain->queue = evbuffer_new();
    drain->writable = event_new(base, drain->fd, EV_WRITE, on_writable, drain);
    must_succeed(drain->queue && drain->writable);
    return drain;
}

void drain_free(struct drain *drain, uint32_t timeout_ms)
{
    if (!drain) {
        return;
    }
    struct tfe_mono give_up = tfe_mono_add(clock_mono(), timeout_ms);
    drain_push(drain);
    for (int64_t left;
         evbuffer_get_length(drain->queue) != 0 && (left = tfe_mono_sub(give_up, clock_mono())) > 0;
         drain_push(drain)) {
        struct pollfd ready = {.fd = drain->fd, .events = POLLOUT};
        poll(&ready, 1, left < INT_MAX ? (int)left : INT_MAX);
    }
    event_drop(&drain->writable);
    if (drain->own) {
        close(drain->fd);
    }
    evbuffer_free(drain->queue);
    free(drain);
}
