/* bench/floor_crypto.c: the floor of ten thousand joins: the curve operations of their handshakes
 * (both sides, in one process and on one core each), and sealing, sending, receiving and opening
 * their tables; and whole handshakes without a socket, with a token and with a node key.
 *
 * Usage:
 *   tfe-bench-crypto handshakes N     N of each, alternately, on one core; prints microseconds
 *   tfe-bench-crypto curve N          N server and N client parts, on one core each
 *   tfe-bench-crypto tables N BYTES   BYTES to each of N sockets, between two processes
 *
 * The last two print {"seconds": …}. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/frames.h"
#include "bench/machine.h"
#include "common/handshake/handshake.h"

/* NKpsk0: each side creates an ephemeral key and two shared secrets. */
static void curve_ops(unsigned long n)
{
    uint8_t secret[32];
    uint8_t public_key[32];
    uint8_t shared[32];
    randombytes_buf(secret, sizeof secret);
    for (unsigned long i = 0; i < n; i++) {
        secret[0] = (uint8_t)(secret[0] + 8);
        if (crypto_scalarmult_base(public_key, secret) ||
            crypto_scalarmult(shared, secret, public_key) ||
            crypto_scalarmult(shared, shared, public_key)) {
            abort();
        }
    }
}

/* Returns the processor time of this thread, to exclude other work on the core. */
static double used_s(void)
{
    return (double)machine_ns(CLOCK_THREAD_CPUTIME_ID) / 1e9;
}

/* Performs one handshake; adds the times of the server and of the client. */
static void exchange_keys(struct handshake_server *server, const struct token *token,
                          double ret_s[2])
{
    static const struct handshake_params params = {PROTOCOL_VERSION, PROTOCOL_VERSION, 1};
    static const struct tfe_wall now = {1};
    uint8_t request[HANDSHAKE_REQUEST_MAX];
    uint8_t response[HANDSHAKE_RESPONSE_MAX];
    size_t n;
    size_t used;
    struct seal_session session;
    struct principal by;
    struct handshake_params told;
    struct handshake_client *client;
    const double began = used_s();
    if (handshake_client_start(token, &params, request, &n, &client)) {
        abort();
    }
    const double asked = used_s();
    if (handshake_server_check_mac1(server, now, request, n) ||
        handshake_server_answer(server, now, &params, request, n, &used, response, &n, &session,
                                &by, &told)) {
        abort();
    }
    const double answered = used_s();
    if (handshake_client_finish(client, response, n, &used, &session, &told)) {
        abort();
    }
    handshake_client_free(client);
    ret_s[0] += answered - asked;
    ret_s[1] += used_s() - answered + asked - began;
}

static int handshakes(unsigned long n)
{
    uint8_t secrets[2][32];
    uint8_t public_key[32];
    struct handshake_server *server;
    struct principal by = {.role = PRINCIPAL_AGENT, .scope = PRINCIPAL_EVERY_JOB};
    struct node_key node_key;
    struct token tokens[2];
    double s[2][2] = {{0}};
    randombytes_buf(secrets, sizeof secrets);
    randombytes_buf(node_key.secret, sizeof node_key.secret);
    if (handshake_server_new(secrets[0], secrets[1], &server) ||
        crypto_scalarmult_base(public_key, node_key.secret)) {
        return 1;
    }
    handshake_server_mint(server, &(struct token_config){.role = PRINCIPAL_AGENT}, &tokens[0]);
    handshake_server_issue_key(server, public_key, (struct tfe_wall){1000000}, &by, &tokens[1],
                               &node_key.certificate);
    tokens[1].node_key = &node_key;
    machine_pin(0);
    for (unsigned long i = 0; i < 2 * n; i++) {
        exchange_keys(server, &tokens[i % 2], s[i % 2]);
    }
    const double us = 1e6 / (double)n;
    (void)printf("{\"token\": %.3f, \"key\": %.3f, \"token_client\": %.3f, "
                 "\"key_client\": %.3f}\n",
                 us * s[0][0], us * s[1][0], us * s[0][1], us * s[1][1]);
    handshake_server_free(server);
    return 0;
}

