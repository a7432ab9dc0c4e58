/* common/records/record.c: field access and copying of records. */
#include "common/records/record.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/heap.h"

static const void *at(const void *row, size_t offset)
{
    return (const char *)row + offset;
}

/* Finds the field after *left others, including those of embedded records. */
static const struct record_field *go_to(const struct record_schema *schema, size_t *left,
                                        const void **row)
{
    for (const struct record_field *f = schema->fields; f < schema->fields + schema->n_fields;
         f++) {
        const void *part = at(*row, f->offset);
        const struct record_field *found = f;
        if (f->type == RECORD_PART) {
            found = go_to(f->part, left, &part);
            *row = found ? part : *row;
        } else if ((*left)-- > 0) {
            found = NULL;
        }
        if (found) {
            return found;
        }
    }
    return NULL;
}

const struct record_field *record_field(const struct record_schema *schema, size_t i,
                                        const void **row)
{
    return go_to(schema, &i, row);
}

const struct record_field *record_find_field(const struct record_schema *schema, const char *key,
                                             const char *head, const void **row)
{
    const struct record_field *f;
    const void *whole = *row;
    for (size_t i = 0; (f = record_field(schema, i, row)) != NULL; i++, *row = whole) {
        if ((key && f->key && strcmp(f->key, key) == 0) ||
            (head && f->head && strcmp(f->head, head) == 0)) {
            return f;
        }
    }
    return NULL;
}

static struct record_value number(int64_t n, bool is_known)
{
    return (struct record_value){.form = is_known ? RECORD_IS_NUMBER : RECORD_NONE, .number = n};
}

static struct record_value count(const struct record_field *field, uint64_t n)
{
    struct record_value value =
        number(n > INT64_MAX ? INT64_MAX : (int64_t)n, n != 0 || !field->is_0_unknown);
    if (value.form == RECORD_IS_NUMBER && field->scale > 0) {
        value.form = RECORD_IS_REAL;
        value.real = (double)n * field->scale;
    }
    return value;
}

struct record_value record_value(const struct record_field *field, const void *row,
                                 char buf[RECORD_TEXT_MAX])
{
    const void *p = at(row, field->offset);
    struct record_value value = {.form = RECORD_NONE};
    if (field->has != 0 && !*(const bool *)at(row, field->has)) {
        return value;
    }
    switch (field->type) {
    case RECORD_TEXT:
    case RECORD_WORD:
    case RECORD_LABELS:
    case RECORD_JSON:
        value.text = field->text ? field->text(row, buf) : *(const char *const *)p;
        value.form = value.text ? RECORD_IS_TEXT : RECORD_NONE;
        break;
    case RECORD_PID:
        return number(*(const uint32_t *)p, true);
    case RECORD_U32:
        return count(field, *(const uint32_t *)p);
    case RECORD_U64:
        return count(field, *(const uint64_t *)p);
    case RECORD_AGE:
        return number(*(const uint32_t *)p, *(const uint32_t *)p > 0);
    case RECORD_REAL:
        value.form = RECORD_IS_REAL;
        value.real = *(const double *)p;
        break;
    case RECORD_BOOL:
        value.form = RECORD_IS_BOOL;
        value.number = *(const bool *)p;
        break;
    case RECORD_PIDS:
        value.form = RECORD_IS_LIST;
        value.list = *(const uint32_t *const *)p;
        value.n_list = *(const size_t *)at(row, field->n);
        break;
    case RECORD_TIME:
        return number(*(const int64_t *)p, *(const int64_t *)p > 0);
    case RECORD_DURATION:
        return number(*(const int64_t *)p, *(const int64_t *)p >= 0);
    case RECORD_PART:
        break;
    }
    return value;
}

static bool is_text(const struct record_field *f)
{
    return f->type == RECORD_TEXT || f->type == RECORD_WORD || f->type == RECORD_LABELS ||
           f->type == RECORD_JSON;
}

/* Returns the data that the field points to, with its size in *ret_n, or NULL if none. */
static const void *pointed_to(const struct record_field *f, const void *row, size_t *ret_n)
{
    const void *const *p = at(row, f->offset);
    if (f->type == RECORD_PIDS) {
        *ret_n = *(const size_t *)at(row, f->n) * sizeof(uint32_t);
        return *p;
    }
    if (!is_text(f) || f->text || !*p) {
        return NULL;
    }
    *ret_n = strlen(*p) + 1;
    return *p;
}

void *record_copy(const struct record_schema *schema, const void *row)
{
    size_t n = schema->size;
    const struct record_field *f;
    const void *from = row;
    size_t bytes;
    for (size_t i = 0; (f = record_field(schema, i, &from)) != NULL; i++, from = row) {
        n += pointed_to(f, from, &bytes) ? bytes : 0;
    }
    char *copy = calloc(1, n);
    if (!copy) {
        return NULL;
    }
    memcpy(copy, row, schema->given);
    char *end = copy + schema->size;
    for (int turn = 0; turn < 2; turn++) { /* lists first, because they need alignment */
        for (size_t i = 0; (f = record_field(schema, i, &from)) != NULL; i++, from = row) {
            const void *p = pointed_to(f, from, &bytes);
            if (p && is_text(f) == (turn == 1)) {
                size_t offset = (size_t)((const char *)from - (const char *)row) + f->offset;
                memcpy(end, p, bytes);
                memcpy(copy + offset, &end, sizeof(end));
                end += bytes;
            }
        }
    }
    return copy;
}

/* --- lists ------------------------------------------------------------------------------------ */

int record_list_add(struct record_list *list, const struct record_schema *schema, const void *row)
{
    if (mem_reserve(&heap_mem, &list->v, &list->cap, list->n + 1, sizeof(*list->v)) != 0) {
        return TFE_ENOMEM;
    }
    void *copy = record_copy(schema, row);
    if (!copy) {
        return TFE_ENOMEM;
    }
    list->v[list->n++] = (struct record){.schema = schema, .at = copy};
    return 0;
}

void record_list_done(struct record_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->v[i].at);
    }
    free(list->v);
    *list = (struct record_list){.v = NULL};
}
