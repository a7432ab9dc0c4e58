/* common/text/utf8.c: the table of well-formed byte sequences of RFC 3629. */
#include "common/text/utf8.h"

#include <string.h>

static int is_tail(unsigned char c)
{
    return (c & 0xc0u) == 0x80u;
}

size_t utf8_length(const char *text, size_t n)
{
    if (n == 0) {
        return 0;
    }
    const unsigned char *c = (const unsigned char *)text;
    if (c[0] < 0x80) {
        return 1;
    }
    /* The first byte limits the range of the second, which excludes overlong forms, surrogates and
     * code points above U+10FFFF. */
    unsigned char low = 0x80;
    unsigned char high = 0xbf;
    size_t want;
    if (c[0] >= 0xc2 && c[0] <= 0xdf) {
        want = 2;
    } else if (c[0] >= 0xe0 && c[0] <= 0xef) {
        want = 3;
        low = c[0] == 0xe0 ? 0xa0 : low;
        high = c[0] == 0xed ? 0x9f : high;
    } else if (c[0] >= 0xf0 && c[0] <= 0xf4) {
        want = 4;
        low = c[0] == 0xf0 ? 0x90 : low;
        high = c[0] == 0xf4 ? 0x8f : high;
    } else {
        return 0;
    }
    if (n < want || c[1] < low || c[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < want; i++) {
        if (!is_tail(c[i])) {
            return 0;
        }
    }
    return want;
}

size_t utf8_repair(const char *text, size_t n, char *ret)
{
    char *end = ret;
    while (n > 0) {
        const size_t step = utf8_length(text, n);
        const size_t put = step ? step : strlen(UTF8_REPLACEMENT);
        memcpy(end, step ? text : UTF8_REPLACEMENT, put);
        end += put;
        text += step ? step : 1;
        n -= step ? step : 1;
    }
    *end = '\0';
    return (size_t)(end - ret);
}

size_t utf8_cut(const char *text, size_t n)
{
    const unsigned char *c = (const unsigned char *)text;
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char lead = c[n - back];
        if (is_tail(lead)) {
            continue;
        }
        size_t want = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 1;
        return want > back ? n - back : n;
    }
    return n;
}

void utf8_mark_cuts(char *text, size_t cap)
{
    static const char mark[] = "\xe2\x80\xa6";
    size_t n = strlen(text);
    for (size_t i = 0; i < n;) {
        size_t step = utf8_length(text + i, n - i);
        if (step == 0) {
            const unsigned char lead = (unsigned char)text[i];
            for (step = 1; is_tail((unsigned char)text[i + step]);) {
                step++;
            }
            const size_t want = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
            if (want > step) {
                const size_t put = n - step + strlen(mark) < cap ? strlen(mark) : 0;
                memmove(text + i + put, text + i + step, n - i - step + 1);
                memcpy(text + i, mark, put);
                n = n - step + put;
                step = put;
            }
        }
        i += step;
    }
}
