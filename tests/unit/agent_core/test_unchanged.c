/* tests/unit/agent_core/test_unchanged.c: an event that is rejected, as invalid or for lack of
 * memory, leaves the state unchanged: tested for every entry point in every state of an agent. */
#include "tests/unit/agent_core/bench.h"
#include "tests/unit/agent_core/dump.h"

/* --- states of an agent --- */

static struct bench *joining(void)
{
    struct bench *b = a_bench();
    connected(b);
    return b;
}

static struct bench *joined(void)
{
    return a_joined_bench(1);
}

static struct bench *is_ready(void)
{
    struct bench *b = joined();
    prepare(b, 1);
    ports_held(b, 1);
    return b;
}

static struct bench *answering(void)
{
    struct bench *b = joined();
    hears(b, (struct tfe_msg){.type = MSG_PREPARE, .u.prepare = {.epoch = 1, .answer = true}});
    ports_held(b, 1);
    return b;
}

/* It has received the first half of a table. */
static struct bench *being_told(void)
{
    struct bench *b = is_ready();
    struct msg_row row = {.rank = 0, .host = "p", .port = 1};
    hears(b, (struct tfe_msg){.type = MSG_TABLE,
                              .u.table = {.epoch = 1, .world = 2, .rows = &row, .n_rows = 1}});
    return b;
}

static struct bench *running(void)
{
    return a_running_bench(1);
}

static struct bench *cut_off(void)
{
    struct bench *b = running();
    lost(b, AGENT_LINK_LOST);
    return b;
}

static struct bench *sweeping(void)
{
    struct bench *b = running();
    trainer_exited(b, 0, 1, 0);
    return b;
}

static struct bench *unnoted(void)
{
    struct bench *b = sweeping();
    swept(b);
    return b;
}

static struct bench *guardless(void)
{
    struct bench *b = running();
    does(b, (struct agent_event){.type = AGENT_GUARD_LOST});
    return b;
}

static struct bench *noticed(void)
{
    struct bench *b = running();
    does(b, (struct agent_event){
                .type = AGENT_NOTICE,
                .notice = {.kind = NOTICE_PREEMPT, .deadline = {b->now + 90000}, .source = "aws"}});
    return b;
}

/* It has sent GOODBYE, and the connection is not closed yet. */
static struct bench *leaving(void)
{
    struct bench *b = joined();
    signalled(b, 15);
    return b;
}

static struct bench *(*const moments[])(void) = {a_bench,    joining, joined,  is_ready, answering,
                                                 being_told, running, cut_off, sweeping, unnoted,
                                                 guardless,  noticed, leaving};
#define N_MOMENTS (sizeof(moments) / sizeof(moments[0]))

/* --- events, one per entry point --- */

#define ROWS 40
static struct msg_row many[ROWS];
static const uint16_t ports[] = {7000};
static char long_text[MSG_TAIL_MAX + 100];
static const struct msg_row jumps[] = {{0, "a", 1, TASK_WORKER, 0}, {2, "b", 1, TASK_WORKER, 0}};
static const struct msg_row turns[] = {{1, "a", 1, TASK_WORKER, 0}, {0, "b", 1, TASK_WORKER, 0}};

static void fill(void)
{
    for (uint32_t i = 0; i < ROWS; i++) {
        many[i] = (struct msg_row){.rank = i, .host = "a-host-of-some-length", .port = 7000};
    }
    memset(long_text, 'x', sizeof(long_text) - 1);
}

