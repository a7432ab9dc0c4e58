/* common/base/escape.h: text that came from elsewhere, as logs, terminals and tables show it:
 * nothing in it moves a cursor, colours, or turns the direction of what is read. Pure. */
#ifndef TFE_COMMON_BASE_ESCAPE_H
#define TFE_COMMON_BASE_ESCAPE_H

#include <stddef.h>

/* One unit: a character of UTF-8, or "\u202e" in place of one. */
#define ESCAPE_UNIT_MAX 8

/* The first character of text, which has n >= 1 bytes, as it is shown: as it is; as "\uXXXX" if it
 * controls something (C0, DEL, C1, marks and overrides of direction, separators of lines); as
 * U+FFFD if it is a byte of no UTF-8. ret has no NUL. Returns the bytes read; they are as many as
 * *ret_n if and only if it is shown as it is. */
size_t escape_unit(const char *text, size_t n, char ret[ESCAPE_UNIT_MAX], size_t *ret_n);

/* A line that a program printed, as a terminal shows it: tabs stay; of a line that was written over
 * (carriage return) the last text; backspaces and whole control sequences (ESC [ ..., as for
 * colours) are left out; everything else as escape_unit. ret has room for ESCAPE_LINE_MAX(n) bytes
 * and gets no NUL. Returns its length. */
#define ESCAPE_LINE_MAX(n) (6 * (n))
size_t escape_line(const char *text, size_t n, char *ret);

/* All of text that fits into cap >= 1 bytes, with a NUL. Returns ret. */
const char *escape_text(const char *text, char *ret, size_t cap);

#endif
