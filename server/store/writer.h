/* server/store/writer.h: writes to the store on a thread of its own, so that the event loop never
 * waits for the disk. What came of it comes back on the loop.
 *
 *   event loop                         writer thread
 *     writer_submit ──► queue ────────► begin, put …, commit
 *     ops->written  ◄── done, eventfd ◄─┘  one transaction for all that was queued meanwhile */
#ifndef TFE_SERVER_STORE_WRITER_H
#define TFE_SERVER_STORE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "server/core/rdzv.h"
#include "server/store/store.h"

struct event_base;
struct writer;

struct writer_ops {
    /* The record of this job and sequence is durable (err 0), or it is not. False: it could not be
     * taken in (no memory); it comes again with the next writer_deliver. May submit; must not free
     * the writer. */
    bool (*written)(void *ctx, const char *job, uint64_t sequence, int err);
    /* A transaction failed where the last one had not, or with another sentence (err < 0), or works
     * again (0). For the log. */
    void (*condition)(void *ctx, int err, const char *why);
};

/* Starts the thread; from here on it alone touches the store, which stays the caller's. The thread
 * takes no signals. TFE_ENOMEM, TFE_ESYS. */
int writer_new(struct event_base *base, struct store *store, const struct writer_ops *ops,
               void *ctx, struct writer **ret, struct tfe_why *why) TFE_MUST_CHECK;

/* Copies the record. A record of the same job that is still in the queue is replaced, and never
 * answered: the core waits for its newest only. TFE_ENOMEM: nothing was queued. */
int writer_submit(struct writer *w, const struct rdzv_record *record) TFE_MUST_CHECK;

/* Hands over what is done. False: something could not be taken in. From the loop, never from inside
 * ops. */
bool writer_deliver(struct writer *w);

/* No more answers. The thread ends after the transaction that it is in; what is queued was promised
 * to nobody and is dropped. */
void writer_stop(struct writer *w);

/* Stops, and waits at most so long for the thread. False: it still hangs in the disk; writer and
 * store must be left alone until the process ends. NULL is allowed (true). */
bool writer_free(struct writer *w, uint32_t wait_ms);

#endif
