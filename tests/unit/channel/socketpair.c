/* tests/unit/channel/socketpair.c: see socketpair.h. */
#include "tests/unit/channel/socketpair.h"

bool wires_inside;
int wires_result;

unsigned open_files(void)
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

static void side_established(void *ctx, struct channel *ch, const struct principal *by)
{
    struct side *side = ctx;
    assert_false(wires_inside);
    assert_ptr_equal(side->ch, ch);
    assert_int_equal(side->closed, 0);
    side->established++;
    side->by = by;
    if (side->on_established) {
        side->on_established(side, NULL);
    }
}

static void side_message(void *ctx, struct channel *ch, const struct tfe_msg *msg)
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

static void side_drained(void *ctx, struct channel *ch)
{
    struct side *side = ctx;
    assert_false(wires_inside);
    assert_ptr_equal(side->ch, ch);
    assert_int_equal(channel_queued(ch), 0);
    side->drained++;
    if (side->on_drained) {
        side->on_drained(side, NULL);
    }
}

static void side_closed(void *ctx, struct channel *ch, enum channel_end end, const char *detail)
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

const struct channel_ops side_ops = {
    .established = side_established,
    .message = side_message,
    .drained = side_drained,
    .closed = side_closed,
};

void side_free(struct side *side)
{
    channel_free(side->ch);
    side->ch = NULL;
}

static void world_on_accept(void *ctx, int fd, const struct sockaddr *peer, socklen_t peer_n)
{
    struct world *w = ctx;
    (void)peer;
    (void)peer_n;
    if (w->server.ch) {
        /* The server accepts one connection at a time. */
        assert_int_equal(close(fd), 0);
        return;
    }
    assert_int_equal(
        INSIDE(channel_accept(w->base, fd, w->handshake, &w->server_params, w->server_timeout_ms,
                              &side_ops, &w->server, &w->server.ch)),
        0);
}

void world_on_deadline(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    ((struct world *)arg)->late = true;
}

void world_make(struct world *w)
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
    assert_int_equal(handshake_server_new(secret, root, &w->handshake), 0);
    token_mint(&w->token, &(struct token_config){.role = PRINCIPAL_AGENT}, root, public_key);
    w->client_params = (struct handshake_params){1, 1, 0xc11e47};
    w->server_params = (struct handshake_params){1, 1, 0x5e4e4};
    w->server_timeout_ms = HANDSHAKE_MS;
    w->client.other = &w->server;
    w->server.other = &w->client;
    struct tfe_reason reason;
    assert_int_equal(
        listener_new(w->base, "127.0.0.1", 0, world_on_accept, w, &w->listener, &reason), 0);
}

void world_end(struct world *w)
{
    side_free(&w->client);
    side_free(&w->server);
    listener_free(w->listener);
    handshake_server_free(w->handshake);
    event_base_free(w->base);
    /* All descriptors are closed in the end; a thread in getaddrinfo may take a while. */
    const time_t last = time(NULL) + DEADLINE_S;
    while (open_files() != w->open_before && time(NULL) < last) {
        (void)sched_yield();
    }
    assert_int_equal(open_files(), w->open_before);
}

void world_dial(struct world *w, const char *host, uint16_t port)
{
    assert_int_equal(INSIDE(channel_connect(w->base, host, port, &w->token, &w->client_params,
                                            HANDSHAKE_MS, &side_ops, &w->client, &w->client.ch)),
                     0);
}

void world_settle(struct world *w)
{
    for (int i = 0; i < 50; i++) {
        assert_true(event_base_loop(w->base, EVLOOP_NONBLOCK) >= 0);
    }
}

struct tfe_msg renew(uint64_t number)
{
    return (struct tfe_msg){.type = MSG_RENEW, .u.renew = {.number = number}};
}

struct tfe_msg renewed(uint64_t number)
{
    return (struct tfe_msg){.type = MSG_RENEWED,
                            .u.renewed = {.number = number, .ttl_ms = 10000, .fence_ms = 300000}};
}

int side_send(struct side *side, struct tfe_msg msg)
{
    return INSIDE(channel_send(side->ch, &msg));
}

void send_renew_1(struct side *side, const struct tfe_msg *msg)
{
    (void)msg;
    assert_int_equal(side_send(side, renew(1)), 0);
}

void world_connect_to(struct world *w, uint16_t port)
{
    w->client.on_established = send_renew_1;
    world_dial(w, "127.0.0.1", port);
    RUN_UNTIL(w, w->server.messages == 1);
    w->client.on_established = NULL;
}

void world_connect(struct world *w)
{
    world_connect_to(w, listener_port(w->listener));
}

/* --- raw sockets ------------------------------------------------------------------------------ */

int raw_connect(uint16_t port)
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

int raw_listen(uint16_t *ret_port)
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

int raw_accept(struct world *w, int listening)
{
    int fd = -1;
    RUN_UNTIL(w, (event_base_loop(w->base, EVLOOP_NONBLOCK),
                  fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
    return fd;
}

void raw_read(struct world *w, int fd, uint8_t *ret, size_t n)
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

int raw_end(struct world *w, int fd, size_t *ret_bytes)
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

/* --- controlled wire -------------------------------------------------------------------------- */

void wire_cut(struct wire *wire)
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

static void wire_on_readable(evutil_socket_t fd, short what, void *arg)
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
        /* One end has closed; the other may still send. */
        (void)shutdown(wire->fd[1 - from], SHUT_WR);
        (void)event_del(wire->event[from]);
        return;
    }
    const uint64_t before = wire->forwarded[from];
    wire->forwarded[from] += (uint64_t)n;
    if (wire->flip_at[from] > before && wire->flip_at[from] <= wire->forwarded[from]) {
        bytes[wire->flip_at[from] - before - 1] ^= 0x10;
    }
    /* The loopback socket takes all bytes; if not, a blocking write delays them like a slow wire.
     */
    size_t put = 0;
    while (put < (size_t)n) {
        const ssize_t sent = send(wire->fd[1 - from], bytes + put, (size_t)n - put, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) {
            return;
        }
        put += sent > 0 ? (size_t)sent : 0;
    }
}

static void wire_on_accept(void *ctx, int fd, const struct sockaddr *peer, socklen_t peer_n)
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

void wire_make(struct wire *wire, struct world *w, size_t step)
{
    struct tfe_reason reason;
    *wire = (struct wire){.w = w, .fd = {-1, -1}, .step = step};
    assert_int_equal(
        listener_new(w->base, "127.0.0.1", 0, wire_on_accept, wire, &wire->listener, &reason), 0);
}

void wire_pause(struct wire *wire, int from)
{
    assert_int_equal(event_del(wire->event[from]), 0);
}

void wire_go_on(struct wire *wire, int from)
{
    assert_int_equal(event_add(wire->event[from], NULL), 0);
}

void wire_end(struct wire *wire)
{
    wire_cut(wire);
    listener_free(wire->listener);
}
