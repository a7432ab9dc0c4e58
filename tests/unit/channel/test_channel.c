/* tests/unit/channel/test_channel.c: two well-behaved channels: handshake, messages, bursts. */
#include <malloc.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "tests/unit/channel/socketpair.h"

/* Replaces libc's sendmsg: the number of writes to the socket is part of the contract. */
static unsigned writes;
static unsigned full; /* the next `full` writes find a full socket */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (full > 0) {
        full--;
        errno = EAGAIN;
        return -1;
    }
    writes++;
    return syscall(SYS_sendmsg, fd, message, flags);
}

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

#define FIXTURE make, end

TEST_IN(channel, handshake_tells_the_server_who_it_is)
{
    world_connect(&world);
    assert_int_equal(world.client.established, 1);
    assert_int_equal(world.server.established, 1);
    assert_null(world.client.by);
    assert_int_equal(world.server.by->role, PRINCIPAL_AGENT);
    assert_memory_equal(world.server.by->key_id, world.token.key_id, TOKEN_KEY_ID_BYTES);

    struct sockaddr_storage end;
    assert_true(channel_local_address(world.server.ch, &end));
    const struct sockaddr_in *server = (const struct sockaddr_in *)&end;
    assert_int_equal(ntohs(server->sin_port), listener_port(world.listener));
}

TEST_IN(channel, sockets_are_prompt_watched_and_not_inherited)
{
    world_connect(&world);
    unsigned seen = 0;
    for (int fd = 0; fd < 256; fd++) {
        struct sockaddr_storage peer;
        socklen_t n = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &n) || peer.ss_family != AF_INET) {
            continue;
        }
        int prompt = 0;
        int watched = 0;
        n = sizeof prompt;
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &prompt, &n), 0);
        assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &watched, &n), 0);
        assert_true(prompt && watched);
        assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
        seen++;
    }
    assert_int_equal(seen, 2);
}

TEST_IN(channel, the_server_is_established_by_the_first_frame_and_not_before)
{
    world_dial(&world, "127.0.0.1", listener_port(world.listener));
    assert_int_equal(side_send(&world.client, renew(1)), TFE_ESTATE);
    RUN_UNTIL(&world, world.client.established == 1);
    world_settle(&world);
    assert_non_null(world.server.ch);
    assert_int_equal(world.server.established, 0);
    assert_int_equal(side_send(&world.server, renewed(1)), TFE_ESTATE);
    assert_int_equal(side_send(&world.client, renew(1)), 0);
    RUN_UNTIL(&world, world.server.messages == 1);
    assert_int_equal(world.server.established, 1);
    assert_int_equal(side_send(&world.server, renewed(1)), 0);
    RUN_UNTIL(&world, world.client.messages == 1);
}

TEST_IN(channel, a_name_is_resolved_while_the_loop_runs)
{
    world.client.on_established = send_renew_1;
    world_dial(&world, "localhost", listener_port(world.listener));
    RUN_UNTIL(&world, world.server.messages == 1);
}

static void answer(struct side *side, const struct tfe_msg *msg)
{
    assert_int_equal(side_send(side, renewed(msg->u.renew.number)), 0);
}

TEST_IN(channel, a_burst_arrives_in_order_and_leaves_in_few_writes)
{
    world_connect(&world);
    world.server.on_message = answer;
    writes = 0;
    for (uint64_t i = 2; i <= 5000; i++) {
        assert_int_equal(side_send(&world.client, renew(i)), 0);
    }
    assert_int_equal(writes, 0);
    RUN_UNTIL(&world, world.client.messages == 4999);
    assert_int_equal(world.server.number, 5000);
    assert_int_equal(world.server.disorder, 0);
    /* The first response is to RENEW 2. */
    assert_int_equal(world.client.disorder, 1);
    assert_int_equal(world.client.number, 5000);
    /* Two directions with about 25 bytes each way, in reads of 64 KiB. */
    assert_in_range(writes, 2, 40);
}

TEST_IN(channel, frames_of_one_turn_leave_in_one_write)
{
    world_connect(&world);
    world_settle(&world);
    writes = 0;
    for (uint64_t i = 2; i <= 101; i++) {
        assert_int_equal(side_send(&world.client, renew(i)), 0);
    }
    assert_int_equal(writes, 0);
    RUN_UNTIL(&world, world.server.messages == 101);
    assert_int_equal(writes, 1);
}

