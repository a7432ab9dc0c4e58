/* server/store/sqlite_ledger.c: rows of the ledger: kept, read in pages, pruned in small steps. */
#include <stdio.h>
#include <string.h>

#include "server/store/ledger.h"
#include "server/store/sqlite_private.h"

/* In the order of the statements below. */
#define TIME_COLUMN(NAME, name) ", " #name
#define COLUMNS                                                                                    \
    "run, epoch, cause, blamed, planned, members, saved_step, lost_steps, over" TFE_EPOCH_TIMES(   \
        TIME_COLUMN)
#define FIRST_TIME 9
#define N_COLUMNS (FIRST_TIME + EPOCH__TIMES)

int sqlite_ledger_prepare(struct sqlite_store *s, struct tfe_why *why)
{
    char places[256] = "";
    char sql[1024];
    for (int i = 0; i < N_COLUMNS; i++) {
        size_t at = strlen(places);
        (void)snprintf(places + at, sizeof(places) - at, "?%d, ", i + 1);
    }
    (void)snprintf(sql, sizeof(sql),
                   "INSERT OR REPLACE INTO ledger(" COLUMNS ", job, touched_ms) VALUES(%s?%d, ?%d)",
                   places, N_COLUMNS + 1, N_COLUMNS + 2);
    int err = sqlite_prepare(s, STATEMENT_PUT_ROW, sql, why);
    if (err == 0) {
        err = sqlite_prepare(s, STATEMENT_ROWS,
                             "SELECT " COLUMNS " FROM ledger WHERE job = ?1 AND epoch > ?2 "
                             "ORDER BY epoch LIMIT ?3",
                             why);
    }
    if (err == 0) {
        /* What runs is kept, however old it is. */
        err = sqlite_prepare(
            s, STATEMENT_PRUNE,
            "DELETE FROM ledger WHERE (job, epoch) IN (SELECT job, epoch FROM ledger AS old "
            "WHERE touched_ms < ?1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.job = old.job "
            "AND jobs.epoch = old.epoch AND jobs.over = 0) LIMIT ?2)",
            why);
    }
    return err;
}

/* False: it makes no sense. blamed is borrowed from the statement. */
static bool read_row(sqlite3_stmt *at, struct msg_epoch_row *ret)
{
    *ret = (struct msg_epoch_row){
        .run = (uint32_t)sqlite3_column_int64(at, 0),
        .epoch = (uint64_t)sqlite3_column_int64(at, 1),
        .cause = (enum tfe_cause)sqlite3_column_int(at, 2),
        .blamed = (const char *)sqlite3_column_text(at, 3),
        .planned = sqlite3_column_int(at, 4) != 0,
        .members = (uint32_t)sqlite3_column_int64(at, 5),
        .has_saved = sqlite3_column_type(at, 6) != SQLITE_NULL,
        .saved_step = (uint64_t)sqlite3_column_int64(at, 6),
        .has_lost = sqlite3_column_type(at, 7) != SQLITE_NULL,
        .lost_steps = (uint64_t)sqlite3_column_int64(at, 7),
        .over = sqlite3_column_int(at, 8) != 0,
    };
    for (int i = 0; i < EPOCH__TIMES; i++) {
        ret->at[i].ms = sqlite3_column_int64(at, FIRST_TIME + i);
        if (ret->at[i].ms < 0) {
            ret->at[i].ms = 0;
        }
    }
    return ret->blamed != NULL && ret->epoch > 0 && ret->run > 0;
}

