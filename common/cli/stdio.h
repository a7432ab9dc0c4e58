/* common/cli/stdio.h: descriptors 0, 1 and 2, whatever the caller has left of them. */
#ifndef TFE_COMMON_CLI_STDIO_H
#define TFE_COMMON_CLI_STDIO_H

#include <stdbool.h>
#include <stdio.h>

#include "common/base/error.h"
#include "common/base/reason.h"

/* Descriptor, as a number, for whoever has started this process and wants to know what it says at
 * its end: an agent of the pool. */
#define STDIO_WORDS "TFE_WORDS_FD"

/* Puts /dev/null where 0, 1 or 2 is closed; first thing in main. Else the next socket gets that
 * number, and what is meant for a person goes into it. What STDIO_WORDS names is not handed on.
 * TFE_ESYS. */
int stdio_hold(struct tfe_reason *reason) TFE_MUST_CHECK;

/* "program: sentence" on stderr, and the sentence into what STDIO_WORDS names. The sentence may be
 * from elsewhere: it is shown as common/base/escape.h says, but for line feeds and tabs. */
void stdio_say(const char *program, const char *sentence);

/* Prints a text of others to out, as common/base/escape.h says, but for line feeds and tabs. */
void stdio_put(FILE *out, const char *text);

/* Whether all that was printed to out has been taken; false: a program that was asked to print has
 * failed. */
bool stdio_flushed(FILE *out);

#endif
