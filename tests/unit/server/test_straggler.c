/* tests/unit/server/test_straggler.c: detection of the machine that slows down an epoch. */
#include "server/events/straggler.h"
#include "tests/unit/test_runner.h"

#define MS 1000u

/* Judges machine i with all n machines known. */
static void judge_all(const struct msg_machine_stats *v, size_t n, struct straggler *ret)
{
    struct straggler_detector j;
    assert_int_equal(straggler_begin(&j, n), 0);
    for (size_t i = 0; i < n; i++) {
        straggler_add(&j, &v[i]);
    }
    straggler_sort(&j);
    for (size_t i = 0; i < n; i++) {
        straggler_update(&j, &v[i], &ret[i]);
    }
    straggler_end(&j);
}

TEST(slow, who_works_twice_as_long_for_a_step_is_named_though_all_steps_take_the_same)
{
    const struct msg_machine_stats v[] = {{.step_us = 400 * MS, .work_us = 100 * MS},
                                          {.step_us = 400 * MS, .work_us = 210 * MS},
                                          {.step_us = 400 * MS, .work_us = 98 * MS}};
    struct straggler s[3] = {{0}};
    judge_all(v, 3, s);
    assert_false(s[1].is_slow); /* a single slow sample may be chance */
    judge_all(v, 3, s);
    assert_true(s[1].is_slow && s[1].by_work);
    assert_int_equal(s[1].times_milli, 2142);
    assert_false(s[0].is_slow || s[2].is_slow);
}

TEST(slow, where_nobody_knows_of_work_steps_are_compared)
{
    const struct msg_machine_stats v[] = {{.step_us = 10 * MS}, {.step_us = 30 * MS}};
    struct straggler s[2] = {{0}};
    judge_all(v, 2, s);
    judge_all(v, 2, s);
    assert_true(s[1].is_slow);
    assert_false(s[1].by_work || s[0].is_slow);
}

TEST(slow, one_alone_a_small_difference_and_who_tells_nothing_are_not)
{
    const struct msg_machine_stats alone[] = {{.step_us = 10 * MS}};
    const struct msg_machine_stats near[] = {{.step_us = 100 * MS}, {.step_us = 140 * MS}};
    const struct msg_machine_stats tiny[] = {{.step_us = 100}, {.step_us = 900}};
    const struct msg_machine_stats silent[] = {{.step_us = 10 * MS}, {.step_us = 10 * MS}, {0}};
    const struct {
        const struct msg_machine_stats *v;
        size_t n;
    } all[] = {{alone, 1}, {near, 2}, {tiny, 2}, {silent, 3}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct straggler s[3] = {{0}};
        judge_all(all[i].v, all[i].n, s);
        judge_all(all[i].v, all[i].n, s);
        assert_false(s[0].is_slow || s[1].is_slow || s[2].is_slow);
    }
}

TEST(slow, is_over_only_when_it_is_clearly_as_fast_as_the_others_again)
{
    struct msg_machine_stats v[] = {
        {.step_us = 100 * MS}, {.step_us = 100 * MS}, {.step_us = 300 * MS}};
    struct straggler s[3] = {{0}};
    judge_all(v, 3, s);
    judge_all(v, 3, s);
    assert_true(s[2].is_slow);
    v[2].step_us = 140 * MS;
    judge_all(v, 3, s);
    assert_true(s[2].is_slow);
    v[2].step_us = 110 * MS;
    judge_all(v, 3, s);
    assert_false(s[2].is_slow);
}

/* Regression: at the start of an epoch the straggler was reported as recovered. */
TEST(slow, nobody_is_told_of_one_of_which_nothing_is_known_any_more)
{
    struct msg_machine_stats v[] = {
        {.step_us = 100 * MS}, {.step_us = 100 * MS}, {.step_us = 300 * MS}};
    struct straggler s[3] = {{0}};
    struct straggler was;
    judge_all(v, 3, s);
    was = s[2];
    judge_all(v, 3, s);
    assert_true(straggler_changed(&was, &s[2]) && !straggler_changed(&s[0], &s[1]));
    was = s[2];
    v[2].step_us = 0;
    judge_all(v, 3, s);
    assert_false(s[2].is_slow || straggler_changed(&was, &s[2]));
    s[2] = was;
    v[2].step_us = 100 * MS;
    judge_all(v, 3, s);
    assert_true(straggler_changed(&was, &s[2]));
}
