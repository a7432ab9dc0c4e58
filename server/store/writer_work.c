/* server/store/writer_work.c: the writer's thread: its operations and their order. */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/records/schemas.h"
#include "server/store/writer_private.h"

/* Maximum size of one transaction; larger ones would only delay the first results. */
#define BATCH_MAX 500
#define BATCH_MEMBERS_MAX 100000

#define ROWS_AGAIN_MS 5000

#define PRUNE_EVERY_MS 3600000
#define PRUNE_ROWS 100
#define PRUNE_PAUSE_MS 50

void work_free(struct work *work)
{
    if (!work) {
        return;
    }
    if (work->request) {
        record_list_done(&work->request->page);
        free(work->request->path);
    }
    free(work->record);
    free(work->row);
    free(work);
}

/* --- records and rows ------------------------------------------------------------------------- */

/* Writes a ledger row for a new epoch together with its record, so that a crash leaves no gap. */
static int put_outline(struct writer *w, const struct store_record *record, struct tfe_wall now,
                       struct tfe_reason *reason)
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
    return store_put_row(w->config.store, record->job.text, &row, now, reason);
}

static int put(struct writer *w, const struct work *work, struct tfe_wall now,
               struct tfe_reason *reason)
{
    if (work->row) {
        return work->type == MSG_EPOCH_ROW
                   ? store_put_row(w->config.store, work->job.text, work->row, now, reason)
                   : store_put_message(w->config.store, work->type, work->row, reason);
    }
    int rc = store_put(w->config.store, work->record, reason);
    return rc != 0 ? rc : put_outline(w, work->record, now, reason);
}

/* Writes a batch in one transaction. */
static int write_batch(struct writer *w, const struct work_list *batch, struct tfe_reason *reason)
{
    struct store *store = w->config.store;
    const struct work *work;
    struct tfe_wall now = clock_wall();
    int rc = store_begin(store, reason);
    if (rc != 0) {
        return rc;
    }
    STAILQ_FOREACH(work, batch, link)
    {
        rc = put(w, work, now, reason);
        if (rc != 0) {
            store_rollback(store);
            return rc;
        }
    }
    return store_commit(store, reason);
}

/* Moves the first items of a list to a batch, in order. The lock is held. */
static void pop_batch(struct work_list *list, struct work_list *ret)
{
    uint32_t n = 0;
    uint32_t members = 0;
    STAILQ_INIT(ret);
    while (!STAILQ_EMPTY(list) && n < BATCH_MAX && members < BATCH_MEMBERS_MAX) {
        struct work *work = work_pop(list);
        STAILQ_INSERT_TAIL(ret, work, link);
        members += work->record ? work->record->n_members : 0;
        n++;
    }
}

/* Takes a batch from the list and writes it without the lock. */
static struct condition write_some(struct writer *w, int list, struct work_list *ret_batch)
{
    struct condition condition = {.rc = 0};
    pop_batch(&w->lists[list], ret_batch);
    w->busy_since = clock_mono();
    worker_unlock(w->worker);
    condition.rc = write_batch(w, ret_batch, &condition.reason);
    worker_lock(w->worker);
    histogram_add(&w->writes, tfe_mono_sub(clock_mono(), w->busy_since));
    w->busy_since = TFE_MONO_NEVER;
    return condition;
}

static void work_on_records(struct writer *w)
{
    struct work_list batch;
    struct work *work;
    w->now[CONDITION_RECORDS] = write_some(w, WORK_RECORDS, &batch);
    STAILQ_FOREACH(work, &batch, link)
    {
        work->rc = w->now[CONDITION_RECORDS].rc;
    }
    STAILQ_CONCAT(&w->lists[WORK_WRITTEN], &batch);
    worker_notify(w->worker);
}

static void work_on_rows(struct writer *w)
{
    struct work_list batch;
    struct work_list *rows = &w->lists[WORK_ROWS];
    struct condition condition = write_some(w, WORK_ROWS, &batch);
    if (condition.rc != 0) {
        /* Return failed rows to the front of the queue. */
        STAILQ_CONCAT(&batch, rows);
        STAILQ_CONCAT(rows, &batch);
        w->rows_again = tfe_mono_add(clock_mono(), ROWS_AGAIN_MS);
    }
    while (!STAILQ_EMPTY(&batch)) {
        work_free(work_pop(&batch));
        w->n_rows--;
    }
    if (condition.rc != w->now[CONDITION_ROWS].rc) {
        w->now[CONDITION_ROWS] = condition;
        worker_notify(w->worker);
    }
}

