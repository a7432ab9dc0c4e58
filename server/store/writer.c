/* server/store/writer.c: the loop's side of the writer: queues, results, start and end. */
#include "server/store/writer.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/records/schemas.h"
#include "server/store/writer_private.h"

/* Maximum number of queued rows while the disk rejects writes, about 200 bytes each. */
#define ROWS_MAX 10000
/* A transaction that takes longer is reported as hanging. */
#define HANGS_MS 2000

/* --- results ---------------------------------------------------------------------------------- */

static void report_conditions(struct writer *w)
{
    for (int i = 0; i < CONDITION__COUNT; i++) {
        struct condition *reported = &w->reported[i];
        worker_lock(w->worker);
        struct condition now = w->now[i];
        worker_unlock(w->worker);
        if (now.rc != reported->rc ||
            (now.rc != 0 && strcmp(now.reason.text, reported->reason.text) != 0)) {
            now.since = reported->rc != 0 ? reported->since : clock_mono();
            *reported = now;
            w->config.ops->condition(w->config.ctx, now.rc, now.reason.text);
        }
    }
}

/* Returns the first completed item without removing it; the thread only appends. */
static struct work *first_done(struct writer *w, int list)
{
    worker_lock(w->worker);
    struct work *work = STAILQ_FIRST(&w->lists[list]);
    worker_unlock(w->worker);
    return work;
}

static void drop_first(struct writer *w, int list)
{
    worker_lock(w->worker);
    struct work *work = work_pop(&w->lists[list]);
    worker_unlock(w->worker);
    work_free(work);
}

static bool deliver_records(struct writer *w)
{
    const struct work *work;
    while ((work = first_done(w, WORK_WRITTEN)) != NULL) {
        if (!w->config.ops->written(w->config.ctx, work->record->job.text, work->record->sequence,
                                    work->rc)) {
            return false;
        }
        drop_first(w, WORK_WRITTEN);
    }
    return true;
}

static void deliver_answers(struct writer *w)
{
    const struct work *work;
    while ((work = first_done(w, WORK_ANSWERED)) != NULL) {
        struct writer_request *request = work->request;
        if (request->fn) {
            request->fn(request->ctx, work->rc, &request->page, request->reason.text);
        }
        drop_first(w, WORK_ANSWERED);
    }
}

bool writer_deliver(struct writer *w)
{
    worker_lock(w->worker);
    bool stop = w->stop;
    worker_unlock(w->worker);
    if (stop) {
        return true;
    }
    report_conditions(w);
    bool all = deliver_records(w);
    deliver_answers(w);
    return all;
}

static void on_notify(void *ctx)
{
    (void)writer_deliver(ctx); /* the driver's timer delivers what was not accepted */
}

/* --- requests --------------------------------------------------------------------------------- */

/* Appends work to a list. The lock is held. */
static void add(struct writer *w, int list, struct work *work)
{
    STAILQ_INSERT_TAIL(&w->lists[list], work, link);
    worker_wake(w->worker);
}

/* Drops queued ledger rows of a job whose ledger will be deleted. The lock is held. */
static void drop_rows(struct writer *w, const char *job)
{
    struct work_list kept = STAILQ_HEAD_INITIALIZER(kept);
    while (!STAILQ_EMPTY(&w->lists[WORK_ROWS])) {
        struct work *work = work_pop(&w->lists[WORK_ROWS]);
        if (strcmp(work->job.text, job) == 0) {
            work_free(work);
            w->n_rows--;
        } else {
            STAILQ_INSERT_TAIL(&kept, work, link);
        }
    }
    STAILQ_CONCAT(&w->lists[WORK_ROWS], &kept);
}

