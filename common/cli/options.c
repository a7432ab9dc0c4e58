/* common/cli/options.c: fills a settings struct from defaults, environment and command line. */
#include "common/cli/options.h"

#include <stdlib.h>
#include <string.h>

#include "common/cli/suggest.h"

/* Longest option name that is compared; all names are shorter. */
#define OPTION_NAME_MAX 63
/* Size of "TFE_" and the longest name, with NUL. */
#define OPTION_VARIABLE_CAP (4 + OPTION_NAME_MAX + 1)

/* --- rows and their names --------------------------------------------------------------------- */

static char plain(char c)
{
    return c == '_' ? '-' : c;
}

/* True if the n bytes at typed are the option's name; '-' and '_' are equal. */
static bool is_name(const char *name, const char *typed, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (name[i] == '\0' || plain(name[i]) != plain(typed[i])) {
            return false;
        }
    }
    return name[n] == '\0';
}

/* Returns the row with this name without following aliases, or NULL if there is none. */
static const struct option_spec *find(const struct option_table *table, const char *typed, size_t n)
{
    for (size_t i = 0; i < table->n; i++) {
        if (is_name(table->specs[i].name, typed, n)) {
            return &table->specs[i];
        }
    }
    return NULL;
}

/* Returns the row itself or, for an alias, the row that it refers to; NULL if the alias is
 * dangling. */
static const struct option_spec *target(const struct option_table *table,
                                        const struct option_spec *row)
{
    return row->alias_of ? find(table, row->alias_of, strlen(row->alias_of)) : row;
}

