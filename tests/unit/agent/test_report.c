/* tests/unit/agent/test_report.c: reports about the machine and their times. The event loop does
 * not run, so results of the module's thread are never available. */
#include <event2/event.h>
#include <string.h>

#include "agent/preemption/preemption.h"
#include "agent/script_channel/script_message.h"
#include "agent/server_report.h"
#include "tests/unit/test_runner.h"

static struct event_base *base;
static struct report *r;
static struct tfe_msg said;
static unsigned n_facts;
static enum tfe_artifact artifacts[4]; /* states that were sent */
static unsigned n_artifacts;

static void keep(void *ctx, const struct tfe_msg *msg)
{
    (void)ctx;
    if (msg->type == MSG_MACHINE_INFO) {
        said = *msg;
        n_facts++;
    } else if (msg->type == MSG_ARTIFACT) {
        artifacts[n_artifacts++] = msg->u.artifact.state;
    }
}

static enum tfe_standby no_standby(void *ctx)
{
    (void)ctx;
    return WARMTH_NONE;
}

static int agent(void **state)
{
    (void)state;
    base = event_base_new();
    const struct report_options options = {
        .base = base, .nproc = 1, .send = keep, .standby = no_standby};
    r = report_new(&options);
    n_facts = n_artifacts = 0;
    said = (struct tfe_msg){.type = MSG_MACHINE_INFO};
    return 0;
}

static int agent_gone(void **state)
{
    (void)state;
    report_free(r);
    event_base_free(base);
    return 0;
}
#define FIXTURE agent, agent_gone

static const struct cloud_info cloud = {
    .cloud = "aws", .zone = "eu-west-1b", .has_spot = true, .is_spot = true};

TEST_IN(report, cloud_information_does_not_wait_for_machine_information)
{
    report_up(r);
    assert_int_equal(n_facts, 0);
    report_cloud(r, &cloud);
    assert_int_equal(n_facts, 1);
    assert_true(said.u.machine_info.has_spot && said.u.machine_info.is_spot);
    assert_string_equal(said.u.machine_info.zone, "eu-west-1b");
    assert_null(said.u.machine_info.instance);
    assert_null(said.u.machine_info.gpu);
    assert_int_equal(said.u.machine_info.cores, 0);
}

TEST_IN(report, cloud_information_is_sent_on_each_connection)
{
    report_cloud(r, &cloud);
    assert_int_equal(n_facts, 0); /* there is no connection yet */
    report_up(r);
    assert_int_equal(n_facts, 1);
    report_down(r);
    report_cloud(r, &cloud);
    assert_int_equal(n_facts, 1);
    report_up(r);
    assert_int_equal(n_facts, 2);
    assert_true(said.u.machine_info.has_spot && said.u.machine_info.is_spot);
}

TEST_IN(report, machine_information_includes_that_of_the_cloud)
{
    report_cloud(r, &cloud);
    report_up(r);
    while (said.u.machine_info.cores == 0) {
        assert_true(event_base_loop(base, EVLOOP_ONCE) >= 0);
    }
    assert_int_equal(n_facts, 2);
    assert_true(said.u.machine_info.has_spot && said.u.machine_info.is_spot);
}

TEST_IN(report, of_artifacts_is_sent_once_per_state_and_waits_for_a_connection)
{
    struct script_message m = {.epoch = 1, .artifact = ARTIFACT_STORING, .place = "/m"};
    report_up(r);
    report_artifact(r, &m);
    report_artifact(r, &m);
    assert_int_equal(n_artifacts, 1);
    snprintf(m.reason, sizeof m.reason, "disk full");
    report_artifact(r, &m);
    assert_int_equal(n_artifacts, 2);
    report_down(r);
    m.artifact = ARTIFACT_STORED;
    report_artifact(r, &m);
    assert_int_equal(n_artifacts, 2);
    report_up(r);
    assert_int_equal(n_artifacts, 3);
    assert_int_equal(artifacts[2], ARTIFACT_STORED);
    report_down(r);
    report_up(r);
    assert_int_equal(n_artifacts, 3);
}
