/* server/web/http_parse.c: see http_parse.h. */
#include "server/web/http_parse.h"

#include <string.h>
#include <strings.h>

/* Maximum digits of lengths: 18 decimal digits fit into 63 bits, 8 hexadecimal digits into 32 bits.
 */
#define LENGTH_DIGITS_MAX 18
#define CHUNK_DIGITS_MAX 8

/* Fields that this server interprets. A proxy could interpret another occurrence of the same field,
 * so repeated ones are rejected. */
static const char *const singletons[] = {"Host",          "Content-Length", "Transfer-Encoding",
                                         "Authorization", "Content-Type",   "Cookie",
                                         "X-CSRF-Token",  "Expect"};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Returns true for tchar of RFC 9110, 5.6.2. */
static bool is_token(char c)
{
    return is_digit(c) || is_alpha(c) || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

long http_head_end(const char *text, size_t n, size_t *scanned)
{
    for (size_t i = *scanned; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        const bool is_after_cr = i > 0 && text[i - 1] == '\r';
        if (is_after_cr != (c == '\n') || c == 0x7f ||
            (c < 0x20 && c != '\t' && c != '\r' && c != '\n')) {
            return TFE_EINVAL;
        }
        if (c == '\n' && i < 2) {
            return TFE_EINVAL; /* an empty line instead of a request */
        }
        if (c == '\n' && i >= 3 && text[i - 2] == '\n') {
            return (long)i + 1;
        }
    }
    *scanned = n;
    return 0;
}

/* --- the request line ------------------------------------------------------------------------- */

static enum http_method method_of(const char *word)
{
    static const char *const names[] = {"GET", "HEAD", "POST", "PUT", "DELETE"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(word, names[i]) == 0) {
            return (enum http_method)i;
        }
    }
    return HTTP_OTHER;
}

/* Parses "GET /path?query HTTP/1.1", with one space between two words. Returns NULL, or a phrase
 * that says what is wrong. */
static const char *parse_request_line(char *line, struct http_head *ret)
{
    char *target = strchr(line, ' ');
    char *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version) {
        return "the request line is not METHOD TARGET VERSION";
    }
    *target++ = '\0';
    *version++ = '\0';
    for (const char *c = line; c == line || *c != '\0'; c++) {
        if (!is_token(*c)) {
            return "the method is not a token";
        }
    }
    for (const char *c = target; *c != '\0'; c++) {
        if ((unsigned char)*c <= ' ' || (unsigned char)*c > '~' || *c == '#') {
            return "the target contains a character that must be percent-encoded";
        }
    }
    if (target[0] != '/') {
        return "the target does not begin with /";
    }
    if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0) {
        return "the version is not HTTP/1.1 or HTTP/1.0";
    }
    char *query = strchr(target, '?');
    if (query) {
        *query++ = '\0';
    }
    ret->method = method_of(line);
    ret->path = target;
    ret->query = query;
    ret->is_1_0 = version[7] == '0';
    return NULL;
}

/* --- fields ----------------------------------------------------------------------------------- */

static const char *parse_field(char *line, struct http_head *ret)
{
    char *name_end = line;
    while (is_token(*name_end)) {
        name_end++;
    }
    if (name_end == line || *name_end != ':') {
        return "a field is not NAME: VALUE";
    }
    if (ret->n_fields == HTTP_FIELDS_MAX) {
        return "there are more than 64 fields";
    }
    *name_end = '\0';
    char *value = name_end + 1 + strspn(name_end + 1, " \t");
    size_t n = strlen(value);
    while (n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t')) {
        value[--n] = '\0';
    }
    for (size_t i = 0; i < sizeof(singletons) / sizeof(singletons[0]); i++) {
        if (strcasecmp(line, singletons[i]) == 0 && http_head_field(ret, line)) {
            return "a field is repeated that is permitted once";
        }
    }
    ret->fields[ret->n_fields].name = line;
    ret->fields[ret->n_fields++].value = value;
    return NULL;
}

const char *http_head_field(const struct http_head *head, const char *name)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        if (strcasecmp(head->fields[i].name, name) == 0) {
            return head->fields[i].value;
        }
    }
    return NULL;
}

/* Returns true if a list field as "a, b", which may be repeated, contains the word. */
static bool has_word(const struct http_head *head, const char *name, const char *word)
{
    const size_t n = strlen(word);
    for (size_t i = 0; i < head->n_fields; i++) {
        if (strcasecmp(head->fields[i].name, name) != 0) {
            continue;
        }
        const char *at = head->fields[i].value;
        while (at && *at != '\0') {
            at += strspn(at, ", \t");
            if (strcspn(at, ", \t") == n && strncasecmp(at, word, n) == 0) {
                return true;
            }
            at += strcspn(at, ", \t");
        }
    }
    return false;
}

