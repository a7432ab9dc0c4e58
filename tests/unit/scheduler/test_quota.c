/* tests/unit/scheduler/test_quota.c: quotas of the jobs that match a pattern. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/scheduler/manual_pool.h"

/* Ends others for its minimum. */
static struct placement_options strong(uint32_t min, uint32_t max)
{
    struct placement_options options = workers(min, max, 900);
    options.preempt = true;
    return options;
}

/* The newest node of a job dies. */
static void kill_one_of(const char *job)
{
    size_t at = pool.n_held;
    while (at-- > 0 && strcmp(pool.held[at].job, job) != 0) {
    }
    char node[16];
    memcpy(node, pool.held[at].node, sizeof(node));
    forget(at);
    about(PLACEMENT_NODE_GONE, node, NULL);
}

static void pass(int64_t ms)
{
    pool.now += ms;
    about(PLACEMENT_TICK, NULL, NULL);
}

/* What the job needs, where all nodes are alike. */
static struct placement_demand demand(const char *job)
{
    struct placement_demand rows[PLACEMENT_TASKS];
    for (size_t i = 0; i < placement_jobs(pool.p); i++) {
        if (placement_demand(pool.p, i, rows) == 1 && strcmp(rows[0].job, job) == 0) {
            return rows[0];
        }
    }
    return (struct placement_demand){.max = UINT32_MAX};
}

/* What a quota was lowered by is lacking, too. */
TEST_IN(quota, minimum_takes_nodes_down_to_a_lowered_quota)
{
    quota("a*", 6);
    come_more(6, NULL);
    submit("a1", workers(1, 6, 0));
    quota("a*", 4);
    assert_int_equal(has("a1"), 6);
    submit("a2", workers(1, 1, 0));
    assert_int_equal(has("a1"), 3);
    free_released();
    assert_int_equal(has("a2"), 1);
    assert_int_equal(has("a1"), 3);
}

/* A job that was ended for the share lost two nodes, and kept the third one. */
TEST_IN(quota, job_ended_for_a_quota_releases_all_nodes)
{
    quota("a*", 5);
    come_more(1, NULL);
    come_more(2, "gpu=g");
    submit("a1", workers(3, 3, 0));
    come_more(1, "gpu=g");
    submit("a2", on("gpu=g", strong(3, 3)));
    assert_int_equal(has("a1"), 0);
    free_released();
    assert_int_equal(has("a2"), 3);
}

/* Its own node was of use for what it lacked, and it would have ended itself. */
TEST_IN(quota, job_that_takes_from_others_continues)
{
    struct placement_options options = on("gpu=g", strong(1, 2));
    quota("a*", 3);
    come_more(1, NULL);
    submit("a1", workers(1, 1, 0));
    come_more(2, "gpu=g");
    submit("a2", options);
    come_more(2, "gpu=g");
    submit("b", workers(1, 2, 0));
    assert_int_equal(has("b"), 2);
    options.min[TASK_PS] = options.max[TASK_PS] = 2;
    change("a2", options);
    assert_int_equal(has("a1"), 0);
    assert_int_equal(has("a2"), 1);
    assert_int_equal(has("b"), 1);
    free_released();
    assert_int_equal(has("a2"), 3);
}

TEST_IN(quota, lack_of_nodes_takes_none_of_the_jobs_own_workers)
{
    struct placement_options options = {.min = {1, 0, 1, 0}, .max = {3, 0, 1, 0}};
    quota("a*", 9);
    come_more(4, NULL);
    submit("a1", options);
    options.min[TASK_PS] = options.max[TASK_PS] = 2;
    change("a1", options);
    assert_int_equal(leaving(), 0);
    assert_int_equal(view("a1").lacks, 1);
}

TEST_IN(quota, change_of_the_lacking_quota_is_reported)
{
    submit("a1", workers(4, 4, 0));
    quota("a*", 3);
    assert_string_equal(pool.waits, "a1 ");
    quota("*1", 2);
    assert_string_equal(view("a1").quota, "*1");
    assert_string_equal(pool.waits, "a1 a1 ");
    quota("*1", 1); /* it is the same one */
    assert_string_equal(pool.waits, "a1 a1 ");
    quota("*1", 0);
    assert_string_equal(view("a1").quota, "a*");
    assert_string_equal(pool.waits, "a1 a1 a1 ");
}

TEST_IN(quota, job_above_its_quota_reserves_nothing)
{
    quota("a*", 4);
    come_more(2, NULL);
    submit("a1", workers(4, 4, 900)); /* more than the pool */
    submit("a2", workers(1, 2, 0));
    assert_int_equal(has("a2"), 2);
    submit("a3", workers(5, 5, 900)); /* more than the quota */
    assert_string_equal(view("a3").quota, "a*");
    assert_int_equal(view("a3").quota_lacks, 0);
    submit("a4", workers(3, 3, 0)); /* lacks of both */
    assert_int_equal(view("a4").quota_lacks, 1);
    assert_true(view("a4").is_too_large);
    over("a1");
    over("a4");
    come_more(4, NULL);
    change("a2", workers(1, 4, 0));
    assert_int_equal(has("a2"), 4);
}

TEST_IN(quota, job_counts_for_each_matching_pattern)
{
    quota("a*", 5);
    quota("*x", 3);
    come_more(12, NULL);
    submit("ax", workers(1, 9, 0));
    assert_int_equal(has("ax"), 3);
    submit("a", workers(1, 9, 0));
    assert_int_equal(has("a"), 2);
    submit("bx", workers(1, 9, 0)); /* of *x: ax gives one up */
    free_released();
    assert_int_equal(has("bx"), 1);
    assert_int_equal(has("ax"), 2);
    assert_int_equal(has("a"), 3);
    quota("*x", 0);
    assert_int_equal(has("bx"), 7);
    assert_int_equal(has("ax") + has("a"), 5);
}