/* The socket is full when drained() is requested, and accepts everything a moment later. */
static void push_and_want_drained(struct side *side, const struct tfe_msg *msg)
{
    (void)msg;
    assert_int_equal(side_send(side, renewed(1)), 0);
    full = 1;
    assert_false(channel_push(side->ch));
    channel_want_drained(side->ch);
}

TEST_IN(channel, drained_comes_though_the_socket_was_full_when_it_was_asked_for_in_a_callback)
{
    world_connect(&world);
    world.server.on_message = push_and_want_drained;
    assert_int_equal(side_send(&world.client, renew(2)), 0);
    RUN_UNTIL(&world, world.server.drained == 1);
    world_settle(&world);
    assert_int_equal(world.server.drained, 1);
}

TEST_IN(channel, drained_comes_though_another_write_has_emptied_the_queue)
{
    world_connect(&world);
    push_and_want_drained(&world.server, NULL);
    assert_true(channel_push(world.server.ch));
    RUN_UNTIL(&world, world.server.drained == 1);
    world_settle(&world);
    assert_int_equal(world.server.drained, 1);
}

/* Encodes a table of n rows and sends its chunks. */
static void send_table(struct side *side, uint32_t n)
{
    struct msg_row *rows = calloc(n, sizeof *rows);
    assert_non_null(rows);
    for (uint32_t i = 0; i < n; i++) {
        rows[i] = (struct msg_row){i, "a-host-with-a-name-of-usual-length.example", 40000,
                                   TASK_WORKER, 0};
    }
    const struct msg_table table = {.epoch = 1, .world = n, .rows = rows, .n_rows = n};
    for (size_t first = 0; first < n;) {
        uint8_t plain[SEAL_PLAIN_MAX];
        size_t plain_n = 0;
        size_t took = 0;
        assert_int_equal(
            codec_encode_table_chunk(&table, first, plain, sizeof plain, &plain_n, &took), 0);
        assert_int_equal(INSIDE(channel_send_encoded(side->ch, plain, plain_n)), 0);
        side->bytes += plain_n + SEAL_HEADER_BYTES + SEAL_TAG_BYTES;
        /* Continues as the client reads. */
        RUN_UNTIL(&world, channel_queued(side->ch) < LIMIT_QUEUE_BYTES / 2);
        first += took;
    }
    free(rows);
}

TEST_IN(channel, the_largest_table_passes_and_small_ones_go_by_themselves)
{
    world_connect(&world);
    send_table(&world.server, MSG_NODES_MAX);
    assert_true(world.server.bytes > 8 * (uint64_t)LIMIT_QUEUE_BYTES);
    assert_int_equal(side_send(&world.server, renewed(1)), 0);
    RUN_UNTIL(&world, world.client.number == 1);
    assert_int_equal(world.client.rows, MSG_NODES_MAX);

    const struct msg_row row = {0, "h", 1, TASK_WORKER, 0};
    const struct tfe_msg table = {.type = MSG_TABLE,
                                  .u.table = {.epoch = 1, .world = 1, .rows = &row, .n_rows = 1}};
    assert_int_equal(side_send(&world.server, table), 0);
    RUN_UNTIL(&world, world.client.rows == MSG_NODES_MAX + 1);
}

TEST_IN(channel, bytes_that_come_one_by_one_make_the_same_messages)
{
    wire_make(&wire, &world, 1);
    world_connect_to(&world, listener_port(wire.listener));
    for (uint64_t i = 2; i <= 60; i++) {
        assert_int_equal(side_send(&world.client, renew(i)), 0);
        assert_int_equal(side_send(&world.server, renewed(i - 1)), 0);
    }
    send_table(&world.server, MSG_ROWS_PER_CHUNK);
    assert_int_equal(side_send(&world.server, renewed(60)), 0);
    RUN_UNTIL(&world, world.client.number == 60 && world.server.number == 60);
    assert_int_equal(world.client.rows, MSG_ROWS_PER_CHUNK);
    assert_int_equal(world.client.disorder, 0);
    assert_int_equal(world.server.disorder, 0);
    wire_end(&wire);
}