int writer_submit(struct writer *w, const struct rdzv_record *record)
{
    struct work *work = calloc(1, sizeof(*work));
    struct store_record *packed = job_record_pack(record);
    if (!work || !packed) {
        free(packed);
        free(work);
        return TFE_ENOMEM;
    }
    work->record = packed;
    worker_lock(w->worker);
    if (packed->gone) {
        drop_rows(w, packed->job.text);
    }
    struct work *queued;
    STAILQ_FOREACH(queued, &w->lists[WORK_RECORDS], link)
    {
        if (id_compare(&queued->record->job, &packed->job) == 0) {
            break;
        }
    }
    if (queued) {
        work->record = queued->record;
        queued->record = packed;
    } else {
        add(w, WORK_RECORDS, work);
        work = NULL;
    }
    worker_unlock(w->worker);
    work_free(work);
    return 0;
}

/* Queues a row. job: the job with which it is dropped; NULL or "" for none. */
static int note(struct writer *w, enum tfe_msg_type type, const char *job, const void *row)
{
    struct work *work = calloc(1, sizeof(*work));
    struct work *dropped = NULL;
    if (work) {
        work->type = type;
        work->row = record_copy(schema_of(type), row);
    }
    if (!work || !work->row) {
        work_free(work);
        return TFE_ENOMEM;
    }
    if (job) {
        (void)id_set(&work->job, job); /* job names of the core are valid ids */
    }
    worker_lock(w->worker);
    if (w->n_rows < ROWS_MAX) {
        w->n_rows++;
    } else {
        dropped = work_pop(&w->lists[WORK_ROWS]);
    }
    add(w, WORK_ROWS, work);
    worker_unlock(w->worker);
    work_free(dropped);
    return 0;
}

int writer_put_ledger(struct writer *w, const char *job, const struct msg_epoch_row *row)
{
    return note(w, MSG_EPOCH_ROW, job, row);
}

static int queue_request(struct writer *w, const struct writer_request *what, const char *job,
                         struct writer_request **ret)
{
    struct writer_request *request = malloc(sizeof(*request));
    if (!request) {
        return TFE_ENOMEM;
    }
    *request = *what;
    request->work.request = request;
    if (job) {
        (void)id_set(&request->work.job, job); /* an invalid id matches no rows */
    }
    *ret = request;
    worker_lock(w->worker);
    add(w, WORK_REQUESTS, &request->work);
    worker_unlock(w->worker);
    return 0;
}

int writer_read(struct writer *w, const struct store_page *page, writer_result_fn fn, void *ctx,
                struct writer_request **ret)
{
    const struct writer_request request = {.fn = fn, .ctx = ctx, .of = *page};
    return queue_request(w, &request, page->job, ret);
}

uint32_t writer_n_rows(struct writer *w)
{
    worker_lock(w->worker);
    uint32_t n = w->n_rows;
    worker_unlock(w->worker);
    return n;
}

/* Queues a row to be stored, one block whose ownership is taken; NULL if out of memory. */
static int queue_row(struct writer *w, enum tfe_msg_type type, void *row, writer_result_fn fn,
                     void *ctx, struct writer_request **ret)
{
    struct writer_request request = {.fn = fn, .ctx = ctx};
    request.work.type = type;
    request.work.row = row;
    int rc = request.work.row ? queue_request(w, &request, NULL, ret) : TFE_ENOMEM;
    if (rc != 0) {
        free(request.work.row);
    }
    return rc;
}

int writer_put_submission(struct writer *w, const struct store_submission *row, writer_result_fn fn,
                          void *ctx, struct writer_request **ret)
{
    const size_t n_job = strlen(row->job) + 1;
    struct store_submission *copy = malloc(sizeof(*copy) + row->n + n_job);
    if (copy) {
        uint8_t *bytes = (uint8_t *)(copy + 1);
        *copy = *row;
        copy->bytes = bytes;
        if (row->n > 0) {
            memcpy(bytes, row->bytes, row->n);
        }
        copy->job = memcpy(bytes + row->n, row->job, n_job);
    }
    return queue_row(w, STORE_SUBMISSION, copy, fn, ctx, ret);
}

