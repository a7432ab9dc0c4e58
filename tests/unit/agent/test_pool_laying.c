/* tests/unit/agent/test_pool_laying.c: a job's files, and its container, are on their way to a node
 * of the pool. */
#include <signal.h>

#include "tests/unit/agent/pool_node.h"

#define FIXTURE node_begin, node_end

static struct tfe_msg assign_bundle(uint64_t assignment)
{
    struct tfe_msg msg = node_assign(assignment);
    msg.u.assign.spec.source_kind = SOURCE_BUNDLE;
    msg.u.assign.spec.source = "abc";
    return msg;
}

static void lays_files(void)
{
    node_up();
    const struct tfe_msg msg = assign_bundle(3);
    node_message(msg);
    node_said_is("lay; ");
    node_message((struct tfe_msg){.type = MSG_CHUNK});
    node_said_is("chunk; ");
    node_disconnected();
    node_pass(1000);
    node_connected();
    node_quiet();
    node_welcome();
    node_said_is("files again; ");
    node.files.send(node.files.ctx, &(struct tfe_msg){.type = MSG_FETCH});
    node_said_is("FETCH; ");
    assert_int_equal(node.child.beside(node.child.ctx),
                     11); /* what lays them is none that was left */
    node.files.ready(node.files.ctx, &msg.u.assign);
    node_said_is("give; ");
    node_ended(0);
    node_said_is("FREED 3 0 it ended; ");
    assert_false(node.has_files);
    node_pass(0);
    node_quiet();
    assert_int_equal(node.child.beside(node.child.ctx), 0);

    node_message(assign_bundle(4));
    node_quiet();
    node.files.failed(node.files.ctx, "nobody has it");
    node_said_is("FREED 4 126 nobody has it; ");

    node_message(assign_bundle(5));
    node_quiet();
    node_released(5, 100, OUT_NOT, false);
    node_said_is("files stop; "); /* who waits beside them may wait on */
    node.files.failed(node.files.ctx, "stopped");
    node_said_is("FREED 5 143 stopped; ");

    node.lays = false;
    node_message(assign_bundle(6));
    node_said_is("FREED 6 126 no room for them; ");
    node_leaves();
}

TEST_IN(pool_laying, a_job_begins_once_its_files_are_there)
{
    (void)node_run(lays_files);
}

static void loses_who_waits(void)
{
    node_up();
    node_message(assign_bundle(3));
    node_quiet();
    node_ended(9); /* the one that waits dies beside the files */
    node_said_is("");
    node_pass(100000);
    assert_non_null(strstr(node.said, "wait; "));
    assert_null(strstr(node.said, "FREED"));
    node_quiet();
    const struct tfe_msg msg = assign_bundle(3);
    node.files.ready(node.files.ctx, &msg.u.assign);
    node_said_is("give; ");
    node_leaves();
}

TEST_IN(pool_laying, who_waits_beside_files_may_die)
{
    (void)node_run(loses_who_waits);
}

static void image_comes(uint64_t assignment)
{
    struct tfe_msg msg = node_assign(assignment);
    msg.u.assign.spec.image = "org/x:1";
    node_message(msg);
    node_said_is("open; ");
}

static void runs_an_image(void)
{
    node_up();
    image_comes(3);
    node_container_stands();
    node_said_is("stop 0; "); /* who waits has seen this machine's files */
    node_ended(143);
    node_said_is("start; ");
    node_ended(0);
    node_said_is("close; ");
    node_container_ended("");
    node_said_is("FREED 3 0 it ended; ");
    node_pass(0);
    node_quiet();
    image_comes(4);
    node_container_ended("there is none");
    node_said_is("FREED 4 126 there is none; ");
    node_leaves();
}

TEST_IN(pool_laying, is_free_once_its_jobs_container_is_gone)
{
    (void)node_run(runs_an_image);
}

static void cannot_use_its_container(void)
{
    node.settings.standby.is_off = true;
    node_up();
    image_comes(3);
    node.starts = false;
    node_container_stands();
    node_said_is("close; ");
    node_container_ended("");
    node_said_is("FREED 3 126 no process can be started; ");
    image_comes(4);
    node.enters = false;
    node_container_stands();
    node_said_is("close; ");
    node_container_ended("");
    node_said_is("FREED 4 126 there is no way in; ");
    node_leaves();
}

TEST_IN(pool_laying, a_container_that_no_agent_could_use_goes_first)
{
    (void)node_run(cannot_use_its_container);
}

static void has_who_waits_while_a_container_goes(void)
{
    node_up();
    image_comes(3);
    node_ended(9); /* the one that waits dies beside it */
    node_container_stands();
    node_said_is("start; ");
    node_ended(0);
    node_said_is("close; ");
    node_pass(100000);
    assert_non_null(strstr(node.said, "wait; "));
    node_quiet();
    node_ended(9);
    node_said_is("");
    node_pass(100000);
    node_quiet();
    node_signal_comes(SIGTERM);
    node_said_is("stop 45000; ");
    node_container_ended("");
    node_said_is("FREED 3 0 it ended; stop 45000; ");
    node_ended(143);
    node_said_is("GOODBYE; finish; ");
    node_disconnected();
    assert_true(node.is_over);
}

TEST_IN(pool_laying, who_waits_beside_a_container_that_goes_is_not_its_job)
{
    (void)node_run(has_who_waits_while_a_container_goes);
}

/* The one that waited has died beside them, and left what does not. */
static void stuck_beside(struct tfe_msg msg)
{
    node_up();
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

TEST_IN(pool_laying, who_waits_for_nobody_keeps_no_file_of_its_job)
{
    assert_int_equal(node_run(stuck_beside_files), 128 + SIGTERM); /* node_end looks, too */
}

TEST_IN(pool_laying, who_waits_for_nobody_keeps_no_container_of_its_job)
{
    assert_int_equal(node_run(stuck_beside_a_container), 128 + SIGTERM);
}
