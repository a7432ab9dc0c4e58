/* tests/unit/agent/test_watchdogs.c: trainers that join the cluster late or stop reporting, with
 * a simulated clock and connections of this machine. */
#include <arpa/inet.h>
#include <event2/event.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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
    int listener; /* at all addresses */
    uint16_t port;
    int peers[NODES]; /* such a process lives until this pipe closes */
    int accepted[NODES];
    size_t n_peers;
    int own[2]; /* both ends of a connection of this process to itself; 0 if there is none */
    int late;
    uint32_t local;
    char reason[MSG_SENTENCE_MAX];
} now;

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

/* --- connections --- */

static struct sockaddr_in address(const char *host, uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_addr.s_addr = inet_addr(host), .sin_port = htons(port)};
}

static int connect_from(const char *host)
{
    const struct sockaddr_in from = address(host, 0);
    const struct sockaddr_in to = address("127.0.0.1", now.port);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Connects from this address of another node: a process that is no descendant of this one. */
static void peer_connect(const char *host)
{
    int lives[2];
    assert_int_equal(pipe2(lives, O_CLOEXEC), 0);
    const pid_t pid = fork();
    if (pid == 0 && fork() == 0) {
        char ignored;
        (void)dup2(lives[0], 0);
        closefrom(3);
        (void)connect_from(host);
        (void)!read(0, &ignored, 1);
    }
    if (pid == 0) {
        _exit(0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(lives[0]);
    now.peers[now.n_peers] = lives[1];
    now.accepted[now.n_peers++] = accept(now.listener, NULL, NULL);
}

static void peers_end(void)
{
    char ignored;
    for (size_t i = 0; i < now.n_peers; i++) {
        close(now.peers[i]);
        assert_int_equal(read(now.accepted[i], &ignored, 1), 0);
        close(now.accepted[i]);
    }
    now.n_peers = 0;
}

static void own_connect(void)
{
    now.own[0] = connect_from("127.0.0.1");
    now.own[1] = accept(now.listener, NULL, NULL);
}

/* --- the watch --- */

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
    struct sockaddr_in at = address("0.0.0.0", 0);
    socklen_t n = sizeof at;
    now.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(now.listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(now.listener, NODES), 0);
    assert_int_equal(getsockname(now.listener, (struct sockaddr *)&at, &n), 0);
    now.port = ntohs(at.sin_port);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    watch_free(now.watch);
    event_base_free(now.base);
    peers_end();
    for (size_t i = 0; i < 2 && now.own[i]; i++) {
        close(now.own[i]);
    }
    close(now.listener);
    return 0;
}

#define FIXTURE setup, teardown

/* Creates the node of rank 0, with nproc trainers, and two nodes of one trainer each. */
static void begin(uint32_t nproc)
{
    const struct msg_row rows[] = {{.host = "127.0.0.1", .port = now.port},
                                   {.host = "127.0.0.2", .port = now.port},
                                   {.host = "127.0.0.3", .port = now.port}};
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

TEST_IN(watchdogs, silent_trainer_is_late_and_a_step_counts_as_activity)
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

TEST_IN(watchdogs, lost_connection_after_the_rendezvous_is_not_late)
{
    now.settings.start_timeout_ms = 1000;
    peer_connect("127.0.0.2");
    peer_connect("127.0.0.3");
    begin(1);
    watch_listens(now.watch, 0);
    pass(500);
    peers_end();
    watch_listens(now.watch, 0);
    pass(2000);
    assert_int_equal(now.late, 0);
}

/* Bug: a hang before the trainer listened was never detected. */
TEST_IN(watchdogs, idle_trainer_that_never_listens_is_late)
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

TEST_IN(watchdogs, time_counts_from_late_listening)
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

TEST_IN(watchdogs, steps_without_cluster_connection_mean_training_alone)
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

TEST_IN(watchdogs, listening_or_connected_trainer_does_not_train_alone)
{
    begin(1);
    watch_listens(now.watch, 0);
    watch_stepped(now.watch, 0);
    pass(10000);
    watch_free(now.watch);
    own_connect();
    begin(1);
    watch_strategy_made(now.watch, 0);
    pass(10000);
    assert_int_equal(n_alone, 0);
}

/* TensorFlow's worker 0 also connects to itself. */
TEST_IN(watchdogs, own_connection_counts_for_no_rank)
{
    now.settings.start_timeout_ms = 1000;
    own_connect();
    peer_connect("127.0.0.2");
    begin(1);
    watch_listens(now.watch, 0);
    pass(999);
    assert_int_equal(now.late, 0);
    pass(1);
    assert_int_equal(now.late, 1);
    assert_string_equal(now.reason, "rank 2 never connected to rank 0");
    watch_listens(now.watch, 0); /* another report for a different missing trainer */
    peers_end();
    peer_connect("127.0.0.3");
    pass(1000);
    assert_int_equal(now.late, 2);
    assert_string_equal(now.reason, "rank 1 never connected to rank 0");
}

/* Creates a worker of a job with ps whose trainer listens. */
static void serve(bool is_again)
{
    const struct msg_row rows[] = {
        {.host = "127.0.0.2", .port = now.port, .role = TASK_CHIEF},
        {.rank = 1, .host = "127.0.0.1", .port = now.port, .role = TASK_WORKER, .first = 1},
        {.rank = 2, .host = "127.0.0.3", .port = now.port, .role = TASK_PS, .first = 2}};
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

TEST_IN(watchdogs, ps_without_a_connected_chief_is_late)
{
    serve(false);
    pass(2249); /* the others' duration plus a quarter and one second */
    assert_int_equal(now.late, 0);
    pass(1);
    assert_int_equal(now.late, 1);
    assert_non_null(
        strstr(now.reason,
               "no chief connected within --start-timeout: the chief's script does not create"));
}

TEST_IN(watchdogs, ps_with_a_connected_chief_is_not_late)
{
    peer_connect("127.0.0.2");
    serve(false);
    pass(60000);
    assert_int_equal(now.late, 0);
}

/* Bug: while another slot is empty the chief accepts no worker again, and the agent killed
 * the worker for it. */
TEST_IN(watchdogs, restarted_worker_waits_for_its_chief_without_limit)
{
    serve(true);
    pass(60000);
    assert_int_equal(now.late, 0);
}
