/* common/channel/http_client.c: libevent's HTTP client, with a deadline for the whole request. */
#include "common/channel/http_client.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/timer.h"
#include "common/channel/resolve.h"

#define HEADERS_MAX 16384

struct http_call {
    struct event_base *base;
    struct evhttp_uri *url;
    enum evhttp_cmd_type method;
    struct evhttp_request *request; /* NULL while the connection owns it, and if it failed */
    struct evhttp_connection *connection;
    struct resolve *resolve;
    struct event *end; /* runs at the deadline, or at once if the request has ended */
    size_t max;
    bool is_over;      /* there is a response or an error */
    const char *error; /* what failed; NULL: nothing did */
    http_fn *done;
    void *ctx;
};

const char *http_response_header(const struct http_response *response, const char *name)
{
    return evhttp_find_header(response->headers, name);
}

/* Ends the request in the next iteration of the loop: libevent may still use the connection now. */
static void end_soon(struct http_call *call, const char *error)
{
    call->is_over = true;
    call->error = error;
    (void)timer_after(call->end, 0);
}

static void on_end(evutil_socket_t fd, short what, void *ctx)
{
    struct http_call *call = ctx;
    struct http_response response = {.body = NULL};
    const char *error = call->is_over ? call->error : "timed out";
    if (!error) {
        struct evbuffer *body = evhttp_request_get_input_buffer(call->request);
        response.status = evhttp_request_get_response_code(call->request);
        response.headers = evhttp_request_get_input_headers(call->request);
        response.body_n = evbuffer_get_length(body);
        response.body = evbuffer_add(body, "", 1) == 0 ? (char *)evbuffer_pullup(body, -1) : NULL;
        error = response.body ? NULL : "out of memory";
    }
    call->done(call->ctx, error ? NULL : &response, error);
    http_cancel(call);
}

static void on_failed(enum evhttp_request_error error, void *ctx)
{
    static const char *const texts[] = {
        [EVREQ_HTTP_TIMEOUT] = "timed out",
        [EVREQ_HTTP_EOF] = "the connection was closed before the end of the response",
        [EVREQ_HTTP_INVALID_HEADER] = "the response is not HTTP",
        [EVREQ_HTTP_BUFFER_ERROR] = "the response is not HTTP",
        [EVREQ_HTTP_REQUEST_CANCEL] = "cancelled",
        [EVREQ_HTTP_DATA_TOO_LONG] = "the response is too long"};
    struct http_call *call = ctx;
    call->error = texts[error];
}

/* Called with NULL after on_failed, and with an empty response if it cannot connect. */
static void on_response(struct evhttp_request *response, void *ctx)
{
    struct http_call *call = ctx;
    if (response && evhttp_request_get_response_code(response) != 0) {
        evhttp_request_own(response);
        call->request = response;
        end_soon(call, NULL);
        return;
    }
    end_soon(call, call->error ? call->error : "cannot connect");
}

/* --- sending ---------------------------------------------------------------------------------- */

