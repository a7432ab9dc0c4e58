/* server/advertise.h: determines the host name or address at which other machines reach this
 * server. */
#ifndef TFE_SERVER_ADVERTISE_H
#define TFE_SERVER_ADVERTISE_H

#include "common/base/id.h"

/* Writes the host to ret: `chosen` (--advertise) if not NULL; else the bound address unless it is
 * a wildcard; else the address that this machine uses towards its default route; else its first
 * address that is not loopback; else 127.0.0.1. Uses no name server, because a lookup could block
 * the start. */
void advertise_find(const char *chosen, const char *bind, char ret[TFE_HOST_MAX + 1]);

#endif
