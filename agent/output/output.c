/* agent/output/output.c: reads trainers' pipes and writes log files, prefixed lines and
 * the tail of stderr. */
#include "agent/output/output.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "agent/os/trainer_user.h"
#include "agent/output/console.h"
#include "agent/output/log_writer.h"
#include "agent/output/output_ring.h"
#include "common/base/clock.h"
#include "common/base/fd.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/message/msg.h"

/* Number of lines of a tail. */
#define TAIL_LINES 20

#define LINE_BYTES_MAX ((size_t)64 * 1024)

/* Maximum number of bytes read from an ended trainer's pipe, while a surviving
 * descendant may keep writing. */
#define CLOSE_READ_MAX ((size_t)1024 * 1024)

/* Pipe size, i.e. how much a trainer can print while its pipe is not read: the maximum for an
 * unprivileged process (/proc/sys/fs/pipe-max-size); the default is 64 KiB. A user's pipes
 * may have 64 MiB in total (pipe-user-pages-soft) before further ones get two pages; this
 * agent uses a quarter. */
#define PIPE_BYTES (1024 * 1024)
#define PIPES_BYTES (16 * 1024 * 1024)
/* A trainer that prints a lot is read in large portions with pauses of REST_MS, because waking
 * up for every line would cost more than copying. The pipe must hold that much at 256 MB/s. */
#define READS_MAX 16
#define REST_MS 4
#define REST_PIPE_BYTES (REST_MS * 256 * 1024)

/* Stored length of an exception's line, and its maximum distance from the end of stderr: more
 * than TensorFlow prints of a tensor, but not an exception that was handled long ago. */
#define RAISED_MAX 512
#define RAISED_REACH ((uint64_t)64 * 1024)

/* After a reader of the agent's output has accepted nothing for this long, trainers do not wait for
 * it any more. */
#define TIMEOUT_MS 1000u

/* Interval between two displays of a progress bar. */
#define BAR_MS 1000

enum { OUT, ERR, STREAMS };

struct output_sink {
    struct output_options options;
    struct event *again; /* timer for sources that rest or are paused */
    struct console *consoles[STREAMS];
    LIST_HEAD(, output) outputs; /* all existing outputs */
    int pipe_bytes;              /* size of each pipe */
};

/* One pipe of a trainer. */
struct source {
    struct output *output;
    struct output_stream *stream;
    struct console *console; /* NULL if the stream is not shown */
    bool has_tail;           /* this is stderr, which the output's tail is taken from */
    int fd;                  /* -1 if closed */
    struct event *readable;
    bool may_rest; /* the pipe is large enough for a pause in reading */
    bool resting;  /* not read until the next timer */
    bool paused;   /* not read while the console or the log files are behind */
    char *text;    /* buffer of LINE_BYTES_MAX, which begins with an unfinished line */
    size_t n;
    size_t n_in_part; /* number of its bytes that the log file has already received */
    struct tfe_mono bar_shown;
    struct tfe_mono taken;   /* time of the last read */
    struct tfe_wall read_at; /* wall-clock time of the last read */
};

/* The last traceback printed on stderr. */
struct raised {
    bool in_frames; /* the header was printed, the exception's line was not */
    uint64_t head;  /* offset of the header in all output of stderr */
    uint64_t at;
    char line[RAISED_MAX]; /* beginning of the exception's line */
    size_t n;              /* 0 if no exception was printed */
    /* Last frame of the script's own code: the frames of a library may fill the tail. */
    uint64_t frame_at;
    char frame[RAISED_MAX];
    size_t frame_n; /* 0 if there is none */
};

struct output {
    struct output_sink *sink;
    LIST_ENTRY(output) link;
    bool is_first; /* the node's first trainer */
    struct source sources[STREAMS];
    /* Last complete lines of stderr, at least MSG_TAIL_MAX bytes if that much was printed. */
    char recent[2 * MSG_TAIL_MAX];
    size_t recent_n;
    uint64_t stderr_total; /* total bytes of stderr */
    struct raised raised;
    char tail[MSG_TAIL_MAX]; /* result of output_tail */
    uint64_t bytes;          /* bytes read so far */
};

/* --- lines --- */

/* Returns true for "errors.InvalidArgumentError: ..." or "KeyboardInterrupt". Other lines may be
 * printed between the traceback and the exception. */
