/* server/web/http.c: see http.h. */
#include "server/web/http.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/base/clock.h"
#include "common/base/timer.h"
#include "common/channel/admission.h"
#include "common/channel/endpoint.h"
#include "common/channel/peer.h"
#include "common/cli/log.h"
#include "server/web/web_settings.h"

/* Time between two checks of the connections' time limits. */
#define SWEEP_MS 100

/* Pause after accept(2) has failed, as without free descriptors. */
#define PAUSE_MS 100

#define BACKLOG 256

/* State of a connection. Each phase has a list in order of entry, so the first connection is the
 * first to exceed its time limit. */
enum phase {
    PHASE_REQUEST,  /* reads a request, or waits for one */
    PHASE_RESPONSE, /* waits for the handler, or for the client to read the response */
    PHASE_OPEN,     /* streams a body or a response; the handler limits the time */
    PHASE_LINGER, /* closing: reads on, because the kernel would otherwise reset the connection and
                     drop the response */
    PHASE__COUNT
};

static const int64_t phase_ms[PHASE__COUNT] = {HTTP_REQUEST_MS, HTTP_RESPONSE_MS, 0,
                                               HTTP_LINGER_MS};

struct connection;
TAILQ_HEAD(connections, connection);

struct http_request {
    struct connection *connection;
    struct http_head head;
    struct evkeyvalq out; /* headers of the response */
    struct evbuffer *body;
    struct http_chunks chunks;
    uint64_t left;      /* bytes of a body with Content-Length that are not yet received */
    struct event *wake; /* event of the handler that reads the body */
    bool is_chunked;    /* the response uses the chunked coding */
    bool is_answered;   /* the response is complete */
    bool is_closing;    /* the connection ends after this response */
    void (*closed)(void *ctx);
    void *closed_ctx;
    char text[]; /* text of the head; head points into it */
};

struct connection {
    struct http *http;
    struct bufferevent *bev;
    struct http_request *req; /* NULL until a complete head has arrived */
    size_t scanned;           /* bytes in which http_head_end has found no end */
    struct peer_key source;
    struct admission_slot slot; /* counts the connection for its source */
    enum phase phase;
    struct tfe_mono since; /* when the connection entered its phase */
    bool is_half_closed;   /* the client has closed its side and may still read the response */
    TAILQ_ENTRY(connection) link;
};

struct http {
    struct event_base *base;
    struct http_handler handler;
    struct evconnlistener *listener;
    struct event *sweep;
    SSL_CTX *tls; /* NULL without TLS */
    struct connections phases[PHASE__COUNT];
    struct admission *admission; /* connections by source */
    uint32_t n, max;
    uint64_t n_shut;
    bool is_paused; /* the listener is disabled */
};

/* --- connections ------------------------------------------------------------------------------ */

static void enter(struct connection *c, enum phase phase)
{
    TAILQ_REMOVE(&c->http->phases[c->phase], c, link);
    TAILQ_INSERT_TAIL(&c->http->phases[phase], c, link);
    c->phase = phase;
    c->since = clock_mono();
    admission_touch(&c->slot);
}

static void request_free(struct http_request *req)
{
    evhttp_clear_headers(&req->out);
    if (req->body) {
        evbuffer_free(req->body);
    }
    free(req);
}

static void connection_free(struct connection *c)
{
    struct http *h = c->http;
    struct http_request *req = c->req;
    c->req = NULL;
    TAILQ_REMOVE(&h->phases[c->phase], c, link);
    admission_leave(h->admission, &c->slot);
    h->n--;
    bufferevent_free(c->bev);
    free(c);
    if (req) {
        void (*closed)(void *ctx) = req->closed;
        void *ctx = req->closed_ctx;
        request_free(req);
        if (closed) {
            closed(ctx);
        }
    }
}

/* Stops reading if HTTP_UNREAD_MAX bytes wait for a later phase, so that more stay in the client's
 * socket. A high watermark would not do: libevent calls on_readable in a loop while it is reached.
 */
static void pause_reading(struct connection *c)
{
    if (evbuffer_get_length(bufferevent_get_input(c->bev)) >= HTTP_UNREAD_MAX) {
        (void)bufferevent_disable(c->bev, EV_READ);
    }
}

/* Reads again after input was consumed. */
static void resume_reading(struct connection *c)
{
    if (!c->is_half_closed && !(bufferevent_get_enabled(c->bev) & EV_READ) &&
        evbuffer_get_length(bufferevent_get_input(c->bev)) < HTTP_UNREAD_MAX) {
        (void)bufferevent_enable(c->bev, EV_READ);
    }
}

