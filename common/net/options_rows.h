/* common/net/options_rows.h: what the parser, the help and the values of options share. Private to
 * options*.c. */
#ifndef TFE_COMMON_NET_OPTIONS_ROWS_H
#define TFE_COMMON_NET_OPTIONS_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/net/options.h"

/* Longest name that is looked at: nearest names and variables of longer ones do not exist. */
#define OPTION_NAME_MAX 63

/* "TFE_" and the longest name. */
#define OPTION_VARIABLE_CAP (4 + OPTION_NAME_MAX + 1)

/* Whether the n bytes at typed are the option's name; '-' and '_' are the same. */
bool options_is_name(const char *name, const char *typed, size_t n);

/* The row of that name, aliases not followed; NULL. */
const struct option_spec *options_find(const struct option_table *table, const char *typed,
                                       size_t n);

/* The row that counts: the row itself, or the one it is an alias of (NULL: a table with a dangling
 * alias). */
const struct option_spec *options_target(const struct option_table *table,
                                         const struct option_spec *row);

/* The nearest name to what was typed, without dashes; NULL when none is near. */
const char *options_nearest(const struct option_table *table, const char *typed, size_t n);

/* Writes "TFE_NNODES" for "nnodes". False: the name is too long to have one. */
bool options_variable(const char *name, char ret[OPTION_VARIABLE_CAP]);

/* Reads value into the row's field of settings. TFE_EINVAL: why says what is wrong with the value,
 * without naming the option. */
int options_set_value(const struct option_spec *row, void *settings, const char *value,
                      struct tfe_why *why) TFE_MUST_CHECK;

#endif