static bool is_exception(const char *line, size_t n)
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.0123456789";
    size_t i = 0;
    while (i < n && memchr(name, line[i], sizeof name - 1)) {
        i++;
    }
    return i > 0 && (line[0] > '9' || line[0] < '.') && (i == n || line[i] == ':');
}

/* Returns true for a frame of code that is not an installed library. */
static bool is_own_frame(const char *line, size_t n)
{
    static const char head[] = "  File \"";
    static const char *const installed[] = {"/site-packages/", "/dist-packages/", "/lib/python"};
    bool is_own = n > sizeof head && n <= RAISED_MAX && memcmp(line, head, sizeof head - 1) == 0 &&
                  line[sizeof head - 1] != '<';
    for (size_t i = 0; i < sizeof installed / sizeof installed[0] && is_own; i++) {
        is_own = !memmem(line, n, installed[i], strlen(installed[i]));
    }
    return is_own;
}

static void raised_note(struct raised *raised, uint64_t at, const char *line, size_t n)
{
    static const char head[] = MSG_RAISED_HEAD;
    if (n >= sizeof head - 1 && memcmp(line, head, sizeof head - 1) == 0) {
        raised->in_frames = true;
        raised->head = at;
        raised->n = raised->frame_n = 0;
    } else if (raised->in_frames && is_own_frame(line, n)) {
        raised->frame_at = at;
        raised->frame_n = n;
        memcpy(raised->frame, line, n);
    } else if (raised->in_frames && is_exception(line, n)) {
        raised->in_frames = false;
        raised->at = at;
        raised->n = n < RAISED_MAX ? n : RAISED_MAX;
        memcpy(raised->line, line, raised->n);
    }
}

/* Skips PyTorch's prefix of stderr lines, "[rank3]: ": the exception behind it is then found. */
static const char *skip_rank(const char *line, size_t *n)
{
    static const char head[] = "[rank";
    size_t i = sizeof head - 1;
    if (*n < sizeof head || memcmp(line, head, sizeof head - 1) != 0) {
        return line;
    }
    while (i < *n && line[i] >= '0' && line[i] <= '9') {
        i++;
    }
    if (i == sizeof head - 1 || i + 3 > *n || memcmp(line + i, "]: ", 3) != 0) {
        return line;
    }
    *n -= i + 3;
    return line + i + 3;
}

/* "    @     0x7f35  absl::…": a frame of Abseil's stack trace. A trace can be longer than the
 * tail, and the message that explains the abort stands before the trace. */
static bool is_stack_frame(const char *line, size_t n)
{
    static const char head[] = "    @ ";
    size_t i = sizeof head - 1;
    if (n < sizeof head || memcmp(line, head, sizeof head - 1) != 0) {
        return false;
    }
    while (i < n && line[i] == ' ') {
        i++;
    }
    return i + 1 < n && line[i] == '0' && line[i + 1] == 'x';
}

static void stderr_add(struct output *output, const char *line, size_t n)
{
    line = skip_rank(line, &n);
    if (is_stack_frame(line, n)) {
        return;
    }
    raised_note(&output->raised, output->stderr_total, line, n);
    output->stderr_total += n + 1;
    size_t skip = n < MSG_TAIL_MAX ? 0 : n + 1 - MSG_TAIL_MAX;
    n -= skip;
    if (output->recent_n + n + 1 > sizeof output->recent) {
        memmove(output->recent, output->recent + output->recent_n - MSG_TAIL_MAX, MSG_TAIL_MAX);
        output->recent_n = MSG_TAIL_MAX;
    }
    memcpy(output->recent + output->recent_n, line + skip, n);
    output->recent_n += n;
    output->recent[output->recent_n++] = '\n';
}

/* Passes n bytes of complete lines to those who need each line when it is read. */
static void inspect_lines(const struct source *source, size_t n)
{
    const struct output_options *options = &source->output->sink->options;
    bool has_reader = source->output->is_first && options->on_line;
    for (size_t at = 0, seen; (source->has_tail || has_reader) && at < n;) {
        const char *line = source->text + at;
        at += output_line(line, n - at, &seen);
        line = output_visible(line, &seen);
        if (source->has_tail) {
            stderr_add(source->output, line, seen);
        }
        if (has_reader) {
            options->on_line(options->on_line_ctx, line, seen);
        }
    }
}

