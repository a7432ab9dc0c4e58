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

struct asker {
    struct log_serve *serve;
    LIST_ENTRY(asker) link;
    struct msg_log_ask says;
    uint64_t credit;
    uint64_t lost;
    struct kept_piece *next;   /* next buffered piece to send, or NULL to wait for new output */
    struct log_reader *reader; /* log files to send first, or NULL */
    size_t read_at;            /* offset of the next byte in the reader's result */
    struct {
        uint32_t rank;
        enum tfe_stream stream;
        uint64_t lines;
    } skips[SKIPS_MAX];
    size_t n_skips;
};

struct log_serve {
    struct log_serve_wish wish;
    struct event *soon;
    LIST_HEAD(, asker) askers;
    uint32_t n_askers;
    unsigned speaking; /* nesting depth of sending; requests are not freed while it is positive */
    bool is_cut;       /* the connection was lost while sending; drop all requests afterwards */
};

/* --- selection --- */

static bool is_of(const struct asker *a, const struct kept_piece *piece)
{
    const struct msg_log_ask *says = &a->says;
    return (!says->has_rank || piece->of.rank == says->rank) &&
           (says->epoch == 0 || piece->of.epoch == says->epoch) && piece->at.ms >= says->since.ms;
}

/* Returns the number of lines to skip in a stream. Returns NULL if there are too many streams. */
static uint64_t *skip_of(struct asker *a, const struct kept_source *of, bool adds)
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
static bool count(struct asker *a)
{
    const struct kept_piece *piece;
    bool is_enough = a->says.lines != MSG_UNSET;
    STAILQ_FOREACH(piece, &a->serve->wish.kept->pieces, link)
    {
        uint64_t *lines = is_of(a, piece) ? skip_of(a, &piece->of, true) : NULL;
        if (lines) {
            *lines += piece->lines;
        }
    }
    for (size_t i = 0; i < a->n_skips; i++) {
        uint64_t lines = a->skips[i].lines;
        is_enough = is_enough && lines >= a->says.lines;
        a->skips[i].lines = lines > a->says.lines ? lines - a->says.lines : 0;
    }
    return is_enough && a->n_skips > 0;
}

/* Returns true if the buffer holds all requested lines. */
static bool is_kept(struct asker *a, uint64_t epoch)
{
    const struct kept *k = a->serve->wish.kept;
    const struct kept_piece *oldest = STAILQ_FIRST(&k->pieces);
    bool is_enough = count(a);
    bool is_whole = k->first > 0 && epoch >= k->first && epoch > k->dropped;
    bool is_later = oldest && a->says.since.ms > 0 && oldest->at.ms < a->says.since.ms;
    return is_enough || is_whole || is_later;
}

static void on_read(void *ctx);

/* Copies the names of this agent's trainers. Without memory for them, files of other agents with
 * the same --log-dir may match. */
static void take_names(struct log_reader *reader, const struct kept *k)
{
    size_t n = k->n_names < KEPT_NAMES_MAX ? k->n_names : KEPT_NAMES_MAX;
    reader->names = n > 0 ? calloc(n, sizeof(*reader->names)) : NULL;
    for (size_t i = 0; reader->names && i < n; i++) {
        if (k->names[i].epoch == reader->epoch) {
            reader->names[reader->n_names++] = k->names[i];
        }
    }
}

/* Starts to read log files. Output that arrives meanwhile is sent from the buffer afterwards. */
static void begin_reading(struct asker *a, uint64_t epoch)
{
    const struct log_serve *serve = a->serve;
    a->reader = log_reader_new();
    if (!a->reader) {
        return;
    }
    a->reader->job = *serve->wish.job;
    a->reader->epoch = epoch;
    a->reader->has_rank = a->says.has_rank;
    a->reader->rank = a->says.rank;
    a->reader->lines = a->says.lines;
    a->reader->since = a->says.since;
    a->reader->is_live = serve->wish.kept->open > 0 && epoch == serve->wish.kept->newest;
    take_names(a->reader, serve->wish.kept);
    a->reader->on_read = on_read;
    a->reader->ctx = a;
    a->next = NULL;
    serve->wish.kept->sealed = true; /* output that arrives from now on starts a new piece */
    a->n_skips = 0;
    log_writer_read(serve->wish.logs, a->reader);
}

/* --- sending --- */

static void drop_reader(struct asker *a)
{
    if (a->reader && a->reader->busy) {
        a->reader->dropped = true;
    } else {
        log_reader_free(a->reader);
    }
    a->reader = NULL;
}

