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

/* Delay to collect lines, because a message for each line would cost more than its content. */
#define GATHER_MS 50

/* Maximum number of streams for which a request skips leading lines. */
#define SKIPS_MAX (2 * MSG_NPROC_MAX)

struct log_request {
    struct log_serve *serve;
    LIST_ENTRY(log_request) link;
    struct msg_log_ask spec;
    uint64_t credit;
    uint64_t lost;
    struct retained_piece *next; /* next buffered piece to send, or NULL to wait for new output */
    struct log_reader *reader;   /* log files to send first, or NULL */
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

static bool is_of(const struct log_request *a, const struct retained_piece *piece)
{
    const struct msg_log_ask *spec = &a->spec;
    return (!spec->has_rank || piece->of.rank == spec->rank) &&
           (spec->epoch == 0 || piece->of.epoch == spec->epoch) && piece->at.ms >= spec->since.ms;
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
    const struct retained_piece *piece;
    bool is_enough = a->spec.lines != MSG_UNSET;
    STAILQ_FOREACH(piece, &a->serve->options.retained->pieces, link)
    {
        uint64_t *lines = is_of(a, piece) ? skip_of(a, &piece->of, true) : NULL;
        if (lines) {
            *lines += piece->lines;
        }
    }
    for (size_t i = 0; i < a->n_skips; i++) {
        uint64_t lines = a->skips[i].lines;
        is_enough = is_enough && lines >= a->spec.lines;
        a->skips[i].lines = lines > a->spec.lines ? lines - a->spec.lines : 0;
    }
    return is_enough && a->n_skips > 0;
}

/* Returns true if the buffer holds all requested lines. */
static bool has_all_retained(struct log_request *a, uint64_t epoch)
{
    const struct retained_output *k = a->serve->options.retained;
    const struct retained_piece *oldest = STAILQ_FIRST(&k->pieces);
    bool is_enough = count(a);
    bool is_whole = k->first > 0 && epoch >= k->first && epoch > k->dropped;
    bool is_later = oldest && a->spec.since.ms > 0 && oldest->at.ms < a->spec.since.ms;
    return is_enough || is_whole || is_later;
}

static void on_read(void *ctx);

/* Copies the names of this agent's trainers. Without memory for them, files of other agents with
 * the same --log-dir may match. */
static void copy_names(struct log_reader *reader, const struct retained_output *k)
{
    size_t n = k->n_names < RETAINED_NAMES_MAX ? k->n_names : RETAINED_NAMES_MAX;
    reader->names = n > 0 ? calloc(n, sizeof(*reader->names)) : NULL;
    for (size_t i = 0; reader->names && i < n; i++) {
        if (k->names[i].epoch == reader->epoch) {
            reader->names[reader->n_names++] = k->names[i];
        }
    }
}

/* Starts to read log files. Output that arrives meanwhile is sent from the buffer afterwards. */
static void reading_begin(struct log_request *a, uint64_t epoch)
{
    const struct log_serve *serve = a->serve;
    a->reader = log_reader_new();
    if (!a->reader) {
        return;
    }
    a->reader->job = *serve->options.job;
    a->reader->epoch = epoch;
    a->reader->has_rank = a->spec.has_rank;
    a->reader->rank = a->spec.rank;
    a->reader->lines = a->spec.lines;
    a->reader->since = a->spec.since;
    a->reader->is_live =
        serve->options.retained->open > 0 && epoch == serve->options.retained->newest;
    copy_names(a->reader, serve->options.retained);
    a->reader->on_read = on_read;
    a->reader->ctx = a;
    a->next = NULL;
    serve->options.retained->sealed = true; /* output that arrives from now on starts a new piece */
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
    LIST_REMOVE(a, link);
    serve->n_requests--;
    free(a);
}

/* Returns the part of a line that is visible after its carriage returns. */
static const char *visible_part(const char *line, const char *end)
{
    while (end > line && end[-1] == '\r') {
        end--;
    }
    const char *cr = memrchr(line, '\r', (size_t)(end - line));
    return cr ? cr + 1 : line;
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

/* Writes the line as plain text to ret, which must be as long as the line. Returns
 * the end of the text. */
static char *write_plain(char *ret, const char *line, const char *end)
{
    line = visible_part(line, end);
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

/* Sends n bytes of complete lines, except those to be skipped. */
static void send_lines(struct log_request *a, const struct output_source *of, struct tfe_wall at,
                       const char *bytes, size_t n)
{
    char text[MSG_LOG_TEXT_MAX + 2];
    char *out = text;
    const char *end = bytes + n;
    uint64_t *skip = skip_of(a, of, false);
    for (const char *line = bytes; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *stop = newline ? newline : end;
        if (skip && *skip > 0) {
            --*skip;
        } else {
            out = write_plain(out, line, stop);
            *out++ = '\n';
        }
        line = stop + 1;
    }
    if (out == text) {
        return;
    }
    out[-1] = '\0';
    const struct tfe_msg msg = {
        .type = MSG_LOG_CHUNK,
        .u.log_chunk = {a->spec.ask, of->epoch, of->rank, of->stream, at, text, a->lost, 0}};
    a->lost = 0;
    a->credit -= MSG_LOG_COST + strlen(text);
    a->serve->options.send(a->serve->options.ctx, &msg);
}

/* Returns the end of the next lines that fit into one message. */
static const char *portion_end(const char *bytes, const char *end)
{
    if (end - bytes <= (ptrdiff_t)MSG_LOG_TEXT_MAX) {
        return end;
    }
    const char *newline = memrchr(bytes, '\n', MSG_LOG_TEXT_MAX);
    return newline ? newline + 1 : bytes + MSG_LOG_TEXT_MAX;
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
        const char *from = reader->bytes + a->read_at;
        const char *to = portion_end(from, reader->bytes + reader->n);
        send_lines(a, &reader->of, (struct tfe_wall){0}, from, (size_t)(to - from));
        a->read_at += (size_t)(to - from);
        return true;
    }
    a->read_at = 0;
    log_writer_read(a->serve->options.logs, reader);
    return false;
}

static bool send_retained(struct log_request *a)
{
    struct retained_output *k = a->serve->options.retained;
    const struct retained_piece *piece = a->next;
    if (!piece) {
        return false;
    }
    if (is_of(a, piece)) {
        send_lines(a, &piece->of, piece->at, piece->bytes, piece->n);
    }
    k->sealed = k->sealed || !STAILQ_NEXT(piece, link);
    a->next = STAILQ_NEXT(piece, link);
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
        continues = a->reader ? send_from_files(a) : send_retained(a);
    }
    if (!continues && !a->reader && !a->spec.follow) {
        const struct tfe_msg done = {.type = MSG_LOG_DONE, .u.log_done = {a->spec.ask}};
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

/* Reports how many lines a slow client has not received, because they are lost if
 * the agent exits now. */
static void send_remaining_count(struct log_request *a)
{
    const struct output_source of = a->next->of;
    uint64_t behind = 0;
    for (const struct retained_piece *piece = a->next; piece; piece = STAILQ_NEXT(piece, link)) {
        behind += is_of(a, piece) ? piece->lines : 0;
    }
    behind += a->lost;
    const struct tfe_msg msg = {.type = MSG_LOG_CHUNK,
                                .u.log_chunk = {.ask = a->spec.ask,
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
        if (a->next) {
            send_remaining_count(a);
        }
    }
    send_leave(serve);
}

static void on_gather(evutil_socket_t fd, short what, void *ctx)
{
    log_serve_resume(ctx);
}

/* --- buffer callbacks --- */

static void on_more(void *ctx, struct retained_piece *piece)
{
    struct log_serve *serve = ctx;
    struct log_request *a;
    LIST_FOREACH(a, &serve->requests, link)
    {
        a->next = a->next ? a->next : piece;
    }
    if (!LIST_EMPTY(&serve->requests) && !evtimer_pending(serve->gather, NULL)) {
        (void)timer_after(serve->gather, GATHER_MS);
    }
}

static void on_drop(void *ctx, struct retained_piece *piece)
{
    struct log_serve *serve = ctx;
    struct log_request *a;
    LIST_FOREACH(a, &serve->requests, link)
    {
        if (a->next == piece) {
            a->lost += is_of(a, piece) ? piece->lines : 0;
            a->next = STAILQ_NEXT(piece, link);
        }
    }
}

/* --- requests from the server --- */

static struct log_request *request_of(const struct log_serve *serve, uint64_t ask)
{
    struct log_request *a;
    LIST_FOREACH(a, &serve->requests, link)
    {
        if (a->spec.ask == ask) {
            return a;
        }
    }
    return NULL;
}

static void ask_begin(struct log_serve *serve, const struct msg_log_ask *spec)
{
    struct log_request *a = request_of(serve, spec->ask);
    if (!a && (serve->n_requests == LIMIT_LOG_REQUESTS || !(a = calloc(1, sizeof(*a))))) {
        const struct tfe_msg done = {.type = MSG_LOG_DONE, .u.log_done = {spec->ask}};
        serve->options.send(serve->options.ctx, &done);
        return;
    }
    if (a->serve) {
        return; /* a repeated request */
    }
    *a = (struct log_request){.serve = serve, .spec = *spec, .credit = spec->window};
    LIST_INSERT_HEAD(&serve->requests, a, link);
    serve->n_requests++;
    const struct retained_output *k = serve->options.retained;
    uint64_t epoch = spec->epoch ? spec->epoch : k->newest;
    a->next = STAILQ_FIRST(&k->pieces);
    if (!has_all_retained(a, epoch) && serve->options.logs && epoch > 0) {
        reading_begin(a, epoch);
    }
    pump(a);
}

void log_serve_handle(struct log_serve *serve, const struct tfe_msg *msg)
{
    if (msg->type == MSG_LOG_ASK) {
        ask_begin(serve, &msg->u.log_ask);
        return;
    }
    bool is_credit = msg->type == MSG_LOG_CREDIT;
    struct log_request *a =
        request_of(serve, is_credit ? msg->u.log_credit.ask : msg->u.log_stop.ask);
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
    options->retained->on_more = on_more;
    options->retained->on_drop = on_drop;
    options->retained->ctx = serve;
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
        serve->options.retained->on_more = NULL;
        serve->options.retained->on_drop = NULL;
        event_drop(&serve->gather);
        free(serve);
    }
}