int writer_put(struct writer *w, const struct tfe_msg *row, writer_result_fn fn, void *ctx,
               struct writer_request **ret)
{
    if (!fn) {
        const char *job = row->type == MSG_EVENT_ROW ? row->u.event_row.job : NULL;
        return note(w, row->type, job, &row->u);
    }
    return queue_row(w, row->type, record_copy(schema_of(row->type), &row->u), fn, ctx, ret);
}

int writer_run(struct writer *w, int (*run)(void *run_ctx, struct tfe_reason *reason),
               void *run_ctx, writer_result_fn fn, void *ctx, struct writer_request **ret)
{
    const struct writer_request request = {.fn = fn, .ctx = ctx, .run = run, .run_ctx = run_ctx};
    return queue_request(w, &request, NULL, ret);
}

int writer_backup(struct writer *w, const char *path, writer_result_fn fn, void *ctx,
                  struct writer_request **ret)
{
    const struct writer_request request = {.fn = fn, .ctx = ctx, .path = strdup(path)};
    int rc = request.path ? queue_request(w, &request, NULL, ret) : TFE_ENOMEM;
    if (rc != 0) {
        free(request.path);
    }
    return rc;
}

void writer_cancel(struct writer *w, struct writer_request *request)
{
    request->fn = NULL; /* the thread does not use fn */
}

enum writer_health writer_health(struct writer *w, const char **ret_reason,
                                 struct tfe_mono *ret_since)
{
    worker_lock(w->worker);
    struct tfe_mono busy = w->busy_since;
    worker_unlock(w->worker);
    for (int i = 0; i < CONDITION__COUNT; i++) {
        if (w->reported[i].rc != 0) {
            *ret_reason = w->reported[i].reason.text;
            *ret_since = w->reported[i].since;
            return WRITER_FAILS;
        }
    }
    *ret_since = busy;
    return !tfe_mono_is_never(busy) && tfe_mono_sub(clock_mono(), busy) > HANGS_MS ? WRITER_HANGS
                                                                                   : WRITER_WELL;
}

void writer_measure(struct writer *w, struct writer_load *ret)
{
    worker_lock(w->worker);
    *ret = (struct writer_load){.waiting = w->n_rows, .writes = w->writes};
    worker_unlock(w->worker);
}

/* --- start and end ---------------------------------------------------------------------------- */

/* Frees the writer once neither loop nor thread uses it. */
static void destroy(void *ctx)
{
    struct writer *w = ctx;
    for (int i = 0; i < WORK__LISTS; i++) {
        while (!STAILQ_EMPTY(&w->lists[i])) {
            work_free(work_pop(&w->lists[i]));
        }
    }
    free(w);
}

int writer_new(const struct writer_config *config, struct writer **ret, struct tfe_reason *reason)
{
    struct writer *w = calloc(1, sizeof(*w));
    if (!w) {
        reason_set(reason, "start the writer: out of memory");
        return TFE_ENOMEM;
    }
    *w = (struct writer){
        .config = *config, .rows_again = clock_mono(), .busy_since = TFE_MONO_NEVER};
    w->prune_next = config->keep_history_ms > 0 ? clock_mono() : TFE_MONO_NEVER;
    for (int i = 0; i < WORK__LISTS; i++) {
        STAILQ_INIT(&w->lists[i]);
    }
    const struct worker_config worker = {.name = "tfe-rdzv-store",
                                         .work = writer_work,
                                         .base = config->base,
                                         .on_notify = on_notify,
                                         .done = destroy,
                                         .ctx = w};
    int rc = worker_start(&worker, &w->worker);
    if (rc != 0) {
        reason_errno(reason, "start the writer");
        destroy(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void writer_stop(struct writer *w)
{
    worker_lock(w->worker);
    w->stop = true;
    worker_wake(w->worker);
    worker_unlock(w->worker);
}

bool writer_free(struct writer *w, uint32_t wait_ms)
{
    if (!w) {
        return true;
    }
    writer_stop(w);
    return worker_free(w->worker, wait_ms);
}