/* Removes n bytes from the front of the buffer. */
static void consume(struct source *source, size_t n)
{
    source->n -= n;
    source->n_in_part -= n < source->n_in_part ? n : source->n_in_part;
    memmove(source->text, source->text + n, source->n);
}

/* Shows an unfinished line that overwrites itself, at most every BAR_MS, and drops its
 * overwritten parts. */
static void show_bar(struct source *source)
{
    size_t n = source->n;
    if (!memchr(source->text, '\r', n)) {
        return;
    }
    consume(source, (size_t)(output_visible(source->text, &n) - source->text));
    while (n && source->text[n - 1] == '\r') {
        n--;
    }
    struct tfe_mono now = clock_mono();
    if (n && source->console && tfe_mono_sub(now, source->bar_shown) >= BAR_MS &&
        console_show_unfinished(source->console, source->stream, source->text, n)) {
        source->bar_shown = now;
    }
}

/* Adds the first n bytes, which are complete lines, to the ring. */
static void add_lines(struct source *source, size_t n)
{
    inspect_lines(source, n);
    output_ring_add(source->output->sink->options.ring, source->stream, RECORD_LINES,
                    source->read_at, source->text, n, source->n_in_part);
    consume(source, n);
}

/* Passes on the lines that a read has completed. The log file also receives the beginning of an
 * unfinished line. */
static void process(struct source *source)
{
    const char *newline = memrchr(source->text, '\n', source->n);
    if (newline) {
        add_lines(source, (size_t)(newline + 1 - source->text));
    } else if (source->n == LINE_BYTES_MAX) {
        add_lines(source, source->n);
    }
    if (source->stream->file && source->n > source->n_in_part) {
        output_ring_add(source->output->sink->options.ring, source->stream, RECORD_PART,
                        source->read_at, source->text + source->n_in_part,
                        source->n - source->n_in_part, 0);
        source->n_in_part = source->n;
    }
    show_bar(source);
}

/* --- pipes --- */

/* Reads and processes data. Returns the number of bytes read, 0 at the end, or -1 if there is no
 * data now. */
static ssize_t source_read(struct source *source)
{
    ssize_t n;
    do {
        n = read(source->fd, source->text + source->n, LINE_BYTES_MAX - source->n);
    } while (n < 0 && errno == EINTR);
    if (n > 0) {
        source->n += (size_t)n;
        source->output->bytes += (uint64_t)n;
        source->read_at = clock_wall();
        process(source);
    }
    return n;
}

/* Ends the stream; the unfinished line becomes its last one. */
static void source_end(struct source *source)
{
    event_drop(&source->readable);
    fd_close(&source->fd);
    if (source->n > 0) {
        add_lines(source, source->n);
    }
}

static void schedule_retry(struct output_sink *sink)
{
    if (!evtimer_pending(sink->again, NULL)) {
        evtimer_add(sink->again, &(struct timeval){.tv_usec = REST_MS * 1000});
    }
}

static void wait_for_more(struct source *source)
{
    bool later = source->paused || source->resting;
    if (later) {
        schedule_retry(source->output->sink);
    }
    if (source->readable && later) {
        event_del(source->readable);
    } else if (source->readable && !event_pending(source->readable, EV_READ, NULL)) {
        event_add(source->readable, NULL);
    }
}

/* Returns true if the trainer has to wait for a slow disk or, without log files, for a slow reader
 * of the agent's output. */
static bool must_wait(const struct source *source)
{
    const struct output_options *options = &source->output->sink->options;
    if (source->stream->file) {
        return log_writer_is_behind(options->logs);
    }
    return source->console && !options->logs &&
           console_is_behind(source->console, options->timeout_ms);
}

/* Reads and processes available data unless the console or the log files are behind. */
static void read_available(struct source *source)
{
    struct tfe_mono now = clock_mono();
    bool is_talkative = !source->paused && tfe_mono_sub(now, source->taken) <= REST_MS;
    bool more = source->fd >= 0;
    source->taken = now;
    source->paused = false;
    for (int i = 0; more && i < READS_MAX && !(source->paused = must_wait(source)); i++) {
        size_t space = LINE_BYTES_MAX - source->n;
        ssize_t n = source_read(source);
        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            source_end(source);
        }
        /* otherwise the pipe is empty, or the next read reports its end */
        more = n == (ssize_t)space;
    }
    source->resting = !source->paused && is_talkative && source->may_rest && source->fd >= 0;
    wait_for_more(source);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    read_available(arg);
}

