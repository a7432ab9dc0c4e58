/* tests/unit/server/test_agent_reports.c: agents' reports for people: whose metrics count, which
 * checkpoints become events, and what remains valid in the next epoch and run. */
#include <stdio.h>
#include <string.h>

#include "server/events/agent_reports.h"
#include "server/events/event_log.h"
#include "server/events/series.h"
#include "tests/unit/fake_clock.h"
#include "tests/unit/server_core/server_fixture.h"

enum { NODES = 3, SPARE = NODES };

static struct world
    *w; /* has job "j", in which a node's session equals its rank, and one spare node */
static struct events *events;
static struct series *series;
static struct reports *all;
static struct report *at[NODES + 1]; /* report state of each session */
static uint64_t epoch;
static uint32_t run;
static uint64_t seen; /* number of the newest event that newest_event has returned */

static int begin(void **state)
{
    (void)state;
    fake_clock_init();
    w = a_running_world(1, NODES, NODES);
    join(w, SPARE, "spare");
    epoch = run = 1;
    seen = 0;
    memset(at, 0, sizeof at);
    assert_int_equal(events_new(w->r, &events), 0);
    assert_int_equal(series_new(&series), 0);
    return reports_new(w->r, events, series, &all);
}

static int end(void **state)
{
    (void)state;
    for (uint32_t i = 0; i <= SPARE; i++) {
        reports_drop(all, &at[i]);
    }
    reports_free(all);
    series_free(series);
    events_free(events);
    world_free(w);
    return 0;
}

#define FIXTURE begin, end

static void take(uint32_t session, struct tfe_msg msg)
{
    reports_handle(all, session, &at[session], &msg);
}

static void loss(uint32_t session, uint64_t of_epoch, uint64_t step, double value)
{
    const struct msg_metric metrics[] = {{.name = "loss", .value = value}};
    take(session, (struct tfe_msg){.type = MSG_METRICS,
                                   .u.metrics = {.epoch = of_epoch,
                                                 .step = step,
                                                 .samples = 10 * step,
                                                 .total = 100,
                                                 .metrics = metrics,
                                                 .n_metrics = 1}});
}

/* Asserts number and value of the newest loss point. */
static void assert_loss(uint64_t ord, double value)
{
    struct msg_series_row row;
    char after[MSG_METRIC_NAME_MAX + 1] = "";
    while (series_last(series, "j", after[0] ? after : NULL, &row) &&
           strcmp(row.name, "loss") != 0) {
        (void)snprintf(after, sizeof after, "%s", row.name);
    }
    assert_string_equal(row.name, "loss");
    /* A server numbers its points from its start time on, one per millisecond. */
    assert_int_equal(row.ord, FAKE_CLOCK_CIVIL_MS + 1000000 + ord - 1);
    assert_true(row.value == value);
    assert_int_equal(row.run, run);
}

static void saves(uint32_t session, uint32_t n, uint64_t step)
{
    take(session, (struct tfe_msg){
                      .type = MSG_PROGRESS,
                      .u.progress = {
                          .epoch = epoch, .saves = n, .has_saved = step > 0, .saved_step = step}});
}

/* Returns the text of the newest event if it is newer than the last call, else "". */
static const char *newest_event(void)
{
    const uint64_t newest = events_newest(events);
    const char *message =
        newest > 0 && newest != seen ? events_next(events, NULL, newest - 1)->message : "";
    seen = newest;
    return message;
}

static struct msg_status_job shown(void)
{
    struct msg_status_job row = {.job = "j", .run = run, .epoch = epoch, .state = STATE_RUNNING};
    reports_show_job(all, &row);
    return row;
}

static void assert_epoch(void)
{
    struct rdzv_node place;
    assert_int_equal(rdzv_get_session_node(w->r, 0, &place), 0);
    assert_int_equal(place.epoch, epoch);
    assert_int_equal(place.run, run);
}

/* Ends the epoch by a trainer's failure; all nodes stay. */
static void next_epoch(void)
{
    exited(w, 0, epoch, 1);
    ready(w, 0, ++epoch);
    ready(w, 1, epoch);
    ready(w, 2, epoch);
    pass(w, 1000); /* back-off of 1 s */
    assert_epoch();
}

/* Lets the job succeed; the same nodes start its next run. */
static void next_run(void)
{
    for (uint32_t i = 0; i < NODES; i++) {
        exited(w, i, epoch, 0);
    }
    assert_string_equal(job_state(w), "succeeded");
    w->join.new_run = true;
    run++;
    epoch++;
    for (uint32_t i = 0; i < NODES; i++) {
        join(w, i, name_of(i));
        ready(w, i, epoch);
    }
    assert_epoch();
}

TEST_IN(metrics, lowest_rank_counts_and_another_after_its_silence)
{
    loss(1, 1, 1, 5);
    loss(2, 1, 1, 6); /* rank 1 has reported */
    loss(0, 1, 1, 7);
    assert_loss(2, 7);
    fake_clock_pass(NULL, 5000);
    loss(1, 1, 2, 5);
    assert_loss(2, 7);
    fake_clock_pass(NULL, 5000);
    loss(1, 1, 3, 5);
    assert_loss(3, 5);
}

