/* tests/unit/server/pool_fixture.c: see pool_fixture.h. */
#include "tests/unit/server/pool_fixture.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>

#include "common/base/clock.h"
#include "common/credentials/node_secrets.h"
#include "server/auth/keyring.h"
#include "server/auth/keys.h"
#include "tests/job_options.h"
#include "tests/unit/fake_clock.h"

struct fixture server;

struct client {
    struct side side;
    char secret[MSG_NODE_SECRET_CHARS + 1];
    struct tfe_id id;
    bool is_mute;
    uint64_t number; /* number of its last RENEW */
    uint64_t epoch;  /* epoch that the agent runs, and its rank there */
    uint32_t rank;
    char answer[512]; /* response to an operator's order */
};

static struct client nodes[POOL_NODES], agents[POOL_AGENTS], operators[2];
static struct token agent_token, admin_token;
static uint64_t first; /* assignment numbers are shown relative to this number */
static char heard[4096];

/* --- disk ------------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t holds[2]; /* locked while the writer thread is to hang there */
    unsigned next, n_hung;
    atomic_bool is_full;
    unsigned n_asked, n_done; /* calls of wait_until_released */
} disk = {.holds = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER}};

int __real_sqlite3_step(sqlite3_stmt *statement);
int __wrap_sqlite3_step(sqlite3_stmt *statement);
int __wrap_sqlite3_step(sqlite3_stmt *statement)
{
    return disk.is_full && !sqlite3_stmt_readonly(statement) ? SQLITE_FULL
                                                             : __real_sqlite3_step(statement);
}

void disk_refuses(bool is_refused)
{
    disk.is_full = is_refused;
}

static int wait_until_released(void *ctx, struct tfe_reason *reason)
{
    if (ctx) {
        assert_int_equal(pthread_mutex_lock(ctx), 0);
        assert_int_equal(pthread_mutex_unlock(ctx), 0);
    }
    return 0;
}

static void on_done(void *ctx, int rc, struct record_list *page, const char *reason)
{
    disk.n_done++;
}

/* Waits until the writer thread has done what it was given before, unless the disk hangs. */
static void pass_writer(pthread_mutex_t *hold)
{
    struct writer_request *request;
    disk.n_asked++;
    assert_int_equal(writer_run(driver_writer(server.driver), wait_until_released, hold, on_done,
                                NULL, &request),
                     0);
    while (disk.n_hung == 0 && disk.n_done < disk.n_asked) {
        assert_true(event_base_loop(server.world.base, EVLOOP_ONCE) >= 0);
    }
}

void disk_hangs(bool is_hung)
{
    if (is_hung) {
        pthread_mutex_t *hold = &disk.holds[(disk.next + disk.n_hung++) % 2];
        assert_int_equal(pthread_mutex_lock(hold), 0);
        pass_writer(hold);
    } else {
        assert_int_equal(pthread_mutex_unlock(&disk.holds[disk.next]), 0);
        disk.next = (disk.next + 1) % 2;
        disk.n_hung--;
        server_settle();
    }
}

/* --- time ------------------------------------------------------------------------------------- */

static void turn(void)
{
    for (int i = 0; i < 10; i++) {
        fake_clock_pass(server.world.base, 0);
        assert_true(event_base_loop(server.world.base, EVLOOP_NONBLOCK) >= 0);
    }
}

void server_settle(void)
{
    for (int i = 0; i < 3; i++) {
        turn();
        if (disk.n_hung == 0) {
            pass_writer(NULL);
        }
        turn();
    }
}

static void renew_lease(struct client *c)
{
    if (c->side.ch && !c->is_mute && c->number > 0) {
        assert_int_equal(side_send(&c->side, renew(++c->number)), 0);
    }
}

void server_pass(int64_t ms)
{
    while (ms > 0) {
        const int64_t some = ms < 2000 ? ms : 2000;
        fake_clock_pass(server.world.base, some);
        server_settle();
        ms -= some;
        for (unsigned i = 0; i < POOL_NODES && some == 2000; i++) {
            renew_lease(&nodes[i]);
        }
        for (unsigned i = 0; i < POOL_AGENTS && some == 2000; i++) {
            renew_lease(&agents[i]);
        }
        server_settle();
    }
}

