/* server/web/http_parse.h: a strict parser for HTTP/1.x requests (RFC 9112): heads, and bodies in
 * the chunked coding. It does no I/O.
 *
 * It rejects every request that a proxy in front could read differently (request smuggling): bare
 * CR or LF, folded lines, control characters, blanks around field names, repeated or signed
 * lengths, codings other than "chunked", chunk extensions and trailers. */
#ifndef TFE_SERVER_WEB_HTTP_PARSE_H
#define TFE_SERVER_WEB_HTTP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define HTTP_FIELDS_MAX 64

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_POST, HTTP_PUT, HTTP_DELETE, HTTP_OTHER };

struct http_head {
    enum http_method method;
    bool is_1_0; /* HTTP/1.0, otherwise 1.1 */
    bool keeps_alive;
    bool expects_continue;
    bool is_chunked; /* the body is, and length is 0 */
    uint64_t length; /* of the body; 0 without one */
    bool has_length;
    const char *path;  /* as it was sent, percent-encoded */
    const char *query; /* NULL without one */
    struct {
        const char *name, *value;
    } fields[HTTP_FIELDS_MAX];
    size_t n_fields;
};

/* Finds the end of a request head. scanned: bytes that earlier calls have searched, 0 at first.
 * Returns the length of the head including the empty line, 0 if its end has not arrived, or
 * TFE_EINVAL as soon as a byte is not allowed at its position. */
long http_head_end(const char *text, size_t n, size_t *scanned) TFE_MUST_CHECK;

/* Parses a head of n bytes that http_head_end found, in place: *ret points into text. TFE_EINVAL
 * with *ret_reason, a phrase that lives for ever; *ret is then valid but empty. */
int http_head_parse(char *text, size_t n, struct http_head *ret,
                    const char **ret_reason) TFE_MUST_CHECK;

/* The value of a field, which is the only one of its name; NULL if there is none. */
const char *http_head_field(const struct http_head *head, const char *name);

/* A body in the chunked coding; zeroed at first. */
struct http_chunks {
    int state;
    unsigned n_digits;
    uint64_t left; /* bytes of the current chunk */
    bool is_over;  /* the last chunk was read */
};

/* Reads on in n bytes up to the next piece of data. Returns how many bytes it used, which include
 * the *ret_n of data at their end, or TFE_EINVAL. Call it again with the rest until it is over. */
long http_chunks_read(struct http_chunks *c, const uint8_t *bytes, size_t n,
                      size_t *ret_n) TFE_MUST_CHECK;

#endif
