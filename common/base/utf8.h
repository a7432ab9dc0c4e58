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

/* The largest m <= n such that the first m bytes of text do not end inside a sequence. What is
 * malformed anyway is left alone. */
size_t utf8_cut(const char *text, size_t n);

#endif
