/* tests/unit/channel/test_channel_budget.c: a burst of handshakes is spread over passes of the
 * loop and all of them complete. */
#include <poll.h>

#include "tests/unit/channel/socketpair.h"

#define STORM (LIMIT_HANDSHAKES_PER_ITERATION * 4)

static struct world world;
static struct channel *server_side[STORM];
static int client_side[STORM];
static unsigned n_closed;

static void count_closed(void *ctx, struct channel *ch, enum channel_end end, const char *detail)
{
    struct channel **place = ctx;
    assert_ptr_equal(*place, ch);
    assert_true(end == CHANNEL_EOF || end == CHANNEL_RESET);
    assert_non_null(detail);
    *place = NULL;
    n_closed++;
}

static const struct channel_ops storm_ops = {.closed = count_closed};

/* Sends the first flights of STORM clients at the same moment. */
static int begin_storm(void **state)
{
    (void)state;
    world_make(&world);
    n_closed = 0;
    for (size_t i = 0; i < STORM; i++) {
        int ends[2];
        uint8_t request[HANDSHAKE_REQUEST_MAX];
        size_t n;
        struct handshake_client *client;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
        client_side[i] = ends[0];
        assert_int_equal(
            handshake_client_start(&world.token, &world.client_params, request, &n, &client), 0);
        handshake_client_free(client);
        assert_int_equal(write(ends[0], request, n), n);
        assert_int_equal(channel_accept(world.base, ends[1], world.handshake, &world.server_params,
                                        HANDSHAKE_MS, &storm_ops, &server_side[i], &server_side[i]),
                         0);
    }
    return 0;
}

static int end_storm(void **state)
{
    (void)state;
    for (size_t i = 0; i < STORM; i++) {
        channel_free(server_side[i]);
        server_side[i] = NULL;
        if (client_side[i] >= 0) {
            assert_int_equal(close(client_side[i]), 0);
        }
    }
    world_end(&world);
    return 0;
}

static unsigned answered(void)
{
    unsigned n = 0;
    for (size_t i = 0; i < STORM; i++) {
        struct pollfd p = {.fd = client_side[i], .events = POLLIN};
        n += poll(&p, 1, 0) == 1 && (p.revents & POLLIN) != 0;
    }
    return n;
}

#define FIXTURE begin_storm, end_storm

TEST_IN(channel_gate, a_turn_takes_so_many_handshakes_and_the_next_ones_the_rest)
{
    unsigned before = 0;
    unsigned turns = 0;
    while (before < STORM) {
        assert_int_not_equal(event_base_loop(world.base, EVLOOP_ONCE), -1);
        const unsigned now = answered();
        assert_true(now - before <= LIMIT_HANDSHAKES_PER_ITERATION);
        before = now;
        assert_true(++turns < 10 * STORM);
    }
    assert_true(turns >= STORM / LIMIT_HANDSHAKES_PER_ITERATION);
}

TEST_IN(channel_gate, who_is_freed_or_goes_while_waiting_is_forgotten)
{
    assert_int_not_equal(event_base_loop(world.base, EVLOOP_ONCE), -1);
    for (size_t i = 0; i < STORM; i += 2) {
        channel_free(server_side[i]);
        server_side[i] = NULL;
        assert_int_equal(close(client_side[i]), 0);
        client_side[i] = -1;
    }
    assert_int_equal(close(client_side[1]), 0);
    client_side[1] = -1;
    for (unsigned turn = 0; answered() + 1 < STORM / 2 || n_closed == 0; turn++) {
        assert_int_not_equal(event_base_loop(world.base, EVLOOP_ONCE), -1);
        assert_true(turn < 10 * STORM);
    }
    assert_int_equal(n_closed, 1);
}

TEST_IN(channel_gate, a_flight_that_lies_in_the_socket_is_seen_and_answered_in_its_turn)
{
    for (size_t i = 0; i < STORM; i++) {
        assert_true(channel_has_request(server_side[i]));
        assert_true(channel_has_request(server_side[i]));
    }
    assert_int_equal(answered(), 0);
    unsigned before = 0;
    for (unsigned turns = 0; before < STORM; turns++) {
        assert_int_not_equal(event_base_loop(world.base, EVLOOP_ONCE), -1);
        assert_true(answered() - before <= LIMIT_HANDSHAKES_PER_ITERATION);
        before = answered();
        assert_true(turns < 10 * STORM);
    }
    assert_true(channel_has_request(server_side[0]));
}

TEST_IN(channel_gate, who_has_not_said_all_of_it_does_not_knock)
{
    /* The last client first sends its flight without the final byte. */
    channel_free(server_side[STORM - 1]);
    assert_int_equal(close(client_side[STORM - 1]), 0);
    int ends[2];
    uint8_t request[HANDSHAKE_REQUEST_MAX];
    size_t n;
    struct handshake_client *client;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    client_side[STORM - 1] = ends[0];
    assert_int_equal(
        handshake_client_start(&world.token, &world.client_params, request, &n, &client), 0);
    handshake_client_free(client);
    struct channel **late = &server_side[STORM - 1];
    assert_int_equal(channel_accept(world.base, ends[1], world.handshake, &world.server_params,
                                    HANDSHAKE_MS, &storm_ops, late, late),
                     0);
    assert_false(channel_has_request(*late));
    assert_int_equal(write(ends[0], request, n - 1), n - 1);
    assert_false(channel_has_request(*late));
    assert_int_equal(write(ends[0], request + n - 1, 1), 1);
    assert_true(channel_has_request(*late));
}