TEST_IN(artifacts, of_rank_0_in_its_epoch_become_an_event_and_others_are_ignored)
{
    struct tfe_msg msg = {.type = MSG_ARTIFACT,
                          .u.artifact = {.epoch = 1,
                                         .state = ARTIFACT_STORED,
                                         .place = "s3://b/m",
                                         .files = 3,
                                         .bytes = 12400000}};
    take(1, msg);
    take(SPARE, msg);
    assert_null(events_artifacts(events, "j", 1));
    take(0, msg);
    assert_string_equal(events_artifacts(events, "j", 1)->kind, "artifacts_stored");
    assert_string_equal(newest_event(), "3 files, 12.4 MB, at s3://b/m");
    msg.u.artifact.state = ARTIFACT_STORING;
    msg.u.artifact.error = "no route";
    take(0, msg);
    assert_string_equal(newest_event(), "not stored yet at s3://b/m: no route");
    assert_int_equal(events_artifacts(events, "j", 1)->level, EVENT_WARN);
    msg.u.artifact.state = ARTIFACT_FAILED;
    take(0, msg);
    assert_string_equal(newest_event(), "not stored at s3://b/m: no route");
    msg.u.artifact.epoch = 2;
    take(0, msg);
    assert_string_equal(newest_event(), "");
    assert_null(events_artifacts(events, "j", 2));
    assert_null(events_artifacts(events, "other", 1));
}

TEST_IN(metrics, more_than_one_report_per_second_is_ignored)
{
    loss(0, 1, 1, 1);
    fake_clock_pass(NULL, 899);
    loss(0, 1, 2, 2);
    fake_clock_pass(NULL, 1);
    loss(0, 1, 3, 3);
    assert_loss(2, 3);
}

TEST_IN(metrics, report_of_another_epoch_or_without_rank_is_ignored)
{
    loss(0, 2, 9, 1);
    loss(SPARE, 1, 9, 1);
    struct msg_series_row row;
    assert_false(series_last(series, "j", NULL, &row));
    assert_false(shown().has_step);
}

TEST_IN(metrics, next_epoch_accepts_any_rank_and_next_run_starts_empty)
{
    loss(0, 1, 4, 1);
    assert_int_equal(shown().samples, 40);
    assert_int_equal(shown().total, 100);
    next_epoch();
    loss(1, 2, 1, 8); /* rank 0 has not reported in this epoch */
    assert_loss(2, 8);
    assert_int_equal(shown().samples, 40); /* samples of the whole run */
    next_run();
    loss(1, 3, 1, 9);
    assert_int_equal(shown().samples, 10);
    struct msg_status_job row = {.job = "j", .run = 1, .epoch = 3, .state = STATE_RUNNING};
    reports_show_job(all, &row);
    assert_int_equal(row.total, 0); /* the row belongs to another run */
}

TEST_IN(checkpoints, event_appears_once_in_ten_seconds_with_the_highest_step)
{
    saves(0, 1, 0);
    assert_string_equal(newest_event(), "a checkpoint was written");
    fake_clock_pass(NULL, 9999);
    saves(0, 2, 7);
    assert_string_equal(newest_event(), "");
    fake_clock_pass(NULL, 1);
    saves(0, 2, 7); /* no further checkpoint */
    saves(1, 2, 7); /* the same checkpoint, reported by another rank */
    assert_string_equal(newest_event(), "");
    saves(0, 3, 5);
    assert_string_equal(newest_event(), "a checkpoint of step 7 was written");
}

TEST_IN(checkpoints, count_restarts_per_epoch_and_steps_per_run)
{
    saves(0, 3, 7);
    fake_clock_pass(NULL, 10000);
    next_epoch();
    (void)newest_event();
    saves(0, 1, 8);
    assert_string_equal(newest_event(), "a checkpoint of step 8 was written");
    fake_clock_pass(NULL, 10000);
    next_run();
    (void)newest_event();
    saves(0, 1, 2);
    assert_string_equal(newest_event(), "a checkpoint of step 2 was written");
}

TEST_IN(notices, notice_is_shown_until_withdrawn)
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

static void machine_stats(uint32_t session, uint32_t step_us)
{
    take(session, (struct tfe_msg){.type = MSG_MACHINE_STATS,
                                   .u.machine_stats = {.step_us = step_us, .work_us = step_us}});
}

TEST_IN(slow, straggler_is_named_while_connected)
{
    for (int round = 0; round < 3; round++) {
        fake_clock_pass(NULL, 6000);
        machine_stats(0, 100000);
        machine_stats(1, 100000);
        machine_stats(2, 900000);
    }
    fake_clock_pass(NULL, 6000);
    machine_stats(0, 100000);
    assert_non_null(strstr(newest_event(), "is slow"));
    assert_non_null(shown().slow);
    reports_drop(all, &at[2]);
    assert_null(at[2]);
    assert_null(shown().slow);
}

TEST_IN(progress, of_a_job_without_nodes_stays_until_the_job_is_forgotten)
{
    loss(0, 1, 4, 1);
    saves(0, 1, 3);
    for (uint32_t i = 0; i <= SPARE; i++) {
        reports_drop(all, &at[i]);
    }
    assert_true(shown().has_step);
    assert_int_equal(shown().step, 4);
    assert_int_equal(shown().saved_step, 3);
    reports_forget(all, "j");
    assert_false(shown().has_step);
    assert_false(shown().has_saved);
    reports_forget(all, "j"); /* nothing is left */
}

TEST_IN(progress, of_the_run_before_is_not_that_of_the_next_run)
{
    loss(0, 1, 4, 1);
    next_run();
    machine_stats(0, 100000);
    assert_false(shown().has_step);
}
