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

TEST(slow, node_with_twice_the_work_time_is_named_despite_equal_step_times)
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

TEST(slow, step_times_are_compared_without_work_times)
{
    const struct msg_machine_stats v[] = {{.step_us = 10 * MS}, {.step_us = 30 * MS}};
    struct straggler s[2] = {{0}};
    judge_all(v, 2, s);
    judge_all(v, 2, s);
    assert_true(s[1].is_slow);
    assert_false(s[1].by_work || s[0].is_slow);
}

TEST(slow, single_node_small_difference_or_missing_report_names_none)
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

TEST(slow, straggler_recovers_only_with_a_clear_margin)
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
TEST(slow, straggler_without_reports_is_not_named)
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
