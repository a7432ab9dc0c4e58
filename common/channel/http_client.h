/* common/channel/http_client.h: sends HTTP requests without blocking the loop: libevent's client,
 * one connection per request. Plain http only; no redirects and no proxy. */
#ifndef TFE_COMMON_CHANNEL_HTTP_CLIENT_H
#define TFE_COMMON_CHANNEL_HTTP_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

struct event_base;
struct evkeyvalq;
struct http_call; /* a request under way */

/* All pointers are borrowed for the call. */
struct http_request {
    const char *method; /* "GET", "PUT" or "POST" */
    const char *url;
    const char *const *headers; /* "Name: value", ended by NULL; NULL: no headers of the caller */
    const char *type;           /* Content-Type of the body */
    const char *body;           /* NULL: no body */
    size_t body_n;
    size_t max;         /* limit for the body of the response, in bytes */
    uint32_t within_ms; /* limit from now to the last byte of the response */
};

struct http_response {
    int status;
    const char *body; /* followed by a NUL, which is not counted */
    size_t body_n;
    const struct evkeyvalq *headers; /* private */
};

/* Returns the value of a header, without blanks around it, or NULL if the response has no such
 * header. Of several headers with this name, the first one counts. Valid as long as the response.
 */
const char *http_response_header(const struct http_response *response, const char *name);

/* Called once, from the loop and never from http_call. On failure, response is NULL and error says
 * what failed ("cannot connect"); any HTTP status is a success. Both arguments are valid until the
 * function returns. The call is over by then. */
typedef void http_fn(void *ctx, const struct http_response *response, const char *error);

/* Sends a request. Returns TFE_EINVAL if a header contains a control character, which could begin a
 * header of its own, or TFE_ENOMEM. An invalid URL is reported to done. */
int http_call(struct event_base *base, const struct http_request *request, http_fn *done, void *ctx,
              struct http_call **ret) TFE_MUST_CHECK;

/* Ends a request without a callback. NULL is allowed. */
void http_cancel(struct http_call *call);

#endif
