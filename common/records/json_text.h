/* common/records/json_text.h: writes records as JSON objects and CSV lines. */
#ifndef TFE_COMMON_RECORDS_JSON_TEXT_H
#define TFE_COMMON_RECORDS_JSON_TEXT_H

#include <jansson.h>
#include <stdio.h>

#include "common/records/record.h"

/* Returns an object of all fields that have a key, in order, with null for unknown values, or NULL
 * if out of memory. */
json_t *row_json(const struct row_kind *kind, const void *row) TFE_MUST_CHECK;

/* Returns an array of the list's records of this schema, or NULL if out of memory. */
json_t *row_list_json(const struct row_list *list, const struct row_kind *kind) TFE_MUST_CHECK;

/* Returns a JSON string of untrusted text, with bytes that are not UTF-8 replaced by U+FFFD; null
 * for NULL. Returns NULL if out of memory. */
json_t *row_json_text(const char *text) TFE_MUST_CHECK;

/* row_csv_head writes the keys as a header line, row_csv the fields with these keys: RFC 4180, text
 * in quotes, unknown values empty. */
void row_csv_head(const char *const *keys, size_t n, FILE *out);
void row_csv(const struct row_kind *kind, const void *row, const char *const *keys, size_t n,
             FILE *out);

#endif
