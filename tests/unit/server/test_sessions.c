/* tests/unit/server/test_sessions.c: sessions of accepted loopback connections, from the first
 * byte to the end: authorisation, what reaches the core, and clean-up. */
#include "common/base/clock.h"
#include "common/credentials/node_secrets.h"
#include "server/auth/keyring.h"
#include "tests/job_options.h"
#include "tests/unit/server/fixture.h"

enum { OTHERS = 8 };

static struct fixture f;

static struct {
    struct side others[OTHERS]; /* further clients */
    int rc;                   /* result returned for messages to the core; 0 calls the real core */
    unsigned messages;        /* messages that the core has received */
    unsigned joins;           /* JOINs among these messages */
    unsigned closed;          /* session ends that the core has received */
    uint32_t session;         /* session of the last message */
    bool is_slow;             /* true if the core confirms session ends later */
    bool no_memory;           /* true makes calloc fail */
    enum tfe_refusal refused; /* code of the last REFUSED */
    char sentence[256];
    unsigned welcomes, renewals; /* messages that a client has received */
    uint64_t table;              /* epoch of the last table received */
    uint64_t started,
        rows_before; /* epoch of the last START, and the table rows received before it */
} seen;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    return seen.no_memory ? NULL : __real_calloc(n, size);
}

/* --- operations between sessions and the driver ----------------------------------------------- */

static int on_core_message(void *ctx, uint32_t session, const struct principal *by,
                           const struct tfe_msg *msg)
{
    seen.messages++;
    seen.joins += msg->type == MSG_JOIN;
    seen.session = session;
    return seen.rc != 0 ? seen.rc : driver_session_ops.message(ctx, session, by, msg);
}

static void on_core_closed(void *ctx, uint32_t session)
{
    seen.closed++;
    if (!seen.is_slow) {
        driver_session_ops.closed(ctx, session);
    }
}

static const struct session_ops ops = {.message = on_core_message, .closed = on_core_closed};

static void on_client_message(struct side *side, const struct tfe_msg *msg)
{
    if (msg->type == MSG_REFUSED) {
        seen.refused = msg->u.refused.code;
        (void)snprintf(seen.sentence, sizeof seen.sentence, "%s", msg->u.refused.sentence);
    }
    seen.welcomes += msg->type == MSG_WELCOME;
    seen.renewals += msg->type == MSG_RENEWED;
    seen.table = msg->type == MSG_TABLE ? msg->u.table.epoch : seen.table;
    if (msg->type == MSG_START) {
        seen.started = msg->u.start.epoch;
        seen.rows_before = side->rows;
    }
}

static int begin(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof seen);
    fixture_begin(&f, &ops, 4);
    f.world.client.on_message = on_client_message;
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (size_t i = 0; i < OTHERS; i++) {
        side_free(&seen.others[i]);
    }
    fixture_end(&f);
    return 0;
}

#define FIXTURE begin, end

static void dial(void)
{
    world_dial(&f.world, "127.0.0.1", listener_port(f.listener));
    RUN_UNTIL(&f.world, f.world.client.established == 1);
}

/* Connects one more client with the same token and sends a first message, after which the server
 * knows the client. */
static void dial_other(struct side *side, struct tfe_msg first)
{
    side->on_message = on_client_message;
    assert_int_equal(
        INSIDE(channel_connect(f.world.base, "127.0.0.1", listener_port(f.listener), &f.world.token,
                               &f.world.client_params, HANDSHAKE_MS, &side_ops, side, &side->ch)),
        0);
    RUN_UNTIL(&f.world, side->established == 1);
    assert_int_equal(side_send(side, first), 0);
}

static char secret[MSG_NODE_SECRET_CHARS + 1];

/* Returns a JOIN with this node secret as its proof of identity. */
static struct tfe_msg join_of(const char *proof)
{
    static struct tfe_id node;
    struct tfe_msg msg = {
        .type = MSG_JOIN,
        .u.join = {
            .job = "j", .node_name = "host", .spec = job_of_size(1, 2, 1), .host = "192.0.2.7"}};
    node_secret_make(secret);
    assert_int_equal(node_id_of(secret, &node), 0);
    msg.u.join.node = node.text;
    msg.u.join.node_secret = proof ? proof : secret;
    return msg;
}

