/* tests/unit/channel/test_channel_ends.c: all ways in which a channel ends, and the reason that
 * each side gets. */
#include "tests/unit/channel/socketpair.h"

static struct world world;
static struct wire wire;

static int make(void **state)
{
    (void)state;
    world_make(&world);
    return 0;
}

static int end(void **state)
{
    (void)state;
    world_end(&world);
    return 0;
}

static void assert_ended(const struct side *side, enum channel_end end)
{
    assert_int_equal(side->closed, 1);
    if (side->end != end) {
        fail_msg("%s (%s) instead of %s", channel_end_name(side->end), side->detail,
                 channel_end_name(end));
    }
    assert_true(strlen(side->detail) > 0);
}

/* --- before the handshake is complete --------------------------------------------------------- */

#define FIXTURE make, end

TEST_IN(channel_ends, garbage_is_answered_by_closing_and_nothing_else)
{
    static const char *const garbage[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                          "\x16\x03\x01\x02\x01", "TFE2", "TFE1\xff\xff"};
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        const int fd = raw_connect(listener_port(world.listener));
        uint8_t bytes[600];
        size_t back = 0;
        randombytes_buf(bytes, sizeof bytes);
        memcpy(bytes, garbage[i], strlen(garbage[i]));
        assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
        RUN_UNTIL(&world, world.server.closed == 1);
        assert_true(world.server.end == CHANNEL_PROTOCOL ||
                    world.server.end == CHANNEL_UNAUTHORISED);
        assert_int_equal(world.server.established, 0);
        (void)raw_end(&world, fd, &back);
        assert_int_equal(back, 0);
        assert_int_equal(close(fd), 0);
        world.server = (struct side){.other = &world.client};
    }
}

TEST_IN(channel_ends, a_stranger_cannot_make_the_server_hold_more_than_a_flight)
{
    /* Start of a first flight with a length that is never reached. */
    const int fd = raw_connect(listener_port(world.listener));
    uint8_t bytes[4096] = "TFE1\x01";
    size_t back = 0;
    bytes[30] = 0xff;
    bytes[31] = 0xff;
    assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
    RUN_UNTIL(&world, world.server.closed == 1);
    assert_int_equal(world.server.established, 0);
    (void)raw_end(&world, fd, &back);
    assert_int_equal(back, 0);
    assert_int_equal(close(fd), 0);
}

TEST_IN(channel_ends, who_says_nothing_is_closed_in_time)
{
    world.server_timeout_ms = 40;
    const int fd = raw_connect(listener_port(world.listener));
    RUN_UNTIL(&world, world.server.closed == 1);
    assert_ended(&world.server, CHANNEL_TIMEOUT);
    size_t back = 0;
    /* An orderly close would mean that the token is wrong. */
    assert_int_equal(raw_end(&world, fd, &back), ECONNRESET);
    assert_int_equal(back, 0);
    assert_int_equal(close(fd), 0);
}

TEST_IN(channel_ends, who_goes_before_the_handshake_is_eof)
{
    const int fd = raw_connect(listener_port(world.listener));
    assert_int_equal(send(fd, "TFE1", 4, MSG_NOSIGNAL), 4);
    assert_int_equal(close(fd), 0);
    RUN_UNTIL(&world, world.server.closed == 1);
    assert_ended(&world.server, CHANNEL_EOF);
}

TEST_IN(channel_ends, a_client_that_sends_no_first_frame_is_closed_in_time)
{
    world.server_timeout_ms = 60;
    world_dial(&world, "127.0.0.1", listener_port(world.listener));
    RUN_UNTIL(&world, world.client.closed == 1);
    assert_int_equal(world.client.established, 1);
    assert_ended(&world.client, CHANNEL_EOF);
    assert_ended(&world.server, CHANNEL_TIMEOUT);
    assert_int_equal(world.server.established, 0);
}

/* The time limit is for the handshake; an established channel is limited by leases. */
TEST_IN(channel_ends, one_that_is_established_has_no_time_limit)
{
    world.server_timeout_ms = 1000;
    world_connect(&world);
    assert_int_equal(
        event_base_loopexit(world.base, &(struct timeval){.tv_sec = 1, .tv_usec = 200000}), 0);
    assert_int_equal(event_base_dispatch(world.base), 0);
    assert_int_equal(world.server.closed + world.client.closed, 0);
}

