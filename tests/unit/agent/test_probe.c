/* tests/unit/agent/test_probe.c: the prober against the responder, trainers, and other
 * listeners, with real sockets. */
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/os/ports.h"
#include "agent/os/prober.h"
#include "agent/os/responder.h"
#include "common/credentials/node_secrets.h"
#include "tests/unit/agent/agent_fixture.h"

#define RESULTS_MAX 64

/* Number of connect(2) calls, and their simulated result. */
static int connects;
static int connects_fail;       /* errno, or 0 to succeed */
static bool connects_to_itself; /* as where the kernel chooses the same number for both ends */

int __real_connect(int fd, const struct sockaddr *to, socklen_t n);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t n);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t n)
{
    connects++;
    if (connects_fail) {
        errno = connects_fail;
        return -1;
    }
    if (connects_to_itself) {
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &(int){1}, sizeof(int)), 0);
        assert_int_equal(bind(fd, to, n), 0);
    }
    return __real_connect(fd, to, n);
}

static struct {
    struct event_base *base;
    struct responder *responder;
    struct prober *prober;
    struct ports *ports;
    const uint16_t *numbers;
    uint32_t n;
    struct {
        uint64_t probe;
        enum tfe_probe_result result;
    } results[RESULTS_MAX];
    int n_results;
    bool is_remote; /* the address is not one of this machine */
    char death[PROOF_CHARS + 1];
    int n_deaths;
} s;

static void on_proof(void *ctx, const char *certificate)
{
    memcpy(s.death, certificate, sizeof s.death);
    s.n_deaths++;
}

static void on_done(void *ctx, uint64_t probe, enum tfe_probe_result result)
{
    assert_true(s.n_results < RESULTS_MAX);
    s.results[s.n_results].probe = probe;
    s.results[s.n_results++].result = result;
}

/* Reserves ports for epoch 1 that no process answers on. */
static void begin(uint32_t n)
{
    struct tfe_reason reason;
    memset(&s, 0, sizeof s);
    s.n = n;
    s.base = event_base_new();
    s.responder = responder_new(s.base, "node-1");
    s.prober = prober_new(s.base, on_done, on_proof, NULL);
    assert_int_equal(ports_new(n, 0, &s.ports, &reason), 0);
    assert_int_equal(ports_hold(s.ports, 1, false, &s.numbers, &reason), 0);
}

static int end(void **state)
{
    prober_free(s.prober);
    responder_free(s.responder);
    ports_free(s.ports);
    event_base_free(s.base);
    return 0;
}

#define FIXTURE NULL, end

static void answer(void)
{
    struct tfe_reason reason;
    assert_int_equal(responder_open(s.responder, s.numbers, s.n, &reason), 0);
}

static void start(uint64_t id, enum tfe_probe_kind kind, const char *node, const char *host)
{
    struct msg_probe probe = {
        .probe = id, .kind = kind, .node = node, .host = host, .ports = s.numbers, .n_ports = s.n};
    assert_int_equal(prober_start(s.prober, &probe, !s.is_remote), 0);
}

static void turn_until(int results)
{
    int64_t give_up = rig_ms() + RIG_PATIENCE_MS;
    while (s.n_results < results) {
        assert_true(rig_ms() < give_up);
        event_base_loop(s.base, EVLOOP_ONCE);
    }
}

static enum tfe_probe_result probe_at(enum tfe_probe_kind kind, const char *node, const char *host)
{
    s.n_results = 0;
    start(7, kind, node, host);
    assert_int_equal(s.n_results, 0); /* never during the call */
    turn_until(1);
    assert_int_equal(s.results[0].probe, 7);
    return s.results[0].result;
}

static enum tfe_probe_result probe(enum tfe_probe_kind kind)
{
    return probe_at(kind, "node-1", "127.0.0.1");
}

/* Returns a listening socket like a trainer's. */
static int trainer(uint16_t port, int backlog)
{
    int on = 1;
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof any), 0);
    assert_int_equal(listen(fd, backlog), 0);
    return fd;
}

TEST_IN(probe, answering_node_is_identified)
{
    begin(3);
    answer();
    assert_int_equal(probe(PROBE_ADDRESS), PROBE_ANSWERED_OURS);
    assert_int_equal(probe_at(PROBE_ADDRESS, "node-1", "localhost"), PROBE_ANSWERED_OURS);
    /* PROBE_SUSPECT needs only an accepted connection. */
    assert_int_equal(probe(PROBE_SUSPECT), PROBE_ACCEPTED);
}

