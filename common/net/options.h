/* common/net/options.h: one table of options drives parsing, environment, defaults and -h. */
#ifndef TFE_COMMON_NET_OPTIONS_H
#define TFE_COMMON_NET_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/error.h"
#include "common/net/why.h"

enum option_kind {
    OPTION_FLAG,     /* bool; no value (=true, =false, =1, =0 are understood) */
    OPTION_TEXT,     /* const char *, borrowed from argv or the environment */
    OPTION_NUMBER,   /* uint32_t, min..max */
    OPTION_DURATION, /* uint32_t in ms; "500ms", "10s", "2m", "1h", "7d"; a bare number is seconds
                      */
    OPTION_PARSE,    /* handed to parse() */
    OPTION_IGNORED   /* taken with its value and ignored, with one warning for all of them */
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
    /* PARSE: reads value into settings. TFE_EINVAL with why naming what is wrong with the value. */
    int (*parse)(void *settings, const char *value, struct tfe_why *why);
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
 * ignored. An IGNORED option always takes a value. *ret_operand is the index in argv of the first
 * operand (argc if none). With stop_at_operand unset an operand between options is an error.
 * *ret_ignored names the IGNORED options that were given ("--node-rank, --master-addr"), "" if
 * none. TFE_EINVAL: why is one sentence; for an unknown flag it names the nearest one. */
int options_parse(const struct option_table *table, int argc, char **argv, void *settings,
                  enum options_result *ret, int *ret_operand, char *ret_ignored,
                  size_t ret_ignored_cap, struct tfe_why *why) TFE_MUST_CHECK;

/* -h: about, usage, one line per option with its default. */
void options_print_help(const struct option_table *table, FILE *out);

/* Whether name is the environment form (TFE_NNODES) of an option of the table, aliases included.
 * Trainers never inherit those. */
bool options_is_variable(const struct option_table *table, const char *name);

/* "10s", "1.5", "250ms", "2m", "1h", "7d" to milliseconds, rounded up; a bare number is seconds.
 * TFE_EINVAL: not a duration, negative, or above 30 days. */
int options_duration(const char *text, uint32_t *ret_ms) TFE_MUST_CHECK;

/* "HOST:PORT", "[v6]:PORT"; "HOST", "[v6]", "v6" (port stays as it is). Writes host, at most
 * TFE_HOST_MAX + NUL. TFE_EINVAL (port 0, too): nothing changed. */
int options_endpoint(const char *text, char *ret_host, size_t host_cap,
                     uint16_t *port) TFE_MUST_CHECK;

#endif
