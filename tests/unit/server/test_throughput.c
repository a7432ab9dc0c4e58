/* tests/unit/server/test_throughput.c: steps per second over the last few seconds. */
#include "server/events/throughput.h"
#include "tests/unit/test_runner.h"

static struct tfe_mono at(int64_t ms)
{
    return (struct tfe_mono){1000000 + ms};
}

TEST(throughput, rate_covers_the_last_15_s)
{
    struct throughput p = {.n = 0};
    double rate;
    for (int64_t s = 0; s <= 60; s++) { /* ten steps per second at first, then one */
        throughput_add(&p, at(s * 1000), (uint64_t)(s <= 30 ? s * 10 : 300 + s - 30), 0);
        if (s == 30) {
            assert_true(throughput_steps(&p, at(s * 1000), &rate) && rate > 9.9 && rate < 10.1);
        }
    }
    assert_true(throughput_steps(&p, at(60000), &rate) && rate > 0.9 && rate < 1.1);
    assert_false(throughput_samples(&p, at(60000), &rate)); /* no samples were reported */
    assert_true(throughput_steps(&p, at(75000), &rate) && rate < 0.6); /* no step since 60 s */
}

TEST(throughput, rate_is_unknown_at_first_and_in_a_new_epoch)
{
    struct throughput p = {.n = 0};
    double rate;
    assert_false(throughput_steps(&p, at(0), &rate));
    throughput_add(&p, at(0), 5, 100);
    assert_false(throughput_steps(&p, at(10), &rate));
    throughput_add(&p, at(4000), 9, 500);
    assert_true(throughput_steps(&p, at(4000), &rate) && rate == 1);
    assert_true(throughput_samples(&p, at(4000), &rate) && rate == 100);
    throughput_begin(&p);
    assert_false(throughput_steps(&p, at(5000), &rate));
    throughput_add(&p, at(5000), 7, 0); /* restart from an earlier checkpoint */
    assert_int_equal(p.step, 7);
    throughput_add(&p, at(6000), 6, 0); /* a late report of an older step */
    assert_int_equal(p.step, 7);
}