/* Resumes rate-limited sources, and retries paused sources whose file may have space again or
 * whose stream may have exceeded its timeout. */
static void on_again(evutil_socket_t fd, short what, void *arg)
{
    struct output_sink *sink = arg;
    struct output *output;
    LIST_FOREACH(output, &sink->outputs, link)
    {
        for (int i = 0; i < STREAMS; i++) {
            struct source *source = &output->sources[i];
            if (source->resting) {
                source->resting = false;
                event_add(source->readable, NULL);
            } else if (source->paused) {
                read_available(source);
            }
        }
    }
}

/* --- the agent's streams --- */

struct output_sink *output_sink_new(const struct output_options *options)
{
    struct output_sink *sink = must_alloc(sizeof *sink);
    int pipes = STREAMS * (options->nproc ? (int)options->nproc : 1);
    sink->options = *options;
    if (!options->timeout_ms) {
        sink->options.timeout_ms = TIMEOUT_MS;
    }
    sink->pipe_bytes = PIPES_BYTES / pipes < PIPE_BYTES ? PIPES_BYTES / pipes : PIPE_BYTES;
    sink->again = evtimer_new(options->base, on_again, sink);
    must_succeed(sink->again);
    sink->consoles[OUT] = console_new(options, STREAM_STDOUT, options->stdout_fd, sink->again);
    sink->consoles[ERR] = console_new(options, STREAM_STDERR, options->stderr_fd, sink->again);
    return sink;
}

void output_sink_free(struct output_sink *sink, uint32_t timeout_ms)
{
    if (!sink) {
        return;
    }
    /* Usually both streams have the same destination, so the timeout is rarely needed twice. */
    for (int i = 0; i < STREAMS; i++) {
        console_free(sink->consoles[i], timeout_ms);
    }
    event_drop(&sink->again);
    free(sink);
}

/* --- one trainer --- */

/* Opens a pipe. Only the agent's end is non-blocking, because each end has its own flags and
 * scripts expect a blocking pipe. */
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
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 || trainer_user_give(ends[0]) != 0) {
        return TFE_ESYS;
    }
    source->may_rest =
        fcntl(ends[0], F_SETPIPE_SZ, source->output->sink->pipe_bytes) >= REST_PIPE_BYTES;
    source->readable = event_new(source->output->sink->options.base, ends[0], EV_READ | EV_PERSIST,
                                 on_readable, source);
    return source->readable && event_add(source->readable, NULL) == 0 ? 0 : TFE_ENOMEM;
}

/* Opens the stream and its log file. Returns TFE_ENOMEM. */
static int source_init(struct source *source, struct output *output,
                       const struct output_place *place, int i)
{
    const struct output_options *options = &output->sink->options;
    const enum tfe_stream stream = i == OUT ? STREAM_STDOUT : STREAM_STDERR;
    const struct output_source of = {place->epoch, place->rank, stream};
    source->output = output;
    source->has_tail = i == ERR;
    source->stream = output_ring_open(options->ring, &of, place->name);
    if (!source->stream) {
        return TFE_ENOMEM;
    }
    if (options->logs) {
        source->stream->file = log_writer_open(options->logs, place->run, source->stream);
    }
    bool is_homeless = options->logs && !source->stream->file;
    if (is_homeless || output_is_shown(options->show, place->local_rank, place->rank, stream)) {
        source->stream->is_shown = true;
        source->console = output->sink->consoles[i];
    }
    return 0;
}

int output_new(struct output_sink *sink, const struct output_place *place, struct output **ret,
               int *ret_stdout, int *ret_stderr)
{
    struct output *output = calloc(1, sizeof *output);
    if (!output) {
        return TFE_ENOMEM;
    }
    output->sink = sink;
    output->is_first = place->local_rank == 0;
    LIST_INSERT_HEAD(&sink->outputs, output, link);
    int writers[STREAMS] = {-1, -1};
    int rc = 0;
    for (int i = 0; i < STREAMS; i++) {
        output->sources[i].fd = -1;
    }
    for (int i = 0; rc == 0 && i < STREAMS; i++) {
        rc = source_init(&output->sources[i], output, place, i);
        rc = rc ? rc : source_open(&output->sources[i], &writers[i]);
    }
    if (rc != 0) {
        for (int i = 0; i < STREAMS; i++) {
            fd_close(&writers[i]);
        }
        output_free(output);
        return rc;
    }
    *ret_stdout = writers[OUT];
    *ret_stderr = writers[ERR];
    *ret = output;
    return 0;
}

