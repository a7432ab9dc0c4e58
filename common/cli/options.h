/* common/cli/options.h: parsing, environment variables, defaults and help text from one table of
 * options. */
#ifndef TFE_COMMON_CLI_OPTIONS_H
#define TFE_COMMON_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/error.h"
#include "common/text/reason.h"

enum option_kind {
    OPTION_FLAG,     /* bool without value; =true, =false, =1 and =0 are accepted */
    OPTION_TEXT,     /* const char *, borrowed from argv or the environment */
    OPTION_NUMBER,   /* uint32_t within min..max */
    OPTION_DURATION, /* uint32_t in ms: "500ms", "10s", "2m", "1h", "7d"; a bare number is seconds
                      */
    OPTION_WORD,     /* enum with values from 0 in the order of words */
    OPTION_PARSE,    /* value passed to parse() */
    OPTION_IGNORED   /* accepted, with its value if it has an argument, and ignored with one warning
                        for all such options */
};

struct option_spec {
    const char *name; /* long name with '-', without leading dashes: "nnodes" */
    char letter;      /* letter of the short form, or 0 */
    enum option_kind kind;
    const char *argument; /* name of the value in the help text: "MIN:MAX"; NULL for flags */
    const char
        *fallback;     /* default as text, parsed like a value; NULL to leave the field unchanged */
    const char *help;  /* help text, one line without a full stop */
    size_t offset;     /* offset of the field in the settings struct */
    uint64_t min, max; /* inclusive range of a NUMBER or DURATION (in ms); max 0 for unlimited */
    const char *const *words; /* WORD: permitted words, NULL-terminated */
    /* PARSE: parses value into the field, or into the whole settings struct if offset is 0. Returns
     * TFE_EINVAL with a reason that says what is wrong with the value. */
    int (*parse)(void *field, const char *value, struct tfe_reason *reason);
    const char *alias_of; /* makes this row another name of that option; only name is used */
    bool hidden;          /* omit from the help text; aliases and ignored options always are */
};

/* A group of options in the help text: it begins with the option first and ends before the next
 * group. */
struct option_group {
    const char *first;
    const char *heading;
};

struct option_table {
    const char *program;
    const char *usage; /* synopsis: "tfe-agent [OPTIONS] SCRIPT [ARGUMENTS...]" */
    const char *about; /* description, one sentence, first line of the help text */
    const struct option_spec *specs;
    size_t n;
    const struct option_group *groups; /* ends with {NULL, NULL}; NULL for a single group */
    bool stop_at_operand; /* options end at the first operand; otherwise operands must follow all
                             options */
};

enum options_result { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_VERSION };

/* Fills settings from defaults, then TFE_<NAME> variables, then the command line. '-' and '_' are
 * equal in names; --name=value and --name value are equivalent; "--" ends options. -h, --help and
 * --version are built in: the caller prints (options_print_help) and exits 0. Of two rows with one
 * name the first is parsed and the other provides help and default. An invalid environment value is
 * an error that names the variable; empty values, TFE_PORT=tcp://... (injected by Kubernetes) and
 * unknown TFE_ names are ignored.
 *
 * Sets *ret_operand to the index in argv of the first operand (argc if none); without
 * stop_at_operand, an option after an operand is an error. Sets ret_ignored to the IGNORED options
 * that were given ("--node-rank, --master-addr"), "" if none. Returns TFE_EINVAL with a
 * one-sentence reason, which for an unknown option names the most similar one. */
int options_parse(const struct option_table *table, int argc, char **argv, void *settings,
                  enum options_result *ret, int *ret_operand, char *ret_ignored,
                  size_t ret_ignored_cap, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Prints the help text: description, synopsis, one line per option with its default. */
void options_print_help(const struct option_table *table, FILE *out);

/* True if name is the environment variable (TFE_NNODES) of an option or alias of the table.
 * Trainers never inherit those. */
bool options_is_variable(const struct option_table *table, const char *name);

/* Parses decimal digits at *at and advances it past them. Returns false, with *at unchanged, if
 * there are none or the number exceeds max. */
bool options_digits(const char **at, uint64_t max, uint64_t *ret);

/* Parses a job's number of nodes, "4" or "MIN:MAX". Returns TFE_EINVAL with a reason, without a
 * change. */
int options_nodes(const char *text, uint32_t *ret_min, uint32_t *ret_max,
                  struct tfe_reason *reason);

/* Parses value into the row's field of settings. Returns TFE_EINVAL with a reason that does not
 * name the option. */
int options_set_value(const struct option_spec *row, void *settings, const char *value,
                      struct tfe_reason *reason) TFE_MUST_CHECK;

/* Parses value into the field of the option of this name; NULL is the value of a flag that is given
 * alone. Returns TFE_EINVAL with a reason that names the option, also if there is none of this name
 * or it needs a value. */
int options_set(const struct option_table *table, void *settings, const char *name,
                const char *value, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Parses "10s", "1.5", "250ms", "2m", "1h" or "7d" to milliseconds, rounded up; a bare number is
 * seconds. Returns TFE_EINVAL if the text is not a duration, negative, or above 30 days. */
int options_duration(const char *text, uint32_t *ret_ms) TFE_MUST_CHECK;

#endif
