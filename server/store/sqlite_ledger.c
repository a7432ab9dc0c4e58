/* server/store/sqlite_ledger.c: rows of the ledger: kept, read in pages, pruned in small steps. */
#include <stdlib.h>

#include "common/rows/kinds.h"
#include "server/store/sqlite_columns.h"
#include "server/store/sqlite_private.h"

#define ROW(field, kind) COLUMN(msg_epoch_row, field, kind)
#define HAS(field) .has = offsetof(struct msg_epoch_row, field)
#define TIME_COLUMN(NAME, column)                                                                  \
    {.key = #column,                                                                               \
     .type = ROW_MOMENT,                                                                           \
     .offset = offsetof(struct msg_epoch_row, at[EPOCH_##NAME])},

static const struct row_field epoch_columns[] = {{ROW(run, ROW_U32)},
                                                 {ROW(epoch, ROW_U64)},
                                                 {ROW(cause, ROW_U32)},
                                                 {ROW(blamed, ROW_TEXT)},
                                                 {ROW(planned, ROW_BOOL)},
                                                 {ROW(members, ROW_U32)},
                                                 {ROW(saved_step, ROW_U64), HAS(has_saved)},
                                                 {ROW(lost_steps, ROW_U64), HAS(has_lost)},
                                                 {ROW(over, ROW_BOOL)},
                                                 {ROW(restarts, ROW_U32)},
                                                 TFE_EPOCH_TIMES(TIME_COLUMN)};
COLUMNS(epochs, msg_epoch_row, epoch_columns);

struct ledger_row {
    const char *job;
    int64_t touched_ms; /* of the last change */
    struct msg_epoch_row epoch;
};

static const struct row_field ledger_columns[] = {
    {COLUMN(ledger_row, job, ROW_TEXT)},
    {COLUMN(ledger_row, touched_ms, ROW_MOMENT)},
    {COLUMNS_OF(ledger_row, epoch, epochs)},
};
COLUMNS(ledger, ledger_row, ledger_columns);

const struct sqlite_sql sqlite_ledger_sql[] = {
    {STATEMENT_PUT_ROW, "INSERT OR REPLACE INTO ledger($) VALUES(#)", &ledger},
    {STATEMENT_ROWS, "SELECT $ FROM ledger WHERE job = ?1 AND epoch > ?2 ORDER BY epoch LIMIT ?3",
     &epochs},
    /* What runs is kept, however old it is. */
    {STATEMENT_PRUNE,
     "DELETE FROM ledger WHERE (job, epoch) IN (SELECT job, epoch FROM ledger AS old "
     "WHERE touched_ms < ?1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.job = old.job "
     "AND jobs.epoch = old.epoch AND jobs.over = 0) LIMIT ?2)",
     NULL},
    {.sql = NULL},
};

/* False: it makes no sense. blamed is borrowed from the statement. */
static bool read_row(sqlite3_stmt *at, struct msg_epoch_row *ret)
{
    *ret = (struct msg_epoch_row){.epoch = 0};
    if (columns_read(at, &epochs, ret)) {
        return false;
    }
    for (int i = 0; i < EPOCH__TIMES; i++) {
        if (ret->at[i].ms < 0) { /* a clock that was wrong */
            ret->at[i].ms = 0;
        }
    }
    return ret->epoch > 0 && ret->run > 0;
}

int store_read_rows(struct store *s, const char *job, uint64_t after, uint32_t max, store_row_fn fn,
                    void *ctx, struct tfe_why *why)
{
    sqlite3_stmt *rows = s->statements[STATEMENT_ROWS];
    if (sqlite3_bind_text(rows, 1, job, -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_bind_int64(rows, 2, (sqlite3_int64)after) != SQLITE_OK ||
        sqlite3_bind_int64(rows, 3, max) != SQLITE_OK) {
        return sqlite_error(s, "read the ledger", why);
    }
    int rc = 0;
    int sq;
    while (rc == 0 && (sq = sqlite3_step(rows)) != SQLITE_DONE) {
        struct msg_epoch_row row;
        if (sq != SQLITE_ROW) {
            rc = sqlite_error(s, "read the ledger", why);
        } else if (read_row(rows, &row)) {
            rc = fn(ctx, &row);
            if (rc != 0) {
                why_set(why, "%s: read the ledger: %s", s->path, tfe_error_sentence(rc));
            }
        }
    }
    (void)sqlite3_reset(rows);
    return rc;
}

/* What row does not know is filled from what is kept of the same epoch: a server that was started
 * anew knows less of a running epoch than the one before it. blamed is borrowed from kept. */
static void fill(struct msg_epoch_row *row, const struct msg_epoch_row *kept)
{
    if (row->blamed[0] == '\0') {
        row->blamed = kept->blamed;
    }
    for (int i = 0; i < EPOCH__TIMES; i++) {
        bool is_first = i != EPOCH_PROGRESSED || row->at[i].ms < kept->at[i].ms;
        if (row->at[i].ms == 0 || (kept->at[i].ms != 0 && !is_first)) {
            row->at[i] = kept->at[i];
        }
    }
    if (!row->has_saved) {
        row->has_saved = kept->has_saved;
        row->saved_step = kept->saved_step;
    }
    if (!row->has_lost) {
        row->has_lost = kept->has_lost;
        row->lost_steps = kept->lost_steps;
    }
    row->restarts = row->restarts > kept->restarts ? row->restarts : kept->restarts;
    row->planned = row->planned || kept->planned;
    row->over = row->over || kept->over;
}

/* store_row_fn; what is kept of an epoch makes up for what the row to be written does not know. */
struct merging {
    struct msg_epoch_row row;
    struct msg_epoch_row *kept; /* row borrows from it */
};

static int merge(void *ctx, const struct msg_epoch_row *row)
{
    struct merging *m = ctx;
    if (row->epoch != m->row.epoch) {
        return 0; /* the next one */
    }
    m->kept = row_copy(&kind_epoch, row);
    if (!m->kept) {
        return TFE_ENOMEM;
    }
    fill(&m->row, m->kept);
    return 0;
}

int store_put_row(struct store *s, const char *job, const struct msg_epoch_row *row,
                  struct tfe_wall now, struct tfe_why *why)
{
    struct merging m = {.row = *row};
    int rc = store_read_rows(s, job, row->epoch - 1, 1, merge, &m, why);
    if (rc == 0) {
        const struct ledger_row put = {job, now.ms, m.row};
        rc = sqlite_put(s, STATEMENT_PUT_ROW, &ledger, &put, "write the ledger", why);
    }
    free(m.kept);
    return rc;
}

int store_prune(struct store *s, struct tfe_wall before, uint32_t max, uint32_t *ret_n,
                struct tfe_why *why)
{
    sqlite3_stmt *prune = s->statements[STATEMENT_PRUNE];
    if (sqlite3_bind_int64(prune, 1, before.ms) != SQLITE_OK ||
        sqlite3_bind_int64(prune, 2, max) != SQLITE_OK) {
        return sqlite_error(s, "prune the ledger", why);
    }
    int rc = sqlite_run(s, STATEMENT_PRUNE, "prune the ledger", why);
    uint32_t n_seen = 0;
    *ret_n = rc == 0 ? (uint32_t)sqlite3_changes(s->db) : 0;
    if (rc == 0) {
        rc = sqlite_prune_seen(s, before, max, &n_seen, why);
    }
    *ret_n = n_seen > *ret_n ? n_seen : *ret_n;
    return rc != 0 ? rc : sqlite_prune_trust(s, before, why);
}
