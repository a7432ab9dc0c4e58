/* server/web/http.c: see http.h. */
#include "server/web/http.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/clock.h"
#include "common/net/endpoint.h"
#include "common/net/log.h"
#include "common/net/timer.h"
#include "server/web/intake.h"
#include "server/web/settings.h"

/* Between two looks at the connections. */
#define LOOK_MS 100

/* Read of one that lingers, at each look. */
#define LINGER_BYTES 16384
#define LINGER_READS 256

/* After accept(2) failed for want of descriptors. */
#define PAUSE_MS 100

struct connection {
    struct bufferevent *bev; /* a reference of ours: evhttp's may be gone */
    struct intake *intake; /* NULL: there was no memory, so it has no bodies that come in pieces */
    struct tfe_mono since; /* it began, or its last answer was over, or its request came */
    bool is_asked;         /* a request is under way */
    bool is_stream;
    bool is_shut;
    bool lingers; /* evhttp is through with it, and was before its body had come */
};

struct http {
    struct event_base *base;
    struct evhttp *evhttp;
    struct evconnlistener *listener; /* evhttp's */
    struct event *look;
    SSL_CTX *tls; /* NULL: without */
    http_request_fn *fn;
    void *ctx;
    struct connection *v;
    uint32_t n, max;
    uint64_t n_shut;
    bool is_full; /* the listener waits for a place */
};

/* --- connections --- */

/* evhttp has let go of it. */
static bool is_over(const struct connection *c)
{
    bufferevent_data_cb reads, writes;
    bufferevent_event_cb events;
    bufferevent_getcb(c->bev, &reads, &writes, &events, NULL);
    return !reads && !writes && !events;
}

static void shut(struct http *h, struct connection *c)
{
    evutil_socket_t fd = bufferevent_getfd(c->bev);
    c->is_shut = true;
    h->n_shut++;
    if (fd >= 0) {
        (void)shutdown(fd, SHUT_RDWR); /* evhttp finds its end, and frees what it has of it */
    }
}

static void forget(struct http *h, uint32_t i)
{
    (void)bufferevent_disable(h->v[i].bev, EV_READ | EV_WRITE);
    intake_free(h->v[i].intake);
    (void)bufferevent_decref(h->v[i].bev); /* closes */
    h->v[i] = h->v[--h->n];
}

static bool is_late(const struct connection *c, struct tfe_mono now)
{
    int64_t ms = tfe_mono_sub(now, c->since);
    if (c->intake && intake_is_taken(c->intake)) {
        return false; /* whoever takes its body looks at the clock */
    }
    return !c->is_stream && !c->is_shut && ms > (c->is_asked ? HTTP_ANSWER_MS : HTTP_REQUEST_MS);
}

/* The kernel throws an answer away where it has bytes that nobody read: who is told in the middle
 * of his body that it is not wanted says the rest of it to nobody, for a while. */
static bool lingers(struct connection *c, struct tfe_mono now)
{
    char nothing[LINGER_BYTES];
    if (!c->intake) {
        return false;
    }
    if (!c->lingers) {
        c->lingers = true;
        c->since = now;
        (void)bufferevent_disable(c->bev, EV_READ);
        intake_pass(c->intake, evbuffer_get_length(bufferevent_get_input(c->bev)));
    }
    /* Also of who never stops. */
    const bool may_stay = !c->is_shut && tfe_mono_sub(now, c->since) <= HTTP_REQUEST_MS;
    for (int i = 0; i < LINGER_READS && intake_left(c->intake) > 0; i++) {
        ssize_t n = recv(bufferevent_getfd(c->bev), nothing, sizeof(nothing), MSG_DONTWAIT);
        if (n <= 0) {
            return n < 0 && errno == EAGAIN && may_stay;
        }
        intake_pass(c->intake, (size_t)n);
    }
    return intake_left(c->intake) > 0 && may_stay;
}

/* The oldest of those whose answers wait to be read, while they are too much together. */
static void shut_unread(struct http *h)
{
    for (;;) {
        struct connection *oldest = NULL;
        size_t bytes = 0;
        for (uint32_t i = 0; i < h->n; i++) {
            struct connection *c = &h->v[i];
            size_t waits = c->is_shut || c->is_stream
                               ? 0
                               : evbuffer_get_length(bufferevent_get_output(c->bev));
            bytes += waits;
            if (waits > 0 && (!oldest || tfe_mono_before(c->since, oldest->since))) {
                oldest = c;
            }
        }
        if (!oldest || bytes <= HTTP_ANSWERS_BYTES) {
            return;
        }
        shut(h, oldest);
    }
}

