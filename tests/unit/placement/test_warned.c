/* tests/unit/placement/test_warned.c: jobs of whose nodes some are warned that their machines go:
 * they keep them, and get others in their place. */
#include <string.h>

#include "tests/unit/placement/hand_pool.h"

static void quota(const char *pattern, uint32_t nodes)
{
    assert_int_equal(
        step((struct placement_event){.type = PLACEMENT_QUOTA, .pattern = pattern, .nodes = nodes}),
        0);
}

static bool is_leaving(const char *node)
{
    bool is_so = false;
    for (size_t i = 0; i < pool.n_held; i++) {
        is_so = is_so || (strcmp(pool.held[i].node, node) == 0 && pool.held[i].is_leaving);
    }
    return is_so;
}

static void gone(const char *node)
{
    for (size_t i = 0; i < pool.n_held; i++) {
        if (strcmp(pool.held[i].node, node) == 0) {
            forget(i);
            break;
        }
    }
    about(PLACEMENT_NODE_LOST, node, NULL);
    about(PLACEMENT_NODE_GONE, node, NULL);
}

static struct placement_wish with_preempt(struct placement_wish w)
{
    w.preempt = true;
    return w;
}

static struct placement_wish suspended(struct placement_wish w)
{
    w.is_suspended = true;
    return w;
}

static struct placement_demand demand(size_t at)
{
    struct placement_demand rows[PLACEMENT_TASKS];
    assert_int_equal(placement_demand(pool.p, at, rows), 1);
    return rows[0];
}

/* It stood still from its planned end until the lease of a dead machine was over, while others
 * were free. */
TEST_IN(warned, job_gets_another_node_before_the_machine_has_gone)
{
    come(1, 3);
    submit("a", workers(2, 2, 500));
    warned("n01", true);
    assert_int_equal(pool.last.n, 1);
    assert_true(is_of("a", "n03"));
    assert_true(is_of("a", "n01") && leaving() == 0); /* until it has gone */
    assert_int_equal(view("a").held[TASK_WORKER], 2);
    warned("n01", true);
    assert_int_equal(pool.last.n, 0);
    gone("n01");
    assert_int_equal(view("a").held[TASK_WORKER], 2);
    assert_int_equal(view("a").state, PLACEMENT_JOB_PLACED);
    come(4, 1);
    assert_int_equal(has("a"), 2);
}

TEST_IN(warned, job_goes_on_with_what_it_has_where_nobody_is_free)
{
    come(1, 2);
    submit("a", workers(2, 2, 500));
    warned("n01", true);
    assert_int_equal(pool.last.n, 0);
    assert_int_equal(view("a").state, PLACEMENT_JOB_PLACED);
    assert_int_equal(demand(0).held, 1); /* one may be ordered */
    assert_int_equal(demand(0).min, 2);
    come(3, 1);
    assert_true(is_of("a", "n03"));
    assert_int_equal(demand(0).held, 2);
}

TEST_IN(warned, job_without_any_other_node_runs_until_it_has_gone)
{
    come(1, 1);
    submit("a", workers(1, 1, 500));
    warned("n01", true);
    assert_int_equal(view("a").state, PLACEMENT_JOB_PLACED);
    gone("n01");
    assert_int_equal(view("a").state, PLACEMENT_JOB_QUEUED);
}

/* The one that was warned counts again; where there is one too many then, the newest goes. */
TEST_IN(warned, newest_goes_once_the_warning_is_withdrawn)
{
    come(1, 3);
    submit("a", workers(2, 2, 500));
    warned("n01", true);
    assert_int_equal(has("a"), 3);
    warned("n01", false);
    assert_int_equal(pool.last.n, 1);
    assert_int_equal(pool.last.v[0].reason, PLACEMENT_TOO_MANY);
    assert_true(is_leaving("n03"));
    free_released();
    submit("b", workers(1, 1, 500));
    assert_true(is_of("b", "n03"));
}

TEST_IN(warned, job_grows_in_place_of_a_node_that_goes)
{
    come(1, 3);
    submit("a", workers(1, 2, 500));
    about(PLACEMENT_TICK, NULL, NULL);
    assert_int_equal(has("a"), 2);
    warned("n02", true);
    assert_true(is_of("a", "n03"));
}

/* Nobody gets a part of a minimum. */
TEST_IN(warned, minimum_is_filled_up_all_at_once)
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

TEST_IN(warned, role_goes_to_another_node)
{
    struct placement_wish w = workers(1, 1, 500);
    w.min[TASK_CHIEF] = w.max[TASK_CHIEF] = 1;
    come(1, 2);
    submit("a", w);
    size_t chief = pool.held[0].task == TASK_CHIEF ? 0 : 1;
    char node[16];
    memcpy(node, pool.held[chief].node, sizeof(node));
    warned(node, true);
    come(3, 2);
    assert_int_equal(pool.n_held, 3);
    assert_string_equal(pool.held[2].node, "n03");
    assert_int_equal(pool.held[2].task, TASK_CHIEF);
}

