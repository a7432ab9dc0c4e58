/* agent/output/output.c: pipes from trainers in, whole lines with a rank out, and the last ones kept. */
#include "agent/output/output.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/output/output_drain.h"
#include "common/base/msg.h"

#define LINE_BYTES_MAX ((size_t)64 * 1024)
#define TAIL_LINES 20

/* Read from the pipes of an ended trainer, while something it left behind may go on writing. */
#define CLOSE_READ_MAX ((size_t)1024 * 1024)

enum { STDOUT_STREAM, STDERR_STREAM, STREAMS };

struct output_sink {
    struct event_base *base;
    struct drain *drains[STREAMS];
    struct output *outputs; /* all that live */
};

/* One pipe of a trainer. */
struct source {
    struct output *output;
    struct drain *drain;
    int fd; /* -1: closed */
    struct event *readable;
    bool paused; /* the drain has no room: not read */
    char *text;  /* LINE_BYTES_MAX; what is read and not moved on lies at .. at + n */
    size_t at;
    size_t n;
};

struct output {
    struct output_sink *sink;
    struct output *next;
    uint32_t rank;
    struct source sources[STREAMS];
    char ring[MSG_TAIL_MAX]; /* the last bytes of stderr, written counts all there were */
    uint64_t written;
    char *tail; /* MSG_TAIL_MAX; made from the ring when asked for */
};

/* --- the tail -----------------------------------------------------------------------------------
 */

static void tail_add(struct output *output, const char *bytes, size_t n)
{
    for (size_t i = n > sizeof output->ring ? n - sizeof output->ring : 0; i < n; i++) {
        output->ring[output->written++ % sizeof output->ring] = bytes[i];
    }
}

static char ring_at(const struct output *output, uint64_t at)
{
    return output->ring[at % sizeof output->ring];
}

/* The end of the ring is the newline of the last line; it is not part of the tail. */
static void tail_make(const struct output *output)
{
    output->tail[0] = '\0';
    if (output->written == 0) {
        return;
    }
    uint64_t end = output->written - 1;
    uint64_t oldest =
        output->written > sizeof output->ring ? output->written - sizeof output->ring : 0;
    uint64_t start = end;
    int newlines = 0;
    while (start > oldest) {
        newlines += ring_at(output, start - 1) == '\n';
        if (newlines == TAIL_LINES) {
            break;
        }
        start--;
    }
    /* A line that had to be cut starts with a whole character at least (UTF-8, RFC 3629). */
    while (start == oldest && oldest != 0 && start < end &&
           ((unsigned char)ring_at(output, start) & 0xC0) == 0x80) {
        start++;
        oldest++;
    }
    size_t n = 0;
    for (uint64_t at = start; at < end; at++) {
        unsigned char c = (unsigned char)ring_at(output, at);
        output->tail[n++] = c == '\n' || (c >= ' ' && c != 0x7F) ? (char)c : ' ';
    }
    output->tail[n] = '\0';
}

/* --- lines --------------------------------------------------------------------------------------
 */

/* Moves the first n bytes on as a line, and drops skip more (its newline). False: no room. */
static bool line_move(struct source *source, size_t n, size_t skip, size_t limit)
{
    struct output *output = source->output;
    const char *line = source->text + source->at;
    if (!drain_line(source->drain, output->rank, line, n, limit)) {
        if (limit == DRAIN_QUEUE_MAX) {
            return false;
        }
        drain_lose_line(source->drain);
    }
    if (source == &output->sources[STDERR_STREAM]) {
        tail_add(output, line, n);
        tail_add(output, "\n", 1);
    }
    source->at += n + skip;
    source->n -= n + skip;
    return true;
}

/* Moves whole lines on, and at the end of the stream what is left too. False: no room for the next.
 */
static bool lines_move(struct source *source, bool at_end, size_t limit)
{
    while (source->n != 0) {
        const char *start = source->text + source->at;
        const char *newline = memchr(start, '\n', source->n);
        bool moved = true;
        if (newline) {
            moved = line_move(source, (size_t)(newline - start), 1, limit);
        } else if (at_end || source->n == LINE_BYTES_MAX) {
            moved = line_move(source, source->n, 0, limit);
        } else {
            break;
        }
        if (!moved) {
            return false;
        }
    }
    return true;
}

/* Bytes read; 0: at its end; -1: nothing there now. Precondition: the text has room. */
static ssize_t source_read(struct source *source)
{
    memmove(source->text, source->text + source->at, source->n);
    source->at = 0;
    ssize_t n;
    do {
        n = read(source->fd, source->text + source->n, LINE_BYTES_MAX - source->n);
    } while (n < 0 && errno == EINTR);
    if (n > 0) {
        source->n += (size_t)n;
    }
    return n;
}

static void source_end(struct source *source)
{
    if (source->readable) {
        event_free(source->readable);
        source->readable = NULL;
    }
    if (source->fd >= 0) {
        close(source->fd);
        source->fd = -1;
    }
}