static void join(void)
{
    assert_int_equal(side_send(&f.world.client, join_of(NULL)), 0);
}

static void joined(void)
{
    dial();
    join();
    RUN_UNTIL(&f.world, seen.joins == 1);
}

/* --- tests ------------------------------------------------------------------------------------ */

TEST_IN(sessions, join_with_a_forbidden_address_does_not_reach_the_core)
{
    f.allowed.n = 0;
    dial();
    join();
    RUN_UNTIL(&f.world, f.world.client.closed == 1);
    assert_int_equal(seen.refused, REFUSAL_BAD_REQUEST);
    assert_int_equal(seen.joins, 0);
}

TEST_IN(sessions, running_trainers_at_a_forbidden_address_do_not_reach_the_core)
{
    static const uint16_t ports[] = {1};
    const struct msg_running running = {.run = 1,
                                        .nodes = 1,
                                        .world = 1,
                                        .host = "192.0.2.66",
                                        .ports = ports,
                                        .n_ports = 1,
                                        .cause = CAUSE_START};
    struct tfe_msg msg = join_of(NULL);
    msg.u.join.running_epoch = 1;
    msg.u.join.highest_epoch = 1;
    msg.u.join.running = &running;
    dial();
    assert_int_equal(side_send(&f.world.client, msg), 0);
    RUN_UNTIL(&f.world, f.world.client.closed == 1);
    assert_int_equal(seen.refused, REFUSAL_BAD_REQUEST);
    assert_non_null(strstr(seen.sentence, "192.0.2.66"));
    assert_int_equal(seen.joins, 0);
}

TEST_IN(sessions, enrol_before_join_is_refused)
{
    static const char key[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    dial();
    assert_int_equal(
        side_send(&f.world.client, (struct tfe_msg){.type = MSG_ENROL, .u.enrol.public_key = key}),
        0);
    RUN_UNTIL(&f.world, f.world.client.closed == 1);
    assert_int_equal(seen.messages, 1);
    assert_int_equal(seen.refused, REFUSAL_BAD_REQUEST);
}

TEST_IN(sessions, end_of_a_joined_session_is_passed_to_the_core)
{
    joined();
    assert_int_equal(admission_count(f.all->unauthenticated), 0);
    side_free(&f.world.client);
    RUN_UNTIL(&f.world, f.all->n == 0);
    assert_int_equal(seen.closed, 1);
    assert_int_equal(f.all->n_free, 1); /* the session number is free again */
}

TEST_IN(sessions, machine_info_reaches_the_core_and_stats_only_operators)
{
    joined();
    const struct tfe_msg machine_info = {.type = MSG_MACHINE_INFO,
                                         .u.machine_info = {.has_spot = true, .is_spot = true}};
    assert_int_equal(side_send(&f.world.client, machine_info), 0);
    RUN_UNTIL(&f.world, seen.messages == 2); /* JOIN was the first message */
    struct msg_status_node row = {.node = ""};
    reports_show_node(f.all->by_number[seen.session]->report, &row);
    assert_true(row.machine_info.is_spot);
    const struct tfe_msg machine_stats = {.type = MSG_MACHINE_STATS,
                                          .u.machine_stats = {.load_milli = 1}};
    assert_int_equal(side_send(&f.world.client, machine_stats), 0);
    while (row.machine_stats.load_milli != 1) {
        assert_true(event_base_loop(f.world.base, EVLOOP_ONCE) >= 0);
        reports_show_node(f.all->by_number[seen.session]->report, &row);
    }
    assert_int_equal(seen.messages, 2);
}

/* Sends a table of this epoch, which takes several chunks. */
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
    sessions_send_table(f.all, seen.session, chunks);
    table_cache_done(&cache);
}

TEST_IN(sessions, newer_table_replaces_a_queued_one)
{
    joined();
    f.all->batch.left = 0; /* other sessions have used up this pass's batch */
    f.all->batch.armed = true;
    send_table(1);
    RUN_UNTIL(&f.world, !TAILQ_EMPTY(&f.all->batch.waiting));
    send_table(2);
    assert_true(
        TAILQ_EMPTY(&f.all->batch.waiting)); /* the first response has left the batch queue */
    f.all->batch.left = 100;
    RUN_UNTIL(&f.world, f.world.client.rows == 2000);
    assert_int_equal(seen.table, 2);
}

