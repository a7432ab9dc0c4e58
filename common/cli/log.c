/* common/cli/log.c: writes one event per line to stderr. If the reader is stalled, lines are
 * dropped instead of blocking. */
#include "common/cli/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/text/escape.h"

/* Maximum line length: PIPE_BUF, the size that a writable pipe accepts without blocking and in one
 * piece. */
#define LOG_LINE_MAX 4096
/* Space reserved for the end of a truncated line. */
#define LOG_END_MAX 64

/* The process's log. The settings are written before a second thread starts. */
static struct {
    const char *program;
    enum log_level min;
    enum log_format format; /* actual format, never LOG_AUTO */
    bool has_colour;
    atomic_uint_fast64_t dropped; /* lines dropped since the last line that was written */
    atomic_bool torn; /* the last line was written in part, so the next one begins with a newline */
} log_state = {.program = "tfe", .min = LOG_INFO_, .format = LOG_LOGFMT};

const char *const log_levels[] = {[LOG_DEBUG_] = "debug",
                                  [LOG_INFO_] = "info",
                                  [LOG_WARN_] = "warn",
                                  [LOG_ERROR_] = "error",
                                  NULL};
const char *const log_formats[] = {[LOG_AUTO] = "auto",
                                   [LOG_LOGFMT] = "logfmt",
                                   [LOG_JSON] = "json",
                                   [LOG_PRETTY] = "pretty",
                                   NULL};

/* A line under construction. */
struct log_text {
    char bytes[LOG_LINE_MAX];
    size_t n;
    size_t limit;
    bool cut; /* some field did not fit; only the end of the line may be added */
};

void log_init(const char *program, enum log_level min, enum log_format format)
{
    log_state.program = program;
    log_state.min = min;
    bool is_terminal = isatty(STDERR_FILENO);
    if (format == LOG_AUTO) {
        format = is_terminal ? LOG_PRETTY : LOG_LOGFMT;
    }
    log_state.format = format;
    const char *plain = getenv("NO_COLOR"); /* convention of no-color.org */
    log_state.has_colour = format == LOG_PRETTY && is_terminal && !(plain && *plain);
    tzset(); /* load the time zone now: the sandbox may hide its file later */
}

/* Appends all n bytes or, if they do not fit, none. Returns false if they do not fit. */
static bool text_put(struct log_text *t, const char *bytes, size_t n)
{
    if (t->n + n > t->limit) {
        t->cut = true;
        return false;
    }
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
    return true;
}

static bool text_puts(struct log_text *t, const char *text)
{
    return text_put(t, text, strlen(text));
}

/* Writes one character of text, escaped for a quoted string, to unit. Returns the number of bytes
 * consumed. */
static size_t quoted_unit(const char *text, size_t left, char unit[ESCAPE_UNIT_MAX], size_t *ret_n)
{
    const unsigned char c = (unsigned char)*text;
    const char *escape = c == '"'    ? "\\\""
                         : c == '\\' ? "\\\\"
                         : c == '\n' ? "\\n"
                         : c == '\r' ? "\\r"
                         : c == '\t' ? "\\t"
                                     : NULL;
    if (escape) {
        memcpy(unit, escape, 2);
        *ret_n = 2;
        return 1;
    }
    return escape_unit(text, left, unit, ret_n);
}

/* Appends text, truncated if it does not fit; reserves space for the closing quote. Returns false
 * if not even the quotes fit. */
static bool text_put_escaped(struct log_text *t, const char *text, bool quotes)
{
    if (t->n + 2 > t->limit) {
        t->cut = true;
        return false;
    }
    if (quotes) {
        t->bytes[t->n++] = '"';
    }
    size_t left = strlen(text);
    while (left > 0) {
        char unit[ESCAPE_UNIT_MAX];
        size_t unit_n = 0;
        const bool is_plain = !quotes && (*text == '"' || *text == '\\');
        const size_t used = is_plain ? escape_unit(text, left, unit, &unit_n)
                                     : quoted_unit(text, left, unit, &unit_n);
        if (t->n + unit_n + 1 > t->limit) {
            t->cut = true;
            break;
        }
        memcpy(t->bytes + t->n, unit, unit_n);
        t->n += unit_n;
        text += used;
        left -= used;
    }
    if (quotes) {
        t->bytes[t->n++] = '"';
    }
    return true;
}

static bool text_put_quoted(struct log_text *t, const char *text)
{
    return text_put_escaped(t, text, true);
}

