/* agent/output/output.c: pipes from trainers in; log files, whole lines with a rank, and a tail
 * out. */
#include "agent/output/output.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/output/log_writer.h"
#include "agent/output/output_drain.h"
#include "agent/output/output_tail.h"
#include "common/net/clock.h"

#define LINE_BYTES_MAX ((size_t)64 * 1024)

/* Read from the pipes of an ended trainer, while something it left behind may go on writing. */
#define CLOSE_READ_MAX ((size_t)1024 * 1024)

/* What a trainer may print while nobody reads: the most that an unprivileged process may ask for
 * (/proc/sys/fs/pipe-max-size); without it the pipe has 64 KiB. A user's pipes together may have
 * 64 MiB (pipe-user-pages-soft) before all further ones get two pages: this agent takes a quarter.
 */
#define PIPE_BYTES (1024 * 1024)
#define PIPES_BYTES (16 * 1024 * 1024)
/* A talkative trainer is read in large portions, then left alone for a moment: being woken for
 * every line would cost it, and us, more than the copying. So long the pipe must hold out: at 256
 * MB/s. */
#define READS_MAX 16
#define REST_MS 4
#define REST_PIPE_BYTES (REST_MS * 256 * 1024)

/* A progress bar is shown this often. */
#define BAR_MS 1000

struct output_sink {
    struct event_base *base;
    struct event *again; /* for those that rest or are paused */
    struct drain *drains[LOG_STREAMS];
    struct output *outputs; /* all that live */
    struct output_show show;
    struct log_writer *logs;
    struct tfe_id job;
    int pipe_bytes; /* of each pipe */
};

/* One pipe of a trainer. */
struct source {
    struct output *output;
    struct drain *drain;   /* NULL: not shown */
    struct log_file *file; /* NULL: no log files */
    struct tail *tail;     /* NULL: none is kept */
    int fd;                /* -1: closed */
    struct event *readable;
    bool may_rest; /* its pipe is large enough for that */
    bool resting;  /* not read for a moment */
    bool paused;   /* drain or file has no room: not read */
    char *text;    /* LINE_BYTES_MAX; what is read and not moved on lies at .. at + n */
    size_t at;
    size_t n;
    struct tfe_mono bar_shown;
    struct tfe_mono taken; /* when it was last read */
};

struct output {
    struct output_sink *sink;
    struct output *next;
    uint32_t rank;
    struct source sources[LOG_STREAMS];
    struct tail tail; /* of stderr */
    char *tail_text;  /* MSG_TAIL_MAX; made when asked for */
    uint64_t bytes;   /* read so far */
};

/* --- lines ------------------------------------------------------------------------------------ */

/* Of a line that overwrote itself what was to be seen last: "10%\r20%\r30%" is "30%". */
static const char *last_look(const char *line, size_t *n)
{
    size_t end = *n;
    while (end && line[end - 1] == '\r') { /* of CR LF, or a bar that puts it last */
        end--;
    }
    const char *cr = memrchr(line, '\r', end);
    if (!cr) {
        return line;
    }
    *n -= (size_t)(cr + 1 - line);
    return cr + 1;
}

/* Moves the first n bytes on as a line, and drops skip more (its newline). False: no room. */
static bool line_move(struct source *source, size_t n, size_t skip, size_t limit)
{
    size_t seen = n;
    const char *line = last_look(source->text + source->at, &seen);
    if (source->drain && !drain_line(source->drain, source->output->rank, line, seen, limit)) {
        if (limit != DRAIN_QUEUE_HARD_MAX) {
            return false;
        }
        drain_lose_line(source->drain);
    }
    if (source->tail) {
        tail_add(source->tail, line, seen);
    }
    source->at += n + skip;
    source->n -= n + skip;
    return true;
}

/* A line that is not over and overwrites itself: shown now and then, and what nobody can see any
 * more is dropped. */
static void show_bar(struct source *source, size_t limit)
{
    const char *start = source->text + source->at;
    size_t n = source->n;
    if (!n || !memchr(start, '\r', n)) {
        return;
    }
    const char *look = last_look(start, &n);
    source->at += source->n - n;
    source->n = n;
    while (n && look[n - 1] == '\r') {
        n--;
    }
    struct tfe_mono now = clock_mono();
    if (n && source->drain && tfe_mono_sub(now, source->bar_shown) >= BAR_MS &&
        drain_line(source->drain, source->output->rank, look, n, limit)) {
        source->bar_shown = now;
    }
}

/* Moves whole lines on, and at the end of the stream what is left too. False: no room for the next.
 */
