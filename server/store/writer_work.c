/* server/store/writer_work.c: the writer's thread: what it does for the store, and in which order.
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/net/clock.h"
#include "server/store/writer_private.h"

/* Of one transaction; a longer one would only let the first wait for the last. */
#define BATCH_RECORDS_MAX 500
#define BATCH_MEMBERS_MAX 100000
#define BATCH_ROWS_MAX 500

#define ROWS_AGAIN_MS 5000

#define PRUNE_EVERY_MS 3600000
#define PRUNE_ROWS 100
#define PRUNE_PAUSE_MS 50

#define BACKUP_PAGES 64

/* --- records --- */

/* A new epoch is in the ledger with its record, so that no crash leaves a gap. */
static int put_outline(struct writer *w, const struct rdzv_record *record, struct tfe_wall now,
                       struct tfe_why *why)
{
    if (record->over || record->epoch == record->predecessor || record->cause == 0) {
        return 0;
    }
    struct msg_epoch_row row = {.run = record->run,
                                .epoch = record->epoch,
                                .cause = record->cause,
                                .blamed = "",
                                .members = record->n_members};
    row.at[EPOCH_COMMITTED] = now;
    return store_put_row(w->config.store, record->job, &row, now, why);
}

static int write_records(struct writer *w, const struct item_list *batch, struct tfe_why *why)
{
    struct store *store = w->config.store;
    const struct item *item;
    struct tfe_wall now = clock_wall();
    int err = store_begin(store, why);
    if (err != 0) {
        return err;
    }
    STAILQ_FOREACH(item, batch, link)
    {
        err = store_put(store, item->record, now, why);
        if (err == 0) {
            err = put_outline(w, item->record, now, why);
        }
        if (err != 0) {
            store_rollback(store);
            return err;
        }
    }
    return store_commit(store, why);
}

/* From the queue, in its order. Holds the lock. */
static void take_records(struct writer *w, struct item_list *ret)
{
    uint32_t records = 0;
    uint32_t members = 0;
    STAILQ_INIT(ret);
    while (!STAILQ_EMPTY(&w->queue) && records < BATCH_RECORDS_MAX && members < BATCH_MEMBERS_MAX) {
        struct item *item = STAILQ_FIRST(&w->queue);
        STAILQ_REMOVE_HEAD(&w->queue, link);
        STAILQ_INSERT_TAIL(ret, item, link);
        records++;
        members += item->record->n_members;
    }
}

static void tell_loop(const struct writer *w)
{
    static const uint64_t one = 1;
    ssize_t n = write(w->done_fd, &one, sizeof(one)); /* cannot fail: the counter is far off */
    (void)n;
}

static void work_on_records(struct writer *w)
{
    struct item_list batch;
    struct condition condition = {.err = 0};
    take_records(w, &batch);
    (void)pthread_mutex_unlock(&w->lock);
    condition.err = write_records(w, &batch, &condition.why);
    struct item *item;
    STAILQ_FOREACH(item, &batch, link)
    {
        item->err = condition.err;
    }
    (void)pthread_mutex_lock(&w->lock);
    w->now[CONDITION_RECORDS] = condition;
    STAILQ_CONCAT(&w->done, &batch);
    tell_loop(w);
}

/* --- rows of the ledger --- */

static int write_rows(struct writer *w, const struct row_item_list *batch, struct tfe_why *why)
{
    struct store *store = w->config.store;
    const struct row_item *row;
    struct tfe_wall now = clock_wall();
    int err = store_begin(store, why);
    if (err != 0) {
        return err;
    }
    STAILQ_FOREACH(row, batch, link)
    {
        err = store_put_row(store, row->job.text, &row->page.rows[0], now, why);
        if (err != 0) {
            store_rollback(store);
            return err;
        }
    }
    return store_commit(store, why);
}

static void work_on_rows(struct writer *w)
{
    struct row_item_list batch = STAILQ_HEAD_INITIALIZER(batch);
    struct condition condition = {.err = 0};
    uint32_t n = 0;
    while (!STAILQ_EMPTY(&w->rows) && n < BATCH_ROWS_MAX) {
        struct row_item *row = STAILQ_FIRST(&w->rows);
        STAILQ_REMOVE_HEAD(&w->rows, link);
        STAILQ_INSERT_TAIL(&batch, row, link);
        n++;
    }
    (void)pthread_mutex_unlock(&w->lock);
    condition.err = write_rows(w, &batch, &condition.why);
    (void)pthread_mutex_lock(&w->lock);
    if (condition.err != 0) {
        /* Back to the front, where they were. */
        STAILQ_CONCAT(&batch, &w->rows);
        STAILQ_CONCAT(&w->rows, &batch);
        w->rows_again = tfe_mono_add(clock_mono(), ROWS_AGAIN_MS);
    }
    while (!STAILQ_EMPTY(&batch)) {
        struct row_item *row = STAILQ_FIRST(&batch);
        STAILQ_REMOVE_HEAD(&batch, link);
        row_item_free(row);
        w->n_rows--;
    }
    if (condition.err != w->now[CONDITION_ROWS].err) {
        w->now[CONDITION_ROWS] = condition;
        tell_loop(w);
    }
}

