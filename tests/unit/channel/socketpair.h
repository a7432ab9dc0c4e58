/* tests/unit/channel/socketpair.h: two channels over loopback in one loop, and a wire between them
 * that can be slow, cut or dirty. Time passes only as the loop's; every wait has a deadline that
 * fails the test. */
#ifndef TFE_TESTS_UNIT_CHANNEL_SOCKETPAIR_H
#define TFE_TESTS_UNIT_CHANNEL_SOCKETPAIR_H

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

#include "common/base/limits.h"
#include "common/channel/channel.h"
#include "common/channel/listener.h"
#include "common/handshake/handshake.h"
#include "common/handshake/seal.h"
#include "common/handshake/token.h"
#include "common/message/codec.h"
#include "tests/unit/test_runner.h"

#define DEADLINE_S 30
#define HANDSHAKE_MS 10000

struct side;
typedef void side_fn(struct side *side, const struct tfe_msg *msg);

/* One end of a connection: the channel, counters of its callbacks, and the test's reactions. */
struct side {
    struct channel *ch; /* NULL before the connection and after closed() */
    unsigned established;
    unsigned messages;
    unsigned drained;
    unsigned closed;
    const struct principal *by; /* the client's principal (server side only) */
    enum channel_end end;
    char detail[512];
    side_fn *on_established; /* called with msg NULL */
    side_fn *on_message;
    side_fn *on_closed;  /* called with msg NULL */
    side_fn *on_drained; /* called with msg NULL */
    struct side *other;
    uint64_t number; /* number of the last RENEW or RENEWED */
    uint64_t disorder;
    uint64_t rows;
    uint64_t bytes;
};

struct world {
    struct event_base *base;
    struct handshake_server *handshake;
    struct token token;
    struct handshake_params client_params;
    struct handshake_params server_params;
    struct listener *listener;
    uint32_t server_timeout_ms;
    struct side client;
    struct side server;
    unsigned open_before;
    bool late;
};

/* True during a call into the channel; a callback must not run then. */
extern bool wires_inside;
extern int wires_result;
#define INSIDE(call)                                                                               \
    (wires_inside = true, wires_result = (call), wires_inside = false, wires_result)

unsigned open_files(void);

extern const struct channel_ops side_ops;

void side_free(struct side *side);
void world_on_deadline(evutil_socket_t fd, short what, void *arg);
void world_make(struct world *w);
void world_end(struct world *w);
void world_dial(struct world *w, const char *host, uint16_t port);

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

/* Runs everything that is ready, until nothing is. */
void world_settle(struct world *w);
struct tfe_msg renew(uint64_t number);
struct tfe_msg renewed(uint64_t number);
int side_send(struct side *side, struct tfe_msg msg);
void send_renew_1(struct side *side, const struct tfe_msg *msg);

/* Connects both sides until they are established and the client has sent RENEW 1. */
void world_connect_to(struct world *w, uint16_t port);
void world_connect(struct world *w);

/* --- raw sockets ------------------------------------------------------------------------------ */

int raw_connect(uint16_t port);

/* Returns a listening socket outside the loop; *ret_port is its port. */
int raw_listen(uint16_t *ret_port);

/* Runs the loop until a connection arrives. Returns the accepted socket. */
int raw_accept(struct world *w, int listening);

/* Runs the loop until n bytes have been read into ret. */
void raw_read(struct world *w, int fd, uint8_t *ret, size_t n);

/* Reads to the end. Returns 0 for EOF, else the errno; *ret_bytes is the number of bytes before
 * it. */
int raw_end(struct world *w, int fd, size_t *ret_bytes);

/* --- controlled wire -------------------------------------------------------------------------- */

/* A relay between an accepted and a dialled socket that forwards step bytes at a time in each
 * direction. */
struct wire {
    struct world *w;
    struct listener *listener;
    int fd[2]; /* towards the client, towards the server */
    struct event *event[2];
    size_t step;
    uint64_t forwarded[2]; /* bytes read from fd[i] */
    uint64_t flip_at[2];   /* number (from 1) of the byte in which a bit is flipped */
};

void wire_cut(struct wire *wire);
void wire_make(struct wire *wire, struct world *w, size_t step);
void wire_pause(struct wire *wire, int from);
void wire_go_on(struct wire *wire, int from);
void wire_end(struct wire *wire);

#endif
