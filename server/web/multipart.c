/* server/web/multipart.c: see multipart.h. */
#include "server/web/multipart.h"

#include <string.h>
#include <strings.h>

static const char form[] = "multipart/form-data";

static int refuse(struct tfe_why *why, const char *sentence)
{
    why_set(why, "the body is no multipart/form-data: %s", sentence);
    return TFE_EINVAL;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static const char *skip(const char *at)
{
    while (is_blank(*at)) {
        at++;
    }
    return at;
}

bool multipart_is(const char *type)
{
    if (!type) {
        return false;
    }
    type = skip(type);
    const size_t n = sizeof(form) - 1;
    return strncasecmp(type, form, n) == 0 &&
           (type[n] == '\0' || type[n] == ';' || is_blank(type[n]));
}

/* --- parameters: ; NAME=VALUE, where VALUE may be in quotes -------------------------------------
 */

/* VALUE at *at, which goes behind it. False: it is none, or longer than room - 1. */
static bool take_value(const char **at, char *ret, size_t room)
{
    const char *from = *at;
    const bool is_quoted = *from == '"';
    size_t n = 0;
    from += is_quoted;
    while (*from != '\0' && (is_quoted ? *from != '"' : *from != ';' && !is_blank(*from))) {
        from += is_quoted && *from == '\\' && from[1] != '\0';
        if (n + 1 >= room) {
            return false;
        }
        ret[n++] = *from++;
    }
    ret[n] = '\0';
    if (is_quoted && *from++ != '"') {
        return false;
    }
    *at = from;
    return true;
}

/* The parameter of that name, behind what the header says first. False: there is none, or something
 * in it makes no sense. Others may be longer than room. */
static bool find_parameter(const char *header, const char *name, char *ret, size_t room)
{
    char other[MULTIPART_LINE_MAX];
    const char *at = header + strcspn(header, ";");
    const size_t n = strlen(name);
    while (*at == ';') {
        at = skip(at + 1);
        const size_t own = strcspn(at, "=; \t");
        const bool is_it = own == n && strncasecmp(at, name, n) == 0;
        at += own;
        if (*at++ != '=' || !take_value(&at, is_it ? ret : other, is_it ? room : sizeof(other))) {
            return false;
        }
        if (is_it) {
            return true;
        }
        at = skip(at);
    }
    return false;
}

/* RFC 2046: bchars, and no blank at the end. */
static bool is_boundary(const char *text)
{
    static const char chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                "'()+_,-./:=? ";
    const size_t n = strlen(text);
    return n > 0 && strspn(text, chars) == n && text[n - 1] != ' ';
}

int multipart_init(struct multipart *m, const char *type, const struct multipart_sink *sink,
                   struct tfe_why *why)
{
    char boundary[MULTIPART_BOUNDARY_MAX + 1];
    if (!multipart_is(type) || !find_parameter(type, "boundary", boundary, sizeof(boundary)) ||
        !is_boundary(boundary)) {
        return refuse(why, "its Content-Type names no boundary");
    }
    *m = (struct multipart){.sink = *sink, .state = MULTIPART_OUTSIDE};
    memcpy(m->mark, "\r\n--", 4);
    memcpy(m->mark + 4, boundary, strlen(boundary) + 1);
    m->n_mark = strlen(m->mark);
    m->matched = 2; /* the first boundary may be the first line */
    m->is_head_s = true;
    return 0;
}

/* --- a part's head ---------------------------------------------------------------------------- */

/* NULL: the line is another header. */
static const char *value_of(const char *line, const char *header)
{
    const size_t n = strlen(header);
    return strncasecmp(line, header, n) == 0 && line[n] == ':' ? skip(line + n + 1) : NULL;
}

static int take_header(struct multipart *m, struct tfe_why *why)
{
    const char *value = value_of(m->line, "Content-Disposition");
    if (value) {
        const size_t n = strcspn(value, "; \t");
        if (n != 9 || strncasecmp(value, "form-data", 9) != 0 || m->name[0] != '\0' ||
            !find_parameter(value, "name", m->name, sizeof(m->name)) || m->name[0] == '\0') {
            return refuse(why, "a part's Content-Disposition is not form-data; name=\"…\"");
        }
    }
    value = value_of(m->line, "Content-Transfer-Encoding");
    if (value && strcasecmp(value, "binary") != 0 && strcasecmp(value, "8bit") != 0 &&
        strcasecmp(value, "7bit") != 0) {
        return refuse(why, "a part is encoded for mail (RFC 7578 has that no more)");
    }
    return 0;
}

/* The line is whole, without its end. */
static int take_line(struct multipart *m, struct tfe_why *why)
{
    m->line[m->n_line] = '\0';
    const bool is_end = m->n_line == 0;
    if (strlen(m->line) != m->n_line || is_blank(m->line[0])) {
        return refuse(why, "a part's head makes no sense");
    }
    m->n_line = 0;
    if (!is_end) {
        if (++m->lines > MULTIPART_LINES_MAX) {
            why_set(why, "a part's head has more than %u lines", MULTIPART_LINES_MAX);
            return TFE_ETOOBIG;
        }
        return take_header(m, why);
    }
    if (m->name[0] == '\0') {
        return refuse(why, "a part has no name");
    }
    m->state = MULTIPART_BYTES;
    m->matched = 2; /* of a part without bytes the line's end before its boundary is the head's */
    m->is_head_s = true;
    return m->sink.part(m->sink.ctx, m->name, why);
}

/* Up to the line's end, or all; *ret_n of them were taken. */
static int read_line(struct multipart *m, const uint8_t *bytes, size_t n, size_t *ret_n,
                     struct tfe_why *why, bool *ret_is_whole)
{
    const uint8_t *end = memchr(bytes, '\n', n);
    const size_t some = end ? (size_t)(end - bytes) + 1 : n;
    *ret_n = some;
    *ret_is_whole = end != NULL;
    if (some > sizeof(m->line) - 1 - m->n_line) {
        why_set(why, "a line of a part's head is longer than %u bytes", MULTIPART_LINE_MAX);
        return TFE_ETOOBIG;
    }
    memcpy(m->line + m->n_line, bytes, some);
    m->n_line += some;
    if (!end) {
        return 0;
    }
    m->n_line--;
    if (m->n_line == 0 || m->line[m->n_line - 1] != '\r') {
        return refuse(why, "a line ends without a carriage return");
    }
    m->n_line--;
    return 0;
}

static int read_head(struct multipart *m, const uint8_t *bytes, size_t n, size_t *ret_n,
                     struct tfe_why *why)
{
    bool is_whole;
    int rc = read_line(m, bytes, n, ret_n, why, &is_whole);
    return rc == 0 && is_whole ? take_line(m, why) : rc;
}

/* Behind a boundary: "--" is the end of all; else blanks, and the line's end. */
static int read_after(struct multipart *m, char c, struct tfe_why *why)
{
    const char before = m->after;
    m->after = is_blank(c) ? ' ' : c;
    if (before == '-' && c == '-') {
        m->state = MULTIPART_OVER;
        return 0;
    }
    if (before == '\r' && c == '\n') {
        if (++m->parts > MULTIPART_PARTS_MAX) {
            why_set(why, "the body has more than %u parts", MULTIPART_PARTS_MAX);
            return TFE_ETOOBIG;
        }
        m->state = MULTIPART_HEAD;
        m->n_line = m->lines = 0;
        m->name[0] = '\0';
        return 0;
    }
    const bool is_sound = before == '\0' ? c == '-' || c == '\r' || is_blank(c)
                                         : before == ' ' && (c == '\r' || is_blank(c));
    return is_sound ? 0 : refuse(why, "something else stands in a boundary's line");
}

/* --- a part's bytes --------------------------------------------------------------------------- */

static int tell(struct multipart *m, const uint8_t *bytes, size_t n, struct tfe_why *why)
{
    return m->state == MULTIPART_BYTES && n > 0 ? m->sink.bytes(m->sink.ctx, bytes, n, why) : 0;
}

static int take_boundary(struct multipart *m, struct tfe_why *why)
{
    const bool is_part = m->state == MULTIPART_BYTES;
    m->state = MULTIPART_AFTER;
    m->matched = 0;
    m->after = '\0';
    return is_part ? m->sink.end(m->sink.ctx, why) : 0;
}

/* A boundary has one carriage return, its first byte: what has matched and does not go on is told,
 * and nothing within it can begin another. */
static int read_bytes(struct multipart *m, const uint8_t *bytes, size_t n, size_t *ret_n,
                      struct tfe_why *why)
{
    size_t i = 0;
    while (i < n && m->matched < m->n_mark && bytes[i] == (uint8_t)m->mark[m->matched]) {
        m->matched++;
        i++;
    }
    *ret_n = i;
    if (m->matched == m->n_mark) {
        return take_boundary(m, why);
    }
    if (i == n) {
        return 0;
    }
    const size_t from = m->is_head_s ? 2 : 0;
    int rc = m->matched > 0 ? tell(m, (const uint8_t *)m->mark + from, m->matched - from, why) : 0;
    m->matched = 0;
    m->is_head_s = false;
    const uint8_t *next = memchr(bytes + i, '\r', n - i);
    const size_t plain = next ? (size_t)(next - bytes) - i : n - i;
    *ret_n = i + plain;
    return rc ? rc : tell(m, bytes + i, plain, why);
}

int multipart_read(struct multipart *m, const uint8_t *bytes, size_t n, struct tfe_why *why)
{
    int rc = 0;
    while (n > 0 && rc == 0) {
        size_t some = n;
        switch (m->state) {
        case MULTIPART_OUTSIDE:
        case MULTIPART_BYTES:
            rc = read_bytes(m, bytes, n, &some, why);
            break;
        case MULTIPART_AFTER:
            some = 1;
            rc = read_after(m, (char)bytes[0], why);
            break;
        case MULTIPART_HEAD:
            rc = read_head(m, bytes, n, &some, why);
            break;
        case MULTIPART_OVER:
            break;
        }
        bytes += some;
        n -= some;
    }
    return rc;
}

int multipart_end(const struct multipart *m, struct tfe_why *why)
{
    return m->state == MULTIPART_OVER ? 0 : refuse(why, "it ends before its last boundary");
}
