/* tests/unit/server/test_sessions.c: accepted connections over loopback, from the first byte to the
 * last: what is left of who has gone, and what reaches the core. Keys are good and nobody is banned
 * unless a story says so (__wrap_…). */
#include "common/net/node_id.h"
#include "server/gauges.h"
#include "server/keyring.h"
#include "server/session.h"
#include "tests/unit/net/wires.h"
#include "tests/wishes.h"

static struct {
    struct world world;
    struct listener *listener;
    struct sessions *all;
    struct gauges gauges;
    bool allows_addresses;
    unsigned joins;   /* that the core has heard of */
    unsigned heard;   /* messages of any kind, likewise … */
    unsigned shown;   /* … and what is for people */
    unsigned closed;  /* likewise */
    uint32_t session; /* of the last of them */
    enum tfe_refusal refused;
    uint64_t table; /* epoch of the last table that came */
} f;

struct keyring *__wrap_keys_ring(const struct keys *keys);
struct keyring *__wrap_keys_ring(const struct keys *keys)
{
    return NULL;
}

void __wrap_keyring_listen(struct keyring *ring, void (*on_change)(void *ctx), void *ctx);
void __wrap_keyring_listen(struct keyring *ring, void (*on_change)(void *ctx), void *ctx) {}

const char *__wrap_keyring_fault(const struct keyring *ring, const struct principal *by,
                                 struct tfe_wall now);
const char *__wrap_keyring_fault(const struct keyring *ring, const struct principal *by,
                                 struct tfe_wall now)
{
    return NULL;
}

const char *__wrap_keyring_use(struct keyring *ring, const struct principal *by, const char *node,
                               const struct msg_token_row **ret_used);
const char *__wrap_keyring_use(struct keyring *ring, const struct principal *by, const char *node,
                               const struct msg_token_row **ret_used)
{
    *ret_used = NULL;
    return NULL;
}

const char *__wrap_keyring_label(const struct keyring *ring,
                                 const uint8_t id[PRINCIPAL_KEY_ID_BYTES]);
const char *__wrap_keyring_label(const struct keyring *ring,
                                 const uint8_t id[PRINCIPAL_KEY_ID_BYTES])
{
    return "";
}

const struct msg_ban_row *__wrap_bans_find(const struct bans *bans, const struct principal *by,
                                           const char *job, const char *node, const char *name,
                                           struct tfe_wall now);
const struct msg_ban_row *__wrap_bans_find(const struct bans *bans, const struct principal *by,
                                           const char *job, const char *node, const char *name,
                                           struct tfe_wall now)
{
    return NULL;
}

int __wrap_writer_keep(struct writer *w, const struct tfe_msg *row, writer_answer_fn fn, void *ctx,
                       struct writer_ask **ret);
int __wrap_writer_keep(struct writer *w, const struct tfe_msg *row, writer_answer_fn fn, void *ctx,
                       struct writer_ask **ret)
{
    return 0;
}

bool __wrap_addresses_allow(const struct addresses *a, const char *host, const struct peer *from);
bool __wrap_addresses_allow(const struct addresses *a, const char *host, const struct peer *from)
{
    return f.allows_addresses;
}

void __wrap_reports_take(struct reports *all, uint32_t session, struct report **at,
                         const struct tfe_msg *msg);
void __wrap_reports_take(struct reports *all, uint32_t session, struct report **at,
                         const struct tfe_msg *msg)
{
    f.shown += msg->type == MSG_FACTS || msg->type == MSG_VITALS;
}

/* --- the core, as far as sessions know it ----------------------------------------------------- */

static int on_core_message(void *ctx, uint32_t session, const struct principal *by,
                           const struct tfe_msg *msg)
{
    f.joins += msg->type == MSG_JOIN;
    f.heard++;
    f.session = session;
    return 0;
}

static void on_core_closed(void *ctx, uint32_t session)
{
    f.closed++;
    sessions_forgotten(f.all, session);
}

static const struct session_ops core = {.message = on_core_message, .closed = on_core_closed};

static void on_client_message(struct side *side, const struct tfe_msg *msg)
{
    f.refused = msg->type == MSG_REFUSED ? msg->u.refused.code : f.refused;
    f.table = msg->type == MSG_TABLE ? msg->u.table.epoch : f.table;
}

