/* common/cli/options_help.c: prints the help text of an option table. */
#include <stdio.h>
#include <string.h>

#include "common/cli/options.h"

/* Maximum column at which help texts start; a longer option shifts its own text. */
#define HELP_COLUMN_MAX 34

/* Formats " -n, --nnodes=MIN:MAX" and returns its length. Options without a letter are indented
 * equally. */
static size_t option_head(const struct option_spec *row, char ret[128])
{
    const bool takes_value = row->kind != OPTION_FLAG;
    const int n = snprintf(ret, 128, "  %c%c%s--%s%s%s", row->letter ? '-' : ' ',
                           row->letter ? row->letter : ' ', row->letter ? ", " : "  ", row->name,
                           takes_value ? "=" : "",
                           !takes_value    ? ""
                           : row->argument ? row->argument
                                           : "VALUE");
    return n < 0 ? 0 : n >= 128 ? 127 : (size_t)n;
}

static bool is_shown(const struct option_spec *row)
{
    return !row->hidden && !row->alias_of && row->kind != OPTION_IGNORED;
}

/* Returns the heading of the group that begins with this option, or NULL. */
static const char *heading_of(const struct option_table *table, const char *name)
{
    for (const struct option_group *group = table->groups; group && group->first; group++) {
        if (strcmp(group->first, name) == 0) {
            return group->heading;
        }
    }
    return NULL;
}

static void print_row(const struct option_spec *row, size_t column, FILE *out)
{
    char head[128];
    (void)option_head(row, head);
    (void)fprintf(out, "%-*s  %s", (int)column, head, row->help ? row->help : "");
    /* Do not show the default of a flag that is off. */
    if (row->fallback && row->fallback[0] != '\0' &&
        !(row->kind == OPTION_FLAG && strcmp(row->fallback, "false") == 0)) {
        (void)fprintf(out, " (default %s)", row->fallback);
    }
    (void)fputc('\n', out);
}

void options_print_help(const struct option_table *table, FILE *out)
{
    static const struct option_spec built_in[] = {
        {.name = "help", .letter = 'h', .kind = OPTION_FLAG, .help = "show this text and exit"},
        {.name = "version", .kind = OPTION_FLAG, .help = "show the version and exit"},
    };
    size_t column = 0;
    for (size_t i = 0; i < table->n; i++) {
        char head[128];
        const size_t n = option_head(&table->specs[i], head);
        if (is_shown(&table->specs[i]) && n > column && n <= HELP_COLUMN_MAX) {
            column = n;
        }
    }
    if (column < strlen("      --version")) {
        column = strlen("      --version");
    }
    (void)fprintf(out, "%s\n\nUsage: %s\n%s", table->about, table->usage,
                  table->groups ? "" : "\nOptions:\n");
    for (size_t i = 0; i < table->n; i++) {
        if (is_shown(&table->specs[i])) {
            const char *heading = heading_of(table, table->specs[i].name);
            if (heading) {
                (void)fprintf(out, "\n%s:\n", heading);
            }
            print_row(&table->specs[i], column, out);
        }
    }
    for (size_t i = 0; i < sizeof built_in / sizeof built_in[0]; i++) {
        print_row(&built_in[i], column, out);
    }
    for (size_t i = 0; i < table->n; i++) {
        if (table->specs[i].kind == OPTION_DURATION && is_shown(&table->specs[i])) {
            (void)fputs("\nTIME is a number of seconds, or has a unit: 500ms, 10s, 2m, 1h, 1d.\n",
                        out);
            break;
        }
    }
    (void)fputs("\nEach option can also be set in the environment: --some-name is TFE_SOME_NAME. "
                "The command line takes precedence.\n",
                out);
}
