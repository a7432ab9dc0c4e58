/* tests/unit/store/test_seen.c: stored events: pages, order and pruning. */
#include <stdio.h>
#include <string.h>

#include "server/store/store.h"
#include "tests/unit/store/records.h"
#include "tests/unit/test_runner.h"

static struct store *fresh(void)
{
    struct store *store;
    struct tfe_reason reason;
    assert_int_equal(store_open(NULL, 1, (struct tfe_wall){1000}, NULL, &store, &reason), 0);
    return store;
}

static void keep(struct store *store, enum tfe_msg_type type, const void *row)
{
    struct tfe_reason reason;
    assert_int_equal(store_put_message(store, type, row, &reason), 0);
}

/* Summary of a page of events. */
struct page {
    size_t n;
    uint64_t first, last; /* numbers of the first and last event */
};

static int take(void *ctx, const struct tfe_msg *row)
{
    struct page *p = ctx;
    const uint64_t number = row->u.event_row.number;
    p->first = p->n++ == 0 ? number : p->first;
    assert_true(number > p->last);
    p->last = number;
    return 0;
}

static struct page read(struct store *store, const struct store_page *page)
{
    struct page got = {.n = 0};
    struct tfe_reason reason;
    assert_int_equal(store_read(store, page, take, &got, &reason), 0);
    return got;
}

TEST(events, stored_events_are_read_by_number_job_and_end_and_limited)
{
    struct store *store = fresh();
    struct tfe_reason reason;
    struct msg_event_row row = {
        .kind = "joined", .node = "n", .name = "", .message = "it has joined"};
    assert_int_equal(store_begin(store, &reason), 0);
    for (uint64_t number = 1; number <= 30; number++) {
        row.number = number * 10;
        row.job = number % 3 == 0 ? "a" : "";
        row.at.ms = (int64_t)number;
        keep(store, MSG_EVENT_ROW, &row);
    }
    assert_int_equal(store_commit(store, &reason), 0);
    struct page got = read(store, &(struct store_page){.type = MSG_EVENT_ROW, .max = 100});
    assert_true(got.n == 30 && got.first == 10);
    got =
        read(store, &(struct store_page){.type = MSG_EVENT_ROW, .job = "a", .after = 90, .max = 4});
    assert_true(got.n == 4 && got.first == 120 && got.last == 210);
    got = read(store, &(struct store_page){.type = MSG_EVENT_ROW, .last = 5, .max = 5});
    assert_true(got.n == 5 && got.first == 260 && got.last == 300);
    uint32_t n;
    assert_int_equal(store_prune(store, (struct tfe_wall){11}, 100, &n, &reason), 0);
    assert_int_equal(n, 10);
    assert_int_equal(store_begin(store, &reason), 0);
    /* Regression: numbers leap at each start of a server, and after five starts all history was
     * deleted. */
    row.number = 200000;
    keep(store, MSG_EVENT_ROW, &row);
    assert_int_equal(store_commit(store, &reason), 0);
    got = read(store, &(struct store_page){.type = MSG_EVENT_ROW, .max = 100});
    assert_true(got.first == 110 && got.n == 21);
    assert_int_equal(store_begin(store, &reason), 0);
    while (row.number++ < 300000) { /* fills the store to its maximum number of events */
        keep(store, MSG_EVENT_ROW, &row);
    }
    assert_int_equal(store_commit(store, &reason), 0);
    got = read(store, &(struct store_page){.type = MSG_EVENT_ROW, .max = UINT32_MAX});
    assert_true(got.first == 200001 && got.n == 100000);
    store_close(store);
}
