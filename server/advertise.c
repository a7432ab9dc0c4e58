/* server/advertise.c: determines the host name or address at which other machines reach this
 * server. */
#include "server/advertise.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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
