/* tests/unit/server/test_reports.c: what agents report for people: whose metrics count, which
 * checkpoints are events, and what of it all is still true in the next epoch and run. Time and the
 * core's answers are the story's; events and points are written down. */
#include <stdio.h>
#include <string.h>

#include "common/net/clock.h"
#include "server/reports.h"
#include "tests/unit/story.h"

static struct reports *all;
static struct report *at[3]; /* of each session */
static struct tfe_mono now;
static struct rdzv_place place; /* of session 0; the next ones have the next ranks */
static char points[512], events[512];

struct tfe_mono __wrap_clock_mono(void);
struct tfe_mono __wrap_clock_mono(void)
{
    return now;
}

int __wrap_rdzv_place_of(const struct rdzv *r, uint32_t session, struct rdzv_place *ret);
int __wrap_rdzv_place_of(const struct rdzv *r, uint32_t session, struct rdzv_place *ret)
{
    static const char *const nodes[] = {"n0", "n1", "n2"};
    *ret = place;
    ret->node = nodes[session];
    ret->rank += session;
    return 0;
}

bool __wrap_series_add(struct series *s, const struct msg_series_row *point);
bool __wrap_series_add(struct series *s, const struct msg_series_row *point)
{
    size_t n = strlen(points);
    if (strcmp(point->name, "steps_per_s") == 0) {
        (void)snprintf(points + n, sizeof points - n, "rate ");
    } else {
        (void)snprintf(points + n, sizeof points - n, "%s=%g@%u ", point->name, point->value,
                       (unsigned)point->run);
    }
    return true;
}

void __wrap_events_addf(struct events *e, const struct msg_event_row *row, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void __wrap_events_addf(struct events *e, const struct msg_event_row *row, const char *format, ...)
{
    size_t n = strlen(events);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(events + n, sizeof events - n, format, args);
    va_end(args);
    (void)strncat(events, "; ", sizeof events - strlen(events) - 1);
}

static int begin(void **state)
{
    (void)state;
    now.ms = 1000000;
    place = (struct rdzv_place){
        .job = "a", .name = "host", .run = 1, .epoch = 1, .has_rank = true, .n_members = 3};
    points[0] = events[0] = '\0';
    memset(at, 0, sizeof at);
    return reports_new(NULL, NULL, NULL, &all);
}

static int end(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        reports_drop(all, &at[i]);
    }
    reports_free(all);
    return 0;
}

#define FIXTURE begin, end

static void take(uint32_t session, struct tfe_msg msg)
{
    reports_take(all, session, &at[session], &msg);
}

static void loss(uint32_t session, uint64_t epoch, uint64_t step, double value)
{
    const struct msg_metric metrics[] = {{.name = "loss", .value = value}};
    take(session, (struct tfe_msg){.type = MSG_METRICS,
                                   .u.metrics = {.epoch = epoch,
                                                 .step = step,
                                                 .samples = 10 * step,
                                                 .total = 100,
                                                 .metrics = metrics,
                                                 .n_metrics = 1}});
}

static void saves(uint32_t session, uint32_t n, uint64_t step)
{
    take(session, (struct tfe_msg){.type = MSG_PROGRESS,
                                   .u.progress = {.epoch = place.epoch,
                                                  .saves = n,
                                                  .has_saved = step > 0,
                                                  .saved_step = step}});
}

static struct msg_status_job shown(void)
{
    struct msg_status_job row = {
        .job = "a", .run = place.run, .epoch = place.epoch, .state = "running"};
    reports_show_job(all, &row);
    return row;
}

TEST_IN(metrics, of_the_lowest_rank_count_and_anothers_once_that_is_silent)
{
    loss(1, 1, 1, 5);
    loss(2, 1, 1, 6); /* rank 1 has told */
    loss(0, 1, 1, 7);
    assert_string_equal(points, "loss=5@1 loss=7@1 ");
    points[0] = '\0';
    now.ms += 5000;
    loss(1, 1, 2, 5);
    assert_string_equal(points, "");
    now.ms += 5000;
    loss(1, 1, 3, 5);
    assert_true(strncmp(points, "loss=5@1 ", 9) == 0);
}

