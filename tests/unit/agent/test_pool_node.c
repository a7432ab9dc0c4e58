/* tests/unit/agent/test_pool_node.c: messages and actions of a pool node from start to end. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/pool/pool_node.h"
#include "common/base/clock.h"
#include "tests/unit/agent/pool_node.h"
#include "tests/unit/folder.h"

#define FIXTURE node_begin, node_end

static void comes_and_works(void)
{
    node_pass(0);
    node_said_is("connect; ");
    node_connected();
    node_said_is("POOL host has 0 idle 0 floor 0; ");
    node_welcome();
    node_assigned(5);
    node_said_is("start; ");
    node_assigned(5); /* repeated */
    node_assigned(6); /* and what it cannot be: it works for one */
    node_said_is("");
    assert_string_equal(node.job_root, "- of j");
    node_ended(POOL_NOT_STARTED); /* caused by the job, so another one may start */
    node_said_is("FREED 5 126 it ended; ");
    assert_false(node.has_scratch);
    node_pass(0);
    node_assigned(7); /* the next assignment works like the first */
    node_said_is("start; ");
    node_released(9, 500, OUT_NOT, false);
    node_said_is("FREED 9 0 ; "); /* an assignment that it never had */
    node_released(7, 500, OUT_NOT, true);
    node_said_is("over; stop 500; ");
    node_released(7, 500, OUT_NOT, true); /* a repeated release does not shorten the grace */
    node_said_is("over; ");
    node_ended(143);
    node_said_is("FREED 7 143 it ended; ");
    node_released(7, 500, OUT_NOT, false);
    node_said_is("FREED 7 0 ; "); /* sent whether it had the assignment or not */
    node_leaves();
}

TEST_IN(pool_node, works_for_one_assignment_after_the_other)
{
    node.settings.logs.root = "/logs"; /* of the log files that stay */
    assert_int_equal(node_run(comes_and_works), 128 + SIGTERM);
}

static void is_stopped_once(void)
{
    node_works(1);
    node_released(1, 0, OUT_NOT, false);
    node_said_is("stop 45000; "); /* the machine's grace and the time of a kill */
    node_ended(143);
    node_pass(0);
    node_quiet();
    node_assigned(2);
    node_said_is("start; ");
    node_released(2, 500, OUT_NOT, false); /* the stop of the previous assignment does not apply */
    node_said_is("stop 500; ");
    node_ended(143);
    node_leaves();
}

TEST_IN(pool_node, a_stop_is_of_one_assignment)
{
    (void)node_run(is_stopped_once);
}

static void is_away(void)
{
    node_works(5);
    node_disconnected();
    node_quiet();
    node_ended(1); /* the connection is down ... */
    node_said_is("");
    node_pass(1000);
    node_quiet();
    node_connected();
    node_said_is("POOL host has 5 idle 0 floor 0; ");
    node_welcome();
    node_said_is("FREED 5 1 it ended; "); /* ... so the message is sent later */
    node_disconnected();
    node_pass(1000);
    node_quiet();
    node_connected();
    node_said_is("POOL host has 0 idle 0 floor 0; ");
    node_welcome();
    node_said_is("");
    node_leaves();
}

TEST_IN(pool_node, an_end_that_nobody_heard_is_said_once_the_connection_is_there)
{
    node.settings.idle_exit_ms = 0;
    (void)node_run(is_away);
}

static void renews(void)
{
    node_up();
    uint64_t n = 0;
    for (int64_t ms = 0; ms < 30000; ms += 100) {
        node_pass(100);
        if (node.said[0] != '\0') {
            char expected[32];
            (void)snprintf(expected, sizeof expected, "RENEW %llu; ", (unsigned long long)++n);
            node_said_is(expected);
            node_message((struct tfe_msg){.type = MSG_RENEWED, .u.renewed = {.ttl_ms = 9000}});
        }
    }
    assert_in_range(n, 10, 12); /* 80 to 100 % of a third of the lease */
    node_message((struct tfe_msg){.type = MSG_RENEWED, .u.renewed = {.ttl_ms = 9000}});
    node_pass(8999);
    assert_null(strstr(node.said, "hang up"));
    node_pass(1);
    assert_non_null(strstr(node.said, "hang up; ")); /* the server sends nothing */
    node_quiet();
    node_disconnected();
    node_pass(699);
    node_said_is("");
    node_pass(1); /* the server tells nodes to reconnect one by one */
    node_said_is("connect; ");
    node_leaves();
}

TEST_IN(pool_node, renews_and_hangs_up_on_a_silent_server)
{
    (void)node_run(renews);
}

static void renews_as_it_was_told(void)
{
    node_up();
    node_pass(1000);
    node_said_is("RENEW 1; ");
    node_leaves();
}