static void shut(struct connection *c)
{
    c->http->n_shut++;
    connection_free(c);
}

/* Ends a connection: sends what was written, then the end of the stream, and reads on until the
 * client closes. */
static void linger(struct connection *c)
{
    struct bufferevent *bev = c->bev;
    SSL *ssl = c->http->tls ? bufferevent_openssl_get_ssl(bev) : NULL;
    if (ssl) {
        (void)SSL_shutdown(ssl); /* close_notify */
        ERR_clear_error();
    }
    (void)shutdown(bufferevent_getfd(bev), SHUT_WR);
    enter(c, PHASE_LINGER);
    (void)evbuffer_drain(bufferevent_get_input(bev), SIZE_MAX);
    if (c->is_half_closed) {
        connection_free(c);
    } else {
        resume_reading(c);
    }
}

/* Closes the oldest connections with unread responses while those responses exceed
 * HTTP_RESPONSES_BYTES. */
static void limit_unsent(struct http *h)
{
    struct connection *c;
    size_t all = 0;
    TAILQ_FOREACH(c, &h->phases[PHASE_RESPONSE], link)
    {
        all += evbuffer_get_length(bufferevent_get_output(c->bev));
    }
    c = TAILQ_FIRST(&h->phases[PHASE_RESPONSE]);
    while (c && all > HTTP_RESPONSES_BYTES) {
        struct connection *next = TAILQ_NEXT(c, link);
        const size_t unsent = evbuffer_get_length(bufferevent_get_output(c->bev));
        if (unsent > 0) {
            all -= unsent;
            shut(c);
        }
        c = next;
    }
}

static void on_sweep(evutil_socket_t fd, short what, void *ctx)
{
    struct http *h = ctx;
    const struct tfe_mono now = clock_mono();
    for (int phase = 0; phase < PHASE__COUNT; phase++) {
        struct connection *c = phase_ms[phase] > 0 ? TAILQ_FIRST(&h->phases[phase]) : NULL;
        /* shut() removes c from the list, which the analyzer does not see. */
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc)
        while (c && tfe_mono_sub(now, c->since) > phase_ms[phase]) {
            shut(c);
            c = TAILQ_FIRST(&h->phases[phase]);
        }
    }
    limit_unsent(h);
    if (h->is_paused && h->n < h->max) {
        h->is_paused = false;
        (void)evconnlistener_enable(h->listener);
    }
    (void)timer_after(h->sweep, SWEEP_MS);
}

/* --- requests --------------------------------------------------------------------------------- */

static struct http_request *request_new(struct connection *c, size_t n)
{
    struct http_request *req = calloc(1, sizeof(*req) + n + 1);
    if (!req || !(req->body = evbuffer_new())) {
        free(req);
        connection_free(c);
        return NULL;
    }
    req->connection = c;
    req->head.path = "";
    TAILQ_INIT(&req->out);
    c->req = req;
    c->scanned = 0;
    return req;
}

static void refuse(struct connection *c, int status, const char *detail)
{
    struct http_request *req = c->req ? c->req : request_new(c, 0);
    if (req) {
        req->is_closing = true;
        c->http->handler.refuse(c->http->handler.ctx, req, status, detail);
    }
}

static void respond_continue(struct http_request *req)
{
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct bufferevent *bev = req->connection->bev;
    if (req->head.expects_continue && http_body_left(req) > 0 &&
        evbuffer_get_length(bufferevent_get_input(bev)) == 0) {
        (void)bufferevent_write(bev, line, sizeof(line) - 1);
    }
    req->head.expects_continue = false;
}

uint64_t http_body_left(const struct http_request *req)
{
    return req->head.is_chunked ? !req->chunks.is_over : req->left;
}

bool http_has_length(const struct http_request *req)
{
    return req->head.has_length;
}

