/* server/store/sqlite.c: one statement at a time, and what its errors are called. */
#include <stdio.h>
#include <stdlib.h>

#include "server/store/sqlite_columns.h"
#include "server/store/sqlite_private.h"

int sqlite_error(const struct store *s, const char *what, struct tfe_why *why)
{
    int code = s->db ? sqlite3_extended_errcode(s->db) : SQLITE_NOMEM;
    why_set(why, "%s: %s: %s (%d)", s->path, what, sqlite3_errstr(code), code);
    return (code & 0xff) == SQLITE_NOMEM ? TFE_ENOMEM : TFE_EDISK;
}

int sqlite_damaged(const struct store *s, const char *what, struct tfe_why *why)
{
    why_set(why,
            "%s is damaged (%.200s); nothing was changed: restore it from a backup, or "
            "start once with --recover, which salvages what can be read into a new file and keeps "
            "this one",
            s->path, what);
    return TFE_EINVAL;
}

int sqlite_prepare(struct store *s, const struct sqlite_sql *list, struct tfe_why *why)
{
    for (; list->sql; list++) {
        char sql[COLUMNS_SQL_MAX];
        columns_sql(sql, list->sql, list->kind);
        if (sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT,
                               &s->statements[list->which], NULL) != SQLITE_OK) {
            return sqlite_error(s, "prepare", why);
        }
    }
    return 0;
}

int sqlite_run(struct store *s, enum statement which, const char *what, struct tfe_why *why)
{
    sqlite3_stmt *statement = s->statements[which];
    int rc = sqlite3_step(statement) == SQLITE_DONE ? 0 : sqlite_error(s, what, why);
    (void)sqlite3_reset(statement); /* says the same again */
    return rc;
}

int sqlite_put(struct store *s, enum statement which, const struct row_kind *kind, const void *row,
               const char *what, struct tfe_why *why)
{
    bool is_bound = columns_bind(s->statements[which], kind, row) == SQLITE_OK;
    return is_bound ? sqlite_run(s, which, what, why) : sqlite_error(s, what, why);
}

int sqlite_text(struct store *s, const char *sql, const char *what, char ret[SQLITE_TEXT_MAX],
                struct tfe_why *why)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(s->db, sql, -1, &statement, NULL) != SQLITE_OK) {
        return sqlite_error(s, what, why);
    }
    int sq = sqlite3_step(statement);
    const char *text = sq == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    (void)snprintf(ret, SQLITE_TEXT_MAX, "%s", text ? text : "");
    int rc = text || sq == SQLITE_DONE ? 0 : sqlite_error(s, what, why);
    (void)sqlite3_finalize(statement);
    return rc;
}

int sqlite_number(struct store *s, const char *sql, int64_t *ret, struct tfe_why *why)
{
    char text[SQLITE_TEXT_MAX];
    int rc = sqlite_text(s, sql, "read", text, why);
    *ret = rc == 0 ? strtoll(text, NULL, 10) : 0;
    return rc;
}
