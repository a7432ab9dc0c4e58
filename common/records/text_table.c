/* common/records/text_table.c: prints records as aligned columns of text. */
#include "common/records/text_table.h"

#include <string.h>
#include <time.h>

#include "common/text/escape.h"

/* --- cells ------------------------------------------------------------------------------------ */

const char *text_table_duration(int64_t ms, char buf[RECORD_TEXT_MAX])
{
    long long s = ms / 1000;
    if (ms < 0) {
        (void)snprintf(buf, RECORD_TEXT_MAX, "-");
    } else if (ms < 10000) {
        (void)snprintf(buf, RECORD_TEXT_MAX, "%lld.%llds", s, (long long)(ms % 1000 / 100));
    } else if (s < 60) {
        (void)snprintf(buf, RECORD_TEXT_MAX, "%llds", s);
    } else if (s < 3600) {
        (void)snprintf(buf, RECORD_TEXT_MAX, "%lldm%02llds", s / 60, s % 60);
    } else if (s < 86400) {
        (void)snprintf(buf, RECORD_TEXT_MAX, "%lldh%02lldm", s / 3600, s / 60 % 60);
    } else {
        (void)snprintf(buf, RECORD_TEXT_MAX, "%lldd%02lldh", s / 86400, s / 3600 % 24);
    }
    return buf;
}

const char *text_table_time(int64_t ms, char buf[RECORD_TEXT_MAX])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    return localtime_r(&seconds, &tm) &&
                   strftime(buf, RECORD_TEXT_MAX, "%Y-%m-%d %H:%M:%S", &tm) > 0
               ? buf
               : "-";
}

static const char *cell_text(const struct record_field *f, const void *row,
                             char buf[RECORD_TEXT_MAX])
{
    struct record_value value = record_value(f, row, buf);
    switch (value.form) {
    case RECORD_NONE:
        return "-";
    case RECORD_IS_TEXT:
        return value.text;
    case RECORD_IS_BOOL:
        return value.number ? "yes" : "no";
    case RECORD_IS_REAL:
        (void)snprintf(buf, RECORD_TEXT_MAX, "%.4g", value.real);
        return buf;
    case RECORD_IS_LIST: /* no table shows lists */
    case RECORD_IS_NUMBER:
        break;
    }
    if (f->type == RECORD_AGE) {
        return text_table_duration(value.number, buf);
    }
    if (f->type == RECORD_DURATION) {
        char span[RECORD_TEXT_MAX];
        bool is_lower_bound =
            f->lower_bound != 0 && *(const bool *)((const char *)row + f->lower_bound);
        (void)snprintf(buf, RECORD_TEXT_MAX, "%s%.300s", is_lower_bound ? ">= " : "",
                       text_table_duration(value.number, span));
        return buf;
    }
    if (f->type == RECORD_TIME) {
        return text_table_time(value.number, buf);
    }
    if (f->type == RECORD_PID && value.number == 0) {
        return "-";
    }
    (void)snprintf(buf, RECORD_TEXT_MAX, "%lld", (long long)value.number);
    return buf;
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

static const char *cell(const struct text_table *t, const void *row, size_t column,
                        char ret[RECORD_TEXT_MAX])
{
    char buf[RECORD_TEXT_MAX];
    const struct record_field *f = record_find_field(t->schema, NULL, t->heads[column], &row);
    return escape_text(f ? cell_text(f, row, buf) : "", ret, RECORD_TEXT_MAX);
}

/* Prints one line; the headings if row is NULL. */
static void print_line(const struct text_table *t, const void *row, const size_t *widths,
                       int indent, FILE *out)
{
    (void)fprintf(out, "%*s", indent, "");
    for (size_t c = 0; c < t->n_columns; c++) {
        char buf[RECORD_TEXT_MAX];
        const char *text = row ? cell(t, row, c, buf) : t->heads[c];
        int fill = c + 1 < t->n_columns ? (int)(widths[c] - width(text) + 2) : 0;
        (void)fprintf(out, "%s%*s", text, fill, "");
    }
    (void)fputc('\n', out);
}

size_t text_table_print(const struct text_table *t, const struct record *rows, size_t n, int indent,
                        FILE *out)
{
    size_t widths[TEXT_TABLE_COLUMNS_MAX];
    size_t n_shown = 0;
    char buf[RECORD_TEXT_MAX];
    for (size_t c = 0; c < t->n_columns; c++) {
        widths[c] = width(t->heads[c]);
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t c = 0; rows[i].schema == t->schema && c < t->n_columns; c++) {
            size_t w = width(cell(t, rows[i].at, c, buf));
            widths[c] = w > widths[c] ? w : widths[c];
        }
        n_shown += rows[i].schema == t->schema;
    }
    if (n_shown > 0) {
        print_line(t, NULL, widths, indent, out);
    }
    for (size_t i = 0; i < n; i++) {
        if (rows[i].schema == t->schema) {
            print_line(t, rows[i].at, widths, indent, out);
        }
    }
    return n_shown;
}
