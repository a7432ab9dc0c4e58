/* server/store/sqlite_columns.h: rows (common/rows/row.h) as rows of a table: the key of a field is
 * its column. What is written is what is read back, or neither. */
#ifndef TFE_SERVER_STORE_SQLITE_COLUMNS_H
#define TFE_SERVER_STORE_SQLITE_COLUMNS_H

#include <sqlite3.h>

#include "common/rows/row.h"

/* A column and a field of one name; a struct in the place of its columns; all columns of a struct.
 * A MOMENT is any int64_t here, and a TEXT that is NULL is written as "". */
#define COLUMN(of, field, kind) .key = #field, .type = (kind), .offset = offsetof(struct of, field)
#define COLUMNS_OF(of, field, kind)                                                                \
    .type = ROW_PART, .offset = offsetof(struct of, field), .part = &(kind)
#define COLUMNS(name_, of, list)                                                                   \
    static const struct row_kind name_ = {.name = #name_,                                          \
                                          .fields = (list),                                        \
                                          .n_fields = sizeof(list) / sizeof((list)[0]),            \
                                          .size = sizeof(struct of),                               \
                                          .given = sizeof(struct of)}

#define COLUMNS_SQL_MAX 2048

/* "$" in sql becomes the names of the columns, "#" a "?" for each. kind NULL: as it is. */
void columns_sql(char ret[COLUMNS_SQL_MAX], const char *sql, const struct row_kind *kind);

/* Binds the statement's first places. Texts must live until it has run. An SQLite code. */
int columns_bind(sqlite3_stmt *statement, const struct row_kind *kind, const void *from);

/* Fills the struct from the row's first columns; texts are borrowed from the statement. NULL, or
 * the name of a column that holds something else. */
const char *columns_read(sqlite3_stmt *row, const struct row_kind *kind, void *to);

#endif
