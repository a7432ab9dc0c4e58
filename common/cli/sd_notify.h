/* common/cli/sd_notify.h: what systemd is told of a service of Type=notify, by its datagram socket;
 * no other supervisor is needed, nor missed. */
#ifndef TFE_COMMON_CLI_SD_NOTIFY_H
#define TFE_COMMON_CLI_SD_NOTIFY_H

#include <event2/event.h>

/* "READY=1", "STOPPING=1". Nothing if nobody listens ($NOTIFY_SOCKET). */
void notify_say(const char *word);

/* Says that the loop turns, twice in the time that $WATCHDOG_USEC names, until the event is freed.
 * NULL: nobody watches, or there is no memory. */
struct event *notify_watchdog(struct event_base *base);

#endif
