/* tests/unit/agent/test_pool_node.c: messages and actions of a pool node from start to end. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "agent/pool/child.h"
#include "agent/pool/pool_node.h"
#include "common/base/clock.h"
#include "tests/unit/agent/pool_node.h"

#define FIXTURE node_begin, node_end

/* Lets an idle node leave, or one whose job waits for a signal. */
static void leave(int signo)
{
    assert_int_equal(raise(signo), 0);
    assert_int_equal(node_code(), 128 + signo);
}

TEST_IN(pool_node, assignment_after_assignment_is_run_and_freed_once)
{
    node_start(0);
    node_sends("POOL host has 0 idle 0 floor 0; ");
    node_welcome();
    node_assign(
        5, "printf 'it ended\n' >/proc/self/fd/$TFE_WORDS_FD; : >$D/up; while [ ! -e $D/go ]; do "
           "sleep 0.01; done; exit 9");
    node_assign(5, "exit 1"); /* repeated */
    node_assign(6, "exit 1"); /* ignored, because the node works for one assignment at a time */
    NODE_UNTIL(node_has("up"));
    folder_write(folder_path(node.folder, "go"), "");
    node_sends("FREED 5 9 it ended; ");
    node_assign(7, ": >$D/again; exec sleep 1000");
    NODE_UNTIL(node_has("again"));
    node_release(9, 500, OUT_NOT); /* an assignment that it never had */
    node_sends("FREED 9 0 ; ");
    node_release(7, 500000, OUT_NOT);
    node_sends("FREED 7 143 ; ");
    node_release(7, 500, OUT_NOT);
    node_sends("FREED 7 0 ; "); /* sent whether it had the assignment or not */
    leave(SIGTERM);
}

TEST_IN(pool_node, repeated_release_of_an_assignment_is_not_urgent)
{
    node_start(0);
    node_joins();
    for (unsigned i = 1; i <= 2; i++) {
        char expected[32];
        const uint32_t within_ms = i == 1 ? 45000 : 500; /* 0: the machine's grace and a kill */
        (void)unlink(folder_path(node.folder, "up"));
        node_assign(i, "trap '' TERM; : >$D/up; while :; do sleep 0.01; done");
        NODE_UNTIL(node_has("up"));
        node_release(i, i == 1 ? 0 : within_ms, OUT_NOT);
        node_release(i, 1, OUT_NOT);
        node_pass(within_ms - 1);
        node_sends("");
        node_pass(1);
        (void)snprintf(expected, sizeof expected, "FREED %u 130 ; ", i);
        node_sends(expected);
    }
    leave(SIGTERM);
}

TEST_IN(pool_node, end_without_connection_is_reported_on_the_next)
{
    node_start(0);
    node_joins();
    node_assign(5, ": >$D/up; while [ ! -e $D/go ]; do sleep 0.01; done; : >$D/done; exit 1");
    NODE_UNTIL(node_has("up"));
    node_cut();
    folder_write(folder_path(node.folder, "go"), "");
    NODE_UNTIL(node_has("done"));
    node_pass(1000);
    node_sends("POOL host has 5 idle 0 floor 0; ");
    node_welcome();
    node_sends("FREED 5 1 ; ");
    node_cut();
    node_pass(1000);
    node_sends("POOL host has 0 idle 0 floor 0; ");
    node_welcome();
    node_sends("");
    leave(SIGTERM);
}

TEST_IN(pool_node, lease_is_renewed_and_a_silent_server_disconnected)
{
    node_start(0);
    node_joins();
    node_pass(30000);
    assert_in_range(node.renewals, 8, 12); /* 80 to 120 % of a third of the lease */
    for (const unsigned n = node.renewals; node.renewals == n;) {
        node_pass(1);
    }
    node.server_is_silent = true;
    node_pass(8999);
    assert_non_null(node.server.server.ch);
    node_pass(1);
    NODE_UNTIL(!node.server.server.ch);
    node.received[0] = '\0';
    node_pass(99); /* nodes reconnect at random times within the server's spread */
    node_sends("");
    node_pass(601);
    node_sends("POOL host has 0 idle 0 floor 0; ");
    leave(SIGTERM);
}

TEST_IN(pool_node, monitor_interval_only_shortens_the_renewals)
{
    for (int i = 0; i < 2; i++) {
        node.settings.agent.monitor_interval_ms = i == 0 ? 1000 : 100000;
        node_start(0);
        node_joins();
        node.renewals = 0;
        node_pass(i == 0 ? 1000 : 3600);
        assert_int_equal(node.renewals, 1);
        leave(SIGTERM);
    }
}

/* Lets some connection attempts fail. */
static void fail_to_connect(int attempts)
{
    node_reach(false, true);
    for (int i = 0; i < attempts && !node.is_over; i++) {
        node_pass(5000);
    }
}