TEST_IN(probe, forbidden_target_is_not_probed)
{
    /* Bug: any address in READY was connected to, even of metadata services or local services. */
    static const char *const never[] = {"0.0.0.0", "::", "[::ffff:0.0.0.0]"};
    static const char *const local[] = {"127.0.0.1", "localhost", "::1", "::ffff:127.0.0.1",
                                        "127.1.2.3"};
    begin(1);
    answer();
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++) {
        assert_int_equal(probe_at(PROBE_ADDRESS, "node-1", never[i]), PROBE_NO_ANSWER);
    }
    assert_int_equal(probe_at(PROBE_ADDRESS, "node-1", "127.0.0.1"), PROBE_ANSWERED_OURS);
    assert_int_equal(probe_at(PROBE_ADDRESS, "node-1", "[::ffff:127.0.0.1]"), PROBE_ANSWERED_OURS);
    s.is_remote = true;
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++) {
        assert_int_equal(probe_at(PROBE_ADDRESS, "node-1", local[i]), PROBE_NO_ANSWER);
        assert_int_equal(probe_at(PROBE_SUSPECT, "node-1", local[i]), PROBE_NO_ANSWER);
    }
}

TEST_IN(probe, link_local_and_multicast_addresses_are_not_probed)
{
    /* Not a single packet is sent. */
    static const char *const never[] = {"169.254.169.254", "fe80::1", "224.0.0.1",
                                        "255.255.255.255", "ff02::1", "::ffff:169.254.169.254"};
    begin(1);
    connects = 0;
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++) {
        assert_int_equal(probe_at(PROBE_ADDRESS, "node-1", never[i]), PROBE_NO_ANSWER);
    }
    assert_int_equal(connects, 0);
}

TEST_IN(probe, other_node_is_distinguished)
{
    begin(1);
    answer();
    static const char *const others[] = {"node-2", "node-", "node-11", "n"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(probe_at(PROBE_ADDRESS, others[i], "127.0.0.1"), PROBE_ANSWERED_OTHER);
    }
}

TEST_IN(probe, reserved_port_and_closed_responder_refuse)
{
    begin(2);
    assert_int_equal(probe(PROBE_SUSPECT), PROBE_REFUSED);
    assert_int_equal(probe(PROBE_ADDRESS), PROBE_REFUSED);
    answer();
    responder_close(s.responder);
    assert_int_equal(probe(PROBE_SUSPECT), PROBE_REFUSED);
}

TEST_IN(probe, weakest_result_of_all_ports_counts)
{
    struct tfe_reason reason;
    begin(3);
    assert_int_equal(responder_open(s.responder, s.numbers, 2, &reason), 0);
    assert_int_equal(probe(PROBE_ADDRESS), PROBE_REFUSED);
    int last = trainer(s.numbers[2], 8);
    assert_int_equal(probe(PROBE_ADDRESS), PROBE_ACCEPTED); /* silent for a whole second */
    responder_close(s.responder);
    /* two ports refuse and one accepts */
    assert_int_equal(probe(PROBE_SUSPECT), PROBE_ACCEPTED);
    close(last);
    assert_int_equal(probe(PROBE_SUSPECT), PROBE_REFUSED);
}

TEST_IN(probe, closed_responder_leaves_the_port_to_the_trainer)
{
    begin(1);
    for (int round = 0; round < 50; round++) {
        answer();
        assert_int_equal(probe(PROBE_ADDRESS), PROBE_ANSWERED_OURS);
        responder_close(s.responder);
        int fd = trainer(s.numbers[0], 8);
        for (int i = 0; i < 4; i++) {
            int peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            struct sockaddr_in here = {.sin_family = AF_INET,
                                       .sin_port = htons(s.numbers[0]),
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
            assert_int_equal(connect(peer, (struct sockaddr *)&here, sizeof here), 0);
            int conn =
                accept4(fd, NULL, NULL,
                        SOCK_CLOEXEC); /* blocks forever without a connection of the prober */
            assert_true(conn >= 0);
            close(conn);
            close(peer);
        }
        close(fd);
    }
}

/* No connection remains on a port that a trainer without SO_REUSEPORT may bind next. */
TEST_IN(probe, probe_leaves_the_port_free)
{
    begin(1);
    answer();
    uint16_t number = s.numbers[0];
    for (int i = 0; i < 20; i++) {
        assert_int_equal(probe(PROBE_ADDRESS), PROBE_ANSWERED_OURS);
    }
    responder_close(s.responder);
    ports_release(s.ports, 1);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(number)};
    assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof any), 0);
    close(fd);
}

