/* common/base/utf8.h: which bytes are well-formed UTF-8, for whatever writes text that others made.
 * Pure. */
#ifndef TFE_COMMON_BASE_UTF8_H
#define TFE_COMMON_BASE_UTF8_H

#include <stddef.h>

/* U+FFFD, what stands for a byte that is not UTF-8. */
#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/* Length (1 to 4) of the well-formed sequence at the front of text (RFC 3629: no overlong forms, no
 * surrogates, nothing above U+10FFFF); 0 if there is none. Reads at most n bytes; n 0 gives 0. */
size_t utf8_length(const char *text, size_t n);

/* What stands for n bytes, at most. */
#define UTF8_REPAIRED_MAX(n) (3 * (n) + 1)

/* Copies n bytes; each that is not of well-formed UTF-8 becomes U+FFFD. Returns the length, of
 * which the NUL at the end is no part. ret has room for UTF8_REPAIRED_MAX(n). */
size_t utf8_repair(const char *text, size_t n, char *ret);

/* The largest m <= n such that the first m bytes of text do not end inside a sequence. What is
 * malformed anyway is left alone. */
size_t utf8_cut(const char *text, size_t n);

#endif
