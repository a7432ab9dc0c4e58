/* tests/unit/server/test_event_log.c: the buffer of recent events: numbering, resuming readers, and
 * suppression of repeats. */
#include <event2/event.h>
#include <stdio.h>
#include <string.h>

#include "server/events/event_log.h"
#include "tests/unit/fake_clock.h"
#include "tests/unit/server/kept.h"
#include "tests/unit/server_core/server_fixture.h"

/* Size of the buffer in event_log.c. */
#define BUFFERED 1000
#define AT_ONCE 100

static struct events *e;
static struct world *w; /* its core has job "j" in run 1 */
static struct kept kept;

static int begin(void **state)
{
    (void)state;
    fake_clock_init();
    w = a_running_world(1, 1, 1);
    kept_begin(&kept, event_base_new());
    return events_new(w->r, &e);
}

static int end(void **state)
{
    (void)state;
    events_free(e);
    kept_end(&kept);
    event_base_free(kept.base);
    world_free(w);
    return 0;
}

#define FIXTURE begin, end

static void add(const char *job, const char *message)
{
    events_add(e, &(struct msg_event_row){.kind = "k", .job = job, .message = message});
}

/* Adds n events, far enough apart in time that none is suppressed. */
static void add_many(const char *job, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        fake_clock_pass(NULL, 1000);
        add(job, "s");
    }
}

static uint64_t next(const char *job, uint64_t after)
{
    const struct msg_event_row *row = events_next(e, job, after);
    return row ? row->number : 0;
}

TEST_IN(events, numbers_increase_by_one_and_run_is_that_of_the_core)
{
    assert_int_equal(events_newest(e), 0);
    add("j", "first");
    add(NULL, "second");
    add("b", "third");
    assert_int_equal(events_newest(e), 3);
    assert_int_equal(events_next(e, NULL, 0)->run, 1);
    assert_string_equal(events_next(e, NULL, 0)->message, "first");
    assert_string_equal(events_next(e, NULL, 1)->job, "");
    assert_int_equal(events_next(e, NULL, 2)->run, 0);
    events_add(e, &(struct msg_event_row){.kind = "k", .job = "j", .run = 3, .message = ""});
    assert_int_equal(events_next(e, NULL, 3)->run, 3); /* an event of an earlier run */
}

TEST_IN(events, query_after_a_number_and_of_a_job_is_answered)
{
    add("a", "");
    add("b", "");
    add("a", "");
    assert_int_equal(next(NULL, 0), 1);
    assert_int_equal(next(NULL, 1), 2);
    assert_int_equal(next("a", 1), 3);
    assert_int_equal(next("b", 2), 0);
    assert_int_equal(next(NULL, 3), 0);
}

TEST_IN(events, above_the_buffer_the_oldest_go_and_that_is_known)
{
    add_many("a", BUFFERED);
    assert_true(events_has_after(e, 0));
    assert_int_equal(next(NULL, 0), 1);
    add_many("a", 2);
    assert_int_equal(next(NULL, 0), 3);
    assert_true(events_has_after(e, 2));
    assert_false(events_has_after(e, 1)); /* event 2 is only on disk */
    assert_int_equal(next(NULL, BUFFERED + 1), BUFFERED + 2);
}

TEST_IN(events, newest_of_a_job_start_after_a_number)
{
    bool all;
    assert_int_equal(events_before_last(e, NULL, 5, &all), 0);
    assert_true(all);
    add("a", "");
    add("b", "");
    add("a", "");
    add("b", "");
    assert_int_equal(events_before_last(e, "a", 1, &all), 2);
    assert_true(all);
    assert_int_equal(events_before_last(e, "a", 2, &all), 0);
    assert_int_equal(events_before_last(e, NULL, 3, &all), 1);
    assert_int_equal(events_before_last(e, "a", 9, &all), 0);
    assert_true(all); /* the log has never had more events */
    assert_int_equal(events_before_last(e, NULL, 0, &all), 4);
    add_many("b", BUFFERED);
    (void)events_before_last(e, "a", 1, &all);
    assert_false(all); /* they are only on disk */
    (void)events_before_last(e, "b", 9, &all);
    assert_true(all);
}