int sqlite_ledger_read(struct sqlite_store *s, const char *job, uint64_t after, uint32_t max,
                       store_row_fn fn, void *ctx, struct tfe_why *why)
{
    sqlite3_stmt *rows = s->statements[STATEMENT_ROWS];
    if (sqlite3_bind_text(rows, 1, job, -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_bind_int64(rows, 2, (sqlite3_int64)after) != SQLITE_OK ||
        sqlite3_bind_int64(rows, 3, max) != SQLITE_OK) {
        return sqlite_error(s, "read the ledger", why);
    }
    int err = 0;
    int rc;
    while (err == 0 && (rc = sqlite3_step(rows)) != SQLITE_DONE) {
        struct msg_epoch_row row;
        if (rc != SQLITE_ROW) {
            err = sqlite_error(s, "read the ledger", why);
        } else if (read_row(rows, &row)) {
            err = fn(ctx, &row);
            if (err != 0) {
                why_set(why, "%s: read the ledger: %s", s->path, tfe_error_sentence(err));
            }
        }
    }
    (void)sqlite3_reset(rows);
    return err;
}

/* Makes of row what row and what is kept of it say together, and writes that. */
static int write_row(struct sqlite_store *s, const char *job, struct msg_epoch_row *row,
                     struct tfe_wall now, struct tfe_why *why)
{
    struct ledger_page kept = {.rows = NULL};
    sqlite3_stmt *put = s->statements[STATEMENT_PUT_ROW];
    int err = sqlite_ledger_read(s, job, row->epoch - 1, 1, ledger_page_add, &kept, why);
    if (err != 0) {
        ledger_page_done(&kept);
        return err;
    }
    if (kept.n == 1 && kept.rows[0].epoch == row->epoch) {
        ledger_merge(row, &kept.rows[0]);
    }
    int rc = sqlite3_bind_int64(put, 1, row->run);
    rc |= sqlite3_bind_int64(put, 2, (sqlite3_int64)row->epoch);
    rc |= sqlite3_bind_int(put, 3, (int)row->cause);
    rc |= sqlite3_bind_text(put, 4, row->blamed, -1, SQLITE_STATIC);
    rc |= sqlite3_bind_int(put, 5, row->planned);
    rc |= sqlite3_bind_int64(put, 6, row->members);
    rc |= row->has_saved ? sqlite3_bind_int64(put, 7, (sqlite3_int64)row->saved_step)
                         : sqlite3_bind_null(put, 7);
    rc |= row->has_lost ? sqlite3_bind_int64(put, 8, (sqlite3_int64)row->lost_steps)
                        : sqlite3_bind_null(put, 8);
    rc |= sqlite3_bind_int(put, 9, row->over);
    for (int i = 0; i < EPOCH__TIMES; i++) {
        rc |= sqlite3_bind_int64(put, FIRST_TIME + 1 + i, row->at[i].ms);
    }
    rc |= sqlite3_bind_text(put, N_COLUMNS + 1, job, -1, SQLITE_STATIC);
    rc |= sqlite3_bind_int64(put, N_COLUMNS + 2, now.ms);
    err = rc == SQLITE_OK ? sqlite_run(s, STATEMENT_PUT_ROW, "write the ledger", why)
                          : sqlite_error(s, "write the ledger", why);
    ledger_page_done(&kept);
    return err;
}

int sqlite_ledger_put(struct sqlite_store *s, const char *job, const struct msg_epoch_row *row,
                      struct tfe_wall now, struct tfe_why *why)
{
    struct msg_epoch_row merged = *row;
    return write_row(s, job, &merged, now, why);
}

int sqlite_ledger_prune(struct sqlite_store *s, struct tfe_wall before, uint32_t max,
                        uint32_t *ret_n, struct tfe_why *why)
{
    sqlite3_stmt *prune = s->statements[STATEMENT_PRUNE];
    if (sqlite3_bind_int64(prune, 1, before.ms) != SQLITE_OK ||
        sqlite3_bind_int64(prune, 2, max) != SQLITE_OK) {
        return sqlite_error(s, "prune the ledger", why);
    }
    int err = sqlite_run(s, STATEMENT_PRUNE, "prune the ledger", why);
    *ret_n = err == 0 ? (uint32_t)sqlite3_changes(s->db) : 0;
    return err;
}