/* --- requests --------------------------------------------------------------------------------- */

static void answer(struct writer *w, struct writer_request *request)
{
    STAILQ_INSERT_TAIL(&w->lists[WORK_ANSWERED], &request->work, link);
    worker_notify(w->worker);
}

/* store_message_fn that appends to a struct record_list. */
static int append_message(void *ctx, const struct tfe_msg *row)
{
    return record_list_add(ctx, schema_of(row->type), &row->u);
}

/* Called during a backup; returns false once the writer is to end. */
static bool should_continue(void *ctx)
{
    const struct writer *w = ctx;
    worker_lock(w->worker);
    const bool is_stopped = w->stop;
    worker_unlock(w->worker);
    return !is_stopped;
}

static void work_on_request(struct writer *w, struct writer_request *request)
{
    struct work *work = &request->work;
    worker_unlock(w->worker);
    if (request->run) {
        work->rc = request->run(request->run_ctx, &request->reason);
    } else if (request->path) {
        work->rc =
            store_backup(w->config.store, request->path, should_continue, w, &request->reason);
    } else if (work->row) {
        struct work_list one = STAILQ_HEAD_INITIALIZER(one);
        STAILQ_INSERT_TAIL(&one, work, link);
        work->rc = write_batch(w, &one, &request->reason);
    } else {
        request->of.job = request->of.job ? work->job.text : NULL;
        work->rc = store_read(w->config.store, &request->of, append_message, &request->page,
                              &request->reason);
    }
    worker_lock(w->worker);
    answer(w, request);
}

static void work_on_pruning(struct writer *w)
{
    struct tfe_reason reason;
    uint32_t n = 0;
    struct tfe_wall before = clock_wall();
    before.ms -= w->config.keep_history_ms;
    worker_unlock(w->worker);
    int rc = store_prune(w->config.store, before, PRUNE_ROWS, &n, &reason);
    worker_lock(w->worker);
    bool more = rc == 0 && n == PRUNE_ROWS;
    w->prune_next = tfe_mono_add(clock_mono(), more ? PRUNE_PAUSE_MS : PRUNE_EVERY_MS);
}

/* --- order of work ---------------------------------------------------------------------------- */

static bool is_due(struct tfe_mono when)
{
    return !tfe_mono_before(clock_mono(), when);
}

static bool rows_are_due(const struct writer *w)
{
    return !STAILQ_EMPTY(&w->lists[WORK_ROWS]) && is_due(w->rows_again);
}

/* Waits until there is something to do. The lock is held. */
static void wait_for_work(struct writer *w)
{
    while (!w->stop && STAILQ_EMPTY(&w->lists[WORK_RECORDS]) && !rows_are_due(w) &&
           STAILQ_EMPTY(&w->lists[WORK_REQUESTS]) && !is_due(w->prune_next)) {
        struct tfe_mono until = w->prune_next;
        if (!STAILQ_EMPTY(&w->lists[WORK_ROWS])) {
            until = tfe_mono_min(until, w->rows_again);
        }
        worker_wait(w->worker, until);
    }
}

void writer_work(void *ctx)
{
    struct writer *w = ctx;
    worker_lock(w->worker);
    for (;;) {
        wait_for_work(w);
        if (w->stop) {
            break;
        }
        if (!STAILQ_EMPTY(&w->lists[WORK_RECORDS])) {
            work_on_records(w);
            continue; /* records first, because epochs wait for them */
        }
        if (rows_are_due(w)) {
            work_on_rows(w);
        }
        const struct work *work = work_pop(&w->lists[WORK_REQUESTS]);
        if (work) {
            work_on_request(w, work->request);
        } else if (is_due(w->prune_next)) {
            work_on_pruning(w);
        }
    }
    if (!STAILQ_EMPTY(&w->lists[WORK_ROWS]) && w->now[CONDITION_ROWS].rc == 0) {
        work_on_rows(w);
    }
    worker_unlock(w->worker);
    store_close(w->config.store); /* close here, because closing syncs, and only this thread may
                                     block on the disk */
}
