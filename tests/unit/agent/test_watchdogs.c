/* tests/unit/agent/test_watchdogs.c: trainers that join the cluster late or stop reporting, with
 * a simulated clock and simulated connections. */
#include <arpa/inet.h>
#include <event2/event.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/proc.h"
#include "agent/trainer/watchdog.h"
#include "common/message/msg.h"
#include "tests/unit/fake_clock.h"
#include "tests/unit/test_runner.h"

enum { NODES = 3 };

static struct {
    struct event_base *base;
    struct watch *watch;
    struct watch_settings settings;
    uint64_t printed[2];
    const char *from[NODES]; /* addresses connected to rank 0 */
    size_t n_from;
    size_t n_own; /* connections from this node */
    int late;
    uint32_t local;
    char reason[MSG_SENTENCE_MAX];
} now;

size_t __wrap_proc_connections(const struct proc_connections *which, proc_connection_fn *each,
                               void *ctx);
size_t __wrap_proc_connections(const struct proc_connections *which, proc_connection_fn *each,
                               void *ctx)
{
    for (size_t i = 0; each && i < now.n_from; i++) {
        each(ctx, (struct in_addr){inet_addr(now.from[i])});
    }
    return which->local_port ? now.n_from : now.n_own;
}

size_t __wrap_proc_connections_of(pid_t root, const struct proc_connections *which);
size_t __wrap_proc_connections_of(pid_t root, const struct proc_connections *which)
{
    (void)root;
    (void)which;
    return now.n_own;
}

static uint64_t on_printed(void *ctx, uint32_t local)
{
    (void)ctx;
    return now.printed[local];
}

static void on_late(void *ctx, uint32_t local, enum tfe_ending how, const char *reason)
{
    (void)ctx;
    (void)how;
    now.late++;
    now.local = local;
    (void)snprintf(now.reason, sizeof now.reason, "%s", reason);
}

static int n_alone;

static void on_alone(void *ctx, uint32_t local, const char *reason)
{
    (void)ctx;
    (void)local;
    (void)reason;
    n_alone++;
}

static int setup(void **state)
{
    n_alone = 0;
    (void)state;
    memset(&now, 0, sizeof now);
    fake_clock_init();
    now.base = event_base_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    watch_free(now.watch);
    event_base_free(now.base);
    return 0;
}

#define FIXTURE setup, teardown

/* Creates the node of rank 0, with nproc trainers, and two nodes of one trainer each. */
static void begin(uint32_t nproc)
{
    static const struct msg_row rows[] = {{.host = "10.0.0.1", .port = 4000},
                                          {.host = "10.0.0.2", .port = 4000},
                                          {.host = "10.0.0.3", .port = 4000}};
    now.watch = watch_new(&(struct watch_options){.base = now.base,
                                                  .settings = &now.settings,
                                                  .nproc = nproc,
                                                  .printed = on_printed,
                                                  .late = on_late,
                                                  .alone = on_alone});
    watch_begin(now.watch, &(struct agent_place){.n = nproc, .rows = rows, .n_rows = NODES});
    for (uint32_t i = 0; i < nproc; i++) {
        watch_spawned(now.watch, i, getpid());
    }
}

static void pass(int64_t ms)
{
    fake_clock_pass(now.base, ms);
}

TEST_IN(watchdogs, of_two_the_silent_one_is_late_and_a_step_is_no_silence)
{
    now.settings.progress_timeout_ms = 1000;
    begin(2);
    pass(900);
    watch_stepped(now.watch, 0);
    watch_stepped(now.watch, 1);
    pass(900);
    assert_int_equal(now.late, 0);
    watch_stepped(now.watch, 0);
    pass(250);
    assert_int_equal(now.late, 1);
    assert_int_equal(now.local, 1);
    now.printed[0] = now.printed[1] = 7;
    pass(1000);
    assert_int_equal(now.late, 1);
}

TEST_IN(watchdogs, who_has_met_once_is_not_late_when_a_connection_goes)
{
    now.settings.start_timeout_ms = 1000;
    now.from[0] = "10.0.0.2";
    now.from[1] = "10.0.0.3";
    now.n_from = 2;
    begin(1);
    watch_listens(now.watch, 0);
    pass(500);
    now.n_from = 0;
    watch_listens(now.watch, 0);
    pass(2000);
    assert_int_equal(now.late, 0);
}

