/* server/ctl/terminal.h: properties of stdout and stderr, for output to people. */
#ifndef TFE_SERVER_CTL_TERMINAL_H
#define TFE_SERVER_CTL_TERMINAL_H

#include <stdbool.h>

/* Returns true if stdout is a terminal with colours and NO_COLOR is unset or empty
 * (https://no-color.org). */
bool terminal_has_colour(void);

/* Returns true if the locale of the environment is UTF-8. Calls setlocale(). */
bool terminal_is_utf8(void);

/* Returns the number of columns of the terminal at stderr, or 80 if stderr is no terminal or its
 * size is unknown. */
int terminal_width(void);

#endif
