/* bench/floor_echo.c: the floor of renewals: an echo server on raw libevent events that opens and
 * seals each frame with bare libsodium and does nothing else; and a plain and a bufferevent echo
 * for comparison.
 *
 * Usage: tfe-bench-echo sealed|plain|bufferevent PORTFILE: writes its port to PORTFILE, then serves
 * until it is killed. */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/frames.h"
#include "bench/machine.h"

enum kind { SEALED, PLAIN, BUFFEREVENT };

struct echo {
    enum kind kind;
    struct event_base *base;
    uint8_t answer[64];
    size_t answer_n;
};

struct connection {
    struct echo *echo;
    struct event readable;
    uint64_t opened;
    uint64_t sealed;
};

static uint8_t in[64 * 1024];
static uint8_t out[64 * 1024];
static uint8_t plain[SEAL_PLAIN_MAX];
static uint8_t rx_key[32];
static uint8_t tx_key[32];

static void drop(struct connection *c, evutil_socket_t fd)
{
    (void)event_del(&c->readable);
    (void)close(fd);
    free(c);
}

static void nonce_of(uint64_t number, uint8_t nonce[12])
{
    memset(nonce, 0, 12);
    memcpy(nonce + 4, &number, sizeof number);
}

/* Opens and answers one frame of n bytes. Returns false if it does not open. */
static bool answer(struct connection *c, const uint8_t *frame, size_t n, uint8_t *to, size_t *ret_n)
{
    const struct echo *echo = c->echo;
    unsigned long long m;
    uint8_t nonce[12];
    if (echo->kind == PLAIN) {
        memcpy(to, frame, n);
        *ret_n = echo->answer_n + 18; /* same size as the sealed answer */
        memset(to + n, 0, *ret_n > n ? *ret_n - n : 0);
        return true;
    }
    nonce_of(c->opened++, nonce);
    if (crypto_aead_chacha20poly1305_ietf_decrypt(plain, &m, NULL, frame + 2, n - 2, NULL, 0, nonce,
                                                  rx_key)) {
        return false;
    }
    nonce_of(c->sealed++, nonce);
    (void)crypto_aead_chacha20poly1305_ietf_encrypt(to + 2, &m, echo->answer, echo->answer_n, NULL,
                                                    0, NULL, nonce, tx_key);
    to[0] = (uint8_t)(m >> 8);
    to[1] = (uint8_t)m;
    *ret_n = 2 + (size_t)m;
    return true;
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
    struct connection *c = ctx;
    (void)what;
    const ssize_t got = recv(fd, in, sizeof in, MSG_DONTWAIT);
    if (got <= 0) {
        if (got == 0 || errno != EAGAIN) {
            drop(c, fd);
        }
        return;
    }
    size_t used = 0;
    size_t n_out = 0;
    while ((size_t)got - used >= 2) {
        const size_t n = 2 + ((size_t)in[used] << 8 | in[used + 1]);
        size_t m = 0;
        /* Requests are far smaller than a packet, so that each arrives in one piece. */
        if ((size_t)got - used < n || !answer(c, in + used, n, out + n_out, &m)) {
            drop(c, fd);
            return;
        }
        used += n;
        n_out += m;
    }
    if (send(fd, out, n_out, MSG_NOSIGNAL) != (ssize_t)n_out) {
        drop(c, fd);
    }
}

static void on_buffered(struct bufferevent *bev, void *ctx)
{
    (void)ctx;
    (void)evbuffer_add_buffer(bufferevent_get_output(bev), bufferevent_get_input(bev));
}

static void on_event(struct bufferevent *bev, short what, void *ctx)
{
    (void)what;
    (void)ctx;
    bufferevent_free(bev);
}

static void on_accept(evutil_socket_t listening, short what, void *ctx)
{
    struct echo *echo = ctx;
    const int on = 1;
    (void)what;
    const int fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (echo->kind == BUFFEREVENT) {
        struct bufferevent *bev = bufferevent_socket_new(echo->base, fd, BEV_OPT_CLOSE_ON_FREE);
        bufferevent_setcb(bev, on_buffered, NULL, on_event, NULL);
        (void)bufferevent_enable(bev, EV_READ | EV_WRITE);
        return;
    }
    struct connection *c = calloc(1, sizeof *c);
    c->echo = echo;
    (void)event_assign(&c->readable, echo->base, fd, EV_READ | EV_PERSIST, on_readable, c);
    (void)event_add(&c->readable, NULL);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        return 2;
    }
    struct echo echo = {.kind = strcmp(argv[1], "plain") == 0         ? PLAIN
                                : strcmp(argv[1], "bufferevent") == 0 ? BUFFEREVENT
                                                                      : SEALED};
    (void)signal(SIGPIPE, SIG_IGN);
    if (sodium_init() < 0) {
        return 1;
    }
    machine_raise_files();
    echo.answer_n = frames_renewed(echo.answer);
    memset(rx_key, 1, sizeof rx_key);
    memset(tx_key, 2, sizeof tx_key);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) || listen(fd, SOMAXCONN) ||
        getsockname(fd, (struct sockaddr *)&at, &n)) {
        perror("tfe-bench-echo");
        return 1;
    }
    FILE *file = fopen(argv[2], "w");
    if (!file || fprintf(file, "%u\n", ntohs(at.sin_port)) < 0 || fclose(file)) {
        return 1;
    }
    echo.base = event_base_new();
    struct event accepting;
    (void)event_assign(&accepting, echo.base, fd, EV_READ | EV_PERSIST, on_accept, &echo);
    (void)event_add(&accepting, NULL);
    return event_base_dispatch(echo.base);
}