/* --- clients ---------------------------------------------------------------------------------- */

static void client_connect(struct client *c, const struct token *token, side_fn *on_message)
{
    side_free(&c->side);
    memset(&c->side, 0, sizeof c->side);
    c->side.on_message = on_message;
    c->number = 0;
    assert_int_equal(channel_connect(server.world.base, "127.0.0.1", listener_port(server.listener),
                                     token, &server.world.client_params, HANDSHAKE_MS, &side_ops,
                                     &c->side, &c->side.ch),
                     0);
    for (int i = 0; i < 1000 && c->side.established == 0; i++) {
        turn();
        (void)sched_yield();
    }
    assert_int_equal(c->side.established, 1);
}

static struct client *client_of(struct side *side)
{
    return (struct client *)side; /* its first member */
}

static void __attribute__((format(printf, 1, 2))) add(const char *format, ...)
{
    const size_t n = strlen(heard);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(heard + n, sizeof heard - n, format, args);
    va_end(args);
}

/* Returns the name in a job's text, valid until the next call. */
static const char *name_in(const char *spec)
{
    static char name[TFE_ID_MAX + 1];
    json_t *job = json_loads(spec, 0, NULL);
    (void)snprintf(name, sizeof name, "%s", json_string_value(json_object_get(job, "name")));
    json_decref(job);
    return name;
}

static void on_node_message(struct side *side, const struct tfe_msg *msg)
{
    const unsigned i = (unsigned)(client_of(side) - nodes);
    if (msg->type == MSG_ASSIGN) {
        const struct msg_assign *a = &msg->u.assign;
        add("%u:assign %u %s %s; ", i, (unsigned)(a->assignment - first), name_in(a->spec),
            a->has_role ? msg_task_name(a->role) : "any");
    } else if (msg->type == MSG_RELEASE) {
        const struct msg_release *r = &msg->u.release;
        add("%u:release %u %ums %s%s%s; ", i,
            (unsigned)(r->assignment > first ? r->assignment - first : r->assignment),
            (unsigned)r->within_ms, r->message, r->over ? " OVER" : "",
            r->out != OUT_NOT ? " OUT" : "");
    } else if (msg->type == MSG_REFUSED) {
        add("%u:refused %s; ", i, msg->u.refused.sentence);
    }
}

void node_comes(unsigned i, const char *label, uint64_t assignment)
{
    static const char *const names[] = {"host-0", "host-1", "host-2", "host-3"};
    struct client *c = &nodes[i];
    client_connect(c, &agent_token, on_node_message);
    if (c->secret[0] == '\0') {
        node_secret_make(c->secret);
        assert_int_equal(node_id_of(c->secret, &c->id), 0);
    }
    c->number = 1;
    node_sends(i, (struct tfe_msg){.type = MSG_POOL,
                                   .u.pool = {.node = c->id.text,
                                              .node_secret = c->secret,
                                              .node_name = names[i],
                                              .labels = &label,
                                              .n_labels = label ? 1 : 0,
                                              .assignment = assignment ? first + assignment : 0}});
}

void node_leaves(unsigned i)
{
    side_free(&nodes[i].side);
    server_settle();
}

void node_is_mute(unsigned i)
{
    nodes[i].is_mute = true;
}

bool node_is_closed(unsigned i)
{
    return nodes[i].side.closed == 1;
}

void node_sends(unsigned i, struct tfe_msg msg)
{
    assert_int_equal(side_send(&nodes[i].side, msg), 0);
    server_settle();
}

void node_freed(unsigned i, uint64_t assignment, uint32_t code)
{
    node_sends(i, (struct tfe_msg){.type = MSG_FREED,
                                   .u.freed = {.assignment = first + assignment,
                                               .code = code,
                                               .message = "it said so"}});
}

struct pool_node *node_of(unsigned i)
{
    return pool_node_find(server.pool, nodes[i].id.text);
}

const char *nodes_heard(void)
{
    static char last[sizeof heard];
    (void)snprintf(last, sizeof last, "%s", heard);
    heard[0] = '\0';
    return last;
}

