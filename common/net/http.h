/* common/net/http.h: asks one question of an HTTP service nearby: metadata services of clouds, on
 * link-local addresses. No proxies, no redirects, no TLS; a connection per question. */
#ifndef TFE_COMMON_NET_HTTP_H
#define TFE_COMMON_NET_HTTP_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/net/http_answer.h"
#include "common/net/why.h"

struct event_base;
struct http;

/* Everything that is sent: the longest part is AWS's token, some 60 bytes. */
#define HTTP_REQUEST_MAX 4096

/* Where a service is: "http://HOST[:PORT]", IPv6 in brackets. */
struct http_place {
    char host[TFE_HOST_MAX + 1];
    uint16_t port;
};

/* TFE_EINVAL: why names what is wrong. text may lack "http://" and have a last "/". */
int http_place_parse(const char *text, struct http_place *ret, struct tfe_why *why) TFE_MUST_CHECK;

struct http_header {
    const char *name; /* NULL ends a list */
    const char *value;
};

/* Borrowed for the call. */
struct http_question {
    const struct http_place *place;
    const char *method;                /* "GET", "PUT", "POST" */
    const char *path;                  /* with its query, begins with '/' */
    const struct http_header *headers; /* NULL: none but Host, Connection and the body's length */
    const char *body;                  /* NULL: none */
    uint32_t within_ms;                /* from now to the last byte of the answer */
};

/* answer is NULL if there is none of any use, and error says why ("connection refused"); any status
 * is an answer. Both live until it returns. Comes once, from the loop, never from http_ask; the
 * question is freed by then, and may be asked again. */
typedef void http_fn(void *ctx, const struct http_answer *answer, const char *error);

/* TFE_EINVAL: a header or path with a line break or another control character in it, or the
 * question is longer than HTTP_REQUEST_MAX. TFE_ENOMEM. */
int http_ask(struct event_base *base, const struct http_question *question, http_fn *on_answer,
             void *ctx, struct http **ret) TFE_MUST_CHECK;

/* No callback comes any more. NULL is allowed. */
void http_free(struct http *http);

#endif