TEST_IN(pool_node, join_timeout_counts_per_absence_and_not_during_a_job)
{
    const struct tfe_mono began = clock_mono();
    node_start(0);
    NODE_UNTIL(node.received[0] != '\0');
    node_pass(9990); /* no WELCOME ... */
    assert_non_null(node.server.server.ch);
    node_pass(10); /* ... within the timeout */
    NODE_UNTIL(!node.server.server.ch);
    fail_to_connect(1000);
    assert_int_equal(node_code(), AGENT_EXIT_UNREACHED);
    assert_in_range(clock_mono().ms - began.ms, 60000, 70000);

    node_reach(true, true);
    node_start(0);
    node_joins();
    /* each absence is shorter than the timeout, but together they are longer */
    for (int i = 0; i < 8; i++) {
        node_cut();
        fail_to_connect(2);
        node_reach(true, true);
        node_pass(5000);
        node_joins();
    }
    node_assign(1, ": >$D/up; while [ ! -e $D/go ]; do sleep 0.01; done");
    NODE_UNTIL(node_has("up"));
    node_cut();
    fail_to_connect(100);
    assert_false(node.is_over);
    folder_write(folder_path(node.folder, "go"), "");
    NODE_UNTIL((node_pass(5000), node.is_over));
    assert_int_equal(node_code(), AGENT_EXIT_UNREACHED);
}

TEST_IN(pool_node, rejected_token_ends_a_node_that_was_never_connected)
{
    const struct tfe_mono began = clock_mono();
    node_reach(true, false);
    node_start(0);
    NODE_UNTIL((node_pass(100), node.is_over));
    assert_in_range(clock_mono().ms - began.ms, 2000, 3000); /* three attempts */
    assert_int_equal(node_code(), AGENT_EXIT_UNAUTHORISED);

    /* the token was valid before, so another server may be about to start */
    node_reach(true, true);
    node_start(0);
    node_joins();
    node_reach(true, false);
    node_cut();
    node_pass(10000);
    assert_false(node.is_over);
    leave(SIGTERM);
}

TEST_IN(pool_node, job_that_cannot_start_is_freed_with_a_reason)
{
    node_start(0);
    node_joins();
    node_tell(node_job(4, "exit 0", "{\"options\": {\"token\": \"x\"}}"));
    node_sends("FREED 4 126 options: token: not an option of tfe-agent that a job may set; ");
    struct tfe_msg msg = node_job(5, "exit 0", "{}");
    msg.u.assign.spec = "{\"name\": \"j\"";
    node_tell(msg);
    node_sends("FREED 5 126 the job is not valid JSON: '}' expected near end of file; ");
    leave(SIGTERM);
}

TEST_IN(pool_node, files_are_requested_on_each_connection_until_the_job_is_released)
{
    node_start(0);
    node_joins();
    node_tell(node_job(3, "exit 0",
                       "{\"source\": {\"bundle\": "
                       "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}}"));
    NODE_UNTIL(strstr(node.received, "FETCH; "));
    node.received[0] = '\0';
    node_cut();
    node_pass(1000);
    node_sends("POOL host has 3 idle 0 floor 0; ");
    node_welcome();
    NODE_UNTIL(strstr(node.received, "FETCH; "));
    node.received[0] = '\0';
    node_release(3, 100, OUT_NOT);
    NODE_UNTIL(strstr(node.received, "FREED 3 143 "));
    leave(SIGTERM);
}

