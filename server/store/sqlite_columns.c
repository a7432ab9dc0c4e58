/* server/store/sqlite_columns.c: rows as rows of a table. */
#include "server/store/sqlite_columns.h"

#include "common/base/text.h"

void columns_sql(char ret[COLUMNS_SQL_MAX], const char *sql, const struct row_kind *kind)
{
    struct text text;
    text_init(&text, ret, COLUMNS_SQL_MAX);
    for (; *sql != '\0'; sql++) {
        const struct row_field *f;
        const void *row = ret; /* of none: keys alone are asked for */
        if (!kind || (*sql != '$' && *sql != '#')) {
            text_add(&text, (const char[]){*sql, '\0'});
            continue;
        }
        for (size_t i = 0; (f = row_field(kind, i, &row)) != NULL; i++, row = ret) {
            text_add(&text, i > 0 ? ", " : "");
            text_add(&text, *sql == '$' ? f->key : "?");
        }
    }
}

static int bind(sqlite3_stmt *statement, int place, const struct row_field *f, const char *from)
{
    const void *at = from + f->offset;
    if (f->has != 0 && !*(const bool *)(const void *)(from + f->has)) {
        return sqlite3_bind_null(statement, place);
    }
    switch ((int)f->type) {
    case ROW_U32:
        return sqlite3_bind_int64(statement, place, *(const uint32_t *)at);
    case ROW_U64:
        return sqlite3_bind_int64(statement, place, (sqlite3_int64) * (const uint64_t *)at);
    case ROW_BOOL:
        return sqlite3_bind_int(statement, place, *(const bool *)at);
    case ROW_REAL:
        return sqlite3_bind_double(statement, place, *(const double *)at);
    case ROW_MOMENT:
        return sqlite3_bind_int64(statement, place, *(const int64_t *)at);
    case ROW_TEXT: {
        const char *text = *(const char *const *)at;
        return sqlite3_bind_text(statement, place, text ? text : "", -1, SQLITE_STATIC);
    }
    }
    return SQLITE_MISUSE;
}

int columns_bind(sqlite3_stmt *statement, const struct row_kind *kind, const void *from)
{
    const struct row_field *f;
    const void *at = from;
    int sq = SQLITE_OK;
    for (int i = 0; sq == SQLITE_OK && (f = row_field(kind, (size_t)i, &at)) != NULL;
         i++, at = from) {
        sq = bind(statement, i + 1, f, at);
    }
    return sq;
}

static bool read(sqlite3_stmt *row, int i, const struct row_field *f, char *to)
{
    void *at = to + f->offset;
    int type = sqlite3_column_type(row, i);
    if (f->has != 0) {
        *(bool *)(void *)(to + f->has) = type != SQLITE_NULL;
        if (type == SQLITE_NULL) {
            return true;
        }
    }
    if (type != (f->type == ROW_TEXT   ? SQLITE_TEXT
                 : f->type == ROW_REAL ? SQLITE_FLOAT
                                       : SQLITE_INTEGER)) {
        return false;
    }
    int64_t number = f->type == ROW_TEXT || f->type == ROW_REAL ? 0 : sqlite3_column_int64(row, i);
    switch ((int)f->type) {
    case ROW_U32:
        *(uint32_t *)at = (uint32_t)number;
        return number >= 0 && number <= UINT32_MAX;
    case ROW_U64:
        *(uint64_t *)at = (uint64_t)number;
        return true;
    case ROW_BOOL:
        *(bool *)at = number != 0;
        return true;
    case ROW_REAL:
        *(double *)at = sqlite3_column_double(row, i);
        return true;
    case ROW_MOMENT:
        *(int64_t *)at = number;
        return true;
    case ROW_TEXT:
        *(const char **)at = (const char *)sqlite3_column_text(row, i);
        return *(const char **)at != NULL;
    }
    return false;
}

const char *columns_read(sqlite3_stmt *row, const struct row_kind *kind, void *to)
{
    const struct row_field *f;
    const void *at = to;
    for (int i = 0; (f = row_field(kind, (size_t)i, &at)) != NULL; i++, at = to) {
        if (!read(row, i, f, (char *)to + ((const char *)at - (const char *)to))) {
            return f->key;
        }
    }
    return NULL;
}