static void sweep(struct http *h)
{
    struct tfe_mono now = clock_mono();
    for (uint32_t i = 0; i < h->n;) {
        if (is_over(&h->v[i])) {
            if (lingers(&h->v[i], now)) {
                i++;
            } else {
                forget(h, i);
            }
            continue;
        }
        if (is_late(&h->v[i], now)) {
            shut(h, &h->v[i]);
        }
        i++;
    }
    shut_unread(h);
    if (h->is_full && h->n < h->max && h->listener) {
        h->is_full = false;
        (void)evconnlistener_enable(h->listener);
    }
}

static void on_look(evutil_socket_t fd, short what, void *ctx)
{
    struct http *h = ctx;
    sweep(h);
    (void)timer_after(h->look, LOOK_MS);
}

/* Somebody who has asked for nothing makes room, the oldest first. */
static void make_room(struct http *h)
{
    struct connection *oldest = NULL;
    for (uint32_t i = 0; i < h->n; i++) {
        struct connection *c = &h->v[i];
        if (!c->is_asked && !c->is_shut && (!oldest || tfe_mono_before(c->since, oldest->since))) {
            oldest = c;
        }
    }
    if (oldest) {
        shut(h, oldest);
    }
    h->is_full = true;
    (void)evconnlistener_disable(h->listener);
    (void)timer_after(h->look, 0);
}

/* evhttp's: a new connection wants a bufferevent. NULL would make it take one of its own, which
 * nobody counts: what there is no memory for is made of a dead socket. */
static struct bufferevent *on_connection(struct event_base *base, void *ctx)
{
    struct http *h = ctx;
    struct bufferevent *bev;
    if (h->tls) {
        SSL *ssl = SSL_new(h->tls);
        bev = ssl ? bufferevent_openssl_socket_new(base, -1, ssl, BUFFEREVENT_SSL_ACCEPTING,
                                                   BEV_OPT_CLOSE_ON_FREE)
                  : NULL;
    } else {
        bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    }
    if (!bev) {
        log_info("no_memory_for_a_connection");
        return NULL;
    }
    if (h->tls) {
        bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    }
    bufferevent_setwatermark(bev, EV_READ, 0, HTTP_UNREAD_MAX);
    bufferevent_incref(bev);
    h->v[h->n++] =
        (struct connection){.bev = bev, .intake = intake_new(bev), .since = clock_mono()};
    if (h->n == h->max) {
        make_room(h);
    }
    return bev;
}

static struct connection *connection_of(struct http *h, struct evhttp_request *req)
{
    struct evhttp_connection *evcon = evhttp_request_get_connection(req);
    struct bufferevent *bev = evcon ? evhttp_connection_get_bufferevent(evcon) : NULL;
    for (uint32_t i = 0; i < h->n; i++) {
        if (h->v[i].bev == bev) {
            return &h->v[i];
        }
    }
    return NULL;
}

static void on_answered(struct evhttp_request *req, void *ctx)
{
    struct connection *c = connection_of(ctx, req);
    if (c) {
        c->is_asked = false;
        c->is_stream = false;
        c->since = clock_mono();
        if (c->intake) {
            intake_next(c->intake);
        }
    }
}

static void on_request(struct evhttp_request *req, void *ctx)
{
    struct http *h = ctx;
    struct connection *c = connection_of(h, req);
    if (c) {
        c->is_asked = true;
        c->since = clock_mono();
        evhttp_request_set_on_complete_cb(req, on_answered, h);
        if (c->intake && intake_left(c->intake) > 0) {
            (void)evhttp_add_header(evhttp_request_get_output_headers(req), "Connection", "close");
        }
    }
    h->fn(h->ctx, req);
}

/* evhttp stops reading when it has a request, and would hear of the end when it answers. This is
 * how it listens for that itself while it writes: nothing is taken. */
void http_is_awaited(struct evhttp_request *req)
{
    struct bufferevent *bev = evhttp_connection_get_bufferevent(evhttp_request_get_connection(req));
    bufferevent_data_cb reads;
    bufferevent_data_cb writes;
    bufferevent_event_cb events;
    void *ctx;
    bufferevent_getcb(bev, &reads, &writes, &events, &ctx);
    bufferevent_setcb(bev, NULL, writes, events, ctx);
    (void)bufferevent_enable(bev, EV_READ);
}

