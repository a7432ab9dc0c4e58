/* tests/unit/server/kept.c: see kept.h. */
#include "tests/unit/server/kept.h"

#include <event2/event.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/records/record.h"
#include "tests/unit/test_runner.h"

static struct {
    pthread_mutex_t hold;
    struct record_list page;
    bool is_done;
    atomic_bool is_held; /* true while the writer thread waits for kept_release */
} state = {.hold = PTHREAD_MUTEX_INITIALIZER};

static bool on_written(void *ctx, const char *job, uint64_t sequence, int rc)
{
    return true;
}

static void on_condition(void *ctx, int rc, const char *reason)
{
    fail_msg("the store fails: %s", reason);
}

static void on_answer(void *ctx, int rc, struct record_list *page, const char *reason)
{
    state.is_done = true;
    assert_int_equal(rc, 0);
    record_list_done(&state.page);
    if (page) {
        state.page = *page;
        *page = (struct record_list){.n = 0};
    }
}

void kept_begin(struct kept *k, struct event_base *base)
{
    static const struct writer_ops ops = {.written = on_written, .condition = on_condition};
    struct writer_config config = {.base = base, .ops = &ops};
    struct tfe_reason reason;
    k->base = base;
    assert_int_equal(store_open(NULL, 7, (struct tfe_wall){1}, NULL, &config.store, &reason), 0);
    assert_int_equal(writer_new(&config, &k->writer, &reason), 0);
}

void kept_end(struct kept *k)
{
    assert_true(writer_free(k->writer, 30000));
    record_list_done(&state.page);
}

static void await(struct kept *k)
{
    while (!state.is_done) {
        assert_true(event_base_loop(k->base, EVLOOP_ONCE) >= 0);
    }
    state.is_done = false;
}

static int wait_for_release(void *ctx, struct tfe_reason *reason)
{
    state.is_held = true;
    assert_int_equal(pthread_mutex_lock(&state.hold), 0);
    assert_int_equal(pthread_mutex_unlock(&state.hold), 0);
    state.is_held = false;
    return 0;
}

static int do_nothing(void *ctx, struct tfe_reason *reason)
{
    return 0;
}

void kept_hold(struct kept *k)
{
    struct writer_request *request;
    kept_settle(k);
    assert_int_equal(pthread_mutex_lock(&state.hold), 0);
    assert_int_equal(writer_run(k->writer, wait_for_release, NULL, on_answer, NULL, &request), 0);
    while (!state.is_held) {
        (void)sched_yield();
    }
}

void kept_release(struct kept *k)
{
    assert_int_equal(pthread_mutex_unlock(&state.hold), 0);
    await(k);
    kept_settle(k);
}

void kept_settle(struct kept *k)
{
    do {
        struct writer_request *request;
        assert_int_equal(writer_run(k->writer, do_nothing, NULL, on_answer, NULL, &request), 0);
        await(k);
    } while (writer_n_rows(k->writer) > 0);
}

uint32_t kept_read(struct kept *k, enum tfe_msg_type type, uint32_t max, const void **ret_last)
{
    const struct store_page page = {.type = type, .max = max};
    struct writer_request *request;
    kept_settle(k);
    assert_int_equal(writer_read(k->writer, &page, on_answer, NULL, &request), 0);
    await(k);
    if (ret_last && state.page.n > 0) {
        *ret_last = state.page.v[state.page.n - 1].at;
    }
    return (uint32_t)state.page.n;
}
