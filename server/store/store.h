/* server/store/store.h: what outlives the server, in one SQLite file in WAL mode, synced at
 * every commit; or in memory. This header is all that the rest of the server knows of the store: a
 * store of another kind implements the same functions.
 *
 * Every function waits for the disk, so a running server calls none of them from its event loop:
 * writer.h does, on a thread of its own. No function is called from two threads at once. A function
 * that fails leaves one sentence in why, which names the file. */
#ifndef TFE_SERVER_STORE_STORE_H
#define TFE_SERVER_STORE_STORE_H

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/time.h"
#include "server/store/job_record.h"

struct store;

/* Takes one job as it was last recorded; the record is borrowed for the call. TFE_EINVAL and
 * TFE_EEXIST set the job aside, any other error ends store_load. fault: NULL; or why the job is set
 * aside, now or on an earlier day: its record stays in the store for who wants to look at it, and
 * counts for nothing. Then nothing of the record counts but the job's name (which may be none), and
 * what is returned is not looked at. */
typedef int (*store_load_fn)(void *ctx, const struct rdzv_record *record, const char *fault);

/* Takes one row of the ledger, borrowed for the call. What it returns but 0 ends the reading. */
typedef int (*store_row_fn)(void *ctx, const struct msg_epoch_row *row);

/* Takes one row of another kind, borrowed for the call. What it returns but 0 ends the reading. */
typedef int (*store_kept_fn)(void *ctx, const struct tfe_msg *row);

/* Opens the file or makes it (mode 0600), checks it, and enters this server's incarnation, so that
 * an older server that still has it open can write no more. path NULL: in memory; what it keeps
 * goes with it, and it cannot be copied. vfs: how SQLite reaches the disk, NULL for its own. An
 * error leaves the file as it was, and why names it and the way out. TFE_EINVAL: it is damaged.
 * TFE_EDISK: of another program, of another version of tfe-rdzv, or not to be opened. TFE_ENOMEM.
 */
int store_open(const char *path, uint64_t incarnation, struct tfe_wall now, const char *vfs,
               struct store **ret, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Every job, in the order of names. fn's error; TFE_EDISK: it cannot be read; TFE_EINVAL: the file
 * is damaged; TFE_ENOMEM. */
int store_load(struct store *store, store_load_fn fn, void *ctx,
               struct tfe_reason *reason) TFE_MUST_CHECK;

/* Opens a transaction: what is put until store_commit becomes durable together, or not at all.
 * TFE_ECONFLICT: another server has taken the store over; this one must end. TFE_EDISK: full,
 * broken or held by somebody, it can be tried again. TFE_ENOMEM. After an error there is none. */
int store_begin(struct store *store, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Replaces what is kept of the record's job, its ledger too where it is gone. TFE_ECONFLICT: what
 * is there is neither the record's predecessor nor an earlier record of this very server. Errors as
 * store_begin, and after each the caller rolls back. Precondition: a transaction. */
int store_put(struct store *store, const struct store_record *record,
              struct tfe_reason *reason) TFE_MUST_CHECK;

/* Adds to what the ledger says of the row's epoch: what the row knows replaces what is kept, what
 * it does not know stays. Errors and precondition as store_put, but never a
 * conflict. */
int store_put_row(struct store *store, const char *job, const struct msg_epoch_row *row,
                  struct tfe_wall now, struct tfe_reason *reason) TFE_MUST_CHECK;

/* 0: it is on the disk, whatever happens to the machine now. TFE_EDISK: the transaction is over; it
 * most likely left nothing, but what of it did reach the disk is what this server wanted, and
 * putting the same again is no conflict. */
int store_commit(struct store *store, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Also after an error that has ended the transaction already. */
void store_rollback(struct store *store);

/* The ledger of a job: at most max rows of epochs above `after`, in their order. fn's error;
 * TFE_EDISK; TFE_ENOMEM. */
int store_read_rows(struct store *store, const char *job, uint64_t after, uint32_t max,
                    store_row_fn fn, void *ctx, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Removes at most max rows of the ledger that nothing was added to since `before`, but none of an
 * epoch that a job stands at. And the keys and bans that ended before that, and max events that are
 * older. *ret_n: rows or events that were removed, whichever were more.
 * TFE_EDISK, TFE_ENOMEM. No transaction is open. */
int store_prune(struct store *store, struct tfe_wall before, uint32_t max, uint32_t *ret_n,
                struct tfe_reason *reason) TFE_MUST_CHECK;

/* Keeps a row of this type (TOKEN_ROW, BAN_ROW, STORE_SUBMISSION), in place of what is kept of the
 * same key, but what was revoked stays it; an AUDIT_ROW gets its number and hash, behind the last
 * one; an EVENT_ROW that is there already stays as it is. Errors and precondition as store_put_row.
 */
int store_keep(struct store *store, enum tfe_msg_type type, const void *row,
               struct tfe_reason *reason) TFE_MUST_CHECK;

/* Every TOKEN_ROW or BAN_ROW, in the order of their keys; one that makes no sense is passed over.
 * fn's error; TFE_EDISK; TFE_ENOMEM. */
int store_read_kept(struct store *store, enum tfe_msg_type type, store_kept_fn fn, void *ctx,
                    struct tfe_reason *reason) TFE_MUST_CHECK;

/* At most max rows of the audit behind number `after`. As store_read_kept. */
int store_read_audit(struct store *store, uint64_t after, uint32_t max, store_kept_fn fn, void *ctx,
                     struct tfe_reason *reason) TFE_MUST_CHECK;

/* A job that was submitted, as the pool packs it (pack.h). */
struct store_submission {
    const char *job;
    uint64_t number;
    const uint8_t *bytes;
    size_t n;
    bool is_gone; /* it is to be forgotten; nothing but job counts */
};
/* In place of a message's type: a row of these. */
#define STORE_SUBMISSION ((enum tfe_msg_type)256)

/* Each of them, by number, borrowed for the call. As store_read_kept. */
int store_read_submissions(struct store *store,
                           int (*fn)(void *ctx, const struct store_submission *row), void *ctx,
                           struct tfe_reason *reason) TFE_MUST_CHECK;

/* Which events are asked for. */
struct store_page {
    const char *job; /* NULL: of all */
    uint64_t after;  /* above this number */
    uint32_t last;   /* the newest so many, whatever `after` and max; 0: those count */
    uint32_t max;
};

/* The events, as EVENT_ROWs, by number. fn's error; TFE_EDISK; TFE_ENOMEM. */
int store_read_events(struct store *store, const struct store_page *page, store_kept_fn fn,
                      void *ctx, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Copies everything into a new file, which has another name beside it until it is complete and
 * durable; an error leaves nothing. goes_on is asked now and then; false ends the copy. TFE_EEXIST:
 * the file is there already. TFE_EDISK; TFE_EINVAL: this store has no file. TFE_ENOMEM.
 * Precondition: no transaction. */
int store_backup(struct store *store, const char *path, bool (*goes_on)(void *ctx), void *ctx,
                 struct tfe_reason *reason) TFE_MUST_CHECK;

/* NULL is allowed. */
void store_close(struct store *store);

#endif