TEST_IN(channel_ends, a_wrong_token_is_unauthorised_on_both_sides)
{
    world.token.secret[0] ^= 1;
    world_dial(&world, "127.0.0.1", listener_port(world.listener));
    RUN_UNTIL(&world, world.client.closed == 1 && world.server.closed == 1);
    assert_ended(&world.client, CHANNEL_UNAUTHORISED);
    assert_ended(&world.server, CHANNEL_UNAUTHORISED);
    assert_int_equal(world.client.established + world.server.established, 0);
}

TEST_IN(channel_ends, a_token_of_another_server_is_unauthorised)
{
    uint8_t secret[32];
    randombytes_buf(secret, sizeof secret);
    assert_int_equal(crypto_scalarmult_base(world.token.server_public_key, secret), 0);
    world_dial(&world, "127.0.0.1", listener_port(world.listener));
    RUN_UNTIL(&world, world.client.closed == 1 && world.server.closed == 1);
    assert_ended(&world.client, CHANNEL_UNAUTHORISED);
}

TEST_IN(channel_ends, an_orderly_close_after_an_answer_began_is_not_unauthorised)
{
    uint16_t port;
    const int listening = raw_listen(&port);
    world_dial(&world, "127.0.0.1", port);
    const int fd = raw_accept(&world, listening);
    uint8_t request[32];
    raw_read(&world, fd, request, sizeof request);
    uint8_t rest[HANDSHAKE_REQUEST_MAX];
    world_settle(&world);
    (void)recv(fd, rest, sizeof rest, 0);
    assert_int_equal(send(fd, "\0", 1, MSG_NOSIGNAL), 1);
    assert_int_equal(close(fd), 0);
    RUN_UNTIL(&world, world.client.closed == 1);
    assert_ended(&world.client, CHANNEL_EOF);
    assert_int_equal(close(listening), 0);
}

TEST_IN(channel_ends, a_reset_after_message_1_is_no_refusal)
{
    uint16_t port;
    const int listening = raw_listen(&port);
    world_dial(&world, "127.0.0.1", port);
    const int fd = raw_accept(&world, listening);
    uint8_t request[32];
    raw_read(&world, fd, request, sizeof request);
    /* The rest of message 1 stays unread, so that the kernel closes with a reset. */
    world_settle(&world);
    assert_int_equal(close(fd), 0);
    RUN_UNTIL(&world, world.client.closed == 1);
    assert_ended(&world.client, CHANNEL_RESET);
    assert_string_equal(world.client.detail, "read: connection reset by peer");
    assert_int_equal(close(listening), 0);
}

TEST_IN(channel_ends, an_answer_of_another_service_breaks_the_protocol)
{
    uint16_t port;
    const int listening = raw_listen(&port);
    world_dial(&world, "127.0.0.1", port);
    const int fd = raw_accept(&world, listening);
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    assert_int_equal(send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL), sizeof answer - 1);
    RUN_UNTIL(&world, world.client.closed == 1);
    assert_ended(&world.client, CHANNEL_PROTOCOL);
    assert_int_equal(close(fd), 0);
    assert_int_equal(close(listening), 0);
}

/* Connects with a short timeout. */
static void dial_briefly(const char *host, uint16_t port, uint32_t timeout_ms)
{
    assert_int_equal(
        INSIDE(channel_connect(world.base, host, port, &world.token, &world.client_params,
                               timeout_ms, &side_ops, &world.client, &world.client.ch)),
        0);
}

TEST_IN(channel_ends, a_server_that_accepts_and_is_silent_is_a_timeout)
{
    uint16_t port;
    const int listening = raw_listen(&port);
    dial_briefly("127.0.0.1", port, 40);
    RUN_UNTIL(&world, world.client.closed == 1);
    assert_ended(&world.client, CHANNEL_TIMEOUT);
    assert_string_equal(world.client.detail, "the handshake took too long");
    assert_int_equal(close(listening), 0);
}

/* Returns a port without a listener. */
static uint16_t free_port(void)
{
    uint16_t port;
    assert_int_equal(close(raw_listen(&port)), 0);
    return port;
}

