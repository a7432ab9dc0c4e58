/* common/channel/http_client.h: asks HTTP services without blocking the loop: libcurl on libevent.
 * Only http and https; no redirects, and no proxy that the environment names. */
#ifndef TFE_COMMON_CHANNEL_HTTP_CLIENT_H
#define TFE_COMMON_CHANNEL_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

struct event_base;
struct http;     /* what all questions of a loop share: connections and names */
struct http_ask; /* a question that is under way */

/* Borrowed for the call. */
struct http_question {
    const char *method; /* "GET", "PUT", "POST", "DELETE" */
    const char *url;
    const char *const *headers; /* "Name: value", NULL ends the list; NULL: none but the usual */
    const char *type;           /* Content-Type of the body */
    const char *body;           /* NULL: none */
    size_t body_n;
    size_t most;        /* bytes of the answer's body; a longer one is no answer */
    uint32_t within_ms; /* from now to the last byte of the answer, the name's address included */
    bool is_alone;      /* on a connection of its own: none that may have died unnoticed is used */
};

struct http_answer {
    int status;
    const char *body; /* ends in a NUL that is not counted */
    size_t body_n;
    void *handle; /* private */
};

/* Value of a header, without blanks around it; NULL if there is none. Of several the first. Lives
 * as long as the answer. */
const char *http_answer_header(const struct http_answer *answer, const char *name);

/* answer is NULL if there is none of any use, and error says why ("Connection refused"); any status
 * is an answer. Both live until it returns. Comes once, from the loop, never from http_ask; the
 * question is over by then, and may be asked again. */
typedef void http_fn(void *ctx, const struct http_answer *answer, const char *error);

struct http *http_new(struct event_base *base);

/* Every question has been answered or cancelled. Not to be called from an http_fn. NULL is allowed.
 */
void http_free(struct http *http);

/* TFE_EINVAL: a header with a line break or another control character in it. TFE_ENOMEM. A url that
 * makes no sense is told as an error. */
int http_ask(struct http *http, const struct http_question *question, http_fn *on_answer, void *ctx,
             struct http_ask **ret) TFE_MUST_CHECK;

/* No answer comes any more. NULL is allowed. */
void http_cancel(struct http_ask *ask);

#endif
