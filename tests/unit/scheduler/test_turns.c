/* tests/unit/scheduler/test_turns.c: a step that assigns nodes can change what other jobs wait for:
 * another step follows at once, and no more than needed. */
#include "tests/unit/scheduler/manual_pool.h"

static bool is_at_rest(void)
{
    return tfe_mono_is_never(pool.last.deadline);
}

static bool has_another_turn(void)
{
    return pool.last.deadline.ms == pool.now;
}

/* One that could have been served waited until something else happened. */
TEST_IN(steps, growth_by_an_unneeded_node_frees_one_for_a_waiting_job)
{
    came("g1", "gpu=a");
    submit("grows", workers(1, 2, 500));
    assert_true(is_at_rest()); /* nobody waits */
    submit("waits", on("gpu=a", workers(1, 1, 500)));
    assert_int_equal(leaving(), 0);
    assert_true(is_at_rest()); /* nothing was given */
    come(0, 1);
    assert_int_equal(has("grows"), 2);
    assert_true(has_another_turn());
    about(PLACEMENT_TICK, NULL, NULL);
    assert_int_equal(leaving(), 1);
    assert_true(is_at_rest());
    free_released();
    assert_int_equal(has("waits"), 1);
    assert_int_equal(has("grows"), 1);
    assert_true(is_at_rest());
}

/* Who held a part of a share for ever was not asked to give it up, where it became scarce behind
 * those who wait. */
TEST_IN(steps, minimum_that_uses_up_a_quota_affects_earlier_jobs)
{
    quota("*p*", 1);
    quota("*q*", 3);
    came("x1", "gpu=x");
    came("x2", "gpu=x");
    submit("short-q", on("gpu=x", workers(2, 2, 400)));
    come(0, 3);
    submit("has-p", workers(1, 1, 900));
    submit("waits-pq", workers(1, 1, 500));
    about(PLACEMENT_NODE_LOST, "x2", NULL);
    about(PLACEMENT_NODE_GONE, "x2", NULL);
    assert_int_equal(view("short-q").state, PLACEMENT_JOB_SHORT);
    assert_string_equal(view("waits-pq").quota, "*p*");
    assert_true(is_at_rest()); /* it is in nobody's way */
    submit("comes-q", workers(2, 2, 300));
    assert_int_equal(has("comes-q"), 2);
    assert_true(has_another_turn());
    about(PLACEMENT_TICK, NULL, NULL);
    assert_int_equal(pool.last.deadline.ms, 60000);
    pool.now = 60000;
    about(PLACEMENT_TICK, NULL, NULL);
    assert_int_equal(leaving(), 1);
    assert_int_equal(view("short-q").state, PLACEMENT_JOB_QUEUED);
}
