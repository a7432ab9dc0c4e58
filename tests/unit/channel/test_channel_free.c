/* tests/unit/channel/test_channel_free.c: a channel may be freed or finished in any callback. The
 * sanitizers and the number of open descriptors are the oracle. */
#include "tests/unit/channel/socketpair.h"

static struct world world;

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

static void free_self(struct side *side, const struct tfe_msg *msg)
{
    (void)msg;
    side_free(side);
}

static void free_other(struct side *side, const struct tfe_msg *msg)
{
    (void)msg;
    side_free(side->other);
}

static void free_both(struct side *side, const struct tfe_msg *msg)
{
    (void)msg;
    side_free(side);
    side_free(side->other);
}

/* Frees twice: the second call finds a channel that is already closing. */
static void send_and_free_twice(struct side *side, const struct tfe_msg *msg)
{
    (void)msg;
    struct channel *ch = side->ch;
    if (side->closed == 0) {
        const struct tfe_msg last = side == &world.client ? renew(9) : renewed(9);
        assert_int_equal(channel_send(ch, &last), 0);
    }
    channel_free(ch);
    channel_free(ch);
    side->ch = NULL;
}

static void finish(struct side *side, const struct tfe_msg *msg)
{
    (void)msg;
    channel_finish(side->ch, HANDSHAKE_MS);
}

static side_fn *const ways[] = {free_self, free_other, free_both, send_and_free_twice, finish};
#define WAYS (sizeof ways / sizeof ways[0])

static void fresh_world(void)
{
    world_end(&world);
    world_make(&world);
}

static bool both_gone(void)
{
    return !world.client.ch && !world.server.ch;
}

#define FIXTURE make, end

TEST_IN(channel_free, in_the_clients_established)
{
    for (size_t i = 0; i < WAYS; i++) {
        fresh_world();
        world.client.on_established = ways[i];
        world_dial(&world, "127.0.0.1", listener_port(world.listener));
        RUN_UNTIL(&world, world.client.established == 1);
        world_settle(&world);
        if (ways[i] != free_other) {
            RUN_UNTIL(&world, both_gone());
        }
    }
}

TEST_IN(channel_free, in_the_servers_established)
{
    for (size_t i = 0; i < WAYS; i++) {
        fresh_world();
        world.client.on_established = send_renew_1;
        world.server.on_established = ways[i];
        world_dial(&world, "127.0.0.1", listener_port(world.listener));
        RUN_UNTIL(&world, world.server.established == 1);
        world_settle(&world);
        if (ways[i] != free_other) {
            RUN_UNTIL(&world, both_gone());
            /* The message that followed the first frame is dropped. */
            assert_int_equal(world.server.messages, 0);
        }
    }
}

TEST_IN(channel_free, in_message_with_more_of_them_read_already)
{
    for (size_t i = 0; i < WAYS; i++) {
        fresh_world();
        world_connect(&world);
        world.server.on_message = ways[i];
        for (uint64_t number = 2; number <= 1000; number++) {
            assert_int_equal(side_send(&world.client, renew(number)), 0);
        }
        RUN_UNTIL(&world, world.server.messages > 1);
        world_settle(&world);
        if (ways[i] != free_other) {
            RUN_UNTIL(&world, both_gone());
            assert_int_equal(world.server.messages, 2);
        }
    }
}

TEST_IN(channel_free, in_message_with_half_a_frame_kept)
{
    static struct wire wire;
    for (size_t i = 0; i < WAYS; i++) {
        fresh_world();
        wire_make(&wire, &world, 37);
        world_connect_to(&world, listener_port(wire.listener));
        world.server.on_message = ways[i];
        for (uint64_t number = 2; number <= 10; number++) {
            assert_int_equal(side_send(&world.client, renew(number)), 0);
        }
        RUN_UNTIL(&world, world.server.messages > 1);
        world_settle(&world);
        wire_end(&wire);
    }
}

TEST_IN(channel_free, in_closed)
{
    for (size_t i = 0; i < WAYS; i++) {
        fresh_world();
        world_connect(&world);
        world.server.on_closed = ways[i];
        side_free(&world.client);
        RUN_UNTIL(&world, world.server.closed == 1);
        world_settle(&world);
        assert_int_equal(world.server.closed, 1);
    }
}

static void send_when_closed(struct side *side, const struct tfe_msg *msg)
{
    (void)msg;
    assert_int_equal(side_send(side, renewed(1)), TFE_ESTATE);
    assert_int_equal(channel_unknown_messages(side->ch), 0);
}

TEST_IN(channel_free, in_closed_anything_may_be_called)
{
    world_connect(&world);
    world.server.on_closed = send_when_closed;
    side_free(&world.client);
    RUN_UNTIL(&world, world.server.closed == 1);
}

TEST_IN(channel_free, before_anything_has_happened)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost", "no-such-host.invalid",
                                        "255.255.255.255"};
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        world_dial(&world, hosts[i], listener_port(world.listener));
        side_free(&world.client);
        world_settle(&world);
        assert_int_equal(world.client.closed, 0);
        side_free(&world.server);
    }
    channel_free(NULL);
}

TEST_IN(channel_free, with_an_end_that_is_due)
{
    world_connect(&world);
    channel_finish(world.client.ch, HANDSHAKE_MS);
    side_free(&world.client);
    RUN_UNTIL(&world, world.server.closed == 1);
    assert_int_equal(world.client.closed, 0);

    world.server = (struct side){.other = &world.client};
    world.client = (struct side){.other = &world.server};
    world_connect(&world);
    static uint8_t plain[SEAL_PLAIN_MAX] = {250};
    while (channel_send_encoded(world.server.ch, plain, sizeof plain) == 0) {
    }
    side_free(&world.server);
    world_settle(&world);
    assert_int_equal(world.server.closed, 0);
}
