/* common/base/text.c: sentences in fixed buffers. */
#include "common/base/text.h"

#include <stdarg.h>
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

static void add_formatted(struct text *text, const char *at, va_list args)
{
    while (*at) {
        size_t plain = strcspn(at, "%");
        add_bytes(text, at, plain);
        at += plain;
        if (strncmp(at, "%s", 2) == 0) {
            text_add(text, va_arg(args, const char *));
            at += 2;
        } else if (strncmp(at, "%u", 2) == 0) {
            text_add_u64(text, va_arg(args, unsigned));
            at += 2;
        } else if (strncmp(at, "%llu", 4) == 0) {
            text_add_u64(text, va_arg(args, unsigned long long));
            at += 4;
        } else if (*at) { /* %%, and what it does not know */
            add_bytes(text, "%", 1);
            at += at[1] == '%' ? 2 : 1;
        }
    }
}

void text_addf(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_formatted(text, format, args);
    va_end(args);
}

void text_setf(char *p, size_t cap, const char *format, ...)
{
    struct text text;
    text_init(&text, p, cap);
    va_list args;
    va_start(args, format);
    add_formatted(&text, format, args);
    va_end(args);
}

static void add_two(struct text *text, const char *before, int64_t value)
{
    text_add(text, before);
    text_add(text, value < 10 ? "0" : NULL);
    text_add_u64(text, (uint64_t)value);
}

void text_add_wall(struct text *text, struct tfe_wall wall)
{
    if (wall.ms < 0) {
        return;
    }
    int64_t seconds = wall.ms / 1000;
    int64_t days = seconds / 86400 + 719468; /* since 0000-03-01, so that leap days end years */
    int64_t day_of_era = days % 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t march_month = (5 * day_of_year + 2) / 153;
    int64_t month = march_month < 10 ? march_month + 3 : march_month - 9;
    text_add_u64(text, (uint64_t)(days / 146097 * 400 + year_of_era + (month <= 2 ? 1 : 0)));
    add_two(text, "-", month);
    add_two(text, "-", day_of_year - (153 * march_month + 2) / 5 + 1);
    add_two(text, " ", seconds / 3600 % 24);
    add_two(text, ":", seconds / 60 % 60);
    add_two(text, ":", seconds % 60);
    text_add(text, " UTC");
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