static void end_asker(struct asker *a)
{
    struct log_serve *serve = a->serve;
    drop_reader(a);
    LIST_REMOVE(a, link);
    serve->n_askers--;
    free(a);
}

/* Returns the part of a line that is visible after its carriage returns. */
static const char *last_look(const char *line, const char *end)
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
static char *put_line(char *ret, const char *line, const char *end)
{
    line = last_look(line, end);
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
static void say(struct asker *a, const struct kept_source *of, struct tfe_wall at,
                const char *bytes, size_t n)
{
    char text[MSG_LOG_TEXT_MAX + 2];
    char *put = text;
    const char *end = bytes + n;
    uint64_t *skip = skip_of(a, of, false);
    for (const char *line = bytes; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *stop = newline ? newline : end;
        if (skip && *skip > 0) {
            --*skip;
        } else {
            put = put_line(put, line, stop);
            *put++ = '\n';
        }
        line = stop + 1;
    }
    if (put == text) {
        return;
    }
    put[-1] = '\0';
    const struct tfe_msg msg = {
        .type = MSG_LOG_CHUNK,
        .u.log_chunk = {a->says.ask, of->epoch, of->rank, of->stream, at, text, a->lost, 0}};
    a->lost = 0;
    a->credit -= MSG_LOG_COST + strlen(text);
    a->serve->wish.send(a->serve->wish.ctx, &msg);
}

/* Returns the end of the next lines that fit into one message. */
static const char *bite(const char *bytes, const char *end)
{
    if (end - bytes <= (ptrdiff_t)MSG_LOG_TEXT_MAX) {
        return end;
    }
    const char *newline = memrchr(bytes, '\n', MSG_LOG_TEXT_MAX);
    return newline ? newline + 1 : bytes + MSG_LOG_TEXT_MAX;
}

/* Sends lines from files. Returns true if something was sent or the reader is done. */
static bool say_read(struct asker *a)
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
        const char *to = bite(from, reader->bytes + reader->n);
        say(a, &reader->of, (struct tfe_wall){0}, from, (size_t)(to - from));
        a->read_at += (size_t)(to - from);
        return true;
    }
    a->read_at = 0;
    log_writer_read(a->serve->wish.logs, reader);
    return false;
}

static bool say_kept(struct asker *a)
{
    struct kept *k = a->serve->wish.kept;
    const struct kept_piece *piece = a->next;
    if (!piece) {
        return false;
    }
    if (is_of(a, piece)) {
        say(a, &piece->of, piece->at, piece->bytes, piece->n);
    }
    k->sealed = k->sealed || !STAILQ_NEXT(piece, link);
    a->next = STAILQ_NEXT(piece, link);
    return true;
}

static void begin_speaking(struct log_serve *serve)
{
    serve->speaking++;
}

static void end_speaking(struct log_serve *serve)
{
    if (--serve->speaking == 0 && serve->is_cut) {
        log_serve_forget(serve);
    }
}

static void pump(struct asker *a)
{
    struct log_serve *serve = a->serve;
    const struct log_serve_wish *wish = &serve->wish;
    bool goes_on = true;
    begin_speaking(serve);
    while (goes_on && a->credit >= MSG_LOG_COST + MSG_LOG_TEXT_MAX && !serve->is_cut &&
           wish->has_room(wish->ctx)) {
        goes_on = a->reader ? say_read(a) : say_kept(a);
    }
    if (!goes_on && !a->reader && !a->says.follow) {
        const struct tfe_msg done = {.type = MSG_LOG_DONE, .u.log_done = {a->says.ask}};
        wish->send(wish->ctx, &done);
        end_asker(a);
    }
    end_speaking(serve);
}

static void on_read(void *ctx)
{
    pump(ctx);
}

void log_serve_go_on(struct log_serve *serve)
{
    begin_speaking(serve);
    for (struct asker *a = LIST_FIRST(&serve->askers), *next; a; a = next) {
        next = LIST_NEXT(a, link);
        pump(a);
    }
    end_speaking(serve);
}

/* Reports how many lines a slow client has not received, because they are lost if
 * the agent exits now. */
static void say_behind(struct asker *a)
{
    const struct kept_source of = a->next->of;
    uint64_t behind = 0;
    for (const struct kept_piece *piece = a->next; piece; piece = STAILQ_NEXT(piece, link)) {
        behind += is_of(a, piece) ? piece->lines : 0;
    }
    behind += a->lost;
    const struct tfe_msg msg = {.type = MSG_LOG_CHUNK,
                                .u.log_chunk = {.ask = a->says.ask,
                                                .epoch = of.epoch,
                                                .rank = of.rank,
                                                .stream = of.stream,
                                                .text = "",
                                                .behind = behind}};
    if (behind > 0) {
        a->serve->wish.send(a->serve->wish.ctx, &msg);
    }
}

