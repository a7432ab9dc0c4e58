/* server/store/sqlite_pool.c: what is kept of jobs that were handed in. */
#include "server/store/sqlite_columns.h"
#include "server/store/sqlite_private.h"

#define OF(field, kind) COLUMN(store_submission, field, kind)

static const struct row_field columns[] = {
    {OF(job, ROW_TEXT)},       {OF(number, ROW_U64)},      {OF(run_key, ROW_TEXT)},
    {OF(spec, ROW_TEXT)},      {OF(conditions, ROW_TEXT)}, {OF(nodes, ROW_TEXT)},
    {OF(started, ROW_MOMENT)},
};

const struct row_kind store_submission_kind = {.name = "submissions",
                                               .fields = columns,
                                               .n_fields = sizeof(columns) / sizeof(columns[0]),
                                               .size = sizeof(struct store_submission),
                                               .given = sizeof(struct store_submission)};

int sqlite_keep_submission(struct store *s, const void *row, struct tfe_why *why)
{
    const struct store_submission *of = row;
    char sql[COLUMNS_SQL_MAX];
    sqlite3_stmt *put = NULL;
    columns_sql(sql,
                of->is_gone ? "DELETE FROM submissions WHERE job = ?1"
                            : "INSERT OR REPLACE INTO submissions($) VALUES(#)",
                &store_submission_kind);
    int sq = sqlite3_prepare_v2(s->db, sql, -1, &put, NULL);
    if (sq == SQLITE_OK) {
        sq = of->is_gone ? sqlite3_bind_text(put, 1, of->job, -1, SQLITE_STATIC)
                         : columns_bind(put, &store_submission_kind, row);
    }
    bool is_done = sq == SQLITE_OK && sqlite3_step(put) == SQLITE_DONE;
    int rc = is_done ? 0 : sqlite_error(s, "write a job that was handed in", why);
    (void)sqlite3_finalize(put);
    return rc;
}

int store_read_submissions(struct store *s,
                           int (*fn)(void *ctx, const struct store_submission *row), void *ctx,
                           struct tfe_why *why)
{
    static const char what[] = "read the jobs that were handed in";
    char sql[COLUMNS_SQL_MAX];
    sqlite3_stmt *rows = NULL;
    columns_sql(sql, "SELECT $ FROM submissions ORDER BY number", &store_submission_kind);
    int sq = sqlite3_prepare_v2(s->db, sql, -1, &rows, NULL);
    int rc = sq == SQLITE_OK ? 0 : sqlite_error(s, what, why);
    while (rc == 0 && (sq = sqlite3_step(rows)) != SQLITE_DONE) {
        struct store_submission row = {.is_gone = false};
        if (sq != SQLITE_ROW) {
            rc = sqlite_error(s, what, why);
        } else if (!columns_read(rows, &store_submission_kind, &row)) {
            rc = fn(ctx, &row);
            if (rc != 0) {
                why_set(why, "%s: %s: %s", s->path, what, tfe_error_sentence(rc));
            }
        }
    }
    (void)sqlite3_finalize(rows);
    return rc;
}