TEST_IN(pool_node, renews_more_often_where_that_was_wished)
{
    node.settings.agent.monitor_interval_ms = 1000;
    (void)node_run(renews_as_it_was_told);
}

static void renews_as_the_server_wants(void)
{
    node_up();
    node_pass(3000);
    node_said_is("RENEW 1; ");
    node_leaves();
}

TEST_IN(pool_node, renews_no_less_often_than_the_server_wants)
{
    node.settings.agent.monitor_interval_ms = 100000;
    (void)node_run(renews_as_the_server_wants);
}

static void comes_back_at_once(void)
{
    node_pass(0);
    node_connected();
    node_disconnected();
    node_pass(9999);
    for (int i = 0; i < 8; i++) { /* with increasing delays */
        node_disconnected();
        node_pass(5000);
    }
    assert_null(strstr(node.said, "hang up")); /* the connection is already closed */
    node_connected();
    node_welcome();
    node_disconnected();
    node_pass(700);
    node_quiet();
    node_disconnected(); /* if the first attempt fails, the next follows soon */
    node_pass(100);
    node_said_is("connect; ");
    node_leaves();
}

TEST_IN(pool_node, tries_soon_again_where_it_was_welcome)
{
    (void)node_run(comes_back_at_once);
}

static void gives_up(void)
{
    const struct tfe_mono began = clock_mono();
    node_pass(0);
    node_connected();
    node_pass(9999); /* no WELCOME ... */
    node_quiet();
    node_pass(1);
    node_said_is("hang up; "); /* ... within the timeout */
    for (int i = 0; i < 1000 && !node.is_over; i++) {
        node_disconnected();
        node_quiet();
        node_pass(5000);
    }
    assert_true(node.is_over);
    assert_in_range(clock_mono().ms - began.ms, 60000, 70000);
}

TEST_IN(pool_node, gives_up_after_its_join_timeout)
{
    assert_int_equal(node_run(gives_up), AGENT_EXIT_UNREACHED);
}

static void does_not_give_up(void)
{
    node_works(1);
    for (int i = 0; i < 100; i++) {
        node_disconnected();
        node_pass(5000);
    }
    assert_false(node.is_over);
    node_leaves();
}

TEST_IN(pool_node, works_on_while_there_is_no_server)
{
    assert_int_equal(node_run(does_not_give_up), 128 + SIGTERM);
}

static void gives_up_once_it_is_over(void)
{
    node_works(1);
    for (int i = 0; i < 13; i++) {
        node_disconnected();
        node_pass(5000);
    }
    node_ended(0);
    assert_false(node.is_over);
    node_disconnected();
    assert_true(node.is_over);
}

TEST_IN(pool_node, gives_up_once_its_job_is_over)
{
    assert_int_equal(node_run(gives_up_once_it_is_over), AGENT_EXIT_UNREACHED);
}

static void is_welcome_again(void)
{
    node_up();
    /* each failure is shorter than the limit, but together they are longer */
    for (int i = 0; i < 12; i++) {
        node_disconnected();
        node_pass(10000);
        node_connected();
        node_welcome();
    }
    assert_false(node.is_over);
    node_leaves();
}

TEST_IN(pool_node, its_join_timeout_is_of_one_absence)
{
    (void)node_run(is_welcome_again);
}

static void is_not_authorised(void)
{
    node_pass(0);
    node_disconnected_by(AGENT_LINK_UNAUTHORISED);
    node_pass(1000);
    node_disconnected_by(AGENT_LINK_UNAUTHORISED);
    assert_false(node.is_over);
    node_pass(1000);
    node_disconnected_by(AGENT_LINK_UNAUTHORISED);
    assert_true(node.is_over);
}

TEST_IN(pool_node, ends_where_its_token_opens_nothing)
{
    assert_int_equal(node_run(is_not_authorised), AGENT_EXIT_UNAUTHORISED);
}

static void was_authorised(void)
{
    node_up();
    for (int i = 0; i < 6; i++) {
        node_disconnected_by(AGENT_LINK_UNAUTHORISED);
        node_pass(1000);
    }
    assert_false(
        node.is_over); /* the token was valid before, so the server may be about to start */
    node_leaves();
}

TEST_IN(pool_node, tries_on_where_its_token_has_opened_it_before)
{
    (void)node_run(was_authorised);
}

static void starts_itself(void)
{
    node_up();
    node_assigned(1);
    node_said_is("start; ");
    node_ended(2);
    node_said_is("FREED 1 2 it ended; ");
    node.starts = false;
    node_assigned(2);
    node_said_is("FREED 2 126 no process can be started; ");
    node_leaves();
}

TEST_IN(pool_node, reports_an_agent_that_cannot_be_started)
{
    (void)node_run(starts_itself);
}

