/* common/channel/endpoint.c: converts endpoints between text and socket addresses. */
#include "common/channel/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/cli/options.h"

const char *endpoint_format(char ret[ENDPOINT_TEXT_MAX], const char *host, uint16_t port)
{
    const bool v6 = strchr(host, ':') != NULL;
    (void)snprintf(ret, ENDPOINT_TEXT_MAX, "%s%.*s%s:%u", v6 ? "[" : "", TFE_HOST_MAX, host,
                   v6 ? "]" : "", (unsigned)port);
    return ret;
}

/* True for a name, an IPv4 address, or an IPv6 address with an optional zone such as
 * "fe80::1%eth0". */
static bool is_host(const char *text, size_t n)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    if (n == 0 || n > TFE_HOST_MAX) {
        return false;
    }
    char host[TFE_HOST_MAX + 1];
    memcpy(host, text, n);
    host[n] = '\0';
    if (!strchr(host, ':')) {
        return strspn(host, plain) == n;
    }
    char *zone = strchr(host, '%');
    if (zone) {
        if (zone[1] == '\0' || strspn(zone + 1, plain) != strlen(zone + 1)) {
            return false;
        }
        *zone = '\0';
    }
    struct in6_addr address;
    return inet_pton(AF_INET6, host, &address) == 1;
}

int endpoint_parse(const char *text, char *ret_host, size_t host_cap, uint16_t *port)
{
    const char *host = text;
    size_t n = strlen(text);
    const char *rest = text + n;
    if (text[0] == '[') {
        const char *end = strchr(text, ']');
        if (!end || !memchr(text, ':', (size_t)(end - text))) {
            return TFE_EINVAL;
        }
        host = text + 1;
        n = (size_t)(end - host);
        rest = end + 1;
    } else {
        const char *colon = strchr(text, ':');
        /* Two colons without brackets: an IPv6 address without a port. Reject one that ends in four
         * digits, which are probably meant as a port. */
        if (colon && !strchr(colon + 1, ':')) {
            n = (size_t)(colon - text);
            rest = colon;
        } else if (colon && strspn(strrchr(text, ':') + 1, "0123456789") >= 4) {
            return TFE_EINVAL;
        }
    }
    uint64_t number = *port;
    bool good = *rest == '\0';
    if (*rest == ':') {
        rest++;
        good = options_digits(&rest, UINT16_MAX, &number) && number > 0 && *rest == '\0';
    }
    if (!good || !is_host(host, n) || n >= host_cap) {
        return TFE_EINVAL;
    }
    memmove(ret_host, host, n);
    ret_host[n] = '\0';
    *port = (uint16_t)number;
    return 0;
}

int endpoint_of(const struct sockaddr *address, char ret_host[TFE_HOST_MAX + 1], uint16_t *ret_port)
{
    struct sockaddr_in v4 = {.sin_family = AF_UNSPEC};
    struct sockaddr_in6 v6 = {.sin6_family = AF_UNSPEC};
    const void *bytes = NULL;
    int family = AF_INET;
    in_port_t port = 0;
    if (address->sa_family == AF_INET) {
        memcpy(&v4, address, sizeof v4);
        bytes = &v4.sin_addr;
        port = v4.sin_port;
    } else if (address->sa_family == AF_INET6) {
        memcpy(&v6, address, sizeof v6);
        const bool is_mapped = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
        bytes = is_mapped ? v6.sin6_addr.s6_addr + 12 : v6.sin6_addr.s6_addr;
        family = is_mapped ? AF_INET : AF_INET6;
        port = v6.sin6_port;
    }
    if (ret_host && (!bytes || !inet_ntop(family, bytes, ret_host, TFE_HOST_MAX + 1))) {
        ret_host[0] = '\0';
    }
    if (ret_port) {
        *ret_port = ntohs(port);
    }
    return bytes ? 0 : TFE_EINVAL;
}

int endpoint_address(const char *host, uint16_t port, struct sockaddr_storage *ret,
                     socklen_t *ret_n)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    memset(ret, 0, sizeof *ret);
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        memcpy(ret, &v4, sizeof v4);
        *ret_n = sizeof v4;
        return 0;
    }
    if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1) {
        memcpy(ret, &v6, sizeof v6);
        *ret_n = sizeof v6;
        return 0;
    }
    return TFE_EINVAL;
}