/* Events from a server and the shell. The TABLE of epochs 1 and 2 needs memory. */
static const struct tfe_msg said[] = {
    {.type = MSG_TABLE, .u.table = {.epoch = 1, .world = ROWS, .rows = many, .n_rows = ROWS}},
    {.type = MSG_TABLE, .u.table = {.epoch = 2, .world = ROWS, .rows = many, .n_rows = ROWS / 2}},
    {.type = MSG_TABLE, .u.table = {.epoch = 1, .world = 2, .rows = many + 1, .n_rows = 1}},
    {.type = MSG_WELCOME,
     .u.welcome = {.node = "n", .ttl_ms = 9000, .fence_ms = 90000, .renew_ms = 3000}},
    {.type = MSG_RENEWED, .u.renewed = {.number = 1, .ttl_ms = 9000, .fence_ms = 90000}},
    {.type = MSG_PREPARE, .u.prepare.epoch = 2},
    {.type = MSG_STOP, .u.stop.epoch = 1},
    {.type = MSG_START, .u.start = {.epoch = 1, .run = 1, .world = 2, .nodes = 2}},
    {.type = MSG_START, .u.start = {.epoch = 2, .run = 1, .world = 2, .nodes = 2}},
    {.type = MSG_NOTED, .u.noted.epoch = 1},
    {.type = MSG_SAVE, .u.save = {.epoch = 1, .number = 1, .within_ms = MSG_UNSET}},
    {.type = MSG_PROBE,
     .u.probe = {.probe = 3,
                 .kind = PROBE_ADDRESS,
                 .node = "x",
                 .host = "h",
                 .ports = ports,
                 .n_ports = 1}},
    {.type = MSG_LEASE_ENDED},
    {.type = MSG_FINISH, .u.finish = {.result = RESULT_FAILED, .run = 1, .sentence = long_text}},
    {.type = MSG_REFUSED, .u.refused = {.code = REFUSAL_EVICTED, .sentence = "no"}},
};
#define N_SAID (sizeof(said) / sizeof(said[0]))

static const struct agent_event done[] = {
    {.type = AGENT_TICK},
    {.type = AGENT_CONNECTED, .host = "elsewhere"},
    {.type = AGENT_DISCONNECTED, .lost.reason = long_text},
    {.type = AGENT_PORTS_HELD, .ports = {1, ports, 1}},
    {.type = AGENT_PORTS_FAILED, .reason = "in use"},
    {.type = AGENT_SPAWNED, .process.pid = 9},
    {.type = AGENT_SPAWN_FAILED, .end = {.code = 127, .tail = "not found"}},
    {.type = AGENT_TRAINER_EXITED, .end = {.code = 1, .tail = long_text}},
    {.type = AGENT_SWEPT},
    {.type = AGENT_STANDBY, .process.pid = 8},
    {.type = AGENT_LISTENING, .epoch = 1},
    {.type = AGENT_FENCED},
    {.type = AGENT_GUARD, .guard_pid = 51},
    {.type = AGENT_PROBED, .probed = {3, PROBE_REFUSED}},
    {.type = AGENT_GUARD_LOST},
    {.type = AGENT_PROGRESS, .progress.report = {.epoch = 1, .has_step = true, .step = 4}},
    {.type = AGENT_NOTICE, .notice = {.kind = NOTICE_REBALANCE, .deadline = {INT64_MAX}}},
    {.type = AGENT_SIGNAL, .signo = 2},
};
#define N_EVENTS (N_SAID + sizeof(done) / sizeof(done[0]))

static struct agent_event event_of(const struct bench *b, size_t i)
{
    struct agent_event event = {.type = AGENT_MESSAGE};
    if (i < N_SAID) {
        event.msg = &said[i];
    } else {
        event = done[i - N_SAID];
    }
    event.now.ms = b->now;
    return event;
}

/* --- tests --- */