void http_is_stream(struct http *h, struct evhttp_request *req)
{
    struct connection *c = connection_of(h, req);
    if (c) {
        int bytes = HTTP_STREAM_BYTES;
        c->is_stream = true;
        (void)setsockopt(bufferevent_getfd(c->bev), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
        (void)bufferevent_set_timeouts(c->bev, NULL, NULL);
    }
}

struct intake *http_body(struct http *h, struct evhttp_request *req)
{
    struct connection *c = connection_of(h, req);
    return c && c->intake && intake_left(c->intake) > 0 ? c->intake : NULL;
}

void http_is_answer(struct http *h, struct evhttp_request *req)
{
    struct connection *c = connection_of(h, req);
    if (c) {
        c->is_stream = false;
        c->since = clock_mono();
    }
}

/* --- listening --- */

static void on_accept_failed(struct evconnlistener *listener, void *ctx)
{
    struct http *h = ctx;
    (void)evconnlistener_disable(listener);
    h->is_full = true;
    (void)timer_after(h->look, PAUSE_MS);
}

static int load_tls(struct http *h, const struct web_settings *s, struct tfe_why *why)
{
    h->tls = SSL_CTX_new(TLS_server_method());
    if (!h->tls || SSL_CTX_set_min_proto_version(h->tls, TLS1_2_VERSION) != 1) {
        why_set(why, "TLS cannot be set up");
        return TFE_ENOMEM;
    }
    (void)SSL_CTX_set_mode(h->tls, SSL_MODE_RELEASE_BUFFERS); /* 34 KiB of each that waits */
    if (SSL_CTX_use_certificate_chain_file(h->tls, s->tls_cert) != 1 ||
        SSL_CTX_use_PrivateKey_file(h->tls, s->tls_key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(h->tls) != 1) {
        const char *reason = ERR_reason_error_string(ERR_peek_last_error());
        why_set(why, "--tls-cert %s and --tls-key %s are no certificate and its key: %s",
                s->tls_cert, s->tls_key, reason ? reason : "unknown");
        ERR_clear_error();
        return TFE_EINVAL;
    }
    return 0;
}

static int listen_at(struct http *h, const struct web_settings *s, struct tfe_why *why)
{
    struct sockaddr_storage address;
    socklen_t n;
    if (endpoint_address(s->bind, (uint16_t)s->port, &address, &n) != 0) {
        why_set(why, "\"%s\" is no numeric address", s->bind);
        return TFE_EINVAL;
    }
    unsigned flags = LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE;
    flags |= address.ss_family == AF_INET6 ? LEV_OPT_BIND_IPV6ONLY : 0;
    h->listener = evconnlistener_new_bind(h->base, NULL, NULL, flags, 256,
                                          (struct sockaddr *)&address, (int)n);
    if (!h->listener) {
        why_errno(why, "listen on port %u of %s", (unsigned)s->port, s->bind);
        return TFE_ESYS;
    }
    evconnlistener_set_error_cb(h->listener, on_accept_failed);
    if (!evhttp_bind_listener(h->evhttp, h->listener)) {
        evconnlistener_free(h->listener);
        h->listener = NULL;
        why_set(why, "no memory to listen");
        return TFE_ENOMEM;
    }
    return 0;
}

int http_new(struct event_base *base, const struct web_settings *s, http_request_fn *fn, void *ctx,
             struct http **ret, struct tfe_why *why)
{
    struct http *h = calloc(1, sizeof(*h));
    int rc = h ? 0 : TFE_ENOMEM;
    if (rc == 0) {
        *h = (struct http){.base = base, .fn = fn, .ctx = ctx, .max = s->max_connections};
        h->v = calloc(h->max, sizeof(*h->v));
        h->evhttp = evhttp_new(base);
        h->look = evtimer_new(base, on_look, h);
        rc = h->v && h->evhttp && h->look && timer_after(h->look, LOOK_MS) == 0 ? 0 : TFE_ENOMEM;
    }
    if (rc != 0) {
        why_set(why, "no memory for %u connections", (unsigned)s->max_connections);
    } else {
        evhttp_set_max_headers_size(h->evhttp, HTTP_HEADERS_MAX);
        evhttp_set_max_body_size(h->evhttp, HTTP_BODY_MAX);
        evhttp_set_allowed_methods(h->evhttp, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST);
        evhttp_set_bevcb(h->evhttp, on_connection, h);
        evhttp_set_gencb(h->evhttp, on_request, h);
        rc = s->tls_cert ? load_tls(h, s, why) : 0;
    }
    rc = rc == 0 ? listen_at(h, s, why) : rc;
    if (rc != 0) {
        http_free(h);
        return rc;
    }
    *ret = h;
    return 0;
}

uint16_t http_port(const struct http *h)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at = {.v6 = {0}};
    socklen_t n = sizeof(at);
    if (getsockname(evconnlistener_get_fd(h->listener), &at.any, &n) != 0) {
        return 0;
    }
    return ntohs(at.any.sa_family == AF_INET6 ? at.v6.sin6_port : at.v4.sin_port);
}

uint32_t http_connections(const struct http *h)
{
    return h->n;
}

uint64_t http_shut(const struct http *h)
{
    return h->n_shut;
}

void http_stop(struct http *h)
{
    if (h->listener) {
        (void)evconnlistener_disable(h->listener);
        h->is_full = false;
    }
}

void http_free(struct http *h)
{
    if (!h) {
        return;
    }
    if (h->evhttp) {
        evhttp_free(h->evhttp); /* and its connections, and the listener */
    }
    while (h->v && h->n > 0) {
        forget(h, h->n - 1);
    }
    event_drop(&h->look);
    SSL_CTX_free(h->tls);
    free(h->v);
    free(h);
}