static bool lines_move(struct source *source, bool at_end, size_t limit)
{
    if (!source->drain && !source->tail) {
        source->n = 0; /* the file has it all */
        return true;
    }
    while (source->n != 0) {
        const char *start = source->text + source->at;
        const char *newline = memchr(start, '\n', source->n);
        bool moved = true;
        if (newline) {
            moved = line_move(source, (size_t)(newline - start), 1, limit);
        } else if (at_end || source->n == LINE_BYTES_MAX) {
            moved = line_move(source, source->n, 0, limit);
        } else {
            show_bar(source, limit);
            break;
        }
        if (!moved) {
            return false;
        }
    }
    return true;
}

/* --- pipes ------------------------------------------------------------------------------------ */

/* Bytes read; 0: at its end; -1: nothing there now. Precondition: the text has room. */
static ssize_t source_read(struct source *source, bool at_end)
{
    if (source->n && source->at) {
        memmove(source->text, source->text + source->at, source->n);
    }
    source->at = 0;
    char *fresh = source->text + source->n;
    ssize_t n;
    do {
        n = read(source->fd, fresh, LINE_BYTES_MAX - source->n);
    } while (n < 0 && errno == EINTR);
    if (n > 0) {
        source->n += (size_t)n;
        source->output->bytes += (uint64_t)n;
        if (source->file) {
            log_file_write(source->file, fresh, (size_t)n, at_end);
        }
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

static void come_again(struct output_sink *sink)
{
    if (!evtimer_pending(sink->again, NULL)) {
        evtimer_add(sink->again, &(struct timeval){.tv_usec = REST_MS * 1000});
    }
}

static void wait_for_more(struct source *source)
{
    bool later = source->paused || source->resting;
    if (later) {
        come_again(source->output->sink);
    }
    if (source->readable && later) {
        event_del(source->readable);
    } else if (source->readable && !event_pending(source->readable, EV_READ, NULL)) {
        event_add(source->readable, NULL);
    }
}

static size_t limit_of(const struct output_sink *sink)
{
    return sink->logs ? DRAIN_QUEUE_HARD_MAX / 2 : DRAIN_QUEUE_MAX;
}

/* Moves on what there is and waits for more; where there is no room, the pipe is left alone until
 * there is. */
static void source_move(struct source *source)
{
    struct output_sink *sink = source->output->sink;
    source->paused = !lines_move(source, source->fd < 0, limit_of(sink));
    wait_for_more(source);
}

/* Reads what there is, as far as there is room for it. */
static void take(struct source *source)
{
    struct output_sink *sink = source->output->sink;
    struct tfe_mono now = clock_mono();
    bool is_talkative = tfe_mono_sub(now, source->taken) <= REST_MS;
    source->taken = now;
    bool more = source->fd >= 0;
    bool room = lines_move(source, !more, limit_of(sink));
    for (int i = 0; more && room && i < READS_MAX; i++) {
        if (source->file && !log_file_has_room(source->file)) {
            room = false;
            break;
        }
        size_t space = LINE_BYTES_MAX - source->n;
        ssize_t n = source_read(source, false);
        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            source_end(source);
        }
        room = lines_move(source, source->fd < 0, limit_of(sink));
        if (source->drain) {
            drain_flush(source->drain);
        }
        more = n == (ssize_t)space; /* else the pipe is empty, or soon says that it has ended */
    }
    source->paused = !room;
    source->resting = room && is_talkative && source->may_rest && source->fd >= 0;
    wait_for_more(source);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    take(arg);
}

/* For those that rested, and those whose file may have room again or whose stream has been waited
 * for long enough. */
static void on_again(evutil_socket_t fd, short what, void *arg)
{
    struct output_sink *sink = arg;
    (void)fd;
    (void)what;
    for (struct output *output = sink->outputs; output; output = output->next) {
        for (int i = 0; i < LOG_STREAMS; i++) {
            struct source *source = &output->sources[i];
            if (source->resting) {
                source->resting = false;
                event_add(source->readable, NULL);
            } else if (source->paused) {
                take(source);
            }
        }
    }
}

static void on_room(void *ctx, struct drain *drain)
{
    struct output_sink *sink = ctx;
    for (struct output *output = sink->outputs; output; output = output->next) {
        for (int i = 0; i < LOG_STREAMS; i++) {
            if (output->sources[i].drain == drain && output->sources[i].paused) {
                source_move(&output->sources[i]);
            }
        }
    }
}

/* --- the agent's streams ---------------------------------------------------------------------- */

int output_sink_new(const struct output_wish *wish, struct output_sink **ret)
{
    struct output_sink *sink = calloc(1, sizeof *sink);
    if (!sink) {
        return TFE_ENOMEM;
    }
    sink->base = wish->base;
    sink->logs = wish->logs;
    int pipes = LOG_STREAMS * (wish->nproc ? (int)wish->nproc : 1);
    sink->pipe_bytes = PIPES_BYTES / pipes < PIPE_BYTES ? PIPES_BYTES / pipes : PIPE_BYTES;
    if (wish->show) {
        sink->show = *wish->show;
    } else {
        output_show_init(&sink->show);
    }
    int rc = wish->logs ? id_set(&sink->job, wish->job) : 0;
    sink->again = evtimer_new(wish->base, on_again, sink);
    if (rc == 0 && !sink->again) {
        rc = TFE_ENOMEM;
    }
    uint32_t patience = wish->patience_ms;
    if (!patience && !wish->logs) {
        patience = DRAIN_PATIENCE_MS;
    }
    const int fds[LOG_STREAMS] = {wish->stdout_fd, wish->stderr_fd};
    for (int i = 0; rc == 0 && i < LOG_STREAMS; i++) {
        rc = drain_new(wish->base, fds[i], patience, on_room, sink, &sink->drains[i]);
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
    for (int i = 0; i < LOG_STREAMS; i++) {
        drain_free(sink->drains[i], timeout_ms);
    }
    if (sink->again) {
        event_free(sink->again);
    }
    free(sink);
}

/* --- a trainer -------------------------------------------------------------------------------- */

/* Only our end must not block: the two ends have flags of their own, and scripts expect a pipe that
 * waits. */
static int source_open(struct source *source, int *ret_writer)
{
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
    source->may_rest =
        fcntl(ends[0], F_SETPIPE_SZ, source->output->sink->pipe_bytes) >= REST_PIPE_BYTES;
    source->readable =
        event_new(source->output->sink->base, ends[0], EV_READ | EV_PERSIST, on_readable, source);
    return source->readable && event_add(source->readable, NULL) == 0 ? 0 : TFE_ENOMEM;
}

/* Where its bytes go. */
static void source_init(struct source *source, struct output *output,
                        const struct output_place *place, enum log_stream stream)
{
    struct output_sink *sink = output->sink;
    source->output = output;
    source->fd = -1;
    source->tail = stream == LOG_STDERR ? &output->tail : NULL;
    if (sink->logs) {
        source->file = log_file_open(sink->logs, &(struct log_place){.job = sink->job,
                                                                     .run = place->run,
                                                                     .epoch = place->epoch,
                                                                     .rank = place->rank,
                                                                     .stream = stream});
    }
    bool is_homeless = sink->logs && !source->file;
    if (is_homeless || output_is_shown(&sink->show, place->local_rank, place->rank, stream)) {
        source->drain = sink->drains[stream];
    }
}

int output_new(struct output_sink *sink, const struct output_place *place, struct output **ret,
               int *ret_stdout, int *ret_stderr)
{
    struct output *output = calloc(1, sizeof *output);
    char *tail = malloc(MSG_TAIL_MAX);
    if (!output || !tail) {
        free(output);
        free(tail);
        return TFE_ENOMEM;
    }
    output->tail_text = tail;
    output->sink = sink;
    output->rank = place->rank;
    output->next = sink->outputs;
    sink->outputs = output;
    int writers[LOG_STREAMS] = {-1, -1};
    int rc = 0;
    for (int i = 0; i < LOG_STREAMS; i++) {
        source_init(&output->sources[i], output, place, (enum log_stream)i);
    }
    for (int i = 0; rc == 0 && i < LOG_STREAMS; i++) {
        rc = source_open(&output->sources[i], &writers[i]);
    }
    if (rc != 0) {
        int error = errno;
        for (int i = 0; i < LOG_STREAMS; i++) {
            if (writers[i] >= 0) {
                close(writers[i]);
            }
        }
        output_free(output);
        errno = error;
        return rc;
    }
    *ret_stdout = writers[LOG_STDOUT];
    *ret_stderr = writers[LOG_STDERR];
    *ret = output;
    return 0;
}

void output_close(struct output *output)
{
    for (int i = 0; i < LOG_STREAMS; i++) {
        struct source *source = &output->sources[i];
        size_t total = 0;
        ssize_t n = 1;
        while (source->fd >= 0 && n > 0 && total < CLOSE_READ_MAX) {
            lines_move(source, false, DRAIN_QUEUE_HARD_MAX);
            n = source_read(source, true);
            total += n > 0 ? (size_t)n : 0;
        }
        source_end(source);
        lines_move(source, true, DRAIN_QUEUE_HARD_MAX);
        source->paused = false;
        source->resting = false;
        if (source->drain) {
            drain_flush(source->drain);
        }
        log_file_close(source->file);
        source->file = NULL;
    }
}

uint64_t output_bytes(const struct output *output)
{
    return output->bytes;
}

const char *output_tail(const struct output *output)
{
    tail_make(&output->tail, output->tail_text);
    return output->tail_text;
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
    for (int i = 0; i < LOG_STREAMS; i++) {
        free(output->sources[i].text);
    }
    free(output->tail_text);
    free(output);
}
