/* common/base/text.c: sentences in fixed buffers. */
#include "common/base/text.h"

#include <string.h>

void text_init(struct text *text, char *p, size_t cap)
{
    *text = (struct text){.p = p, .n = 0, .cap = cap};
    p[0] = '\0';
}

static void add_bytes(struct text *text, const char *s, size_t n)
{
    size_t room = text->cap - 1 - text->n;
    if (n > room) {
        n = room;
    }
    memcpy(text->p + text->n, s, n);
    text->n += n;
    text->p[text->n] = '\0';
}

void text_add(struct text *text, const char *s)
{
    if (s) {
        add_bytes(text, s, strlen(s));
    }
}

void text_add_u64(struct text *text, uint64_t value)
{
    char digits[20];
    size_t i = sizeof(digits);
    do {
        digits[--i] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    add_bytes(text, digits + i, sizeof(digits) - i);
}

void text_add_tail(struct text *text, const char *s, size_t max)
{
    size_t n = strlen(s);
    if (n > max) {
        s += n - max;
        const char *line = strchr(s, '\n');
        if (line && line[1] != '\0') {
            s = line + 1;
        }
    }
    text_add(text, s);
}

void text_add_line(struct text *text, const char *s)
{
    size_t n = strcspn(s, "\n");
    if (s[n] == '\n') {
        size_t clause = n;
        while (clause > 0 && s[clause] != ';') {
            clause--;
        }
        n = clause > 0 ? clause : n;
    }
    add_bytes(text, s, n);
}
