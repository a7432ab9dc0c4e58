/* tests/unit/store/test_seen.c: events, and series that are thinned as they grow. */
#include <stdio.h>
#include <string.h>

#include "common/base/series.h"
#include "server/store/store.h"
#include "tests/unit/store/records.h"
#include "tests/unit/story.h"

static struct store *fresh(void)
{
    struct store *store;
    struct tfe_why why;
    assert_int_equal(store_open(NULL, 1, (struct tfe_wall){1000}, NULL, &store, &why), 0);
    return store;
}

static void keep(struct store *store, enum tfe_msg_type type, const void *row)
{
    struct tfe_why why;
    assert_int_equal(store_keep(store, type, row, &why), 0);
}

/* What a page says. */
struct page {
    size_t n;
    uint64_t first, last; /* number, ord */
    uint64_t stride;      /* that all are a multiple of; 0: not looked at */
    char names[128];
};

static int take(void *ctx, const struct tfe_msg *row)
{
    struct page *p = ctx;
    const bool is_event = row->type == MSG_EVENT_ROW;
    const uint64_t number = is_event ? row->u.event_row.number : row->u.series_row.ord;
    p->first = p->n++ == 0 ? number : p->first;
    assert_true(number > p->last || !is_event);
    p->last = number;
    if (p->stride > 0) {
        assert_int_equal(number % p->stride, 0);
    } else if (!is_event) {
        size_t at = strlen(p->names);
        (void)snprintf(p->names + at, sizeof(p->names) - at, "%s=%g ", row->u.series_row.name,
                       row->u.series_row.value);
    }
    return 0;
}

static struct page read(struct store *store, const struct store_page *page, uint64_t stride)
{
    struct page got = {.stride = stride};
    struct tfe_why why;
    assert_int_equal(store_read_page(store, page, take, &got, &why), 0);
    return got;
}

/* As the server keeps them: only those that its newest number has a place for. */
static void tell(struct store *store, const char *job, uint32_t run, const char *name, uint64_t to)
{
    struct tfe_why why;
    assert_int_equal(store_begin(store, &why), 0);
    for (uint64_t ord = 1; ord <= to; ord++) {
        const struct msg_series_row row = {.job = job,
                                           .run = run,
                                           .name = name,
                                           .ord = ord,
                                           .epoch = 1,
                                           .step = ord,
                                           .at = {(int64_t)ord},
                                           .value = 0.5 * (double)run};
        if (ord % series_stride(ord) == 0) {
            keep(store, MSG_SERIES_ROW, &row);
        }
    }
    assert_int_equal(store_commit(store, &why), 0);
}

TEST(series, of_any_length_has_a_bounded_number_of_points_spread_over_all_of_it)
{
    struct store *store = fresh();
    const struct store_page all = {
        .type = MSG_SERIES_ROW, .job = "j", .name = "loss", .max = UINT32_MAX};
    static const uint64_t lengths[] = {1, 999, 1000, 1001, 1999, 2000, 7777, 20000};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct store *own = fresh();
        tell(own, "j", 1, "loss", lengths[i]);
        const uint64_t stride = series_stride(lengths[i]);
        const struct page got = read(own, &all, stride);
        assert_int_equal(got.n, lengths[i] / stride);
        assert_true(got.n < SERIES_POINTS_MAX && (lengths[i] < 1000 || got.n >= 500));
        assert_int_equal(got.first, stride);
        store_close(own);
    }
    store_close(store);
}

TEST(series, of_the_newest_run_are_meant_where_none_is_named_and_each_name_has_a_newest_point)
{
    struct store *store = fresh();
    tell(store, "j", 1, "loss", 5);
    tell(store, "j", 2, "loss", 3);
    tell(store, "j", 2, "acc", 4);
    tell(store, "other", 7, "loss", 9);
    struct store_page page = {.type = MSG_SERIES_ROW, .job = "j", .max = 100};
    struct page got = read(store, &page, 0);
    assert_string_equal(got.names, "acc=1 loss=1 ");
    page.name = "loss";
    got = read(store, &page, 0);
    assert_int_equal(got.n, 3);
    page.run = 1;
    page.after = 3;
    got = read(store, &page, 0);
    assert_true(got.n == 2 && got.first == 4);
    page.job = "nobody";
    assert_int_equal(read(store, &page, 0).n, 0);
    store_close(store);
}

TEST(events, are_read_by_number_by_job_and_from_the_end_and_no_more_are_kept_than_may_be)
{
    struct store *store = fresh();
    struct tfe_why why;
    struct msg_event_row row = {.kind = "joined", .node = "n", .name = "", .says = "it has joined"};
    assert_int_equal(store_begin(store, &why), 0);
    for (uint64_t number = 1; number <= 30; number++) {
        row.number = number * 10;
        row.job = number % 3 == 0 ? "a" : "";
        row.at.ms = (int64_t)number;
        keep(store, MSG_EVENT_ROW, &row);
    }
    assert_int_equal(store_commit(store, &why), 0);
    struct page got = read(store, &(struct store_page){.type = MSG_EVENT_ROW, .max = 100}, 0);
    assert_true(got.n == 30 && got.first == 10);
    got = read(store,
               &(struct store_page){.type = MSG_EVENT_ROW, .job = "a", .after = 90, .max = 4}, 0);
    assert_true(got.n == 4 && got.first == 120 && got.last == 210);
    got = read(store, &(struct store_page){.type = MSG_EVENT_ROW, .last = 5, .max = 5}, 0);
    assert_true(got.n == 5 && got.first == 260 && got.last == 300);
    uint32_t n;
    assert_int_equal(store_prune(store, (struct tfe_wall){11}, 100, &n, &why), 0);
    assert_int_equal(n, 10);
    assert_int_equal(store_begin(store, &why), 0);
    /* Bug: numbers leap at each start of a server, and after five of them history was gone. */
    row.number = 200000;
    keep(store, MSG_EVENT_ROW, &row);
    assert_int_equal(store_commit(store, &why), 0);
    got = read(store, &(struct store_page){.type = MSG_EVENT_ROW, .max = 100}, 0);
    assert_true(got.first == 110 && got.n == 21);
    assert_int_equal(store_begin(store, &why), 0);
    while (row.number++ < 300000) { /* the most that are kept */
        keep(store, MSG_EVENT_ROW, &row);
    }
    assert_int_equal(store_commit(store, &why), 0);
    got = read(store, &(struct store_page){.type = MSG_EVENT_ROW, .max = UINT32_MAX}, 0);
    assert_true(got.first == 200001 && got.n == 100000);
    store_close(store);
}