/* Returns true if the event fails in this state when allocation number nth fails. */
static bool fails_at(size_t moment, size_t i, uint64_t nth)
{
    struct bench *b = moments[moment]();
    struct agent_event event = event_of(b, i);
    struct agent_actions actions;
    struct dump *before = dump_agent(b->a);
    b->flaky.fail_at = b->flaky.asked + nth;
    int rc = agent_step(b->a, &event, &actions);
    bool failed = b->flaky.asked >= b->flaky.fail_at;
    if (failed && rc != TFE_ENOMEM) {
        fail_msg("moment %zu event %zu allocation %d: code %d", moment, i, (int)nth, rc);
    }
    const char *changed = dump_difference(before, dump_agent(b->a));
    if (rc != 0) {
        if (changed) {
            fail_msg("moment %zu event %zu allocation %d: changed %s", moment, i, (int)nth,
                     changed);
        }
        assert_int_equal(actions.n, 0);
        assert_int_equal(actions.deadline.ms, b->deadline);
    }
    if (rc == TFE_ENOMEM) {
        assert_int_equal(agent_step(b->a, &event, &actions),
                         0); /* succeeds when repeated with memory */
    }
    bench_free(b);
    return failed;
}

TEST_IN(memory, failed_allocation_in_any_event_and_state_changes_nothing)
{
    fill();
    uint64_t failures = 0;
    for (size_t moment = 0; moment < N_MOMENTS; moment++) {
        for (size_t i = 0; i < N_EVENTS; i++) {
            uint64_t nth = 1;
            while (fails_at(moment, i, nth)) {
                nth++;
            }
            failures += nth - 1;
        }
    }
    assert_true(failures >= 2 * 3 * N_MOMENTS); /* two tables with rows, hosts and offsets */
}

TEST_IN(memory, failed_table_change_changes_nothing)
{
    fill();
    for (uint64_t nth = 1;; nth++) {
        struct bench *b = a_running_bench(1); /* it already has a table for odd epochs */
        uint64_t held = table_digest(
            (struct msg_row[]){{0, "p", 7000, TASK_WORKER, 0}, {1, "me", 7000, TASK_WORKER, 0}}, 2);
        struct tfe_msg msg = {.type = MSG_TABLE,
                              .u.table = {.epoch = 3, .world = ROWS, .base_digest = held}};
        msg.u.table.rows = many + 2;
        msg.u.table.n_rows = ROWS - 2;
        struct agent_event event = {.type = AGENT_MESSAGE, .now = {b->now}, .msg = &msg};
        struct agent_actions actions;
        struct dump *before = dump_agent(b->a);
        b->flaky.fail_at = b->flaky.asked + nth;
        int rc = agent_step(b->a, &event, &actions);
        bool is_same = !dump_difference(before, dump_agent(b->a));
        if (rc == 0) {
            assert_false(is_same);
            assert_int_equal(nth, 4);
        } else {
            assert_int_equal(rc, TFE_ENOMEM);
            assert_true(is_same);
            assert_int_equal(agent_step(b->a, &event, &actions), 0);
        }
        bench_free(b);
        if (rc == 0) {
            return;
        }
    }
}

TEST_IN(memory, failed_creation_returns_no_agent)
{
    struct bench *b = bench_new(1, 1);
    b->flaky.fail_at = 1;
    assert_int_equal(agent_new(&b->config, &b->mem, &b->a), TFE_ENOMEM);
    assert_null(b->a);
    begin(b);
}

