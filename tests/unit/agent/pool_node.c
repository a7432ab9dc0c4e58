/* tests/unit/agent/pool_node.c: implementation of pool_node.h. */
#include "tests/unit/agent/pool_node.h"

#include <jansson.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "agent/pool/handover.h"
#include "agent/pool/pool_node.h"
#include "tests/unit/fake_clock.h"

struct node_fixture node;

static struct {
    struct pool *pool;
    struct join_info info;
} own;

/* Executes the job's command if this process is the agent of a job. */
__attribute__((constructor)) static void become_agent(void)
{
    struct handover handover;
    struct tfe_reason reason;
    int fd;
    if (getenv(HANDOVER_VARIABLE)) {
        if (handover_read(&handover, &fd, &reason) == 0) {
            json_t *job = json_loads(handover.spec, 0, NULL);
            const json_t *command = json_object_get(job, "command");
            char *words[4] = {NULL};
            for (size_t i = 0; i < 3; i++) {
                words[i] = (char *)(uintptr_t)json_string_value(json_array_get(command, i));
            }
            (void)execvp(words[0], words);
        }
        _exit(99);
    }
}

/* --- server --- */

static void __attribute__((format(printf, 1, 2))) note(const char *format, ...)
{
    const size_t n = strlen(node.received);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(node.received + n, sizeof node.received - n, format, args);
    va_end(args);
}

static void on_message(struct side *side, const struct tfe_msg *msg)
{
    const struct msg_pool *pool = &msg->u.pool;
    const struct msg_notice *notice = &msg->u.notice;
    switch ((int)msg->type) {
    case MSG_POOL:
        note("POOL %s has %u idle %u floor %u; ", pool->node_name, (unsigned)pool->assignment,
             (unsigned)pool->idle_exit_ms, (unsigned)pool->floor);
        break;
    case MSG_FREED:
        note("FREED %u %u %s; ", (unsigned)msg->u.freed.assignment, (unsigned)msg->u.freed.code,
             msg->u.freed.message);
        break;
    case MSG_NOTICE:
        note("NOTICE %s%s%s in %d; ", msg_notice_name(notice->kind),
             notice->withdrawn ? " withdrawn" : "", notice->uncertain ? " uncertain" : "",
             (int)notice->deadline_ms);
        break;
    case MSG_RENEW:
        node.renewals++;
        if (!node.server_is_silent) {
            assert_int_equal(
                side_send(side, (struct tfe_msg){.type = MSG_RENEWED,
                                                 .u.renewed = {.number = msg->u.renew.number,
                                                               .ttl_ms = 9000,
                                                               .fence_ms = 9000}}),
                0);
        }
        break;
    case MSG_FETCH:
    case MSG_GOODBYE:
        note("%s; ", msg_type_name(msg->type));
        break;
    default: /* keys and reports about the machine */
        break;
    }
}

/* Lets the server accept another connection. */
static void on_closed(struct side *side, const struct tfe_msg *msg)
{
    side->established = side->closed = 0;
}

void node_tell(struct tfe_msg msg)
{
    assert_non_null(node.server.server.ch);
    assert_int_equal(side_send(&node.server.server, msg), 0);
    node_pass(0);
}

void node_welcome(void)
{
    node_tell((struct tfe_msg){.type = MSG_WELCOME,
                               .u.welcome = {.node = "n",
                                             .incarnation = 1,
                                             .run = 1,
                                             .ttl_ms = 9000,
                                             .fence_ms = 9000,
                                             .renew_ms = 3000,
                                             .spread_ms = 700}});
}

struct tfe_msg node_job(uint64_t assignment, const char *script, const char *fields)
{
    static char spec[1024];
    json_t *job = json_pack("{ss s[sss]}", "name", "j", "command", "sh", "-c", script);
    json_t *more = json_loads(fields, 0, NULL);
    assert_int_equal(json_object_update(job, more), 0);
    const size_t n = json_dumpb(job, spec, sizeof spec - 1, JSON_COMPACT);
    assert_in_range(n, 1, sizeof spec - 1);
    spec[n] = '\0';
    json_decref(job);
    json_decref(more);
    return (struct tfe_msg){.type = MSG_ASSIGN,
                            .u.assign = {.assignment = assignment, .run_key = "key", .spec = spec}};
}