static int wait_for(pid_t pid)
{
    int status = 1;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int curve(unsigned long n)
{
    const double began = machine_s();
    const pid_t client = fork();
    if (client == 0) {
        machine_pin(1);
        curve_ops(n);
        _exit(0);
    }
    machine_pin(0);
    curve_ops(n);
    const int rc = client > 0 ? wait_for(client) : 1;
    (void)printf("{\"seconds\": %.6f}\n", machine_s() - began);
    return rc;
}

static void receive_all(const int *fds, unsigned long n, size_t sealed_n)
{
    static uint8_t in[64 * 1024];
    static uint8_t plain[SEAL_PLAIN_MAX];
    const size_t frame_max = SEAL_HEADER_BYTES + SEAL_FRAME_MAX;
    struct seal_key *keys = calloc(n, sizeof *keys);
    size_t *left = calloc(n, sizeof *left);
    uint8_t *parts = calloc(n, frame_max);
    size_t *part_n = calloc(n, sizeof *part_n);
    struct epoll_event events[256];
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned long i = 0; i < n; i++) {
        frames_key(&keys[i], 0);
        left[i] = sealed_n;
        (void)epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i],
                        &(struct epoll_event){.events = EPOLLIN, .data.u64 = i});
    }
    for (unsigned long open = n; open > 0;) {
        const int ready = epoll_wait(epoll, events, 256, -1);
        for (int e = 0; e < ready; e++) {
            const size_t i = events[e].data.u64;
            memcpy(in, parts + i * frame_max, part_n[i]);
            const ssize_t got = recv(fds[i], in + part_n[i], sizeof in - frame_max, MSG_DONTWAIT);
            if (got <= 0) {
                continue;
            }
            left[i] -= (size_t)got;
            size_t have = part_n[i] + (size_t)got;
            size_t at = 0;
            size_t used = 0;
            size_t m;
            while (at < have && seal_open(&keys[i], in + at, have - at, &used, plain, &m) == 0) {
                at += used;
            }
            part_n[i] = have - at;
            memcpy(parts + i * frame_max, in + at, part_n[i]);
            if (left[i] == 0) {
                open--;
                (void)epoll_ctl(epoll, EPOLL_CTL_DEL, fds[i], NULL);
            }
        }
    }
}

static void send_all(const int *fds, unsigned long n, size_t bytes)
{
    static uint8_t plain[SEAL_PLAIN_MAX];
    static uint8_t frame[SEAL_HEADER_BYTES + SEAL_FRAME_MAX];
    for (unsigned long i = 0; i < n; i++) {
        struct seal_key key;
        frames_key(&key, 0);
        for (size_t left = bytes; left > 0;) {
            const size_t m = left < 10000 ? left : 10000; /* largest size of a chunk */
            size_t sealed = 0;
            if (seal_frame(&key, plain, m, frame, sizeof frame, &sealed)) {
                abort();
            }
            for (size_t sent = 0; sent < sealed;) {
                const ssize_t did = send(fds[i], frame + sent, sealed - sent, MSG_NOSIGNAL);
                sent += did > 0 ? (size_t)did : 0;
            }
            left -= m;
        }
    }
}

static int listen_on_loopback(struct sockaddr_in *ret)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t n = sizeof *ret;
    *ret = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = 10}; /* the other process may have failed */
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) ||
        bind(fd, (struct sockaddr *)ret, n) || listen(fd, SOMAXCONN) ||
        getsockname(fd, (struct sockaddr *)ret, &n)) {
        perror("listen");
        exit(1);
    }
    return fd;
}

/* The receiving process: reports once all connections exist, then receives. */
static void connect_and_receive(const struct sockaddr_in *at, unsigned long n, size_t sealed_n,
                                int ready)
{
    int *fds = calloc(n, sizeof *fds);
    machine_pin(1);
    for (unsigned long i = 0; i < n; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fds[i] < 0 || connect(fds[i], (const struct sockaddr *)at, sizeof *at)) {
            perror("connect");
            _exit(1);
        }
    }
    if (write(ready, "", 1) != 1) {
        _exit(1);
    }
    receive_all(fds, n, sealed_n);
    _exit(0);
}

/* The ends of the connections are in two processes: each needs 10,000 descriptors, and a limit of
 * 20,000 would not suffice for both. */
static int tables(unsigned long n, size_t bytes)
{
    struct sockaddr_in at;
    const int listening = listen_on_loopback(&at);
    const size_t frames = (bytes + 9999) / 10000;
    int *fds = calloc(n, sizeof *fds);
    int ready[2];
    char byte;
    if (!fds || pipe(ready)) {
        perror("tfe-bench-crypto");
        return 1;
    }
    const pid_t receiver = fork();
    if (receiver == 0) {
        (void)close(ready[0]);
        connect_and_receive(&at, n, bytes + frames * (SEAL_HEADER_BYTES + SEAL_TAG_BYTES),
                            ready[1]);
    }
    (void)close(ready[1]);
    machine_pin(0);
    for (unsigned long i = 0; i < n; i++) {
        fds[i] = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
        if (fds[i] < 0) {
            perror("accept");
            return 1;
        }
    }
    if (receiver < 0 || read(ready[0], &byte, 1) != 1) {
        return 1;
    }
    const double began = machine_s();
    send_all(fds, n, bytes);
    const int rc = wait_for(receiver);
    (void)printf("{\"seconds\": %.6f}\n", machine_s() - began);
    return rc;
}

int main(int argc, char **argv)
{
    machine_raise_files();
    if (sodium_init() < 0) {
        return 1;
    }
    if (argc == 3 && strcmp(argv[1], "curve") == 0) {
        return curve(strtoul(argv[2], NULL, 10));
    }
    if (argc == 3 && strcmp(argv[1], "handshakes") == 0) {
        return handshakes(strtoul(argv[2], NULL, 10));
    }
    if (argc == 4 && strcmp(argv[1], "tables") == 0) {
        return tables(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10));
    }
    return 2;
}
