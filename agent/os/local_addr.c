/* agent/os/local_addr.c: implementation of local_addr.h. */
#include "agent/os/local_addr.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "common/channel/endpoint.h"

#define LINK_LOCAL 0xa9fe0000u /* 169.254.0.0/16 */

/* Returns true if other machines can reach the address. */
static bool is_routable(const struct ifaddrs *one)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)one->ifa_addr;
    return in && in->sin_family == AF_INET && (one->ifa_flags & IFF_UP) &&
           !(one->ifa_flags & IFF_LOOPBACK) &&
           (ntohl(in->sin_addr.s_addr) & 0xffff0000u) != LINK_LOCAL;
}

/* Returns the name of the interface with this address, or "" if none. */
static const char *interface_of(const struct ifaddrs *all, const struct in6_addr *address)
{
    for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)one->ifa_addr;
        if (in && in->sin6_family == AF_INET6 &&
            memcmp(&in->sin6_addr, address, sizeof(*address)) == 0) {
            return one->ifa_name;
        }
    }
    return "";
}

bool local_addr_pick(const struct ifaddrs *all, const struct sockaddr_storage *end,
                     char ret[TFE_HOST_MAX + 1])
{
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)end)->sin6_addr;
    if (end->ss_family != AF_INET6 || IN6_IS_ADDR_V4MAPPED(v6)) {
        return endpoint_of((const struct sockaddr *)end, ret, NULL) == 0;
    }
    if (IN6_IS_ADDR_LOOPBACK(v6)) {
        strcpy(ret, "127.0.0.1");
        return true;
    }
    const char *interface = interface_of(all, v6);
    const struct ifaddrs *found = NULL;
    for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
        bool is_same = strcmp(one->ifa_name, interface) == 0;
        if (is_routable(one) && (!found || is_same)) {
            found = one;
            if (is_same) {
                break;
            }
        }
    }
    return found && endpoint_of(found->ifa_addr, ret, NULL) == 0;
}

bool local_addr_find(const struct sockaddr_storage *end, char ret[TFE_HOST_MAX + 1])
{
    struct ifaddrs *all = NULL;
    if (local_addr_pick(NULL, end, ret)) {
        return true; /* the usual case, which needs no list of interfaces */
    }
    if (getifaddrs(&all) != 0) {
        return false;
    }
    bool found = local_addr_pick(all, end, ret);
    freeifaddrs(all);
    return found;
}
