/* common/cli/sd_notify.h: status notifications to systemd (Type=notify) through its datagram
 * socket. Works without systemd as well. */
#ifndef TFE_COMMON_CLI_SD_NOTIFY_H
#define TFE_COMMON_CLI_SD_NOTIFY_H

#include <event2/event.h>

/* Sends a state such as "READY=1" or "STOPPING=1". Does nothing if $NOTIFY_SOCKET is not set. */
void sd_notify_send(const char *word);

/* Sends watchdog notifications from the loop at twice the rate that $WATCHDOG_USEC demands, until
 * the event is freed. Returns NULL if no watchdog is enabled or memory is out. */
struct event *sd_notify_watchdog(struct event_base *base);

#endif
