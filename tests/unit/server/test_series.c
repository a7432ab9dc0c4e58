/* tests/unit/server/test_series.c: newest values of a run's metric series, the retained points,
 * and the limits. */
#include <stdio.h>
#include <string.h>

#include "server/events/series.h"
#include "tests/unit/test_runner.h"

static struct series *s;

static int begin(void **state)
{
    (void)state;
    return series_new(&s);
}

static int end(void **state)
{
    (void)state;
    series_free(s);
    return 0;
}

#define FIXTURE begin, end

static bool add_of(const char *job, uint32_t run, const char *name, double value)
{
    return series_add(
        s, &(struct msg_series_row){.job = job, .run = run, .name = name, .value = value});
}

/* Returns the names of the job's series, in order. */
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

TEST_IN(series, list_has_each_name_with_its_newest_value)
{
    struct msg_series_row row;
    assert_true(add_of("a", 1, "loss", 3));
    assert_true(add_of("a", 1, "acc", 0.5));
    assert_true(add_of("a", 1, "loss", 2));
    assert_true(add_of("b", 1, "other", 9));
    assert_string_equal(names("a"), "acc loss ");
    assert_true(series_last(s, "a", "acc", &row));
    assert_true(row.value == 2);
    assert_string_equal(row.job, "a");
    assert_false(series_last(s, "a", "loss", &row));
    assert_false(series_last(s, "c", NULL, &row));
}

TEST_IN(series, later_run_replaces_and_earlier_run_is_ignored)
{
    assert_true(add_of("a", 1, "loss", 3));
    assert_true(add_of("a", 2, "acc", 1));
    assert_string_equal(names("a"), "acc ");
    assert_false(add_of("a", 1, "late", 1));
    assert_string_equal(names("a"), "acc ");
}

TEST_IN(series, number_of_names_is_limited)
{
    char name[16];
    for (int i = 0; i < SERIES_NAMES_MAX; i++) {
        (void)snprintf(name, sizeof name, "m%02d", i);
        assert_true(add_of("a", 1, name, i));
    }
    assert_false(add_of("a", 1, "one_more", 1));
    assert_true(add_of("a", 1, "m07", 1)); /* a known series accepts further values at the limit */
}

TEST_IN(series, forgotten_job_frees_its_series)
{
    char job[16];
    for (int i = 0; i < SERIES_JOBS_MAX; i++) {
        (void)snprintf(job, sizeof job, "j%d", i);
        assert_true(add_of(job, 1, "loss", 1));
    }
    assert_false(add_of("late", 1, "loss", 1));
    series_forget(s, "unknown");
    series_forget(s, "j7");
    assert_string_equal(names("j7"), "");
    assert_true(add_of("late", 1, "loss", 1));
}

/* Writes ord and value of the points of series name of job a that follow after; returns their
 * number. */
static uint32_t points(uint32_t run, const char *name, uint64_t after, uint64_t *ret_ord,
                       double *ret_value)
{
    const struct msg_series asked = {.job = "a", .run = run, .name = name, .after = after};
    struct rows *rows;
    struct tfe_msg msg;
    uint32_t n = 0;
    assert_int_equal(rows_series(s, &asked, &rows), 0);
    while (rows_next(rows, &msg) == 0 && msg.type == MSG_SERIES_ROW) {
        assert_string_equal(msg.u.series_row.job, "a");
        ret_ord[n] = msg.u.series_row.ord;
        ret_value[n++] = msg.u.series_row.value;
    }
    assert_int_equal(msg.type, MSG_STATUS_END);
    rows_free(rows);
    return n;
}

TEST_IN(series, points_are_returned_in_order_after_a_known_one)
{
    uint64_t ord[8];
    double value[8];
    assert_true(add_of("a", 1, "x", 3));
    assert_true(add_of("a", 1, "x", 2));
    assert_true(add_of("a", 1, "y", 7));
    assert_int_equal(points(0, "x", 0, ord, value), 2);
    assert_true(value[0] == 3 && value[1] == 2);
    assert_int_equal(ord[1], ord[0] + 1);
    assert_int_equal(points(0, "x", ord[0], ord, value), 1);
    assert_int_equal(points(1, NULL, 0, ord, value), 2); /* the newest point of each value */
    assert_true(value[0] == 2 && value[1] == 7);
    assert_int_equal(points(2, "x", 0, ord, value), 0);
    assert_int_equal(points(1, "z", 0, ord, value), 0);
}

