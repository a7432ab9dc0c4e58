/* server/store/sqlite.c: runs single statements and describes their errors. */
#include <stdio.h>
#include <stdlib.h>

#include "server/store/sqlite_private.h"

int sqlite_error(const struct store *s, const char *what, struct tfe_reason *reason)
{
    int code = s->db ? sqlite3_extended_errcode(s->db) : SQLITE_NOMEM;
    reason_set(reason, "%s: %s: %s (%d)", s->path, what, sqlite3_errstr(code), code);
    return (code & 0xff) == SQLITE_NOMEM ? TFE_ENOMEM : TFE_EDISK;
}

int sqlite_damaged(const struct store *s, const char *what, struct tfe_reason *reason)
{
    reason_set(
        reason,
        "%s is damaged (%.200s); nothing was changed: restore it from a backup, or salvage it "
        "with sqlite3 .recover or .dump (the operating guide shows how)",
        s->path, what);
    return TFE_EINVAL;
}

static int bind(sqlite3_stmt *at, int place, const struct sqlite_value *v)
{
    switch (v->form) {
    case VALUE_NULL:
        return sqlite3_bind_null(at, place);
    case VALUE_INT:
        return sqlite3_bind_int64(at, place, v->number);
    case VALUE_TEXT:
        return sqlite3_bind_text(at, place, v->bytes ? v->bytes : "", -1, SQLITE_STATIC);
    case VALUE_BYTES:
        return sqlite3_bind_blob64(at, place, v->bytes ? v->bytes : "", v->n, SQLITE_STATIC);
    }
    return SQLITE_MISUSE;
}

int sqlite_prepare(struct store *s, enum statement which, struct tfe_reason *reason)
{
    if (!s->statements[which] &&
        sqlite3_prepare_v3(s->db, sqlite_statements[which], -1, SQLITE_PREPARE_PERSISTENT,
                           &s->statements[which], NULL) != SQLITE_OK) {
        return sqlite_error(s, "prepare", reason);
    }
    return 0;
}

/* Prepares the statement and binds its values. */
static int begin(struct store *s, const struct sqlite_call *call, sqlite3_stmt **ret,
                 struct tfe_reason *reason)
{
    int rc = sqlite_prepare(s, call->which, reason);
    sqlite3_stmt *at = *ret = s->statements[call->which];
    for (size_t i = 0; rc == 0 && i < call->n; i++) {
        if (bind(at, (int)i + 1, &call->v[i]) != SQLITE_OK) {
            rc = sqlite_error(s, call->what, reason);
        }
    }
    return rc;
}

static void end(sqlite3_stmt *at)
{
    if (at) {
        (void)sqlite3_reset(at); /* returns the error of the step again */
        (void)sqlite3_clear_bindings(at);
    }
}

int sqlite_run(struct store *s, const struct sqlite_call *call, struct tfe_reason *reason)
{
    sqlite3_stmt *at;
    int rc = begin(s, call, &at, reason);
    if (rc == 0 && sqlite3_step(at) != SQLITE_DONE) {
        rc = sqlite_error(s, call->what, reason);
    }
    end(at);
    return rc;
}

/* Returns the index of the next column, or -1 if its type is not the expected one. */
static int next_column(struct sqlite_row *row, int type)
{
    const int i = row->next++;
    const bool is_it = sqlite3_column_type(row->at, i) == type;
    row->is_bad = row->is_bad || !is_it;
    return is_it ? i : -1;
}

int64_t column_int(struct sqlite_row *row)
{
    const int i = next_column(row, SQLITE_INTEGER);
    return i >= 0 ? sqlite3_column_int64(row->at, i) : 0;
}

int64_t column_int_if(struct sqlite_row *row, bool *ret_has)
{
    *ret_has = sqlite3_column_type(row->at, row->next) != SQLITE_NULL;
    if (*ret_has) {
        return column_int(row);
    }
    row->next++;
    return 0;
}

const char *column_text(struct sqlite_row *row)
{
    const int i = next_column(row, SQLITE_TEXT);
    const char *text = i >= 0 ? (const char *)sqlite3_column_text(row->at, i) : NULL;
    row->failed = row->failed || (i >= 0 && !text);
    return text ? text : "";
}

const void *column_bytes(struct sqlite_row *row, size_t *ret_n)
{
    const int i = next_column(row, SQLITE_BLOB);
    const void *bytes = i >= 0 ? sqlite3_column_blob(row->at, i) : NULL;
    *ret_n = bytes ? (size_t)sqlite3_column_bytes(row->at, i) : 0;
    row->failed = row->failed ||
                  (i >= 0 && !bytes && sqlite3_errcode(sqlite3_db_handle(row->at)) == SQLITE_NOMEM);
    return bytes ? bytes : "";
}

int sqlite_read(struct store *s, const struct sqlite_call *call, sqlite_row_fn fn, void *ctx,
                struct tfe_reason *reason)
{
    sqlite3_stmt *at;
    int rc = begin(s, call, &at, reason);
    int sq;
    while (rc == 0 && (sq = sqlite3_step(at)) != SQLITE_DONE) {
        struct sqlite_row row = {.at = at};
        if (sq != SQLITE_ROW) {
            rc = sqlite_error(s, call->what, reason);
            break;
        }
        rc = fn(ctx, &row);
        if (row.failed) {
            reason_set(reason, "%s: %s: out of memory", s->path, call->what);
            rc = TFE_ENOMEM;
        } else if (rc != 0) {
            reason_set(reason, "%s: %s: %s", s->path, call->what, tfe_error_sentence(rc));
        }
    }
    end(at);
    return rc;
}

int sqlite_text(struct store *s, const char *sql, const char *what, char ret[SQLITE_TEXT_MAX],
                struct tfe_reason *reason)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(s->db, sql, -1, &statement, NULL) != SQLITE_OK) {
        return sqlite_error(s, what, reason);
    }
    int sq = sqlite3_step(statement);
    const char *text = sq == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    (void)snprintf(ret, SQLITE_TEXT_MAX, "%s", text ? text : "");
    int rc = text || sq == SQLITE_DONE ? 0 : sqlite_error(s, what, reason);
    (void)sqlite3_finalize(statement);
    return rc;
}

int sqlite_number(struct store *s, const char *sql, int64_t *ret, struct tfe_reason *reason)
{
    char text[SQLITE_TEXT_MAX];
    int rc = sqlite_text(s, sql, "read", text, reason);
    *ret = rc == 0 ? strtoll(text, NULL, 10) : 0;
    return rc;
}