static void wants_too_much(void)
{
    node_up();
    struct tfe_msg msg = node_assign(4);
    msg.u.assign.spec.chief = true;
    node_message(msg);
    node_said_is("FREED 4 126 it wants what cannot be; ");
    node_leaves();
}

TEST_IN(pool_node, says_why_a_job_cannot_be)
{
    (void)node_run(wants_too_much);
}

static void is_drained(void)
{
    node_works(5);
    node_released(9, 100, OUT_DRAINED, false); /* stale, because it names another assignment */
    node_said_is("FREED 9 0 ; ");
    node_released(5, 100, OUT_DRAINED, false);
    node_said_is("stop 100; ");
    node_assigned(6);
    node_said_is(""); /* it still has an assignment */
    node_ended(143);
    node_said_is("FREED 5 143 it ended; GOODBYE; finish; ");
    node_assigned(7); /* it was sent before the server knew */
    node_said_is("FREED 7 143 this node leaves the pool; ");
    node_disconnected();
    assert_true(node.is_over);
}

TEST_IN(pool_node, leaves_the_pool_once_its_job_is_left)
{
    node.settings.on_finish = "poweroff";
    assert_int_equal(node_run(is_drained), 0);
    node_said_is("finish poweroff for host: drained; ");
}

static void is_evicted(void)
{
    node_up();
    node_released(0, 1, OUT_EVICTED, false);
    node_said_is("GOODBYE; finish; ");
    node_disconnected();
}

TEST_IN(pool_node, finishes_nothing_where_it_was_put_out)
{
    node.settings.on_finish = "poweroff";
    assert_int_equal(node_run(is_evicted), 0);
    node_said_is("");
}

static void is_drained_idle(void)
{
    node_works(5);
    node_released(5, 100, OUT_NOT, false);
    node_ended(143);
    node_pass(0);
    node_quiet();
    node_released(0, 100, OUT_DRAINED, false);
    node_said_is("GOODBYE; finish; ");
    node_disconnected();
    assert_true(node.is_over);
}

TEST_IN(pool_node, leaves_the_pool_though_its_last_job_was_stopped)
{
    assert_int_equal(node_run(is_drained_idle), 0);
}

static void by_two_signals(void)
{
    node_works(5);
    node_signal_comes(SIGINT);
    node_said_is("stop 45000; ");
    node_released(5, 45000, OUT_NOT, false); /* which does not count as a second signal */
    node_said_is("");
    node_signal_comes(SIGTERM);
    node_said_is("stop 45000; ");
    assert_false(node.is_over);
    node.is_dead = true; /* its descendants end a moment later */
    node_signal_comes(SIGTERM);
    assert_false(node.is_over);
    node.child.stuck(node.child.ctx); /* or never */
    assert_true(node.is_over);        /* with nothing that it had for the job */
}

TEST_IN(pool_node, a_second_signal_hurries_and_waits_for_nobody_that_does_not_die)
{
    assert_int_equal(node_run(by_two_signals), 128 + SIGINT);
}

static void by_a_late_signal(void)
{
    node_works(5);
    node_signal_comes(SIGINT);
    node.is_dead = node.is_stuck = true;
    node.child.stuck(node.child.ctx);
    assert_false(node.is_over); /* it waits, because it was told to leave in an orderly way */
    node_signal_comes(SIGTERM);
    assert_true(node.is_over);
}

TEST_IN(pool_node, a_second_signal_after_that_is_heard_at_once)
{
    assert_int_equal(node_run(by_a_late_signal), 128 + SIGINT);
}

static void ends_alone(void)
{
    node_pass(0);
    node_signal_comes(SIGHUP);
    assert_true(node.is_over); /* without a connection there is nothing to send */
    assert_null(strstr(node.said, "GOODBYE"));
}

TEST_IN(pool_node, ends_by_a_signal_where_there_is_no_server)
{
    assert_int_equal(node_run(ends_alone), 128 + SIGHUP);
}

static void has_a_name(void)
{
    node_pass(0);
    node_quiet();
    node_connected();
    node_said_is("POOL host-2 has 0 idle 5000 floor 3; ");
    node_welcome();
    struct tfe_msg msg = node_assign(1);
    msg.u.assign.spec.clean_policy = CLEAN_ALL;
    node_message(msg);
    assert_string_equal(node.job_root, "/logs of j");
    assert_true(node.neighbours);
    node_leaves();
}

TEST_IN(pool_node, each_of_several_on_a_machine_has_a_name)
{
    node.settings.slots = 3;
    node.settings.idle_exit_ms = 5000;
    node.settings.floor = 3;
    node.settings.logs.root = "/logs";
    (void)node_run_slot(has_a_name, 2);
}