void nodes_heard_is(const char *expected)
{
    assert_string_equal(nodes_heard(), expected);
}

/* --- orders and jobs -------------------------------------------------------------------------- */

struct submitted spec_of(const char *name, uint32_t min, uint32_t max)
{
    return (struct submitted){name, min, max, ""};
}

static void on_operator_message(struct side *side, const struct tfe_msg *msg)
{
    char *answer = client_of(side)->answer;
    if (msg->type == MSG_DONE) {
        (void)strcpy(answer, "done");
    } else if (msg->type == MSG_REFUSED) {
        (void)snprintf(answer, sizeof operators[0].answer, "%s: %s",
                       msg_refusal_name(msg->u.refused.code), msg->u.refused.sentence);
    }
}

const char *server_order(struct tfe_msg msg)
{
    static unsigned n;
    struct client *c = &operators[n++ % 2];
    client_connect(c, &admin_token, on_operator_message);
    c->answer[0] = '\0';
    assert_int_equal(side_send(&c->side, msg), 0);
    server_settle();
    return c->answer;
}

const char *server_submit(struct submitted spec)
{
    char text[1024];
    const int n =
        snprintf(text, sizeof text,
                 "{'name': '%s', 'workers': {'min': %u, 'max': %u}, 'command': ['a']%s%s}",
                 spec.name, (unsigned)spec.min_nodes, (unsigned)spec.max_nodes,
                 spec.fields[0] != '\0' ? ", " : "", spec.fields);
    assert_in_range(n, 1, sizeof text - 1);
    for (char *at = text; *at != '\0'; at++) {
        *at = *at == '\'' ? '"' : *at;
    }
    return server_order(
        (struct tfe_msg){.type = MSG_SUBMIT, .u.submit = {.job = spec.name, .spec = text}});
}

const char *server_order_about(enum tfe_msg_type type, const char *job)
{
    struct tfe_msg msg = {.type = type};
    switch ((int)type) {
    case MSG_SUSPEND:
        msg.u.suspend.job = job;
        break;
    case MSG_RESUME:
        msg.u.resume.job = job;
        break;
    case MSG_CANCEL:
        msg.u.cancel.job = job;
        break;
    case MSG_RERUN:
        msg.u.rerun.job = job;
        break;
    case MSG_FORGET:
        msg.u.forget.job = job;
        break;
    default:
        fail();
    }
    return server_order(msg);
}

void server_place(struct submitted spec)
{
    for (unsigned i = 0; i < spec.max_nodes; i++) {
        node_comes(i, NULL, 0);
    }
    assert_string_equal(server_submit(spec), "done");
    (void)nodes_heard();
}

struct pool_job *job_of(const char *name)
{
    struct pool_job *job;
    TAILQ_FOREACH(job, &server.pool->jobs, link)
    {
        if (strcmp(job->name.text, name) == 0 && !job->is_gone) {
            return job;
        }
    }
    return NULL;
}

struct msg_status_job row_of(const char *job)
{
    static struct pool_texts texts;
    struct msg_status_job row = {.job = job};
    const bool is_in_core = rdzv_find_job(driver_core(server.driver), job, &row) == 0;
    if (!pool_show_job(server.pool, job, is_in_core, &texts, &row)) {
        row.job = NULL;
    }
    return row;
}

const char *state_of(const char *job)
{
    return job_of(job) ? msg_job_state_name(row_of(job).state) : "gone";
}

const char *condition_of(const char *job)
{
    static char text[640];
    const struct pool_condition *c = &job_of(job)->conditions[row_of(job).state];
    (void)snprintf(text, sizeof text, "%s %s", c->reason, c->message);
    return text;
}

/* --- agents ----------------------------------------------------------------------------------- */

