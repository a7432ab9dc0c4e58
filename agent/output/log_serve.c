/* agent/output/log_serve.c: implementation of log_serve.h. */
#include "agent/output/log_serve.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "agent/output/log_read.h"
#include "agent/output/log_writer.h"
#include "common/base/heap.h"
#include "common/base/limits.h"
#include "common/base/timer.h"
#include "common/text/utf8.h"

/* Delay to collect lines, because a message for each line would cost more than its content. */
#define GATHER_MS 50

/* Maximum number of streams for which a request skips leading lines. */
#define SKIPS_MAX (2 * MSG_NPROC_MAX)

struct log_request {
    struct log_serve *serve;
    LIST_ENTRY(log_request) link;
    struct msg_log_request spec;
    uint64_t credit;
    uint64_t lost;
    struct output_cursor cursor; /* next lines of the ring to send */
    struct log_reader *reader;   /* log files to send before them, or NULL */
    size_t read_at;              /* offset of the next byte in the reader's result */
    struct {
        uint32_t rank;
        enum tfe_stream stream;
        uint64_t lines;
    } skips[SKIPS_MAX];
    size_t n_skips;
};

struct log_serve {
    struct log_serve_options options;
    struct event *gather;
    LIST_HEAD(, log_request) requests;
    uint32_t n_requests;
    unsigned send_depth; /* nesting depth of sending; requests are not freed while it is positive */
    bool is_disconnected; /* the connection was lost while sending; drop all requests afterwards */
};

/* --- selection --- */

static bool is_of(const struct log_request *a, const struct output_record *record)
{
    const struct msg_log_request *spec = &a->spec;
    const struct output_source *of = &record->stream->of;
    return record->kind == RECORD_LINES && (!spec->has_rank || of->rank == spec->rank) &&
           (spec->epoch == 0 || of->epoch == spec->epoch) && record->at.ms >= spec->since.ms;
}

/* Returns the number of lines to skip in a stream. Returns NULL if there are too many streams. */
static uint64_t *skip_of(struct log_request *a, const struct output_source *of, bool adds)
{
    for (size_t i = 0; i < a->n_skips; i++) {
        if (a->skips[i].rank == of->rank && a->skips[i].stream == of->stream) {
            return &a->skips[i].lines;
        }
    }
    if (!adds || a->n_skips == SKIPS_MAX) {
        return NULL;
    }
    a->skips[a->n_skips].rank = of->rank;
    a->skips[a->n_skips].stream = of->stream;
    a->skips[a->n_skips].lines = 0;
    return &a->skips[a->n_skips++].lines;
}

/* Computes for each stream how many lines to skip before the last requested ones. Returns true
 * if all streams have enough lines. */
static bool count(struct log_request *a)
{
    const struct output_record *record;
    bool is_enough = a->spec.lines != MSG_UNSET;
    STAILQ_FOREACH(record, &a->serve->options.ring->records, link)
    {
        uint64_t *lines = is_of(a, record) ? skip_of(a, &record->stream->of, true) : NULL;
        if (lines) {
            *lines += record->lines;
        }
    }
    for (size_t i = 0; i < a->n_skips; i++) {
        uint64_t lines = a->skips[i].lines;
        is_enough = is_enough && lines >= a->spec.lines;
        a->skips[i].lines = lines > a->spec.lines ? lines - a->spec.lines : 0;
    }
    return is_enough && a->n_skips > 0;
}

/* Returns true if the ring holds all requested lines. */
static bool has_all(struct log_request *a, uint64_t epoch)
{
    const struct output_ring *ring = a->serve->options.ring;
    const struct output_record *oldest = STAILQ_FIRST(&ring->records);
    bool is_enough = count(a);
    bool is_whole = ring->first > 0 && epoch >= ring->first && epoch > ring->dropped;
    bool is_later = oldest && a->spec.since.ms > 0 && oldest->at.ms < a->spec.since.ms;
    return is_enough || is_whole || is_later;
}

