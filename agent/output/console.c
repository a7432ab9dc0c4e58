/* agent/output/console.c: implementation of console.h. */
#include "agent/output/console.h"

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
#include "agent/output/output.h"
#include "agent/output/output_show.h"
#include "common/base/clock.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/text/escape.h"

/* Maximum size of one write: what a pipe accepts atomically, so that lines of several writers do
 * not mix, and what a writable terminal has space for. A file has no limit. */
#define CHUNK_PIPE ((size_t)PIPE_BUF)
#define CHUNK_TERMINAL ((size_t)256)
#define CHUNK_FILE ((size_t)64 * 1024)

/* Size up to which formatted lines are collected before they are written, and the allocation unit,
 * so that these lines are contiguous. */
#define QUEUE_BYTES ((size_t)64 * 1024)
#define QUEUE_BLOCK ((size_t)80 * 1024)

#define PREFIX_MAX 32 /* for "[evaluator-4294967295] " */

struct console {
    struct output_ring *ring;
    struct output_cursor cursor;
    enum tfe_stream stream;
    int fd;
    bool own;    /* fd was opened here as non-blocking; otherwise its flags must not change */
    bool socket; /* send(2) has a flag for not blocking */
    bool direct; /* a regular file, which accepts everything and which epoll does not support */
    bool dead;   /* no process reads the stream any more */
    bool is_terminal; /* control characters of trainers are escaped */
    size_t chunk;
    struct event *writable; /* pending while data is queued */
    struct evbuffer *queue; /* formatted lines */
    uint64_t lost;          /* lines lost since the last one that was queued */
    struct loss_report loss_report;
    bool was_behind; /* console_is_behind has returned true */
    struct event *caught_up;
    struct tfe_mono moved; /* when the stream last accepted data or had shown all lines */
};

/* Opens the pipe or terminal again, because the given descriptor shares its flags with the shell
 * and all other processes that inherited it. */
static void reopen(struct console *console, int fd)
{
    struct stat st;
    console->fd = fd;
    console->chunk = CHUNK_PIPE;
    if (fstat(fd, &st) != 0) {
        console->dead = true;
        return;
    }
    console->socket = S_ISSOCK(st.st_mode);
    if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)) {
        char path[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        int own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (own >= 0) {
            console->fd = own;
            console->own = true;
        } else if (S_ISCHR(st.st_mode)) {
            console->chunk = CHUNK_TERMINAL;
        }
    } else if (!console->socket) {
        console->direct = true;
        console->chunk = CHUNK_FILE;
    }
}

/* Returns how much of the queue to write at once: complete lines if one fits. */
static size_t portion(const struct console *console)
{
    size_t n = evbuffer_get_length(console->queue);
    if (n <= console->chunk) {
        return n;
    }
    const char *start = (const char *)evbuffer_pullup(console->queue, (ssize_t)console->chunk);
    const char *end = start ? memrchr(start, '\n', console->chunk) : NULL;
    return end ? (size_t)(end - start) + 1 : console->chunk;
}

