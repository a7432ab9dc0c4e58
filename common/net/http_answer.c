/* common/net/http_answer.c: one byte after the other, RFC 9112 as far as a small client needs it.
 *
 *   STATUS --> HEADER --+--> BODY, BODY_ALL ----------------------------------> DONE
 *      ^__ 1xx ____|    +--> CHUNK_SIZE --> CHUNK --> CHUNK_END --> CHUNK_SIZE
 *                       |         +--> TRAILER -------------------------------> DONE
 *                       +--> DONE: no body
 */
#include "common/net/http_answer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void http_answer_init(struct http_answer *answer)
{
    memset(answer, 0, sizeof *answer);
}

void http_answer_done(struct http_answer *answer)
{
    free(answer->body);
    http_answer_init(answer);
}

const char *http_answer_header(const struct http_answer *answer, const char *name)
{
    const size_t n = strlen(name);
    const char *end = answer->head + answer->head_n;
    for (const char *line = answer->head; line < end; line += strlen(line) + 1) {
        if (strncasecmp(line, name, n) == 0 && line[n] == ':') {
            return line + n + 1 + strspn(line + n + 1, " \t");
        }
    }
    return NULL;
}

/* --- the body --------------------------------------------------------------------------------- */

static int body_too_long(struct tfe_why *why)
{
    why_set(why, "the answer is longer than %d bytes", HTTP_BODY_MAX);
    return TFE_ETOOBIG;
}

static int body_add(struct http_answer *a, const char *bytes, size_t n, struct tfe_why *why)
{
    if (n > HTTP_BODY_MAX - a->body_n) {
        return body_too_long(why);
    }
    if (a->body_n + n + 1 > a->body_cap) {
        size_t cap = 2 * (a->body_n + n + 1);
        char *grown = realloc(a->body, cap);
        if (!grown) {
            why_set(why, "out of memory");
            return TFE_ENOMEM;
        }
        a->body = grown;
        a->body_cap = cap;
    }
    memcpy(a->body + a->body_n, bytes, n);
    a->body_n += n;
    a->body[a->body_n] = '\0';
    return 0;
}

/* Digits of the base and nothing else. */
static bool read_size(const char *text, size_t n, int base, uint64_t *ret)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    const size_t legal = strspn(text, base == 10 ? "0123456789" : digits);
    if (n == 0 || legal < n) {
        return false;
    }
    errno = 0;
    *ret = strtoull(text, NULL, base);
    return errno == 0;
}

/* --- lines ------------------------------------------------------------------------------------ */

static int bad(struct tfe_why *why, const char *what)
{
    why_set(why, "it does not answer in HTTP: %s", what);
    return TFE_EPROTO;
}

static int take_status(struct http_answer *a, const char *line, struct tfe_why *why)
{
    const char *at = line;
    const bool is_http =
        strncmp(at, "HTTP/1.", 7) == 0 && (at[7] == '0' || at[7] == '1') && at[8] == ' ';
    at += 9;
    if (!is_http || strspn(at, "0123456789") != 3 || (at[3] != ' ' && at[3] != '\0') ||
        at[0] == '0') {
        return bad(why, "no status line");
    }
    a->status = (at[0] - '0') * 100 + (at[1] - '0') * 10 + (at[2] - '0');
    a->state = HTTP_HEADER;
    return 0;
}

/* The empty line after the headers: what comes now? */
static int take_head_end(struct http_answer *a, struct tfe_why *why)
{
    if (a->status < 200) {
        a->head_n = 0;
        a->state = HTTP_STATUS;
        return 0;
    }
    const char *coding = http_answer_header(a, "Transfer-Encoding");
    const char *length = http_answer_header(a, "Content-Length");
    if (body_add(a, "", 0, why)) {
        return TFE_ENOMEM;
    }
    if (a->status == 204 || a->status == 304) {
        a->state = HTTP_DONE;
    } else if (coding) {
        if (strcasecmp(coding, "chunked") != 0) {
            return bad(why, "an unknown transfer coding");
        }
        a->state = HTTP_CHUNK_SIZE;
    } else if (length) {
        if (!read_size(length, strlen(length), 10, &a->left)) {
            return bad(why, "a length that is no number");
        }
        if (a->left > HTTP_BODY_MAX) {
            return body_too_long(why);
        }
        a->state = a->left > 0 ? HTTP_BODY : HTTP_DONE;
    } else {
        a->state = HTTP_BODY_ALL;
    }
    return 0;
}

