/* common/channel/http_client.h: asynchronous HTTP client (libcurl on libevent). Supports http and
 * https; follows no redirects and ignores proxies named by the environment. */
#ifndef TFE_COMMON_CHANNEL_HTTP_CLIENT_H
#define TFE_COMMON_CHANNEL_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

struct event_base;
struct http;     /* state shared by all requests of a loop: connection pool and DNS cache */
struct http_ask; /* a request in progress */

/* An HTTP request, borrowed for the duration of the call. */
struct http_question {
    const char *method; /* "GET", "PUT", "POST" or "DELETE" */
    const char *url;
    const char *const
        *headers; /* headers "Name: value", NULL-terminated; NULL for the default headers only */
    const char *type; /* Content-Type of the body */
    const char *body; /* request body; NULL if none */
    size_t body_n;
    size_t most;        /* maximum size of the response body in bytes; a longer one is an error */
    uint32_t within_ms; /* time limit from the call to the last byte of the response, including name
                           resolution */
    bool is_alone;      /* use a new connection, because a pooled one may have died unnoticed */
};

struct http_answer {
    int status;
    const char *body; /* response body, followed by a NUL that body_n does not count */
    size_t body_n;
    void *handle; /* private to this module */
};

/* Returns the trimmed value of the first header of this name, or NULL if there is none. Valid as
 * long as the response. */
const char *http_answer_header(const struct http_answer *answer, const char *name);

/* Completion callback. answer is NULL on failure, with error as the reason ("Connection refused");
 * a response with any status is a success. Both are valid until it returns. Called once, from the
 * loop, never from within http_ask. The request has ended by then, so the callback may start it
 * again. */
typedef void http_fn(void *ctx, const struct http_answer *answer, const char *error);

struct http *http_new(struct event_base *base);

/* Frees the client. Precondition: no request is in progress. Not to be called from an http_fn. NULL
 * is allowed. */
void http_free(struct http *http);

/* Starts a request. Returns TFE_EINVAL for a header with a control character, or TFE_ENOMEM. A
 * malformed URL is reported to the callback. */
int http_ask(struct http *http, const struct http_question *question, http_fn *on_answer, void *ctx,
             struct http_ask **ret) TFE_MUST_CHECK;

/* Cancels a request; its callback does not run. NULL is allowed. */
void http_cancel(struct http_ask *ask);

#endif