/* A reader that resumes with the last point of a lost server gets all points of the new server. */
TEST_IN(series, points_of_a_restarted_server_follow_earlier_ones)
{
    uint64_t ord[2];
    double value[2];
    assert_true(add_of("a", 1, "x", 1));
    assert_int_equal(points(1, "x", 0, ord, value), 1);
    const uint64_t before = ord[0];
    series_free(s);
    assert_int_equal(series_new(&s), 0);
    assert_true(add_of("a", 1, "x", 2));
    assert_int_equal(points(1, "x", 0, ord, value), 1);
    assert_true(ord[0] >= before);
}

TEST_IN(series, long_series_retains_a_bounded_number_of_spread_points)
{
    static uint64_t ord[SERIES_POINTS_MAX];
    static double value[SERIES_POINTS_MAX];
    for (uint32_t i = 1; i <= 100000; i++) {
        assert_true(add_of("a", 1, "x", i));
        if (i == SERIES_POINTS_MAX) {
            assert_int_equal(points(0, "x", 0, ord, value), i);
        }
    }
    const uint32_t n = points(0, "x", 0, ord, value);
    assert_in_range(n, SERIES_POINTS_MAX / 2 - 1, SERIES_POINTS_MAX);
    assert_true(value[0] < 1000 && value[n - 1] > 99000);
    for (uint32_t i = 2; i < n; i++) {
        assert_int_equal(ord[i] - ord[i - 1], ord[1] - ord[0]);
    }
}

enum { ALL = 2000 }; /* series with points, as in series.c */

static size_t owner_is_one(const void *ctx, const char *job, uint8_t ret[ADMISSION_NAME_MAX])
{
    ret[0] = 1;
    return 1;
}

TEST_IN(series, series_above_the_total_limit_has_only_its_newest_value)
{
    uint64_t ord[4];
    double value[4];
    struct msg_series_row row;
    char name[16];
    char job[16];
    uint32_t n = 0;
    series_set_owner_fn(s, owner_is_one, NULL);
    for (uint32_t j = 0; n < ALL; j++) {
        (void)snprintf(job, sizeof job, "j%u", j);
        for (int i = 0; i < SERIES_NAMES_MAX && n < ALL; i++, n++) {
            (void)snprintf(name, sizeof name, "m%02d", i);
            assert_true(add_of(job, 1, name, 1));
        }
    }
    assert_true(add_of("a", 1, "x", 5));
    assert_int_equal(points(0, "x", 0, ord, value), 0);
    assert_true(series_last(s, "a", NULL, &row) && row.value == 5);
    assert_true(add_of("j0", 2, "x", 1)); /* the 32 series of run 1 make room */
    assert_true(add_of("a", 1, "y", 6));
    assert_int_equal(points(0, "y", 0, ord, value), 1);
}

static size_t owner_is_key(const void *ctx, const char *job, uint8_t ret[ADMISSION_NAME_MAX])
{
    ret[0] = (uint8_t)job[0]; /* one key owns all jobs with this first letter */
    return 1;
}

TEST_IN(series, full_store_takes_points_from_the_largest_owner)
{
    char job[16];
    char name[16];
    uint64_t ord[2];
    double value[2];
    series_set_owner_fn(s, owner_is_key, NULL);
    for (int i = 0; i < ALL + SERIES_NAMES_MAX; i++) {
        (void)snprintf(job, sizeof job, "x%d", i / SERIES_NAMES_MAX);
        (void)snprintf(name, sizeof name, "m%d", i % SERIES_NAMES_MAX);
        assert_true(add_of(job, 1, name, i));
    }
    struct msg_series_row row;
    assert_true(add_of("a", 1, "loss", 1));
    assert_true(add_of("a", 1, "loss", 2));
    assert_int_equal(points(1, "loss", 0, ord, value), 2);
    assert_true(series_last(s, "x0", NULL, &row)); /* the newest point of each series stays */
    assert_string_equal(row.name, "m0");
    assert_true(series_last(s, job, NULL, &row));
}
