/* common/net/listener.c: accepts a bounded number per turn, and waits where accept(2) cannot go on.
 */
#include "common/net/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/net/clock.h"
#include "common/net/limits.h"
#include "common/net/log.h"

/* Connections taken in one turn of the loop: a storm of newcomers must not delay renewals. */
#define ACCEPTS_PER_TURN 64

/* A lack of descriptors is told this often. */
#define LACK_LOG_MS 1000

struct listener {
    int fd;
    uint16_t port;
    listener_accept_fn *on_accept;
    void *ctx;
    struct event readable;
    struct event retry;
    unsigned pauses;
    bool lacking; /* one of the pauses is ours, until retry */
    bool busy;
    bool freed;
    bool logged;
    struct tfe_mono logged_at;
};

static void destroy(struct listener *listener)
{
    free(listener);
}

void listener_pause(struct listener *listener)
{
    if (listener->pauses++ == 0) {
        (void)event_del(&listener->readable);
    }
}

void listener_resume(struct listener *listener)
{
    if (listener->pauses == 0) {
        return;
    }
    if (--listener->pauses == 0 && event_add(&listener->readable, NULL)) {
        log_error("listener cannot resume", LOG_U("port", listener->port));
    }
}

static void lack(struct listener *listener, int error)
{
    const struct tfe_mono now = clock_mono();
    if (!listener->logged || tfe_mono_sub(now, listener->logged_at) >= LACK_LOG_MS) {
        struct tfe_why why;
        errno = error;
        why_errno(&why, "accept");
        log_warn("accepting_paused", LOG_U("port", listener->port), LOG_S("why", why.text));
        listener->logged = true;
        listener->logged_at = now;
    }
    const struct timeval in = {.tv_usec = LIMIT_ACCEPT_PAUSE_MS * 1000};
    if (evtimer_add(&listener->retry, &in)) {
        return; /* no memory for the timer: the level-triggered event comes again at once */
    }
    listener->lacking = true;
    listener_pause(listener);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct listener *listener = arg;
    listener->lacking = false;
    listener_resume(listener);
}

/* Whether accept(2) failed for the sake of one connection only, which is then gone. */
static bool is_passing(int error)
{
    static const int passing[] = {EINTR,        ECONNABORTED, EPROTO, ENETDOWN,
                                  ENOPROTOOPT,  EHOSTDOWN,    ENONET, EOPNOTSUPP,
                                  EHOSTUNREACH, ENETUNREACH,  EPERM /* a firewall's rule */};
    for (size_t i = 0; i < sizeof passing / sizeof passing[0]; i++) {
        if (passing[i] == error) {
            return true;
        }
    }
    return false;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct listener *listener = arg;
    listener->busy = true;
    for (int i = 0; i < ACCEPTS_PER_TURN && !listener->freed && listener->pauses == 0; i++) {
        struct sockaddr_storage peer;
        socklen_t peer_n = sizeof peer;
        const int accepted =
            accept4(fd, (struct sockaddr *)&peer, &peer_n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (accepted >= 0) {
            listener->on_accept(listener->ctx, accepted, (const struct sockaddr *)&peer, peer_n);
        } else if (errno == EAGAIN) {
            break;
        } else if (!is_passing(errno)) {
            lack(listener, errno);
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

static int parse_address(const char *text, uint16_t port, struct sockaddr_storage *ret,
                         socklen_t *ret_n)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    memset(ret, 0, sizeof *ret);
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        memcpy(ret, &v4, sizeof v4);
        *ret_n = sizeof v4;
        return 0;
    }
    if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1) {
        memcpy(ret, &v6, sizeof v6);
        *ret_n = sizeof v6;
        return 0;
    }
    return TFE_EINVAL;
}

static void say_why(struct tfe_why *why, const char *address, uint16_t port)
{
    if (errno == EADDRINUSE) {
        why_set(why, "port %u on %s is in use", (unsigned)port, address);
    } else if (errno == EADDRNOTAVAIL) {
        why_set(why, "%s is not an address of this machine", address);
    } else {
        why_errno(why, "listen on port %u on %s", (unsigned)port, address);
    }
}

/* Opens, binds, listens; the descriptor or -1 with errno. */
static int open_socket(const struct sockaddr_storage *address, socklen_t n)
{
    const int on = 1;
    const int off = 0;
    const int fd =
        socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0) {
        return -1;
    }
    /* REUSEADDR: a restarted server finds its old connections in TIME_WAIT. "::" means v4 too. */
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
                 struct tfe_why *why)
{
    struct sockaddr_storage at;
    socklen_t n = 0;
    if (parse_address(address, port, &at, &n)) {
        why_set(why, "'%s' is not a numeric address", address);
        return TFE_EINVAL;
    }
    struct listener *listener = calloc(1, sizeof *listener);
    if (!listener) {
        why_set(why, "listen on port %u: out of memory", (unsigned)port);
        return TFE_ENOMEM;
    }
    listener->on_accept = on_accept;
    listener->ctx = ctx;
    listener->fd = open_socket(&at, n);
    if (listener->fd < 0) {
        say_why(why, address, port);
        free(listener);
        return TFE_ESYS;
    }
    n = sizeof at;
    if (getsockname(listener->fd, (struct sockaddr *)&at, &n) ||
        event_assign(&listener->readable, base, listener->fd, EV_READ | EV_PERSIST, on_readable,
                     listener) ||
        evtimer_assign(&listener->retry, base, on_retry, listener) ||
        event_add(&listener->readable, NULL)) {
        why_errno(why, "listen on port %u on %s", (unsigned)port, address);
        (void)close(listener->fd);
        free(listener);
        return TFE_ESYS;
    }
    listener->port = ntohs(at.ss_family == AF_INET ? ((struct sockaddr_in *)&at)->sin_port
                                                   : ((struct sockaddr_in6 *)&at)->sin6_port);
    *ret = listener;
    return 0;
}