/* Invalid in every state. */
static const struct {
    struct agent_event event;
    struct tfe_msg msg;
} senseless[] = {
    {{.type = (enum agent_event_type)99}, {0}},
    {{.type = AGENT_SPAWNED, .process.local = 1}, {0}},
    {{.type = AGENT_STANDBY, .process.local = UINT32_MAX}, {0}},
    {{.type = AGENT_PROGRESS, .progress = {1, {.epoch = 1, .saves = 3}}}, {0}},
    {{.type = AGENT_PORTS_HELD, .ports = {1, ports, 0}}, {0}},
    {{.type = AGENT_NOTICE}, {0}},
    {{.type = AGENT_NOTICE, .notice = {.kind = (enum tfe_notice)9}}, {0}},
    {{.type = AGENT_MESSAGE}, {.type = MSG_JOIN}},
    {{.type = AGENT_MESSAGE}, {.type = MSG_RENEW}},
    {{.type = AGENT_MESSAGE}, {.type = MSG_STATUS}},
    {{.type = AGENT_MESSAGE}, {.type = (enum tfe_msg_type)200}},
    {{.type = AGENT_MESSAGE},
     {.type = MSG_TABLE, .u.table = {.epoch = 1, .world = UINT32_MAX, .rows = many, .n_rows = 1}}},
    {{.type = AGENT_MESSAGE},
     {.type = MSG_TABLE, .u.table = {.epoch = 1, .world = 1, .rows = many, .n_rows = 2}}},
    {{.type = AGENT_MESSAGE},
     {.type = MSG_TABLE, .u.table = {.epoch = 1, .world = 9, .rows = many + 3, .n_rows = 2}}},
    {{.type = AGENT_MESSAGE},
     {.type = MSG_TABLE, .u.table = {.epoch = 1, .world = 9, .rows = jumps, .n_rows = 2}}},
    {{.type = AGENT_MESSAGE},
     {.type = MSG_TABLE, .u.table = {.epoch = 1, .world = 9, .rows = turns, .n_rows = 2}}},
    {{.type = AGENT_MESSAGE},
     {.type = MSG_TABLE,
      .u.table = {.epoch = 3, .world = 9, .rows = many, .n_rows = 2, .base_digest = 12345}}},
    {{.type = AGENT_MESSAGE},
     {.type = MSG_PROBE, .u.probe = {.host = "h", .ports = ports, .n_ports = 1}}},
    {{.type = AGENT_MESSAGE},
     {.type = MSG_PROBE, .u.probe = {.node = "no id", .host = "h", .ports = ports, .n_ports = 1}}},
    {{.type = AGENT_MESSAGE},
     {.type = MSG_PROBE,
      .u.probe = {.node = "x", .host = long_text, .ports = ports, .n_ports = 1}}},
    {{.type = AGENT_MESSAGE},
     {.type = MSG_PROBE, .u.probe = {.node = "x", .host = "h", .ports = ports, .n_ports = 65}}},
};

TEST_IN(sense, illegal_event_in_any_state_is_refused_without_effect)
{
    fill();
    for (size_t moment = 0; moment < N_MOMENTS; moment++) {
        struct bench *b = moments[moment]();
        for (size_t i = 0; i <= sizeof(senseless) / sizeof(senseless[0]); i++) {
            bool is_second_begin = i == sizeof(senseless) / sizeof(senseless[0]);
            struct agent_event event = {.type = AGENT_BEGIN};
            if (!is_second_begin) {
                event = senseless[i].event;
                event.msg = event.type == AGENT_MESSAGE ? &senseless[i].msg : event.msg;
            }
            event.now.ms = b->now;
            struct agent_actions actions;
            struct dump *before = dump_agent(b->a);
            int rc = agent_step(b->a, &event, &actions);
            const char *changed = dump_difference(before, dump_agent(b->a));
            if (rc != (is_second_begin ? TFE_ESTATE : TFE_EINVAL) || changed || actions.n != 0 ||
                actions.deadline.ms != b->deadline) {
                fail_msg("moment %zu row %zu: %d, changed %s", moment, i, rc,
                         changed ? changed : "nothing");
            }
        }
        bench_free(b);
    }
}

TEST_IN(sense, every_event_after_exit_is_refused)
{
    fill();
    struct bench *b = a_joined_bench(1);
    hears(b,
          (struct tfe_msg){.type = MSG_FINISH, .u.finish = {.result = RESULT_SUCCEEDED, .run = 1}});
    assert_true(b->over);
    for (size_t i = 0; i < N_EVENTS; i++) {
        struct agent_event event = event_of(b, i);
        struct agent_actions actions;
        struct dump *before = dump_agent(b->a);
        assert_int_equal(agent_step(b->a, &event, &actions), TFE_ESTATE);
        assert_null(dump_difference(before, dump_agent(b->a)));
    }
}
