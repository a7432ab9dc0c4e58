/* common/cli/stdio.h: standard descriptors and messages on stderr. */
#ifndef TFE_COMMON_CLI_STDIO_H
#define TFE_COMMON_CLI_STDIO_H

#include <stdbool.h>
#include <stdio.h>

#include "common/base/error.h"
#include "common/text/reason.h"

/* Environment variable with the number of a descriptor to which the process also writes its final
 * messages, for the pool agent that started it. */
#define STDIO_MESSAGES_FD "TFE_WORDS_FD"

/* Opens /dev/null on each of the descriptors 0, 1 and 2 that is closed. Call first in main:
 * otherwise the next socket would get such a number and receive messages for the user. Sets
 * close-on-exec on the descriptor of STDIO_MESSAGES_FD. Returns 0 or TFE_ESYS. */
int stdio_open_missing(struct tfe_reason *reason) TFE_MUST_CHECK;

/* Prints "program: sentence" to stderr, and the sentence to the descriptor of STDIO_MESSAGES_FD.
 * The sentence may be untrusted: it is escaped as in common/text/escape.h, except line feeds and
 * tabs. */
void stdio_print_message(const char *program, const char *sentence);

/* Prints untrusted text to out, escaped as in common/text/escape.h, except line feeds and tabs. */
void stdio_print_escaped(FILE *out, const char *text);

/* Flushes out. Returns false if any output to it has failed, which is a failure of a program whose
 * purpose is to print. */
bool stdio_flushed(FILE *out);

#endif