TEST_IN(events, burst_of_one_kind_and_job_is_limited_and_counted)
{
    for (int i = 0; i < AT_ONCE + 3; i++) {
        add("a", "it came");
    }
    assert_int_equal(events_newest(e), AT_ONCE);
    add("b", "another job's"); /* the event is reported and counts the suppressed ones */
    assert_string_equal(events_next(e, NULL, AT_ONCE)->message,
                        "another job's (and 3 more, not shown)");
    fake_clock_pass(NULL, 2000);
    add("a", "it came");
    assert_string_equal(events_next(e, NULL, AT_ONCE + 1)->message, "it came");
}

TEST_IN(events, total_rate_is_limited_and_recovers)
{
    char job[32];
    for (int i = 0; i < 2100; i++) {
        (void)snprintf(job, sizeof job, "j%d", i);
        add(job, "");
    }
    assert_int_equal(events_newest(e), 2000);
    fake_clock_pass(NULL, 200);
    for (int i = 0; i < 20; i++) {
        (void)snprintf(job, sizeof job, "k%d", i);
        add(job, "");
    }
    assert_int_equal(events_newest(e), 2010);
}

static size_t owner_is_key(const void *ctx, const char *job, uint8_t ret[ADMISSION_NAME_MAX])
{
    ret[0] = (uint8_t)job[0]; /* one key owns all jobs with this first letter */
    return 1;
}

TEST_IN(events, owner_at_its_rate_leaves_the_rate_to_others)
{
    char job[32];
    events_set_owner_fn(e, owner_is_key, NULL);
    add("honest", "it trains");
    for (int i = 0; i < 5000; i++) { /* each event belongs to a different job */
        (void)snprintf(job, sizeof job, "x%d", i);
        add(job, "");
        fake_clock_pass(NULL, i % 2);
    }
    const uint64_t newest = events_newest(e);
    assert_true(newest < 600);
    add("honest", "it trains on");
    assert_int_equal(events_newest(e), newest + 1);
    assert_int_equal(next("honest", 1), newest + 1);
}

TEST_IN(events, full_buffer_removes_events_of_the_largest_owner)
{
    char job[32];
    bool all;
    events_set_owner_fn(e, owner_is_key, NULL);
    add("honest", "it trains");
    add(NULL, "the server's own");
    for (int i = 0; i < 2 * BUFFERED; i++) { /* at the rate of an owner */
        (void)snprintf(job, sizeof job, "x%d", i);
        fake_clock_pass(NULL, 100);
        add(job, "");
    }
    add("honest", "it trains on");
    const uint64_t newest = events_newest(e);
    assert_int_equal(newest, 2 * BUFFERED + 3);
    assert_int_equal(events_before_last(e, NULL, BUFFERED, &all), 0);
    assert_true(all);
    assert_int_equal(next(NULL, 0), 1);
    assert_int_equal(next(NULL, 1), 2);
    assert_int_equal(next(NULL, 2), newest - BUFFERED + 3);
    assert_false(events_has_after(e, 2)); /* a client that follows reads the others on the disk */
    assert_true(events_has_after(e, newest - BUFFERED + 2));
    (void)events_before_last(e, "honest", 1, &all);
    assert_true(all);
    (void)events_before_last(e, "honest", 2, &all);
    assert_false(all); /* the owner may have lost events between these two */
}

static uint32_t n_kept(void)
{
    return kept_read(&kept, MSG_EVENT_ROW, 10000, NULL);
}

TEST_IN(events, stored_events_are_read_back)
{
    enum { WAITING = 5000 }; /* more than event_log.c queues */
    add("j", "before there was one");
    events_attach_writer(e, kept.writer);
    add("j", "");
    assert_int_equal(n_kept(), 1);
    kept_hold(&kept);
    for (int i = 0; i < WAITING; i++) {
        assert_int_equal(writer_put_ledger(kept.writer, "j",
                                           &(struct msg_epoch_row){
                                               .run = 1, .epoch = 1 + (uint64_t)i, .blamed = ""}),
                         0);
    }
    add("j", ""); /* the ledger's rows are written first */
    kept_release(&kept);
    assert_int_equal(n_kept(), 1);
    assert_int_equal(events_newest(e), 3); /* the buffer has the event although it is not stored */
}
