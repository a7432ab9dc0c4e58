/* server/node_address.c: decides which host a node may announce, and finds the one that the server
 * announces. */
#include "server/node_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint8_t v4_mapped[12] = {[10] = 0xff, [11] = 0xff};

/* Parses an address (IPv6 with or without brackets) and sets *ret_bits to its length. Returns
 * false if text is a host name. */
static bool read_address(const char *text, uint8_t ret[16], unsigned *ret_bits)
{
    char plain[TFE_HOST_MAX + 1];
    size_t n = strlen(text);
    bool bracketed = n > 2 && text[0] == '[' && text[n - 1] == ']';
    if (n - 2 * bracketed > TFE_HOST_MAX) {
        return false;
    }
    memcpy(plain, text + bracketed, n - 2 * bracketed);
    plain[n - 2 * bracketed] = '\0';
    memcpy(ret, v4_mapped, sizeof(v4_mapped));
    *ret_bits = 32;
    if (!bracketed && inet_pton(AF_INET, plain, ret + 12) == 1) {
        return true;
    }
    *ret_bits = 128;
    return inet_pton(AF_INET6, plain, ret) == 1;
}

static bool is_within(const uint8_t address[16], const uint8_t network[16], unsigned bits)
{
    unsigned bytes = bits / 8;
    uint8_t mask = (uint8_t)(0xff00u >> bits % 8);
    return memcmp(address, network, bytes) == 0 &&
           (bits % 8 == 0 || ((address[bytes] ^ network[bytes]) & mask) == 0);
}

static bool is_loopback(const uint8_t address[16])
{
    static const uint8_t v6[16] = {[15] = 1};
    return memcmp(address, v6, sizeof(v6)) == 0 ||
           (memcmp(address, v4_mapped, sizeof(v4_mapped)) == 0 && address[12] == 127);
}

/* Parses a network ("10.0.0.0/8") or a single address. */
static bool read_network(struct addresses *to, char *text)
{
    unsigned all;
    char *slash = strchr(text, '/');
    char *end = NULL;
    if (slash) {
        *slash++ = '\0';
    }
    if (!read_address(text, to->v[to->n].address, &all)) {
        return false;
    }
    unsigned long bits = slash ? strtoul(slash, &end, 10) : all;
    if (bits > all || (slash && (slash[0] < '0' || slash[0] > '9' || *end != '\0'))) {
        return false;
    }
    to->v[to->n++].bits = 128 - all + (unsigned)bits;
    return true;
}

int addresses_parse(struct addresses *ret, const char *text, struct tfe_reason *reason)
{
    char *copy = strdup(text);
    char *rest = NULL;
    int rc = copy ? 0 : TFE_ENOMEM;
    *ret = (struct addresses){.n = 0};
    for (char *word = copy ? strtok_r(copy, ",", &rest) : NULL; rc == 0 && word;
         word = strtok_r(NULL, ",", &rest)) {
        if (strcmp(word, "names") == 0) {
            ret->names = true;
        } else if (ret->n == ADDRESSES_MAX || !read_network(ret, word)) {
            reason_set(reason,
                       "expected at most %d comma-separated networks such as 10.0.0.0/8 or "
                       "2001:db8::/32, or the word \"names\"",
                       ADDRESSES_MAX);
            rc = TFE_EINVAL;
        }
    }
    free(copy);
    return rc;
}

bool addresses_allow(const struct addresses *a, const char *host, const struct peer *from)
{
    uint8_t address[16];
    unsigned bits;
    if (!read_address(host, address, &bits)) {
        return a->names || (strcmp(host, "localhost") == 0 && is_loopback(from->address));
    }
    if (memcmp(address, from->address, sizeof(address)) == 0 ||
        (is_loopback(address) && is_loopback(from->address))) {
        return true;
    }
    size_t i = 0;
    while (i < a->n && !is_within(address, a->v[i].address, a->v[i].bits)) {
        i++;
    }
    return i < a->n;
}

/* --- the server's own address ---------------------------------------------------------------- */

static bool copy_v4(const struct sockaddr_in *in, char ret[TFE_HOST_MAX + 1])
{
    if ((ntohl(in->sin_addr.s_addr) >> 24) == IN_LOOPBACKNET || in->sin_addr.s_addr == INADDR_ANY) {
        return false;
    }
    return inet_ntop(AF_INET, &in->sin_addr, ret, TFE_HOST_MAX) != NULL;
}

/* Connecting a datagram socket sends nothing; it makes the kernel choose a route and a source
 * address. 192.0.2.1 is reserved for documentation (RFC 5737), so only a default route leads
 * there. */
static bool find_by_route(char ret[TFE_HOST_MAX + 1])
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    struct sockaddr_in from = {.sin_family = AF_INET};
    socklen_t n = sizeof(from);
    (void)inet_pton(AF_INET, "192.0.2.1", &to.sin_addr);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    bool found = connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0 &&
                 getsockname(fd, (struct sockaddr *)&from, &n) == 0 && copy_v4(&from, ret);
    (void)close(fd);
    return found;
}

static bool find_by_interface(char ret[TFE_HOST_MAX + 1])
{
    struct ifaddrs *all = NULL;
    bool found = false;
    if (getifaddrs(&all) != 0) {
        return false;
    }
    for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_UP) != 0 &&
            (i->ifa_flags & IFF_LOOPBACK) == 0) {
            struct sockaddr_in in;
            memcpy(&in, i->ifa_addr, sizeof(in));
            found = copy_v4(&in, ret);
        }
    }
    freeifaddrs(all);
    return found;
}

void advertise_find(const char *chosen, const char *bind, char ret[TFE_HOST_MAX + 1])
{
    bool wildcard = strcmp(bind, "0.0.0.0") == 0 || strcmp(bind, "::") == 0;
    const char *fixed = chosen ? chosen : bind;
    if (!chosen && wildcard) {
        if (find_by_route(ret) || find_by_interface(ret)) {
            return;
        }
        fixed = "127.0.0.1";
    }
    (void)snprintf(ret, TFE_HOST_MAX + 1, "%s", fixed);
}
