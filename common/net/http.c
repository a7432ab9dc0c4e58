/* common/net/http.c: resolve, connect, send, read, one deadline over all of it.
 *
 *   RESOLVING --> CONNECTING --> SENDING --> READING --> told
 *                   ^    | the next address
 *                   +----+
 */
#include "common/net/http.h"

#include <errno.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/options.h"
#include "common/net/resolve.h"
#include "common/net/timer.h"

#define HTTP_PORT 80

/* A turn of the loop reads this much at most of one answer. */
#define HTTP_READ 16384

struct http {
    struct event_base *base;
    http_fn *on_answer;
    void *ctx;
    struct resolve *resolve;
    struct resolve_addresses addresses;
    size_t next; /* address to try */
    int fd;      /* -1: none */
    struct event *ready;
    struct event *deadline;
    struct event *begin;
    bool is_connected;
    uint32_t within_ms;
    char request[HTTP_REQUEST_MAX];
    size_t request_n;
    size_t sent;
    struct http_place place;
    struct http_answer answer;
};

/* --- where ------------------------------------------------------------------------------------ */

int http_place_parse(const char *text, struct http_place *ret, struct tfe_why *why)
{
    static const char scheme[] = "http://";
    char rest[TFE_HOST_MAX + 16];
    const bool has_scheme = strncmp(text, scheme, sizeof scheme - 1) == 0;
    const char *from = has_scheme ? text + sizeof scheme - 1 : text;
    size_t n = strlen(from);
    n -= n > 0 && from[n - 1] == '/';
    if (n == 0 || n >= sizeof rest || memchr(from, '/', n)) {
        why_set(why, "\"%s\" is not http://HOST[:PORT]", text);
        return TFE_EINVAL;
    }
    memcpy(rest, from, n);
    rest[n] = '\0';
    ret->port = HTTP_PORT;
    if (options_endpoint(rest, ret->host, sizeof ret->host, &ret->port)) {
        why_set(why, "\"%s\" is not http://HOST[:PORT]", text);
        return TFE_EINVAL;
    }
    return 0;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void drop_connection(struct http *h)
{
    if (h->ready) {
        event_free(h->ready);
        h->ready = NULL;
    }
    if (h->fd >= 0) {
        close(h->fd);
        h->fd = -1;
    }
}

void http_free(struct http *h)
{
    if (!h) {
        return;
    }
    drop_connection(h);
    resolve_free(h->resolve);
    if (h->deadline) {
        event_free(h->deadline);
    }
    if (h->begin) {
        event_free(h->begin);
    }
    http_answer_done(&h->answer);
    free(h);
}

/* error NULL: the answer is whole. h is gone afterwards. */
static void tell(struct http *h, const char *error)
{
    struct http_answer answer = h->answer;
    http_fn *on_answer = h->on_answer;
    void *ctx = h->ctx;
    http_answer_init(&h->answer); /* the body is ours now */
    http_free(h);
    on_answer(ctx, error ? NULL : &answer, error);
    http_answer_done(&answer);
}

static void on_deadline(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct http *h = ctx;
    struct tfe_why why;
    why_set(&why, "no %s within %u ms",
            h->resolve         ? "address of its name"
            : !h->is_connected ? "connection"
                               : "whole answer",
            (unsigned)h->within_ms);
    tell(h, why.text);
}

/* --- one connection --------------------------------------------------------------------------- */

static bool is_connected(int fd, int *ret_error)
{
    socklen_t n = sizeof *ret_error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, ret_error, &n)) {
        *ret_error = errno;
    }
    return *ret_error == 0;
}

static void read_some(struct http *h)
{
    char bytes[HTTP_READ];
    struct tfe_why why;
    ssize_t n = recv(h->fd, bytes, sizeof bytes, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n < 0) {
        tell(h, strerror(errno));
        return;
    }
    int rc = n == 0 ? http_answer_end(&h->answer, &why)
                    : http_answer_feed(&h->answer, bytes, (size_t)n, &why);
    if (rc != TFE_EMORE) {
        tell(h, rc ? why.text : NULL);
    }
}

static void wait_for(struct http *h, short what);

static void send_some(struct http *h)
{
    ssize_t n = send(h->fd, h->request + h->sent, h->request_n - h->sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        tell(h, strerror(errno));
        return;
    }
    h->sent += n > 0 ? (size_t)n : 0;
    if (h->sent == h->request_n) {
        wait_for(h, EV_READ);
    }
}

static void try_next(struct http *h, int error);

static void on_ready(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    struct http *h = ctx;
    int error = 0;
    if (!h->is_connected && !is_connected(h->fd, &error)) {
        try_next(h, error);
        return;
    }
    h->is_connected = true;
    if (what & EV_READ) {
        read_some(h);
    } else {
        send_some(h);
    }
}

