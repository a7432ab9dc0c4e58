/* tests/unit/channel/test_listener.c: a listening socket that pauses instead of failing. */
#include <sys/resource.h>

#include "common/base/clock.h"
#include "tests/unit/channel/socketpair.h"

static struct event_base *base;
static struct listener *listener;

#define CLIENTS 200
static int clients[CLIENTS];
static unsigned n_clients;

static struct {
    unsigned accepted;
    unsigned in_turn;
    unsigned most_in_turn;
    unsigned free_at; /* number of connections after which the listener is freed; 0 for never */
    int family;
} seen;

static void on_accept(void *ctx, int fd, const struct sockaddr *peer, socklen_t peer_n)
{
    assert_ptr_equal(ctx, &seen);
    assert_true(peer_n >= sizeof(struct sockaddr_in));
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(close(fd), 0);
    seen.family = peer->sa_family;
    seen.accepted++;
    seen.in_turn++;
    if (seen.accepted == seen.free_at) {
        listener_free(listener);
        listener_free(NULL);
        listener = NULL;
    }
}

static int make(void **state)
{
    (void)state;
    struct tfe_reason reason;
    memset(&seen, 0, sizeof seen);
    n_clients = 0;
    base = event_base_new();
    return listener_new(base, "127.0.0.1", 0, on_accept, &seen, &listener, &reason);
}

static int end(void **state)
{
    (void)state;
    while (n_clients > 0) {
        (void)close(clients[--n_clients]);
    }
    listener_free(listener);
    listener = NULL;
    event_base_free(base);
    return 0;
}

static void connect_some(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        clients[n_clients++] = raw_connect(listener_port(listener));
    }
}

/* Runs the loop once without waiting. */
static void turn(void)
{
    seen.in_turn = 0;
    assert_true(event_base_loop(base, EVLOOP_NONBLOCK | EVLOOP_ONCE) >= 0);
    if (seen.in_turn > seen.most_in_turn) {
        seen.most_in_turn = seen.in_turn;
    }
}

#define FIXTURE make, end

TEST_IN(listener, says_on_which_port_it_listens)
{
    assert_true(listener_port(listener) > 0);
    connect_some(3);
    turn();
    assert_int_equal(seen.accepted, 3);
    assert_int_equal(seen.family, AF_INET);
}

TEST_IN(listener, a_used_port_is_named_in_the_sentence)
{
    struct listener *second = NULL;
    struct tfe_reason reason;
    char want[64];
    assert_int_equal(listener_new(base, "127.0.0.1", listener_port(listener), on_accept, &seen,
                                  &second, &reason),
                     TFE_ESYS);
    (void)snprintf(want, sizeof want, "port %u on 127.0.0.1 is in use", listener_port(listener));
    assert_string_equal(reason.text, want);
    assert_null(second);
}

TEST_IN(listener, addresses_that_are_none_or_elsewhere_are_refused)
{
    struct listener *second = NULL;
    struct tfe_reason reason;
    static const char *const bad[] = {"localhost", "", "1.2.3", "1.2.3.4:5", "[::1]"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(listener_new(base, bad[i], 0, on_accept, &seen, &second, &reason),
                         TFE_EINVAL);
        assert_non_null(strstr(reason.text, "is not a numeric address"));
    }
    /* Reserved for documentation (RFC 5737), so that no machine has this address. */
    assert_int_equal(listener_new(base, "192.0.2.1", 0, on_accept, &seen, &second, &reason),
                     TFE_ESYS);
    assert_string_equal(reason.text, "192.0.2.1 is not an address of this machine");
}

TEST_IN(listener, listens_on_v6)
{
    struct listener *second = NULL;
    struct tfe_reason reason;
    if (listener_new(base, "::", 0, on_accept, &seen, &second, &reason)) {
        SKIP("this machine has no IPv6");
    }
    /* IPv4 clients are accepted too. */
    clients[n_clients++] = raw_connect(listener_port(second));
    turn();
    assert_int_equal(seen.accepted, 1);
    assert_int_equal(seen.family, AF_INET6);
    listener_free(second);
}

TEST_IN(listener, a_storm_is_taken_in_portions)
{
    connect_some(150);
    for (int i = 0; i < 10; i++) {
        turn();
    }
    assert_int_equal(seen.accepted, 150);
    assert_int_equal(seen.most_in_turn, 64);
}

TEST_IN(listener, may_be_freed_from_its_callback)
{
    seen.free_at = 2;
    connect_some(5);
    turn();
    turn();
    assert_int_equal(seen.accepted, 2);
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    *(bool *)arg = true;
}

TEST_IN(listener, without_descriptors_it_waits_and_then_goes_on)
{
    /* Discards the expected warning on stderr. */
    const int stderr_copy = dup(STDERR_FILENO);
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_true(dup2(null, STDERR_FILENO) >= 0);
    connect_some(10);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const int lowest = dup(null);
    assert_int_equal(close(lowest), 0);
    const struct rlimit none = {.rlim_cur = (rlim_t)lowest, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);

    /* Without descriptors the loop sleeps: it retries about three times in 330 ms. */
    bool late = false;
    struct event *until = evtimer_new(base, on_late, &late);
    const struct timeval in = {.tv_usec = 330000};
    assert_int_equal(evtimer_add(until, &in), 0);
    unsigned turns = 0;
    while (!late) {
        assert_true(event_base_loop(base, EVLOOP_ONCE) >= 0);
        turns++;
    }
    event_free(until);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(seen.accepted, 0);
    assert_in_range(turns, 3, 12);

    const struct tfe_mono last = tfe_mono_add(clock_mono(), DEADLINE_S * 1000);
    while (seen.accepted < 10 && tfe_mono_before(clock_mono(), last)) {
        turn();
    }
    assert_int_equal(seen.accepted, 10);
    assert_true(dup2(stderr_copy, STDERR_FILENO) >= 0);
    assert_int_equal(close(stderr_copy), 0);
    assert_int_equal(close(null), 0);
}
