/* tests/unit/limbs/test_pool_node.c: what a node of the pool says and does, from its start to its
 * end. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/pool/check.h"
#include "agent/pool/pool.h"
#include "common/net/clock.h"
#include "tests/unit/folder.h"
#include "tests/unit/limbs/pool_node.h"

#define FIXTURE node_begin, node_end

static int run(void (*story)(void))
{
    return node_run_slot(story, 0);
}

static void said_is(const char *expected)
{
    assert_string_equal(node.said, expected);
    node.said[0] = '\0';
}

static void quiet(void)
{
    node.said[0] = '\0';
}

/* The one that waits says that it lives. */
static void warm(void)
{
    node.child.said(node.child.ctx, &(struct await_said){.standby = WARMTH_WARM});
}

/* It is up, and an agent waits below it. */
static void up(void)
{
    node_pass(0);
    node_connected();
    node_welcome();
    if (node.has_child) {
        warm();
    }
    quiet();
}

/* It works for that, by the one that waited. */
static void works(uint64_t assignment)
{
    up();
    node_assigned(assignment);
    said_is("give; ");
}

/* It ends by a signal: nothing is left, and so it leaves. */
static void leaves(void)
{
    if (node.has_child) {
        node_signal_comes(SIGTERM);
        node_ended(143);
    } else {
        node_signal_comes(SIGTERM);
    }
    node_disconnected();
    assert_true(node.is_over);
}

static void comes_and_works(void)
{
    node_pass(0);
    said_is("connect; wait; ");
    node_connected();
    said_is("POOL host has 0 idle 0 floor 0; ");
    node_welcome();
    warm();
    node_assigned(5);
    said_is("give; ");
    node_assigned(5); /* again */
    node_assigned(6); /* and what it cannot be: it works for one */
    said_is("");
    assert_string_equal(node.job_root, "- of j");
    node_ended(POOL_NOT_STARTED); /* by what the job is: another may well begin */
    said_is("FREED 5 126 it ended; ");
    assert_false(node.has_scratch);
    node_pass(0);
    said_is("wait; ");
    node_assigned(7); /* the next one, as the first */
    said_is("give; ");
    node_released(9, 500, OUT_NOT, false);
    said_is("FREED 9 0 ; "); /* that it never had */
    node_released(7, 500, OUT_NOT, true);
    said_is("over; stop 500; ");
    node_released(7, 500, OUT_NOT, true); /* said again it hurries nobody */
    said_is("over; ");
    node_ended(143);
    said_is("FREED 7 143 it ended; ");
    node_released(7, 500, OUT_NOT, false);
    said_is("FREED 7 0 ; "); /* whether it had it or not */
    leaves();
}

TEST_IN(pool_node, works_for_one_assignment_after_the_other)
{
    node.settings.logs.root = "/logs"; /* where they stay */
    assert_int_equal(run(comes_and_works), 128 + SIGTERM);
}

static void is_stopped_once(void)
{
    works(1);
    node_released(1, 0, OUT_NOT, false);
    said_is("stop 45000; "); /* the machine's grace and what a kill takes */
    node_ended(143);
    node_pass(0);
    quiet();
    node_assigned(2);
    said_is("give; ");
    node_released(2, 500, OUT_NOT, false); /* the stop of the one before is of the past */
    said_is("stop 500; ");
    node_ended(143);
    leaves();
}

TEST_IN(pool_node, a_stop_is_of_one_assignment)
{
    (void)run(is_stopped_once);
}

static void is_away(void)
{
    works(5);
    node_disconnected();
    quiet();
    node_ended(1); /* nobody hears of it now … */
    said_is("");
    node_pass(1000);
    quiet();
    node_connected();
    said_is("POOL host has 5 idle 0 floor 0; ");
    node_welcome();
    said_is("FREED 5 1 it ended; "); /* … but then */
    node_disconnected();
    node_pass(1000);
    quiet();
    node_connected();
    said_is("POOL host has 0 idle 0 floor 0; ");
    node_welcome();
    said_is("");
    leaves();
}

TEST_IN(pool_node, an_end_that_nobody_heard_is_said_once_the_connection_is_there)
{
    node.settings.idle_exit_ms = 0;
    (void)run(is_away);
}