static const char *parse_length(const char *text, struct http_head *ret)
{
    size_t n = 0;
    for (; is_digit(text[n]) && n < LENGTH_DIGITS_MAX; n++) {
        ret->length = ret->length * 10 + (uint64_t)(text[n] - '0');
    }
    ret->has_length = true;
    return n > 0 && text[n] == '\0' ? NULL : "Content-Length is not a number";
}

/* Sets the properties of the message that its fields define. Returns NULL, or a phrase that says
 * what is wrong. */
static const char *apply_fields(struct http_head *ret)
{
    const char *length = http_head_field(ret, "Content-Length");
    const char *coding = http_head_field(ret, "Transfer-Encoding");
    const char *expect = http_head_field(ret, "Expect");
    if (!ret->is_1_0 && !http_head_field(ret, "Host")) {
        return "Host is missing";
    }
    if (coding && (length || ret->is_1_0 || strcasecmp(coding, "chunked") != 0)) {
        return "Transfer-Encoding is not \"chunked\" alone, without Content-Length";
    }
    if (expect && strcasecmp(expect, "100-continue") != 0) {
        return "Expect is not 100-continue";
    }
    ret->is_chunked = coding != NULL;
    ret->expects_continue = expect && !ret->is_1_0;
    ret->keeps_alive = !ret->is_1_0 && !has_word(ret, "Connection", "close");
    return length ? parse_length(length, ret) : NULL;
}

int http_head_parse(char *text, size_t n, struct http_head *ret, const char **ret_reason)
{
    const char *reason = NULL;
    char *line = text;
    *ret = (struct http_head){.path = ""};
    while (!reason && line < text + n - 2) {
        char *end =
            memchr(line, '\r', (size_t)(text + n - line)); /* http_head_end has found the CRLF */
        *end = '\0';
        reason = line == text ? parse_request_line(line, ret) : parse_field(line, ret);
        line = end + 2;
    }
    reason = reason ? reason : apply_fields(ret);
    if (reason) {
        *ret = (struct http_head){.path = ""};
        *ret_reason = reason;
        return TFE_EINVAL;
    }
    return 0;
}

/* --- the chunked coding ----------------------------------------------------------------------- */

enum { CHUNK_SIZE, CHUNK_SIZE_LF, CHUNK_DATA, CHUNK_DATA_CR, CHUNK_DATA_LF, LAST_CR, LAST_LF };

static int hex_of(uint8_t c)
{
    if (is_digit((char)c)) {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads one byte of a chunk's size, or the CR after it. */
static int read_size(struct http_chunks *c, uint8_t byte)
{
    const int digit = hex_of(byte);
    if (digit >= 0 && c->n_digits < CHUNK_DIGITS_MAX) {
        c->n_digits++;
        c->left = c->left * 16 + (unsigned)digit;
        return CHUNK_SIZE;
    }
    return byte == '\r' && c->n_digits > 0 ? CHUNK_SIZE_LF : TFE_EINVAL;
}

/* Returns the state after a byte that is not data. */
static int next_state(struct http_chunks *c, uint8_t byte)
{
    switch (c->state) {
    case CHUNK_SIZE:
        return read_size(c, byte);
    case CHUNK_SIZE_LF:
        if (byte != '\n') {
            return TFE_EINVAL;
        }
        return c->left > 0 ? CHUNK_DATA : LAST_CR;
    case CHUNK_DATA_CR:
        return byte == '\r' ? CHUNK_DATA_LF : TFE_EINVAL;
    case CHUNK_DATA_LF:
        c->n_digits = 0;
        return byte == '\n' ? CHUNK_SIZE : TFE_EINVAL;
    case LAST_CR:
        return byte == '\r' ? LAST_LF : TFE_EINVAL;
    default:
        c->is_over = byte == '\n';
        return c->is_over ? LAST_LF : TFE_EINVAL;
    }
}

long http_chunks_read(struct http_chunks *c, const uint8_t *bytes, size_t n, size_t *ret_n)
{
    size_t used = 0;
    *ret_n = 0;
    while (used < n && !c->is_over) {
        if (c->state == CHUNK_DATA) {
            *ret_n = c->left < n - used ? (size_t)c->left : n - used;
            c->left -= *ret_n;
            c->state = c->left > 0 ? CHUNK_DATA : CHUNK_DATA_CR;
            return (long)(used + *ret_n);
        }
        const int state = next_state(c, bytes[used++]);
        if (state < 0) {
            return TFE_EINVAL;
        }
        c->state = state;
    }
    return (long)used;
}
