/* common/records/json_text.h: rows for programs: JSON objects, and lines of CSV. */
#ifndef TFE_COMMON_RECORDS_JSON_TEXT_H
#define TFE_COMMON_RECORDS_JSON_TEXT_H

#include <jansson.h>
#include <stdio.h>

#include "common/records/record_list.h"

/* An object of all fields that have a key, in their order; what is not known is null. NULL: no
 * memory. */
json_t *row_json(const struct row_kind *kind, const void *row) TFE_MUST_CHECK;

/* An array of those of the rows that are of this kind. NULL: no memory. */
json_t *row_list_json(const struct row_list *list, const struct row_kind *kind) TFE_MUST_CHECK;

/* A text from anywhere: bytes that are not UTF-8 become U+FFFD. NULL text: null. */
json_t *row_json_text(const char *text) TFE_MUST_CHECK;

/* The columns' keys as a line, and a row's fields of these keys: RFC 4180, texts in quotes, what is
 * not known empty. */
void row_csv_head(const char *const *keys, size_t n, FILE *out);
void row_csv(const struct row_kind *kind, const void *row, const char *const *keys, size_t n,
             FILE *out);

#endif