TEST_IN(channel_ends, nobody_listening_is_unreachable)
{
    const uint16_t port = free_port();
    char want[128];
    world_dial(&world, "127.0.0.1", port);
    assert_int_equal(world.client.closed, 0);
    RUN_UNTIL(&world, world.client.closed == 1);
    assert_ended(&world.client, CHANNEL_UNREACHABLE);
    (void)snprintf(want, sizeof want, "connect to 127.0.0.1 port %u: connection refused", port);
    assert_string_equal(world.client.detail, want);
}

TEST_IN(channel_ends, a_name_with_no_listener_is_unreachable_at_its_v4_address)
{
    world_dial(&world, "localhost", free_port());
    RUN_UNTIL(&world, world.client.closed == 1);
    assert_ended(&world.client, CHANNEL_UNREACHABLE);
    assert_non_null(strstr(world.client.detail, "connect to 127.0.0.1 port "));
}

TEST_IN(channel_ends, a_connect_that_fails_at_once_is_told_later)
{
    /* TCP has no route to the broadcast address: connect(2) itself fails. */
    world_dial(&world, "255.255.255.255", 1);
    assert_int_equal(world.client.closed, 0);
    RUN_UNTIL(&world, world.client.closed == 1);
    assert_ended(&world.client, CHANNEL_UNREACHABLE);
}

TEST_IN(channel_ends, a_name_that_does_not_exist_is_unreachable)
{
    /* RFC 6761 reserves this name; a distant name server may take longer than the limit. */
    dial_briefly("no-such-host.invalid", 1, 2000);
    RUN_UNTIL(&world, world.client.closed == 1);
    assert_true(world.client.end == CHANNEL_UNREACHABLE || world.client.end == CHANNEL_TIMEOUT);
    if (world.client.end == CHANNEL_UNREACHABLE) {
        assert_memory_equal(world.client.detail, "no-such-host.invalid: ", 22);
    }
}

TEST_IN(channel_ends, hosts_that_no_name_can_be_are_refused_at_once)
{
    char host[300];
    memset(host, 'a', sizeof host);
    host[254] = '\0';
    struct channel *ch = NULL;
    assert_int_equal(INSIDE(channel_connect(world.base, host, 1, &world.token, &world.client_params,
                                            10, &side_ops, &world.client, &ch)),
                     TFE_EINVAL);
    assert_int_equal(INSIDE(channel_connect(world.base, "", 1, &world.token, &world.client_params,
                                            10, &side_ops, &world.client, &ch)),
                     TFE_EINVAL);
    assert_null(ch);
    world_settle(&world);
}

/* --- established channels --------------------------------------------------------------------- */

TEST_IN(channel_ends, a_flipped_bit_ends_the_connection)
{
    wire_make(&wire, &world, 65536);
    world_connect_to(&world, listener_port(wire.listener));
    wire.flip_at[0] = wire.forwarded[0] + 10;
    assert_int_equal(side_send(&world.client, renew(2)), 0);
    RUN_UNTIL(&world, world.server.closed == 1);
    assert_ended(&world.server, CHANNEL_PROTOCOL);
    assert_int_equal(world.server.messages, 1);
    wire_end(&wire);
}

TEST_IN(channel_ends, a_malformed_message_ends_the_connection)
{
    static const uint8_t malformed[] = {MSG_RENEW, 0xff, 0xff, 0xff};
    world_connect(&world);
    assert_int_equal(INSIDE(channel_send_encoded(world.client.ch, malformed, sizeof malformed)), 0);
    assert_int_equal(side_send(&world.client, renew(2)), 0);
    RUN_UNTIL(&world, world.server.closed == 1);
    assert_ended(&world.server, CHANNEL_PROTOCOL);
    assert_int_equal(world.server.messages, 1);
}

TEST_IN(channel_ends, a_malformed_first_message_establishes_nothing)
{
    static const uint8_t malformed[] = {MSG_RENEW, 0xff, 0xff, 0xff};
    world_dial(&world, "127.0.0.1", listener_port(world.listener));
    RUN_UNTIL(&world, world.client.established == 1);
    assert_int_equal(INSIDE(channel_send_encoded(world.client.ch, malformed, sizeof malformed)), 0);
    RUN_UNTIL(&world, world.server.closed == 1);
    assert_ended(&world.server, CHANNEL_PROTOCOL);
    assert_int_equal(world.server.established, 0);
}

