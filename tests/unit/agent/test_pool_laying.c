/* tests/unit/agent/test_pool_laying.c: a pool node that prepares the files or the
 * container of a job. */
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
    node.files.ready(node.files.ctx, &msg.u.assign);
    node_said_is("start; ");
    node_ended(0);
    node_said_is("FREED 3 0 it ended; ");
    assert_false(node.has_files);
    node_pass(0);
    node_quiet();

    node_message(assign_bundle(4));
    node_quiet();
    node.files.failed(node.files.ctx, "nobody has it");
    node_said_is("FREED 4 75 nobody has it; ");

    node_message(assign_bundle(5));
    node_quiet();
    node_released(5, 100, OUT_NOT, false);
    node_said_is("files stop; ");
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

static void image_comes(uint64_t assignment)
{
    struct tfe_msg msg = node_assign(assignment);
    msg.u.assign.spec.image = "org/x:1";
    node_message(msg);
}

static void runs_an_image(void)
{
    node_up();
    image_comes(3);
    node_said_is("run; ");
    node_ended(0);
    node_said_is("FREED 3 0 it ended; ");
    node.enters = false;
    image_comes(4);
    node_said_is("FREED 4 126 image org/x:1: there is no way in; ");
    node_leaves();
}

TEST_IN(pool_laying, a_job_runs_in_the_container_of_its_image)
{
    (void)node_run(runs_an_image);
}
