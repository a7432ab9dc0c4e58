/* common/cli/options.h: one table of options drives parsing, environment, defaults and -h. */
#ifndef TFE_COMMON_CLI_OPTIONS_H
#define TFE_COMMON_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/error.h"
#include "common/base/reason.h"

enum option_kind {
    OPTION_FLAG,     /* bool; no value (=true, =false, =1, =0 are understood) */
    OPTION_TEXT,     /* const char *, borrowed from argv or the environment */
    OPTION_NUMBER,   /* uint32_t, min..max */
    OPTION_DURATION, /* uint32_t in ms; "500ms", "10s", "2m", "1h", "7d"; a bare number is seconds
                      */
    OPTION_WORD,     /* an enum whose values count up from 0, in the order of words */
    OPTION_PARSE,    /* handed to parse() */
    OPTION_IGNORED   /* taken (with its value, if it has an argument) and ignored, with one warning
                      for   all of them */
};

struct option_spec {
    const char *name; /* long name with '-', without the dashes: "nnodes" */
    char letter;      /* short form, or 0 */
    enum option_kind kind;
    const char *argument; /* name of the value in -h: "MIN:MAX"; NULL for flags */
    const char *fallback; /* default as text, parsed like a value; NULL: field stays as it is */
    const char *help;     /* one line, without full stop */
    size_t offset;        /* of the field in the settings struct */
    uint64_t min, max;    /* NUMBER, DURATION (ms): legal range, both included; max 0: no check */
    const char *const *words; /* WORD: NULL ends them */
    /* PARSE: reads value into the field; without an offset that is all of settings. TFE_EINVAL with
     * why naming what is wrong with the value. */
    int (*parse)(void *field, const char *value, struct tfe_reason *reason);
    const char *alias_of; /* this row is another name of that option; all but name is ignored */
    bool hidden;          /* not in -h (aliases, ignored ones are hidden by themselves) */
};

struct option_table {
    const char *program;
    const char *usage; /* "tfe-agent [OPTIONS] SCRIPT [ARGUMENTS…]" */
    const char *about; /* one sentence, first line of -h */
    const struct option_spec *specs;
    size_t n;
    bool stop_at_operand; /* options end at the first non-option (else operands are collected) */
};

enum options_result { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_VERSION };

/* Fills settings: fallbacks, then TFE_<NAME> of the environment, then the command line. '-' and '_'
 * are the same in names; --name=value and --name value; "--" ends options. -h/--help and --version
 * are built in: the caller prints (options_print_help) and exits 0.
 * An environment value that does not parse is an error that names the variable; an empty one counts
 * as not set; TFE_PORT=tcp://… (as injected by Kubernetes) is ignored; unknown TFE_ names are
 * ignored. Of two rows with one name the first is read, and the other one gives help and default.
 * *ret_operand is the index in argv of the first
 * operand (argc if none). With stop_at_operand unset an operand between options is an error.
 * *ret_ignored names the IGNORED options that were given ("--node-rank, --master-addr"), "" if
 * none. TFE_EINVAL: why is one sentence; for an unknown flag it names the nearest one. */
int options_parse(const struct option_table *table, int argc, char **argv, void *settings,
                  enum options_result *ret, int *ret_operand, char *ret_ignored,
                  size_t ret_ignored_cap, struct tfe_reason *reason) TFE_MUST_CHECK;

/* -h: about, usage, one line per option with its default. */
void options_print_help(const struct option_table *table, FILE *out);

/* Whether name is the environment form (TFE_NNODES) of an option of the table, aliases included.
 * Trainers never inherit those. */
bool options_is_variable(const struct option_table *table, const char *name);

/* Reads the decimal digits at *at and moves it behind them. False, and *at stays: there are none,
 * or they make more than max. */
bool options_digits(const char **at, uint64_t max, uint64_t *ret);

/* "4" or "MIN:MAX", nodes of a job. TFE_EINVAL with why: nothing changed. */
int options_nodes(const char *text, uint32_t *ret_min, uint32_t *ret_max,
                  struct tfe_reason *reason);

/* Reads value into the row's field of settings. TFE_EINVAL: why says what is wrong with the value,
 * without naming the option. */
int options_set_value(const struct option_spec *row, void *settings, const char *value,
                      struct tfe_reason *reason) TFE_MUST_CHECK;

/* "10s", "1.5", "250ms", "2m", "1h", "7d" to milliseconds, rounded up; a bare number is seconds.
 * TFE_EINVAL: not a duration, negative, or above 30 days. */
int options_duration(const char *text, uint32_t *ret_ms) TFE_MUST_CHECK;

#endif