TEST_IN(pool_node, the_pool_goes_with_no_option_of_a_job)
{
    struct tfe_reason reason;
    assert_int_equal(pool_check(&node.settings, 0, &reason), 0);
    assert_int_equal(pool_check(&node.settings, 1, &reason), TFE_EINVAL);
    node.settings.slots = 2;
    assert_int_equal(pool_check(&node.settings, 0, &reason), 0);
    node.settings.on_finish = "x";
    assert_int_equal(pool_check(&node.settings, 0, &reason), TFE_EINVAL);
    node.settings.on_finish = NULL;
    node.settings.address_port = 1;
    assert_int_equal(pool_check(&node.settings, 0, &reason), TFE_EINVAL);
    node.settings.slots = 1;
    assert_int_equal(pool_check(&node.settings, 0, &reason), 0);
    node.settings.standalone = true;
    assert_int_equal(pool_check(&node.settings, 0, &reason), TFE_EINVAL);
    assert_non_null(strstr(reason.text, "--standalone"));
}

/* --- notices --- */

static char folder[FOLDER_BYTES];
static const char *file; /* whose existence is a notice */

/* Runs a node that watches a file. */
static void run_warned(void (*story)(void))
{
    folder_make(folder);
    file = folder_path(folder, "goes");
    node.settings.notice.modes[FROM_FILE] = SOURCE_ON;
    (void)snprintf(node.settings.notice.file, sizeof node.settings.notice.file, "%s", file);
    (void)node_run(story);
    folder_remove(folder);
}

static void says_warnings(void)
{
    node_up();
    assert_int_equal(node.azure_ms, 5000); /* other processes of the machine poll too */
    folder_write(file, "60\n");
    node_pass(500);
    node_said_is("NOTICE preempt in 60000; ");
    node_pass(500);
    node_said_is("");
    folder_write(file, "30\n");
    node_pass(500);
    node_said_is("NOTICE preempt in 30000; ");
    assert_int_equal(remove(file), 0);
    node_pass(500);
    node_said_is("NOTICE preempt withdrawn in -1; ");
    node_leaves();
}

TEST_IN(pool_node, says_each_change_of_a_warning)
{
    run_warned(says_warnings);
}

static void does_not_know_when(void)
{
    node_up();
    folder_write(file, "");
    node_pass(500);
    node_said_is("NOTICE preempt uncertain in 30000; ");
    node_leaves();
}

TEST_IN(pool_node, has_its_grace_where_a_warning_names_no_time)
{
    run_warned(does_not_know_when);
}

static void says_warnings_again(void)
{
    node_pass(0);
    node_connected();
    node_said_is("connect; POOL host has 0 idle 0 floor 0; ");
    node_welcome();
    folder_write(file, "60\n");
    node_pass(500);
    node_quiet();
    node_disconnected();
    node_pass(700);
    node_said_is("connect; "); /* nothing is sent before WELCOME */
    node_connected();
    node_said_is(
        "POOL host has 0 idle 0 floor 0; NOTICE preempt in 59300; "); /* sent before WELCOME */
    node_welcome();
    node_said_is("");
    node_disconnected();
    assert_int_equal(remove(file), 0);
    node_pass(700);
    node_said_is("connect; ");
    node_connected();
    node_said_is("POOL host has 0 idle 0 floor 0; NOTICE preempt withdrawn in -1; ");
    node_leaves();
}

TEST_IN(pool_node, says_a_warning_with_each_word_of_itself_also_one_that_is_withdrawn)
{
    run_warned(says_warnings_again);
}

static void outlives_its_warning(void)
{
    node_up();
    folder_write(file, "1\n");
    node_pass(500);
    node_said_is("NOTICE preempt in 1000; ");
    node_pass(120999);
    assert_null(strstr(node.said, "NOTICE"));
    node_pass(1);
    assert_non_null(strstr(node.said, "NOTICE preempt withdrawn in -1; "));
    node_leaves();
}

TEST_IN(pool_node, is_warned_no_more_where_its_machine_still_lives_after_2_minutes)
{
    run_warned(outlives_its_warning);
}

static void leaves_the_rest_to_agents(void)
{
    struct sigaction now;
    node_up();
    /* no cloud is told that the node is drained, because an agent may run */
    assert_true(node.is_running);
    assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
    assert_ptr_equal(now.sa_handler, SIG_DFL);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child process exists */
    assert_int_equal(errno, ECHILD);
    node_leaves();
}

TEST_IN(pool_node, leaves_commands_and_signals_to_the_agents_of_jobs)
{
    node.settings.notice.modes[FROM_COMMAND] = node.settings.notice.modes[FROM_SIGNAL] = SOURCE_ON;
    node.settings.notice.command = "exit 0";
    node.settings.notice.signo = SIGUSR1;
    run_warned(leaves_the_rest_to_agents);
}
