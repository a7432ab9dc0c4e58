/* common/records/json_text.c: writes records as JSON objects and CSV lines. */
#include "common/records/json_text.h"

#include <stdlib.h>
#include <string.h>

#include "common/text/escape.h"
#include "common/text/utf8.h"

json_t *json_from_text(const char *text)
{
    if (!text) {
        return json_null();
    }
    size_t n = strlen(text);
    char *repaired = malloc(UTF8_REPAIRED_MAX(n));
    json_t *json = repaired ? json_stringn(repaired, utf8_repair(text, n, repaired)) : NULL;
    free(repaired);
    return json;
}

static json_t *list_json(const struct record_value *value)
{
    json_t *list = json_array();
    for (size_t i = 0; i < value->n_list; i++) {
        if (json_array_append_new(list, json_integer(value->list[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Converts "K=V,K=V" to an object; values contain no comma. */
static json_t *labels_json(const char *text)
{
    json_t *object = json_object();
    while (object && *text != '\0') {
        const size_t n = strcspn(text, ",");
        const size_t n_key = strcspn(text, "=");
        char *key = n_key < n ? strndup(text, n_key) : NULL;
        char *value = key ? strndup(text + n_key + 1, n - n_key - 1) : NULL;
        if (key && json_object_set_new(object, key, json_from_text(value)) != 0) {
            json_decref(object);
            object = NULL;
        }
        free(key);
        free(value);
        text += n + (text[n] == ',');
    }
    return object;
}

static json_t *value_json(const struct record_value *value)
{
    switch (value->form) {
    case RECORD_NONE:
        break;
    case RECORD_IS_TEXT:
        return json_from_text(value->text);
    case RECORD_IS_NUMBER:
        return json_integer(value->number);
    case RECORD_IS_REAL:
        return json_real(value->real);
    case RECORD_IS_BOOL:
        return json_boolean(value->number);
    case RECORD_IS_LIST:
        return list_json(value);
    }
    return json_null();
}

static json_t *field_json(const struct record_field *f, const struct record_value *value)
{
    if (f->type == RECORD_LABELS && value->form == RECORD_IS_TEXT) {
        return labels_json(value->text);
    }
    if (f->type == RECORD_JSON && value->form == RECORD_IS_TEXT) {
        json_t *json = json_loads(value->text, JSON_DECODE_ANY, NULL);
        return json ? json : json_null();
    }
    return value_json(value);
}

json_t *record_json(const struct record_schema *schema, const void *row)
{
    json_t *object = json_object();
    const struct record_field *f;
    const void *at = row;
    for (size_t i = 0; (f = record_field(schema, i, &at)) != NULL; i++, at = row) {
        char buf[RECORD_TEXT_MAX];
        struct record_value value = record_value(f, at, buf);
        json_t *json = f->key ? field_json(f, &value) : NULL;
        if (f->key && json_object_set_new(object, f->key, json) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

json_t *record_list_json(const struct record_list *list, const struct record_schema *schema)
{
    json_t *array = json_array();
    for (size_t i = 0; i < list->n; i++) {
        const struct record *row = &list->v[i];
        if (row->schema == schema &&
            json_array_append_new(array, record_json(schema, row->at)) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

/* Writes a quoted CSV field with inner quotes doubled. Prefixes an apostrophe to text that a
 * spreadsheet would interpret as a formula, because labels come from untrusted machines. */
static void put_quoted(const char *text, FILE *out)
{
    (void)fputs(text[0] != '\0' && strchr("=+-@", text[0]) ? "\"'" : "\"", out);
    for (size_t used, left = strlen(text); left > 0; text += used, left -= used) {
        char unit[ESCAPE_UNIT_MAX];
        size_t n;
        used = escape_unit(text, left, unit, &n);
        (void)fprintf(out, "%.*s%s", (int)n, unit, unit[0] == '"' ? "\"" : "");
    }
    (void)fputc('"', out);
}

static void put_value(const struct record_field *f, const void *row, FILE *out)
{
    char buf[RECORD_TEXT_MAX];
    struct record_value value = record_value(f, row, buf);
    if (f->type == RECORD_TEXT || f->type == RECORD_LABELS) {
        put_quoted(value.text ? value.text : "", out);
    } else if (value.form == RECORD_IS_TEXT) {
        (void)fputs(value.text, out);
    } else if (value.form == RECORD_IS_REAL) {
        (void)fprintf(out, "%.17g", value.real);
    } else if (value.form == RECORD_IS_NUMBER || value.form == RECORD_IS_BOOL) {
        (void)fprintf(out, "%lld", (long long)value.number);
    }
}

void record_csv(const struct record_schema *schema, const void *row, FILE *out)
{
    const void *const whole = row ? row : schema; /* the header reads no value */
    const void *at = whole;
    const struct record_field *f;
    const char *between = "";
    for (size_t i = 0; (f = record_field(schema, i, &at)); i++, at = whole) {
        if (f->key) {
            (void)fputs(between, out);
            between = ",";
            if (row) {
                put_value(f, at, out);
            } else {
                (void)fputs(f->key, out);
            }
        }
    }
    (void)fputc('\n', out);
}