/* Writes "TFE_NNODES" for "nnodes". Returns false if the name is too long. */
static bool variable_of(const char *name, char ret[OPTION_VARIABLE_CAP])
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
        if (variable_of(table->specs[i].name, variable) && strcmp(variable, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns the option name most similar to what was typed, without dashes, or NULL if none is
 * similar. */
static const char *suggest_name(const struct option_table *table, const char *typed, size_t n)
{
    struct suggestion suggestion;
    suggest_init(&suggestion, typed, n);
    for (size_t i = 0; i < table->n; i++) {
        suggest_try(&suggestion, table->specs[i].name);
    }
    suggest_try(&suggestion, "help");
    suggest_try(&suggestion, "version");
    return suggestion.word;
}

/* --- command line ----------------------------------------------------------------------------- */

/* State of one pass over the command line. The first pass only validates (settings is NULL), so
 * that -h works whatever the environment holds; the second sets values. */
struct walk {
    const struct option_table *table;
    int argc;
    char **argv;
    int at; /* index of the current argument; consuming a value advances it */
    void *settings;
    char *ignored;
    size_t ignored_cap;
    int operand;
    enum options_result result;
    struct tfe_reason *reason;
};

static int walk_refuse_unknown(const struct walk *w, const char *dashes, const char *typed,
                               size_t n)
{
    const char *suggestion = strcmp(dashes, "--") == 0 ? suggest_name(w->table, typed, n) : NULL;
    const int shown = n > 64 ? 64 : (int)n;
    if (suggestion) {
        reason_set(w->reason, "unknown option %s%.*s; did you mean --%s?", dashes, shown, typed,
                   suggestion);
    } else {
        reason_set(w->reason, "unknown option %s%.*s; `%s --help` lists them", dashes, shown, typed,
                   w->table->program);
    }
    return TFE_EINVAL;
}

/* Appends "--name" to the list of ignored options, once. */
static void walk_ignore(const struct walk *w, const char *name)
{
    struct tfe_reason label;
    reason_set(&label, "--%s", name);
    const size_t label_n = strlen(label.text);
    for (const char *at = w->ignored; (at = strstr(at, label.text)) != NULL; at += label_n) {
        if (at[label_n] == '\0' || at[label_n] == ',') {
            return;
        }
    }
    const size_t n = strlen(w->ignored);
    const char *separator = n > 0 ? ", " : "";
    if (n + strlen(separator) + label_n < w->ignored_cap) {
        strcat(strcat(w->ignored, separator), label.text);
    }
}

/* Sets the row's field to value, or "true" if value is NULL. `written` is the option as typed. */
static int walk_set(const struct walk *w, const struct option_spec *row, const char *written,
                    const char *value)
{
    if (!w->settings) {
        return 0;
    }
    if (row->kind == OPTION_IGNORED) {
        walk_ignore(w, row->name);
        return 0;
    }
    int rc = options_set_value(row, w->settings, value ? value : "true", w->reason);
    if (rc) {
        reason_prefix(w->reason, "%s", written);
    }
    return rc;
}

static bool takes_value(const struct option_spec *row)
{
    return row->kind != OPTION_FLAG && (row->kind != OPTION_IGNORED || row->argument);
}

/* Returns the value of an option from the next argument. */
static int walk_next_value(struct walk *w, const struct option_spec *row, const char *written,
                           const char **ret)
{
    const char *next = w->at + 1 < w->argc ? w->argv[w->at + 1] : NULL;
    /* Reject a value that looks like an option: `--token-file --nnodes=2` lacks the file name. */
    if (!next || strncmp(next, "--", 2) == 0) {
        const char *argument = row->argument ? row->argument : "VALUE";
        const char *between = written[1] == '-' ? "=" : "";
        if (next) {
            reason_set(w->reason, "%s needs a value, and %s looks like an option; write %s%s%s",
                       written, next, written, between, argument);
        } else {
            reason_set(w->reason, "%s needs a value: %s%s%s", written, written, between, argument);
        }
        return TFE_EINVAL;
    }
    w->at++;
    *ret = next;
    return 0;
}

static int walk_long(struct walk *w)
{
    const char *typed = w->argv[w->at] + 2;
    const char *equals = strchr(typed, '=');
    const size_t n = equals ? (size_t)(equals - typed) : strlen(typed);
    const char *value = equals ? equals + 1 : NULL;
    const struct option_spec *row = find(w->table, typed, n);
    const bool is_help = !row && is_name("help", typed, n);
    if (is_help || (!row && is_name("version", typed, n))) {
        if (value) {
            reason_set(w->reason, "--%.*s takes no value", (int)n, typed);
            return TFE_EINVAL;
        }
        w->result = is_help ? OPTIONS_HELP : OPTIONS_VERSION;
        return 0;
    }
    if (row) {
        row = target(w->table, row);
    }
    if (!row) {
        return walk_refuse_unknown(w, "--", typed, n);
    }
    struct tfe_reason written;
    reason_set(&written, "--%.*s", (int)(n > 64 ? 64 : n), typed);
    if (!value && takes_value(row)) {
        int rc = walk_next_value(w, row, written.text, &value);
        if (rc) {
            return rc;
        }
    }
    return walk_set(w, row, written.text, value);
}

/* Parses "-n 4", "-n4", and combined flags such as "-qv". */
static int walk_short(struct walk *w)
{
    for (const char *at = w->argv[w->at] + 1; *at != '\0'; at++) {
        const struct option_spec *row = NULL;
        for (size_t i = 0; i < w->table->n && !row; i++) {
            const struct option_spec *candidate = &w->table->specs[i];
            if (candidate->letter == *at && !candidate->alias_of) {
                row = candidate;
            }
        }
        if (!row && *at == 'h') {
            w->result = OPTIONS_HELP;
            return 0;
        }
        if (!row) {
            return walk_refuse_unknown(w, "-", at, 1);
        }
        const char written[3] = {'-', *at, '\0'};
        if (!takes_value(row)) {
            int rc = walk_set(w, row, written, NULL);
            if (rc) {
                return rc;
            }
            continue;
        }
        const char *value = at + 1;
        if (*value == '\0') {
            int rc = walk_next_value(w, row, written, &value);
            if (rc) {
                return rc;
            }
        }
        return walk_set(w, row, written, value);
    }
    return 0;
}

static int walk_command_line(struct walk *w)
{
    w->operand = w->argc;
    w->result = OPTIONS_RUN;
    for (w->at = 1; w->at < w->argc; w->at++) {
        const char *arg = w->argv[w->at];
        if (strcmp(arg, "--") == 0) {
            if (w->operand == w->argc) {
                w->operand = w->at + 1;
            }
            return 0;
        }
        if (arg[0] != '-' || arg[1] == '\0') {
            if (w->operand == w->argc) {
                w->operand = w->at;
            }
            if (w->table->stop_at_operand) {
                return 0;
            }
            continue;
        }
        if (w->operand < w->argc) {
            reason_set(w->reason, "operand %s before option %s (options must come first)",
                       w->argv[w->operand], arg);
            return TFE_EINVAL;
        }
        int rc = arg[1] == '-' ? walk_long(w) : walk_short(w);
        if (rc || w->result != OPTIONS_RUN) {
            return rc;
        }
    }
    return 0;
}

static int set_fallbacks(const struct option_table *table, void *settings,
                         struct tfe_reason *reason)
{
    for (size_t i = 0; i < table->n; i++) {
        const struct option_spec *row = &table->specs[i];
        if (row->alias_of || !row->fallback) {
            continue;
        }
        int rc = options_set_value(row, settings, row->fallback, reason);
        if (rc) {
            reason_prefix(reason, "default of --%s", row->name);
            return rc;
        }
    }
    return 0;
}

/* Returns the value of the environment variable of an option, or NULL. An empty value counts as
 * unset, because machine templates leave empty variables. Addresses that Kubernetes injects for a
 * service named "tfe" are ignored. */
static const char *variable_value(const char *name, char variable[OPTION_VARIABLE_CAP])
{
    const char *value = variable_of(name, variable) ? getenv(variable) : NULL;
    if (!value || *value == '\0') {
        return NULL;
    }
    const size_t n = strlen(variable);
    const bool is_service = strncmp(value, "tcp://", 6) == 0 || strncmp(value, "udp://", 6) == 0;
    return is_service && n >= 5 && strcmp(variable + n - 5, "_PORT") == 0 ? NULL : value;
}

static int set_environment(const struct option_table *table, void *settings,
                           struct tfe_reason *reason)
{
    for (size_t i = 0; i < table->n; i++) {
        const struct option_spec *row = &table->specs[i];
        bool is_second = find(table, row->name, strlen(row->name)) != row;
        if (row->alias_of || row->kind == OPTION_IGNORED || is_second) {
            continue;
        }
        char variable[OPTION_VARIABLE_CAP];
        const char *value = variable_value(row->name, variable);
        for (size_t j = 0; j < table->n && !value; j++) {
            const struct option_spec *alias = &table->specs[j];
            if (alias->alias_of && target(table, alias) == row) {
                value = variable_value(alias->name, variable);
            }
        }
        int rc = value ? options_set_value(row, settings, value, reason) : 0;
        if (rc) {
            reason_prefix(reason, "environment variable %s", variable);
            return rc;
        }
    }
    return 0;
}

int options_parse(const struct option_table *table, int argc, char **argv, void *settings,
                  enum options_result *ret, int *ret_operand, char *ret_ignored,
                  size_t ret_ignored_cap, struct tfe_reason *reason)
{
    struct walk w = {.table = table,
                     .argc = argc,
                     .argv = argv,
                     .ignored = ret_ignored,
                     .ignored_cap = ret_ignored_cap,
                     .reason = reason};
    if (ret_ignored_cap > 0) {
        ret_ignored[0] = '\0';
    }
    int rc = walk_command_line(&w);
    if (rc == 0 && w.result == OPTIONS_RUN) {
        rc = set_fallbacks(table, settings, reason);
        if (rc == 0) {
            rc = set_environment(table, settings, reason);
        }
        if (rc == 0) {
            w.settings = settings;
            rc = walk_command_line(&w);
        }
    }
    if (rc) {
        return rc;
    }
    *ret = w.result;
    *ret_operand = w.operand;
    return 0;
}

int options_set(const struct option_table *table, void *settings, const char *name,
                const char *value, struct tfe_reason *reason)
{
    const struct option_spec *row = find(table, name, strlen(name));
    row = row ? target(table, row) : NULL;
    if (!row || (!value && takes_value(row))) {
        reason_set(reason, row ? "--%.64s needs a value" : "unknown option --%.64s", name);
        return TFE_EINVAL;
    }
    int rc = options_set_value(row, settings, value ? value : "true", reason);
    if (rc) {
        reason_prefix(reason, "--%s", name);
    }
    return rc;
}
