/* tests/unit/server_core/test_role_assignment.c: rank assignment in jobs with roles. */
#include "tests/unit/server_core/operator.h"
#include "tests/unit/server_core/plan.h"
#include "tests/unit/server_core/served_fixture.h"

static void comes(struct world *w, uint32_t session, const char *node, bool durable)
{
    w->join.durable = durable;
    join(w, session, node);
    ready(w, session, 1);
}

TEST(ps, durable_machine_gets_the_ps)
{
    struct world *w = a_served_job(2, 2);
    comes(w, 0, "a", false);
    comes(w, 1, "b", false);
    noticed(w, 1, NOTICE_REBALANCE, MSG_UNSET);
    comes(w, 2, "c", false);
    comes(w, 3, "d", false);
    assert_saw(w, "2:START epoch=1 rank=3 world=4"); /* else it were b */
    world_free(w);
}

/* --- what the cloud says ---------------------------------------------------------------------- */

static void told(struct world *w, uint32_t session, struct msg_machine_info machine_info)
{
    const struct tfe_msg msg = {.type = MSG_MACHINE_INFO, .u.machine_info = machine_info};
    assert_int_equal(say(w, session, &msg), 0);
}

TEST(unfit, switch_does_not_wait_for_an_unfit_member)
{
    struct world *w = a_running_world(1, 2, 2);
    exited(w, 1, 1, 1);
    told(w, 1, (struct msg_machine_info){.failed_check = "no disk"});
    stopped_and_ready(w, 0, 1);
    pass(w, 2000);
    assert_saw(w, "0:START epoch=2 rank=0 world=1");
    world_free(w);
}

TEST(unfit, training_member_that_becomes_unfit_stays_a_member)
{
    struct world *w = a_running_world(1, 2, 2);
    told(w, 1, (struct msg_machine_info){.failed_check = "no disk"});
    pass(w, 60000);
    assert_not_saw(w, "~switch");
    world_free(w);
}

static void told_spot(struct world *w, uint32_t session, bool is_spot)
{
    told(w, session, (struct msg_machine_info){.has_spot = true, .is_spot = is_spot});
}

/* As from an agent that knows it by then: behind its WELCOME, before it is READY. */
static void comes_on_spot(struct world *w, uint32_t session, const char *node, bool durable)
{
    w->join.durable = durable;
    join(w, session, node);
    told_spot(w, session, true);
    ready(w, session, 1);
}

TEST(spot, spot_is_ignored_if_the_evaluator_is_the_only_role)
{
    struct world *w = a_world(2, 2);
    w->join.spec.evaluator = true;
    w->join.spec.gather_ms = 100;
    comes_on_spot(w, 0, "a", false);
    comes(w, 1, "b", false);
    pass(w, 100);
    assert_saw(w, "0:START epoch=1 rank=0 world=2");
    world_free(w);
}

TEST(spot, late_spot_report_counts_from_the_next_epoch)
{
    struct world *w = a_serving_job(1, 2); /* a chief, b ps, c and d workers */
    told_spot(w, 0, true);
    told_spot(w, 1, true);
    pass(w, 600000);
    assert_not_saw(w, "STOP");
    assert_not_saw(w, "PREPARE");
    exited(w, 1, 1, 1);
    all_stop(w, 4);
    assert_saw(w, "3:START epoch=2 rank=3 world=4"); /* d is the ps, c the chief */
    assert_saw(w, "0:START epoch=2 rank=1 world=4");
    assert_saw(w, "1:START epoch=2 rank=2 world=4");
    world_free(w);
}

TEST(spot, spot_state_survives_a_reconnect)
{
    struct world *w = a_served_job(1, 1);
    join(w, 0, "a");
    told_spot(w, 0, true);
    cut(w, 0);
    join(w, 3, "a");
    told(w, 3, (struct msg_machine_info){.cores = 8}); /* what the cloud says is not known yet */
    ready(w, 3, 1);
    comes(w, 1, "b", false);
    comes(w, 2, "c", false);
    assert_saw(w, "3:START epoch=1 rank=1 world=3");
    world_free(w);
}

TEST(evaluator, pinned_node_is_preferred)
{
    struct world *w = a_served_job(1, 1);
    w->join.spec.evaluator = true;
    come(w, 4);
    ready(w, 3, 2); /* d evaluates */
    join(w, 4, "e");
    ready(w, 4, 3);
    w->join.has_role = true;
    w->join.role = TASK_EVALUATOR;
    join(w, 5, "f");
    ready(w, 5, 3);
    w->join.has_role = false;
    join(w, 6, "g");
    ready(w, 6, 3);
    goodbye(w, 3);
    pass(w, 1000); /* one a second */
    assert_saw(w, "5:START epoch=");
    assert_saw(w, " evaluates\n");
    world_free(w);
}

TEST(served, failed_start_of_an_indispensable_worker_ends_the_epoch)
{
    struct world *w = a_served_job(2, 2);
    w->join.spec.min_running = 2;
    w->join.spec.max_restarts = 100;
    come(w, 4);
    all_listen(w, 4, 1);
    tells(w, 0, (struct msg_progress){.epoch = 1, .has_step = true, .step = 1});
    for (uint64_t n = 0; n < 3; n++) {
        crashes(w, 2, n);
        assert_saw(w, "2:RESTART");
    }
    crashes(w, 2, 3);
    assert_not_saw(w, "RESTART");
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 trainer_failed");
    world_free(w);
}

TEST(spot, spot_counts_with_only_a_chief_or_ps)
{
    for (uint32_t n_ps = 0; n_ps <= 1; n_ps++) {
        struct world *w = a_served_job(1, 1);
        w->join.spec.n_ps = n_ps;
        w->join.spec.chief = n_ps == 0;
        comes_on_spot(w, 0, "a", false);
        comes(w, 1, "b", false);
        assert_saw(w, n_ps ? "0:START epoch=1 rank=1 world=2" : "1:START epoch=1 rank=0 world=2");
        world_free(w);
    }
}
