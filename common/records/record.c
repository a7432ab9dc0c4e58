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
static const struct row_field *go_to(const struct row_kind *kind, size_t *left, const void **row)
{
    for (const struct row_field *f = kind->fields; f < kind->fields + kind->n_fields; f++) {
        const void *part = at(*row, f->offset);
        const struct row_field *found = f;
        if (f->type == ROW_PART) {
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

const struct row_field *row_field(const struct row_kind *kind, size_t i, const void **row)
{
    return go_to(kind, &i, row);
}

const struct row_field *row_find(const struct row_kind *kind, const char *key, const char *head,
                                 const void **row)
{
    const struct row_field *f;
    const void *whole = *row;
    for (size_t i = 0; (f = row_field(kind, i, row)) != NULL; i++, *row = whole) {
        if ((key && f->key && strcmp(f->key, key) == 0) ||
            (head && f->head && strcmp(f->head, head) == 0)) {
            return f;
        }
    }
    return NULL;
}

static struct row_value number(int64_t n, bool is_known)
{
    return (struct row_value){.form = is_known ? ROW_IS_NUMBER : ROW_NONE, .number = n};
}

static struct row_value count(const struct row_field *field, uint64_t n)
{
    struct row_value value =
        number(n > INT64_MAX ? INT64_MAX : (int64_t)n, n != 0 || !field->is_0_unknown);
    if (value.form == ROW_IS_NUMBER && field->scale > 0) {
        value.form = ROW_IS_REAL;
        value.real = (double)n * field->scale;
    }
    return value;
}

struct row_value row_value(const struct row_field *field, const void *row, char room[ROW_ROOM])
{
    const void *p = at(row, field->offset);
    struct row_value value = {.form = ROW_NONE};
    if (field->has != 0 && !*(const bool *)at(row, field->has)) {
        return value;
    }
    switch (field->type) {
    case ROW_TEXT:
    case ROW_WORD:
    case ROW_LABELS:
        value.text = field->text ? field->text(row, room) : *(const char *const *)p;
        value.form = value.text ? ROW_IS_TEXT : ROW_NONE;
        break;
    case ROW_PID:
        return number(*(const uint32_t *)p, true);
    case ROW_U32:
        return count(field, *(const uint32_t *)p);
    case ROW_U64:
        return count(field, *(const uint64_t *)p);
    case ROW_AGE:
        return number(*(const uint32_t *)p, *(const uint32_t *)p > 0);
    case ROW_REAL:
        value.form = ROW_IS_REAL;
        value.real = *(const double *)p;
        break;
    case ROW_BOOL:
        value.form = ROW_IS_BOOL;
        value.number = *(const bool *)p;
        break;
    case ROW_PIDS:
        value.form = ROW_IS_LIST;
        value.list = *(const uint32_t *const *)p;
        value.n_list = *(const size_t *)at(row, field->n);
        break;
    case ROW_TEXTS:
    case ROW_PAIRS:
        value.form = ROW_IS_TEXTS;
        value.texts = *(const char *const *const *)p;
        value.n_list = *(const size_t *)at(row, field->n);
        break;
    case ROW_MOMENT:
        return number(*(const int64_t *)p, *(const int64_t *)p > 0);
    case ROW_SPAN:
        return number(*(const int64_t *)p, *(const int64_t *)p >= 0);
    case ROW_PART:
        break;
    }
    return value;
}

static bool is_texts(const struct row_field *f)
{
    return f->type == ROW_TEXTS || f->type == ROW_PAIRS;
}

/* Returns the data that the field points to, with its size in *ret_n, or NULL if none. */
static const void *pointed_to(const struct row_field *f, const void *row, size_t *ret_n)
{
    const void *const *p = at(row, f->offset);
    if (f->type == ROW_PIDS) {
        *ret_n = *(const size_t *)at(row, f->n) * sizeof(uint32_t);
        return *p;
    }
    if (is_texts(f)) {
        *ret_n = *(const size_t *)at(row, f->n) * sizeof(char *);
        return *ret_n > 0 ? *p : NULL;
    }
    if ((f->type != ROW_TEXT && f->type != ROW_WORD && f->type != ROW_LABELS) || f->text || !*p) {
        return NULL;
    }
    *ret_n = strlen(*p) + 1;
    return *p;
}

/* Copies lists first, those of pointers before those of numbers, because they need alignment. */
static bool is_turn(const struct row_field *f, int turn)
{
    return turn == (is_texts(f) ? 0 : f->type == ROW_PIDS ? 1 : 2);
}

/* Returns the size of the texts of a list. */
static size_t texts_size(const struct row_field *f, const void *row)
{
    const char *const *texts = *(const char *const *const *)at(row, f->offset);
    const size_t n = *(const size_t *)at(row, f->n);
    size_t size = 0;
    for (size_t i = 0; i < n; i++) {
        size += strlen(texts[i]) + 1;
    }
    return size;
}

/* Moves the texts that a copied list points to behind the copy. Returns its new end. */
static char *move_texts(char *list, size_t n, char *end)
{
    for (size_t i = 0; i < n; i++) {
        const char *text;
        memcpy(&text, list + i * sizeof(text), sizeof(text));
        memcpy(list + i * sizeof(text), &end, sizeof(end));
        end = stpcpy(end, text) + 1;
    }
    return end;
}

void *row_copy(const struct row_kind *kind, const void *row)
{
    size_t n = kind->size;
    const struct row_field *f;
    const void *from = row;
    size_t bytes;
    for (size_t i = 0; (f = row_field(kind, i, &from)) != NULL; i++, from = row) {
        n += pointed_to(f, from, &bytes) ? bytes : 0;
        n += is_texts(f) ? texts_size(f, from) : 0;
    }
    char *copy = calloc(1, n);
    if (!copy) {
        return NULL;
    }
    memcpy(copy, row, kind->given);
    char *end = copy + kind->size;
    for (int turn = 0; turn < 3; turn++) {
        for (size_t i = 0; (f = row_field(kind, i, &from)) != NULL; i++, from = row) {
            const void *p = pointed_to(f, from, &bytes);
            if (p && is_turn(f, turn)) {
                size_t offset = (size_t)((const char *)from - (const char *)row) + f->offset;
                memcpy(end, p, bytes);
                memcpy(copy + offset, &end, sizeof(end));
                end += bytes;
            }
        }
    }
    for (size_t i = 0; (f = row_field(kind, i, &from)) != NULL; i++, from = row) {
        const size_t offset = (size_t)((const char *)from - (const char *)row) + f->offset;
        if (is_texts(f)) {
            char *list;
            memcpy(&list, copy + offset, sizeof(list));
            end = move_texts(list, *(const size_t *)at(from, f->n), end);
        }
    }
    return copy;
}

/* --- lists ------------------------------------------------------------------------------------ */

int row_list_add(struct row_list *list, const struct row_kind *kind, const void *row)
{
    if (mem_reserve(&heap_mem, &list->v, &list->cap, list->n + 1, sizeof(*list->v)) != 0) {
        return TFE_ENOMEM;
    }
    void *copy = row_copy(kind, row);
    if (!copy) {
        return TFE_ENOMEM;
    }
    list->v[list->n++] = (struct row){.kind = kind, .at = copy};
    return 0;
}

const void *row_list_head(const struct row_list *list, const struct row_kind *kind)
{
    return list->n > 0 && list->v[0].kind == kind ? list->v[0].at : NULL;
}

void row_list_done(struct row_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->v[i].at);
    }
    free(list->v);
    *list = (struct row_list){.v = NULL};
}