static void renews(void)
{
    up();
    uint64_t n = 0;
    for (int64_t ms = 0; ms < 30000; ms += 100) {
        node_pass(100);
        if (node.said[0] != '\0') {
            char expected[32];
            (void)snprintf(expected, sizeof expected, "RENEW %llu; ", (unsigned long long)++n);
            said_is(expected);
            node_message((struct tfe_msg){.type = MSG_RENEWED, .u.renewed = {.ttl_ms = 9000}});
        }
    }
    assert_in_range(n, 10, 12); /* 80 to 100 % of a third of the lease */
    node_message((struct tfe_msg){.type = MSG_RENEWED, .u.renewed = {.ttl_ms = 9000}});
    node_pass(8999);
    assert_null(strstr(node.said, "hang up"));
    node_pass(1);
    assert_non_null(strstr(node.said, "hang up; ")); /* it is silent */
    quiet();
    node_disconnected();
    node_pass(699);
    said_is("");
    node_pass(1); /* the server's word by which many come back one by one */
    said_is("connect; ");
    leaves();
}

TEST_IN(pool_node, renews_and_hangs_up_on_a_silent_server)
{
    node.settings.standby.is_off = true;
    (void)run(renews);
}

static void renews_as_it_was_told(void)
{
    up();
    node_pass(1000);
    said_is("RENEW 1; ");
    leaves();
}

TEST_IN(pool_node, renews_more_often_where_that_was_wished)
{
    node.settings.standby.is_off = true;
    node.settings.agent.monitor_interval_ms = 1000;
    (void)run(renews_as_it_was_told);
}

static void renews_as_the_server_wants(void)
{
    up();
    node_pass(3000);
    said_is("RENEW 1; ");
    leaves();
}

TEST_IN(pool_node, renews_no_less_often_than_the_server_wants)
{
    node.settings.standby.is_off = true;
    node.settings.agent.monitor_interval_ms = 100000;
    (void)run(renews_as_the_server_wants);
}

static void comes_back_at_once(void)
{
    node_pass(0);
    node_connected();
    node_disconnected();
    node_pass(9999);
    for (int i = 0; i < 8; i++) { /* later and later */
        node_disconnected();
        node_pass(5000);
    }
    assert_null(strstr(node.said, "hang up")); /* on what is no more */
    node_connected();
    node_welcome();
    node_disconnected();
    node_pass(700);
    quiet();
    node_disconnected(); /* the first try fails: the next one is soon */
    node_pass(100);
    said_is("connect; ");
    leaves();
}

TEST_IN(pool_node, tries_soon_again_where_it_was_welcome)
{
    node.settings.standby.is_off = true;
    (void)run(comes_back_at_once);
}

static void gives_up(void)
{
    const struct tfe_mono began = clock_mono();
    node_pass(0);
    node_connected();
    node_pass(9999); /* no WELCOME … */
    quiet();
    node_pass(1);
    said_is("hang up; "); /* … in time */
    for (int i = 0; i < 1000 && !node.is_over; i++) {
        node_disconnected();
        quiet();
        node_pass(5000);
    }
    assert_true(node.is_over);
    assert_in_range(clock_mono().ms - began.ms, 60000, 70000);
}

TEST_IN(pool_node, gives_up_after_its_join_timeout)
{
    node.settings.standby.is_off = true;
    assert_int_equal(run(gives_up), AGENT_EXIT_UNREACHED);
}

static void does_not_give_up(void)
{
    works(1);
    for (int i = 0; i < 100; i++) {
        node_disconnected();
        node_pass(5000);
    }
    assert_false(node.is_over);
    leaves();
}

TEST_IN(pool_node, works_on_while_there_is_no_server)
{
    assert_int_equal(run(does_not_give_up), 128 + SIGTERM);
}

/* Its job ends while there is none, and then the one that waits for another. */
static void ends_unheard(void)
{
    works(1);
    node_disconnected();
    node_ended(3);
    node_pass(0);
    warm();
    node_ended(143);
    node_connected();
    quiet();
    node_welcome();
    said_is("FREED 1 3 it ended; ");
    leaves();
}

TEST_IN(pool_node, what_waits_says_nothing_of_the_job_before_it)
{
    (void)run(ends_unheard);
}

static void gives_up_once_it_is_over(void)
{
    works(1);
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
    assert_int_equal(run(gives_up_once_it_is_over), AGENT_EXIT_UNREACHED);
}

static void is_welcome_again(void)
{
    up();
    for (int i = 0; i < 12; i++) { /* each time for a while, together for longer than it may be */
        node_disconnected();
        node_pass(10000);
        node_connected();
        node_welcome();
    }
    assert_false(node.is_over);
    leaves();
}

