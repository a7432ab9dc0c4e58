/* common/cli/signals.h: the signals by which people, terminals and machines end a program. */
#ifndef TFE_COMMON_CLI_SIGNALS_H
#define TFE_COMMON_CLI_SIGNALS_H

#include <event2/event.h>

/* SIGTERM, SIGINT, SIGHUP: a terminal that was closed. */
#define TERMINATION_SIGNALS 3

/* Calls fn for each of them from now on, but for the one that means something else here (not_this;
 * 0: none does), and for SIGHUP if whoever started the program had it ignored, as nohup does.
 * For the start of a program, which without them does not go on: see part_must. */
void signals_watch_termination(struct event_base *base, event_callback_fn fn, void *ctx,
                               int not_this, struct event *ret[TERMINATION_SIGNALS]);
/* Also where some of them, or all, are not watched. */
void signals_unwatch(struct event *watched[TERMINATION_SIGNALS]);

/* "SIGTERM"; a number that has no name: "signal 40". ret is what is returned. */
#define SIGNAL_NAME_MAX 24
const char *signal_name(int signo, char ret[SIGNAL_NAME_MAX]);

#endif
