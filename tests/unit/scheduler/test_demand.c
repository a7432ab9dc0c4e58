/* tests/unit/scheduler/test_demand.c: demand of the jobs and supply of the pool, for programs that
 * start machines. */
#include "tests/unit/scheduler/manual_pool.h"

/* Two to five workers anywhere, a chief and two ps on machines that last, ps with room. */
static const struct placement_label labels[] = {{0x6, "spot=false"}, {0x4, "memory=much"}};
static const struct placement_options served = {
    .priority = 700, .min = {2, 1, 2, 0}, .max = {5, 1, 2, 0}, .labels = labels, .n_labels = 2};

TEST_IN(demand, each_task_is_a_row_with_its_labels)
{
    struct placement_demand rows[PLACEMENT_TASKS];
    struct placement_options plain = {.min = {1, 1, 1, 1}, .max = {3, 1, 1, 1}};
    size_t cursor = 0;
    submit("plain", plain);
    submit("served", served);
    assert_int_equal(placement_demand(pool.p, 0, rows), 3);
    assert_string_equal(rows[0].job, "served");
    assert_int_equal(rows[0].task, TASK_WORKER);
    assert_int_equal(rows[0].min, 2);
    assert_int_equal(rows[0].max, 5);
    assert_null(placement_label(pool.p, 0, rows[0].task, &cursor));
    assert_int_equal(rows[1].task, TASK_CHIEF);
    cursor = 0;
    assert_string_equal(placement_label(pool.p, 0, rows[1].task, &cursor), "spot=false");
    assert_null(placement_label(pool.p, 0, rows[1].task, &cursor));
    assert_int_equal(rows[2].task, TASK_PS);
    cursor = 0;
    assert_string_equal(placement_label(pool.p, 0, rows[2].task, &cursor), "spot=false");
    assert_string_equal(placement_label(pool.p, 0, rows[2].task, &cursor), "memory=much");
    assert_int_equal(placement_demand(pool.p, 1, rows), 4);
    assert_int_equal(rows[0].min, 1);
    assert_int_equal(rows[0].max, 3);
    assert_int_equal(rows[3].task, TASK_EVALUATOR);
    assert_int_equal(rows[3].max, 1);
}

TEST_IN(demand, suspended_or_finished_job_has_no_demand)
{
    struct placement_demand rows[PLACEMENT_TASKS];
    struct placement_options options = {.is_suspended = true, .min = {1}, .max = {1}};
    submit("a", options);
    assert_int_equal(placement_demand(pool.p, 0, rows), 0);
    options.is_suspended = false;
    change("a", options);
    assert_int_equal(placement_demand(pool.p, 0, rows), 1);
    over("a");
    assert_int_equal(placement_demand(pool.p, 0, rows), 0);
}

TEST_IN(demand, idle_node_counts_for_tasks_with_matching_labels)
{
    struct placement_supply supply;
    came("a", "memory=much"); /* too few for its minimum: it is kept for it */
    submit("served", served);
    assert_true(placement_supply(pool.p, 0, &supply));
    assert_int_equal(supply.idle, 1);
    assert_true(placement_may_have(pool.p, 0, TASK_WORKER, 0));
    assert_false(placement_may_have(pool.p, 0, TASK_PS, 0)); /* it lacks spot=false */
}
