/* tests/unit/rdzv/test_drain.c: an operator drains nodes. */
#include "tests/unit/rdzv/plan.h"

/* A drain waits 2 s for others to come along. */
static void drain_and_switch(struct world *w, const char *node)
{
    drain(w, node);
    assert_not_saw(w, "STOP");
    pass(w, 2000);
}

/* --- drain ------------------------------------------------------------------------------------ */

TEST(drain, a_member_leaves_with_its_epoch_and_is_told_so)
{
    struct world *w = a_running_world(1, 3, 3);
    drain(w, "b");
    assert_saw(w, "~node_draining job=j node=b epoch=1 number=0 b\n");
    pass(w, 1999);
    assert_not_saw(w, "STOP");
    pass(w, 1);
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 drained");
    assert_saw(w, "0:STOP epoch=1 planned\n");
    assert_saw(w, "1:STOP epoch=1 planned\n");
    assert_saw(w, "2:STOP epoch=1 planned\n");
    assert_not_saw(w, "FINISH");
    assert_int_equal(role_of(w, "b"), ROLE_LEAVING);
    stopped_and_ready(w, 0, 1);
    stopped_and_ready(w, 2, 1);
    assert_not_saw(w, "START"); /* b's trainers may run */
    trainers_stop(w, 1, 1);
    assert_saw(w, "~node_left job=j node=b");
    assert_saw(w, "1:FINISH drained: this node was drained by an operator");
    assert_saw(w, "1:CLOSE\n");
    assert_saw(w, "0:START epoch=2 rank=0 world=2 nodes=2 cause=drained");
    assert_saw(w, "2:START epoch=2 rank=1 world=2 nodes=2 cause=drained");
    assert_int_equal(role_of(w, "b"), 0);
    pass(w, 1000000);
    assert_string_equal(w->log, "");
    world_free(w);
}

TEST(drain, a_member_that_is_ready_again_is_in_no_later_epoch)
{
    struct world *w = a_running_world(1, 3, 3);
    drain_and_switch(w, "a");
    stopped_and_ready(w, 0, 1);
    assert_int_equal(role_of(w, "a"), ROLE_LEAVING);
    stopped_and_ready(w, 1, 1);
    stopped_and_ready(w, 2, 1);
    assert_saw(w, "0:FINISH drained");
    assert_not_saw(w, "0:START");
    assert_saw(w, "1:START epoch=2 rank=0 world=2"); /* longest in the job but for a */
    assert_saw(w, "2:START epoch=2 rank=1 world=2");
    world_free(w);
}

TEST(drain, a_spare_takes_the_place_in_the_same_switch)
{
    struct world *w = a_running_world(2, 2, 2);
    join(w, 2, "c");
    ready(w, 2, 2);
    drain_and_switch(w, "b");
    stopped_and_ready(w, 0, 1);
    trainers_stop(w, 1, 1);
    assert_saw(w, "1:FINISH drained");
    assert_saw(w, "2:START epoch=2 rank=1 world=2 nodes=2 cause=drained");
    world_free(w);
}

TEST(drain, who_runs_nothing_goes_at_once)
{
    struct world *w = a_running_world(1, 1, 1);
    join(w, 1, "b");
    drain(w, "b"); /* joining */
    assert_saw(w, "1:FINISH drained");
    assert_saw(w, "1:CLOSE");
    assert_not_saw(w, "STOP");
    join(w, 2, "c");
    ready(w, 2, 2);
    assert_int_equal(role_of(w, "c"), ROLE_SPARE);
    drain(w, "c");
    assert_saw(w, "2:FINISH drained");
    assert_not_saw(w, "STOP");
    assert_int_equal(order(w, RDZV_DRAIN, "j", "c"), TFE_ENOENT);
    assert_string_equal(job_state(w), "running");
    pass(w, 1000000);
    assert_string_equal(w->log, "");
    world_free(w);
}

TEST(drain, before_the_first_epoch_the_job_waits_again)
{
    struct world *w = a_world(2, 3);
    come(w, 2);
    assert_string_equal(job_state(w), "gathering");
    drain(w, "a");
    assert_saw(w, "0:FINISH drained");
    assert_string_equal(job_state(w), "waiting");
    drain(w, "b");
    assert_saw(w, "1:FINISH drained");
    assert_string_equal(job_state(w), "none"); /* it never was one */
    world_free(w);
}

TEST(drain, below_min_the_job_waits_and_goes_on_with_the_next_newcomer)
{
    struct world *w = a_running_world(2, 2, 2);
    drain_and_switch(w, "b");
    trainers_stop(w, 1, 1);
    assert_not_saw(w, "FINISH"); /* a's trainers end first: the switch is one for all */
    stopped_and_ready(w, 0, 1);
    assert_saw(w, "1:FINISH drained");
    assert_not_saw(w, "START");
    assert_string_equal(job_state(w), "waiting");
    join(w, 2, "c");
    ready(w, 2, 2);
    assert_saw(w, "0:START epoch=2 rank=0 world=2 nodes=2 cause=drained");
    world_free(w);
}

