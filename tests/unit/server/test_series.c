/* tests/unit/server/test_series.c: the newest values of a run's series, what is kept of them, and
 * what there is no room for. Time and the core's answers are the story's. */
#include <event2/event.h>
#include <stdio.h>
#include <string.h>

#include "common/net/clock.h"
#include "server/series.h"
#include "server/store/writer.h"
#include "tests/unit/story.h"

static struct event_base *base;
static struct series *s;
static struct tfe_mono now;
static struct msg_series_row kept;
static char kept_name[MSG_METRIC_NAME_MAX + 1];
static uint32_t n_kept;
static uint32_t waiting;
static bool jobs_live; /* those that the core is asked for */

struct tfe_mono __wrap_clock_mono(void);
struct tfe_mono __wrap_clock_mono(void)
{
    return now;
}

int __wrap_rdzv_find_job(const struct rdzv *r, const char *job, struct msg_status_job *ret);
int __wrap_rdzv_find_job(const struct rdzv *r, const char *job, struct msg_status_job *ret)
{
    return jobs_live ? 0 : TFE_ENOENT;
}

int __wrap_writer_keep(struct writer *w, const struct tfe_msg *row, writer_answer_fn fn, void *ctx,
                       struct writer_ask **ret);
int __wrap_writer_keep(struct writer *w, const struct tfe_msg *row, writer_answer_fn fn, void *ctx,
                       struct writer_ask **ret)
{
    kept = row->u.series_row;
    (void)snprintf(kept_name, sizeof kept_name, "%s", kept.name);
    n_kept++;
    return 0;
}

uint32_t __wrap_writer_n_rows(struct writer *w);
uint32_t __wrap_writer_n_rows(struct writer *w)
{
    return waiting;
}

static int begin(void **state)
{
    (void)state;
    now.ms = 1000000;
    n_kept = 0;
    waiting = 0;
    jobs_live = true;
    base = event_base_new();
    return series_new(base, NULL, &s);
}

static int end(void **state)
{
    (void)state;
    series_free(s);
    event_base_free(base);
    return 0;
}

#define FIXTURE begin, end

static bool add_of(const char *job, uint32_t run, const char *name, double value)
{
    now.ms += 10;
    return series_add(
        s, &(struct msg_series_row){.job = job, .run = run, .name = name, .value = value});
}

/* The names of the job's series, in their order. */
static const char *names(const char *job)
{
    static char all[256];
    struct msg_series_row row;
    char after[MSG_METRIC_NAME_MAX + 1] = "";
    all[0] = '\0';
    while (series_last(s, job, after[0] ? after : NULL, &row)) {
        (void)snprintf(after, sizeof after, "%s", row.name);
        (void)strncat(all, row.name, sizeof all - strlen(all) - 1);
        (void)strncat(all, " ", sizeof all - strlen(all) - 1);
    }
    return all;
}

TEST_IN(series, of_a_run_are_told_by_name_each_with_its_newest_value)
{
    struct msg_series_row row;
    assert_true(add_of("a", 1, "loss", 3));
    assert_true(add_of("a", 1, "acc", 0.5));
    assert_true(add_of("a", 1, "loss", 2));
    assert_true(add_of("b", 1, "other", 9));
    assert_string_equal(names("a"), "acc loss ");
    assert_true(series_last(s, "a", "acc", &row));
    assert_true(row.value == 2);
    assert_int_equal(row.ord, 2);
    assert_string_equal(row.job, "a");
    assert_false(series_last(s, "a", "loss", &row));
    assert_false(series_last(s, "c", NULL, &row));
}

TEST_IN(series, of_a_later_run_replace_those_before_and_an_earlier_ones_count_no_more)
{
    assert_true(add_of("a", 1, "loss", 3));
    assert_true(add_of("a", 2, "acc", 1));
    assert_string_equal(names("a"), "acc ");
    assert_false(add_of("a", 1, "late", 1));
    assert_string_equal(names("a"), "acc ");
}

TEST_IN(series, have_so_many_names_and_no_more)
{
    char name[16];
    for (int i = 0; i < SERIES_NAMES_MAX; i++) {
        (void)snprintf(name, sizeof name, "m%02d", i);
        assert_true(add_of("a", 1, name, i));
    }
    assert_false(add_of("a", 1, "one_more", 1));
    assert_true(add_of("a", 1, "m07", 1)); /* one that is there goes on */
}

TEST_IN(series, of_jobs_that_are_gone_make_room)
{
    char job[16];
    for (int i = 0; i < SERIES_JOBS_MAX; i++) {
        (void)snprintf(job, sizeof job, "j%d", i);
        assert_true(add_of(job, 1, "loss", 1));
    }
    assert_false(add_of("late", 1, "loss", 1));
    jobs_live = false;
    assert_true(add_of("late", 1, "loss", 1));
}

TEST_IN(series, go_to_the_disk_a_few_seconds_at_a_time)
{
    assert_true(add_of("a", 1, "loss", 3)); /* nothing keeps it */
    series_keep(s, (struct writer *)(void *)&kept);
    assert_true(add_of("a", 1, "loss", 2));
    assert_int_equal(n_kept, 0);
    series_flush(s);
    assert_int_equal(n_kept, 1);
    assert_int_equal(kept.ord, 2);
    assert_string_equal(kept_name, "loss");
    series_flush(s);
    assert_int_equal(n_kept, 1); /* once */
    waiting = 4000;
    assert_true(add_of("a", 1, "loss", 1));
    series_flush(s); /* points are what can be spared */
    waiting = 0;
    series_flush(s);
    assert_int_equal(n_kept, 1);
}

TEST_IN(series, that_are_told_too_often_have_their_newest_value_and_no_point_for_it)
{
    struct msg_series_row row;
    for (int i = 0; i < 1200; i++) {
        assert_true(
            series_add(s, &(struct msg_series_row){.job = "a", .run = 1, .name = "x", .value = i}));
    }
    assert_true(series_last(s, "a", NULL, &row));
    assert_true(row.value == 1199);
    assert_int_equal(row.ord, 1000);
}

TEST_IN(series, that_are_long_are_thinned_on_the_disk)
{
    series_keep(s, (struct writer *)(void *)&kept);
    for (int i = 0; i < 4000; i++) {
        assert_true(add_of("a", 1, "x", i));
    }
    series_flush(s);
    assert_in_range(n_kept, 1000, 3000);
}