/* A job was ended for a node that nobody could have then, and another one after it. */
TEST_IN(warned, nobody_is_ended_for_a_machine_that_goes)
{
    come(1, 1);
    submit("low", workers(1, 1, 100));
    come(2, 1);
    submit("mid", workers(1, 1, 200));
    warned("n01", true);
    submit("high", with_preempt(workers(1, 1, 900)));
    assert_int_equal(pool.last.n, 1);
    assert_true(is_leaving("n02"));
    assert_true(is_of("low", "n01"));
    free_released();
    assert_true(is_of("high", "n02"));
    assert_int_equal(leaving(), 0);
    assert_int_equal(view("low").state, PLACEMENT_JOB_PLACED);
}

TEST_IN(warned, job_that_is_ended_for_others_gives_all_back)
{
    come(1, 2);
    submit("low", workers(2, 2, 100));
    warned("n01", true);
    submit("high", with_preempt(workers(1, 1, 900)));
    assert_true(is_leaving("n01") && is_leaving("n02"));
    free_released();
    assert_true(is_of("high", "n02"));
    assert_int_equal(pool.n_held, 1);
}

/* A good one went, and the job was below its minimum once the other one had gone. */
TEST_IN(warned, job_that_is_scaled_down_keeps_those_that_last)
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

TEST_IN(warned, what_goes_is_not_above_a_minimum)
{
    come(1, 2);
    submit("a", workers(1, 2, 500));
    about(PLACEMENT_TICK, NULL, NULL);
    assert_int_equal(has("a"), 2);
    warned("n01", true);
    submit("b", workers(1, 1, 500));
    assert_int_equal(leaving(), 0);
    warned("n01", false);
    assert_int_equal(leaving(), 1); /* now one is */
}

/* It runs, and would have ended at once what it can do until its machine goes. */
TEST_IN(warned, job_that_still_runs_gives_nothing_up_for_others)
{
    come(1, 2);
    submit("a", workers(2, 2, 500));
    warned("n01", true);
    submit("b", workers(1, 1, 500));
    pool.now = 60000;
    about(PLACEMENT_TICK, NULL, NULL);
    assert_int_equal(leaving(), 0);
    gone("n01");
    assert_int_equal(view("a").state, PLACEMENT_JOB_SHORT);
    pool.now = 120000; /* as any that has lost one */
    about(PLACEMENT_TICK, NULL, NULL);
    assert_int_equal(leaving(), 1);
    free_released();
    assert_true(is_of("b", "n02"));
}

TEST_IN(warned, quota_leaves_room_for_another_one_in_place_of_a_node_that_goes)
{
    quota("*", 2);
    come(1, 4);
    submit("a", workers(2, 2, 500));
    submit("b", workers(1, 1, 500));
    assert_int_equal(has("b"), 0);
    warned("n01", true);
    assert_int_equal(has("a"), 3);
    assert_int_equal(has("b"), 0);
    quota("*", 2); /* counted anew */
    assert_int_equal(has("b"), 0);
    gone("n01");
    assert_int_equal(has("b"), 0);
    warned("n02", true);
    assert_int_equal(has("a"), 3);
    warned("n02", false); /* all three count, until one has left */
    assert_int_equal(leaving(), 1);
    free_released();
    assert_int_equal(has("b"), 0);
    quota("*", 3);
    assert_int_equal(has("b"), 1);
}

TEST_IN(warned, node_that_was_asked_to_leave_is_of_its_quota_until_it_has)
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
    about(PLACEMENT_JOB_OVER, NULL, "b");
    free_released();
    assert_int_equal(has("a"), 2); /* nothing of the quota was lost */
}

TEST_IN(warned, suspended_job_gives_it_back_and_nobody_gets_it)
{
    come(1, 1);
    submit("a", workers(1, 1, 500));
    warned("n01", true);
    change("a", suspended(workers(1, 1, 500)));
    assert_true(is_leaving("n01"));
    assert_int_equal(pool.last.v[0].reason, PLACEMENT_SUSPENDED);
    submit("b", workers(1, 1, 500));
    free_released();
    assert_int_equal(has("b"), 0);
    change("a", workers(1, 1, 500));
    assert_int_equal(has("a"), 0);
    warned("n01", false);
    assert_int_equal(has("a") + has("b"), 1);
}

static void came_back(const char *node, uint64_t assignment, bool is_more_to_come)
{
    assert_int_equal(step((struct placement_event){.type = PLACEMENT_NODE_CAME,
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
TEST_IN(warned, who_goes_after_a_restart_has_been_heard)
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
TEST_IN(warned, nobody_goes_after_a_restart_before_all_have_said_what_they_know)
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
