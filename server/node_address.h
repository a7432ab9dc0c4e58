/* server/node_address.h: decides which host a node may announce: the address it connects from, or
 * one that --allow-address names. Otherwise one member could direct the probes of all others at
 * any target. */
#ifndef TFE_SERVER_NODE_ADDRESS_H
#define TFE_SERVER_NODE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/channel/peer.h"
#include "common/text/reason.h"

#define ADDRESSES_MAX 64

struct addresses {
    struct {
        uint8_t address[16]; /* IPv6, or IPv4 mapped into IPv6 */
        unsigned bits;
    } v[ADDRESSES_MAX];
    size_t n;
    bool names; /* true if host names are allowed as well; the server cannot check them */
};

/* Parses "10.0.0.0/8,2001:db8::/32,names". Returns 0 or TFE_EINVAL. */
int addresses_parse(struct addresses *ret, const char *text,
                    struct tfe_reason *reason) TFE_MUST_CHECK;
/* Returns true if a node that connects from `from` may announce `host`. All loopback addresses are
 * equal. */
bool addresses_allow(const struct addresses *a, const char *host, const struct peer *from);

/* Finds the host name or address at which other machines reach this server: `chosen` (--advertise)
 * if not NULL; else the bound address unless it is a wildcard; else the address that this machine
 * uses towards its default route; else its first address that is not loopback; else 127.0.0.1.
 * Uses no name server, because a lookup could block the start. */
void advertise_find(const char *chosen, const char *bind, char ret[TFE_HOST_MAX + 1]);

#endif