TEST_IN(channel_ends, a_peer_that_is_gone_is_eof_and_one_that_breaks_off_is_reset)
{
    world_connect(&world);
    side_free(&world.client);
    RUN_UNTIL(&world, world.server.closed == 1);
    assert_ended(&world.server, CHANNEL_EOF);
    /* The client's address is still available when the channel has ended, for the log. */
    world.server = (struct side){.other = &world.client};
    world.client = (struct side){.other = &world.server};

    wire_make(&wire, &world, 65536);
    world_connect_to(&world, listener_port(wire.listener));
    const struct linger at_once = {.l_onoff = 1};
    assert_int_equal(setsockopt(wire.fd[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    wire_cut(&wire);
    RUN_UNTIL(&world, world.server.closed == 1);
    assert_ended(&world.server, CHANNEL_RESET);
    wire_end(&wire);
}

/* --- slow readers ----------------------------------------------------------------------------- */

/* Sends a frame of 1 KiB in total, of a type that the peer ignores. */
static int send_kibibyte(struct side *side)
{
    static uint8_t plain[1024 - SEAL_HEADER_BYTES - SEAL_TAG_BYTES] = {250};
    return INSIDE(channel_send_encoded(side->ch, plain, sizeof plain));
}

/* Sends until the sockets of the paused wire are full and the channel queues. Returns the number
 * of frames. */
static unsigned fill_sockets(struct side *side)
{
    unsigned sent = 0;
    while (channel_queued(side->ch) == 0) {
        for (int i = 0; i < 64; i++) {
            assert_int_equal(send_kibibyte(side), 0);
            sent++;
        }
        world_settle(&world);
    }
    return sent;
}

/* Sends until the channel's queue is full. Returns the number of frames. */
static unsigned fill_queue(struct side *side)
{
    unsigned sent = 0;
    while (channel_queued(side->ch) + 1024 <=
           LIMIT_QUEUE_BYTES) { /* the kernel may accept more bytes late */
        while (channel_queued(side->ch) + 1024 <= LIMIT_QUEUE_BYTES) {
            assert_int_equal(send_kibibyte(side), 0);
            sent++;
        }
        world_settle(&world);
    }
    return sent;
}

TEST_IN(channel_ends, a_slow_reader_overflows_at_the_limit_and_not_before)
{
    wire_make(&wire, &world, 65536);
    world_connect_to(&world, listener_port(wire.listener));
    wire_pause(&wire, 1);
    (void)fill_sockets(&world.server);
    (void)fill_queue(&world.server);
    assert_int_equal(world.server.closed, 0);
    assert_int_equal(send_kibibyte(&world.server), TFE_EFULL);
    assert_int_equal(world.server.closed, 0);
    assert_int_equal(side_send(&world.server, renewed(1)), TFE_ESTATE);
    RUN_UNTIL(&world, world.server.closed == 1);
    assert_ended(&world.server, CHANNEL_OVERFLOW);
    wire_end(&wire);
}

TEST_IN(channel_ends, a_reader_that_wakes_in_time_misses_nothing)
{
    wire_make(&wire, &world, 65536);
    world_connect_to(&world, listener_port(wire.listener));
    wire_pause(&wire, 1);
    unsigned sent = fill_sockets(&world.server);
    sent += fill_queue(&world.server);
    wire_go_on(&wire, 1);
    RUN_UNTIL(&world, channel_unknown_messages(world.client.ch) == sent);
    /* The queue is empty again, and so is its byte count. */
    for (int i = 0; i < LIMIT_QUEUE_BYTES / 1024; i++) {
        assert_int_equal(send_kibibyte(&world.server), 0);
    }
    assert_int_equal(side_send(&world.server, renewed(1)), 0);
    RUN_UNTIL(&world, world.client.number == 1);
    wire_end(&wire);
}

TEST_IN(channel_ends, what_the_peer_said_before_it_went_is_read_though_sending_fails)
{
    /* The server refuses and closes while the client sends one more message: the failed send must
     * not hide the reason from the client. */
    wire_make(&wire, &world, 65536);
    world_connect_to(&world, listener_port(wire.listener));
    wire_pause(&wire, 1);
    for (uint64_t i = 1; i <= 50; i++) {
        assert_int_equal(side_send(&world.server, renewed(i)), 0);
    }
    world_settle(&world);
    uint8_t bytes[8192];
    const ssize_t n = recv(wire.fd[1], bytes, sizeof bytes, 0);
    assert_true(n > 0);
    assert_int_equal(send(wire.fd[0], bytes, (size_t)n, MSG_NOSIGNAL), n);
    const struct linger at_once = {.l_onoff = 1};
    assert_int_equal(setsockopt(wire.fd[0], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    wire_cut(&wire);
    assert_int_equal(side_send(&world.client, renew(2)), 0);
    RUN_UNTIL(&world, world.client.closed == 1);
    assert_ended(&world.client, CHANNEL_RESET);
    assert_int_equal(world.client.messages, 50);
    wire_end(&wire);
}

/* --- finishing -------------------------------------------------------------------------------- */

TEST_IN(channel_ends, finish_delivers_everything_before_eof)
{
    world_connect(&world);
    for (uint64_t i = 1; i <= 3000; i++) {
        assert_int_equal(side_send(&world.server, renewed(i)), 0);
    }
    while (channel_queued(world.server.ch) + 2048 <= LIMIT_QUEUE_BYTES) {
        assert_int_equal(send_kibibyte(&world.server), 0);
    }
    assert_int_equal(side_send(&world.server, renewed(3001)), 0);
    channel_finish(world.server.ch, HANDSHAKE_MS);
    assert_int_equal(side_send(&world.server, renewed(3002)), TFE_ESTATE);
    /* Messages that arrive during the finish are dropped. */
    assert_int_equal(side_send(&world.client, renew(2)), 0);
    RUN_UNTIL(&world, world.client.closed == 1 && world.server.closed == 1);
    assert_ended(&world.client, CHANNEL_EOF);
    assert_ended(&world.server, CHANNEL_EOF);
    assert_int_equal(world.client.number, 3001);
    assert_int_equal(world.client.disorder, 0);
    assert_int_equal(world.server.messages, 1);
}

TEST_IN(channel_ends, finish_waits_for_a_peer_no_longer_than_told)
{
    wire_make(&wire, &world, 65536);
    world_connect_to(&world, listener_port(wire.listener));
    wire_pause(&wire, 1);
    (void)fill_sockets(&world.server);
    channel_finish(world.server.ch, 40);
    RUN_UNTIL(&world, world.server.closed == 1);
    assert_ended(&world.server, CHANNEL_EOF);
    assert_string_equal(world.server.detail, "the peer did not close in time");
    wire_end(&wire);
}

TEST_IN(channel_ends, after_finish_it_does_not_matter_how_the_peer_leaves)
{
    const struct linger at_once = {.l_onoff = 1};
    wire_make(&wire, &world, 65536);
    world_connect_to(&world, listener_port(wire.listener));
    channel_finish(world.server.ch, HANDSHAKE_MS);
    RUN_UNTIL(&world, world.client.closed == 1);
    assert_int_equal(setsockopt(wire.fd[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    wire_cut(&wire);
    RUN_UNTIL(&world, world.server.closed == 1);
    assert_ended(&world.server, CHANNEL_EOF);
    wire_end(&wire);
}

TEST_IN(channel_ends, finish_before_the_handshake_just_ends)
{
    world_dial(&world, "127.0.0.1", listener_port(world.listener));
    channel_finish(world.client.ch, HANDSHAKE_MS);
    assert_int_equal(world.client.closed, 0);
    RUN_UNTIL(&world, world.client.closed == 1);
    assert_ended(&world.client, CHANNEL_EOF);
}

TEST_IN(channel_ends, both_may_finish_at_once)
{
    world_connect(&world);
    channel_finish(world.client.ch, HANDSHAKE_MS);
    channel_finish(world.server.ch, HANDSHAKE_MS);
    channel_finish(world.server.ch, HANDSHAKE_MS);
    RUN_UNTIL(&world, world.client.closed == 1 && world.server.closed == 1);
    assert_ended(&world.client, CHANNEL_EOF);
    assert_ended(&world.server, CHANNEL_EOF);
}

TEST(channel_ends, names)
{
    assert_string_equal(channel_end_name(CHANNEL_EOF), "eof");
    assert_string_equal(channel_end_name(CHANNEL_UNAUTHORISED), "unauthorised");
    assert_string_equal(channel_end_name(CHANNEL_NO_MEMORY), "no_memory");
}
