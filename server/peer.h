/* server/peer.h: a peer's address, as text and as the key under which peers are counted. */
#ifndef TFE_SERVER_PEER_H
#define TFE_SERVER_PEER_H

#include <stdint.h>
#include <sys/socket.h>

#include "common/channel/endpoint.h"

struct peer {
    uint8_t address[16]; /* v6, or v4 mapped into it */
    uint16_t port;
};

/* An address of neither family gives the unspecified address. */
void peer_set(struct peer *ret, const struct sockaddr *from, socklen_t n);

/* "192.0.2.1:5556", "[2001:db8::1]:5556". */
const char *peer_text(const struct peer *peer, char ret[ENDPOINT_TEXT_MAX]);

/* Who counts as one outsider: a v4 address, or a v6 /64 (whoever has one v6 address has its /64).
 */
struct peer_key {
    uint8_t bytes[16];
};
struct peer_key peer_key(const struct peer *peer);

#endif
