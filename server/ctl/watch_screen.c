/* server/ctl/watch_screen.c: a screen as cells of text. */
#include "server/ctl/watch_screen.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/escape.h"

int watch_screen_init(struct watch_screen *s, int width, int height)
{
    size_t n = (size_t)(width > 0 ? width : 1) * (size_t)(height > 0 ? height : 1);
    *s = (struct watch_screen){.width = width, .height = height};
    s->cells = calloc(n, sizeof(*s->cells));
    for (size_t i = 0; s->cells && i < n; i++) {
        s->cells[i].text[0] = ' ';
    }
    return s->cells ? 0 : TFE_ENOMEM;
}

void watch_screen_done(struct watch_screen *s)
{
    free(s->cells);
    s->cells = NULL;
}

static void set(struct watch_screen *s, int y, int x, enum watch_style style, const char *unit,
                size_t n)
{
    if (y >= 0 && y < s->height && x >= 0 && x < s->width) {
        struct watch_cell *cell = &s->cells[(size_t)y * (size_t)s->width + (size_t)x];
        memcpy(cell->text, unit, n);
        cell->text[n] = '\0';
        cell->style = (uint8_t)style;
    }
}

int watch_put(struct watch_screen *s, int y, int x, int width, enum watch_style style,
              const char *text)
{
    const char *end = text + strlen(text);
    const int stop = x + width;
    while (x < stop) {
        char unit[ESCAPE_UNIT_MAX];
        size_t n = 1;
        unit[0] = ' ';
        if (text < end) {
            size_t taken = escape_unit(text, (size_t)(end - text), unit, &n);
            bool is_itself = taken == n;
            text += taken;
            for (size_t i = 0; !is_itself && i + 1 < n && unit[0] == '\\'; i++) {
                set(s, y, x++, style, &unit[i],
                    1); /* an escape such as "\u202e": one column per character */
            }
            if (!is_itself && unit[0] == '\\') {
                unit[0] = unit[n - 1];
                n = 1;
            }
        }
        if (x < stop) {
            set(s, y, x++, style, unit, n);
        }
    }
    return stop;
}
