/* server/store/writer.h: all work on the store of a running server, on a thread of its own, so that
 * the event loop never waits for the disk. What came of it comes back on the loop.
 *
 *   event loop                          writer thread, in this order
 *     writer_submit ──► records ──────► begin, put …, commit: one transaction for all of them
 *     writer_note ────► rows ─────────► the same, after the records
 *     writer_keep ────► rows, or asks ► likewise, or at once for who waits for the answer
 *     writer_read ────► asks ─────────► a page of the ledger
 *     writer_backup ──► asks ─────────► the copy; everything else waits for its end
 *                                       now and then: prune the ledger, a few rows at a time
 *     ops, answers ◄─── eventfd ◄────── */
#ifndef TFE_SERVER_STORE_WRITER_H
#define TFE_SERVER_STORE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/records/record_list.h"
#include "server/core/rdzv.h"
#include "server/events/histogram.h"
#include "server/store/store.h"

struct event_base;
struct writer;
struct writer_ask;

struct writer_ops {
    /* The record of this job and sequence is durable (rc 0), or it is not. False: it could not be
     * taken in (no memory); it comes again with the next writer_deliver. May submit; must not free
     * the writer. */
    bool (*written)(void *ctx, const char *job, uint64_t sequence, int rc);
    /* A transaction failed where the last one had not, or with another sentence (rc < 0), or works
     * again (0). For the log. */
    void (*condition)(void *ctx, int rc, const char *reason);
};

struct writer_config {
    struct event_base *base;
    struct store
        *store; /* once writer_new succeeds the thread's: it alone touches it, and closes it */
    const struct writer_ops *ops;
    void *ctx;
    int64_t keep_history_ms; /* rows of the ledger are pruned after so long; 0 never */
};

/* Starts the thread, which takes no signals. TFE_ENOMEM, TFE_ESYS. */
int writer_new(const struct writer_config *config, struct writer **ret,
               struct tfe_reason *reason) TFE_MUST_CHECK;

/* Packs the record. A record of the same job that is still in the queue is replaced, and never
 * answered: the core waits for its newest only. TFE_ENOMEM: nothing was queued. */
int writer_submit(struct writer *w, const struct rdzv_record *record) TFE_MUST_CHECK;

/* Adds to the ledger what the row says; copied. It is tried again until it is written, or dropped
 * where thousands wait. TFE_ENOMEM: it was not taken. */
int writer_note(struct writer *w, const char *job, const struct msg_epoch_row *row) TFE_MUST_CHECK;

/* rc 0: the page asked for, of kind_epoch (the callee may take it and leave none), or the backup is
 * complete. Else why is a sentence. Comes on the loop, once; the ask is gone after it. */
typedef void (*writer_answer_fn)(void *ctx, int rc, struct row_list *page, const char *reason);

/* Keeps what the row says, which is of a type that store_keep knows; copied. fn NULL: as
 * writer_note, and ret is not set. Else the answer comes once it is durable, or has failed, which
 * is not tried again. TFE_ENOMEM: it was not taken. */
int writer_keep(struct writer *w, const struct tfe_msg *row, writer_answer_fn fn, void *ctx,
                struct writer_ask **ret) TFE_MUST_CHECK;

/* The same of a job that was handed in. Precondition: fn is not NULL. */
int writer_keep_submission(struct writer *w, const struct store_submission *row,
                           writer_answer_fn fn, void *ctx, struct writer_ask **ret) TFE_MUST_CHECK;

/* Runs something else that has to wait for the disk, on the thread; what it returns is the answer's
 * rc. TFE_ENOMEM. */
int writer_run(struct writer *w, int (*run)(void *run_ctx, struct tfe_reason *reason),
               void *run_ctx, writer_answer_fn fn, void *ctx,
               struct writer_ask **ret) TFE_MUST_CHECK;

/* Asks for a page of the ledger of job, as store_read_rows, or (NULL) of the audit, as
 * store_read_audit. TFE_ENOMEM. */
int writer_read(struct writer *w, const char *job, uint64_t after, uint32_t max,
                writer_answer_fn fn, void *ctx, struct writer_ask **ret) TFE_MUST_CHECK;

/* Asks for events, as store_read_events; page is copied. TFE_ENOMEM. */
int writer_read_events(struct writer *w, const struct store_page *page, writer_answer_fn fn,
                       void *ctx, struct writer_ask **ret) TFE_MUST_CHECK;

/* Rows that wait to be written. */
uint32_t writer_n_rows(struct writer *w);

/* Asks for a copy of the store in a new file, as store_backup. TFE_ENOMEM. */
int writer_backup(struct writer *w, const char *path, writer_answer_fn fn, void *ctx,
                  struct writer_ask **ret) TFE_MUST_CHECK;

/* The answer is not wanted any more; what was asked for may still be done. */
void writer_forget(struct writer *w, struct writer_ask *ask);

/* How the store does, as the loop was told last. */
enum writer_health {
    WRITER_WELL,
    WRITER_FAILS, /* *ret_reason says why; borrowed until the loop's next turn */
    WRITER_HANGS  /* a transaction does not come back */
};
/* ret_since: since when, where it is not well. */
enum writer_health writer_health(struct writer *w, const char **ret_reason,
                                 struct tfe_mono *ret_since);

/* How much there is to write, and how long transactions took. */
struct writer_load {
    uint32_t waiting; /* rows that are not written yet */
    struct spread writes;
};
void writer_measure(struct writer *w, struct writer_load *ret);

/* Hands over what is done. False: something could not be taken in. From the loop, never from inside
 * ops. */
bool writer_deliver(struct writer *w);

/* No more answers. The thread ends after the transaction that it is in and one last one for the
 * rows, and closes the store, which may take another look at the disk; records in the queue were
 * promised to nobody and are dropped. */
void writer_stop(struct writer *w);

/* Stops, and waits at most so long for the thread. False: it still hangs in the disk, and frees the
 * writer if that ever ends. NULL is allowed (true). */
bool writer_free(struct writer *w, uint32_t wait_ms);

#endif
