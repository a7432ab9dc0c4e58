/* server/ctl/watch_screen.h: a screen as cells of text, before any terminal has seen it. Pure. */
#ifndef TFE_SERVER_CTL_WATCH_SCREEN_H
#define TFE_SERVER_CTL_WATCH_SCREEN_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* What a cell means; which colour that is, if any, is the terminal's business. */
enum watch_style {
    WATCH_PLAIN,
    WATCH_BOLD,
    WATCH_FAINT,
    WATCH_BAR,    /* first and last line, heads */
    WATCH_CHOSEN, /* the line that keys are about */
    WATCH_GOOD,
    WATCH_WARN,
    WATCH_BAD,
    WATCH_NEWS,
    WATCH__STYLES
};

#define WATCH_CELL_MAX 8

struct watch_cell {
    char text[WATCH_CELL_MAX + 1]; /* one character of UTF-8, or what stands for it */
    uint8_t style;
};

struct watch_screen {
    int width, height;
    struct watch_cell *cells;
};

/* Blank. TFE_ENOMEM. */
int watch_screen_init(struct watch_screen *s, int width, int height) TFE_MUST_CHECK;
void watch_screen_done(struct watch_screen *s);

/* Writes text from column x of line y on, at most width columns of it, of which the rest is filled
 * with blanks; whatever lies outside of the screen is cut. What would steer a terminal is shown as
 * what it is (common/base/escape.h). Returns the column behind. */
int watch_put(struct watch_screen *s, int y, int x, int width, enum watch_style style,
              const char *text);

/* The line as text, without blanks at its end. */
void watch_screen_line(const struct watch_screen *s, int y, char *ret, size_t cap);

#endif
