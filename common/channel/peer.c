/* common/channel/peer.c: the address of a peer, as text and as a key. */
#include "common/channel/peer.h"

#include <netinet/in.h>
#include <string.h>

static const uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

void peer_set(struct peer *ret, const struct sockaddr *from, socklen_t n)
{
    *ret = (struct peer){.port = 0};
    if (from->sa_family == AF_INET && n >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in in;
        memcpy(&in, from, sizeof(in));
        memcpy(ret->address, mapped_prefix, sizeof(mapped_prefix));
        memcpy(ret->address + sizeof(mapped_prefix), &in.sin_addr, 4);
        ret->port = ntohs(in.sin_port);
    } else if (from->sa_family == AF_INET6 && n >= sizeof(struct sockaddr_in6)) {
        struct sockaddr_in6 in;
        memcpy(&in, from, sizeof(in));
        memcpy(ret->address, &in.sin6_addr, 16);
        ret->port = ntohs(in.sin6_port);
    }
}

const char *peer_text(const struct peer *peer, char ret[ENDPOINT_TEXT_MAX])
{
    struct sockaddr_in6 in = {.sin6_family = AF_INET6};
    char host[TFE_HOST_MAX + 1];
    memcpy(&in.sin6_addr, peer->address, sizeof(in.sin6_addr));
    (void)endpoint_of((const struct sockaddr *)&in, host, NULL);
    return endpoint_format(ret, host, peer->port);
}

struct peer_key peer_key(const struct peer *peer)
{
    struct peer_key key;
    memcpy(key.bytes, peer->address, sizeof(key.bytes));
    if (memcmp(peer->address, mapped_prefix, sizeof(mapped_prefix)) != 0) {
        memset(key.bytes + 8, 0, 8);
    }
    return key;
}
