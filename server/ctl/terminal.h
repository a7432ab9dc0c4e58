/* server/ctl/terminal.h: what stdout is, for those who show something to people. */
#ifndef TFE_SERVER_CTL_TERMINAL_H
#define TFE_SERVER_CTL_TERMINAL_H

#include <stdbool.h>

/* Whether stdout is a terminal that takes colours, and nobody has asked for none (NO_COLOR, which
 * counts where it is not empty: https://no-color.org). */
bool terminal_has_colour(void);

/* Whether what is written there is read as UTF-8, by the locale that the environment names. Calls
 * setlocale(). */
bool terminal_is_utf8(void);

/* Columns of the terminal that stderr is; 80: it is none, or does not say. */
int terminal_width(void);

#endif