/* Moves the bytes of a body that have come into req->body. TFE_EINVAL, TFE_ETOOBIG. */
static int collect_body(struct http_request *req)
{
    struct evbuffer *in = bufferevent_get_input(req->connection->bev);
    size_t n = evbuffer_get_length(in);
    if (!req->head.is_chunked) {
        n = n < req->left ? n : (size_t)req->left;
        req->left -= n;
        return evbuffer_remove_buffer(in, req->body, n) == (int)n ? 0 : TFE_ENOMEM;
    }
    while (!req->chunks.is_over && (n = evbuffer_get_contiguous_space(in)) > 0) {
        const uint8_t *bytes = evbuffer_pullup(in, (ev_ssize_t)n);
        size_t n_data;
        const long used = http_chunks_read(&req->chunks, bytes, n, &n_data);
        if (used < 0) {
            return TFE_EINVAL;
        }
        if (evbuffer_add(req->body, bytes + used - n_data, n_data) != 0) {
            return TFE_ENOMEM;
        }
        (void)evbuffer_drain(in, (size_t)used);
        if (evbuffer_get_length(req->body) > HTTP_BODY_MAX) {
            return TFE_ETOOBIG;
        }
    }
    return 0;
}

/* Calls the handler. The connection may be gone afterwards. */
static void handle(struct connection *c)
{
    const struct http_handler *handler = &c->http->handler;
    enter(c, PHASE_RESPONSE);
    handler->handle(handler->ctx, c->req);
}

static void read_body(struct connection *c)
{
    const int rc = collect_body(c->req);
    resume_reading(c);
    if (rc == TFE_ETOOBIG) {
        refuse(c, 413, "the body is larger than 64 KiB");
    } else if (rc == TFE_EINVAL) {
        refuse(c, 400, "the chunks of the body are malformed");
    } else if (rc != 0) {
        connection_free(c);
    } else if (http_body_left(c->req) == 0) {
        handle(c);
    }
}

static void begin_request(struct connection *c, size_t n)
{
    struct http *h = c->http;
    const char *reason;
    struct http_request *req = request_new(c, n);
    if (!req) {
        return;
    }
    (void)evbuffer_remove(bufferevent_get_input(c->bev), req->text, n);
    if (http_head_parse(req->text, n, &req->head, &reason) != 0) {
        refuse(c, 400, reason);
        return;
    }
    req->left = req->head.length;
    req->is_closing = !req->head.keeps_alive;
    if (h->handler.streams_body(h->handler.ctx, req)) {
        handle(c);
    } else if (req->left > HTTP_BODY_MAX) {
        refuse(c, 413, "the body is larger than 64 KiB");
    } else {
        respond_continue(req);
        read_body(c);
    }
}

static void read_head(struct connection *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);
    const size_t all = evbuffer_get_length(in);
    const size_t n = all < HTTP_HEADERS_MAX ? all : HTTP_HEADERS_MAX;
    const char *text = n > 0 ? (const char *)evbuffer_pullup(in, (ev_ssize_t)n) : NULL;
    if (n > 0 && !text) {
        connection_free(c);
        return;
    }
    const long head = text ? http_head_end(text, n, &c->scanned) : 0;
    if (head < 0) {
        refuse(c, 400, "a byte is not allowed at its position: lines end with CR LF");
    } else if (head > 0) {
        begin_request(c, (size_t)head);
    } else if (n == HTTP_HEADERS_MAX) {
        refuse(c, 431, "the head of the request is larger than 8 KiB");
    }
}

static void on_readable(struct bufferevent *bev, void *ctx)
{
    struct connection *c = ctx;
    switch (c->phase) {
    case PHASE_REQUEST:
        if (c->req) {
            read_body(c);
        } else {
            read_head(c);
        }
        return;
    case PHASE_OPEN:
        pause_reading(c);
        if (c->req->wake && c->req->left > 0) {
            event_active(c->req->wake, EV_READ, 0);
        }
        return;
    case PHASE_LINGER:
        (void)evbuffer_drain(bufferevent_get_input(bev), SIZE_MAX);
        return;
    case PHASE_RESPONSE:
        pause_reading(c); /* the next request waits */
        return;
    case PHASE__COUNT:
        return;
    }
}

/* The kernel has taken all output. */
static void on_writable(struct bufferevent *bev, void *ctx)
{
    struct connection *c = ctx;
    struct http_request *req = c->req;
    if (c->phase != PHASE_RESPONSE || !req->is_answered) {
        return;
    }
    const bool is_closing = req->is_closing;
    c->req = NULL;
    request_free(req);
    if (is_closing) {
        linger(c);
    } else {
        enter(c, PHASE_REQUEST);
        resume_reading(c);
        read_head(c);
    }
}