TEST_IN(pool_node, its_join_timeout_is_of_one_absence)
{
    node.settings.standby.is_off = true;
    (void)run(is_welcome_again);
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
    node.settings.standby.is_off = true;
    assert_int_equal(run(is_not_authorised), AGENT_EXIT_UNAUTHORISED);
}

static void was_authorised(void)
{
    up();
    for (int i = 0; i < 6; i++) {
        node_disconnected_by(AGENT_LINK_UNAUTHORISED);
        node_pass(1000);
    }
    assert_false(
        node.is_over); /* the token has opened it before: the server is about to be there */
    leaves();
}

TEST_IN(pool_node, tries_on_where_its_token_has_opened_it_before)
{
    node.settings.standby.is_off = true;
    (void)run(was_authorised);
}

static void waits_cold(void)
{
    node_pass(0);
    said_is("connect; wait; ");
    node_ended(1); /* it dies, for whatever reason: another one, later and later */
    node_pass(999);
    said_is("");
    node_pass(1);
    said_is("wait; ");
    node_ended(1);
    node_pass(1999);
    said_is("");
    node_pass(1);
    said_is("wait; ");
    node.child.said(node.child.ctx,
                    &(struct await_said){.standby = WARMTH_WARM, .tensorflow.text = "2.12.0"});
    said_is("standby 2.12.0; ");
    node_ended(1); /* one that lived: soon again */
    node_pass(0);
    said_is("wait; ");
    node_ended(POOL_NOT_STARTED); /* it cannot: none is tried again */
    node_pass(1000000);
    assert_null(strstr(node.said, "wait"));
    node.is_over = false;
}

TEST_IN(pool_node, one_that_waits_and_dies_is_started_again_if_it_can_be)
{
    (void)run(waits_cold);
}

static void starts_itself(void)
{
    up();
    node_assigned(1);
    said_is("start; ");
    node_ended(2);
    said_is("FREED 1 2 it ended; ");
    node.starts = false;
    node_assigned(2);
    said_is("FREED 2 126 no process can be started; ");
    leaves();
}

TEST_IN(pool_node, starts_an_agent_where_none_waits)
{
    node.settings.standby.is_off = true;
    (void)run(starts_itself);
}

static void works_while_it_was_to_wait(void)
{
    up();
    node_ended(1);
    node_assigned(1);
    said_is("start; ");
    node_pass(100000); /* one is to wait when that has ended */
    assert_null(strstr(node.said, "wait"));
    node_ended(0);
    node_pass(2000);
    assert_non_null(strstr(node.said, "wait"));
    leaves();
}

TEST_IN(pool_node, nobody_waits_beside_an_agent_that_works)
{
    (void)run(works_while_it_was_to_wait);
}

static void cannot_give(void)
{
    up();
    node.gives = false;
    node_assigned(1);
    said_is("stop 0; "); /* it has died: another one begins when it is cleared away */
    node_ended(1);
    said_is("start; ");
    node_ended(0);
    said_is("FREED 1 0 it ended; ");
    leaves();
}

TEST_IN(pool_node, one_that_waited_and_has_died_takes_nothing_along)
{
    (void)run(cannot_give);
}

static void is_released_before_it_begins(void)
{
    up();
    node.gives = false;
    node_assigned(1);
    quiet();
    node_released(1, 300, OUT_NOT, false);
    said_is("stop 300; ");
    node_ended(1);
    said_is("FREED 1 1 it ended; "); /* and nothing begins */
    node_pass(0);
    warm();
    quiet();
    node_ended(1);
    said_is(""); /* nor later */
    leaves();
}

TEST_IN(pool_node, what_is_released_before_it_begins_does_not_begin)
{
    (void)run(is_released_before_it_begins);
}

static void wants_too_much(void)
{
    up();
    struct tfe_msg msg = node_assign(4);
    msg.u.assign.spec.chief = true;
    node_message(msg);
    said_is("FREED 4 126 it wants what cannot be; ");
    leaves();
}

TEST_IN(pool_node, says_why_a_job_cannot_be)
{
    (void)run(wants_too_much);
}

static struct tfe_msg assign_bundle(uint64_t assignment)
{
    struct tfe_msg msg = node_assign(assignment);
    msg.u.assign.spec.source_kind = SOURCE_BUNDLE;
    msg.u.assign.spec.source = "abc";
    return msg;
}