static void on_read(void *ctx);

/* Copies the names of this agent's trainers. Without memory for them, files of other agents with
 * the same --log-dir may match. */
static void copy_names(struct log_reader *reader, const struct output_ring *ring)
{
    size_t n = ring->n_names < OUTPUT_NAMES_MAX ? ring->n_names : OUTPUT_NAMES_MAX;
    reader->names = n > 0 ? calloc(n, sizeof(*reader->names)) : NULL;
    for (size_t i = 0; reader->names && i < n; i++) {
        if (ring->names[i].epoch == reader->spec.epoch) {
            reader->names[reader->n_names++] = ring->names[i];
        }
    }
}

/* Starts to read log files. Lines that they do not contain yet are sent from the ring afterwards.
 */
static void reading_begin(struct log_request *a, uint64_t epoch)
{
    const struct log_serve *serve = a->serve;
    a->reader = log_reader_new();
    if (!a->reader) {
        return;
    }
    a->reader->spec = a->spec;
    a->reader->spec.epoch = epoch;
    a->reader->is_live = serve->options.ring->n_open > 0 && epoch == serve->options.ring->newest;
    copy_names(a->reader, serve->options.ring);
    a->reader->on_read = on_read;
    a->reader->ctx = a;
    a->cursor.next = log_writer_next(serve->options.logs);
    a->n_skips = 0;
    log_writer_read(serve->options.logs, a->reader);
}

/* --- sending --- */

static void drop_reader(struct log_request *a)
{
    if (a->reader && a->reader->busy) {
        a->reader->dropped = true;
    } else {
        log_reader_free(a->reader);
    }
    a->reader = NULL;
}

static void request_end(struct log_request *a)
{
    struct log_serve *serve = a->serve;
    drop_reader(a);
    output_cursor_remove(&a->cursor);
    LIST_REMOVE(a, link);
    serve->n_requests--;
    free(a);
}

/* Returns the position after a control sequence (ECMA-48: ESC [ ... final), or
 * at if there is none. */
static const char *skip_sequence(const char *at, const char *end)
{
    if (end - at < 3 || at[0] != '\033' || at[1] != '[') {
        return at;
    }
    const char *p = at + 2;
    while (p < end && *p >= 0x20 && *p <= 0x3f) {
        p++;
    }
    return p < end && *p >= 0x40 && *p <= 0x7e ? p + 1 : at;
}

/* Writes n bytes of a line as plain text to ret, which has space for them. Returns the end of the
 * text. */
static char *write_plain(char *ret, const char *line, size_t n)
{
    const char *end = line + n;
    while (line < end) {
        const char *behind = skip_sequence(line, end);
        if (behind > line) {
            line = behind;
            continue;
        }
        unsigned char c = (unsigned char)*line++;
        if (c != '\r') {
            *ret++ = (char)(c == '\t' || (c >= ' ' && c != 0x7f) ? c : ' ');
        }
    }
    return ret;
}

/* Sends as many lines as fit into one message, except those to be skipped; splits a line that is
 * too long. Returns the number of bytes that are done. */
static size_t send_lines(struct log_request *a, const struct output_source *of, struct tfe_wall at,
                         const char *bytes, size_t n)
{
    char text[MSG_LOG_TEXT_MAX + 1];
    char *out = text;
    uint64_t *skip = skip_of(a, of, false);
    size_t done = 0;
    while (done < n) {
        size_t length;
        size_t step = output_line(bytes + done, n - done, &length);
        if (skip && *skip > 0) {
            --*skip;
            done += step;
            continue;
        }
        const char *line = output_visible(bytes + done, &length);
        if (out > text && length >= (size_t)(text + sizeof(text) - out)) {
            break;
        }
        if (length > MSG_LOG_TEXT_MAX) {
            length = utf8_cut(line, MSG_LOG_TEXT_MAX);
            step = (size_t)(line + length - (bytes + done));
        }
        out = write_plain(out, line, length);
        *out++ = '\n';
        done += step;
    }
    if (out > text) {
        out[-1] = '\0';
        const struct tfe_msg msg = {.type = MSG_LOG_CHUNK,
                                    .u.log_chunk = {a->spec.request, of->epoch, of->rank,
                                                    of->stream, at, text, a->lost, 0}};
        a->lost = 0;
        a->credit -= MSG_LOG_COST + strlen(text);
        a->serve->options.send(a->serve->options.ctx, &msg);
    }
    return done;
}