TEST_IN(metrics, come_at_most_once_a_second)
{
    loss(0, 1, 1, 1);
    now.ms += 899;
    loss(0, 1, 2, 2);
    now.ms += 1;
    loss(0, 1, 3, 3);
    assert_string_equal(points, "loss=1@1 loss=3@1 ");
}

TEST_IN(metrics, of_another_epoch_or_of_who_has_no_rank_say_nothing)
{
    loss(0, 2, 9, 1);
    place.has_rank = false;
    loss(0, 1, 9, 1);
    assert_string_equal(points, "");
    assert_false(shown().has_step);
}

TEST_IN(metrics, of_the_next_epoch_are_anybodys_and_of_the_next_run_begin_anew)
{
    loss(0, 1, 4, 1);
    assert_int_equal(shown().samples, 40);
    assert_int_equal(shown().total, 100);
    place.epoch = 2;
    points[0] = '\0';
    loss(1, 2, 1, 8); /* rank 0 has told nothing in this one */
    assert_string_equal(points, "loss=8@1 ");
    assert_int_equal(shown().samples, 40); /* of the run */
    place.run = 2;
    place.epoch = 3;
    loss(1, 3, 1, 9);
    assert_int_equal(shown().samples, 10);
    struct msg_status_job row = {.job = "a", .run = 1, .epoch = 3, .state = "running"};
    reports_show_job(all, &row);
    assert_int_equal(row.total, 0); /* another run's row */
}

TEST_IN(checkpoints, are_an_event_once_in_ten_seconds_with_their_highest_step)
{
    saves(0, 1, 0);
    assert_string_equal(events, "a checkpoint is there; ");
    events[0] = '\0';
    now.ms += 9999;
    saves(0, 2, 7);
    assert_string_equal(events, "");
    now.ms += 1;
    saves(0, 2, 7); /* no further one */
    saves(1, 2, 7); /* the same one, by another rank's word */
    assert_string_equal(events, "");
    saves(0, 3, 5);
    assert_string_equal(events, "a checkpoint of step 7 is there; ");
}

TEST_IN(checkpoints, are_counted_anew_in_each_epoch_and_their_steps_in_each_run)
{
    saves(0, 3, 7);
    now.ms += 10000;
    place.epoch = 2;
    events[0] = '\0';
    saves(0, 1, 8);
    assert_string_equal(events, "a checkpoint of step 8 is there; ");
    now.ms += 10000;
    place.run = 2;
    place.epoch = 3;
    events[0] = '\0';
    saves(0, 1, 2);
    assert_string_equal(events, "a checkpoint of step 2 is there; ");
}

TEST_IN(notices, are_shown_until_they_are_withdrawn)
{
    struct msg_status_node row = {.notice = NULL};
    struct tfe_msg notice = {.type = MSG_NOTICE,
                             .u.notice = {.kind = NOTICE_PREEMPT, .deadline_ms = 30000}};
    take(0, notice);
    reports_show_node(at[0], &row);
    assert_string_equal(row.notice, "preempt");
    assert_int_equal(row.notice_deadline.ms - row.notice_at.ms, 30000);
    notice.u.notice.deadline_ms = MSG_UNSET;
    take(0, notice);
    reports_show_node(at[0], &row);
    assert_int_equal(row.notice_deadline.ms, 0);
    notice.u.notice.withdrawn = true;
    take(0, notice);
    reports_show_node(at[0], &row);
    assert_null(row.notice);
}

static void vitals(uint32_t session, uint32_t step_us)
{
    take(session, (struct tfe_msg){.type = MSG_VITALS,
                                   .u.vitals = {.step_us = step_us, .work_us = step_us}});
}

TEST_IN(slow, is_named_for_as_long_as_it_is_here)
{
    for (int round = 0; round < 3; round++) {
        now.ms += 6000;
        vitals(0, 100000);
        vitals(1, 100000);
        vitals(2, 900000);
    }
    now.ms += 6000;
    vitals(0, 100000);
    assert_non_null(strstr(events, "is slow"));
    assert_non_null(shown().slow);
    reports_drop(all, &at[2]);
    assert_null(at[2]);
    assert_null(shown().slow);
}