/* Sends the request over a connection to one numeric address. */
static void send_to(struct http_call *call, const struct resolve_addresses *to)
{
    char host[NI_MAXHOST];
    char port[NI_MAXSERV];
    if (getnameinfo((const struct sockaddr *)&to->address[0], to->length[0], host, sizeof host,
                    port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        end_soon(call, "invalid address");
        return;
    }
    call->connection =
        evhttp_connection_base_new(call->base, NULL, host, (uint16_t)strtoul(port, NULL, 10));
    char target[1024];
    const char *path = evhttp_uri_get_path(call->url);
    const char *query = evhttp_uri_get_query(call->url);
    const int n = snprintf(target, sizeof target, "%s%s%s", path && *path ? path : "/",
                           query ? "?" : "", query ? query : "");
    if (!call->connection || n < 0 || (size_t)n >= sizeof target) {
        end_soon(call, call->connection ? "the URL is too long" : "out of memory");
        return;
    }
    evhttp_connection_set_max_headers_size(call->connection, HEADERS_MAX);
    evhttp_connection_set_max_body_size(call->connection, (ev_ssize_t)call->max);
    evhttp_request_set_error_cb(call->request, on_failed);
    struct evhttp_request *request = call->request;
    call->request = NULL;
    if (evhttp_make_request(call->connection, request, call->method, target) != 0) {
        end_soon(call, "out of memory");
        return;
    }
    /* libevent opens its sockets without this flag; trainers must not inherit them. */
    const int fd = bufferevent_getfd(evhttp_connection_get_bufferevent(call->connection));
    if (fd >= 0) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
}

static void on_resolved(void *ctx, const struct resolve_addresses *addresses, const char *error)
{
    struct http_call *call = ctx;
    call->resolve = NULL;
    if (error) {
        end_soon(call, "the host's name cannot be resolved");
    } else {
        send_to(call, addresses);
    }
}

/* Finds the address of the URL's host. Errors are reported by on_end. */
static void begin(struct http_call *call)
{
    struct resolve_addresses to;
    char host[256] = "";
    const char *scheme = call->url ? evhttp_uri_get_scheme(call->url) : NULL;
    const char *given = call->url ? evhttp_uri_get_host(call->url) : NULL;
    int port = call->url ? evhttp_uri_get_port(call->url) : -1;
    port = port < 0 ? 80 : port;
    if (!scheme || strcmp(scheme, "http") != 0 || !given || !*given || port == 0 ||
        port > UINT16_MAX || strlen(given) >= sizeof host) {
        end_soon(call, "not a URL of the form http://HOST[:PORT]/PATH");
        return;
    }
    /* An IPv6 address is in brackets. */
    const size_t n = strlen(given);
    const size_t bracket = given[0] == '[' && given[n - 1] == ']' ? 1 : 0;
    memcpy(host, given + bracket, n - 2 * bracket);
    host[n - 2 * bracket] = '\0';
    if (resolve_numeric(host, (uint16_t)port, &to) == 0) {
        send_to(call, &to);
    } else if (resolve_start(call->base, host, (uint16_t)port, on_resolved, call, &call->resolve)) {
        end_soon(call, "the host's name cannot be resolved");
    }
}

/* Adds a line "Name: value". Returns TFE_EINVAL for a control character, or TFE_ENOMEM. */
static int add_header(struct http_call *call, const char *line)
{
    for (const char *at = line; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f) {
            return TFE_EINVAL;
        }
    }
    const char *colon = strchr(line, ':');
    char *name = colon ? strndup(line, (size_t)(colon - line)) : NULL;
    int rc = colon ? TFE_ENOMEM : TFE_EINVAL;
    if (name && evhttp_add_header(evhttp_request_get_output_headers(call->request), name,
                                  colon + 1 + strspn(colon + 1, " ")) == 0) {
        rc = 0;
    }
    free(name);
    return rc;
}

static int fill(struct http_call *call, const struct http_request *q)
{
    char line[512];
    int rc = add_header(call, "Connection: close");
    if (rc == 0) {
        rc = add_header(call, "User-Agent: tfe/" TFE_VERSION);
    }
    if (rc == 0 && call->url && evhttp_uri_get_host(call->url)) {
        const int port = evhttp_uri_get_port(call->url);
        (void)snprintf(line, sizeof line, port < 0 ? "Host: %s" : "Host: %s:%d",
                       evhttp_uri_get_host(call->url), port);
        rc = add_header(call, line);
    }
    for (const char *const *header = q->headers; header && *header && rc == 0; header++) {
        rc = add_header(call, *header);
    }
    if (rc == 0 && q->type) {
        (void)snprintf(line, sizeof line, "Content-Type: %s", q->type);
        rc = add_header(call, line);
    }
    if (rc == 0 && q->body_n > 0 &&
        evbuffer_add(evhttp_request_get_output_buffer(call->request), q->body, q->body_n) != 0) {
        rc = TFE_ENOMEM;
    }
    return rc;
}

int http_call(struct event_base *base, const struct http_request *request, http_fn *done, void *ctx,
              struct http_call **ret)
{
    struct http_call *call = calloc(1, sizeof *call);
    if (!call) {
        return TFE_ENOMEM;
    }
    const bool is_put = strcmp(request->method, "PUT") == 0;
    const bool is_post = strcmp(request->method, "POST") == 0;
    call->base = base;
    call->method = is_put ? EVHTTP_REQ_PUT : is_post ? EVHTTP_REQ_POST : EVHTTP_REQ_GET;
    call->max = request->max;
    call->done = done;
    call->ctx = ctx;
    call->url = evhttp_uri_parse(request->url);
    call->request = evhttp_request_new(on_response, call);
    call->end = evtimer_new(base, on_end, call);
    int rc = call->request && call->end ? fill(call, request) : TFE_ENOMEM;
    if (rc == 0) {
        rc = timer_after(call->end, request->within_ms) == 0 ? 0 : TFE_ENOMEM;
    }
    if (rc) {
        http_cancel(call);
        return rc;
    }
    begin(call);
    *ret = call;
    return 0;
}

void http_cancel(struct http_call *call)
{
    if (!call) {
        return;
    }
    resolve_free(call->resolve);
    if (call->request) {
        evhttp_request_free(call->request);
    }
    if (call->connection) {
        evhttp_connection_free(call->connection);
    }
    if (call->url) {
        evhttp_uri_free(call->url);
    }
    event_drop(&call->end);
    free(call);
}
