/* common/cli/signals.h: watches the signals by which users, terminals and service managers end a
 * program. */
#ifndef TFE_COMMON_CLI_SIGNALS_H
#define TFE_COMMON_CLI_SIGNALS_H

#include <event2/event.h>

/* Number of termination signals: SIGTERM, SIGINT, and SIGHUP of a closed terminal. */
#define TERMINATION_SIGNALS 3

/* Calls fn for each termination signal, except not_this (0 for none), which has another meaning
 * here, and except SIGHUP if it is ignored (as under nohup). For program start: exits if out of
 * memory (must_succeed). */
void signals_watch_termination(struct event_base *base, event_callback_fn fn, void *ctx,
                               int not_this, struct event *ret[TERMINATION_SIGNALS]);
/* Removes the watches; any of them may be NULL. */
void signals_unwatch(struct event *watched[TERMINATION_SIGNALS]);

/* Writes the name "SIGTERM", or "signal 40" for a signal without a name, and returns ret. */
#define SIGNAL_NAME_MAX 24
const char *signal_name(int signo, char ret[SIGNAL_NAME_MAX]);

#endif