static ssize_t write_some(const struct console *console, size_t n)
{
    if (console->socket) {
        return send(console->fd, evbuffer_pullup(console->queue, (ssize_t)n), n,
                    MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    if (!console->own && !console->direct) {
        struct pollfd ready = {.fd = console->fd, .events = POLLOUT};
        if (poll(&ready, 1, 0) == 0) {
            errno = EAGAIN;
            return -1;
        }
    }
    return write(console->fd, evbuffer_pullup(console->queue, (ssize_t)n), n);
}

static void count_lost(struct console *console, uint64_t lines)
{
    console->lost += lines;
    loss_add(&console->loss_report, lines, "the reader is too slow");
}

/* Appends "[name] line", after a note if lines before it were lost. */
static void put_line(struct console *console, const struct output_stream *stream, const char *line,
                     size_t n)
{
    char note[96] = "";
    char prefix[PREFIX_MAX];
    int p = snprintf(prefix, sizeof prefix, "[%s] ", stream->label);
    int l = 0;
    if (console->lost) {
        l = snprintf(note, sizeof note,
                     "tfe-agent: %llu lines were lost here: the reader was too slow\n",
                     (unsigned long long)console->lost);
    }
    size_t bytes = (size_t)l + (size_t)p + (console->is_terminal ? ESCAPE_LINE_MAX(n) : n) + 1;
    struct evbuffer_iovec space;
    bool is_first = evbuffer_get_length(console->queue) == 0 && bytes < QUEUE_BLOCK;
    if (evbuffer_reserve_space(console->queue, (ssize_t)(is_first ? QUEUE_BLOCK : bytes), &space,
                               1) != 1) {
        count_lost(console, 1);
        return;
    }
    char *at = mempcpy(space.iov_base, note, (size_t)l);
    at = mempcpy(at, prefix, (size_t)p);
    at = console->is_terminal ? at + escape_line(line, n, at) : mempcpy(at, line, n);
    *at++ = '\n';
    space.iov_len = (size_t)(at - (char *)space.iov_base);
    evbuffer_commit_space(console->queue, &space, 1);
    console->lost = 0;
    loss_end(&console->loss_report);
}

static bool is_shown(const struct console *console, const struct output_record *record)
{
    return record->kind == RECORD_LINES && record->stream->is_shown &&
           record->stream->of.stream == console->stream;
}

/* Formats the next lines of the ring if the queue is empty. Returns the size of the queue. */
static size_t fill(struct console *console)
{
    struct output_cursor *cursor = &console->cursor;
    const struct output_record *record;
    size_t queued = evbuffer_get_length(console->queue);
    if (queued != 0) {
        return queued;
    }
    while (evbuffer_get_length(console->queue) < QUEUE_BYTES && (record = cursor->next)) {
        const char *line = record->bytes + cursor->offset;
        size_t left = record->n - cursor->offset;
        if (left == 0 || !is_shown(console, record)) {
            output_cursor_advance(cursor);
        } else if (console->dead) {
            loss_add(&console->loss_report, output_count_lines(line, left), "it has no reader");
            output_cursor_advance(cursor);
        } else {
            size_t n;
            cursor->offset += output_line(line, left, &n);
            line = output_visible(line, &n);
            put_line(console, record->stream, line, n);
        }
    }
    console->moved = clock_mono(); /* the queue was empty */
    return evbuffer_get_length(console->queue);
}

static bool is_idle(const struct console *console)
{
    return !console->cursor.next && evbuffer_get_length(console->queue) == 0;
}

/* Writes what the stream accepts now. */
static void push(struct console *console)
{
    size_t left;
    while ((left = fill(console)) != 0) {
        ssize_t n = write_some(console, portion(console));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            return;
        }
        if (n < 0) {
            /* A full disk may recover, but a pipe without a reader does not. Training
             * continues in either case. */
            console->dead = errno != ENOSPC && errno != EDQUOT && errno != EIO;
            const char *lines = (const char *)evbuffer_pullup(console->queue, -1);
            loss_add(&console->loss_report, lines ? output_count_lines(lines, left) : 1,
                     strerror(errno));
            n = (ssize_t)left;
        }
        evbuffer_drain(console->queue, (size_t)n);
        console->moved = clock_mono();
    }
}

/* Writes what the stream accepts now, and the rest when it accepts more. */
static void flush(void *ctx)
{
    struct console *console = ctx;
    push(console);
    if (!is_idle(console) && event_add(console->writable, NULL) != 0) {
        /* The descriptor cannot be polled, so write without waiting. */
        console->direct = true;
        push(console);
    }
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct console *console = arg;
    flush(console);
    if (console->was_behind &&
        output_cursor_lag(console->ring, &console->cursor) <= CONSOLE_LAG_MAX / 2) {
        console->was_behind = false;
        event_active(console->caught_up, EV_TIMEOUT, 0);
    }
}

static void on_lost(void *ctx, const struct output_record *record, size_t offset)
{
    struct console *console = ctx;
    if (is_shown(console, record) && offset < record->n) {
        count_lost(console, output_count_lines(record->bytes + offset, record->n - offset));
    }
}

bool console_show_unfinished(struct console *console, const struct output_stream *stream,
                             const char *line, size_t n)
{
    if (!is_idle(console) || console->dead) {
        return false;
    }
    put_line(console, stream, line, n);
    flush(console);
    return true;
}

bool console_is_behind(struct console *console, uint32_t timeout_ms)
{
    console->was_behind = output_cursor_lag(console->ring, &console->cursor) > CONSOLE_LAG_MAX &&
                          tfe_mono_sub(clock_mono(), console->moved) < timeout_ms;
    return console->was_behind;
}

struct console *console_new(const struct output_options *options, enum tfe_stream stream, int fd,
                            struct event *caught_up)
{
    struct console *console = must_alloc(sizeof *console);
    console->ring = options->ring;
    console->stream = stream;
    console->caught_up = caught_up;
    console->loss_report = (struct loss_report){.event = "output_not_taken",
                                                .end_event = "output_taken_again",
                                                .stream = msg_stream_name(stream)};
    console->cursor = (struct output_cursor){.on_more = flush, .on_lost = on_lost, .ctx = console};
    output_cursor_add(options->ring, &console->cursor, NULL);
    reopen(console, fd);
    console->is_terminal = options->show->is_on_terminal || isatty(fd);
    console->moved = clock_mono();
    console->queue = evbuffer_new();
    console->writable = event_new(options->base, console->fd, EV_WRITE, on_writable, console);
    must_succeed(console->queue && console->writable);
    return console;
}

void console_free(struct console *console, uint32_t timeout_ms)
{
    if (!console) {
        return;
    }
    struct tfe_mono give_up = tfe_mono_add(clock_mono(), timeout_ms);
    push(console);
    for (int64_t left; !is_idle(console) && (left = tfe_mono_sub(give_up, clock_mono())) > 0;
         push(console)) {
        struct pollfd ready = {.fd = console->fd, .events = POLLOUT};
        poll(&ready, 1, left < INT_MAX ? (int)left : INT_MAX);
    }
    output_cursor_remove(&console->cursor);
    event_drop(&console->writable);
    if (console->own) {
        close(console->fd);
    }
    evbuffer_free(console->queue);
    free(console);
}