static int begin(void **state)
{
    struct tfe_why why;
    (void)state;
    memset(&f, 0, sizeof f);
    f.allows_addresses = true;
    world_make(&f.world);
    f.world.client.on_message = on_client_message;
    const struct sessions_config config = {.base = f.world.base,
                                           .hello = f.world.hello,
                                           .facts = f.world.server_facts,
                                           .max_sessions = 4,
                                           .max_connections = 100,
                                           .half_open_per_address = LIMIT_HALF_OPEN_LEAST,
                                           .gauges = &f.gauges,
                                           .ops = &core};
    assert_int_equal(sessions_new(&config, &f.all), 0);
    assert_int_equal(
        listener_new(f.world.base, "127.0.0.1", 0, sessions_accept, f.all, &f.listener, &why), 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    side_free(&f.world.client);
    sessions_free(f.all);
    listener_free(f.listener);
    world_end(&f.world);
    return 0;
}

#define FIXTURE begin, end

static void dial(void)
{
    world_dial(&f.world, "127.0.0.1", listener_port(f.listener));
    RUN_UNTIL(&f.world, f.world.client.established == 1);
}

static void join(void)
{
    struct tfe_id node;
    char secret[MSG_NODE_SECRET_CHARS + 1];
    struct tfe_msg msg = {
        .type = MSG_JOIN,
        .u.join = {
            .job = "j", .node_name = "host", .spec = no_wishes(1, 2, 1), .host = "192.0.2.7"}};
    node_secret_make(secret);
    assert_int_equal(node_id_of(secret, &node), 0);
    msg.u.join.node = node.text;
    msg.u.join.node_secret = secret;
    assert_int_equal(side_send(&f.world.client, msg), 0);
}

static void joined(void)
{
    dial();
    join();
    RUN_UNTIL(&f.world, f.joins == 1);
}

/* --- stories ---------------------------------------------------------------------------------- */

TEST_IN(sessions, that_end_before_their_handshake_are_half_open_no_more)
{
    int fd = raw_connect(listener_port(f.listener));
    RUN_UNTIL(&f.world, half_open_count(f.all->half_open) == 1);
    assert_int_equal(close(fd), 0);
    RUN_UNTIL(&f.world, f.all->n == 0);
    assert_int_equal(half_open_count(f.all->half_open), 0);
    assert_int_equal(f.closed, 0); /* the core has never heard of it */
}

TEST_IN(sessions, whose_node_names_an_address_that_is_not_allowed_do_not_reach_the_core)
{
    f.allows_addresses = false;
    dial();
    join();
    RUN_UNTIL(&f.world, f.world.client.closed == 1);
    assert_int_equal(f.refused, REFUSAL_BAD_REQUEST);
    assert_int_equal(f.joins, 0);
}

TEST_IN(sessions, that_have_joined_are_told_to_the_core_when_they_are_over)
{
    joined();
    assert_int_equal(half_open_count(f.all->half_open), 0);
    side_free(&f.world.client);
    RUN_UNTIL(&f.world, f.all->n == 0);
    assert_int_equal(f.closed, 1);
    assert_int_equal(f.all->n_free, 1); /* its number is free */
}

TEST_IN(sessions, tell_people_and_the_core_what_a_machine_is_and_people_alone_how_it_does)
{
    joined();
    const struct tfe_msg facts = {.type = MSG_FACTS,
                                  .u.facts = {.has_spot = true, .is_spot = true}};
    assert_int_equal(side_send(&f.world.client, facts), 0);
    RUN_UNTIL(&f.world, f.shown == 1);
    assert_int_equal(f.heard, 2); /* JOIN was the first */
    const struct tfe_msg vitals = {.type = MSG_VITALS, .u.vitals = {.load_milli = 1}};
    assert_int_equal(side_send(&f.world.client, vitals), 0);
    RUN_UNTIL(&f.world, f.shown == 2);
    assert_int_equal(f.heard, 2);
}

/* A table of this epoch, in several pieces. */
static void send_table(uint64_t epoch)
{
    enum { ROWS = 2000 };
    static struct msg_row rows[ROWS];
    struct table_cache cache = {.first = NULL};
    struct table_chunks *chunks;
    for (size_t i = 0; i < ROWS; i++) {
        rows[i] = (struct msg_row){.rank = (uint32_t)i,
                                   .role = TASK_WORKER,
                                   .host = "host.of.a.large.fleet.example",
                                   .port = 1};
    }
    const struct msg_table table = {.epoch = epoch, .world = ROWS, .rows = rows, .n_rows = ROWS};
    assert_int_equal(table_cache_get(&cache, &table, &chunks), 0);
    assert_true(table_chunks_count(chunks) > 1);
    sessions_send_table(f.all, f.session, chunks);
    table_cache_done(&cache);
}

TEST_IN(sessions, are_told_a_newer_table_in_place_of_one_that_waits)
{
    joined();
    f.all->gate.left = 0; /* others had their turn */
    f.all->gate.armed = true;
    send_table(1);
    RUN_UNTIL(&f.world, !TAILQ_EMPTY(&f.all->gate.waiting));
    send_table(2);
    assert_true(TAILQ_EMPTY(&f.all->gate.waiting)); /* the first one's place at the gate is free */
    f.all->gate.left = 100;
    RUN_UNTIL(&f.world, f.world.client.rows == 2000);
    assert_int_equal(f.table, 2);
}

TEST_IN(sessions, without_a_token_have_some_places_however_short_descriptors_are)
{
    int fds[LIMIT_HALF_OPEN_LEAST];
    f.all->n_max = 1;
    for (uint32_t i = 0; i < LIMIT_HALF_OPEN_LEAST; i++) {
        fds[i] = raw_connect(listener_port(f.listener));
        RUN_UNTIL(&f.world, half_open_count(f.all->half_open) == i + 1);
    }
    for (uint32_t i = 0; i < LIMIT_HALF_OPEN_LEAST; i++) {
        assert_int_equal(close(fds[i]), 0);
    }
    RUN_UNTIL(&f.world, f.all->n == 0);
}