void output_close(struct output *output)
{
    for (int i = 0; i < STREAMS; i++) {
        struct source *source = &output->sources[i];
        size_t total = 0;
        ssize_t n = 1;
        while (source->fd >= 0 && n > 0 && total < CLOSE_READ_MAX) {
            n = source_read(source);
            total += n > 0 ? (size_t)n : 0;
        }
        source_end(source);
        source->paused = false;
        source->resting = false;
        output_ring_close(output->sink->options.ring, source->stream);
        source->stream = NULL;
    }
}

uint64_t output_bytes(const struct output *output)
{
    return output->bytes;
}

static char *put_plain(char *at, const char *from, const char *end)
{
    for (; from < end; from++) {
        unsigned char c = (unsigned char)*from;
        *at++ = c == '\n' || (c >= ' ' && c != 0x7F) ? (char)c : ' ';
    }
    return at;
}

/* Writes a line and subtracts its length from *room. */
static char *put_line(char *at, const char *line, size_t n, size_t *space)
{
    at = put_plain(at, line, line + n);
    *at++ = '\n';
    *space -= n + 1;
    return at;
}

/* Writes the parts of the exception that lie before *start, and advances *start so
 * that everything fits. */
static char *put_raised(const struct output *output, char *at, const char **start, const char *end)
{
    const struct raised *raised = &output->raised;
    uint64_t from = output->stderr_total - (uint64_t)(end + 1 - *start);
    /* length of the exception's line and all output after it */
    uint64_t behind = output->stderr_total - raised->at;
    if (raised->n == 0 || raised->head >= from || behind > RAISED_REACH) {
        return at;
    }
    at = mempcpy(at, MSG_RAISED_HEAD "\n", sizeof MSG_RAISED_HEAD);
    size_t space = MSG_TAIL_MAX - 1 - sizeof MSG_RAISED_HEAD;
    bool is_there = raised->at >= from && behind - 1 <= space;
    if (raised->frame_n > 0 && (raised->frame_at < from || !is_there)) {
        at = put_line(at, raised->frame, raised->frame_n, &space);
    }
    if (!is_there) {
        at = put_line(at, raised->line, raised->n, &space);
    }
    bool is_cut = (size_t)(end - *start) > space;
    *start = is_cut ? end - space : *start;
    /* Frames lie between the header and the exception; skip a partial first line. */
    const char *line = is_there ? end + 1 - behind : end;
    while (is_there ? *start != line && **start != ' ' : is_cut) {
        const char *newline = memchr(*start, '\n', (size_t)(line - *start));
        *start = newline ? newline + 1 : line;
        is_cut = false;
    }
    return at;
}

const char *output_tail(struct output *output, bool was_raised)
{
    size_t n = output->recent_n < MSG_TAIL_MAX ? output->recent_n : MSG_TAIL_MAX;
    const char *oldest = output->recent + output->recent_n - n;
    const char *end = n ? oldest + n - 1 : oldest; /* newline of the last line */
    const char *start = end;
    for (int i = 0; start && i < TAIL_LINES; i++) {
        start = memrchr(oldest, '\n', (size_t)(start - oldest));
    }
    start = start ? start + 1 : oldest;
    /* Start a truncated line at a character boundary (UTF-8, RFC 3629). */
    while (n == MSG_TAIL_MAX && start == oldest && start < end &&
           ((unsigned char)*start & 0xC0) == 0x80) {
        oldest = ++start;
    }
    char *at = output->tail;
    if (was_raised && n) {
        at = put_raised(output, at, &start, end);
    }
    *put_plain(at, start, end) = '\0';
    return output->tail;
}

void output_free(struct output *output)
{
    if (!output) {
        return;
    }
    output_close(output);
    LIST_REMOVE(output, link);
    for (int i = 0; i < STREAMS; i++) {
        free(output->sources[i].text);
    }
    free(output);
}
