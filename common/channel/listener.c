/* common/channel/listener.c: accepts a bounded number of connections per iteration, and pauses if
 * accept(2) fails. */
#include "common/channel/listener.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/base/rate.h"
#include "common/channel/endpoint.h"
#include "common/cli/log.h"

/* Connections accepted per iteration of the loop, so that a burst of clients does not delay
 * renewals. */
#define ACCEPTS_PER_ITERATION 64

/* Minimum interval between log lines about failing accepts. */
#define PAUSE_LOG_MS 1000

struct listener {
    int fd;
    uint16_t port;
    listener_accept_fn *on_accept;
    void *ctx;
    struct event readable;
    struct event retry;
    bool is_paused; /* accepting is paused until retry */
    bool busy;
    bool freed;
    struct rate log_rate;
    uint64_t hidden; /* log lines suppressed since the last one */
};

static void destroy(struct listener *listener)
{
    free(listener);
}

static void pause_accepting(struct listener *listener, int error)
{
    listener->hidden++;
    if (rate_pass(&listener->log_rate, clock_mono(), PAUSE_LOG_MS, 1)) {
        struct tfe_reason reason;
        errno = error;
        reason_errno(&reason, "accept");
        log_warn("accepting_paused", LOG_U("port", listener->port), LOG_S("reason", reason.text),
                 LOG_U("not_logged", listener->hidden - 1));
        listener->hidden = 0;
    }
    const struct timeval in = {.tv_usec = LIMIT_ACCEPT_PAUSE_MS * 1000};
    if (evtimer_add(&listener->retry, &in)) {
        return; /* no memory for the timer: the level-triggered event fires again at once */
    }
    listener->is_paused = true;
    (void)event_del(&listener->readable);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    struct listener *listener = arg;
    listener->is_paused = false;
    if (event_add(&listener->readable, NULL)) {
        log_error("listener cannot resume", LOG_U("port", listener->port));
    }
}

/* True if accept(2) failed because of one connection, which is then gone. */
static bool is_transient(int error)
{
    static const int transient[] = {
        EINTR,  ECONNABORTED, EPROTO,       ENETDOWN,    ENOPROTOOPT, EHOSTDOWN,
        ENONET, EOPNOTSUPP,   EHOSTUNREACH, ENETUNREACH, EPERM /* rejected by a firewall rule */};
    for (size_t i = 0; i < sizeof transient / sizeof transient[0]; i++) {
        if (transient[i] == error) {
            return true;
        }
    }
    return false;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct listener *listener = arg;
    listener->busy = true;
    for (int i = 0; i < ACCEPTS_PER_ITERATION && !listener->freed && !listener->is_paused; i++) {
        struct sockaddr_storage peer;
        socklen_t peer_n = sizeof peer;
        const int accepted =
            accept4(fd, (struct sockaddr *)&peer, &peer_n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (accepted >= 0) {
            listener->on_accept(listener->ctx, accepted, (const struct sockaddr *)&peer, peer_n);
        } else if (errno == EAGAIN) {
            break;
        } else if (!is_transient(errno)) {
            pause_accepting(listener, errno);
            break;
        }
    }
    listener->busy = false;
    if (listener->freed) {
        destroy(listener);
    }
}

void listener_free(struct listener *listener)
{
    if (!listener || listener->freed) {
        return;
    }
    listener->freed = true;
    (void)event_del(&listener->readable);
    (void)event_del(&listener->retry);
    (void)close(listener->fd);
    if (!listener->busy) {
        destroy(listener);
    }
}

uint16_t listener_port(const struct listener *listener)
{
    return listener->port;
}

static void print_reason(struct tfe_reason *reason, const char *address, uint16_t port)
{
    if (errno == EADDRINUSE) {
        reason_set(reason, "port %u on %s is in use", (unsigned)port, address);
    } else if (errno == EADDRNOTAVAIL) {
        reason_set(reason, "%s is not an address of this machine", address);
    } else {
        reason_errno(reason, "listen on port %u on %s", (unsigned)port, address);
    }
}

/* Opens a bound, listening socket. Returns the descriptor, or -1 with errno set. */
static int open_socket(const struct sockaddr_storage *address, socklen_t n)
{
    const int on = 1;
    const int off = 0;
    const int fd =
        socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0) {
        return -1;
    }
    /* SO_REUSEADDR: connections of a previous server may be in TIME_WAIT. V6ONLY off: "::" accepts
     * IPv4 too. */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        (address->ss_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off)) ||
        bind(fd, (const struct sockaddr *)address, n) || listen(fd, SOMAXCONN)) {
        const int error = errno;
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

int listener_new(struct event_base *base, const char *address, uint16_t port,
                 listener_accept_fn *on_accept, void *ctx, struct listener **ret,
                 struct tfe_reason *reason)
{
    struct sockaddr_storage at;
    socklen_t n = 0;
    if (endpoint_address(address, port, &at, &n)) {
        reason_set(reason, "'%s' is not a numeric address", address);
        return TFE_EINVAL;
    }
    struct listener *listener = calloc(1, sizeof *listener);
    if (!listener) {
        reason_set(reason, "listen on port %u: out of memory", (unsigned)port);
        return TFE_ENOMEM;
    }
    listener->on_accept = on_accept;
    listener->ctx = ctx;
    listener->fd = open_socket(&at, n);
    if (listener->fd < 0) {
        print_reason(reason, address, port);
        free(listener);
        return TFE_ESYS;
    }
    n = sizeof at;
    if (getsockname(listener->fd, (struct sockaddr *)&at, &n) ||
        event_assign(&listener->readable, base, listener->fd, EV_READ | EV_PERSIST, on_readable,
                     listener) ||
        evtimer_assign(&listener->retry, base, on_retry, listener) ||
        event_add(&listener->readable, NULL)) {
        reason_errno(reason, "listen on port %u on %s", (unsigned)port, address);
        (void)close(listener->fd);
        free(listener);
        return TFE_ESYS;
    }
    (void)endpoint_of((struct sockaddr *)&at, NULL, &listener->port);
    *ret = listener;
    return 0;
}
