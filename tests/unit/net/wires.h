/* tests/unit/net/wires.h: two channels over loopback in one loop, and a wire between them that can
 * be slow, cut or dirty. Time passes only as the loop's; every wait has a deadline that fails the
 * test. */
#ifndef TFE_TESTS_UNIT_NET_WIRES_H
#define TFE_TESTS_UNIT_NET_WIRES_H

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/net/channel.h"
#include "common/net/limits.h"
#include "common/net/listener.h"
#include "common/wire/codec.h"
#include "common/wire/hello.h"
#include "common/wire/seal.h"
#include "common/wire/token.h"
#include "tests/unit/story.h"

#define DEADLINE_S 30
#define HANDSHAKE_MS 10000

struct side;
typedef void side_fn(struct side *side, const struct tfe_msg *msg);

/* One end: the channel, what it has seen, and what it does in its callbacks. */
struct side {
    struct channel *ch; /* NULL before there is one and after closed() */
    unsigned established;
    unsigned messages;
    unsigned drained;
    unsigned closed;
    enum token_role role;
    enum channel_end end;
    char detail[512];
    side_fn *on_established; /* msg is NULL */
    side_fn *on_message;
    side_fn *on_closed; /* msg is NULL */
    struct side *other;
    uint64_t number; /* of the last RENEW or RENEWED */
    uint64_t disorder;
    uint64_t rows;
    uint64_t bytes;
};

struct world {
    struct event_base *base;
    struct hello_server *hello;
    struct token token;
    struct hello_facts client_facts;
    struct hello_facts server_facts;
    struct listener *listener;
    uint32_t server_timeout_ms;
    struct side client;
    struct side server;
    unsigned open_before;
    bool late;
};

/* Whether a call into the channel is on the stack: callbacks must not come then. */
static bool wires_inside;
#define INSIDE(call)                                                                               \
    (wires_inside = true, wires_result = (call), wires_inside = false, wires_result)
static int wires_result;

static inline unsigned open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    unsigned n = 0;
    while (readdir(dir)) {
        n++;
    }
    assert_int_equal(closedir(dir), 0);
    return n;
}

static inline void side_established(void *ctx, struct channel *ch, enum token_role role)
{
    struct side *side = ctx;
    assert_false(wires_inside);
    assert_ptr_equal(side->ch, ch);
    assert_int_equal(side->closed, 0);
    side->established++;
    side->role = role;
    if (side->on_established) {
        side->on_established(side, NULL);
    }
}

static inline void side_message(void *ctx, struct channel *ch, const struct tfe_msg *msg)
{
    struct side *side = ctx;
    assert_false(wires_inside);
    assert_ptr_equal(side->ch, ch);
    assert_int_equal(side->established, 1);
    assert_int_equal(side->closed, 0);
    side->messages++;
    uint64_t number = side->number + 1;
    if (msg->type == MSG_RENEW) {
        number = msg->u.renew.number;
    } else if (msg->type == MSG_RENEWED) {
        number = msg->u.renewed.number;
    } else if (msg->type == MSG_TABLE) {
        side->rows += msg->u.table.n_rows;
        number = side->number;
    }
    side->disorder += msg->type != MSG_TABLE && number != side->number + 1;
    side->number = number;
    if (side->on_message) {
        side->on_message(side, msg);
    }
}

static inline void side_drained(void *ctx, struct channel *ch)
{
    struct side *side = ctx;
    assert_false(wires_inside);
    assert_ptr_equal(side->ch, ch);
    assert_int_equal(channel_queued(ch), 0);
    side->drained++;
}

static inline void side_closed(void *ctx, struct channel *ch, enum channel_end end,
                               const char *detail)
{
    struct side *side = ctx;
    assert_false(wires_inside);
    assert_ptr_equal(side->ch, ch);
    assert_non_null(detail);
    side->closed++;
    side->end = end;
    (void)snprintf(side->detail, sizeof side->detail, "%s", detail);
    if (side->on_closed) {
        side->on_closed(side, NULL);
    }
    side->ch = NULL;
}

static const struct channel_ops side_ops = {
    .established = side_established,
    .message = side_message,
    .drained = side_drained,
    .closed = side_closed,
};

static inline void side_free(struct side *side)
{
    channel_free(side->ch);
    side->ch = NULL;
}

static inline void world_on_accept(void *ctx, int fd, const struct sockaddr *peer, socklen_t peer_n)
{
    struct world *w = ctx;
    (void)peer;
    (void)peer_n;
    if (w->server.ch) {
        /* One at a time is enough here. */
        assert_int_equal(close(fd), 0);
        return;
    }
    assert_int_equal(
        INSIDE(channel_accept(w->base, fd, w->hello, &w->server_facts, w->server_timeout_ms,
                              &side_ops, &w->server, &w->server.ch)),
        0);
}