/* Queues a table of epoch 2 that has to wait for the next batch. */
static void waits_for_table(void)
{
    joined();
    f.all->batch.left = 0;
    f.all->batch.armed = true;
    send_table(2);
    RUN_UNTIL(&f.world, !TAILQ_EMPTY(&f.all->batch.waiting));
}

static void turn_comes(void)
{
    event_active(&f.all->batch.turn, EV_TIMEOUT, 0);
}

static struct tfe_msg start_of(uint64_t epoch)
{
    return (struct tfe_msg){
        .type = MSG_START,
        .u.start = {.epoch = epoch, .run = 1, .world = 1, .nodes = 1, .cause = CAUSE_START}};
}

TEST_IN(sessions, start_follows_its_table)
{
    waits_for_table();
    const struct tfe_msg start = start_of(2);
    /* STOP of the epoch before. */
    const struct tfe_msg stop = {.type = MSG_STOP, .u.stop.epoch = 1};
    sessions_send(f.all, seen.session, &start);
    sessions_send(f.all, seen.session, &stop);
    world_settle(&f.world);
    assert_int_equal(seen.started, 0);
    turn_comes();
    RUN_UNTIL(&f.world, seen.started == 2);
    assert_int_equal(seen.rows_before, 2000);
}

TEST_IN(sessions, stopped_table_is_not_sent)
{
    waits_for_table();
    const struct tfe_msg stop = {.type = MSG_STOP, .u.stop.epoch = 2};
    const struct tfe_msg start = start_of(3);
    sessions_send(f.all, seen.session, &stop);
    assert_true(TAILQ_EMPTY(&f.all->batch.waiting));
    sessions_send(f.all, seen.session, &start);
    turn_comes();
    RUN_UNTIL(&f.world, seen.started == 3);
    assert_int_equal(seen.rows_before, 0);
}

TEST_IN(sessions, table_bytes_are_shared_within_one_step)
{
    const struct msg_row row = {.host = "h", .role = TASK_WORKER, .port = 1};
    struct msg_table table = {.epoch = 1, .world = 1, .rows = &row, .n_rows = 1};
    struct table_cache cache = {.first = NULL};
    struct table_chunks *first;
    struct table_chunks *again;
    struct table_chunks *next;
    assert_int_equal(table_cache_get(&cache, &table, &first), 0);
    assert_int_equal(table_cache_get(&cache, &table, &again), 0);
    assert_ptr_equal(first, again);
    table.epoch = 2; /* same rows, next epoch */
    assert_int_equal(table_cache_get(&cache, &table, &next), 0);
    assert_ptr_not_equal(first, next);
    table_cache_done(&cache);
}

TEST_IN(sessions, closing_session_frees_a_queued_table)
{
    waits_for_table();
    side_free(&f.world.client);
    RUN_UNTIL(&f.world, f.all->n == 0);
    assert_true(TAILQ_EMPTY(&f.all->batch.waiting));
}

TEST_IN(sessions, session_without_memory_is_closed)
{
    seen.no_memory = true;
    const int fd = raw_connect(listener_port(f.listener));
    size_t n;
    assert_int_equal(raw_end(&f.world, fd, &n), 0);
    assert_int_equal(f.all->n, 0);
    assert_int_equal(close(fd), 0);
}

TEST_IN(sessions, unauthenticated_peers_have_slots_when_descriptors_are_short)
{
    int fds[LIMIT_UNAUTHENTICATED_MIN];
    f.all->n_max = 1;
    for (uint32_t i = 0; i < LIMIT_UNAUTHENTICATED_MIN; i++) {
        fds[i] = raw_connect(listener_port(f.listener));
        RUN_UNTIL(&f.world, admission_count(f.all->unauthenticated) == i + 1);
    }
    for (uint32_t i = 0; i < LIMIT_UNAUTHENTICATED_MIN; i++) {
        assert_int_equal(close(fds[i]), 0);
    }
    RUN_UNTIL(&f.world, f.all->n == 0);
}

/* --- authorisation ---------------------------------------------------------------------------- */

/* Asserts that the client receives REFUSED with this code and sentence and that its session ends.
 */
static void refused(enum tfe_refusal code, const char *sentence)
{
    RUN_UNTIL(&f.world, f.world.client.closed == 1);
    assert_int_equal(seen.refused, code);
    assert_string_equal(seen.sentence, sentence);
}