void node_assign(uint64_t assignment, const char *script)
{
    node_tell(node_job(assignment, script, "{}"));
}

void node_release(uint64_t assignment, uint32_t within_ms, enum tfe_out out)
{
    node_tell((struct tfe_msg){
        .type = MSG_RELEASE,
        .u.release = {
            .assignment = assignment, .within_ms = within_ms, .message = "so it is", .out = out}});
}

void node_cut(void)
{
    channel_free(node.server.server.ch);
    node.server.server.ch = NULL;
    on_closed(&node.server.server, NULL);
    node_pass(0);
}

void node_reach(bool is_there, bool is_authorised)
{
    static struct token other;
    other = node.server.token;
    other.secret[0] ^= 1;
    own.info.port = is_there ? listener_port(node.server.listener) : 1;
    own.info.token = is_authorised ? &node.server.token : &other;
}

/* --- time --- */

/* Runs both loops until nothing is ready. */
static void settle(void)
{
    for (int i = 0; i < 6; i++) {
        if (!node.is_over) {
            assert_true(event_base_loop(pool_base(own.pool), EVLOOP_NONBLOCK) >= 0);
            node.is_over = event_base_got_break(pool_base(own.pool));
        }
        assert_true(event_base_loop(node.server.base, EVLOOP_NONBLOCK) >= 0);
        fake_clock_pass(node.server.base, 0);
        if (!node.is_over) {
            fake_clock_pass(pool_base(own.pool), 0);
            node.is_over = event_base_got_break(pool_base(own.pool));
        }
    }
}

void node_pass(int64_t ms)
{
    settle();
    for (int64_t step; ms > 0 && !node.is_over; ms -= step) {
        step = ms > 100 ? 100 : ms; /* the server answers meanwhile */
        fake_clock_pass(pool_base(own.pool), step);
        node.is_over = event_base_got_break(pool_base(own.pool));
        settle();
    }
}

void node_sends(const char *expected)
{
    NODE_UNTIL(strlen(node.received) >= strlen(expected));
    node_pass(0);
    assert_string_equal(node.received, expected);
    node.received[0] = '\0';
}

void node_joins(void)
{
    NODE_UNTIL(strstr(node.received, "POOL "));
    node_welcome();
    node.received[0] = '\0';
}

bool node_has(const char *name)
{
    return access(folder_path(node.folder, name), F_OK) == 0;
}

void node_works(uint64_t assignment)
{
    node_joins();
    node_assign(assignment, ": >$D/up; exec sleep 1000");
    NODE_UNTIL(node_has("up"));
    node_sends("");
}

/* --- lifetime --- */

int node_begin(void **state)
{
    memset(&node, 0, sizeof node);
    fake_clock_init();
    world_make(&node.server);
    node.server.server_params.version_min = node.server.server_params.version_max =
        PROTOCOL_VERSION;
    node.server.server.on_message = on_message;
    node.server.server.on_closed = on_closed;
    folder_make(node.folder);
    assert_int_equal(setenv("D", node.folder, 1), 0);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
    agent_settings_init(&node.settings);
    node.settings.slots = 1;
    node.settings.no_persist = true;
    node.settings.agent.node_name = "host";
    node.settings.agent.join_timeout_ms = 60000;
    node.settings.agent.preempt_grace_ms = 30000;
    node.settings.agent.monitor_interval_ms = 0;
    own.info = (struct join_info){.host = "127.0.0.1"};
    node_reach(true, true);
    return 0;
}

void node_start(uint32_t slot)
{
    static char *const options[] = {(char *)(uintptr_t) "--pool", NULL};
    static const struct rlimit cores;
    node.is_over = false;
    node.received[0] = '\0';
    own.pool = pool_new(&node.settings, &own.info, options, slot, &cores);
    assert_non_null(own.pool);
}

int node_code(void)
{
    NODE_UNTIL(node.is_over);
    const int code = pool_end(own.pool);
    own.pool = NULL;
    return code;
}

int node_end(void **state)
{
    if (own.pool) { /* the test failed */
        (void)pool_end(own.pool);
        own.pool = NULL;
    }
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    world_end(&node.server);
    folder_remove(node.folder);
    return 0;
}