static void on_agent_message(struct side *side, const struct tfe_msg *msg)
{
    static const uint16_t port = 1000;
    struct client *c = client_of(side);
    if (msg->type == MSG_PREPARE) {
        const struct tfe_msg ready = {
            .type = MSG_READY,
            .u.ready = {
                .epoch = msg->u.prepare.epoch, .host = "192.0.2.7", .ports = &port, .n_ports = 1}};
        assert_int_equal(channel_send(side->ch, &ready), 0);
    } else if (msg->type == MSG_START) {
        c->epoch = msg->u.start.epoch;
        c->rank = msg->u.start.rank;
        const struct tfe_msg listening = {.type = MSG_LISTENING, .u.listening.epoch = c->epoch};
        assert_int_equal(channel_send(side->ch, &listening), 0);
    } else if (msg->type == MSG_STOP && c->epoch != 0) {
        const struct tfe_msg exited = {
            .type = MSG_EXITED, .u.exited = {.epoch = c->epoch, .stopped = true, .tail = ""}};
        c->epoch = 0;
        assert_int_equal(channel_send(side->ch, &exited), 0);
    }
}

void agents_run(const char *job, uint32_t n)
{
    const struct pool_job *its = job_of(job);
    struct job_spec spec = job_of_size(its->needs.min_nodes, its->needs.max_nodes, 1);
    spec.linger = its->needs.may_linger;
    for (uint32_t i = 0; i < n; i++) {
        struct client *c = &agents[i];
        client_connect(c, &agent_token, on_agent_message);
        node_secret_make(c->secret);
        assert_int_equal(node_id_of(c->secret, &c->id), 0);
        c->number = 1;
        c->epoch = 0;
        const struct tfe_msg join = {.type = MSG_JOIN,
                                     .u.join = {.job = job,
                                                .node = c->id.text,
                                                .node_secret = c->secret,
                                                .node_name = i == 0 ? "host-0" : "host-1",
                                                .host = "192.0.2.7",
                                                .run_key = its->run_key.text,
                                                .spec = spec}};
        assert_int_equal(side_send(&c->side, join), 0);
        server_settle();
    }
    for (int i = 0; i < 5 && strcmp(state_of(job), "running") != 0; i++) {
        server_pass(2000);
    }
    assert_string_equal(state_of(job), "running");
}

void rank_exits(uint32_t rank, uint32_t code)
{
    struct client *c = agents[0].epoch != 0 && agents[0].rank == rank ? &agents[0] : &agents[1];
    const struct tfe_msg exited = {.type = MSG_EXITED,
                                   .u.exited = {.epoch = c->epoch, .code = code, .tail = ""}};
    assert_int_equal(c->rank, rank);
    c->epoch = 0;
    assert_int_equal(side_send(&c->side, exited), 0);
    server_settle();
}

void agent_leaves(unsigned i)
{
    if (agents[i].side.ch) {
        const struct tfe_msg goodbye = {.type = MSG_GOODBYE, .u.goodbye.drained = true};
        assert_int_equal(side_send(&agents[i].side, goodbye), 0);
        server_settle();
    }
}

/* --- set-up and tear-down --------------------------------------------------------------------- */

int pool_fixture_begin(void **state)
{
    (void)state;
    memset(nodes, 0, sizeof nodes);
    memset(agents, 0, sizeof agents);
    memset(operators, 0, sizeof operators);
    heard[0] = '\0';
    fake_clock_init();
    fixture_begin_in(&server, "rdzv.db", NULL, 8);
    agent_token = server.world.token;
    fixture_set_token(&server, PRINCIPAL_ADMIN, PRINCIPAL_EVERY_JOB, 0);
    admin_token = server.world.token;
    first = (uint64_t)clock_wall().ms * 1000;
    return 0;
}

static void disconnect_all(void)
{
    for (unsigned i = 0; i < POOL_NODES; i++) {
        side_free(&nodes[i].side);
    }
    for (unsigned i = 0; i < POOL_AGENTS; i++) {
        side_free(&agents[i].side);
        side_free(&operators[i].side);
    }
}

int pool_fixture_end(void **state)
{
    (void)state;
    disk_refuses(false);
    while (disk.n_hung > 0) {
        disk_hangs(false);
    }
    disconnect_all();
    fixture_end(&server);
    return 0;
}

void server_restart(void)
{
    disconnect_all();
    turn();
    fixture_restart(&server);
    server_settle();
}
