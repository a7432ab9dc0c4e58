/* tests/unit/base/test_rate.c: rate limits: a burst, then one event per interval. */
#include "common/base/rate.h"
#include "tests/unit/test_runner.h"

static unsigned passed(struct rate *rate, int64_t at_ms, unsigned tries)
{
    unsigned n = 0;
    for (unsigned i = 0; i < tries; i++) {
        n += rate_pass(rate, (struct tfe_mono){at_ms}, 50, 10);
    }
    return n;
}

TEST(rate, lets_a_burst_through_and_then_one_at_a_time)
{
    struct rate rate = {{0}};
    assert_int_equal(passed(&rate, 1000, 30), 10);
    assert_int_equal(passed(&rate, 1049, 30), 0);
    assert_int_equal(passed(&rate, 1050, 30), 1);
    assert_int_equal(passed(&rate, 1200, 30), 3);
}

TEST(rate, saves_no_more_than_a_burst)
{
    struct rate rate = {{0}};
    assert_int_equal(passed(&rate, 1000, 30), 10);
    assert_int_equal(passed(&rate, 1000000, 30), 10);
}

TEST(rate, gives_back_what_does_not_count)
{
    struct rate rate = {{0}};
    assert_int_equal(passed(&rate, 1000, 30), 10);
    rate_refund(&rate, 50);
    assert_int_equal(passed(&rate, 1000, 30), 1);
    /* Not before the interval has passed. */
    for (unsigned i = 0; i < 100; i++) {
        rate_refund(&rate, 50);
    }
    assert_int_equal(passed(&rate, 1000, 30), 10);
}
