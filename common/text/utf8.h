/* common/text/utf8.h: detects and repairs malformed UTF-8 in untrusted text. Pure. */
#ifndef TFE_COMMON_TEXT_UTF8_H
#define TFE_COMMON_TEXT_UTF8_H

#include <stddef.h>

/* U+FFFD, the replacement for a byte that is not UTF-8. */
#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/* Returns the length (1 to 4) of the well-formed sequence at the start of text (RFC 3629: no
 * overlong forms, no surrogates, nothing above U+10FFFF), or 0 if there is none. Reads at most n
 * bytes. */
size_t utf8_length(const char *text, size_t n);

/* Capacity needed to repair n bytes, including the NUL. */
#define UTF8_REPAIRED_MAX(n) (3 * (n) + 1)

/* Copies n bytes and replaces each byte that is not part of well-formed UTF-8 by U+FFFD. ret has
 * capacity UTF8_REPAIRED_MAX(n). Returns the length without the NUL. */
size_t utf8_repair(const char *text, size_t n, char *ret);

/* Returns the largest m <= n such that the first m bytes of text do not end within a sequence.
 * Malformed sequences are ignored. */
size_t utf8_cut(const char *text, size_t n);

/* Replaces each sequence that a precision of printf or the end of the buffer has cut by "…", or
 * removes it if cap, the size of the buffer, is too small. Other malformed bytes stay. */
void utf8_mark_cuts(char *text, size_t cap);

#endif
