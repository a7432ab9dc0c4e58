/* server/ctl/watch_screen.h: a screen as cells of text, before it is drawn on a terminal. Pure. */
#ifndef TFE_SERVER_CTL_WATCH_SCREEN_H
#define TFE_SERVER_CTL_WATCH_SCREEN_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* Meaning of a cell; the terminal chooses the colour, if any. */
enum watch_style {
    WATCH_PLAIN,
    WATCH_BOLD,
    WATCH_FAINT,
    WATCH_BAR,    /* first and last line, headings */
    WATCH_CHOSEN, /* the selected line */
    WATCH_GOOD,
    WATCH_WARN,
    WATCH_BAD,
    WATCH_NEWS,
    WATCH__STYLES
};

#define WATCH_CELL_MAX 8

struct watch_cell {
    char text[WATCH_CELL_MAX + 1]; /* one UTF-8 character, or its escape */
    uint8_t style;
};

struct watch_screen {
    int width, height;
    struct watch_cell *cells;
};

/* Creates a blank screen. Returns 0 or TFE_ENOMEM. */
int watch_screen_init(struct watch_screen *s, int width, int height) TFE_MUST_CHECK;
void watch_screen_done(struct watch_screen *s);

/* Writes text from column x of line y on, cut to width columns and padded with blanks; cells
 * outside of the screen are cut. Control characters are escaped (common/text/escape.h). Returns
 * the column after the last one written. */
int watch_put(struct watch_screen *s, int y, int x, int width, enum watch_style style,
              const char *text);

#endif
