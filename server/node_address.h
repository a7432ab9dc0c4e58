/* server/node_address.h: where a node may say that its peers reach it: where it connects from, or
 * what
 * --allow-address names. Else one member could aim the probes of all others at anything. */
#ifndef TFE_SERVER_NODE_ADDRESS_H
#define TFE_SERVER_NODE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "server/peer.h"

#define ADDRESSES_MAX 64

struct addresses {
    struct {
        uint8_t address[16]; /* v4 mapped into v6 */
        unsigned bits;
    } v[ADDRESSES_MAX];
    size_t n;
    bool names; /* host names too: nobody here knows what they mean */
};

/* "10.0.0.0/8,2001:db8::/32,names". TFE_EINVAL. */
int addresses_parse(struct addresses *ret, const char *text,
                    struct tfe_reason *reason) TFE_MUST_CHECK;
/* Whether who connects from there may say that it is reached at host. From loopback all of loopback
 * is the same. */
bool addresses_allow(const struct addresses *a, const char *host, const struct peer *from);

#endif