TEST_IN(pool_node, drained_node_leaves_after_its_job_and_runs_the_finish_command)
{
    char command[128];
    (void)snprintf(command, sizeof command, "echo $TFE_FINISH $TFE_NODE_NAME >%s/finished",
                   node.folder);
    node.settings.on_finish = command;
    node_start(0);
    node_works(5);
    node_release(9, 100000, OUT_DRAINED); /* stale, because it names another assignment */
    node_sends("FREED 9 0 ; ");
    node_release(5, 100000, OUT_DRAINED);
    node_sends("FREED 5 143 ; GOODBYE; ");
    assert_int_equal(node_code(), 0);
    char line[32] = "";
    FILE *file = fopen(folder_path(node.folder, "finished"), "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    assert_int_equal(fclose(file), 0);
    assert_string_equal(line, "drained host\n");
}

TEST_IN(pool_node, evicted_node_stops_at_once)
{
    node.settings.on_finish = "touch $D/finished";
    node_start(0);
    node_works(5);
    node_release(5, 100000, OUT_NOT);
    node_sends("FREED 5 143 ; ");
    node_release(0, 1, OUT_EVICTED); /* although its last job was stopped */
    node_sends("GOODBYE; ");
    assert_int_equal(node_code(), 0);
    assert_false(node_has("finished"));
}

TEST_IN(pool_node, second_signal_ends_the_job_urgently_within_a_limit)
{
    node_start(0);
    node_joins();
    /* a process below a guard, which the node leaves to it */
    node_assign(
        5, "ln -s /bin/sh $D/tfe-guard; setsid $D/tfe-guard -c 'sh -c \": >$D/below; while [ ! "
           "-e $D/go ]; do sleep 0.02; done\"; :' & trap '' TERM; : >$D/up; "
           "while :; do sleep 0.01; done");
    NODE_UNTIL(node_has("up") && node_has("below"));
    assert_int_equal(raise(SIGINT), 0);
    node_release(5, 45000, OUT_NOT); /* does not count as a second signal */
    node_pass(40000);
    assert_false(node.is_over);
    assert_int_equal(raise(SIGTERM), 0);
    NODE_UNTIL((node_pass(500), node.is_over));
    assert_int_equal(node_code(), 128 + SIGINT);
    folder_write(folder_path(node.folder, "go"), "");
    while (waitpid(-1, NULL, 0) > 0) {
    }
}

TEST_IN(pool_node, signal_without_a_server_ends_it_at_once)
{
    node_reach(false, true);
    node_start(0);
    node_pass(0);
    leave(SIGHUP);
}

TEST_IN(pool_node, slot_is_part_of_its_name)
{
    node.settings.slots = 3;
    node.settings.idle_exit_ms = 5000;
    node.settings.floor = 3;
    node_start(2);
    node_sends("POOL host-2 has 0 idle 5000 floor 3; ");
    leave(SIGTERM);
}

TEST(pool_node, option_of_a_job_is_refused)
{
    static struct agent_settings settings;
    struct tfe_reason reason;
    agent_settings_init(&settings);
    settings.slots = 1;
    assert_int_equal(pool_check(&settings, 0, &reason), 0);
    assert_int_equal(pool_check(&settings, 1, &reason), TFE_EINVAL);
    settings.slots = 2;
    assert_int_equal(pool_check(&settings, 0, &reason), 0);
    settings.on_finish = "x";
    assert_int_equal(pool_check(&settings, 0, &reason), TFE_EINVAL);
    settings.on_finish = NULL;
    settings.address_port = 1;
    assert_int_equal(pool_check(&settings, 0, &reason), TFE_EINVAL);
    settings.slots = 1;
    assert_int_equal(pool_check(&settings, 0, &reason), 0);
    settings.standalone = true;
    assert_int_equal(pool_check(&settings, 0, &reason), TFE_EINVAL);
    assert_non_null(strstr(reason.text, "--standalone"));
}

/* --- notices --- */

static const char *file; /* its existence is a notice */

static void start_watching(void)
{
    file = folder_path(node.folder, "goes");
    node.settings.notice.modes[FROM_FILE] = SOURCE_ON;
    (void)snprintf(node.settings.notice.file, sizeof node.settings.notice.file, "%s", file);
    node_start(0);
}

TEST_IN(pool_node, each_change_of_a_notice_is_sent)
{
    start_watching();
    node_joins();
    folder_write(file, "60\n");
    node_pass(500);
    node_sends("NOTICE preempt in 60000; ");
    node_pass(500);
    node_sends("");
    folder_write(file, "30\n");
    node_pass(500);
    node_sends("NOTICE preempt in 30000; ");
    assert_int_equal(remove(file), 0);
    node_pass(500);
    node_sends("NOTICE preempt withdrawn in -1; ");
    folder_write(file, "");
    node_pass(500);
    node_sends("NOTICE preempt uncertain in 30000; "); /* a notice without a time: the grace */
    leave(SIGTERM);
}

TEST_IN(pool_node, notice_follows_each_pool_message_also_if_it_is_withdrawn)
{
    start_watching();
    node_joins();
    folder_write(file, "60\n");
    node_pass(500);
    node_sends("NOTICE preempt in 60000; ");
    node_cut();
    node_pass(1000); /* it reconnects after 100 to 700 ms */
    NODE_UNTIL(strstr(node.received, "NOTICE "));
    int left_ms;
    assert_int_equal(
        sscanf(node.received, "POOL host has 0 idle 0 floor 0; NOTICE preempt in %d; ", &left_ms),
        1);
    assert_in_range(left_ms, 59000, 59900);
    node.received[0] = '\0';
    node_welcome(); /* after both */
    node_sends("");
    node_cut();
    assert_int_equal(remove(file), 0);
    node_pass(1000); /* it may reconnect before it sees that the file is gone */
    NODE_UNTIL(strstr(node.received, "NOTICE preempt withdrawn in -1; "));
    node.received[0] = '\0';
    leave(SIGTERM);
}

TEST_IN(pool_node, notice_survived_by_2_minutes_is_withdrawn)
{
    start_watching();
    node_joins();
    folder_write(file, "1\n");
    node_pass(500);
    node_sends("NOTICE preempt in 1000; ");
    node_pass(120000);
    node_sends("");
    node_pass(1000);
    node_sends("NOTICE preempt withdrawn in -1; ");
    leave(SIGTERM);
}

TEST_IN(pool_node, command_and_signal_sources_run_in_the_agents_of_jobs)
{
    struct sigaction now;
    node.settings.notice.modes[FROM_COMMAND] = node.settings.notice.modes[FROM_SIGNAL] = SOURCE_ON;
    node.settings.notice.command = "exit 0";
    node.settings.notice.signo = SIGUSR1;
    start_watching();
    node_joins();
    assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
    assert_ptr_equal(now.sa_handler, SIG_DFL);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child process exists */
    assert_int_equal(errno, ECHILD);
    leave(SIGTERM);
}