static void lays_files(void)
{
    up();
    const struct tfe_msg msg = assign_bundle(3);
    node_message(msg);
    said_is("lay; ");
    node_message((struct tfe_msg){.type = MSG_CHUNK});
    said_is("chunk; ");
    node_disconnected();
    node_pass(1000);
    node_connected();
    quiet();
    node_welcome();
    said_is("files again; ");
    node.files.send(node.files.ctx, &(struct tfe_msg){.type = MSG_FETCH});
    said_is("FETCH; ");
    assert_int_equal(node.child.beside(node.child.ctx),
                     11); /* what lays them is none that was left */
    node.files.ready(node.files.ctx, &msg.u.assign);
    said_is("give; ");
    node_ended(0);
    said_is("FREED 3 0 it ended; ");
    assert_false(node.has_files);
    node_pass(0);
    quiet();
    assert_int_equal(node.child.beside(node.child.ctx), 0);

    node_message(assign_bundle(4));
    quiet();
    node.files.failed(node.files.ctx, "nobody has it");
    said_is("FREED 4 126 nobody has it; ");

    node_message(assign_bundle(5));
    quiet();
    node_released(5, 100, OUT_NOT, false);
    said_is("files stop; "); /* who waits beside them may wait on */
    node.files.failed(node.files.ctx, "stopped");
    said_is("FREED 5 143 stopped; ");

    node.lays = false;
    node_message(assign_bundle(6));
    said_is("FREED 6 126 no room for them; ");
    leaves();
}

TEST_IN(pool_node, a_job_begins_once_its_files_are_there)
{
    (void)run(lays_files);
}

static void loses_who_waits(void)
{
    up();
    node_message(assign_bundle(3));
    quiet();
    node_ended(9); /* the one that waits dies beside the files */
    said_is("");
    node_pass(100000);
    assert_non_null(strstr(node.said, "wait; "));
    assert_null(strstr(node.said, "FREED"));
    quiet();
    const struct tfe_msg msg = assign_bundle(3);
    node.files.ready(node.files.ctx, &msg.u.assign);
    said_is("give; ");
    leaves();
}

TEST_IN(pool_node, who_waits_beside_files_may_die)
{
    (void)run(loses_who_waits);
}

static void image_comes(uint64_t assignment)
{
    struct tfe_msg msg = node_assign(assignment);
    msg.u.assign.spec.image = "org/x:1";
    node_message(msg);
    said_is("open; ");
}

static void runs_an_image(void)
{
    up();
    image_comes(3);
    node_container_stands();
    said_is("stop 0; "); /* who waits has seen this machine's files */
    node_ended(143);
    said_is("start; ");
    node_ended(0);
    said_is("close; ");
    node_container_ended("");
    said_is("FREED 3 0 it ended; ");
    node_pass(0);
    quiet();
    image_comes(4);
    node_container_ended("there is none");
    said_is("FREED 4 126 there is none; ");
    leaves();
}

TEST_IN(pool_node, is_free_once_its_jobs_container_is_gone)
{
    (void)run(runs_an_image);
}

static void cannot_use_its_container(void)
{
    node.settings.standby.is_off = true;
    up();
    image_comes(3);
    node.starts = false;
    node_container_stands();
    said_is("close; ");
    node_container_ended("");
    said_is("FREED 3 126 no process can be started; ");
    image_comes(4);
    node.enters = false;
    node_container_stands();
    said_is("close; ");
    node_container_ended("");
    said_is("FREED 4 126 there is no way in; ");
    leaves();
}

TEST_IN(pool_node, a_container_that_no_agent_could_use_goes_first)
{
    (void)run(cannot_use_its_container);
}

static void has_who_waits_while_a_container_goes(void)
{
    up();
    image_comes(3);
    node_ended(9); /* the one that waits dies beside it */
    node_container_stands();
    said_is("start; ");
    node_ended(0);
    said_is("close; ");
    node_pass(100000);
    assert_non_null(strstr(node.said, "wait; "));
    quiet();
    node_ended(9);
    said_is("");
    node_pass(100000);
    quiet();
    node_signal_comes(SIGTERM);
    said_is("stop 45000; ");
    node_container_ended("");
    said_is("FREED 3 0 it ended; stop 45000; ");
    node_ended(143);
    said_is("GOODBYE; finish; ");
    node_disconnected();
    assert_true(node.is_over);
}

TEST_IN(pool_node, who_waits_beside_a_container_that_goes_is_not_its_job)
{
    (void)run(has_who_waits_while_a_container_goes);
}

