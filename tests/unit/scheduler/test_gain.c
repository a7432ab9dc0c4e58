/* tests/unit/scheduler/test_gain.c: estimate of what one more worker contributes. */
#include "server/scheduler/gain.h"
#include "tests/unit/test_runner.h"

TEST(gain, nothing_is_known_of_one_size)
{
    struct gain g = {.now.workers = 0};
    assert_int_equal(gain_milli(&g), 1000);
    gain_add(&g, 2, 10);
    gain_add(&g, 2, 30);
    assert_int_equal(gain_milli(&g), 1000);
}

TEST(gain, slope_between_the_last_two_sizes_counts_whichever_came_first)
{
    struct gain g = {.now.workers = 0};
    gain_add(&g, 2, 100);
    gain_add(&g, 4, 150); /* 25 a worker, of 50 */
    assert_int_equal(gain_milli(&g), 500);
    gain_add(&g, 3, 135); /* 15 a worker, of 45 */
    assert_int_equal(gain_milli(&g), 333);
    gain_add(&g, 3, 150);
    assert_int_equal(gain_milli(&g), 1);
}

TEST(gain, is_never_more_than_a_worker_nor_nothing)
{
    struct gain g = {.now.workers = 0};
    gain_add(&g, 1, 10);
    gain_add(&g, 2, 40);
    assert_int_equal(gain_milli(&g), 1000);
    gain_add(&g, 3, 20);
    assert_int_equal(gain_milli(&g), 1);
}

TEST(gain, a_job_that_stood_still_says_nothing)
{
    struct gain g = {.now.workers = 0};
    gain_add(&g, 1, 0);
    gain_add(&g, 2, 40);
    assert_int_equal(gain_milli(&g), 1000);
}
