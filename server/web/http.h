/* server/web/http.h: HTTP by libevent's evhttp, and how many may speak it at a time, for how long.
 *
 * evhttp knows no limit of connections, and its time-outs begin anew with each byte. So every
 * connection is remembered here, with a reference of its own to the bufferevent: one that has no
 * request under way for REQUEST_MS is shut, and where there is no place the oldest of those goes.
 */
#ifndef TFE_SERVER_WEB_HTTP_H
#define TFE_SERVER_WEB_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/net/why.h"

struct event_base;
struct evhttp_request;
struct http;
struct intake;
struct web_settings;

/* Headers, and the body of an order: a job of MSG_SPEC_MAX bytes, however it is written. */
#define HTTP_HEADERS_MAX 8192
#define HTTP_BODY_MAX 65536

/* From the beginning of a connection, or its last answer, to the end of a request; and for an
 * answer to be read. */
#define HTTP_REQUEST_MS 15000
#define HTTP_ANSWER_MS 60000

/* Answers that are not read yet, of all connections together: above it the oldest are shut. */
#define HTTP_ANSWERS_BYTES (64u << 20)

/* Read of a connection and not taken by evhttp, which goes on reading while it answers. */
#define HTTP_UNREAD_MAX 65536

/* The kernel holds so much for a page that does not read, and no more. */
#define HTTP_STREAM_BYTES (64 * 1024)

typedef void http_request_fn(void *ctx, struct evhttp_request *req);

/* Listens. TFE_ESYS, TFE_EINVAL, TFE_ENOMEM with why. */
int http_new(struct event_base *base, const struct web_settings *settings, http_request_fn *fn,
             void *ctx, struct http **ret, struct tfe_why *why) TFE_MUST_CHECK;

uint16_t http_port(const struct http *h);

/* The answer comes later: whoever closes meanwhile is gone at once (evhttp frees the connection).
 * So is who closes only its own half. */
void http_is_awaited(struct evhttp_request *req);

/* The answer to this request goes on until one of both ends it. */
void http_is_stream(struct http *h, struct evhttp_request *req);

/* A body that evhttp did not take, which lasts as long as its connection. NULL: there is none. */
struct intake *http_body(struct http *h, struct evhttp_request *req);

/* … is over but for what is not read yet. */
void http_is_answer(struct http *h, struct evhttp_request *req);

/* How many connections there are, and were shut for being slow or in the way. */
uint32_t http_connections(const struct http *h);
uint64_t http_shut(const struct http *h);

/* Takes no more connections; those that there are go on. */
void http_stop(struct http *h);
/* NULL is allowed. */
void http_free(struct http *h);

#endif