/* A whole line stands at line_at, without its end. Lines of the head stay there. */
static int take_line(struct http_answer *a, struct tfe_why *why)
{
    char *line = a->head + a->line_at;
    size_t n = strlen(line);
    while (n > 0 && strchr("\r \t", line[n - 1])) {
        line[--n] = '\0';
    }
    switch (a->state) {
    case HTTP_STATUS:
        a->head_n = 0;
        return take_status(a, line, why);
    case HTTP_HEADER:
        if (n == 0) {
            return take_head_end(a, why);
        }
        if (!strchr(line, ':')) {
            return bad(why, "a header without a colon");
        }
        a->head_n = a->line_at + n + 1;
        return 0;
    case HTTP_CHUNK_SIZE:
        if (!read_size(line, strcspn(line, "; \t"), 16, &a->left)) {
            return bad(why, "a chunk whose length is no number");
        }
        a->state = a->left > 0 ? HTTP_CHUNK : HTTP_TRAILER;
        return a->left > HTTP_BODY_MAX ? body_too_long(why) : 0;
    case HTTP_CHUNK_END:
        a->state = HTTP_CHUNK_SIZE;
        return n > 0 ? bad(why, "a chunk longer than it says") : 0;
    case HTTP_TRAILER:
        a->state = n == 0 ? HTTP_DONE : HTTP_TRAILER;
        return 0;
    case HTTP_BODY:
    case HTTP_BODY_ALL:
    case HTTP_CHUNK:
    case HTTP_DONE:
    case HTTP__COUNT:
        break;
    }
    return TFE_ESTATE;
}

/* --- the door --------------------------------------------------------------------------------- */

/* Portions of a body go in whole, everything else byte by byte. Returns how many were used. */
static size_t feed_body(struct http_answer *a, const char *bytes, size_t n, int *ret_rc,
                        struct tfe_why *why)
{
    const size_t use = a->state == HTTP_BODY_ALL || n < a->left ? n : (size_t)a->left;
    *ret_rc = body_add(a, bytes, use, why);
    if (a->state != HTTP_BODY_ALL) {
        a->left -= use;
        if (a->left == 0) {
            a->state = a->state == HTTP_BODY ? HTTP_DONE : HTTP_CHUNK_END;
        }
    }
    return use;
}

static int feed_line(struct http_answer *a, char c, size_t *line_n, struct tfe_why *why)
{
    if (c == '\n') {
        a->head[a->line_at + *line_n] = '\0';
        int rc = take_line(a, why);
        a->line_at = a->head_n;
        *line_n = 0;
        a->head[a->line_at] = '\0';
        return rc;
    }
    if (c == '\0') {
        return bad(why, "a NUL in a header");
    }
    if (a->line_at + *line_n + 2 >= HTTP_HEAD_MAX) {
        why_set(why, "its headers are longer than %d bytes", HTTP_HEAD_MAX);
        return TFE_ETOOBIG;
    }
    a->head[a->line_at + (*line_n)++] = c;
    a->head[a->line_at + *line_n] = '\0';
    return 0;
}

int http_answer_feed(struct http_answer *a, const char *bytes, size_t n, struct tfe_why *why)
{
    size_t line_n = strlen(a->head + a->line_at);
    int rc = 0;
    while (n > 0 && rc == 0 && a->state != HTTP_DONE) {
        size_t used = 1;
        if (a->state == HTTP_BODY || a->state == HTTP_BODY_ALL || a->state == HTTP_CHUNK) {
            used = feed_body(a, bytes, n, &rc, why);
        } else {
            rc = feed_line(a, *bytes, &line_n, why);
        }
        bytes += used;
        n -= used;
    }
    if (rc) {
        return rc;
    }
    return a->state == HTTP_DONE ? 0 : TFE_EMORE;
}

int http_answer_end(struct http_answer *a, struct tfe_why *why)
{
    static const char *const where[HTTP__COUNT] = {
        [HTTP_STATUS] = "before a status line",
        [HTTP_HEADER] = "in its headers",
        [HTTP_BODY] = "in its body",
        [HTTP_CHUNK_SIZE] = "between two chunks",
        [HTTP_CHUNK] = "in a chunk",
        [HTTP_CHUNK_END] = "in a chunk",
        [HTTP_TRAILER] = "in its trailer",
    };
    if (a->state == HTTP_DONE || a->state == HTTP_BODY_ALL) {
        a->state = HTTP_DONE;
        return 0;
    }
    why_set(why, "the answer was cut %s", where[a->state]);
    return TFE_EPROTO;
}
