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

struct store_ops {
    int (*load)(struct store *store, store_load_fn fn, void *ctx, struct tfe_why *why);
    int (*begin)(struct store *store, struct tfe_why *why);
    int (*put)(struct store *store, const struct rdzv_record *record, struct tfe_wall now,
               struct tfe_why *why);
    int (*commit)(struct store *store, struct tfe_why *why);
    void (*rollback)(struct store *store);
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

/* NULL is allowed. */
static inline void store_close(struct store *store)
{
    if (store != NULL) {
        store->ops->close(store);
    }
}

#endif
