/* server/web/http.h: an HTTP/1.1 server on libevent's bufferevents.
 *
 * It has its own connections, not those of evhttp or libmicrohttpd 0.9.75 (Debian 12), because
 * neither lets a program refuse what smuggles requests (both accept NUL, bare LF and repeated
 * lengths; libmicrohttpd also folds lines), put headers on the error pages that the library makes,
 * or bound a whole request, body included, in time. */
#ifndef TFE_SERVER_WEB_HTTP_H
#define TFE_SERVER_WEB_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/text/reason.h"
#include "server/web/http_parse.h"

struct evbuffer;
struct event;
struct event_base;
struct http;
struct http_request;
struct web_settings;

/* A head, and the body of an order: a job of MSG_SPEC_MAX bytes, however it is written. */
#define HTTP_HEADERS_MAX 8192
#define HTTP_BODY_MAX 65536

#define HTTP_SOURCE_BYTES 16

/* From the beginning of a connection, or its last response, to the end of a request; from there to
 * the end of the response; and for a client to notice that its connection is closing. */
#define HTTP_REQUEST_MS 15000
#define HTTP_RESPONSE_MS 60000
#define HTTP_LINGER_MS 15000

/* Responses that clients have not read yet, of all connections together: above it the oldest
 * connections are closed. */
#define HTTP_RESPONSES_BYTES (64u << 20)

/* Bytes of a connection that were read and not consumed: pipelined requests, or a body that its
 * consumer does not take yet. */
#define HTTP_UNREAD_MAX 65536

/* The kernel's buffer for a stream that the client does not read. */
#define HTTP_STREAM_BYTES (64 * 1024)

struct http_handler {
    void *ctx;
    /* True if the body goes to the handler as it comes (http_take_body), however long it is.
     * Otherwise handle is called once the body is there, which has at most HTTP_BODY_MAX bytes. */
    bool (*takes_body)(void *ctx, const struct http_request *req);
    /* Responds now or later, exactly once. */
    void (*handle)(void *ctx, struct http_request *req);
    /* Responds at once to a request that is malformed or too large; the request may be empty. */
    void (*refuse)(void *ctx, struct http_request *req, int status, const char *detail);
};

/* Listens. handler is copied. TFE_ESYS, TFE_EINVAL, TFE_ENOMEM with why. */
int http_new(struct event_base *base, const struct web_settings *settings,
             const struct http_handler *handler, struct http **ret,
             struct tfe_reason *reason) TFE_MUST_CHECK;
/* Closes all connections; NULL is allowed. */
void http_free(struct http *h);

uint16_t http_port(const struct http *h);

/* Connections now, and those that were closed for being slow or to make room. */
uint32_t http_connections(const struct http *h);
uint64_t http_shut(const struct http *h);

/* --- a request: valid until its response was sent or its connection is gone --- */

enum http_method http_method(const struct http_request *req);
const char *http_path(const struct http_request *req);
const char *http_query(const struct http_request *req);                    /* NULL without one */
const char *http_header(const struct http_request *req, const char *name); /* NULL without it */
/* The address that the request comes from, HTTP_SOURCE_BYTES: an IPv4 address as ::ffff:a.b.c.d, of
 * an IPv6 address its network of 64 bits. */
const uint8_t *http_source(const struct http_request *req);
/* The body that came before handle was called; empty if takes_body. */
struct evbuffer *http_body(const struct http_request *req);

/* closed is called if the connection ends, for whatever reason, before the response was given; the
 * request is gone then. The last call counts. NULL: nobody waits for that. */
void http_on_closed(struct http_request *req, void (*closed)(void *ctx), void *ctx);

/* Starts to read a body that takes_body claimed: wake becomes active when there are bytes. The
 * handler limits the time that it takes. */
void http_take_body(struct http_request *req, struct event *wake);
/* Up to n bytes of the body that are there; 0 if there are none at present. */
size_t http_body_read(struct http_request *req, uint8_t *ret, size_t n);
/* Bytes of the body that nobody has read yet, whether they have come or not. */
uint64_t http_body_left(const struct http_request *req);
/* Whether it has Content-Length. */
bool http_has_length(const struct http_request *req);

/* --- a response --- */

/* Replaces a header of that name. Values with CR or LF are dropped. */
void http_set_header(struct http_request *req, const char *name, const char *value);
/* Ends the request with this response; moves what is in body, which may be NULL. If the body of the
 * request was not read, the connection ends with the response. */
void http_respond(struct http_request *req, int status, struct evbuffer *body);
/* The same in pieces, without a limit of time until http_end; http_chunk copies by reference. */
void http_begin(struct http_request *req, int status);
void http_chunk(struct http_request *req, struct evbuffer *data);
void http_end(struct http_request *req);
/* Bytes of the response that the kernel has not taken. */
size_t http_unsent(const struct http_request *req);
/* Closes the connection at once; calls closed. */
void http_abort(struct http_request *req);

/* The reason phrase of a status. */
const char *http_phrase(int status);

#endif
