/* common/records/text_table.h: rows for people: columns of text, as wide as they need to be. */
#ifndef TFE_COMMON_RECORDS_TEXT_TABLE_H
#define TFE_COMMON_RECORDS_TEXT_TABLE_H

#include <stdio.h>

#include "common/records/record_list.h"

#define ROW_TABLE_COLUMNS_MAX 20

/* The columns are the fields of these heads. */
struct row_table {
    const struct row_kind *kind;
    const char *const *heads;
    size_t n_columns;
};

/* Writes the heads and those of the rows that are of the table's kind, indent spaces in front of
 * each, two between columns; characters that could steer a terminal are replaced. Returns how many
 * there were: of none, not even the heads are written. */
size_t row_table_print(const struct row_table *t, const struct row *rows, size_t n, int indent,
                       FILE *out);

/* "2026-01-02 03:04:05", in the local time of whoever asks. */
const char *row_moment_text(int64_t ms, char room[ROW_ROOM]);

/* "0.4s", "12s", "3m05s", "2h14m", "3d05h"; "-" below 0, which is not known. */
const char *row_span_text(int64_t ms, char room[ROW_ROOM]);

#endif