/* True if logfmt needs no quotes around the value. */
static bool is_bare(const char *text)
{
    const size_t n = strlen(text);
    /* A longer value may have to be truncated, which only the quoted form supports. */
    if (n == 0 || n > 512) {
        return false;
    }
    for (size_t i = 0; i < n;) {
        const unsigned char c = (unsigned char)text[i];
        char unit[ESCAPE_UNIT_MAX];
        size_t shown = 0;
        const size_t step = escape_unit(text + i, n - i, unit, &shown);
        if (step != shown || c == ' ' || c == '"' || c == '=' || c == '\\') {
            return false;
        }
        i += step;
    }
    return true;
}

static bool text_put_value(struct log_text *t, const struct log_field *field)
{
    char number[24];
    switch (field->kind) {
    case LOG_F_STR:
        if (log_state.format == LOG_LOGFMT && is_bare(field->str)) {
            return text_puts(t, field->str);
        }
        return text_put_quoted(t, field->str);
    case LOG_F_U64:
        (void)snprintf(number, sizeof number, "%" PRIu64, field->u64);
        return text_puts(t, number);
    case LOG_F_I64:
        (void)snprintf(number, sizeof number, "%" PRId64, field->i64);
        return text_puts(t, number);
    case LOG_F_BOOL:
        return text_puts(t, field->u64 ? "true" : "false");
    }
    return true;
}

/* Appends key and value. A field whose key and start of value do not fit is left out. JSON is
 * formatted here, not by jansson, because a line must neither allocate memory nor exceed its
 * buffer. */
static void text_put_field(struct log_text *t, const struct log_field *field)
{
    if (!field->key || (field->kind == LOG_F_STR && !field->str) || t->cut) {
        return;
    }
    const size_t before = t->n;
    bool fits;
    if (log_state.format == LOG_JSON) {
        fits = text_puts(t, before == 0 ? "{" : ",") && text_put_quoted(t, field->key) &&
               text_puts(t, ":") && text_put_value(t, field);
    } else {
        fits = text_puts(t, before == 0 ? "" : " ") && text_puts(t, field->key) &&
               text_puts(t, "=") && text_put_value(t, field);
    }
    if (!fits) {
        t->n = before;
    }
}

/* --- human-readable format: "14:03:22 tfe-agent: stopping: m2 was lost (epoch 3)" ------------- */

static bool is_span(const char *key)
{
    const size_t n = strlen(key);
    return n > 3 && strcmp(key + n - 3, "_ms") == 0;
}

/* Appends an event or key with spaces for underscores, without the suffix "_ms". */
static void pretty_label(struct log_text *t, const char *word)
{
    const size_t n = strlen(word) - (is_span(word) ? 3 : 0);
    for (size_t i = 0; i < n; i++) {
        (void)text_put(t, word[i] == '_' ? " " : &word[i], 1);
    }
}

static void pretty_value(struct log_text *t, const struct log_field *field)
{
    enum { NODE_ID = 32, NODE_SHOWN = 8 };
    if (field->kind == LOG_F_U64 && is_span(field->key)) {
        char text[32];
        (void)snprintf(text, sizeof text, "%.*f s", field->u64 < 10000, (double)field->u64 / 1000);
        (void)text_puts(t, text);
    } else if (field->kind != LOG_F_STR) {
        (void)text_put_value(t, field);
    } else if (strspn(field->str, "0123456789abcdef") == NODE_ID && !field->str[NODE_ID]) {
        (void)text_put(t, field->str, NODE_SHOWN);
    } else {
        (void)text_put_escaped(t, field->str, false);
    }
}

static bool is_given(const struct log_field *field)
{
    return field->key && (field->kind != LOG_F_STR || (field->str && *field->str));
}

