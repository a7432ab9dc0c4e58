/* server/core/last_words.h: reads what a trainer printed last on stderr: the exception that ended
 * it, where it was raised, and which lines only TensorFlow's logging wrote. Pure. */
#ifndef TFE_SERVER_CORE_LAST_WORDS_H
#define TFE_SERVER_CORE_LAST_WORDS_H

#include <stddef.h>

#include "common/text/text.h"

/* Returns the line of the exception that ended a Python program: the first line after the last
 * traceback that is not indented, or the line of a syntax error, which has no traceback. NULL if
 * there is none. */
const char *last_words_exception(const char *tail);
/* Writes the exception, or "" if there is none, as one line: "KeyError: 'learning_rate'". Module
 * names of TensorFlow's own exceptions are left out. Of "Graph execution error:" the line that
 * names the fault follows. */
void last_words_error(const char *tail, char *ret, size_t cap);
/* Writes the file and line that raised the exception, "train.py:6", or "". Frames of installed
 * packages count only if there are no others. */
void last_words_source(const char *tail, char *ret, size_t cap);
/* Writes the last line that is neither blank nor a log line of TensorFlow's at the levels INFO and
 * WARNING, or "". */
void last_words_line(const char *tail, char *ret, size_t cap);
/* Adds the lines except those log lines: at most max bytes, of a long exception the beginning,
 * else the end. */
void last_words_add(struct text *text, const char *tail, size_t max);

#endif
