/* common/records/json_text.h: writes records as JSON objects and CSV lines. */
#ifndef TFE_COMMON_RECORDS_JSON_TEXT_H
#define TFE_COMMON_RECORDS_JSON_TEXT_H

#include <jansson.h>
#include <stdio.h>

#include "common/records/record.h"

/* Returns an object of all fields that have a key, in order, with null for unknown values, or NULL
 * if out of memory. */
json_t *record_json(const struct record_schema *schema, const void *row) TFE_MUST_CHECK;

/* Returns an array of the list's records of this schema, or NULL if out of memory. */
json_t *record_list_json(const struct record_list *list,
                         const struct record_schema *schema) TFE_MUST_CHECK;

/* Returns a JSON string of untrusted text, with bytes that are not UTF-8 replaced by U+FFFD; null
 * for NULL. Returns NULL if out of memory. */
json_t *json_from_text(const char *text) TFE_MUST_CHECK;

/* Writes a CSV line of all fields that have a key, in order: their values or, if row is NULL, their
 * keys. RFC 4180, text in quotes, unknown values empty. */
void record_csv(const struct record_schema *schema, const void *row, FILE *out);

#endif
