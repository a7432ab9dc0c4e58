/* common/records/text_table.h: prints records as aligned columns of text. */
#ifndef TFE_COMMON_RECORDS_TEXT_TABLE_H
#define TFE_COMMON_RECORDS_TEXT_TABLE_H

#include <stdio.h>

#include "common/records/record.h"

#define TEXT_TABLE_COLUMNS_MAX 20

/* A table: the schema of its records, and the headings of the fields to show. */
struct text_table {
    const struct record_schema *schema;
    const char *const *heads;
    size_t n_columns;
};

/* Prints the headings and all records of the table's schema, indented, with two spaces between
 * columns and control characters escaped. Returns the number of records; for 0 prints nothing, not
 * even headings. */
size_t text_table_print(const struct text_table *t, const struct record *rows, size_t n, int indent,
                        FILE *out);

/* Formats a time as "2026-01-02 03:04:05" in local time. */
const char *text_table_time(int64_t ms, char buf[RECORD_TEXT_MAX]);

/* Formats a duration as "0.4s", "12s", "3m05s", "2h14m" or "3d05h"; "-" if below 0 (unknown). */
const char *text_table_duration(int64_t ms, char buf[RECORD_TEXT_MAX]);

#endif
