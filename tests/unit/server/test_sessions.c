/* tests/unit/server/test_sessions.c: accepted connections over loopback, from the first byte to the
 * last: what is left of who has gone, and what reaches the core. Keys are good and nobody is banned
 * unless a story says so (__wrap_…). */
#include "common/net/node_id.h"
#include "server/gauges.h"
#include "server/keyring.h"
#include "server/session.h"
#include "tests/unit/net/wires.h"
#include "tests/wishes.h"

enum { OTHERS = 8 };

static struct {
    struct world world;
    struct listener *listener;
    struct sessions *all;
    struct gauges gauges;
    uint8_t root[TOKEN_ROOT_BYTES], server_key[TOKEN_PUBLIC_KEY_BYTES];
    struct side others[OTHERS]; /* further clients */
    bool allows_addresses;
    const char *scope;     /* of every key; NULL: all jobs */
    const char *fault;     /* of every key, from now on */
    const char *use_fault; /* of whoever comes in by one */
    struct msg_ban_row ban;
    bool is_banned, is_in; /* a node of that id is in the job */
    const char *in;        /* the node of each session that has joined; NULL: none */
    int rc;                /* what the core says to messages */
    unsigned messages;     /* that the core has heard of */
    unsigned joins;        /* … of that kind */
    unsigned closed;       /* likewise */
    unsigned shown;        /* messages for people */
    unsigned pooled;       /* messages that the pool has heard of */
    uint32_t session;      /* of the last of them */
    enum tfe_refusal refused;
    char sentence[256]; /* of that */
    uint64_t table;     /* epoch of the last table that came */
    uint64_t started;   /* … START, and the rows that had come by then */
    uint64_t rows_before;
    bool no_memory; /* for one more that is half open */
    bool is_slow;   /* the core answers to ends later */
    unsigned left;  /* ends that the pool has heard of */
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
    return f.fault;
}

const char *__wrap_keyring_use(struct keyring *ring, const struct principal *by, const char *node,
                               const struct msg_token_row **ret_used);
const char *__wrap_keyring_use(struct keyring *ring, const struct principal *by, const char *node,
                               const struct msg_token_row **ret_used)
{
    *ret_used = NULL;
    return f.use_fault;
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
    return f.is_banned ? &f.ban : NULL;
}

int __wrap_rdzv_find_node(const struct rdzv *r, const struct principal *by, const char *name,
                          struct rdzv_found *ret);
int __wrap_rdzv_find_node(const struct rdzv *r, const struct principal *by, const char *name,
                          struct rdzv_found *ret)
{
    ret->n = 1;
    ret->v[0].node = name;
    return f.is_in ? 0 : TFE_ENOENT;
}

int __wrap_rdzv_node_of(const struct rdzv *r, uint32_t session, struct rdzv_found *ret);
int __wrap_rdzv_node_of(const struct rdzv *r, uint32_t session, struct rdzv_found *ret)
{
    ret->v[0].node = f.in;
    return f.in && f.all->by_number[session]->known ? 0 : TFE_ENOENT;
}

void __wrap_pool_take(struct pool *p, struct session *s, const struct tfe_msg *msg);
void __wrap_pool_take(struct pool *p, struct session *s, const struct tfe_msg *msg)
{
    f.pooled++;
    s->pooled = (struct pool_node *)&f;
}

const char *__wrap_pool_node_id(const struct pool_node *node);
const char *__wrap_pool_node_id(const struct pool_node *node)
{
    return f.in;
}

int __real_admission_enter(struct admission *a, const struct admission_claim *claim, void *owner,
                           struct admission_place *place);
int __wrap_admission_enter(struct admission *a, const struct admission_claim *claim, void *owner,
                           struct admission_place *place);
int __wrap_admission_enter(struct admission *a, const struct admission_claim *claim, void *owner,
                           struct admission_place *place)
{
    return f.no_memory ? TFE_ENOMEM : __real_admission_enter(a, claim, owner, place);
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
    return f.allows_addresses && strcmp(host, "192.0.2.66") != 0;
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
    f.messages++;
    f.joins += msg->type == MSG_JOIN;
    f.session = session;
    return f.rc;
}

static void on_core_closed(void *ctx, uint32_t session)
{
    f.closed++;
    if (!f.is_slow) {
        sessions_forgotten(f.all, session);
    }
}

