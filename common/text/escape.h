/* common/text/escape.h: makes untrusted text safe for logs, terminals and tables: the result cannot
 * move the cursor, set colours or change the reading direction. Pure. */
#ifndef TFE_COMMON_TEXT_ESCAPE_H
#define TFE_COMMON_TEXT_ESCAPE_H

#include <stddef.h>

/* Maximum bytes of one escaped unit: a UTF-8 character, or an escape such as "\\u202e". */
#define ESCAPE_UNIT_MAX 8

/* Escapes the first character of text, which has n >= 1 bytes. Control characters (C0, DEL, C1,
 * direction marks and overrides, line separators) become "\\uXXXX", a byte that is not UTF-8
 * becomes U+FFFD, any other character is copied. ret gets no NUL. Returns the number of bytes
 * consumed, which equals *ret_n if and only if the character was copied. */
size_t escape_unit(const char *text, size_t n, char ret[ESCAPE_UNIT_MAX], size_t *ret_n);

/* Renders a line that a program printed as a terminal would show it: keeps tabs; keeps only the
 * text after the last carriage return; drops backspaces and control sequences (ESC [ ..., such as
 * colours); escapes all else as escape_unit. ret has capacity ESCAPE_LINE_MAX(n) and gets no NUL.
 * Returns the length. */
#define ESCAPE_LINE_MAX(n) (6 * (n))
size_t escape_line(const char *text, size_t n, char *ret);

/* Escapes as much of text as fits cap >= 1 bytes including the NUL. Returns ret. */
const char *escape_text(const char *text, char *ret, size_t cap);

#endif