/* Sends lines from files. Returns true if something was sent or the reader is done. */
static bool send_from_files(struct log_request *a)
{
    struct log_reader *reader = a->reader;
    if (reader->busy) {
        return false;
    }
    if (reader->done) {
        drop_reader(a);
        return true;
    }
    if (a->read_at < reader->n) {
        a->read_at += send_lines(a, &reader->of, (struct tfe_wall){0}, reader->bytes + a->read_at,
                                 reader->n - a->read_at);
        return true;
    }
    a->read_at = 0;
    log_writer_read(a->serve->options.logs, reader);
    return false;
}

/* Sends lines from the ring. Returns false if there are none. */
static bool send_from_ring(struct log_request *a)
{
    struct output_cursor *cursor = &a->cursor;
    const struct output_record *record = cursor->next;
    if (!record) {
        return false;
    }
    if (is_of(a, record)) {
        cursor->offset += send_lines(a, &record->stream->of, record->at,
                                     record->bytes + cursor->offset, record->n - cursor->offset);
    }
    if (!is_of(a, record) || cursor->offset == record->n) {
        output_cursor_advance(cursor);
    }
    return true;
}

static void send_enter(struct log_serve *serve)
{
    serve->send_depth++;
}

static void send_leave(struct log_serve *serve)
{
    if (--serve->send_depth == 0 && serve->is_disconnected) {
        log_serve_drop_requests(serve);
    }
}

static void pump(struct log_request *a)
{
    struct log_serve *serve = a->serve;
    const struct log_serve_options *options = &serve->options;
    bool continues = true;
    send_enter(serve);
    while (continues && a->credit >= MSG_LOG_COST + MSG_LOG_TEXT_MAX && !serve->is_disconnected &&
           options->has_room(options->ctx)) {
        continues = a->reader ? send_from_files(a) : send_from_ring(a);
    }
    if (!continues && !a->reader && !a->spec.follow) {
        const struct tfe_msg done = {.type = MSG_LOG_DONE, .u.log_done = {a->spec.request}};
        options->send(options->ctx, &done);
        request_end(a);
    }
    send_leave(serve);
}

static void on_read(void *ctx)
{
    pump(ctx);
}

void log_serve_resume(struct log_serve *serve)
{
    send_enter(serve);
    for (struct log_request *a = LIST_FIRST(&serve->requests), *next; a; a = next) {
        next = LIST_NEXT(a, link);
        pump(a);
    }
    send_leave(serve);
}

static uint64_t lines_left(const struct log_request *a, const struct output_record *record,
                           size_t offset)
{
    return is_of(a, record) ? output_count_lines(record->bytes + offset, record->n - offset) : 0;
}

/* Reports how many lines a slow client has not received, because they are lost if
 * the agent exits now. */
static void send_remaining_count(struct log_request *a)
{
    const struct output_record *record = a->cursor.next;
    const struct output_source of = record->stream->of;
    uint64_t behind = a->lost + lines_left(a, record, a->cursor.offset);
    while ((record = STAILQ_NEXT(record, link))) {
        behind += lines_left(a, record, 0);
    }
    const struct tfe_msg msg = {.type = MSG_LOG_CHUNK,
                                .u.log_chunk = {.request = a->spec.request,
                                                .epoch = of.epoch,
                                                .rank = of.rank,
                                                .stream = of.stream,
                                                .text = "",
                                                .behind = behind}};
    if (behind > 0) {
        a->serve->options.send(a->serve->options.ctx, &msg);
    }
}