/* Bug: a hang before the trainer listened was never detected. */
TEST_IN(watchdogs, who_never_listens_and_does_nothing_is_late)
{
    now.settings.start_timeout_ms = 10000;
    begin(1);
    pass(60000);
    assert_int_equal(now.late, 0); /* it loads data */
    watch_set_idle(now.watch, true);
    pass(3000);
    assert_int_equal(now.late, 1);
    assert_string_equal(now.reason, "rank 0 neither listens nor has a connection to rank 0");
}

TEST_IN(watchdogs, who_listens_late_has_the_time_from_then_on)
{
    now.settings.start_timeout_ms = 10000;
    begin(1);
    pass(60000);
    watch_listens(now.watch, 0);
    watch_set_idle(now.watch, true); /* it waits for its peers */
    pass(9000);
    assert_int_equal(now.late, 0);
    pass(2000);
    assert_int_equal(now.late, 1);
}

TEST_IN(watchdogs, who_tells_steps_without_its_cluster_trains_alone)
{
    begin(1);
    watch_stepped(now.watch, 0);
    pass(4900);
    assert_int_equal(n_alone, 0);
    pass(200);
    assert_int_equal(n_alone, 1);
    watch_stepped(now.watch, 0);
    pass(10000);
    assert_int_equal(n_alone, 1); /* only one report */
}

TEST_IN(watchdogs, who_has_listened_or_is_connected_does_not_train_alone)
{
    begin(1);
    watch_listens(now.watch, 0);
    watch_stepped(now.watch, 0);
    pass(10000);
    watch_free(now.watch);
    now.n_own = 1;
    begin(1);
    watch_strategy_made(now.watch, 0);
    pass(10000);
    assert_int_equal(n_alone, 0);
}

/* TensorFlow's worker 0 also connects to itself. */
TEST_IN(watchdogs, a_connection_of_its_own_stands_for_nobody)
{
    now.settings.start_timeout_ms = 1000;
    now.from[0] = "10.0.0.1";
    now.from[1] = "10.0.0.2";
    now.n_from = 2;
    now.n_own = 1;
    begin(1);
    watch_listens(now.watch, 0);
    pass(999);
    assert_int_equal(now.late, 0);
    pass(1);
    assert_int_equal(now.late, 1);
    assert_string_equal(now.reason, "rank 2 never connected to rank 0");
    watch_listens(now.watch, 0); /* another report for a different missing trainer */
    now.from[1] = "10.0.0.3";
    pass(1000);
    assert_int_equal(now.late, 2);
    assert_string_equal(now.reason, "rank 1 never connected to rank 0");
}

/* Creates a worker of a job with ps whose trainer listens. */
static void serve(bool is_again)
{
    static const struct msg_row rows[] = {
        {.host = "10.0.0.1", .port = 4000, .role = TASK_CHIEF},
        {.rank = 1, .host = "10.0.0.2", .port = 4000, .role = TASK_WORKER, .first = 1},
        {.rank = 2, .host = "10.0.0.3", .port = 4000, .role = TASK_PS, .first = 2}};
    now.settings.start_timeout_ms = 1000;
    now.watch = watch_new(&(struct watch_options){.base = now.base,
                                                  .settings = &now.settings,
                                                  .nproc = 1,
                                                  .printed = on_printed,
                                                  .late = on_late});
    watch_begin(now.watch, &(struct agent_place){.rank = 1,
                                                 .n = 1,
                                                 .rows = rows,
                                                 .n_rows = NODES,
                                                 .own = rows[1],
                                                 .is_again = is_again});
    watch_spawned(now.watch, 0, getpid());
    watch_listens(now.watch, 0);
}

TEST_IN(watchdogs, a_server_to_which_no_chief_connects_is_late)
{
    serve(false);
    pass(2249); /* the others' duration plus a quarter and one second */
    assert_int_equal(now.late, 0);
    pass(1);
    assert_int_equal(now.late, 1);
    assert_non_null(strstr(now.reason, "no chief has connected to it within --start-timeout: this "
                                       "seems to be no script for --ps"));
}

TEST_IN(watchdogs, a_server_to_which_a_chief_has_connected_is_not_late)
{
    now.from[0] = "10.0.0.1";
    now.n_from = 1;
    serve(false);
    pass(60000);
    assert_int_equal(now.late, 0);
}

/* Bug: while another slot is empty the chief accepts no worker again, and the agent killed
 * the worker for it. */
TEST_IN(watchdogs, a_worker_that_was_started_again_waits_for_its_chief_as_long_as_it_takes)
{
    serve(true);
    pass(600000);
    assert_int_equal(now.late, 0);
}