TEST(drain, in_a_job_that_waits_a_former_member_goes_at_once)
{
    struct world *w = a_running_world(2, 2, 2);
    goodbye(w, 1);
    stopped_and_ready(w, 0, 1);
    assert_string_equal(job_state(w), "waiting");
    drain(w, "a");
    assert_saw(w, "0:FINISH drained");
    assert_string_equal(job_state(w), "waiting");
    join(w, 2, "c");
    ready(w, 2, 2);
    join(w, 3, "d");
    ready(w, 3, 2);
    assert_saw(w, "2:START epoch=2 rank=0 world=2");
    world_free(w);
}

TEST(drain, twice_is_harmless)
{
    struct world *w = a_running_world(1, 2, 2);
    drain(w, "b");
    drain(w, "b");
    assert_string_equal(w->log, "");
    pass(w, 2000);
    drain(w, "b");
    assert_string_equal(w->log, "");
    stopped_and_ready(w, 0, 1);
    trainers_stop(w, 1, 1);
    assert_saw(w, "0:START epoch=2 rank=0 world=1");
    assert_int_equal(order(w, RDZV_DRAIN, "j", "b"), TFE_ENOENT);
    world_free(w);
}

TEST(drain, of_all_leaves_a_job_that_waits)
{
    struct world *w = a_running_world(1, 2, 2);
    drain(w, "a");
    drain(w, "b");
    pass(w, 2000);
    assert_int_equal(times_seen(w, "STOP epoch=1 planned"), 2); /* one change */
    trainers_stop(w, 0, 1);
    trainers_stop(w, 1, 1);
    assert_saw(w, "0:FINISH drained");
    assert_saw(w, "1:FINISH drained");
    assert_string_equal(job_state(w), "waiting");
    pass(w, 1000000);
    assert_string_equal(w->log, "");
    world_free(w);
}

TEST(drain, during_a_switch_takes_back_what_was_ready)
{
    struct world *w = a_running_world(1, 3, 3);
    exited(w, 0, 1, 1);
    stopped_and_ready(w, 1, 1);
    drain(w, "b");
    assert_not_saw(w, "FINISH");
    ready(w, 0, 2);
    stopped_and_ready(w, 2, 1);
    pass(w, 1000);
    assert_saw(w, "1:FINISH drained");
    assert_saw(w, "0:START epoch=2 rank=0 world=2 nodes=2 cause=trainer_failed");
    world_free(w);
}

TEST(drain, of_the_last_one_a_switch_waits_for_lets_it_go_on)
{
    struct world *w = a_running_world(1, 2, 2);
    exited(w, 0, 1, 1);
    trainers_stop(w, 1, 1);
    ready(w, 0, 2);
    pass(w, 2000);
    assert_not_saw(w, "START"); /* b is not READY yet */
    drain(w, "b");
    assert_saw(w, "1:FINISH drained");
    assert_saw(w, "0:START epoch=2 rank=0 world=1");
    world_free(w);
}

TEST(drain, of_a_member_of_an_epoch_that_is_not_durable_yet_ends_it_before_it_begins)
{
    struct world *w = a_world(1, 2);
    w->holds_writes = true;
    come(w, 2);
    assert_string_equal(job_state(w), "committing");
    drain(w, "b");
    assert_not_saw(w, "FINISH");
    w->holds_writes = false;
    forget(w);
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    assert_not_saw(w, "START");
    assert_saw(w, "0:STOP epoch=1 planned\n");
    ready(w, 0, 2);
    ready(w, 1, 2); /* nothing of epoch 1 runs there */
    assert_saw(w, "1:FINISH drained");
    assert_saw(w, "0:START epoch=2 rank=0 world=1 nodes=1 cause=drained");
    world_free(w);
}

TEST(drain, a_suspect_is_left_out_and_told_when_it_is_back)
{
    struct world *w = a_running_world(1, 2, 2);
    cut(w, 1);
    drain_and_switch(w, "b");
    stopped_and_ready(w, 0, 1);
    pass(w, 1000);
    assert_saw(w, "0:START epoch=2 rank=0 world=1");
    assert_int_equal(role_of(w, "b"), ROLE_LEAVING);
    w->join.running_epoch = w->join.highest_epoch = 1;
    join(w, 2, "b");
    assert_saw(w, "2:WELCOME");
    assert_saw(w, "2:STOP epoch=1");
    assert_saw(w, "2:FINISH drained");
    assert_saw(w, "2:CLOSE");
    assert_int_equal(role_of(w, "b"), 0);
    world_free(w);
}