static void on_pool_left(struct session *s)
{
    s->pooled = NULL;
    f.left++;
}

static const struct session_ops core = {
    .message = on_core_message, .closed = on_core_closed, .pool_left = on_pool_left};

static void on_client_message(struct side *side, const struct tfe_msg *msg)
{
    if (msg->type == MSG_REFUSED) {
        f.refused = msg->u.refused.code;
        (void)snprintf(f.sentence, sizeof f.sentence, "%s", msg->u.refused.sentence);
    }
    f.table = msg->type == MSG_TABLE ? msg->u.table.epoch : f.table;
    if (msg->type == MSG_START) {
        f.started = msg->u.start.epoch;
        f.rows_before = side->rows;
    }
}

static int judge(void *ctx, struct tfe_wall now, struct principal *by)
{
    by->scope = f.scope ? f.scope : PRINCIPAL_EVERY_JOB;
    return 0;
}

static int begin(void **state)
{
    struct tfe_why why;
    (void)state;
    memset(&f, 0, sizeof f);
    f.allows_addresses = true;
    world_make(&f.world);
    uint8_t secret[32];
    randombytes_buf(secret, sizeof secret);
    randombytes_buf(f.root, sizeof f.root);
    assert_int_equal(crypto_scalarmult_base(f.server_key, secret), 0);
    hello_server_free(f.world.hello);
    assert_int_equal(hello_server_new(secret, f.root, &f.world.hello), 0);
    hello_server_set_judge(f.world.hello, judge, NULL);
    token_mint(&f.world.token, &(struct token_wish){.role = PRINCIPAL_AGENT}, f.root, f.server_key);
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
    for (size_t i = 0; i < OTHERS; i++) {
        side_free(&f.others[i]);
    }
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

/* With a token of its own. */
static void dial_as(enum principal_role role, uint8_t uses)
{
    const struct token_wish wish = {.role = role, .uses = uses, .is_kept = uses > 0};
    token_mint(&f.world.token, &wish, f.root, f.server_key);
    dial();
}

/* One more client, by the same token, which the server knows once it has said something. */
static void dial_other(struct side *side, struct tfe_msg first)
{
    side->on_message = on_client_message;
    assert_int_equal(
        INSIDE(channel_connect(f.world.base, "127.0.0.1", listener_port(f.listener), &f.world.token,
                               &f.world.client_facts, HANDSHAKE_MS, &side_ops, side, &side->ch)),
        0);
    RUN_UNTIL(&f.world, side->established == 1);
    assert_int_equal(side_send(side, first), 0);
}

static char secret[MSG_NODE_SECRET_CHARS + 1];

/* It proves its id, if the secret is its own. */
static struct tfe_msg join_of(const char *proof)
{
    static struct tfe_id node;
    struct tfe_msg msg = {
        .type = MSG_JOIN,
        .u.join = {
            .job = "j", .node_name = "host", .spec = no_wishes(1, 2, 1), .host = "192.0.2.7"}};
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
    RUN_UNTIL(&f.world, f.joins == 1);
}

/* --- stories ---------------------------------------------------------------------------------- */

TEST_IN(sessions, that_end_before_their_handshake_are_half_open_no_more)
{
    int fd = raw_connect(listener_port(f.listener));
    RUN_UNTIL(&f.world, admission_count(f.all->half_open) == 1);
    assert_int_equal(close(fd), 0);
    RUN_UNTIL(&f.world, f.all->n == 0);
    assert_int_equal(admission_count(f.all->half_open), 0);
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

TEST_IN(sessions, whose_trainers_run_at_an_address_that_is_not_allowed_do_not_reach_the_core)
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
    assert_int_equal(f.refused, REFUSAL_BAD_REQUEST);
    assert_non_null(strstr(f.sentence, "192.0.2.66"));
    assert_int_equal(f.joins, 0);
}

TEST_IN(sessions, enrol_no_agent_that_has_not_joined)
{
    static const char key[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    f.rc = TFE_ESTATE;
    dial();
    assert_int_equal(
        side_send(&f.world.client, (struct tfe_msg){.type = MSG_ENROL, .u.enrol.public_key = key}),
        0);
    RUN_UNTIL(&f.world, f.world.client.closed == 1);
    assert_int_equal(f.messages, 1);
    assert_int_equal(f.refused, REFUSAL_BAD_REQUEST);
}

TEST_IN(sessions, that_have_joined_are_told_to_the_core_when_they_are_over)
{
    joined();
    assert_int_equal(admission_count(f.all->half_open), 0);
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
    assert_int_equal(f.messages, 2); /* JOIN was the first */
    const struct tfe_msg vitals = {.type = MSG_VITALS, .u.vitals = {.load_milli = 1}};
    assert_int_equal(side_send(&f.world.client, vitals), 0);
    RUN_UNTIL(&f.world, f.shown == 2);
    assert_int_equal(f.messages, 2);
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

/* A table of epoch 2 whose turn has not come. */
static void waits_for_table(void)
{
    joined();
    f.all->gate.left = 0;
    f.all->gate.armed = true;
    send_table(2);
    RUN_UNTIL(&f.world, !TAILQ_EMPTY(&f.all->gate.waiting));
}

static void turn_comes(void)
{
    event_active(&f.all->gate.turn, EV_TIMEOUT, 0);
}

static struct tfe_msg start_of(uint64_t epoch)
{
    return (struct tfe_msg){
        .type = MSG_START,
        .u.start = {.epoch = epoch, .run = 1, .world = 1, .nodes = 1, .cause = CAUSE_START}};
}

TEST_IN(sessions, are_told_to_start_behind_their_table)
{
    waits_for_table();
    const struct tfe_msg start = start_of(2);
    const struct tfe_msg stop = {.type = MSG_STOP, .u.stop.epoch = 1}; /* of the one before */
    sessions_send(f.all, f.session, &start);
    sessions_send(f.all, f.session, &stop);
    world_settle(&f.world);
    assert_int_equal(f.started, 0);
    turn_comes();
    RUN_UNTIL(&f.world, f.started == 2);
    assert_int_equal(f.rows_before, 2000);
}

TEST_IN(sessions, are_not_told_a_table_that_is_stopped)
{
    waits_for_table();
    const struct tfe_msg stop = {.type = MSG_STOP, .u.stop.epoch = 2};
    const struct tfe_msg start = start_of(3);
    sessions_send(f.all, f.session, &stop);
    assert_true(TAILQ_EMPTY(&f.all->gate.waiting));
    sessions_send(f.all, f.session, &start);
    turn_comes();
    RUN_UNTIL(&f.world, f.started == 3);
    assert_int_equal(f.rows_before, 0);
}

TEST_IN(sessions, of_one_step_share_the_bytes_of_a_table_and_of_no_other)
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
    table.epoch = 2; /* the same rows */
    assert_int_equal(table_cache_get(&cache, &table, &next), 0);
    assert_ptr_not_equal(first, next);
    table_cache_done(&cache);
}

TEST_IN(sessions, take_a_table_that_waits_along)
{
    waits_for_table();
    side_free(&f.world.client);
    RUN_UNTIL(&f.world, f.all->n == 0);
    assert_true(TAILQ_EMPTY(&f.all->gate.waiting));
}

TEST_IN(sessions, that_there_is_no_memory_for_are_closed)
{
    f.no_memory = true;
    const int fd = raw_connect(listener_port(f.listener));
    size_t n;
    assert_int_equal(raw_end(&f.world, fd, &n), 0);
    assert_int_equal(f.all->n, 0);
    assert_int_equal(close(fd), 0);
}

TEST_IN(sessions, without_a_token_have_some_places_however_short_descriptors_are)
{
    int fds[LIMIT_HALF_OPEN_LEAST];
    f.all->n_max = 1;
    for (uint32_t i = 0; i < LIMIT_HALF_OPEN_LEAST; i++) {
        fds[i] = raw_connect(listener_port(f.listener));
        RUN_UNTIL(&f.world, admission_count(f.all->half_open) == i + 1);
    }
    for (uint32_t i = 0; i < LIMIT_HALF_OPEN_LEAST; i++) {
        assert_int_equal(close(fds[i]), 0);
    }
    RUN_UNTIL(&f.world, f.all->n == 0);
}

/* --- who may do what -------------------------------------------------------------------------- */

/* The client is told that, and its session is over. */
static void refused(enum tfe_refusal code, const char *sentence)
{
    RUN_UNTIL(&f.world, f.world.client.closed == 1);
    assert_int_equal(f.refused, code);
    assert_string_equal(f.sentence, sentence);
}

TEST_IN(sessions, of_agents_give_no_orders)
{
    static const struct tfe_msg orders[] = {
        {.type = MSG_EVICT, .u.evict.node = "n"},
        {.type = MSG_STOP_JOB, .u.stop_job.job = "j"},
        {.type = MSG_FORGET, .u.forget.job = "j"},
        {.type = MSG_SUSPEND, .u.suspend.job = "j"},
        {.type = MSG_STATUS},
    };
    joined();
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        f.refused = 0;
        assert_int_equal(side_send(&f.world.client, orders[i]), 0);
        RUN_UNTIL(&f.world, f.refused != 0);
        assert_int_equal(f.refused, REFUSAL_NOT_AUTHORISED);
    }
    assert_int_equal(f.messages, 1); /* the core has heard of its JOIN alone */
    assert_int_equal(f.world.client.closed, 0);
    assert_int_equal(side_send(&f.world.client, renew(1)), 0);
    RUN_UNTIL(&f.world, f.messages == 2);
    assert_int_equal(f.gauges.renewals, 1);
}

TEST_IN(sessions, of_a_key_for_some_jobs_reach_no_other)
{
    f.scope = "a-*";
    dial();
    join();
    RUN_UNTIL(&f.world, f.refused != 0);
    assert_int_equal(f.refused, REFUSAL_NOT_AUTHORISED);
    struct tfe_msg msg = join_of(NULL);
    msg.u.join.job = "a-1";
    assert_int_equal(side_send(&f.world.client, msg), 0);
    RUN_UNTIL(&f.world, f.joins == 1);
}

TEST_IN(sessions, of_observers_are_no_agents)
{
    dial_as(PRINCIPAL_OBSERVER, 0);
    join();
    RUN_UNTIL(&f.world, f.refused != 0);
    assert_int_equal(admission_count(f.all->asking), 1);
    assert_int_equal(f.refused, REFUSAL_NOT_AUTHORISED);
    assert_int_equal(f.joins, 0);
    side_free(&f.world.client);
    RUN_UNTIL(&f.world, f.all->n == 0);
    assert_int_equal(admission_count(f.all->asking), 0);
    assert_int_equal(f.closed, 0);
}

TEST_IN(sessions, of_admins_have_places_that_no_other_takes)
{
    f.all->n_max = LIMIT_ADMIN_SESSIONS;
    dial_as(PRINCIPAL_OBSERVER, 0);
    join();
    refused(REFUSAL_LIMIT_REACHED,
            "too many tfe-ctl sessions are open, with this token or in all; try again later");
    RUN_UNTIL(&f.world, f.all->n == 0);
    f.world.client = (struct side){.on_message = on_client_message};
    dial_as(PRINCIPAL_ADMIN, 0);
    join();
    RUN_UNTIL(&f.world, f.refused == REFUSAL_NOT_AUTHORISED); /* which is no agent's */
    assert_int_equal(f.world.client.closed, 0);
}

TEST_IN(sessions, whose_node_does_not_prove_its_id_do_not_reach_the_core)
{
    char other[MSG_NODE_SECRET_CHARS + 1];
    node_secret_make(other);
    dial();
    assert_int_equal(side_send(&f.world.client, join_of(other)), 0);
    refused(REFUSAL_NOT_AUTHORISED, "it does not prove its node's id");
    assert_int_equal(f.joins, 0);
}

TEST_IN(sessions, of_nodes_of_the_pool_prove_their_ids_too)
{
    const struct tfe_msg proved = join_of(NULL);
    char other[MSG_NODE_SECRET_CHARS + 1];
    struct tfe_msg msg = {
        .type = MSG_POOL,
        .u.pool = {.node_name = "host", .node = proved.u.join.node, .node_secret = secret}};
    dial();
    assert_int_equal(side_send(&f.world.client, msg), 0);
    RUN_UNTIL(&f.world, f.pooled == 1);
    assert_int_equal(side_send(&f.world.client, renew(1)), 0);
    RUN_UNTIL(&f.world, f.pooled == 2); /* from then on the pool hears of all */
    node_secret_make(other);
    msg.u.pool.node_secret = other;
    assert_int_equal(side_send(&f.world.client, msg), 0);
    refused(REFUSAL_NOT_AUTHORISED, "it does not prove its node's id");
    assert_int_equal(f.pooled, 2);
    assert_int_equal(f.messages, 0);
    assert_int_equal(f.left, 1);
}

TEST_IN(sessions, whose_key_has_no_use_left_or_is_good_no_more_end)
{
    f.use_fault = "all of its uses are used up";
    dial();
    join();
    refused(REFUSAL_NOT_AUTHORISED, f.use_fault);
    assert_int_equal(f.joins, 0);
    f.world.client = (struct side){.on_message = on_client_message};
    f.use_fault = NULL;
    f.fault = "it was revoked";
    dial();
    join();
    refused(REFUSAL_NOT_AUTHORISED, f.fault);
}

TEST_IN(sessions, of_who_was_evicted_come_in_no_more_but_who_is_in_stays)
{
    f.is_banned = true;
    f.ban.node = "another"; /* its key and label are meant */
    dial();
    join();
    refused(REFUSAL_EVICTED, "an operator has evicted this node, and keeps it out");
    assert_int_equal(f.joins, 0);
    f.world.client = (struct side){.on_message = on_client_message};
    f.is_in = true;
    joined();
    side_free(&f.world.client);
    RUN_UNTIL(&f.world, f.all->n == 0);
    f.world.client = (struct side){.on_message = on_client_message};
    const struct tfe_msg msg = join_of(NULL);
    f.ban.node = msg.u.join.node; /* it itself: however it is in */
    dial();
    assert_int_equal(side_send(&f.world.client, msg), 0);
    refused(REFUSAL_EVICTED, "an operator has evicted this node, and keeps it out");
}

TEST_IN(sessions, by_a_token_for_some_nodes_are_so_many)
{
    dial_as(PRINCIPAL_AGENT, 2);
    join();
    RUN_UNTIL(&f.world, f.joins == 1);
    f.in = "somebody";
    for (unsigned i = 0; i < 2; i++) {
        dial_other(&f.others[i], join_of(NULL));
        RUN_UNTIL(&f.world, f.joins == 2 + i || f.others[i].closed == 1);
    }
    assert_int_equal(f.joins, 2);
    assert_int_equal(f.others[1].closed, 1);
    assert_int_equal(f.refused, REFUSAL_LIMIT_REACHED);
    assert_string_equal(f.sentence, "as many nodes as this token is for are here");
}

TEST_IN(sessions, of_one_node_count_once)
{
    dial_as(PRINCIPAL_AGENT, 1);
    const struct tfe_msg msg = join_of(NULL);
    f.in = msg.u.join.node;
    assert_int_equal(side_send(&f.world.client, msg), 0);
    RUN_UNTIL(&f.world, f.joins == 1);
    dial_other(&f.others[0], msg); /* it has a new connection */
    RUN_UNTIL(&f.world, f.joins == 2);
}

TEST_IN(sessions, that_end_are_told_once_and_known_until_the_core_has_heard_of_it)
{
    joined();
    f.is_slow = true;
    f.allows_addresses = false;
    const struct tfe_msg again = join_of(NULL);
    assert_int_equal(side_send(&f.world.client, again), 0);
    assert_int_equal(side_send(&f.world.client, renew(1)), 0); /* it is over: nobody hears */
    RUN_UNTIL(&f.world, f.world.client.closed == 1);
    RUN_UNTIL(&f.world, !f.all->by_number[f.session]->channel);
    world_settle(&f.world);
    assert_int_equal(f.messages, 1);
    assert_int_equal(f.closed, 1);
    assert_int_equal(f.all->n, 1);
    assert_int_equal(f.all->n_free, 0); /* its number is not another's before */
    sessions_forgotten(f.all, f.session);
    assert_int_equal(f.all->n, 0);
    assert_int_equal(f.all->n_free, 1);
}

TEST_IN(sessions, say_what_the_core_does_not_take)
{
    f.rc = TFE_ESTATE;
    dial();
    assert_int_equal(side_send(&f.world.client, renew(1)), 0);
    refused(REFUSAL_BAD_REQUEST, "a session begins with a JOIN, and is that node's alone");
    assert_int_equal(f.closed, 0); /* it knew nothing of it */
    f.world.client = (struct side){.on_message = on_client_message};
    f.rc = TFE_ENOMEM;
    dial();
    join();
    refused(REFUSAL_LIMIT_REACHED, "the server is out of memory; try again later");
    assert_int_equal(f.closed, 0); /* a JOIN that was not taken leaves nothing */
    f.world.client = (struct side){.on_message = on_client_message};
    f.rc = TFE_EINVAL;
    dial();
    join();
    refused(REFUSAL_BAD_REQUEST, "the message makes no sense here");
    RUN_UNTIL(&f.world, f.all->n == 0);
}

TEST_IN(sessions, of_agents_are_as_many_as_the_core_has_numbers_for)
{
    for (unsigned i = 0; i < 4; i++) {
        dial_other(&f.others[i], renew(1));
        RUN_UNTIL(&f.world, f.messages == i + 1);
    }
    dial();
    join();
    refused(REFUSAL_LIMIT_REACHED,
            "the server has no room for more agents; raise its limit of open files");
    side_free(&f.others[2]);
    RUN_UNTIL(&f.world, f.all->n == 3);
    assert_int_equal(f.closed, 0); /* none of them has joined */
    f.world.client = (struct side){.on_message = on_client_message};
    joined(); /* its number is used again */
    assert_int_equal(f.session, 2);
}

TEST_IN(sessions, that_say_too_much_end_but_renewals_and_answers_to_probes_do_not_count)
{
    joined();
    for (unsigned i = 0; i < 3 * LIMIT_MESSAGE_BURST; i++) {
        assert_int_equal(side_send(&f.world.client, renew(i + 1)), 0);
    }
    RUN_UNTIL(&f.world, f.messages == 1 + 3 * LIMIT_MESSAGE_BURST);
    static const uint16_t ports[] = {1};
    const struct tfe_msg probe = {.type = MSG_PROBE,
                                  .u.probe = {.probe = 1,
                                              .kind = PROBE_SUSPECT,
                                              .node = "n",
                                              .host = "192.0.2.9",
                                              .ports = ports,
                                              .n_ports = 1}};
    const struct tfe_msg probed = {.type = MSG_PROBED,
                                   .u.probed = {.probe = 1, .result = PROBE_REFUSED}};
    const unsigned before = f.messages;
    for (unsigned i = 0; i < 3 * LIMIT_MESSAGE_BURST; i++) {
        sessions_send(f.all, f.session, &probe);
        assert_int_equal(side_send(&f.world.client, probed), 0);
        RUN_UNTIL(&f.world, f.messages == before + i + 1);
    }
    for (unsigned i = 0; i < 100 * LIMIT_MESSAGE_BURST && f.world.client.closed == 0; i++) {
        if (f.world.client.ch) {
            (void)side_send(&f.world.client, probed);
        }
        world_settle(&f.world);
    }
    refused(REFUSAL_LIMIT_REACHED, "too many messages a second");
}

TEST_IN(sessions, that_are_closed_by_the_core_are_not_told_to_it)
{
    joined();
    sessions_close(f.all, f.session);
    RUN_UNTIL(&f.world, f.world.client.closed == 1);
    RUN_UNTIL(&f.world, f.all->n == 0);
    assert_int_equal(f.closed, 0);
    sessions_close(f.all, f.session); /* it is no more */
    sessions_send(f.all, 77, &(struct tfe_msg){.type = MSG_RENEWED});
}

static unsigned empty;

static void on_empty(void *ctx)
{
    empty++;
}

TEST_IN(sessions, that_are_stopped_end_without_the_core)
{
    int fd = raw_connect(listener_port(f.listener)); /* it has shown no token */
    joined();
    RUN_UNTIL(&f.world, f.all->n == 2);
    empty = 0;
    sessions_stop(f.all, on_empty, NULL);
    assert_int_equal(admission_count(f.all->half_open), 0); /* who is owed no goodbye */
    RUN_UNTIL(&f.world, empty == 1);
    assert_int_equal(f.closed, 0);
    RUN_UNTIL(&f.world, f.world.client.closed == 1);
    assert_int_equal(close(fd), 0);
}
