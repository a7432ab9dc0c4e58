/* server/store/store.h: what outlives the server: a vtable, for SQLite (sqlite.h) and for memory
 * (memory.h).
 *
 * Every function waits for the disk, so a running server calls none of them from its event loop:
 * writer.h does, on a thread of its own. No function is called from two threads at once. A function
 * that fails leaves one sentence in why, which names the file. */
#ifndef TFE_SERVER_STORE_STORE_H
#define TFE_SERVER_STORE_STORE_H

#include "common/base/error.h"
#include "common/base/time.h"
#include "common/net/why.h"
#include "server/core/rdzv.h"

struct store;

/* Takes one job as it was last recorded; the record is borrowed for the call. What it returns but 0
 * ends store_load with that error. */
typedef int (*store_load_fn)(void *ctx, const struct rdzv_record *record);

/* Takes one row of the ledger, borrowed for the call. What it returns but 0 ends the reading. */
typedef int (*store_row_fn)(void *ctx, const struct msg_epoch_row *row);

struct store_ops {
    int (*load)(struct store *store, store_load_fn fn, void *ctx, struct tfe_why *why);
    int (*begin)(struct store *store, struct tfe_why *why);
    int (*put)(struct store *store, const struct rdzv_record *record, struct tfe_wall now,
               struct tfe_why *why);
    int (*put_row)(struct store *store, const char *job, const struct msg_epoch_row *row,
                   struct tfe_wall now, struct tfe_why *why);
    int (*commit)(struct store *store, struct tfe_why *why);
    void (*rollback)(struct store *store);
    int (*read_rows)(struct store *store, const char *job, uint64_t after, uint32_t max,
                     store_row_fn fn, void *ctx, struct tfe_why *why);
    int (*prune)(struct store *store, struct tfe_wall before, uint32_t max, uint32_t *ret_n,
                 struct tfe_why *why);
    int (*backup_begin)(struct store *store, const char *path, struct tfe_why *why);
    int (*backup_step)(struct store *store, int pages, bool *ret_done, struct tfe_why *why);
    void (*close)(struct store *store);
};

/* The first member of each implementation. */
struct store {
    const struct store_ops *ops;
};

/* Every job, in the order of names. fn's error; TFE_EDISK: it cannot be read; TFE_EINVAL: what is
 * there contradicts itself; TFE_ENOMEM. */
static inline int TFE_MUST_CHECK store_load(struct store *store, store_load_fn fn, void *ctx,
                                            struct tfe_why *why)
{
    return store->ops->load(store, fn, ctx, why);
}

/* Opens a transaction: what is put until store_commit becomes durable together, or not at all.
 * TFE_ECONFLICT: another server has taken the store over; this one must end. TFE_EDISK: full,
 * broken or held by somebody, it can be tried again. TFE_ENOMEM. After an error there is none. */
static inline int TFE_MUST_CHECK store_begin(struct store *store, struct tfe_why *why)
{
    return store->ops->begin(store, why);
}

/* Replaces what is kept of the record's job. TFE_ECONFLICT: what is there is neither the record's
 * predecessor nor an earlier record of this very server. Errors as store_begin, and after each the
 * caller rolls back. Precondition: a transaction. */
static inline int TFE_MUST_CHECK store_put(struct store *store, const struct rdzv_record *record,
                                           struct tfe_wall now, struct tfe_why *why)
{
    return store->ops->put(store, record, now, why);
}

/* Adds to what the ledger says of the row's epoch: what the row knows replaces what is kept, what
 * it does not know stays (ledger_merge). Errors and precondition as store_put, but never a
 * conflict. */
static inline int TFE_MUST_CHECK store_put_row(struct store *store, const char *job,
                                               const struct msg_epoch_row *row, struct tfe_wall now,
                                               struct tfe_why *why)
{
    return store->ops->put_row(store, job, row, now, why);
}

/* 0: it is on the disk, whatever happens to the machine now. TFE_EDISK: the transaction is over; it
 * most likely left nothing, but what of it did reach the disk is what this server wanted, and
 * putting the same again is no conflict. */
static inline int TFE_MUST_CHECK store_commit(struct store *store, struct tfe_why *why)
{
    return store->ops->commit(store, why);
}

/* Also after an error that has ended the transaction already. */
static inline void store_rollback(struct store *store)
{
    store->ops->rollback(store);
}

/* The ledger of a job: at most max rows of epochs above `after`, in their order. fn's error;
 * TFE_EDISK; TFE_ENOMEM. */
static inline int TFE_MUST_CHECK store_read_rows(struct store *store, const char *job,
                                                 uint64_t after, uint32_t max, store_row_fn fn,
                                                 void *ctx, struct tfe_why *why)
{
    return store->ops->read_rows(store, job, after, max, fn, ctx, why);
}

/* Removes at most max rows of the ledger that nothing was added to since `before`, but none of an
 * epoch that a job stands at. *ret_n: so many. TFE_EDISK, TFE_ENOMEM. Precondition: no transaction.
 */
static inline int TFE_MUST_CHECK store_prune(struct store *store, struct tfe_wall before,
                                             uint32_t max, uint32_t *ret_n, struct tfe_why *why)
{
    return store->ops->prune(store, before, max, ret_n, why);
}

/* Begins a copy of everything into a new file. Until it is complete it has another name beside
 * that, and whatever ends it before leaves nothing. TFE_EEXIST: the file is there already.
 * TFE_EDISK; TFE_EINVAL: this store has no file. TFE_ENOMEM. Precondition: none is under way. */
static inline int TFE_MUST_CHECK store_backup_begin(struct store *store, const char *path,
                                                    struct tfe_why *why)
{
    return store->ops->backup_begin(store, path, why);
}

/* Copies some more pages; between two steps there may be transactions. *ret_done: it is complete,
 * and durable. An error ends the copy: as store_backup_begin. Precondition: no transaction. */
static inline int TFE_MUST_CHECK store_backup_step(struct store *store, int pages, bool *ret_done,
                                                   struct tfe_why *why)
{
    return store->ops->backup_step(store, pages, ret_done, why);
}

/* NULL is allowed. */
static inline void store_close(struct store *store)
{
    if (store != NULL) {
        store->ops->close(store);
    }
}

#endif