/* Its nodes were its own for ever, and it never ran. */
TEST_IN(quota, incomplete_minimum_above_the_quota_is_given_up)
{
    quota("a*", 4);
    come_more(5, NULL);
    submit("a1", workers(4, 4, 0));
    quota("a*", 3);
    assert_int_equal(has("a1"), 4);
    kill_one_of("a1");
    assert_int_equal(has("a1"), 3);
    assert_string_equal(pool.waits, "a1 ");
    assert_int_equal(view("a1").state, PLACEMENT_JOB_SHORT);
    pass(60000 - 1);
    assert_int_equal(has("a1"), 3);
    pass(1);
    assert_int_equal(has("a1"), 0);
    assert_int_equal(pool.last.v[0].reason, PLACEMENT_ABOVE_QUOTA);
    free_released();
    quota("a*", 4);
    assert_int_equal(has("a1"), 4);
    assert_string_equal(pool.waits, "a1 a1 ");
}

TEST_IN(quota, demand_does_not_exceed_the_quota)
{
    struct placement_supply supply;
    quota("a*", 5);
    submit("a1", workers(2, 9, 500));
    assert_int_equal(demand("a1").min, 2);
    assert_int_equal(demand("a1").max, 5);
    submit("a2", workers(2, 9, 500));
    assert_int_equal(demand("a1").max, 3);
    assert_int_equal(demand("a2").max, 2);
    submit("a3", workers(2, 2, 400)); /* nothing is left for it */
    assert_int_equal(demand("a3").min, 0);
    assert_int_equal(demand("a3").max, 0);
    assert_int_equal(demand("a1").max, 2); /* nor is it given to those before it */
    over("a3");
    come_more(5, NULL);
    assert_int_equal(has("a1") + has("a2"), 5);
    come_more(1, NULL);
    assert_true(placement_supply(pool.p, 0, &supply));
    assert_int_equal(supply.idle, 1);
    assert_int_equal(demand("a1").max + demand("a2").max, 5);
    quota("a*", 6);
    assert_int_equal(has("a1") + has("a2"), 6);
    come_more(1, NULL);
    over("a1");
    assert_int_equal(demand("a2").max, 6);
}

/* It hid what it wanted as long as others had all of it, though they would have had to give it up:
 * the machines that it needed were never ordered. */
TEST_IN(quota, demand_includes_nodes_that_others_would_release)
{
    struct placement_options picky = on("gpu=b", workers(2, 2, 500));
    quota("a*", 4);
    come_more(4, NULL);
    submit("a1", workers(2, 9, 500));
    submit("a2", picky);
    assert_int_equal(demand("a2").max, 2);
    assert_int_equal(demand("a1").max, 4);
    change("a1", workers(2, 9, 501)); /* of a higher priority: it gives nothing up */
    assert_int_equal(demand("a2").max, 0);
    change("a1", workers(3, 9, 500));
    assert_int_equal(demand("a2").max, 0);
    change("a1", workers(3, 9, 499));
    assert_int_equal(demand("a2").max, 0);
    picky.preempt = true;
    change("a2", picky);
    assert_int_equal(demand("a2").max, 2);
    picky.min[0] = 5; /* above the quota */
    picky.max[0] = 9;
    change("a2", picky);
    assert_int_equal(demand("a2").max, 0);
    assert_int_equal(demand("a1").max, 4);
    over("a1");
    assert_int_equal(demand("a2").max, 0);
}

TEST_IN(quota, smallest_matching_quota_is_reported)
{
    quota("a*", 5);
    quota("*b", 3);
    assert_string_equal(placement_quota(pool.p, "ab").pattern, "*b");
    assert_int_equal(placement_quota(pool.p, "ab").nodes, 3);
    assert_string_equal(placement_quota(pool.p, "a").pattern, "a*");
    assert_null(placement_quota(pool.p, "c").pattern);
}

TEST_IN(quota, quotas_above_the_limit_and_invalid_ones_are_refused)
{
    char pattern[MSG_SCOPE_MAX + 2];
    struct placement_event event = {.type = PLACEMENT_QUOTA, .pattern = pattern, .nodes = 1};
    memset(pattern, 'x', sizeof(pattern));
    pattern[MSG_SCOPE_MAX + 1] = '\0';
    assert_int_equal(step(event), TFE_EINVAL);
    pattern[MSG_SCOPE_MAX] = '\0';
    assert_int_equal(step(event), 0);
    pattern[0] = '\0';
    assert_int_equal(step(event), TFE_EINVAL);
    event.pattern = NULL;
    assert_int_equal(step(event), TFE_EINVAL);
    event.pattern = pattern;
    for (unsigned i = 1; i < PLACEMENT_QUOTAS_MAX; i++) {
        (void)snprintf(pattern, sizeof(pattern), "%u*", i);
        assert_int_equal(step(event), 0);
    }
    (void)snprintf(pattern, sizeof(pattern), "more*");
    assert_int_equal(step(event), TFE_EFULL);
    event.nodes = 0;
    assert_int_equal(step(event), 0); /* there is none to end */
    (void)snprintf(pattern, sizeof(pattern), "7*");
    assert_int_equal(step(event), 0);
    event.nodes = 1;
    (void)snprintf(pattern, sizeof(pattern), "more*");
    assert_int_equal(step(event), 0);
    come_more(3, NULL);
    submit("63-a", workers(1, 3, 0));
    submit("more", workers(1, 3, 0));
    submit("7", workers(1, 1, 0));
    assert_int_equal(has("63-a") + has("more") + has("7"), 3);
}
