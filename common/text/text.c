/* common/text/text.c: builds text in fixed buffers. */
#include "common/text/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/text/utf8.h"

void text_init(struct text *text, char *p, size_t cap)
{
    *text = (struct text){.p = p, .n = 0, .cap = cap};
    p[0] = '\0';
}

static void add_bytes(struct text *text, const char *s, size_t n)
{
    size_t space = text->cap - 1 - text->n;
    if (n > space) {
        n = space;
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

void text_addf(struct text *text, const char *format, ...)
{
    const size_t space = text->cap - text->n;
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text->p + text->n, space, format, args);
    va_end(args);
    if (n > 0) {
        utf8_mark_cuts(text->p + text->n, space);
        text->n += strlen(text->p + text->n);
    }
}

void text_setf(char *p, size_t cap, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(p, cap, format, args);
    va_end(args);
    utf8_mark_cuts(p, cap);
}

void text_add_wall(struct text *text, struct tfe_wall wall)
{
    const time_t seconds = (time_t)(wall.ms / 1000);
    struct tm at;
    if (wall.ms >= 0 && gmtime_r(&seconds, &at)) {
        text_addf(text, "%04d-%02d-%02d %02d:%02d:%02d UTC", at.tm_year + 1900, at.tm_mon + 1,
                  at.tm_mday, at.tm_hour, at.tm_min, at.tm_sec);
    }
}

void text_add_head(struct text *text, const char *s, size_t max)
{
    size_t n = strlen(s);
    if (n > max) {
        n = max;
        while (n > 0 && ((unsigned char)s[n] & 0xC0) == 0x80) {
            n--;
        }
    }
    add_bytes(text, s, n);
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
