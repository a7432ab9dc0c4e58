/* server/web/http.h: an HTTP/1.1 server on libevent's bufferevents.
 *
 * This server manages connections by itself instead of using evhttp or libmicrohttpd 0.9.75 (Debian
 * 12). Neither of them can reject all requests that allow request smuggling (both accept NUL, bare
 * LF and repeated lengths; libmicrohttpd also folds lines), add headers to the error pages of the
 * library, or limit the time of a whole request including its body. */
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

/* Maximum sizes of a head and of a collected body. The body fits a job of MSG_SPEC_MAX bytes in any
 * JSON notation. */
#define HTTP_HEADERS_MAX 8192
#define HTTP_BODY_MAX 65536

#define HTTP_SOURCE_BYTES 16

/* Time limits: from the start of a connection or its last response to the end of a request; from
 * there to the end of the response; and for a client to notice that its connection is closing. */
#define HTTP_REQUEST_MS 15000
#define HTTP_RESPONSE_MS 60000
#define HTTP_LINGER_MS 15000

/* Maximum size of all responses that clients have not read yet. Above it the oldest such
 * connections are closed. */
#define HTTP_RESPONSES_BYTES (64u << 20)

/* Reading pauses while this many bytes of a connection were read and not consumed: pipelined
 * requests, or a body that the handler does not accept yet. */
#define HTTP_UNREAD_MAX 65536

/* Size of the kernel's send buffer of an event stream. */
#define HTTP_STREAM_BYTES (64 * 1024)

struct http_handler {
    void *ctx;
    /* Returns true if the handler reads the body in pieces (http_stream_body), of any length.
     * Otherwise handle is called when the body, of at most HTTP_BODY_MAX bytes, is complete. */
    bool (*streams_body)(void *ctx, const struct http_request *req);
    /* Responds now or later, exactly once. */
    void (*handle)(void *ctx, struct http_request *req);
    /* Responds at once to a malformed or too large request, whose fields may be empty. */
    void (*refuse)(void *ctx, struct http_request *req, int status, const char *detail);
};

/* Starts to listen. Copies handler. TFE_ESYS, TFE_EINVAL, TFE_ENOMEM with a reason. */
int http_new(struct event_base *base, const struct web_settings *settings,
             const struct http_handler *handler, struct http **ret,
             struct tfe_reason *reason) TFE_MUST_CHECK;
/* Closes all connections. NULL is allowed. */
void http_free(struct http *h);

uint16_t http_port(const struct http *h);

/* Number of connections now, and of those that were closed for being slow or to make room. */
uint32_t http_connections(const struct http *h);
uint64_t http_shut(const struct http *h);

/* --- a request: valid until its response was sent or its connection is gone --- */

enum http_method http_method(const struct http_request *req);
const char *http_path(const struct http_request *req);
const char *http_query(const struct http_request *req); /* NULL if there is none */
const char *http_header(const struct http_request *req,
                        const char *name); /* NULL if there is none */
/* Returns the source address, HTTP_SOURCE_BYTES: an IPv4 address as ::ffff:a.b.c.d, or the 64-bit
 * network of an IPv6 address. */
const uint8_t *http_source(const struct http_request *req);
/* Returns the collected body; empty if streams_body returned true. */
struct evbuffer *http_body(const struct http_request *req);

/* Sets the callback for a connection that ends before the response is complete; the request is gone
 * then. A later call replaces the callback; NULL removes it. */
void http_on_closed(struct http_request *req, void (*closed)(void *ctx), void *ctx);

/* Starts to read a body for which streams_body returned true. wake becomes active when bytes
 * have arrived. The handler limits the time. */
void http_stream_body(struct http_request *req, struct event *wake);
/* Reads up to n bytes of the body. Returns their number, 0 if none have arrived. */
size_t http_body_read(struct http_request *req, uint8_t *ret, size_t n);
/* Returns how many bytes of the body have not been read yet, including bytes that have not
 * arrived. For a chunked body: 1 until its end. */
uint64_t http_body_left(const struct http_request *req);
/* Returns true if the request has Content-Length. */
bool http_has_length(const struct http_request *req);

/* --- a response --- */

/* Sets a header of the response, replacing one of the same name. Values with CR or LF are dropped.
 */
void http_set_header(struct http_request *req, const char *name, const char *value);
/* Sends a complete response and ends the request. Moves the contents of body, which may be NULL. If
 * the body of the request was not read, the connection ends after the response. */
void http_respond(struct http_request *req, int status, struct evbuffer *body);
/* Sends a response in pieces, without a time limit until http_end. http_chunk copies data by
 * reference. */
void http_begin(struct http_request *req, int status);
void http_chunk(struct http_request *req, struct evbuffer *data);
void http_end(struct http_request *req);
/* Returns how many bytes of the response the kernel has not taken yet. */
size_t http_unsent(const struct http_request *req);
/* Closes the connection at once. Calls the callback of http_on_closed. */
void http_abort(struct http_request *req);

/* Returns the reason phrase of a status code. */
const char *http_phrase(int status);

#endif
