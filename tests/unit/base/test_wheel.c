/* tests/unit/base/test_wheel.c: the timing wheel, compared with a sorted list. */
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/base/wheel.h"
#include "tests/unit/test_runner.h"

static struct tfe_mono at(int64_t ms)
{
    return (struct tfe_mono){.ms = ms};
}

static struct wheel *wheel_at(int64_t now)
{
    struct wheel *wheel = malloc(sizeof(*wheel));
    assert_non_null(wheel);
    wheel_init(wheel, at(now));
    return wheel;
}

TEST(wheel, an_empty_one_never_needs_a_look)
{
    struct wheel *wheel = wheel_at(17);
    assert_null(wheel_peek(wheel, at(INT64_MAX - 1)));
    assert_true(tfe_mono_is_never(wheel_next(wheel)));
    free(wheel);
}

TEST(wheel, timers_come_in_order_of_due_time_and_equals_as_they_were_set)
{
    struct wheel *wheel = wheel_at(0);
    struct wheel_timer timers[6] = {0};
    static const int64_t due[6] = {5000, 70, 5000, 3, 5000, 70};
    static const int order[6] = {3, 1, 5, 0, 2, 4};
    for (int i = 0; i < 6; i++) {
        wheel_set(wheel, &timers[i], at(due[i]));
    }
    for (int i = 0; i < 6; i++) {
        struct wheel_timer *timer = wheel_peek(wheel, at(6000));
        assert_ptr_equal(timer, &timers[order[i]]);
        assert_ptr_equal(wheel_peek(wheel, at(6000)), timer); /* the timer stays set */
        wheel_cancel(wheel, timer);
        assert_false(wheel_is_set(timer));
    }
    assert_null(wheel_peek(wheel, at(6000)));
    free(wheel);
}

TEST(wheel, cascades_through_every_level_to_the_millisecond)
{
    for (int bit = 0; bit < 63; bit++) {
        for (int64_t off = -1; off <= 1; off++) {
            int64_t due = (INT64_C(1) << bit) + off;
            if (due <= 0) {
                continue;
            }
            struct wheel *wheel = wheel_at(0);
            struct wheel_timer timer = {0};
            wheel_set(wheel, &timer, at(due));
            /* Advances like the I/O layer: whenever the wheel asks for it, at most once per level.
             */
            int looks = 0;
            for (;;) {
                struct tfe_mono next = wheel_next(wheel);
                assert_true(next.ms <= due);
                assert_null(next.ms == due ? NULL : wheel_peek(wheel, at(next.ms)));
                if (next.ms == due) {
                    break;
                }
                assert_true(++looks <= WHEEL_LEVELS);
            }
            assert_null(wheel_peek(wheel, at(due - 1)));
            assert_ptr_equal(wheel_peek(wheel, at(due)), &timer);
            free(wheel);
        }
    }
}

TEST(wheel, a_huge_jump_loses_nothing)
{
    struct wheel *wheel = wheel_at(123456789);
    struct wheel_timer timers[63] = {0};
    for (int i = 0; i < 63; i++) {
        wheel_set(wheel, &timers[i], at(123456790 + (INT64_C(1) << i) / 2));
    }
    int64_t last = 0;
    for (int i = 0; i < 63; i++) {
        struct wheel_timer *timer = wheel_peek(wheel, at(INT64_MAX - 1));
        assert_non_null(timer);
        assert_true(timer->due.ms >= last);
        last = timer->due.ms;
        wheel_cancel(wheel, timer);
    }
    assert_null(wheel_peek(wheel, at(INT64_MAX - 1)));
    free(wheel);
}

TEST(wheel, a_time_in_the_past_is_due_now_and_never_cancels)
{
    struct wheel *wheel = wheel_at(1000);
    struct wheel_timer past = {0};
    struct wheel_timer now = {0};
    wheel_set(wheel, &past, at(0));
    wheel_set(wheel, &now, at(1000));
    assert_int_equal(wheel_next(wheel).ms, 1000);
    assert_ptr_equal(wheel_peek(wheel, at(1000)), &past);
    wheel_set(wheel, &past, TFE_MONO_NEVER);
    assert_false(wheel_is_set(&past));
    assert_ptr_equal(wheel_peek(wheel, at(1000)), &now);
    wheel_cancel(wheel, &now);
    wheel_cancel(wheel, &now);
    assert_true(tfe_mono_is_never(wheel_next(wheel)));
    free(wheel);
}

TEST(wheel, moving_a_timer_forgets_its_old_place)
{
    struct wheel *wheel = wheel_at(0);
    struct wheel_timer timer = {0};
    wheel_set(wheel, &timer, at(10));
    wheel_set(wheel, &timer, at(1 << 20));
    assert_null(wheel_peek(wheel, at((1 << 20) - 1)));
    wheel_set(wheel, &timer, at((1 << 20) + 5));
    assert_null(wheel_peek(wheel, at((1 << 20) + 4)));
    assert_ptr_equal(wheel_peek(wheel, at(1 << 20 | 5)), &timer);
    free(wheel);
}

