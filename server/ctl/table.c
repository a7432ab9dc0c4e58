/* server/ctl/table.c: columns of text for a person, as wide as they need to be. */
#include "server/ctl/table.h"

#include <stdlib.h>
#include <string.h>

#include "common/net/heap.h"

/* Labels come from agents: no escape sequences, neither C0 nor C1 (U+0080 to U+009F in UTF-8). */
static void make_harmless(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c != '\0'; c++) {
        if (*c < 0x20 || *c == 0x7f) {
            *c = '?';
        } else if (c[0] == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f) {
            c[0] = '?';
            c[1] = '?';
        }
    }
}

/* Characters, not bytes: continuation bytes of UTF-8 take no room. */
static size_t width(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++) {
        n += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return n;
}

int table_add(struct table *t, const char *text)
{
    if (mem_reserve(&heap_mem, (void **)&t->cells, &t->cap, t->n_cells + 1, sizeof(char *)) != 0) {
        return TFE_ENOMEM;
    }
    char *copy = strdup(text);
    if (copy == NULL) {
        return TFE_ENOMEM;
    }
    make_harmless(copy);
    t->cells[t->n_cells++] = copy;
    return 0;
}

void table_print(const struct table *t, int indent, FILE *out)
{
    size_t widths[TABLE_COLUMNS_MAX] = {0};
    size_t n = t->n_cells - t->n_cells % t->n_columns;
    for (size_t i = 0; i < n; i++) {
        size_t w = width(t->cells[i]);
        if (w > widths[i % t->n_columns]) {
            widths[i % t->n_columns] = w;
        }
    }
    for (size_t i = 0; i < n; i++) {
        size_t column = i % t->n_columns;
        if (column == 0) {
            (void)fprintf(out, "%*s", indent, "");
        }
        (void)fputs(t->cells[i], out);
        if (column + 1 < t->n_columns) {
            (void)fprintf(out, "%*s", (int)(widths[column] - width(t->cells[i]) + 2), "");
        } else {
            (void)fputc('\n', out);
        }
    }
}

void table_done(struct table *t)
{
    for (size_t i = 0; i < t->n_cells; i++) {
        free(t->cells[i]);
    }
    free(t->cells);
    *t = (struct table){.n_columns = t->n_columns};
}