/* Moves on what there is; where the drain is full, the pipe is left alone until it has room. */
static void source_move(struct source *source)
{
    source->paused = !lines_move(source, source->fd < 0, DRAIN_QUEUE_MAX);
    if (source->readable && source->paused) {
        event_del(source->readable);
    } else if (source->readable) {
        event_add(source->readable, NULL);
    }
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct source *source = arg;
    (void)fd;
    (void)what;
    ssize_t n = source_read(source);
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        source_end(source);
    }
    source_move(source);
    drain_flush(source->drain);
}

static void on_room(void *ctx, struct drain *drain)
{
    struct output_sink *sink = ctx;
    for (struct output *output = sink->outputs; output; output = output->next) {
        for (int i = 0; i < STREAMS; i++) {
            if (output->sources[i].drain == drain && output->sources[i].paused) {
                source_move(&output->sources[i]);
            }
        }
    }
}

/* --- the agent's streams ------------------------------------------------------------------------
 */

int output_sink_new(struct event_base *base, int stdout_fd, int stderr_fd, struct output_sink **ret)
{
    struct output_sink *sink = calloc(1, sizeof *sink);
    if (!sink) {
        return TFE_ENOMEM;
    }
    sink->base = base;
    int rc = drain_new(base, stdout_fd, on_room, sink, &sink->drains[STDOUT_STREAM]);
    if (rc == 0) {
        rc = drain_new(base, stderr_fd, on_room, sink, &sink->drains[STDERR_STREAM]);
    }
    if (rc != 0) {
        output_sink_free(sink, 0);
        return rc;
    }
    *ret = sink;
    return 0;
}

void output_sink_free(struct output_sink *sink, uint32_t timeout_ms)
{
    if (!sink) {
        return;
    }
    /* stdout and stderr mostly end in the same place: the second one's wait is the exception. */
    for (int i = 0; i < STREAMS; i++) {
        drain_free(sink->drains[i], timeout_ms);
    }
    free(sink);
}

/* --- a trainer ----------------------------------------------------------------------------------
 */

/* Only our end must not block: the two ends have flags of their own, and scripts expect a pipe that
 * waits. */
static int source_open(struct source *source, struct output *output, struct drain *drain,
                       int *ret_writer)
{
    source->output = output;
    source->drain = drain;
    source->text = malloc(LINE_BYTES_MAX);
    if (!source->text) {
        return TFE_ENOMEM;
    }
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return TFE_ESYS;
    }
    source->fd = ends[0];
    *ret_writer = ends[1];
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) {
        return TFE_ESYS;
    }
    source->readable =
        event_new(output->sink->base, ends[0], EV_READ | EV_PERSIST, on_readable, source);
    if (!source->readable || event_add(source->readable, NULL) != 0) {
        return TFE_ENOMEM;
    }
    return 0;
}

int output_new(struct output_sink *sink, uint32_t rank, struct output **ret, int *ret_stdout,
               int *ret_stderr)
{
    struct output *output = calloc(1, sizeof *output);
    char *tail = malloc(MSG_TAIL_MAX);
    if (!output || !tail) {
        free(output);
        free(tail);
        return TFE_ENOMEM;
    }
    output->tail = tail;
    output->sink = sink;
    output->rank = rank;
    int writers[STREAMS] = {-1, -1};
    int rc = 0;
    for (int i = 0; i < STREAMS; i++) {
        output->sources[i].fd = -1;
    }
    for (int i = 0; rc == 0 && i < STREAMS; i++) {
        rc = source_open(&output->sources[i], output, sink->drains[i], &writers[i]);
    }
    output->next = sink->outputs;
    sink->outputs = output;
    if (rc != 0) {
        int error = errno;
        for (int i = 0; i < STREAMS; i++) {
            if (writers[i] >= 0) {
                close(writers[i]);
            }
        }
        output_free(output);
        errno = error;
        return rc;
    }
    *ret_stdout = writers[STDOUT_STREAM];
    *ret_stderr = writers[STDERR_STREAM];
    *ret = output;
    return 0;
}

void output_close(struct output *output)
{
    for (int i = 0; i < STREAMS; i++) {
        struct source *source = &output->sources[i];
        if (!source->drain) {
            continue; /* output_new did not get this far */
        }
        size_t total = 0;
        ssize_t n = 1;
        while (source->fd >= 0 && n > 0 && total < CLOSE_READ_MAX) {
            lines_move(source, false, DRAIN_QUEUE_HARD_MAX);
            n = source_read(source);
            total += n > 0 ? (size_t)n : 0;
        }
        source_end(source);
        lines_move(source, true, DRAIN_QUEUE_HARD_MAX);
        source->paused = false;
        drain_flush(source->drain);
    }
}

const char *output_tail(const struct output *output)
{
    tail_make(output);
    return output->tail;
}

void output_free(struct output *output)
{
    if (!output) {
        return;
    }
    output_close(output);
    for (struct output **at = &output->sink->outputs; *at; at = &(*at)->next) {
        if (*at == output) {
            *at = output->next;
            break;
        }
    }
    for (int i = 0; i < STREAMS; i++) {
        free(output->sources[i].text);
    }
    free(output->tail);
    free(output);
}