void log_serve_flush(struct log_serve *serve)
{
    struct asker *a;
    begin_speaking(serve);
    log_serve_go_on(serve);
    LIST_FOREACH(a, &serve->askers, link)
    {
        if (a->next) {
            say_behind(a);
        }
    }
    end_speaking(serve);
}

static void on_soon(evutil_socket_t fd, short what, void *ctx)
{
    log_serve_go_on(ctx);
}

/* --- buffer callbacks --- */

static void on_more(void *ctx, struct kept_piece *piece)
{
    struct log_serve *serve = ctx;
    struct asker *a;
    LIST_FOREACH(a, &serve->askers, link)
    {
        a->next = a->next ? a->next : piece;
    }
    if (!LIST_EMPTY(&serve->askers) && !evtimer_pending(serve->soon, NULL)) {
        (void)timer_after(serve->soon, GATHER_MS);
    }
}

static void on_drop(void *ctx, struct kept_piece *piece)
{
    struct log_serve *serve = ctx;
    struct asker *a;
    LIST_FOREACH(a, &serve->askers, link)
    {
        if (a->next == piece) {
            a->lost += is_of(a, piece) ? piece->lines : 0;
            a->next = STAILQ_NEXT(piece, link);
        }
    }
}

/* --- requests from the server --- */

static struct asker *asker_of(const struct log_serve *serve, uint64_t ask)
{
    struct asker *a;
    LIST_FOREACH(a, &serve->askers, link)
    {
        if (a->says.ask == ask) {
            return a;
        }
    }
    return NULL;
}

static void begin(struct log_serve *serve, const struct msg_log_ask *says)
{
    struct asker *a = asker_of(serve, says->ask);
    if (!a && (serve->n_askers == LIMIT_LOG_ASKS || !(a = calloc(1, sizeof(*a))))) {
        const struct tfe_msg done = {.type = MSG_LOG_DONE, .u.log_done = {says->ask}};
        serve->wish.send(serve->wish.ctx, &done);
        return;
    }
    if (a->serve) {
        return; /* a repeated request */
    }
    *a = (struct asker){.serve = serve, .says = *says, .credit = says->window};
    LIST_INSERT_HEAD(&serve->askers, a, link);
    serve->n_askers++;
    const struct kept *k = serve->wish.kept;
    uint64_t epoch = says->epoch ? says->epoch : k->newest;
    a->next = STAILQ_FIRST(&k->pieces);
    if (!is_kept(a, epoch) && serve->wish.logs && epoch > 0) {
        begin_reading(a, epoch);
    }
    pump(a);
}

void log_serve_take(struct log_serve *serve, const struct tfe_msg *msg)
{
    if (msg->type == MSG_LOG_ASK) {
        begin(serve, &msg->u.log_ask);
        return;
    }
    bool is_credit = msg->type == MSG_LOG_CREDIT;
    struct asker *a = asker_of(serve, is_credit ? msg->u.log_credit.ask : msg->u.log_stop.ask);
    if (a && is_credit) {
        a->credit += msg->u.log_credit.bytes;
        pump(a);
    } else if (a) {
        end_asker(a);
    }
}

/* --- creation and destruction --- */

struct log_serve *log_serve_new(const struct log_serve_wish *wish)
{
    struct log_serve *serve = part_new(sizeof(*serve));
    serve->wish = *wish;
    LIST_INIT(&serve->askers);
    serve->soon = evtimer_new(wish->base, on_soon, serve);
    part_must(serve->soon);
    wish->kept->on_more = on_more;
    wish->kept->on_drop = on_drop;
    wish->kept->ctx = serve;
    return serve;
}

void log_serve_forget(struct log_serve *serve)
{
    serve->is_cut = serve->speaking > 0;
    if (serve->is_cut) {
        return;
    }
    for (struct asker *a = LIST_FIRST(&serve->askers), *next; a; a = next) {
        next = LIST_NEXT(a, link);
        end_asker(a);
    }
}

void log_serve_free(struct log_serve *serve)
{
    if (serve) {
        log_serve_forget(serve);
        serve->wish.kept->on_more = NULL;
        serve->wish.kept->on_drop = NULL;
        event_drop(&serve->soon);
        free(serve);
    }
}