static inline void world_on_deadline(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    ((struct world *)arg)->late = true;
}

static inline void world_make(struct world *w)
{
    memset(w, 0, sizeof *w);
    assert_true(sodium_init() >= 0);
    w->open_before = open_files();
    w->base = event_base_new();
    assert_non_null(w->base);
    uint8_t secret[32];
    uint8_t public_key[32];
    uint8_t root[TOKEN_ROOT_BYTES];
    randombytes_buf(secret, sizeof secret);
    randombytes_buf(root, sizeof root);
    assert_int_equal(crypto_scalarmult_base(public_key, secret), 0);
    assert_int_equal(hello_server_new(secret, root, &w->hello), 0);
    token_mint(&w->token, TOKEN_AGENT, (struct tfe_wall){0}, root, public_key);
    w->client_facts = (struct hello_facts){1, 1, 0xc11e47};
    w->server_facts = (struct hello_facts){1, 1, 0x5e4e4};
    w->server_timeout_ms = HANDSHAKE_MS;
    w->client.other = &w->server;
    w->server.other = &w->client;
    struct tfe_why why;
    assert_int_equal(listener_new(w->base, "127.0.0.1", 0, world_on_accept, w, &w->listener, &why),
                     0);
}

static inline void world_end(struct world *w)
{
    side_free(&w->client);
    side_free(&w->server);
    listener_free(w->listener);
    hello_server_free(w->hello);
    event_base_free(w->base);
    /* Whatever was opened is closed; a thread that asks a name server may take its time. */
    const time_t last = time(NULL) + DEADLINE_S;
    while (open_files() != w->open_before && time(NULL) < last) {
        (void)sched_yield();
    }
    assert_int_equal(open_files(), w->open_before);
}

static inline void world_dial(struct world *w, const char *host, uint16_t port)
{
    assert_int_equal(INSIDE(channel_connect(w->base, host, port, &w->token, &w->client_facts,
                                            HANDSHAKE_MS, &side_ops, &w->client, &w->client.ch)),
                     0);
}

/* Runs the loop until the condition holds. */
#define RUN_UNTIL(w, condition)                                                                    \
    do {                                                                                           \
        struct event *late_ = evtimer_new((w)->base, world_on_deadline, (w));                      \
        const struct timeval in_ = {.tv_sec = DEADLINE_S};                                         \
        assert_int_equal(evtimer_add(late_, &in_), 0);                                             \
        while (!(condition)) {                                                                     \
            assert_true(event_base_loop((w)->base, EVLOOP_ONCE) >= 0);                             \
            if ((w)->late) {                                                                       \
                fail_msg("%s: not within %d s", #condition, DEADLINE_S);                           \
            }                                                                                      \
        }                                                                                          \
        event_free(late_);                                                                         \
    } while (0)

/* Runs what is ready now, until nothing is. */
static inline void world_settle(struct world *w)
{
    for (int i = 0; i < 50; i++) {
        assert_true(event_base_loop(w->base, EVLOOP_NONBLOCK) >= 0);
    }
}

static inline struct tfe_msg renew(uint64_t number)
{
    return (struct tfe_msg){.type = MSG_RENEW, .u.renew = {.number = number}};
}

static inline struct tfe_msg renewed(uint64_t number)
{
    return (struct tfe_msg){.type = MSG_RENEWED,
                            .u.renewed = {.number = number, .ttl_ms = 10000, .fence_ms = 300000}};
}

static inline int side_send(struct side *side, struct tfe_msg msg)
{
    return INSIDE(channel_send(side->ch, &msg));
}

static inline void send_renew_1(struct side *side, const struct tfe_msg *msg)
{
    (void)msg;
    assert_int_equal(side_send(side, renew(1)), 0);
}

/* Both sides established; the client has sent RENEW 1. */
static inline void world_connect_to(struct world *w, uint16_t port)
{
    w->client.on_established = send_renew_1;
    world_dial(w, "127.0.0.1", port);
    RUN_UNTIL(w, w->server.messages == 1);
    w->client.on_established = NULL;
}

static inline void world_connect(struct world *w)
{
    world_connect_to(w, listener_port(w->listener));
}

/* --- a raw socket in place of a channel --- */

static inline int raw_connect(uint16_t port)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
    const int on = 1;
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

/* A listening socket that is polled by hand; *ret_port is its port. */
static inline int raw_listen(uint16_t *ret_port)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, n), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    *ret_port = ntohs(at.sin_port);
    return fd;
}

