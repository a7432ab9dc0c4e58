/* server/core/stderr_tail.h: reads the last lines that a trainer printed on stderr: the exception
 * that ended it, where it was raised, and which lines are only TensorFlow's log. Pure. */
#ifndef TFE_SERVER_CORE_STDERR_TAIL_H
#define TFE_SERVER_CORE_STDERR_TAIL_H

#include <stddef.h>

#include "common/text/text.h"

/* Returns the line of the exception that ended a Python program: the first unindented line after
 * the last traceback, or the line of a syntax error, which has no traceback. NULL if there is
 * none. */
const char *stderr_tail_exception(const char *tail);
/* Writes the exception in one line, "KeyError: 'learning_rate'", or "" if there is none. Omits the
 * module names of TensorFlow's own exceptions. "Graph execution error:" is followed by the line
 * that names the fault. */
void stderr_tail_error(const char *tail, char *ret, size_t cap);
/* Writes the file and line that raised the exception, "train.py:6", or "". Frames of installed
 * packages count only if there are no others. */
void stderr_tail_source(const char *tail, char *ret, size_t cap);
/* Writes the last line that is neither blank nor a TensorFlow log line of level INFO or WARNING, or
 * "". */
void stderr_tail_line(const char *tail, char *ret, size_t cap);
/* Appends the output without such log lines, at most max bytes: the beginning of a long exception,
 * else the end of the output. */
void stderr_tail_add(struct text *text, const char *tail, size_t max);

#endif