static void refused_evicted(void)
{
    static const char head[] = "an operator has evicted this node and denies it until 20";
    static const char tail[] = " UTC (tfe-ctl unban host ends this)";
    RUN_UNTIL(&f.world, f.world.client.closed == 1);
    assert_int_equal(seen.refused, REFUSAL_EVICTED);
    assert_memory_equal(seen.sentence, head, sizeof(head) - 1);
    assert_non_null(strstr(seen.sentence, tail));
}

TEST_IN(sessions, scoped_key_reaches_only_its_jobs)
{
    fixture_set_token(&f, PRINCIPAL_AGENT, "a-*", 0);
    dial();
    join();
    RUN_UNTIL(&f.world, seen.refused != 0);
    assert_int_equal(seen.refused, REFUSAL_NOT_AUTHORISED);
    struct tfe_msg msg = join_of(NULL);
    msg.u.join.job = "a-1";
    assert_int_equal(side_send(&f.world.client, msg), 0);
    RUN_UNTIL(&f.world, seen.joins == 1);
}

TEST_IN(sessions, join_without_proof_of_its_id_does_not_reach_the_core)
{
    char other[MSG_NODE_SECRET_CHARS + 1];
    node_secret_make(other);
    dial();
    assert_int_equal(side_send(&f.world.client, join_of(other)), 0);
    refused(REFUSAL_NOT_AUTHORISED, "the node secret does not match the node id");
    assert_int_equal(seen.joins, 0);
}

TEST_IN(sessions, pool_node_must_prove_its_id)
{
    const struct tfe_msg proved = join_of(NULL);
    char other[MSG_NODE_SECRET_CHARS + 1];
    struct tfe_msg msg = {
        .type = MSG_POOL,
        .u.pool = {.node_name = "host", .node = proved.u.join.node, .node_secret = secret}};
    dial();
    assert_int_equal(side_send(&f.world.client, msg), 0);
    RUN_UNTIL(&f.world, seen.welcomes == 1);
    assert_int_equal(side_send(&f.world.client, renew(1)), 0);
    /* From now on the pool receives the session's messages. */
    RUN_UNTIL(&f.world, seen.renewals == 1);
    node_secret_make(other);
    msg.u.pool.node_secret = other;
    assert_int_equal(side_send(&f.world.client, msg), 0);
    refused(REFUSAL_NOT_AUTHORISED, "the node secret does not match the node id");
    assert_int_equal(seen.messages, 0);
    const struct principal admin = {.role = PRINCIPAL_ADMIN, .scope = PRINCIPAL_EVERY_JOB};
    bool is_unclear;
    const struct pool_node *node = pool_find_target(f.pool, &admin, "host", &is_unclear);
    assert_true(!node || !pool_node_session(node)); /* the pool was notified of the end */
}

TEST_IN(sessions, session_ends_if_its_key_is_used_up_or_invalid)
{
    const struct msg_token_row *row;
    fixture_set_token(&f, PRINCIPAL_AGENT, PRINCIPAL_EVERY_JOB, 1);
    dial_other(&seen.others[0], join_of(NULL));
    RUN_UNTIL(&f.world, seen.joins == 1);
    dial();
    join();
    refused(REFUSAL_NOT_AUTHORISED,
            "this token's node limit is used up (ask the server's operator for a new one)");
    assert_int_equal(seen.joins, 1);
    f.world.client = (struct side){.on_message = on_client_message};
    fixture_set_token(&f, PRINCIPAL_AGENT, PRINCIPAL_EVERY_JOB, 0);
    dial();
    assert_int_equal(keyring_revoke(keys_ring(f.keys), f.token_key, clock_wall(), &row), 0);
    join();
    refused(REFUSAL_NOT_AUTHORISED, "this token was revoked by an operator");
}