static void is_drained(void)
{
    works(5);
    node_released(9, 100, OUT_DRAINED, false); /* of something else: an old word */
    said_is("FREED 9 0 ; ");
    node_released(5, 100, OUT_DRAINED, false);
    said_is("stop 100; ");
    node_assigned(6);
    said_is(""); /* it has one still */
    node_ended(143);
    said_is("FREED 5 143 it ended; GOODBYE; finish; ");
    node_assigned(7); /* that was on its way */
    said_is("FREED 7 143 this node leaves the pool; ");
    node_disconnected();
    assert_true(node.is_over);
}

TEST_IN(pool_node, leaves_the_pool_once_its_job_is_left)
{
    node.settings.on_finish = "poweroff";
    assert_int_equal(run(is_drained), 0);
    said_is("finish poweroff for host: drained; ");
}

static void is_evicted(void)
{
    up();
    node_released(0, 1, OUT_EVICTED, false);
    said_is("stop 1; "); /* the one that waits */
    node_ended(143);
    said_is("GOODBYE; finish; ");
    node_disconnected();
}

TEST_IN(pool_node, finishes_nothing_where_it_was_put_out)
{
    node.settings.on_finish = "poweroff";
    assert_int_equal(run(is_evicted), 0);
    said_is("");
}

static void is_drained_idle(void)
{
    works(5);
    node_released(5, 100, OUT_NOT, false);
    node_ended(143);
    node_pass(0);
    quiet();
    node_released(0, 100, OUT_DRAINED, false); /* which stops the one that waits now */
    said_is("stop 100; ");
    node_ended(143);
    node_disconnected();
    assert_true(node.is_over);
}

TEST_IN(pool_node, leaves_the_pool_though_its_last_job_was_stopped)
{
    assert_int_equal(run(is_drained_idle), 0);
}

static void by_two_signals(void)
{
    works(5);
    node_signal_comes(SIGINT);
    said_is("stop 45000; ");
    node_released(5, 45000, OUT_NOT, false); /* which is nobody's second signal */
    said_is("");
    node_signal_comes(SIGTERM);
    said_is("stop 45000; ");
    assert_false(node.is_over);
    node.is_dead = true; /* what it has left ends in a moment */
    node_signal_comes(SIGTERM);
    assert_false(node.is_over);
    node.is_stuck = true; /* … or does not */
    node_signal_comes(SIGTERM);
    assert_true(node.is_over); /* with nothing that it had for the job */
}

TEST_IN(pool_node, a_second_signal_hurries_and_a_third_waits_for_nobody)
{
    assert_int_equal(run(by_two_signals), 128 + SIGINT);
}

/* The one that waited has died beside them, and left what does not. */
static void stuck_beside(struct tfe_msg msg)
{
    up();
    node_message(msg);
    node.is_dead = node.is_stuck = true;
    node_signal_comes(SIGTERM);
    assert_false(node.is_over);
    node_signal_comes(SIGTERM);
    assert_true(node.is_over);
}

static void stuck_beside_files(void)
{
    stuck_beside(assign_bundle(5));
}

static void stuck_beside_a_container(void)
{
    struct tfe_msg msg = node_assign(5);
    msg.u.assign.spec.image = "org/x:1";
    stuck_beside(msg);
}

TEST_IN(pool_node, who_waits_for_nobody_keeps_no_file_of_its_job)
{
    assert_int_equal(run(stuck_beside_files), 128 + SIGTERM); /* node_end looks, too */
}

TEST_IN(pool_node, who_waits_for_nobody_keeps_no_container_of_its_job)
{
    assert_int_equal(run(stuck_beside_a_container), 128 + SIGTERM);
}

static void ends_alone(void)
{
    node_pass(0);
    node_signal_comes(SIGHUP);
    node_ended(143);
    assert_true(node.is_over); /* to no server there is nothing to say */
    assert_null(strstr(node.said, "GOODBYE"));
}

TEST_IN(pool_node, ends_by_a_signal_where_there_is_no_server)
{
    assert_int_equal(run(ends_alone), 128 + SIGHUP);
}

