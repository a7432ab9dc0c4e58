/* tests/unit/base/test_clock.c: clocks that count suspended time, and throttled log lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/cli/log_throttle.h"
#include "tests/unit/test_runner.h"

/* Seconds of suspension, in which CLOCK_MONOTONIC stood still (--wrap=clock_gettime). */
static time_t suspended_s;

int __real_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
    int rc = __real_clock_gettime(id, ret);
    ret->tv_sec += id == CLOCK_MONOTONIC ? 0 : suspended_s;
    return rc;
}

TEST(clock, goes_on_while_the_machine_is_suspended)
{
    const struct tfe_mono before = clock_mono();
    const struct tfe_wall wall_before = clock_wall();
    const int64_t us_before = clock_us();
    suspended_s = 100000;
    assert_in_range(tfe_mono_sub(clock_mono(), before), 100000000, 100030000);
    /* The wall clock may be set meanwhile. */
    assert_true(clock_wall().ms - wall_before.ms >= 99000000);
    assert_in_range(clock_us() - us_before, 0, 30000000);
    suspended_s = 0;
}

static bool passes(struct throttle *t, const char *cause, uint64_t *ret_hidden)
{
    return throttle_pass(t, cause, strlen(cause), ret_hidden);
}

TEST(throttle, lets_a_burst_of_each_cause_pass_and_counts_what_it_hides_once)
{
    uint64_t hidden = 99;
    struct throttle *t = throttle_new(1024, 2, 60000);
    assert_non_null(t);
    memset(t->hash_key, 0, sizeof(t->hash_key)); /* "a" and "b" have different buckets */
    for (int i = 0; i < 2; i++) {
        assert_true(passes(t, "a", &hidden));
        assert_int_equal(hidden, 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_false(passes(t, "a", &hidden));
    }
    assert_true(passes(t, "b", &hidden));
    assert_int_equal(hidden, 3);
    assert_true(passes(t, "b", &hidden));
    assert_int_equal(hidden, 0);
    assert_false(passes(t, "b", &hidden));
    assert_int_equal(throttle_suppressed(t, "a", 1), 3); /* each key has a count of its own */
    assert_int_equal(throttle_suppressed(t, "a", 1), 0);
    assert_int_equal(throttle_suppressed(t, "b", 1), 1);
    suspended_s = 61; /* a new minute allows one line of each key */
    assert_true(passes(t, "a", &hidden));
    assert_int_equal(hidden, 1);
    assert_false(passes(t, "a", &hidden));
    suspended_s = 0;
    free(t);
}

TEST(throttle, causes_that_share_a_bucket_in_one_process_do_not_in_others)
{
    char other[24];
    uint64_t hidden;
    int n = 0;
    int n_passed = 0;
    struct throttle *t = throttle_new(64, 1, 60000);
    assert_true(passes(t, "victim", &hidden));
    do {
        (void)snprintf(other, sizeof(other), "other-%d", n++);
    } while (passes(t, other, &hidden));
    free(t);
    for (int i = 0; i < 10; i++) {
        t = throttle_new(64, 1, 60000);
        assert_true(passes(t, other, &hidden));
        n_passed += passes(t, "victim", &hidden);
        free(t);
    }
    assert_true(n_passed > 0);
}