TEST_IN(sessions, evicted_key_is_refused_and_joined_nodes_stay)
{
    struct tfe_msg msg = join_of(NULL);
    char node[TFE_ID_MAX + 1], proof[sizeof secret];
    msg.u.join.node = memcpy(node, msg.u.join.node, strlen(msg.u.join.node) + 1);
    msg.u.join.node_secret = memcpy(proof, secret, sizeof secret);
    struct msg_ban_row ban = {.node = "another", /* matches by token and label instead of by node */
                              .job = "j",
                              .key = "",
                              .token = f.token_key,
                              .name = "host",
                              .until.ms = clock_wall().ms + 3600000};
    dial_other(&seen.others[0], msg);
    RUN_UNTIL(&f.world, seen.joins == 1);
    assert_int_equal(deny_list_add(f.bans, &ban, NULL), 0);
    dial();
    join();
    refused_evicted();
    assert_int_equal(seen.joins, 1);
    f.world.client = (struct side){.on_message = on_client_message};
    dial();
    assert_int_equal(side_send(&f.world.client, msg), 0); /* reconnected */
    RUN_UNTIL(&f.world, seen.joins == 2);
    side_free(&f.world.client);
    f.world.client = (struct side){.on_message = on_client_message};
    ban.node = msg.u.join.node; /* the ban names the node, whether or not the node is a member */
    assert_int_equal(deny_list_add(f.bans, &ban, NULL), 0);
    dial();
    assert_int_equal(side_send(&f.world.client, msg), 0);
    refused_evicted();
}

TEST_IN(sessions, end_of_a_session_is_passed_once_and_number_reserved_until_then)
{
    joined();
    seen.is_slow = true;
    f.allowed.n = 0;
    const struct tfe_msg again = join_of(NULL);
    assert_int_equal(side_send(&f.world.client, again), 0);
    assert_int_equal(side_send(&f.world.client, renew(1)),
                     0); /* not delivered, since the session is ending */
    RUN_UNTIL(&f.world, f.world.client.closed == 1);
    RUN_UNTIL(&f.world, !f.all->by_number[seen.session]->channel);
    world_settle(&f.world);
    assert_int_equal(seen.messages, 1);
    assert_int_equal(seen.closed, 1);
    assert_int_equal(f.all->n, 1);
    assert_int_equal(f.all->n_free,
                     0); /* the number stays reserved until the core confirms the end */
    driver_session_ops.closed(f.driver, seen.session);
    assert_int_equal(f.all->n, 0);
    assert_int_equal(f.all->n_free, 1);
}

TEST_IN(sessions, error_of_the_core_is_reported)
{
    dial();
    assert_int_equal(side_send(&f.world.client, renew(1)), 0);
    refused(REFUSAL_BAD_REQUEST, "a session must begin with JOIN and serve only that node");
    assert_int_equal(seen.closed, 0); /* the core has not received the session */
    f.world.client = (struct side){.on_message = on_client_message};
    seen.rc = TFE_ENOMEM;
    dial();
    join();
    refused(REFUSAL_LIMIT_REACHED, "the server is out of memory (try again later)");
    assert_int_equal(seen.closed, 0); /* a rejected JOIN leaves no state */
    f.world.client = (struct side){.on_message = on_client_message};
    seen.rc = TFE_EINVAL;
    dial();
    join();
    refused(REFUSAL_BAD_REQUEST, "unexpected message in this state of the session");
    RUN_UNTIL(&f.world, f.all->n == 0);
}

TEST_IN(sessions, session_closed_by_the_core_is_not_reported_to_it)
{
    joined();
    sessions_close(f.all, seen.session);
    RUN_UNTIL(&f.world, f.world.client.closed == 1);
    RUN_UNTIL(&f.world, f.all->n == 0);
    assert_int_equal(seen.closed, 0);
    sessions_close(f.all, seen.session); /* the session no longer exists */
    sessions_send(f.all, 77, &(struct tfe_msg){.type = MSG_RENEWED});
}

static unsigned empty;

static void on_empty(void *ctx)
{
    empty++;
}

TEST_IN(sessions, stopped_sessions_end_without_the_core)
{
    int fd = raw_connect(listener_port(f.listener)); /* an unauthenticated connection */
    joined();
    RUN_UNTIL(&f.world, f.all->n == 2);
    empty = 0;
    sessions_stop(f.all, on_empty, NULL);
    assert_int_equal(admission_count(f.all->unauthenticated),
                     0); /* unauthenticated connections are closed without SERVER_STOPPING */
    RUN_UNTIL(&f.world, empty == 1);
    assert_int_equal(seen.closed, 0);
    RUN_UNTIL(&f.world, f.world.client.closed == 1);
    assert_int_equal(close(fd), 0);
}
