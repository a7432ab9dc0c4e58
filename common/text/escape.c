/* common/text/escape.c: escapes control and direction characters. */
#include "common/text/escape.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/text/utf8.h"

/* Returns the code point of a sequence of 1 to 3 bytes. No code point of 4 bytes is a control
 * character. */
static uint32_t code_of(const unsigned char *c, size_t n)
{
    return n == 1   ? c[0]
           : n == 2 ? (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu)
           : n == 3 ? (c[0] & 0x0fu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu)
                    : UINT32_MAX;
}

static bool controls(uint32_t code)
{
    static const struct {
        uint32_t first;
        uint32_t last;
    } ranges[] = {
        {0x00, 0x1f},     /* C0 */
        {0x7f, 0x9f},     /* DEL and C1 */
        {0x61c, 0x61c},   /* Arabic letter mark */
        {0x200e, 0x200f}, /* left-to-right and right-to-left marks */
        {0x2028, 0x202e}, /* line and paragraph separators, directional embeddings and overrides */
        {0x2066, 0x2069}, /* directional isolates */
    };
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        if (code >= ranges[i].first && code <= ranges[i].last) {
            return true;
        }
    }
    return false;
}

size_t escape_unit(const char *text, size_t n, char ret[ESCAPE_UNIT_MAX], size_t *ret_n)
{
    static const char digits[] = "0123456789abcdef";
    size_t used = utf8_length(text, n);
    if (used == 0) {
        *ret_n = strlen(UTF8_REPLACEMENT);
        memcpy(ret, UTF8_REPLACEMENT, *ret_n);
        return 1;
    }
    uint32_t code = code_of((const unsigned char *)text, used);
    if (!controls(code)) {
        *ret_n = used;
        memcpy(ret, text, used);
        return used;
    }
    memcpy(ret, "\\u", 2);
    for (unsigned i = 0; i < 4; i++) {
        ret[2 + i] = digits[code >> (12 - 4 * i) & 0xf];
    }
    *ret_n = 6;
    return used;
}

/* Returns the length of a complete control sequence (ECMA-48, 5.4) at the start of text, or 0 if
 * there is none. */
static size_t sequence_length(const char *text, size_t n)
{
    size_t i = 2;
    if (n < 3 || text[0] != '\x1b' || text[1] != '[') {
        return 0;
    }
    while (i < n && text[i] >= 0x20 && text[i] <= 0x3f) {
        i++;
    }
    return i < n && text[i] >= 0x40 && text[i] <= 0x7e ? i + 1 : 0;
}

size_t escape_line(const char *text, size_t n, char *ret)
{
    size_t at = 0;
    while (n > 0 && text[n - 1] == '\r') {
        n--;
    }
    const char *over = n > 0 ? memrchr(text, '\r', n) : NULL;
    if (over) {
        n -= (size_t)(over + 1 - text);
        text = over + 1;
    }
    while (n > 0) {
        size_t used = *text == '\b' ? 1 : sequence_length(text, n);
        if (used == 0 && *text == '\t') {
            ret[at++] = '\t';
            used = 1;
        } else if (used == 0) {
            char unit[ESCAPE_UNIT_MAX];
            size_t n_unit;
            used = escape_unit(text, n, unit, &n_unit);
            memcpy(ret + at, unit, n_unit);
            at += n_unit;
        }
        text += used;
        n -= used;
    }
    return at;
}

const char *escape_text(const char *text, char *ret, size_t cap)
{
    size_t at = 0;
    for (size_t left = strlen(text); left > 0;) {
        char unit[ESCAPE_UNIT_MAX];
        size_t n;
        size_t used = escape_unit(text, left, unit, &n);
        if (at + n >= cap) {
            break;
        }
        memcpy(ret + at, unit, n);
        at += n;
        text += used;
        left -= used;
    }
    ret[at] = '\0';
    return ret;
}
