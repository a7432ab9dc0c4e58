/* tests/unit/agent/test_local_addr.c: a trainer's address is IPv4, even if the server is
 * reached over IPv6. */
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>

#include "agent/os/local_addr.h"
#include "common/channel/endpoint.h"
#include "tests/unit/test_runner.h"

#define MOST 8

/* Simulated result of getifaddrs(3). */
struct machine {
    struct ifaddrs list[MOST];
    struct sockaddr_storage addresses[MOST];
    size_t n;
};

static void has(struct machine *m, const char *interface, const char *address, unsigned flags)
{
    socklen_t n;
    struct ifaddrs *one = &m->list[m->n];
    assert_int_equal(endpoint_address(address, 1, &m->addresses[m->n], &n), 0);
    *one = (struct ifaddrs){.ifa_name = (char *)(uintptr_t)interface,
                            .ifa_addr = (struct sockaddr *)&m->addresses[m->n],
                            .ifa_flags = flags};
    if (m->n++ > 0) {
        m->list[m->n - 2].ifa_next = one;
    }
}

/* Returns the address chosen for this local end of a connection, "" if there is none. */
static const char *picked(const struct machine *m, const char *end)
{
    static char host[TFE_HOST_MAX + 1];
    struct sockaddr_storage address;
    socklen_t n;
    assert_int_equal(endpoint_address(end, 1, &address, &n), 0);
    return local_addr_pick(m->n ? m->list : NULL, &address, host) ? host : "";
}

TEST(own_address, ipv4_and_loopback_need_no_search)
{
    struct machine none = {.n = 0};
    assert_string_equal(picked(&none, "10.0.0.7"), "10.0.0.7");
    assert_string_equal(picked(&none, "::ffff:10.0.0.7"), "10.0.0.7");
    assert_string_equal(picked(&none, "::1"), "127.0.0.1");
}

TEST(own_address, ipv6_address_prefers_the_same_interface_then_the_default_route)
{
    struct machine m = {.n = 0};
    has(&m, "lo", "127.0.0.1", IFF_UP | IFF_LOOPBACK);
    has(&m, "eth0", "2001:db8::7", IFF_UP);
    has(&m, "eth1", "169.254.3.4", IFF_UP);
    has(&m, "eth2", "10.0.2.7", 0);
    assert_string_equal(picked(&m, "2001:db8::7"), "");
    has(&m, "eth3", "10.0.3.7", IFF_UP);
    assert_string_equal(picked(&m, "2001:db8::7"), "10.0.3.7");
    has(&m, "eth0", "10.0.0.7", IFF_UP);
    assert_string_equal(picked(&m, "2001:db8::7"), "10.0.0.7");
    /* of no interface of this machine */
    assert_string_equal(picked(&m, "2001:db8::8"), "10.0.3.7");
}