static void pretty_line(struct log_text *t, enum log_level level, const char *event,
                        const struct log_field *fields, unsigned n, uint_fast64_t dropped)
{
    static const char *const colours[] = {[LOG_DEBUG_] = "\033[2m",
                                          [LOG_INFO_] = "",
                                          [LOG_WARN_] = "\033[33m",
                                          [LOG_ERROR_] = "\033[31m"};
    static const char *const marks[] = {
        [LOG_DEBUG_] = "", [LOG_INFO_] = "", [LOG_WARN_] = "warning: ", [LOG_ERROR_] = "error: "};
    const time_t now = (time_t)(clock_wall().ms / 1000);
    struct tm local;
    char when[16] = "";
    if (localtime_r(&now, &local)) {
        (void)strftime(when, sizeof when, "%H:%M:%S ", &local);
    }
    const struct log_field *reason = NULL;
    for (unsigned i = 0; i < n && !reason; i++) {
        reason = is_given(&fields[i]) && strcmp(fields[i].key, "reason") == 0 ? &fields[i] : NULL;
    }
    (void)text_puts(t, log_state.has_colour ? colours[level] : "");
    (void)text_puts(t, when);
    (void)text_puts(t, log_state.program);
    (void)text_puts(t, ": ");
    (void)text_puts(t, marks[level]);
    if (!reason || strcmp(event, "waiting") !=
                       0) { /* the reason of a "waiting" event already names the state */
        pretty_label(t, event);
        (void)text_puts(t, reason ? ": " : "");
    }
    if (reason) {
        pretty_value(t, reason);
    }
    const char *before = " (";
    for (unsigned i = 0; i < n && !t->cut; i++) {
        if (is_given(&fields[i]) && &fields[i] != reason) {
            (void)text_puts(t, before);
            pretty_label(t, fields[i].key);
            (void)text_puts(t, " ");
            pretty_value(t, &fields[i]);
            before = ", ";
        }
    }
    t->limit = sizeof t->bytes - 1;
    t->cut = false;
    (void)text_puts(t, before[0] == ',' ? ")" : "");
    if (dropped > 0) {
        (void)text_puts(t, "; lines lost before: ");
        (void)text_put_value(t, &LOG_U("dropped", dropped));
    }
    (void)text_puts(t, log_state.has_colour && *colours[level] ? "\033[0m\n" : "\n");
}

/* Formats a time as "2026-01-31T23:59:59.999Z". */
static void format_time(struct tfe_wall now, char ret[40])
{
    const time_t seconds = (time_t)(now.ms / 1000);
    struct tm utc;
    char day[24];
    if (!gmtime_r(&seconds, &utc) || strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &utc) == 0) {
        day[0] = '\0';
    }
    (void)snprintf(ret, 40, "%s.%03uZ", day, (unsigned)(now.ms % 1000));
}

/* Writes without blocking and returns the number of bytes written. stderr is shared with other
 * processes, so O_NONBLOCK must not be set on it: sockets (the journal) are written with
 * MSG_DONTWAIT, pipes and terminals are polled first. */
static size_t write_at_once(const char *bytes, size_t n)
{
    ssize_t sent;
    do {
        sent = send(STDERR_FILENO, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno == ENOTSOCK) {
        struct pollfd request = {.fd = STDERR_FILENO, .events = POLLOUT};
        /* On POLLERR the pipe has no reader, and a write would raise SIGPIPE. */
        if (poll(&request, 1, 0) != 1 || request.revents != POLLOUT) {
            return 0;
        }
        do {
            sent = write(STDERR_FILENO, bytes, n);
        } while (sent < 0 && errno == EINTR);
    }
    return sent > 0 ? (size_t)sent : 0;
}

static void plain_line(struct log_text *t, enum log_level level, const char *event,
                       const struct log_field *fields, unsigned n, uint_fast64_t dropped)
{
    char when[40];
    format_time(clock_wall(), when);
    text_put_field(t, &LOG_S("time", when));
    text_put_field(t, &LOG_S("level", log_levels[level]));
    text_put_field(t, &LOG_S("program", log_state.program));
    text_put_field(t, &LOG_S("event", event));
    if (dropped > 0) {
        text_put_field(t, &LOG_U("dropped", dropped));
    }
    for (unsigned i = 0; i < n; i++) {
        text_put_field(t, &fields[i]);
    }
    const bool cut = t->cut;
    t->limit = sizeof t->bytes - 1;
    if (cut) {
        t->cut = false;
        text_put_field(t, &LOG_B("cut", true));
    }
    (void)text_puts(t, log_state.format == LOG_JSON ? "}\n" : "\n");
}

void log_line(enum log_level level, const char *event, const struct log_field *fields, unsigned n)
{
    if (level < log_state.min) {
        return;
    }
    const int saved = errno;
    struct log_text t;
    t.n = 0;
    t.cut = false;
    t.limit = sizeof t.bytes - LOG_END_MAX - 1;
    const uint_fast64_t dropped = atomic_load(&log_state.dropped);
    if (log_state.format == LOG_PRETTY) {
        pretty_line(&t, level, event, fields, n, dropped);
    } else {
        plain_line(&t, level, event, fields, n, dropped);
    }

    const bool torn = atomic_load(&log_state.torn);
    if (torn) {
        memmove(t.bytes + 1, t.bytes, t.n);
        t.bytes[0] = '\n';
        t.n++;
    }
    const size_t out = write_at_once(t.bytes, t.n);
    if (out == 0) {
        (void)atomic_fetch_add(&log_state.dropped, 1);
    } else {
        (void)atomic_fetch_sub(&log_state.dropped, dropped);
        atomic_store(&log_state.torn, out < t.n);
    }
    errno = saved;
}