TEST_IN(probe, unexpected_line_is_another_node)
{
    begin(1);
    int fd = trainer(s.numbers[0], 8);
    static const char *const words[] = {"HTTP/1.1 400 Bad Request\r\n", "tfe1 node node-12\n",
                                        "tfe1 node nod", ""};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        s.n_results = 0;
        start(1, PROBE_ADDRESS, "node-1", "127.0.0.1");
        int conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        assert_true(conn >= 0);
        size_t n = strlen(words[i]);
        assert_int_equal(send(conn, words[i], n, 0), n);
        close(conn);
        turn_until(1);
        assert_int_equal(s.results[0].result, n ? PROBE_ANSWERED_OTHER : PROBE_ACCEPTED);
    }
    close(fd);
}

TEST_IN(probe, line_in_pieces_is_accepted)
{
    begin(1);
    int fd = trainer(s.numbers[0], 8);
    start(1, PROBE_ADDRESS, "node-1", "127.0.0.1");
    int conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    char line[RESPONDER_LINE_MAX];
    size_t n = responder_line("node-1", line);
    assert_string_equal(line, "tfe1 node node-1\n");
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(send(conn, line + i, 1, 0), 1);
        event_base_loop(s.base, EVLOOP_NONBLOCK);
    }
    turn_until(1);
    assert_int_equal(s.results[0].result, PROBE_ANSWERED_OURS);
    close(conn);
    close(fd);
}

/* The result of one port does not end the probe, however early it arrives. */
TEST_IN(probe, probe_ends_with_its_last_port)
{
    struct tfe_reason reason;
    begin(2);
    assert_int_equal(responder_open(s.responder, s.numbers, 1, &reason), 0);
    int fd = trainer(s.numbers[1], 8);
    start(1, PROBE_ADDRESS, "node-1", "127.0.0.1");
    int conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    for (int turn = 0; turn < 20; turn++) { /* the first port has answered long before */
        event_base_loop(s.base, EVLOOP_NONBLOCK);
        usleep(2000);
    }
    char line[RESPONDER_LINE_MAX];
    size_t n = responder_line("node-1", line);
    assert_int_equal(send(conn, line, n, 0), n);
    turn_until(1);
    assert_int_equal(s.results[0].result, PROBE_ANSWERED_OURS);
    close(conn);
    close(fd);
}

TEST_IN(probe, only_econnrefused_counts_as_refused)
{
    static const int others[] = {ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL, ETIMEDOUT};
    begin(1);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        connects_fail = others[i];
        assert_int_equal(probe(PROBE_SUSPECT), PROBE_NO_ANSWER);
    }
    connects_fail = ECONNREFUSED;
    assert_int_equal(probe(PROBE_SUSPECT), PROBE_REFUSED);
    connects_fail = 0;
}

TEST_IN(probe, self_connection_is_no_result)
{
    begin(1);
    connects_to_itself = true;
    assert_int_equal(probe(PROBE_SUSPECT), PROBE_NO_ANSWER);
    assert_int_equal(probe(PROBE_ADDRESS), PROBE_NO_ANSWER);
    connects_to_itself = false;
}

TEST_IN(probe, probe_ends_within_a_second)
{
    begin(1);
    int fd = trainer(s.numbers[0], 0);
    int clients[8];
    /* Fill the accept queue, so that the kernel drops further connections. */
    struct sockaddr_in here = {.sin_family = AF_INET,
                               .sin_port = htons(s.numbers[0]),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < 8; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(clients[i], (struct sockaddr *)&here, sizeof here);
    }
    int64_t began = rig_ms();
    assert_int_equal(probe(PROBE_SUSPECT), PROBE_NO_ANSWER);
    assert_in_range(rig_ms() - began, PROBER_MS - 100, PROBER_MS + 5000);
    for (int i = 0; i < 8; i++) {
        close(clients[i]);
    }
    close(fd);
}

TEST_IN(probe, unresolvable_name_is_unreachable)
{
    begin(1);
    assert_int_equal(probe_at(PROBE_SUSPECT, "node-1", "no-such-host.invalid"), PROBE_NO_ANSWER);
    assert_int_equal(probe_at(PROBE_SUSPECT, "node-1", "255.255.255.255"), PROBE_NO_ANSWER);
}

TEST_IN(probe, all_64_ports_are_probed_at_once)
{
    begin(MSG_NPROC_MAX);
    answer();
    assert_int_equal(probe(PROBE_ADDRESS), PROBE_ANSWERED_OURS);
    responder_close(s.responder);
    assert_int_equal(probe(PROBE_SUSPECT), PROBE_REFUSED);
}