static void on_event(struct bufferevent *bev, short what, void *ctx)
{
    struct connection *c = ctx;
    if (what & BEV_EVENT_CONNECTED) {
        return; /* the TLS handshake is complete */
    }
    if ((what & BEV_EVENT_EOF) && c->req && c->req->is_answered) {
        c->req->is_closing = true;
        c->is_half_closed = true;
        (void)bufferevent_disable(bev, EV_READ);
        return;
    }
    connection_free(c);
}

enum http_method http_method(const struct http_request *req)
{
    return req->head.method;
}

const char *http_path(const struct http_request *req)
{
    return req->head.path;
}

const char *http_query(const struct http_request *req)
{
    return req->head.query;
}

const char *http_header(const struct http_request *req, const char *name)
{
    return http_head_field(&req->head, name);
}

const uint8_t *http_source(const struct http_request *req)
{
    return req->connection->source.bytes;
}

struct evbuffer *http_body(const struct http_request *req)
{
    return req->body;
}

void http_on_closed(struct http_request *req, void (*closed)(void *ctx), void *ctx)
{
    req->closed = closed;
    req->closed_ctx = ctx;
}

void http_stream_body(struct http_request *req, struct event *wake)
{
    req->wake = wake;
    enter(req->connection, PHASE_OPEN);
    respond_continue(req);
    event_active(wake, EV_READ, 0);
}

size_t http_body_read(struct http_request *req, uint8_t *ret, size_t n)
{
    struct evbuffer *in = bufferevent_get_input(req->connection->bev);
    n = n < req->left ? n : (size_t)req->left;
    const int some = n > 0 ? evbuffer_remove(in, ret, n) : 0;
    req->left -= some > 0 ? (size_t)some : 0;
    resume_reading(req->connection);
    return some > 0 ? (size_t)some : 0;
}

/* --- responses -------------------------------------------------------------------------------- */

const char *http_phrase(int status)
{
    static const struct {
        int status;
        const char *phrase;
    } phrases[] = {{200, "OK"},
                   {201, "Created"},
                   {304, "Not Modified"},
                   {400, "Bad Request"},
                   {401, "Unauthorized"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {408, "Request Timeout"},
                   {409, "Conflict"},
                   {411, "Length Required"},
                   {413, "Content Too Large"},
                   {421, "Misdirected Request"},
                   {429, "Too Many Requests"},
                   {431, "Request Header Fields Too Large"},
                   {502, "Bad Gateway"},
                   {503, "Service Unavailable"},
                   {504, "Gateway Timeout"}};
    for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++) {
        if (phrases[i].status == status) {
            return phrases[i].phrase;
        }
    }
    return "Internal Server Error";
}

void http_set_header(struct http_request *req, const char *name, const char *value)
{
    (void)evhttp_remove_header(&req->out, name);
    (void)evhttp_add_header(&req->out, name, value);
}

/* Writes status line and headers. n is the length of the body, or SIZE_MAX if the body is chunked
 * or ends with the connection. */
static void write_head(struct http_request *req, int status, size_t n)
{
    struct evbuffer *out = bufferevent_get_output(req->connection->bev);
    const struct evkeyval *header;
    char date[64];
    req->is_closing = req->is_closing || http_body_left(req) > 0;
    (void)evbuffer_add_printf(out, "HTTP/1.1 %d %s\r\n", status, http_phrase(status));
    if (evutil_date_rfc1123(date, sizeof(date), NULL) > 0) {
        (void)evbuffer_add_printf(out, "Date: %s\r\n", date);
    }
    TAILQ_FOREACH(header, &req->out, next)
    {
        (void)evbuffer_add_printf(out, "%s: %s\r\n", header->key, header->value);
    }
    if (req->is_chunked) {
        (void)evbuffer_add_printf(out, "Transfer-Encoding: chunked\r\n");
    } else if (n != SIZE_MAX && status != 304) {
        (void)evbuffer_add_printf(out, "Content-Length: %zu\r\n", n);
    }
    (void)evbuffer_add_printf(out, "%s\r\n", req->is_closing ? "Connection: close\r\n" : "");
}

void http_respond(struct http_request *req, int status, struct evbuffer *body)
{
    struct connection *c = req->connection;
    write_head(req, status, body ? evbuffer_get_length(body) : 0);
    if (body && req->head.method != HTTP_HEAD) {
        (void)bufferevent_write_buffer(c->bev, body);
    }
    req->is_answered = true;
    req->wake = NULL;
    req->closed = NULL;
    if (c->phase != PHASE_RESPONSE) {
        enter(c, PHASE_RESPONSE);
    }
}