/* --- questions and backups --- */

static void answer(struct writer *w, struct writer_ask *ask)
{
    STAILQ_INSERT_TAIL(&w->answered, ask, link);
    tell_loop(w);
}

/* The first that can be worked on: only one backup at a time. */
static struct writer_ask *take_ask(struct writer *w)
{
    struct writer_ask *ask;
    STAILQ_FOREACH(ask, &w->asks, link)
    {
        if (ask->path == NULL || w->backup == NULL) {
            STAILQ_REMOVE(&w->asks, ask, writer_ask, link);
            return ask;
        }
    }
    return NULL;
}

static void work_on_ask(struct writer *w, struct writer_ask *ask)
{
    (void)pthread_mutex_unlock(&w->lock);
    if (ask->path != NULL) {
        ask->err = store_backup_begin(w->config.store, ask->path, &ask->why);
    } else {
        ask->err = store_read_rows(w->config.store, ask->job.text, ask->after, ask->max,
                                   ledger_page_add, &ask->page, &ask->why);
    }
    (void)pthread_mutex_lock(&w->lock);
    if (ask->path != NULL && ask->err == 0) {
        w->backup = ask;
    } else {
        answer(w, ask);
    }
}

static void work_on_backup(struct writer *w)
{
    bool done = false;
    struct writer_ask *ask = w->backup;
    (void)pthread_mutex_unlock(&w->lock);
    ask->err = store_backup_step(w->config.store, BACKUP_PAGES, &done, &ask->why);
    (void)pthread_mutex_lock(&w->lock);
    if (done || ask->err != 0) {
        w->backup = NULL;
        answer(w, ask);
    }
}

static void work_on_pruning(struct writer *w)
{
    struct tfe_why why;
    uint32_t n = 0;
    struct tfe_wall before = clock_wall();
    before.ms -= w->config.keep_history_ms;
    (void)pthread_mutex_unlock(&w->lock);
    int err = store_prune(w->config.store, before, PRUNE_ROWS, &n, &why);
    (void)pthread_mutex_lock(&w->lock);
    bool more = err == 0 && n == PRUNE_ROWS;
    w->prune_next = tfe_mono_add(clock_mono(), more ? PRUNE_PAUSE_MS : PRUNE_EVERY_MS);
}

/* --- the order of it --- */

static bool is_due(struct tfe_mono when)
{
    return !tfe_mono_before(clock_mono(), when);
}

static bool rows_are_due(const struct writer *w)
{
    return !STAILQ_EMPTY(&w->rows) && is_due(w->rows_again);
}

/* Until there is something to do. Holds the lock. */
static void wait_for_work(struct writer *w)
{
    while (!w->stop && STAILQ_EMPTY(&w->queue) && !rows_are_due(w) && STAILQ_EMPTY(&w->asks) &&
           w->backup == NULL && !is_due(w->prune_next)) {
        struct tfe_mono until = w->prune_next;
        if (!STAILQ_EMPTY(&w->rows)) {
            until = tfe_mono_min(until, w->rows_again);
        }
        if (tfe_mono_is_never(until)) {
            (void)pthread_cond_wait(&w->wake, &w->lock);
            continue;
        }
        struct timespec at;
        int64_t ms = tfe_mono_sub(until, clock_mono());
        (void)clock_gettime(CLOCK_MONOTONIC, &at);
        int64_t ns = at.tv_nsec + (ms > 0 ? ms : 0) % 1000 * 1000000;
        at.tv_sec += (time_t)((ms > 0 ? ms : 0) / 1000 + ns / 1000000000);
        at.tv_nsec = (long)(ns % 1000000000);
        (void)pthread_cond_timedwait(&w->wake, &w->lock, &at);
    }
}

void *writer_work(void *ctx)
{
    struct writer *w = ctx;
    (void)pthread_mutex_lock(&w->lock);
    for (;;) {
        wait_for_work(w);
        if (w->stop) {
            break;
        }
        if (!STAILQ_EMPTY(&w->queue)) {
            work_on_records(w);
            continue; /* epochs wait for these, nobody waits for the rest */
        }
        if (rows_are_due(w)) {
            work_on_rows(w);
        }
        struct writer_ask *ask = take_ask(w);
        if (ask != NULL) {
            work_on_ask(w, ask);
        } else if (w->backup != NULL) {
            work_on_backup(w);
        } else if (is_due(w->prune_next)) {
            work_on_pruning(w);
        }
    }
    if (!STAILQ_EMPTY(&w->rows) && w->now[CONDITION_ROWS].err == 0) {
        work_on_rows(w);
    }
    (void)pthread_mutex_unlock(&w->lock);
    store_close(
        w->config.store); /* here, because that syncs: only this thread may hang in the disk */
    return NULL;
}