static void has_a_name(void)
{
    node_pass(0);
    quiet();
    node_connected();
    said_is("POOL host-2 has 0 idle 5000 floor 3; ");
    node_welcome();
    struct tfe_msg msg = node_assign(1);
    msg.u.assign.spec.clean_policy = CLEAN_ALL;
    node_message(msg);
    assert_string_equal(node.job_root, "/logs of j");
    assert_true(node.neighbours);
    leaves();
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
    struct tfe_why why;
    assert_int_equal(pool_check(&node.settings, 0, &why), 0);
    assert_int_equal(pool_check(&node.settings, 1, &why), TFE_EINVAL);
    node.settings.slots = 2;
    assert_int_equal(pool_check(&node.settings, 0, &why), 0);
    node.settings.on_finish = "x";
    assert_int_equal(pool_check(&node.settings, 0, &why), TFE_EINVAL);
    node.settings.on_finish = NULL;
    node.settings.address_port = 1;
    assert_int_equal(pool_check(&node.settings, 0, &why), TFE_EINVAL);
    node.settings.slots = 1;
    assert_int_equal(pool_check(&node.settings, 0, &why), 0);
    node.settings.standalone = true;
    assert_int_equal(pool_check(&node.settings, 0, &why), TFE_EINVAL);
    assert_non_null(strstr(why.text, "--standalone"));
}

/* --- warnings --------------------------------------------------------------------------------- */

static char folder[FOLDER_BYTES];
static const char *file; /* that it is warned by */

/* A node that looks for a file, and has no agent that waits. */
static void run_warned(void (*story)(void))
{
    folder_make(folder);
    file = folder_path(folder, "goes");
    node.settings.standby.is_off = true;
    node.settings.notice.wanted[FROM_FILE] = WANTED_ASKED;
    (void)snprintf(node.settings.notice.file, sizeof node.settings.notice.file, "%s", file);
    (void)run(story);
    folder_remove(folder);
}

static void says_warnings(void)
{
    up();
    folder_write(file, "60\n");
    node_pass(500);
    said_is("NOTICE preempt in 60000; ");
    node_pass(500);
    said_is("");
    folder_write(file, "30\n");
    node_pass(500);
    said_is("NOTICE preempt in 30000; ");
    assert_int_equal(remove(file), 0);
    node_pass(500);
    said_is("NOTICE preempt withdrawn in -1; ");
    leaves();
}

TEST_IN(pool_node, says_each_change_of_a_warning)
{
    run_warned(says_warnings);
}

static void does_not_know_when(void)
{
    up();
    folder_write(file, "");
    node_pass(500);
    said_is("NOTICE preempt uncertain in 30000; ");
    leaves();
}

TEST_IN(pool_node, has_its_grace_where_a_warning_names_no_time)
{
    run_warned(does_not_know_when);
}

static void says_warnings_again(void)
{
    node_pass(0);
    node_connected();
    said_is("connect; POOL host has 0 idle 0 floor 0; ");
    node_welcome();
    folder_write(file, "60\n");
    node_pass(500);
    quiet();
    node_disconnected();
    node_pass(700);
    said_is("connect; "); /* nothing to who is not there */
    node_connected();
    said_is("POOL host has 0 idle 0 floor 0; NOTICE preempt in 59300; "); /* before its WELCOME */
    node_welcome();
    said_is("");
    node_disconnected();
    assert_int_equal(remove(file), 0);
    node_pass(700);
    said_is("connect; ");
    node_connected();
    said_is("POOL host has 0 idle 0 floor 0; NOTICE preempt withdrawn in -1; ");
    leaves();
}

TEST_IN(pool_node, says_a_warning_with_each_word_of_itself_also_one_that_is_withdrawn)
{
    run_warned(says_warnings_again);
}

static void outlives_its_warning(void)
{
    up();
    folder_write(file, "1\n");
    node_pass(500);
    said_is("NOTICE preempt in 1000; ");
    node_pass(120999);
    assert_null(strstr(node.said, "NOTICE"));
    node_pass(1);
    assert_non_null(strstr(node.said, "NOTICE preempt withdrawn in -1; "));
    leaves();
}

TEST_IN(pool_node, is_warned_no_more_where_its_machine_still_lives_after_2_minutes)
{
    run_warned(outlives_its_warning);
}

static void leaves_the_rest_to_agents(void)
{
    struct sigaction now;
    up();
    assert_true(node.is_running); /* no cloud hears that all has ended, for it may go on below */
    assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
    assert_ptr_equal(now.sa_handler, SIG_DFL);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing runs below it */
    assert_int_equal(errno, ECHILD);
    leaves();
}

TEST_IN(pool_node, leaves_commands_and_signals_to_the_agents_of_jobs)
{
    node.settings.notice.wanted[FROM_COMMAND] = node.settings.notice.wanted[FROM_SIGNAL] =
        WANTED_ASKED;
    node.settings.notice.command = "exit 0";
    node.settings.notice.signo = SIGUSR1;
    run_warned(leaves_the_rest_to_agents);
}