TEST_IN(probe, probe_above_the_limit_proves_nothing)
{
    begin(1);
    for (uint64_t i = 0; i < PROBER_MAX + 4; i++) {
        start(i, PROBE_SUSPECT, "node-1", "127.0.0.1");
    }
    turn_until(PROBER_MAX + 4);
    int refused = 0;
    for (int i = 0; i < s.n_results; i++) {
        refused += s.results[i].result == PROBE_REFUSED;
        if (s.results[i].probe >= PROBER_MAX) {
            assert_int_equal(s.results[i].result, PROBE_NO_ANSWER);
        }
    }
    assert_int_equal(refused, PROBER_MAX);
    /* Probes that are in progress at the end are dropped. */
    start(1, PROBE_SUSPECT, "node-1", "127.0.0.1");
    start(2, PROBE_SUSPECT, "node-1", "localhost");
}

#define CERTIFICATE "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* Probes a guard's port, on which a listener sends this text. */
static void ask_guard_that_says(const char *text)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof here;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&here, n), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&here, &n), 0);
    assert_int_equal(listen(listener, 1), 0);
    const struct msg_probe probe = {.probe = 1,
                                    .kind = PROBE_SUSPECT,
                                    .node = "node-1",
                                    .host = "127.0.0.1",
                                    .ports = s.numbers,
                                    .n_ports = 1,
                                    .guard_port = ntohs(here.sin_port)};
    assert_int_equal(prober_start(s.prober, &probe, true), 0);
    int peer = accept(listener, NULL, NULL);
    turn_until(1); /* the result of the ports, which does not wait for the guard */
    assert_int_equal(s.n_deaths, 0);
    assert_int_equal(s.results[0].result, PROBE_REFUSED);
    assert_int_equal(send(peer, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    close(peer);
    close(listener);
    int64_t give_up = rig_ms() + 200;
    while (s.n_deaths == 0 && rig_ms() < give_up) {
        event_base_loop(s.base, EVLOOP_NONBLOCK);
    }
    assert_int_equal(s.n_results, 1);
}

TEST_IN(probe, proof_of_the_guard_is_delivered_with_the_port_result)
{
    static const char *const others[] = {"tfe1 node node-1\n", "tfe1 dead 0123\n", "",
                                         "tfe1 dead " CERTIFICATE "0\n"};
    begin(1);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        s.n_results = 0;
        ask_guard_that_says(others[i]);
        assert_int_equal(s.n_deaths, 0);
    }
    s.n_results = 0;
    ask_guard_that_says("tfe1 dead " CERTIFICATE "\n");
    assert_int_equal(s.n_deaths, 1);
    assert_string_equal(s.death, CERTIFICATE);
}

TEST_IN(responder, any_client_behaviour_is_handled)
{
    begin(1);
    answer();
    struct sockaddr_in here = {.sin_family = AF_INET,
                               .sin_port = htons(s.numbers[0]),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    static const struct linger at_once = {.l_onoff = 1};
    for (int i = 0; i < 100; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(fd, (struct sockaddr *)&here, sizeof here);
        (void)!send(fd, "PRI * HTTP/2.0\r\n\r\n", 18, MSG_NOSIGNAL);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(fd);
        event_base_loop(s.base, EVLOOP_NONBLOCK);
    }
    assert_int_equal(probe(PROBE_ADDRESS), PROBE_ANSWERED_OURS);
}

TEST_IN(responder, reopening_releases_the_former_ports)
{
    struct tfe_reason reason;
    begin(2);
    const uint16_t *numbers = s.numbers;
    s.n = 1;
    assert_int_equal(responder_open(s.responder, numbers, 1, &reason), 0);
    assert_int_equal(responder_open(s.responder, numbers + 1, 1, &reason), 0);
    assert_int_equal(probe(PROBE_SUSPECT), PROBE_REFUSED);
    s.numbers = numbers + 1;
    assert_int_equal(probe(PROBE_ADDRESS), PROBE_ANSWERED_OURS);
    /* A second close does not close another descriptor. */
    responder_close(s.responder);
    int others = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    responder_close(s.responder);
    assert_int_equal(close(others), 0);
}

TEST_IN(responder, port_in_use_is_named)
{
    struct tfe_reason reason;
    begin(2);
    int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t n = sizeof any;
    assert_int_equal(bind(other, (struct sockaddr *)&any, sizeof any), 0);
    assert_int_equal(listen(other, 1), 0);
    assert_int_equal(getsockname(other, (struct sockaddr *)&any, &n), 0);
    uint16_t ports[] = {s.numbers[0], ntohs(any.sin_port)};
    char expected[64];
    snprintf(expected, sizeof expected, "answer on port %u", (unsigned)ports[1]);
    assert_int_equal(responder_open(s.responder, ports, 2, &reason), TFE_ESYS);
    assert_non_null(strstr(reason.text, expected));
    close(other);
    assert_int_equal(probe(PROBE_SUSPECT), PROBE_REFUSED); /* nothing was left open */
}