void http_begin(struct http_request *req, int status)
{
    struct connection *c = req->connection;
    int bytes = HTTP_STREAM_BYTES;
    (void)setsockopt(bufferevent_getfd(c->bev), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    req->is_chunked = !req->head.is_1_0;
    req->is_closing = true; /* because the small send buffer stays */
    enter(c, PHASE_OPEN);
    write_head(req, status, SIZE_MAX);
}

void http_chunk(struct http_request *req, struct evbuffer *data)
{
    struct evbuffer *out = bufferevent_get_output(req->connection->bev);
    if (req->head.method == HTTP_HEAD || evbuffer_get_length(data) == 0) {
        return;
    }
    if (req->is_chunked) {
        (void)evbuffer_add_printf(out, "%zx\r\n", evbuffer_get_length(data));
    }
    (void)evbuffer_add_buffer_reference(out, data);
    if (req->is_chunked) {
        (void)evbuffer_add(out, "\r\n", 2);
    }
}

void http_end(struct http_request *req)
{
    struct evbuffer *out = bufferevent_get_output(req->connection->bev);
    req->is_answered = true;
    req->closed = NULL;
    enter(req->connection, PHASE_RESPONSE);
    if (req->is_chunked && req->head.method != HTTP_HEAD) {
        (void)evbuffer_add(out, "0\r\n\r\n", 5);
    } else if (evbuffer_get_length(out) == 0) {
        on_writable(req->connection->bev, req->connection);
    }
}

size_t http_unsent(const struct http_request *req)
{
    return evbuffer_get_length(bufferevent_get_output(req->connection->bev));
}

void http_abort(struct http_request *req)
{
    connection_free(req->connection);
}

/* --- listening -------------------------------------------------------------------------------- */

/* Returns true if the connection is closing, waits for a request, or waits for its client to read
 * the complete response. */
static bool may_close(const void *owner)
{
    const struct connection *c = owner;
    return c->phase == PHASE_LINGER || c->phase == PHASE_REQUEST ||
           (c->phase == PHASE_RESPONSE && c->req->is_answered);
}

/* Makes room for the next connection, because c is the last one that is allowed. Closes the oldest
 * connection, of those that may be closed, of the source with most connections. Closes c itself if
 * there is no other one. */
static void make_room(struct http *h, struct connection *c)
{
    const struct admission_slot *slot = admission_next_eviction(h->admission, &c->slot, may_close);
    shut(slot ? slot->owner : c);
}

static struct bufferevent *make_bufferevent(struct http *h, evutil_socket_t fd)
{
    if (!h->tls) {
        return bufferevent_socket_new(h->base, fd, BEV_OPT_CLOSE_ON_FREE);
    }
    SSL *ssl = SSL_new(h->tls);
    struct bufferevent *bev =
        ssl ? bufferevent_openssl_socket_new(h->base, fd, ssl, BUFFEREVENT_SSL_ACCEPTING,
                                             BEV_OPT_CLOSE_ON_FREE)
            : NULL;
    if (bev) {
        bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    } else {
        SSL_free(ssl);
    }
    return bev;
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from,
                      int n, void *ctx)
{
    struct http *h = ctx;
    struct connection *c = calloc(1, sizeof(*c));
    struct bufferevent *bev = c ? make_bufferevent(h, fd) : NULL;
    struct peer peer;
    if (!bev) {
        log_info("no_memory_for_a_connection");
        free(c);
        (void)evutil_closesocket(fd);
        return;
    }
    *c = (struct connection){.http = h, .bev = bev, .since = clock_mono()};
    peer_set(&peer, from, (socklen_t)n);
    c->source = peer_key(&peer);
    const struct admission_claim claim = {
        .by = {[ADMISSION_SOURCE] = {c->source.bytes, sizeof(c->source.bytes)}}, .cost = 1};
    if (admission_enter(h->admission, &claim, c, &c->slot) != 0) {
        bufferevent_free(bev);
        free(c);
        return;
    }
    TAILQ_INSERT_TAIL(&h->phases[PHASE_REQUEST], c, link);
    h->n++;
    bufferevent_setcb(bev, on_readable, on_writable, on_event, c);
    (void)bufferevent_enable(bev, EV_READ | EV_WRITE);
    if (h->n == h->max) {
        make_room(h, c);
    }
}

static void on_accept_failed(struct evconnlistener *listener, void *ctx)
{
    struct http *h = ctx;
    (void)evconnlistener_disable(listener);
    h->is_paused = true;
    (void)timer_after(h->sweep, PAUSE_MS);
}

static int check_key_file(const char *path, struct tfe_reason *reason)
{
    struct stat file;
    if (stat(path, &file) == 0 && (file.st_mode & (S_IRWXO | S_IWGRP))) {
        reason_set(reason, "--tls-key %s: other users can read it (chmod o=,g-w %s)", path, path);
        return TFE_EINVAL;
    }
    return 0; /* OpenSSL reports other errors */
}

static int load_tls(struct http *h, const struct web_settings *s, struct tfe_reason *reason)
{
    h->tls = SSL_CTX_new(TLS_server_method());
    if (!h->tls || SSL_CTX_set_min_proto_version(h->tls, TLS1_2_VERSION) != 1) {
        reason_set(reason, "cannot set up TLS");
        return TFE_ENOMEM;
    }
    if (check_key_file(s->tls_key, reason) != 0) {
        return TFE_EINVAL;
    }
    (void)SSL_CTX_set_mode(h->tls,
                           SSL_MODE_RELEASE_BUFFERS); /* saves 34 KiB for each idle connection */
    if (SSL_CTX_use_certificate_chain_file(h->tls, s->tls_cert) != 1 ||
        SSL_CTX_use_PrivateKey_file(h->tls, s->tls_key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(h->tls) != 1) {
        const char *detail = ERR_reason_error_string(ERR_peek_last_error());
        reason_set(reason, "cannot load --tls-cert %s and --tls-key %s: %s", s->tls_cert,
                   s->tls_key, detail ? detail : "unknown");
        ERR_clear_error();
        return TFE_EINVAL;
    }
    return 0;
}

static int listen_at(struct http *h, const struct web_settings *s, struct tfe_reason *reason)
{
    struct sockaddr_storage address;
    socklen_t n;
    if (endpoint_address(s->bind, (uint16_t)s->port, &address, &n) != 0) {
        reason_set(reason, "\"%s\" is not a numeric address", s->bind);
        return TFE_EINVAL;
    }
    unsigned flags = LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE;
    flags |= address.ss_family == AF_INET6 ? LEV_OPT_BIND_IPV6ONLY : 0;
    h->listener = evconnlistener_new_bind(h->base, on_accept, h, flags, BACKLOG,
                                          (struct sockaddr *)&address, (int)n);
    if (!h->listener) {
        reason_errno(reason, "listen on port %u of %s", (unsigned)s->port, s->bind);
        return TFE_ESYS;
    }
    evconnlistener_set_error_cb(h->listener, on_accept_failed);
    return 0;
}

int http_new(struct event_base *base, const struct web_settings *s,
             const struct http_handler *handler, struct http **ret, struct tfe_reason *reason)
{
    struct http *h = calloc(1, sizeof(*h));
    if (!h) {
        reason_set(reason, "no memory to listen");
        return TFE_ENOMEM;
    }
    *h = (struct http){.base = base, .handler = *handler, .max = s->max_connections};
    for (int phase = 0; phase < PHASE__COUNT; phase++) {
        TAILQ_INIT(&h->phases[phase]);
    }
    /* The last connection that is allowed exceeds the capacity. */
    const struct admission_config config = {
        .capacity = h->max - 1, .quota_max = h->max, .evicts_oldest = true};
    if (admission_new(&config, &h->admission) != 0) {
        free(h);
        reason_set(reason, "no memory to listen");
        return TFE_ENOMEM;
    }
    int rc = s->tls_cert ? load_tls(h, s, reason) : 0;
    rc = rc == 0 ? listen_at(h, s, reason) : rc;
    h->sweep = evtimer_new(base, on_sweep, h);
    if (rc == 0 && (!h->sweep || timer_after(h->sweep, SWEEP_MS) != 0)) {
        reason_set(reason, "no memory to listen");
        rc = TFE_ENOMEM;
    }
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

void http_free(struct http *h)
{
    if (!h) {
        return;
    }
    for (int phase = 0; phase < PHASE__COUNT; phase++) {
        struct connection *c;
        while ((c = TAILQ_FIRST(&h->phases[phase]))) {
            connection_free(c); // NOLINT(clang-analyzer-unix.Malloc): it leaves the list
        }
    }
    event_drop(&h->sweep);
    if (h->listener) {
        evconnlistener_free(h->listener);
    }
    SSL_CTX_free(h->tls);
    admission_free(h->admission);
    free(h);
}