TEST_IN(channel, pieces_of_every_size_make_the_same_messages)
{
    /* 3 and 29 end within headers and frames; 16385 and 16403 are near the largest frame. */
    static const size_t steps[] = {3, 29, 4097, 16385, 16403, 65536};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        wire_make(&wire, &world, steps[i]);
        world_connect_to(&world, listener_port(wire.listener));
        send_table(&world.server, 2000);
        assert_int_equal(side_send(&world.server, renewed(1)), 0);
        RUN_UNTIL(&world, world.client.number == 1);
        assert_int_equal(world.client.rows, 2000);
        wire_end(&wire);
        world_end(&world);
        world_make(&world);
    }
}

TEST_IN(channel, what_a_later_version_says_is_counted_and_ignored)
{
    world_connect(&world);
    static const uint8_t later[] = {250, 1, 2, 3};
    assert_int_equal(INSIDE(channel_send_encoded(world.client.ch, later, sizeof later)), 0);
    assert_int_equal(INSIDE(channel_send_encoded(world.client.ch, later, 1)), 0);
    assert_int_equal(side_send(&world.client, renew(2)), 0);
    RUN_UNTIL(&world, world.server.messages == 2);
    assert_int_equal(channel_unknown_messages(world.server.ch), 2);
    assert_int_equal(channel_unknown_messages(world.client.ch), 0);
}

TEST_IN(channel, a_first_frame_of_a_later_version_establishes)
{
    static const uint8_t later[] = {250};
    world_dial(&world, "127.0.0.1", listener_port(world.listener));
    RUN_UNTIL(&world, world.client.established == 1);
    assert_int_equal(INSIDE(channel_send_encoded(world.client.ch, later, 1)), 0);
    RUN_UNTIL(&world, world.server.established == 1);
    assert_int_equal(world.server.messages, 0);
    assert_int_equal(channel_unknown_messages(world.server.ch), 1);
}

TEST_IN(channel, sizes_that_no_frame_has_are_refused)
{
    static uint8_t plain[SEAL_PLAIN_MAX + 1] = {250};
    world_connect(&world);
    assert_int_equal(INSIDE(channel_send_encoded(world.client.ch, plain, 0)), TFE_EINVAL);
    assert_int_equal(INSIDE(channel_send_encoded(world.client.ch, plain, sizeof plain)),
                     TFE_EINVAL);
    assert_int_equal(INSIDE(channel_send_encoded(world.client.ch, plain, sizeof plain - 1)), 0);
    assert_int_equal(side_send(&world.client, (struct tfe_msg){.type = (enum tfe_msg_type)250}),
                     TFE_EINVAL);
    assert_int_equal(side_send(&world.client, renew(2)), 0);
    RUN_UNTIL(&world, world.server.messages == 2);
    assert_int_equal(channel_unknown_messages(world.server.ch), 1);
}

/* Sends RENEWs up to number last, in batches. Returns true once all have arrived. */
static bool keep_sending(uint64_t *next, uint64_t last)
{
    for (int i = 0; i < 2000 && *next <= last; i++) {
        assert_int_equal(side_send(&world.client, renew(*next)), 0);
        (*next)++;
    }
    return world.server.number == last;
}

TEST_IN(channel, keys_change_on_the_way_and_nobody_notices)
{
    world_connect(&world);
    const uint64_t last = 2 * SEAL_REKEY_FRAMES + 100;
    uint64_t next = 2;
    RUN_UNTIL(&world, keep_sending(&next, last));
    assert_int_equal(world.server.disorder, 0);
}

TEST_IN(channel, an_idle_one_costs_less_than_two_kibibytes)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("a sanitizer's allocator adds its own memory");
#endif
    enum { PAIRS = 100 };
    static struct side clients[PAIRS];
    static struct side servers[PAIRS];
    /* The first pair allocates what all pairs share. */
    world_connect(&world);
    const size_t before = mallinfo2().uordblks;
    for (int i = 0; i < PAIRS; i++) {
        servers[i] = world.server;
        clients[i] = world.client;
        world.server = (struct side){.other = &world.client};
        world.client = (struct side){.other = &world.server};
        /* These two callbacks count for the second pair. */
        world_connect(&world);
    }
    world_settle(&world);
    const size_t after = mallinfo2().uordblks;
    assert_in_range((after - before) / (2 * PAIRS), 1, 2048);
    for (int i = 0; i < PAIRS; i++) {
        channel_free(clients[i].ch);
        channel_free(servers[i].ch);
    }
}
