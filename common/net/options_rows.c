/* common/net/options_rows.c: finding rows of an option table, also by names that are nearly right.
 */
#include "common/net/options_rows.h"

#include <string.h>

static char plain(char c)
{
    return c == '_' ? '-' : c;
}

bool options_is_name(const char *name, const char *typed, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (name[i] == '\0' || plain(name[i]) != plain(typed[i])) {
            return false;
        }
    }
    return name[n] == '\0';
}

const struct option_spec *options_find(const struct option_table *table, const char *typed,
                                       size_t n)
{
    for (size_t i = 0; i < table->n; i++) {
        if (options_is_name(table->specs[i].name, typed, n)) {
            return &table->specs[i];
        }
    }
    return NULL;
}

const struct option_spec *options_target(const struct option_table *table,
                                         const struct option_spec *row)
{
    return row->alias_of ? options_find(table, row->alias_of, strlen(row->alias_of)) : row;
}

bool options_variable(const char *name, char ret[OPTION_VARIABLE_CAP])
{
    const size_t n = strlen(name);
    if (n > OPTION_NAME_MAX) {
        return false;
    }
    memcpy(ret, "TFE_", 4);
    for (size_t i = 0; i < n; i++) {
        const char c = name[i];
        ret[4 + i] = (char)(c == '-' ? '_' : (c >= 'a' && c <= 'z') ? c - 'a' + 'A' : c);
    }
    ret[4 + n] = '\0';
    return true;
}

bool options_is_variable(const struct option_table *table, const char *name)
{
    for (size_t i = 0; i < table->n; i++) {
        char variable[OPTION_VARIABLE_CAP];
        if (options_variable(table->specs[i].name, variable) && strcmp(variable, name) == 0) {
            return true;
        }
    }
    return false;
}

static size_t least_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edit distance in which two neighbours swapped are one mistake (optimal string alignment):
 * "--prot" is one away from "--port". */
static size_t edit_distance(const char *a, size_t a_n, const char *b, size_t b_n)
{
    size_t rows[3][OPTION_NAME_MAX + 1];
    size_t *before = rows[0];
    size_t *above = rows[1];
    size_t *row = rows[2];
    for (size_t j = 0; j <= b_n; j++) {
        above[j] = j;
        before[j] = 0;
    }
    for (size_t i = 1; i <= a_n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_n; j++) {
            const bool same = plain(a[i - 1]) == plain(b[j - 1]);
            size_t best = least_of(above[j] + 1, row[j - 1] + 1);
            best = least_of(best, above[j - 1] + (same ? 0u : 1u));
            if (i > 1 && j > 1 && plain(a[i - 1]) == plain(b[j - 2]) &&
                plain(a[i - 2]) == plain(b[j - 1])) {
                best = least_of(best, before[j - 2] + 1);
            }
            row[j] = best;
        }
        size_t *const spare = before;
        before = above;
        above = row;
        row = spare;
    }
    return above[b_n];
}

/* How far off one name is; the start of a longer name counts as one mistake. */
static size_t name_distance(const char *typed, size_t n, const char *name)
{
    const size_t name_n = strlen(name);
    if (name_n > OPTION_NAME_MAX) {
        return SIZE_MAX;
    }
    size_t same = 0;
    while (same < n && same < name_n && plain(typed[same]) == plain(name[same])) {
        same++;
    }
    if (n >= 2 && same == n && n < name_n) {
        return 1;
    }
    return edit_distance(typed, n, name, name_n);
}

const char *options_nearest(const struct option_table *table, const char *typed, size_t n)
{
    static const char *const built_in[] = {"help", "version"};
    if (n == 0 || n > OPTION_NAME_MAX) {
        return NULL;
    }
    /* Further off than a third of it is another word. */
    size_t best = n / 3 > 1 ? n / 3 : 1;
    const char *nearest = NULL;
    for (size_t i = 0; i < table->n + 2; i++) {
        const char *name = i < table->n ? table->specs[i].name : built_in[i - table->n];
        const size_t distance = name_distance(typed, n, name);
        if (distance < best || (distance == best && !nearest)) {
            best = distance;
            nearest = name;
        }
    }
    return nearest;
}