TEST(wheel, timers_that_are_moved_on_all_the_time_cost_a_look_a_slot_and_are_never_late)
{
    struct wheel *wheel = wheel_at(0);
    struct wheel_timer leases[100] = {0};
    int looks = 0;
    /* Simulates leases of 11 s that are renewed every 3 s, for a hundred seconds. */
    for (int64_t now = 0; now < 100000; now++) {
        if (wheel_next(wheel).ms <= now) {
            assert_null(wheel_peek(wheel, at(now)));
            looks++;
        }
        if (now % 30 == 0) {
            wheel_set(wheel, &leases[now / 30 % 100], at(now + 11000));
        }
    }
    assert_in_range(looks, 1, 100000 >> (2 * WHEEL_BITS));
    for (int i = 0; i < 100; i++) {
        struct wheel_timer *next = &leases[(i + 34) % 100]; /* lease 33 was renewed last */
        const int64_t due = next->due.ms;
        assert_in_range(due, 97000 + 11000, 99990 + 11000);
        assert_null(wheel_peek(wheel, at(due - 1)));
        assert_ptr_equal(wheel_peek(wheel, at(due)), next);
        wheel_cancel(wheel, next);
    }
    free(wheel);
}

/* --- comparison with a model ------------------------------------------------------------------ */

#define TIMERS 48

/* The simplest implementation: searches all timers. */
struct model {
    struct {
        bool set;
        bool moved;     /* true if the timer was set again while it was set */
        int64_t due;    /* a time in the past counts as the wheel's present */
        uint64_t order; /* order in which the timers were set */
    } v[TIMERS];
    uint64_t order;
};

static int model_first(const struct model *model, int64_t now)
{
    int first = -1;
    for (int i = 0; i < TIMERS; i++) {
        if (!model->v[i].set || model->v[i].due > now) {
            continue;
        }
        if (first < 0 || model->v[i].due < model->v[first].due) {
            first = i;
        }
    }
    return first;
}

/* Returns true if another timer that was not moved is due at the same time and was set before. */
static bool model_has_earlier_equal(const struct model *model, int i)
{
    for (int k = 0; k < TIMERS; k++) {
        if (model->v[k].set && !model->v[k].moved && model->v[k].due == model->v[i].due &&
            model->v[k].order < model->v[i].order) {
            return true;
        }
    }
    return false;
}

/* Returns a span from a millisecond to centuries, with all magnitudes equally likely. */
static int64_t any_span(struct rng *rng)
{
    return (int64_t)(rng_next(rng) >> rng_between(rng, 24, 63));
}

TEST(wheel, does_what_a_sorted_list_does_a_million_times)
{
    struct wheel *wheel = wheel_at(1000);
    struct wheel_timer timers[TIMERS] = {0};
    struct model model = {0};
    struct rng rng;
    rng_init(&rng, 20240607);
    int64_t now = 1000;
    uint64_t fired = 0;
    for (int step = 0; step < 2000000; step++) {
        int i = (int)rng_between(&rng, 0, TIMERS - 1);
        switch (rng_between(&rng, 0, 3)) {
        case 0: {
            int64_t due = now + any_span(&rng) - (int64_t)rng_between(&rng, 0, 2);
            model.v[i].moved = wheel_is_set(&timers[i]) && due >= timers[i].due.ms;
            wheel_set(wheel, &timers[i], at(due));
            model.v[i].set = true;
            model.v[i].due = due > wheel->now_ms ? due : wheel->now_ms;
            model.v[i].order = ++model.order;
            break;
        }
        case 1:
            wheel_cancel(wheel, &timers[i]);
            model.v[i].set = false;
            break;
        case 2: {
            int64_t span = any_span(&rng) >> rng_between(&rng, 0, 20);
            now = now + span < INT64_MAX / 4 ? now + span : now;
            break;
        }
        default: {
            int first = model_first(&model, now);
            struct wheel_timer *timer = wheel_peek(wheel, at(now));
            assert_int_equal(!timer, first < 0);
            if (timer) {
                int fires = (int)(timer - timers);
                assert_true(model.v[fires].set);
                assert_int_equal(model.v[fires].due, model.v[first].due);
                /* The order of moved timers among timers with the same due time is unspecified. */
                assert_true(model.v[fires].moved || !model_has_earlier_equal(&model, fires));
                wheel_cancel(wheel, timer);
                model.v[fires].set = false;
                fired++;
            }
            break;
        }
        }
        if (step % 64 == 0) {
            int first = model_first(&model, INT64_MAX - 1);
            struct tfe_mono next = wheel_next(wheel);
            assert_true(first < 0 ? tfe_mono_is_never(next) : next.ms <= model.v[first].due);
        }
        assert_int_equal(wheel_is_set(&timers[i]), model.v[i].set);
    }
    assert_true(fired > 100000);
    free(wheel);
}
