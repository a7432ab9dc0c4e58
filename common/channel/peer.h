/* common/channel/peer.h: the address of a peer, as text and as the key under which its connections
 * are counted. */
#ifndef TFE_COMMON_CHANNEL_PEER_H
#define TFE_COMMON_CHANNEL_PEER_H

#include <stdint.h>
#include <sys/socket.h>

#include "common/channel/endpoint.h"

struct peer {
    uint8_t address[16]; /* IPv6, or IPv4 mapped into IPv6 */
    uint16_t port;
};

/* Sets the address. For other address families *ret is the unspecified address. */
void peer_set(struct peer *ret, const struct sockaddr *from, socklen_t n);

/* Formats as "192.0.2.1:5556" or "[2001:db8::1]:5556". */
const char *peer_text(const struct peer *peer, char ret[ENDPOINT_TEXT_MAX]);

/* The part of an address that identifies one source: an IPv4 address, or an IPv6 /64, because a
 * host can usually use any address of its /64. */
struct peer_key {
    uint8_t bytes[16];
};
struct peer_key peer_key(const struct peer *peer);

#endif
