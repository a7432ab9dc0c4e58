/* tests/unit/scheduler/test_warned.c: jobs with warned nodes keep them and get replacements. */
#include "tests/unit/scheduler/manual_pool.h"

static struct placement_options suspended(struct placement_options w)
{
    w.is_suspended = true;
    return w;
}

/* Nobody gets a part of a minimum. */
TEST_IN(warned, minimum_is_filled_at_once)
{
    come(1, 3);
    submit("a", workers(3, 5, 500));
    warned("n01", true);
    warned("n02", true);
    come(4, 1);
    assert_int_equal(has("a"), 3);
    come(5, 1);
    assert_int_equal(has("a"), 5);
}

/* A good one went, and the job was below its minimum once the other one had gone. */
TEST_IN(warned, scaled_down_job_keeps_unwarned_nodes)
{
    come(1, 3);
    submit("a", workers(3, 3, 500));
    warned("n01", true);
    change("a", workers(2, 2, 500));
    assert_int_equal(leaving(), 0);
    change("a", workers(1, 1, 500));
    assert_int_equal(leaving(), 1);
    assert_true(is_leaving("n03"));
}

TEST_IN(warned, released_node_counts_for_its_quota_until_freed)
{
    quota("*", 2);
    come(1, 4);
    submit("a", workers(2, 2, 500));
    submit("b", workers(1, 1, 500));
    warned("n01", true);
    change("a", suspended(workers(2, 2, 500)));
    assert_int_equal(leaving(), 3);
    freed(find(pool.held[0].assignment));
    assert_int_equal(has("b"), 0);
    freed(find(pool.held[0].assignment));
    assert_int_equal(has("b"), 1);
    free_released();
    change("a", workers(2, 2, 500));
    assert_int_equal(has("a"), 0);
    over("b");
    free_released();
    assert_int_equal(has("a"), 2); /* nothing of the quota was lost */
}

static void came_back(const char *node, uint64_t assignment, bool is_more_to_come)
{
    assert_int_equal(step((struct placement_event){.type = PLACEMENT_NODE_CONNECTED,
                                                   .node = node,
                                                   .assignment = assignment,
                                                   .is_more_to_come = is_more_to_come}),
                     0);
}

static void restored(const char *node, uint64_t assignment)
{
    assert_int_equal(
        step((struct placement_event){
            .type = PLACEMENT_RESTORED, .node = node, .job = "a", .assignment = assignment}),
        0);
}

/* The newest of those that are heard. */
TEST_IN(warned, only_connected_nodes_are_released_after_a_restart)
{
    submit("a", workers(1, 1, 500));
    restored("n1", 1);
    restored("n2", 2);
    restored("n3", 3);
    came_back("n1", 1, false);
    assert_int_equal(pool.last.n, 0);
    came_back("n2", 2, false);
    assert_int_equal(pool.last.n, 1);
    assert_string_equal(pool.last.v[0].node, "n2");
    came_back("n3", 3, false);
    assert_int_equal(pool.last.n, 1);
    assert_string_equal(pool.last.v[0].node, "n3");
}

/* The server forgot with its restart who was warned, and ended the one that had come for it. */
TEST_IN(warned, no_node_is_released_after_a_restart_before_all_are_connected)
{
    submit("a", workers(2, 2, 500));
    restored("n1", 1);
    restored("n2", 2);
    restored("n3", 3);
    assert_int_equal(pool.last.n, 0);
    came_back("n3", 3, false);
    came_back("n2", 2, false);
    came_back("n1", 1, true);
    warned("n1", true);
    assert_int_equal(pool.last.n, 0);
    warned("n1", false);
    assert_int_equal(pool.last.n, 1);
    assert_string_equal(pool.last.v[0].node, "n3");
}