TEST(drain, a_suspect_that_is_back_during_the_switch_ends_its_trainers_first)
{
    struct world *w = a_running_world(1, 2, 2);
    cut(w, 1);
    drain_and_switch(w, "b");
    w->join.running_epoch = w->join.highest_epoch = 1;
    join(w, 2, "b");
    assert_saw(w, "2:STOP epoch=1 planned\n"); /* it has its grace, as the others */
    assert_not_saw(w, "FINISH");
    stopped_and_ready(w, 0, 1);
    pass(w, 2000);
    assert_not_saw(w, "START");
    trainers_stop(w, 2, 1);
    assert_saw(w, "2:FINISH drained");
    assert_saw(w, "0:START epoch=2 rank=0 world=1");
    world_free(w);
}

TEST(drain, a_spare_that_is_away_is_told_when_it_is_back_or_forgotten_with_its_lease)
{
    for (int again = 0; again < 2; again++) {
        struct world *w = a_running_world(1, 1, 1);
        join(w, 1, "b");
        ready(w, 1, 2);
        cut(w, 1);
        drain(w, "b");
        assert_int_equal(role_of(w, "b"), ROLE_LEAVING);
        pass(w, again ? 5000 : TTL_HELD_MS);
        join(w, 2, "b");
        if (again) {
            assert_saw(w, "2:FINISH drained");
        } else {
            assert_saw(w, "~node_joined job=j node=b");
            assert_not_saw(w, "FINISH");
        }
        world_free(w);
    }
}

TEST(drain, of_a_jobs_only_node_while_it_is_away_leaves_no_job)
{
    struct world *w = a_world(1, 1);
    join(w, 0, "a");
    cut(w, 0);
    drain(w, "a");
    join(w, 1, "a");
    assert_saw(w, "1:FINISH drained");
    assert_string_equal(job_state(w), "none");
    world_free(w);
}

TEST(drain, a_member_that_does_not_stop_is_left_out_and_named)
{
    struct world *w = a_running_world(1, 2, 2);
    drain_and_switch(w, "b");
    stopped_and_ready(w, 0, 1);
    pass(w, 34999);
    assert_not_saw(w, "START");
    pass(w, 1);
    assert_saw(w, "~node_lost job=j node=b epoch=1 number=0 not ready for the switch in time");
    assert_saw(w, "1:FINISH drained");
    assert_saw(w, "0:START epoch=2 rank=0 world=1");
    world_free(w);
}

TEST(drain, the_only_member_s_successor_waits_for_its_trainers_end)
{
    struct world *w = a_running_world(1, 1, 1);
    join(w, 1, "b");
    ready(w, 1, 2);
    drain_and_switch(w, "a");
    pass(w, 60000); /* a does not stop */
    assert_saw(w, "~wait_fence");
    assert_not_saw(w, "START");
    trainers_stop(w, 0, 1);
    assert_saw(w, "0:FINISH drained");
    assert_saw(w, "1:START epoch=2 rank=0 world=1");
    world_free(w);
}

TEST(drain, whose_trainers_ended_well_goes_at_once_and_without_a_switch)
{
    struct world *w = a_running_world(2, 2, 2);
    exited(w, 1, 1, 0);
    drain(w, "b");
    assert_saw(w, "1:FINISH drained");
    assert_not_saw(w, "STOP");
    exited(w, 0, 1, 0);
    assert_saw(w, "0:FINISH succeeded");
    world_free(w);
}

TEST(drain, once_rank_0_has_ended_well_changes_nothing_any_more)
{
    struct world *w = a_running_world(2, 2, 2);
    exited(w, 0, 1, 0);
    drain(w, "b");
    assert_not_saw(w, "STOP");
    exited(w, 1, 1, 1);
    assert_saw(w, "1:FINISH succeeded");
    world_free(w);
}

TEST(drain, its_node_may_still_say_goodbye_or_lose_its_lease)
{
    for (int how = 0; how < 2; how++) {
        struct world *w = a_running_world(1, 2, 2);
        drain_and_switch(w, "b");
        stopped_and_ready(w, 0, 1);
        if (how == 0) {
            goodbye(w, 1);
        } else {
            w->renews[1] = false;
            pass(w, TTL_HELD_MS);
        }
        assert_saw(w, "0:START epoch=2 rank=0 world=1");
        assert_not_saw(w, "FINISH");
        world_free(w);
    }
}

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

TEST(drain, is_not_taken_back_by_a_machine_that_stays)
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

TEST(drain, is_not_taken_back_by_a_mere_hint)
{
    struct world *w = a_running_world(1, 2, 2);
    drain(w, "b");
    noticed(w, 1, NOTICE_REBALANCE, MSG_UNSET);
    assert_leaves_drained(w);
}

TEST(drain, stays_a_drain_where_the_machine_goes_too_and_the_earlier_deadline_counts)
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
TEST(drain, within_more_than_any_time_is_refused)
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
