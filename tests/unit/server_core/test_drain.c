/* tests/unit/server_core/test_drain.c: an operator drains nodes. */
#include "tests/unit/server_core/plan.h"

/* --- what the machine says beside it ---------------------------------------------------------- */

static void drain_within(struct world *w, const char *node, uint32_t ms)
{
    forget(w);
    assert_int_equal(step(w, &(struct rdzv_event){.type = RDZV_DRAIN,
                                                  .now = {w->now},
                                                  .job = "j",
                                                  .node = node,
                                                  .has_within = true,
                                                  .within_ms = ms}),
                     0);
}

static void assert_leaves_drained(struct world *w)
{
    assert_int_equal(role_of(w, "b"), ROLE_LEAVING);
    pass(w, 2000);
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 drained");
    stopped_and_ready(w, 0, 1);
    trainers_stop(w, 1, 1);
    assert_saw(w, "1:FINISH drained");
    assert_saw(w, "0:START epoch=2 rank=0 world=1 nodes=1 cause=drained");
    world_free(w);
}

TEST(drain, withdrawn_notice_does_not_cancel_the_drain)
{
    struct world *w = a_running_world(1, 2, 2);
    drain(w, "b");
    notice_withdrawn(w, 1, NOTICE_PREEMPT);
    assert_not_saw(w, "node_stays");
    assert_leaves_drained(w);
    w = a_running_world(1, 2, 2);
    noticed(w, 1, NOTICE_PREEMPT, 600000);
    drain(w, "b");
    notice_withdrawn(w, 1, NOTICE_PREEMPT);
    assert_leaves_drained(w);
}

TEST(drain, rebalance_hint_does_not_cancel_the_drain)
{
    struct world *w = a_running_world(1, 2, 2);
    drain(w, "b");
    noticed(w, 1, NOTICE_REBALANCE, MSG_UNSET);
    assert_leaves_drained(w);
}

TEST(drain, notice_during_drain_keeps_the_drain_and_the_earlier_deadline)
{
    struct world *w = a_running_world(1, 2, 2);
    drain(w, "b");
    noticed(w, 1, NOTICE_PREEMPT, 600000);
    assert_leaves_drained(w);
    /* Scripts that are asked and say nothing: the switch comes before the deadline in any case. */
    static const uint32_t times[2][2] = {{30000, 600000}, {600000, 30000}};
    for (int i = 0; i < 2; i++) {
        w = a_running_world(1, 2, 2);
        listens(w, 0, 1, 40);
        listens(w, 1, 1, 40);
        drain_within(w, "b", times[i][0]);
        noticed(w, 1, NOTICE_PREEMPT, times[i][1]);
        pass(w, 30000);
        assert_saw(w, "~switch job=j node=- epoch=1 number=0 drained");
        world_free(w);
    }
}

/* Time for an order is limited as for everything. */
TEST(drain, time_above_the_limit_is_refused)
{
    struct world *w = a_running_world(1, 2, 2);
    const struct rdzv_event event = {.type = RDZV_DRAIN,
                                     .now = {w->now},
                                     .job = "j",
                                     .node = "b",
                                     .has_within = true,
                                     .within_ms = MSG_DURATION_MAX_MS + 1};
    assert_int_equal(step(w, &event), TFE_EINVAL);
    assert_int_equal(role_of(w, "b"), ROLE_MEMBER);
    world_free(w);
}
