/* bench/echo_load.c: the client of the echo servers: N connections with a window of requests under
 * way in total.
 *
 * Usage: tfe-bench-echo-load sealed|plain PORT N WINDOW SECONDS [RATE]: prints {"answers": …,
 * "seconds": …}. (The bufferevent echo is a plain one.) With a RATE the program sends that many
 * requests per second, sleeps in between and ignores the window. */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/frames.h"
#include "bench/machine.h"

struct load;
struct connection {
    struct load *load;
    struct event readable;
    int fd;
    bool busy;
    struct seal_key tx;
    struct seal_key rx;
    uint8_t part[256];
    size_t part_n;
};

struct load {
    struct event_base *base;
    struct connection *connections;
    uint32_t n;
    uint32_t next;
    double rate; /* requests per second; 0 keeps a window of them under way */
    bool sealed;
    bool over;
    uint64_t answers;
    uint8_t request[64];
    size_t request_n;
};

static void request(struct connection *c)
{
    uint8_t frame[128];
    size_t n = 0;
    const struct load *load = c->load;
    if (load->sealed) {
        if (seal_frame(&c->tx, load->request, load->request_n, frame, sizeof frame, &n)) {
            abort();
        }
    } else {
        n = load->request_n + 18;
        memset(frame, 0, n);
        frame[1] = (uint8_t)(n - 2);
    }
    c->busy = true;
    if (send(c->fd, frame, n, MSG_NOSIGNAL) != (ssize_t)n) {
        perror("send");
        exit(1);
    }
}

static void ask_next(struct load *load)
{
    /* A prime that divides none of the numbers of connections used here. */
    const uint32_t stride = load->rate > 0 ? 7919 : 1;
    for (uint32_t i = 0; i < load->n; i++) {
        struct connection *c = &load->connections[load->next];
        load->next = (load->next + stride) % load->n;
        if (!c->busy) {
            request(c);
            return;
        }
    }
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
    struct connection *c = ctx;
    uint8_t plain[SEAL_PLAIN_MAX];
    (void)what;
    const ssize_t got = recv(fd, c->part + c->part_n, sizeof c->part - c->part_n, MSG_DONTWAIT);
    if (got <= 0) {
        if (got < 0 && errno == EAGAIN) {
            return;
        }
        (void)fprintf(stderr, "the echo has closed a connection\n");
        exit(1);
    }
    c->part_n += (size_t)got;
    size_t used = 0;
    size_t n = 0;
    if (c->load->sealed) {
        if (seal_open(&c->rx, c->part, c->part_n, &used, plain, &n)) {
            return; /* the frame is incomplete */
        }
    }
    c->part_n = 0;
    c->busy = false;
    c->load->answers++;
    if (c->load->rate == 0) {
        ask_next(c->load);
    }
}

/* Sends requests like renewals: by the clock, from scattered connections. */
static void go_on_paced(struct load *load)
{
    const double began = machine_s();
    uint64_t asked = 0;
    while (!load->over) {
        machine_doze();
        for (; (double)asked < (machine_s() - began) * load->rate; asked++) {
            ask_next(load);
        }
        (void)event_base_loop(load->base, EVLOOP_NONBLOCK);
    }
}

static void on_over(evutil_socket_t fd, short what, void *ctx)
{
    struct load *load = ctx;
    (void)fd;
    (void)what;
    load->over = true;
}

int main(int argc, char **argv)
{
    if (argc < 6 || argc > 7 || sodium_init() < 0) {
        return 2;
    }
    struct load load = {.sealed = strcmp(argv[1], "sealed") == 0,
                        .n = (uint32_t)strtoul(argv[3], NULL, 10),
                        .rate = argc == 7 ? strtod(argv[6], NULL) : 0};
    const uint32_t window = (uint32_t)strtoul(argv[4], NULL, 10);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)strtoul(argv[2], NULL, 10)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    machine_raise_files();
    load.request_n = frames_renew(load.request);
    struct event_config *how = event_config_new();
    const struct timeval turn = {.tv_usec = 50000};
    /* Same interval as in the fleet. */
    (void)event_config_set_max_dispatch_interval(how, &turn, -1, 0);
    load.base = event_base_new_with_config(how);
    load.connections = calloc(load.n, sizeof *load.connections);
    for (uint32_t i = 0; i < load.n; i++) {
        struct connection *c = &load.connections[i];
        const int on = 1;
        c->load = &load;
        c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&at, sizeof at)) {
            perror("connect");
            return 1;
        }
        (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        frames_key(&c->tx, 0);
        frames_key(&c->rx, 1);
        (void)event_assign(&c->readable, load.base, c->fd, EV_READ | EV_PERSIST, on_readable, c);
        (void)event_add(&c->readable, NULL);
    }
    (void)printf("{\"ready\": true}\n");
    (void)fflush(stdout);
    (void)getchar(); /* waits until the caller has read its clocks */
    const double seconds = strtod(argv[5], NULL);
    const struct timeval tv = {.tv_sec = (time_t)seconds,
                               .tv_usec = (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)};
    struct event timer;
    (void)event_assign(&timer, load.base, -1, 0, on_over, &load);
    (void)evtimer_add(&timer, &tv);
    const double began = machine_s();
    if (load.rate > 0) {
        go_on_paced(&load);
    } else {
        for (uint32_t i = 0; i < window; i++) {
            ask_next(&load);
        }
    }
    while (!load.over) {
        (void)event_base_loop(load.base, EVLOOP_ONCE);
    }
    (void)printf("{\"answers\": %llu, \"seconds\": %.6f}\n", (unsigned long long)load.answers,
                 machine_s() - began);
    (void)fflush(stdout);
    (void)getchar(); /* waits again, before the echo has to close all connections */
    return 0;
}
