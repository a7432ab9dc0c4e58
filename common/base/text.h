/* common/base/text.h: puts a sentence together in a fixed buffer; too long is cut, never an error.
 * Pure. */
#ifndef TFE_COMMON_BASE_TEXT_H
#define TFE_COMMON_BASE_TEXT_H

#include <stddef.h>

#include "common/base/time.h"

struct text {
    char *p; /* always NUL-terminated */
    size_t n;
    size_t cap;
};

/* Precondition: cap >= 1. p stays the caller's. */
void text_init(struct text *text, char *p, size_t cap);

/* s NULL adds nothing. */
void text_add(struct text *text, const char *s);
/* As printf. */
void text_addf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* All at once, into room for cap bytes. */
void text_setf(char *p, size_t cap, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* "2024-02-29 23:59:58 UTC"; nothing for a time before 1970. */
void text_add_wall(struct text *text, struct tfe_wall wall);

/* Cuts to the first max bytes of s, and to whole characters (UTF-8). */
void text_add_head(struct text *text, const char *s, size_t max);

/* Cuts to the last max bytes of s, at a line's start where there is one. */
void text_add_tail(struct text *text, const char *s, size_t max);

#endif