void log_serve_flush(struct log_serve *serve)
{
    struct log_request *a;
    send_enter(serve);
    log_serve_resume(serve);
    LIST_FOREACH(a, &serve->requests, link)
    {
        if (a->cursor.next) {
            send_remaining_count(a);
        }
    }
    send_leave(serve);
}

static void on_gather(evutil_socket_t fd, short what, void *ctx)
{
    log_serve_resume(ctx);
}

/* --- callbacks of the ring --- */

static void on_more(void *ctx)
{
    const struct log_request *a = ctx;
    if (!evtimer_pending(a->serve->gather, NULL)) {
        (void)timer_after(a->serve->gather, GATHER_MS);
    }
}

static void on_lost(void *ctx, const struct output_record *record, size_t offset)
{
    struct log_request *a = ctx;
    a->lost += lines_left(a, record, offset);
}

/* --- requests from the server --- */

static struct log_request *request_of(const struct log_serve *serve, uint64_t request)
{
    struct log_request *a;
    LIST_FOREACH(a, &serve->requests, link)
    {
        if (a->spec.request == request) {
            return a;
        }
    }
    return NULL;
}

static void request_begin(struct log_serve *serve, const struct msg_log_request *spec)
{
    struct log_request *a = request_of(serve, spec->request);
    if (!a && (serve->n_requests == LIMIT_LOG_REQUESTS || !(a = calloc(1, sizeof(*a))))) {
        const struct tfe_msg done = {.type = MSG_LOG_DONE, .u.log_done = {spec->request}};
        serve->options.send(serve->options.ctx, &done);
        return;
    }
    if (a->serve) {
        return; /* a repeated request */
    }
    *a = (struct log_request){.serve = serve, .spec = *spec, .credit = spec->window};
    LIST_INSERT_HEAD(&serve->requests, a, link);
    serve->n_requests++;
    struct output_ring *ring = serve->options.ring;
    uint64_t epoch = spec->epoch ? spec->epoch : ring->newest;
    a->cursor = (struct output_cursor){.on_more = on_more, .on_lost = on_lost, .ctx = a};
    output_cursor_add(ring, &a->cursor, STAILQ_FIRST(&ring->records));
    if (!has_all(a, epoch) && serve->options.logs && epoch > 0) {
        reading_begin(a, epoch);
    }
    pump(a);
}

void log_serve_handle(struct log_serve *serve, const struct tfe_msg *msg)
{
    if (msg->type == MSG_LOG_REQUEST) {
        request_begin(serve, &msg->u.log_request);
        return;
    }
    bool is_credit = msg->type == MSG_LOG_CREDIT;
    struct log_request *a =
        request_of(serve, is_credit ? msg->u.log_credit.request : msg->u.log_stop.request);
    if (a && is_credit) {
        a->credit += msg->u.log_credit.bytes;
        pump(a);
    } else if (a) {
        request_end(a);
    }
}

/* --- creation and destruction --- */

struct log_serve *log_serve_new(const struct log_serve_options *options)
{
    struct log_serve *serve = must_alloc(sizeof(*serve));
    serve->options = *options;
    LIST_INIT(&serve->requests);
    serve->gather = evtimer_new(options->base, on_gather, serve);
    must_succeed(serve->gather);
    return serve;
}

void log_serve_drop_requests(struct log_serve *serve)
{
    serve->is_disconnected = serve->send_depth > 0;
    if (serve->is_disconnected) {
        return;
    }
    for (struct log_request *a = LIST_FIRST(&serve->requests), *next; a; a = next) {
        next = LIST_NEXT(a, link);
        request_end(a);
    }
}

void log_serve_free(struct log_serve *serve)
{
    if (serve) {
        log_serve_drop_requests(serve);
        event_drop(&serve->gather);
        free(serve);
    }
}
