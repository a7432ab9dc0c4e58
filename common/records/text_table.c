/* common/records/text_table.c: prints records as aligned columns of text. */
#include "common/records/text_table.h"

#include <string.h>
#include <time.h>

#include "common/text/escape.h"

/* --- cells ------------------------------------------------------------------------------------ */

const char *row_span_text(int64_t ms, char room[ROW_ROOM])
{
    long long s = ms / 1000;
    if (ms < 0) {
        (void)snprintf(room, ROW_ROOM, "-");
    } else if (ms < 10000) {
        (void)snprintf(room, ROW_ROOM, "%lld.%llds", s, (long long)(ms % 1000 / 100));
    } else if (s < 60) {
        (void)snprintf(room, ROW_ROOM, "%llds", s);
    } else if (s < 3600) {
        (void)snprintf(room, ROW_ROOM, "%lldm%02llds", s / 60, s % 60);
    } else if (s < 86400) {
        (void)snprintf(room, ROW_ROOM, "%lldh%02lldm", s / 3600, s / 60 % 60);
    } else {
        (void)snprintf(room, ROW_ROOM, "%lldd%02lldh", s / 86400, s / 3600 % 24);
    }
    return room;
}

const char *row_moment_text(int64_t ms, char room[ROW_ROOM])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    return localtime_r(&seconds, &tm) && strftime(room, ROW_ROOM, "%Y-%m-%d %H:%M:%S", &tm) > 0
               ? room
               : "-";
}

static const char *cell_text(const struct row_field *f, const void *row, char room[ROW_ROOM])
{
    struct row_value value = row_value(f, row, room);
    switch (value.form) {
    case ROW_NONE:
        return "-";
    case ROW_IS_TEXT:
        return value.text;
    case ROW_IS_BOOL:
        return value.number ? "yes" : "no";
    case ROW_IS_REAL:
        (void)snprintf(room, ROW_ROOM, "%.4g", value.real);
        return room;
    case ROW_IS_LIST: /* no table shows lists */
    case ROW_IS_TEXTS:
    case ROW_IS_NUMBER:
        break;
    }
    if (f->type == ROW_AGE) {
        return row_span_text(value.number, room);
    }
    if (f->type == ROW_SPAN) {
        char span[ROW_ROOM];
        bool is_least = f->least != 0 && *(const bool *)((const char *)row + f->least);
        (void)snprintf(room, ROW_ROOM, "%s%.300s", is_least ? ">= " : "",
                       row_span_text(value.number, span));
        return room;
    }
    if (f->type == ROW_MOMENT) {
        return row_moment_text(value.number, room);
    }
    if (f->type == ROW_PID && value.number == 0) {
        return "-";
    }
    (void)snprintf(room, ROW_ROOM, "%lld", (long long)value.number);
    return room;
}

/* Returns the width in characters: UTF-8 continuation bytes do not count. */
static size_t width(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++) {
        n += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return n;
}

static const char *cell(const struct row_table *t, const void *row, size_t column,
                        char ret[ROW_ROOM])
{
    char room[ROW_ROOM];
    const struct row_field *f = row_find(t->kind, NULL, t->heads[column], &row);
    return escape_text(f ? cell_text(f, row, room) : "", ret, ROW_ROOM);
}

/* Prints one line; the headings if row is NULL. */
static void print_line(const struct row_table *t, const void *row, const size_t *widths, int indent,
                       FILE *out)
{
    (void)fprintf(out, "%*s", indent, "");
    for (size_t c = 0; c < t->n_columns; c++) {
        char room[ROW_ROOM];
        const char *text = row ? cell(t, row, c, room) : t->heads[c];
        int fill = c + 1 < t->n_columns ? (int)(widths[c] - width(text) + 2) : 0;
        (void)fprintf(out, "%s%*s", text, fill, "");
    }
    (void)fputc('\n', out);
}

size_t row_table_print(const struct row_table *t, const struct row *rows, size_t n, int indent,
                       FILE *out)
{
    size_t widths[ROW_TABLE_COLUMNS_MAX];
    size_t n_shown = 0;
    char room[ROW_ROOM];
    for (size_t c = 0; c < t->n_columns; c++) {
        widths[c] = width(t->heads[c]);
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t c = 0; rows[i].kind == t->kind && c < t->n_columns; c++) {
            size_t w = width(cell(t, rows[i].at, c, room));
            widths[c] = w > widths[c] ? w : widths[c];
        }
        n_shown += rows[i].kind == t->kind;
    }
    if (n_shown > 0) {
        print_line(t, NULL, widths, indent, out);
    }
    for (size_t i = 0; i < n; i++) {
        if (rows[i].kind == t->kind) {
            print_line(t, rows[i].at, widths, indent, out);
        }
    }
    return n_shown;
}