/* Accepts as soon as somebody comes, while the loop runs. */
static inline int raw_accept(struct world *w, int listening)
{
    int fd = -1;
    RUN_UNTIL(w, (event_base_loop(w->base, EVLOOP_NONBLOCK),
                  fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
    return fd;
}

/* Reads until so many bytes are there, while the loop runs. */
static inline void raw_read(struct world *w, int fd, uint8_t *ret, size_t n)
{
    size_t have = 0;
    while (have < n) {
        ssize_t got = 0;
        RUN_UNTIL(w, (event_base_loop(w->base, EVLOOP_NONBLOCK),
                      got = recv(fd, ret + have, n - have, 0)) != -1);
        assert_true(got > 0);
        have += (size_t)got;
    }
}

/* What recv gives at last: 0 for EOF, else the errno; bytes before it are counted. */
static inline int raw_end(struct world *w, int fd, size_t *ret_bytes)
{
    uint8_t in[4096];
    ssize_t got = -1;
    *ret_bytes = 0;
    for (;;) {
        RUN_UNTIL(
            w, (event_base_loop(w->base, EVLOOP_NONBLOCK), got = recv(fd, in, sizeof in, 0)) >= 0 ||
                   errno != EAGAIN);
        if (got <= 0) {
            return got == 0 ? 0 : errno;
        }
        *ret_bytes += (size_t)got;
    }
}

/* --- a wire that is in our hands --- */

/* Forwards between an accepted and a dialled socket, step bytes at a time in each direction. */
struct wire {
    struct world *w;
    struct listener *listener;
    int fd[2]; /* towards the client, towards the server */
    struct event *event[2];
    size_t step;
    uint64_t forwarded[2]; /* bytes read from fd[i] */
    uint64_t flip_at[2];   /* the byte with this number (from 1) gets a bit flipped */
};

static inline void wire_cut(struct wire *wire)
{
    for (int i = 0; i < 2; i++) {
        if (wire->event[i]) {
            event_free(wire->event[i]);
            wire->event[i] = NULL;
        }
        if (wire->fd[i] >= 0) {
            (void)close(wire->fd[i]);
            wire->fd[i] = -1;
        }
    }
}

static inline void wire_on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct wire *wire = arg;
    const int from = fd == wire->fd[0] ? 0 : 1;
    uint8_t bytes[65536];
    (void)what;
    const ssize_t n = recv(fd, bytes, wire->step, 0);
    if (n < 0 && errno == EAGAIN) {
        return;
    }
    if (n <= 0) {
        /* One end has gone: the other may still have something to say. */
        (void)shutdown(wire->fd[1 - from], SHUT_WR);
        (void)event_del(wire->event[from]);
        return;
    }
    const uint64_t before = wire->forwarded[from];
    wire->forwarded[from] += (uint64_t)n;
    if (wire->flip_at[from] > before && wire->flip_at[from] <= wire->forwarded[from]) {
        bytes[wire->flip_at[from] - before - 1] ^= 0x10;
    }
    /* Loopback takes it; should it ever not, a blocking write is what a wire would do. */
    size_t put = 0;
    while (put < (size_t)n) {
        const ssize_t sent = send(wire->fd[1 - from], bytes + put, (size_t)n - put, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) {
            return;
        }
        put += sent > 0 ? (size_t)sent : 0;
    }
}

static inline void wire_on_accept(void *ctx, int fd, const struct sockaddr *peer, socklen_t peer_n)
{
    struct wire *wire = ctx;
    (void)peer;
    (void)peer_n;
    const int on = 1;
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    wire->fd[0] = fd;
    wire->fd[1] = raw_connect(listener_port(wire->w->listener));
    for (int i = 0; i < 2; i++) {
        wire->event[i] =
            event_new(wire->w->base, wire->fd[i], EV_READ | EV_PERSIST, wire_on_readable, wire);
        assert_int_equal(event_add(wire->event[i], NULL), 0);
    }
}

static inline void wire_make(struct wire *wire, struct world *w, size_t step)
{
    struct tfe_why why;
    *wire = (struct wire){.w = w, .fd = {-1, -1}, .step = step};
    assert_int_equal(
        listener_new(w->base, "127.0.0.1", 0, wire_on_accept, wire, &wire->listener, &why), 0);
}

static inline void wire_pause(struct wire *wire, int from)
{
    assert_int_equal(event_del(wire->event[from]), 0);
}

static inline void wire_go_on(struct wire *wire, int from)
{
    assert_int_equal(event_add(wire->event[from], NULL), 0);
}

static inline void wire_end(struct wire *wire)
{
    wire_cut(wire);
    listener_free(wire->listener);
}

#endif
