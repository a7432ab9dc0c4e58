/* common/text/text.h: builds text in a fixed buffer; text that does not fit is truncated without an
 * error. Pure. */
#ifndef TFE_COMMON_TEXT_TEXT_H
#define TFE_COMMON_TEXT_TEXT_H

#include <stddef.h>

#include "common/base/time.h"

struct text {
    char *p; /* buffer, always NUL-terminated */
    size_t n;
    size_t cap;
};

/* Begins an empty text in p, which the caller owns. Precondition: cap >= 1. */
void text_init(struct text *text, char *p, size_t cap);

/* Appends s; nothing if s is NULL. */
void text_add(struct text *text, const char *s);
/* Appends formatted text as printf does. */
void text_addf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Formats text into p, which has cap bytes, truncating it if necessary. */
void text_setf(char *p, size_t cap, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Appends a time as "2024-02-29 23:59:58 UTC"; nothing for a time before 1970. */
void text_add_wall(struct text *text, struct tfe_wall wall);

/* Appends the first max bytes of s, truncated to complete UTF-8 characters. */
void text_add_head(struct text *text, const char *s, size_t max);

/* Appends the last max bytes of s, from the start of a line if there is one. */
void text_add_tail(struct text *text, const char *s, size_t max);

#endif
