/* server/store/writer.h: performs all work on the store of a running server on a thread, so that
 * the event loop never waits for the disk. Results are delivered on the loop.
 *
 *     event loop                          writer thread, in this order
 *     writer_submit ──► records ──────► begin, put ..., commit: one transaction for all
 *     writer_put_ledger ────► rows ─────────► the same, after the records
 *     writer_put ────► rows, or asks ► the same, or at once if the caller waits
 *     writer_read ────► asks ─────────► a page of rows
 *     writer_backup ──► asks ─────────► a copy; everything else waits for its end
 *                                       periodically: prune the ledger in small steps
 *     ops, answers ◄─── eventfd ◄────── */
#ifndef TFE_SERVER_STORE_WRITER_H
#define TFE_SERVER_STORE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/records/record.h"
#include "server/core/rdzv.h"
#include "server/events/histogram.h"
#include "server/store/store.h"

struct event_base;
struct writer;
struct writer_request;

struct writer_ops {
    /* The record of this job and sequence was written (rc 0), or was not. Returns false if out of
     * memory; the call is then repeated by the next writer_deliver. May submit records; must not
     * free the writer. */
    bool (*written)(void *ctx, const char *job, uint64_t sequence, int rc);
    /* A transaction failed (rc < 0) after a success or with a new reason, or succeeds again (0).
     * For the log. */
    void (*condition)(void *ctx, int rc, const char *reason);
};

struct writer_config {
    struct event_base *base;
    struct store *store; /* the store; after writer_new only the thread uses and closes it */
    const struct writer_ops *ops;
    void *ctx;
    int64_t keep_history_ms; /* retention time of ledger rows and events; 0 for unlimited */
};

/* Starts the thread, with signals blocked. Returns 0, TFE_ENOMEM or TFE_ESYS. */
int writer_new(const struct writer_config *config, struct writer **ret,
               struct tfe_reason *reason) TFE_MUST_CHECK;

/* Queues a record, serialised. Replaces a queued record of the same job, which then gets no result,
 * because the core only waits for the newest. Returns TFE_ENOMEM if nothing was queued. */
int writer_submit(struct writer *w, const struct rdzv_record *record) TFE_MUST_CHECK;

/* Queues a copy of a ledger row to be merged. Repeats the write until it succeeds; drops rows if
 * thousands are queued. Returns TFE_ENOMEM if the row was not queued. */
int writer_put_ledger(struct writer *w, const char *job,
                      const struct msg_epoch_row *row) TFE_MUST_CHECK;

/* Delivers a result. rc 0: the requested page (the callee may take its content), or the operation
 * is complete. Otherwise reason is a sentence. Called once, on the loop; the request is freed
 * afterwards. */
typedef void (*writer_result_fn)(void *ctx, int rc, struct record_list *page, const char *reason);

/* Queues a copy of a row of a type that store_put_message accepts. fn NULL: as writer_put_ledger;
 * ret is not set. Otherwise fn runs when the row is durable or has failed, which is not retried.
 * Returns TFE_ENOMEM if the row was not queued. */
int writer_put(struct writer *w, const struct tfe_msg *row, writer_result_fn fn, void *ctx,
               struct writer_request **ret) TFE_MUST_CHECK;

/* Queues a submitted job to be stored, as writer_put. Precondition: fn is not NULL. */
int writer_put_submission(struct writer *w, const struct store_submission *row, writer_result_fn fn,
                          void *ctx, struct writer_request **ret) TFE_MUST_CHECK;

/* Runs a blocking function on the thread; its result becomes rc. Returns 0 or TFE_ENOMEM. */
int writer_run(struct writer *w, int (*run)(void *run_ctx, struct tfe_reason *reason),
               void *run_ctx, writer_result_fn fn, void *ctx,
               struct writer_request **ret) TFE_MUST_CHECK;

/* Requests rows (store_read); copies page. Returns 0 or TFE_ENOMEM. */
int writer_read(struct writer *w, const struct store_page *page, writer_result_fn fn, void *ctx,
                struct writer_request **ret) TFE_MUST_CHECK;

/* Returns the number of queued rows. */
uint32_t writer_n_rows(struct writer *w);

/* Requests a copy of the store in a new file (store_backup). Returns 0 or TFE_ENOMEM. */
int writer_backup(struct writer *w, const char *path, writer_result_fn fn, void *ctx,
                  struct writer_request **ret) TFE_MUST_CHECK;

/* Drops the callback of a request; the operation may still be performed. */
void writer_cancel(struct writer *w, struct writer_request *request);

/* Health of the store, as last reported to the loop. */
enum writer_health {
    WRITER_WELL,
    WRITER_FAILS, /* writes fail; *ret_reason is borrowed until the loop's next iteration */
    WRITER_HANGS  /* a transaction takes too long */
};
/* Returns the health; *ret_since is the start of a problem. */
enum writer_health writer_health(struct writer *w, const char **ret_reason,
                                 struct tfe_mono *ret_since);

/* Load of the writer: queued rows, and durations of transactions. */
struct writer_load {
    uint32_t waiting; /* rows not yet written */
    struct histogram writes;
};
void writer_measure(struct writer *w, struct writer_load *ret);

/* Delivers completed results on the loop, never from within ops. Returns false if one was not
 * accepted. */
bool writer_deliver(struct writer *w);

/* Stops deliveries. The thread finishes its transaction and one last transaction for queued rows,
 * and closes the store, which may take the time of another disk access. Drops queued records, whose
 * success was not promised. */
void writer_stop(struct writer *w);

/* Stops and waits at most wait_ms for the thread. Returns false if it is still blocked on the disk;
 * it then frees the writer when it ends. NULL is allowed and returns true. */
bool writer_free(struct writer *w, uint32_t wait_ms);

#endif
