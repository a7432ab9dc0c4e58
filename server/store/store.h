/* server/store/store.h: the server's persistent state, in one SQLite file in WAL mode that is
 * synced at every commit, or in memory. The interface is independent of SQLite.
 *
 * Every function may block on the disk, so a running server calls them only through writer.h, on a
 * thread. Functions must not be called from two threads at once. On failure, reason is one sentence
 * that names the file. */
#ifndef TFE_SERVER_STORE_STORE_H
#define TFE_SERVER_STORE_STORE_H

#include "common/base/error.h"
#include "common/base/time.h"
#include "common/text/reason.h"
#include "server/store/job_record.h"

struct store;

/* Receives one job as last recorded, borrowed for the call. fault is NULL, or says why the job is
 * set aside, now or earlier: its record stays in the store for inspection and is ignored. With a
 * fault only the record's job name is valid, and the result is ignored. Without one, TFE_EINVAL and
 * TFE_EEXIST set the job aside, and any other error ends store_load. */
typedef int (*store_load_fn)(void *ctx, const struct rdzv_record *record, const char *fault);

/* Receives one row, borrowed for the call. A result other than 0 ends the
 * reading. */
typedef int (*store_message_fn)(void *ctx, const struct tfe_msg *row);

/* Opens or creates the file (mode 0600), checks it, and stores this server's incarnation, so that
 * an older server that still has the file open can no longer write. path NULL: in memory, without
 * backups. vfs: SQLite's disk interface, NULL for the default. An error leaves the file unchanged
 * and says what to do: TFE_EINVAL if it is damaged; TFE_EDISK if it belongs to another program or
 * version, or cannot be opened; TFE_ENOMEM. */
int store_open(const char *path, uint64_t incarnation, struct tfe_wall now, const char *vfs,
               struct store **ret, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Passes every job to fn, ordered by name. Returns an error of fn, TFE_EDISK if the file cannot be
 * read, TFE_EINVAL if it is damaged, or TFE_ENOMEM. */
int store_load(struct store *store, store_load_fn fn, void *ctx,
               struct tfe_reason *reason) TFE_MUST_CHECK;

/* Begins a transaction: all writes until store_commit become durable together or not at all.
 * Returns TFE_ECONFLICT if another server owns the store (this one must exit), TFE_EDISK if the
 * disk is full, broken or locked (retry later), or TFE_ENOMEM; no transaction is open then. */
int store_begin(struct store *store, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Replaces the stored record of the job; deletes job and ledger if the record says gone. Returns
 * TFE_ECONFLICT if the stored record is neither the record's predecessor nor an earlier one of this
 * server; otherwise errors as store_begin. After an error the caller rolls back. Precondition: an
 * open transaction. */
int store_put(struct store *store, const struct store_record *record,
              struct tfe_reason *reason) TFE_MUST_CHECK;

/* Merges a row into the ledger's row of the same epoch: known values replace stored ones, unknown
 * values keep them. Errors and precondition as store_put, without TFE_ECONFLICT. */
int store_put_row(struct store *store, const char *job, const struct msg_epoch_row *row,
                  struct tfe_wall now, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Commits the transaction. On 0 its writes survive a crash of the machine. On TFE_EDISK the
 * transaction has ended, most likely without effect; writing the same again is not a conflict. */
int store_commit(struct store *store, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Ends the transaction without effect. Allowed after an error that has already ended it. */
void store_rollback(struct store *store);

/* Selection of rows of one type. */
struct store_page {
    enum tfe_msg_type type; /* EPOCH_ROW, EVENT_ROW, AUDIT_ROW, TOKEN_ROW or BAN_ROW */
    const char *job;        /* EPOCH_ROW: the job; EVENT_ROW: the job, or NULL for all jobs */
    /* return epochs, events and audit rows with higher numbers; ignored for keys and bans */
    uint64_t after;
    uint32_t last; /* EVENT_ROW: if not 0, return the newest `last` events, ignore after and max */
    uint32_t max;
};

/* Reads the selected rows, ordered by number, key or node; skips invalid ones. Returns an error of
 * fn, TFE_EDISK or TFE_ENOMEM. */
int store_read(struct store *store, const struct store_page *page, store_message_fn fn, void *ctx,
               struct tfe_reason *reason) TFE_MUST_CHECK;

/* Deletes at most max ledger rows unchanged since `before` (except of a job's current epoch), and
 * at most max each of the older events, keys and bans. *ret_n is the largest of these numbers.
 * Returns 0, TFE_EDISK or TFE_ENOMEM. Precondition: no transaction is open. */
int store_prune(struct store *store, struct tfe_wall before, uint32_t max, uint32_t *ret_n,
                struct tfe_reason *reason) TFE_MUST_CHECK;

/* Stores a row of type TOKEN_ROW, BAN_ROW or STORE_SUBMISSION in place of the one with the same key
 * (revoked keys stay revoked); appends an AUDIT_ROW with the next number and hash; stores an
 * EVENT_ROW unless it exists. Errors and precondition as store_put_row. */
int store_put_message(struct store *store, enum tfe_msg_type type, const void *row,
                      struct tfe_reason *reason) TFE_MUST_CHECK;

/* A submitted job, as serialised by the pool (pack.h). */
struct store_submission {
    const char *job;
    uint64_t number;
    const uint8_t *bytes;
    size_t n;
    bool is_gone; /* delete the job; all members except job are ignored */
};
/* Row type of a submitted job, in place of a message type. */
#define STORE_SUBMISSION ((enum tfe_msg_type)256)

/* Reads all submitted jobs, ordered by number, each borrowed for the call. Returns errors as
 * store_read. */
int store_read_submissions(struct store *store,
                           int (*fn)(void *ctx, const struct store_submission *row), void *ctx,
                           struct tfe_reason *reason) TFE_MUST_CHECK;

/* Copies the store to a new file, which has a temporary name until it is complete and durable; an
 * error leaves no file. should_continue is called periodically; false aborts. Returns TFE_EEXIST if
 * the file exists, TFE_EDISK, TFE_EINVAL if the store is in memory, or TFE_ENOMEM. Precondition: no
 * transaction is open. */
int store_backup(struct store *store, const char *path, bool (*should_continue)(void *ctx),
                 void *ctx, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Closes the store, rolling back an open transaction. NULL is allowed. */
void store_close(struct store *store);

#endif
