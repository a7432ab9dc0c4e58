/* server/store/sqlite_private.h: the inside of the SQLite store, for the files that make it up. */
#ifndef TFE_SERVER_STORE_SQLITE_PRIVATE_H
#define TFE_SERVER_STORE_SQLITE_PRIVATE_H

#include <limits.h>
#include <sqlite3.h>
#include <stdint.h>

#include "server/store/store.h"

/* "TFEr": says in the file's header whose it is. */
#define SQLITE_STORE_APPLICATION 0x54464572

enum statement {
    STATEMENT_BEGIN,
    STATEMENT_COMMIT,
    STATEMENT_ROLLBACK,
    STATEMENT_INCARNATION,   /* who writes here */
    STATEMENT_KEPT,          /* what CAS needs of a job */
    STATEMENT_PUT_JOB,       /* in the order of record_fields */
    STATEMENT_CLEAR_MEMBERS, /* of a job */
    STATEMENT_PUT_MEMBER,
    STATEMENT_JOBS, /* all, in the order of record_fields */
    STATEMENT_MEMBERS,
    STATEMENT_PUT_ROW,
    STATEMENT_ROWS,
    STATEMENT_PRUNE,
    STATEMENT__COUNT
};

struct sqlite_copy;

struct sqlite_store {
    struct store store;
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENT__COUNT];
    uint64_t incarnation;
    struct sqlite_copy *copy; /* the backup under way, or NULL */
    char path[PATH_MAX];
};

/* The error of the last call, said with the file's name and what was tried. TFE_ENOMEM or
 * TFE_EDISK. */
int sqlite_error(const struct sqlite_store *s, const char *what, struct tfe_why *why);

/* One that a statement prepared or a value bound has not brought. */
int sqlite_prepare(struct sqlite_store *s, enum statement which, const char *sql,
                   struct tfe_why *why) TFE_MUST_CHECK;

/* Runs a statement that gives no rows, and makes it ready for the next time. */
int sqlite_run(struct sqlite_store *s, enum statement which, const char *what,
               struct tfe_why *why) TFE_MUST_CHECK;

/* The first column of the first row of sql, as a number; 0 if there is none. */
int sqlite_number(struct sqlite_store *s, const char *sql, int64_t *ret,
                  struct tfe_why *why) TFE_MUST_CHECK;

/* --- sqlite_schema.c --- */

/* The newest schema that this program knows. */
int sqlite_schema_newest(void);
/* From schema `from` to the newest one, all or nothing. */
int sqlite_schema_migrate(struct sqlite_store *s, int from, struct tfe_why *why) TFE_MUST_CHECK;

/* --- sqlite_jobs.c --- */

int sqlite_jobs_prepare(struct sqlite_store *s, struct tfe_why *why) TFE_MUST_CHECK;
int sqlite_jobs_load(struct sqlite_store *s, store_load_fn fn, void *ctx,
                     struct tfe_why *why) TFE_MUST_CHECK;
int sqlite_jobs_put(struct sqlite_store *s, const struct rdzv_record *record, struct tfe_wall now,
                    struct tfe_why *why) TFE_MUST_CHECK;

/* --- sqlite_ledger.c, sqlite_backup.c: as store.h says --- */

int sqlite_ledger_prepare(struct sqlite_store *s, struct tfe_why *why) TFE_MUST_CHECK;
int sqlite_ledger_put(struct sqlite_store *s, const char *job, const struct msg_epoch_row *row,
                      struct tfe_wall now, struct tfe_why *why) TFE_MUST_CHECK;
int sqlite_ledger_read(struct sqlite_store *s, const char *job, uint64_t after, uint32_t max,
                       store_row_fn fn, void *ctx, struct tfe_why *why) TFE_MUST_CHECK;
int sqlite_ledger_prune(struct sqlite_store *s, struct tfe_wall before, uint32_t max,
                        uint32_t *ret_n, struct tfe_why *why) TFE_MUST_CHECK;
int sqlite_backup_begin(struct sqlite_store *s, const char *path,
                        struct tfe_why *why) TFE_MUST_CHECK;
int sqlite_backup_step(struct sqlite_store *s, int pages, bool *ret_done,
                       struct tfe_why *why) TFE_MUST_CHECK;
void sqlite_backup_end(struct sqlite_store *s);

/* --- sqlite.c --- */

extern const struct store_ops sqlite_store_ops;
void sqlite_store_free(struct sqlite_store *s);

#endif