static void wait_for(struct http *h, short what)
{
    if (h->ready) {
        event_free(h->ready);
    }
    h->ready = event_new(h->base, h->fd, (short)(what | EV_PERSIST), on_ready, h);
    if (!h->ready || event_add(h->ready, NULL)) {
        tell(h, "out of memory");
    }
}

/* Connects to the next address that lets itself be connected to; error is what became of the last
 * one. */
static void try_next(struct http *h, int error)
{
    drop_connection(h);
    while (h->next < h->addresses.n) {
        const struct sockaddr *to = (const struct sockaddr *)&h->addresses.address[h->next];
        const socklen_t to_n = h->addresses.length[h->next];
        h->next++;
        h->fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (h->fd >= 0 && (connect(h->fd, to, to_n) == 0 || errno == EINPROGRESS)) {
            wait_for(h, EV_WRITE);
            return;
        }
        error = errno;
        drop_connection(h);
    }
    tell(h, strerror(error));
}

static void on_addresses(void *ctx, const struct resolve_addresses *addresses, const char *error)
{
    struct http *h = ctx;
    h->resolve = NULL; /* freed when this returns */
    if (error) {
        tell(h, error);
        return;
    }
    h->addresses = *addresses;
    try_next(h, EADDRNOTAVAIL);
}

static void on_begin(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct http *h = ctx;
    if (resolve_numeric(h->place.host, h->place.port, &h->addresses) == 0) {
        try_next(h, EADDRNOTAVAIL);
    } else if (resolve_start(h->base, h->place.host, h->place.port, on_addresses, h, &h->resolve)) {
        h->resolve = NULL;
        tell(h, "its name cannot be resolved now");
    }
}

/* --- the question ----------------------------------------------------------------------------- */

/* What a service has told us goes into later questions: it must not break their lines. */
static bool is_one_line(const char *text)
{
    for (const char *at = text; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f) {
            return false;
        }
    }
    return true;
}

/* Appends; a request that gets too long stays at its limit. */
static void add(struct http *h, const char *a, const char *b, const char *c, const char *d)
{
    const char *const parts[] = {a, b, c, d};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t n = strlen(parts[i]);
        size_t room = sizeof h->request - h->request_n;
        n = n < room ? n : room;
        memcpy(h->request + h->request_n, parts[i], n);
        h->request_n += n;
    }
}

static int write_request(struct http *h, const struct http_question *q)
{
    char number[24];
    const bool is_v6 = strchr(q->place->host, ':') != NULL;
    if (!is_one_line(q->path) || strchr(q->path, ' ')) {
        return TFE_EINVAL;
    }
    add(h, q->method, " ", q->path, " HTTP/1.1\r\nHost: ");
    snprintf(number, sizeof number, ":%u", (unsigned)q->place->port);
    add(h, is_v6 ? "[" : "", q->place->host, is_v6 ? "]" : "",
        q->place->port == HTTP_PORT ? "" : number);
    add(h, "\r\nConnection: close\r\n", "User-Agent: tfe-agent\r\nAccept: */*\r\n", "", "");
    for (const struct http_header *at = q->headers; at && at->name; at++) {
        if (!is_one_line(at->name) || !is_one_line(at->value)) {
            return TFE_EINVAL;
        }
        add(h, at->name, ": ", at->value, "\r\n");
    }
    if (q->body || strcmp(q->method, "GET") != 0) {
        snprintf(number, sizeof number, "%zu", q->body ? strlen(q->body) : 0);
        add(h, "Content-Length: ", number, "\r\n", "");
    }
    add(h, "\r\n", q->body ? q->body : "", "", "");
    return h->request_n < sizeof h->request ? 0 : TFE_EINVAL;
}

int http_ask(struct event_base *base, const struct http_question *question, http_fn *on_answer,
             void *ctx, struct http **ret)
{
    struct http *h = calloc(1, sizeof *h);
    if (!h) {
        return TFE_ENOMEM;
    }
    h->base = base;
    h->on_answer = on_answer;
    h->ctx = ctx;
    h->fd = -1;
    h->within_ms = question->within_ms;
    h->place = *question->place;
    int rc = write_request(h, question);
    if (rc == 0) {
        h->begin = evtimer_new(base, on_begin, h);
        h->deadline = evtimer_new(base, on_deadline, h);
        rc = !h->begin || !h->deadline || timer_after(h->begin, 0) ||
                     timer_after(h->deadline, question->within_ms)
                 ? TFE_ENOMEM
                 : 0;
    }
    if (rc) {
        http_free(h);
        return rc;
    }
    *ret = h;
    return 0;
}
