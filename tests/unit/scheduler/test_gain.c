/* tests/unit/scheduler/test_gain.c: estimate of what one more worker contributes. */
#include "server/scheduler/gain.h"
#include "tests/unit/test_runner.h"

TEST(gain, gain_is_unknown_with_one_size)
{
    struct gain g = {.now.workers = 0};
    assert_int_equal(gain_milli(&g), 1000);
    gain_add(&g, 2, 10);
    gain_add(&g, 2, 30);
    assert_int_equal(gain_milli(&g), 1000);
}

TEST(gain, slope_of_the_last_two_sizes_counts_in_any_order)
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

TEST(gain, gain_is_between_a_minimum_and_one_worker)
{
    struct gain g = {.now.workers = 0};
    gain_add(&g, 1, 10);
    gain_add(&g, 2, 40);
    assert_int_equal(gain_milli(&g), 1000);
    gain_add(&g, 3, 20);
    assert_int_equal(gain_milli(&g), 1);
}

TEST(gain, job_at_a_standstill_is_ignored)
{
    struct gain g = {.now.workers = 0};
    gain_add(&g, 1, 0);
    gain_add(&g, 2, 40);
    assert_int_equal(gain_milli(&g), 1000);
}
