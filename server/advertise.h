/* server/advertise.h: the host that other machines are told to reach this server at. */
#ifndef TFE_SERVER_ADVERTISE_H
#define TFE_SERVER_ADVERTISE_H

#include "common/base/id.h"

/* chosen (--advertise) if not NULL, else the address bound to unless that is a wildcard, else the
 * address this machine uses towards its default route, else its first one that is no loopback, else
 * 127.0.0.1. Asks no name server: that could block the start. */
void advertise_find(const char *chosen, const char *bind, char ret[TFE_HOST_MAX + 1]);

#endif
