/* server/ctl/table.h: columns of text for a person, as wide as they need to be. */
#ifndef TFE_SERVER_CTL_TABLE_H
#define TFE_SERVER_CTL_TABLE_H

#include <stddef.h>
#include <stdio.h>

#include "common/base/error.h"

#define TABLE_COLUMNS_MAX 8

/* Zeroed but for n_columns, it is empty. */
struct table {
    size_t n_columns;
    char **cells; /* row by row */
    size_t n_cells;
    size_t cap;
};

/* Adds the next cell, row by row. Characters that could steer a terminal are replaced. TFE_ENOMEM.
 */
int table_add(struct table *t, const char *text) TFE_MUST_CHECK;

/* Writes the complete rows, indent spaces in front of each, two between columns. */
void table_print(const struct table *t, int indent, FILE *out);

void table_done(struct table *t);

#endif
