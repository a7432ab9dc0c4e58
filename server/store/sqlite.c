/* server/store/sqlite.c: transactions of the SQLite store, its errors and its end. */
#include "server/store/sqlite.h"

#include <stdlib.h>

#include "server/store/sqlite_private.h"

int sqlite_error(const struct sqlite_store *s, const char *what, struct tfe_why *why)
{
    int code = s->db != NULL ? sqlite3_extended_errcode(s->db) : SQLITE_NOMEM;
    why_set(why, "%s: %s: %s (%d)", s->path, what, sqlite3_errstr(code), code);
    return (code & 0xff) == SQLITE_NOMEM ? TFE_ENOMEM : TFE_EDISK;
}

int sqlite_prepare(struct sqlite_store *s, enum statement which, const char *sql,
                   struct tfe_why *why)
{
    int rc =
        sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &s->statements[which], NULL);
    return rc == SQLITE_OK ? 0 : sqlite_error(s, "prepare", why);
}

int sqlite_run(struct sqlite_store *s, enum statement which, const char *what, struct tfe_why *why)
{
    sqlite3_stmt *statement = s->statements[which];
    int err = sqlite3_step(statement) == SQLITE_DONE ? 0 : sqlite_error(s, what, why);
    (void)sqlite3_reset(statement); /* says the same again */
    return err;
}

int sqlite_number(struct sqlite_store *s, const char *sql, int64_t *ret, struct tfe_why *why)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(s->db, sql, -1, &statement, NULL) != SQLITE_OK) {
        return sqlite_error(s, "read", why);
    }
    int rc = sqlite3_step(statement);
    int err = 0;
    if (rc == SQLITE_ROW) {
        *ret = sqlite3_column_int64(statement, 0);
    } else if (rc == SQLITE_DONE) {
        *ret = 0;
    } else {
        err = sqlite_error(s, "read", why);
    }
    (void)sqlite3_finalize(statement);
    return err;
}

static int sqlite_load(struct store *store, store_load_fn fn, void *ctx, struct tfe_why *why)
{
    return sqlite_jobs_load((struct sqlite_store *)store, fn, ctx, why);
}

static void sqlite_rollback(struct store *store)
{
    struct sqlite_store *s = (struct sqlite_store *)store;
    /* A full disk and others end a transaction by themselves. */
    if (sqlite3_get_autocommit(s->db) == 0) {
        (void)sqlite3_step(s->statements[STATEMENT_ROLLBACK]);
        (void)sqlite3_reset(s->statements[STATEMENT_ROLLBACK]);
    }
}

static int sqlite_begin(struct store *store, struct tfe_why *why)
{
    struct sqlite_store *s = (struct sqlite_store *)store;
    int err = sqlite_run(s, STATEMENT_BEGIN, "begin", why);
    if (err != 0) {
        return err;
    }
    sqlite3_stmt *read = s->statements[STATEMENT_INCARNATION];
    int rc = sqlite3_step(read);
    if (rc != SQLITE_ROW) {
        err = sqlite_error(s, "begin", why);
    } else if ((uint64_t)sqlite3_column_int64(read, 0) != s->incarnation) {
        why_set(why, "%s: another tfe-rdzv has taken it over; this one ends, its agents go on",
                s->path);
        err = TFE_ECONFLICT;
    }
    (void)sqlite3_reset(read);
    if (err != 0) {
        sqlite_rollback(store);
    }
    return err;
}

static int sqlite_put(struct store *store, const struct rdzv_record *record, struct tfe_wall now,
                      struct tfe_why *why)
{
    return sqlite_jobs_put((struct sqlite_store *)store, record, now, why);
}

static int sqlite_put_row(struct store *store, const char *job, const struct msg_epoch_row *row,
                          struct tfe_wall now, struct tfe_why *why)
{
    return sqlite_ledger_put((struct sqlite_store *)store, job, row, now, why);
}

static int sqlite_read_rows(struct store *store, const char *job, uint64_t after, uint32_t max,
                            store_row_fn fn, void *ctx, struct tfe_why *why)
{
    return sqlite_ledger_read((struct sqlite_store *)store, job, after, max, fn, ctx, why);
}

static int sqlite_prune(struct store *store, struct tfe_wall before, uint32_t max, uint32_t *ret_n,
                        struct tfe_why *why)
{
    return sqlite_ledger_prune((struct sqlite_store *)store, before, max, ret_n, why);
}

static int sqlite_copy_begin(struct store *store, const char *path, struct tfe_why *why)
{
    return sqlite_backup_begin((struct sqlite_store *)store, path, why);
}

static int sqlite_copy_step(struct store *store, int pages, bool *ret_done, struct tfe_why *why)
{
    return sqlite_backup_step((struct sqlite_store *)store, pages, ret_done, why);
}

static int sqlite_commit(struct store *store, struct tfe_why *why)
{
    int err = sqlite_run((struct sqlite_store *)store, STATEMENT_COMMIT, "commit", why);
    if (err != 0) {
        sqlite_rollback(store);
    }
    return err;
}

void sqlite_store_free(struct sqlite_store *s)
{
    for (int i = 0; i < STATEMENT__COUNT; i++) {
        (void)sqlite3_finalize(s->statements[i]);
    }
    (void)sqlite3_close(s->db);
    free(s);
}

static void sqlite_close(struct store *store)
{
    sqlite_rollback(store);
    sqlite_backup_end((struct sqlite_store *)store);
    sqlite_store_free((struct sqlite_store *)store);
}

const struct store_ops sqlite_store_ops = {.load = sqlite_load,
                                           .begin = sqlite_begin,
                                           .put = sqlite_put,
                                           .put_row = sqlite_put_row,
                                           .commit = sqlite_commit,
                                           .rollback = sqlite_rollback,
                                           .read_rows = sqlite_read_rows,
                                           .prune = sqlite_prune,
                                           .backup_begin = sqlite_copy_begin,
                                           .backup_step = sqlite_copy_step,
                                           .close = sqlite_close};
