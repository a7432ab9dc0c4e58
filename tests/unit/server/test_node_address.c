/* tests/unit/server/test_node_address.c: which addresses a node may announce to its peers. */
#include <arpa/inet.h>
#include <string.h>

#include "server/node_address.h"
#include "tests/unit/test_runner.h"

static struct peer peer_at(const char *text)
{
    struct peer peer = {.port = 4000};
    memcpy(peer.address, (uint8_t[]){[10] = 0xff, [11] = 0xff}, 12);
    if (inet_pton(AF_INET, text, peer.address + 12) != 1) {
        assert_int_equal(inet_pton(AF_INET6, text, peer.address), 1);
    }
    return peer;
}

static bool allows(const char *option, const char *host, const char *from)
{
    struct addresses allowed;
    struct tfe_reason reason;
    struct peer peer = peer_at(from);
    assert_int_equal(addresses_parse(&allowed, option, &reason), 0);
    return addresses_allow(&allowed, host, &peer);
}

TEST(addresses, own_source_address_is_allowed)
{
    assert_true(allows("", "10.1.2.3", "10.1.2.3"));
    assert_true(allows("", "::ffff:10.1.2.3", "10.1.2.3"));
    assert_true(allows("", "[2001:db8::7]", "2001:db8::7"));
    assert_false(allows("", "10.1.2.4", "10.1.2.3"));
    assert_false(allows("", "[10.1.2.3]", "10.1.2.3")); /* a host name */
    assert_false(allows("", "2001:db8::8", "2001:db8::7"));
    /* All loopback addresses are the same machine. */
    assert_true(allows("", "127.0.0.2", "127.0.0.1"));
    assert_true(allows("", "127.0.0.1", "::1"));
    assert_true(allows("", "::1", "127.0.0.1"));
    assert_true(allows("", "localhost", "127.0.0.1"));
    assert_false(allows("", "127.0.0.1", "10.1.2.3"));
    assert_false(allows("", "localhost", "10.1.2.3"));
    assert_false(allows("", "10.1.2.3", "127.0.0.1"));
}

TEST(addresses, host_name_is_accepted_only_if_allowed)
{
    assert_false(allows("", "worker-1", "10.1.2.3"));
    assert_true(allows("names", "worker-1", "10.1.2.3"));
    assert_true(allows("10.0.0.0/8,names", "worker-1", "10.1.2.3"));
    assert_false(allows("10.0.0.0/8", "worker-1", "10.1.2.3"));
    assert_false(allows("names", "10.1.2.4", "10.1.2.3"));
}

TEST(addresses, network_prefix_is_compared_bitwise)
{
    static const struct {
        const char *network, *in, *out;
    } rows[] = {
        {"10.0.0.0/8", "10.255.255.255", "11.0.0.0"},
        {"192.0.2.128/25", "192.0.2.128", "192.0.2.127"},
        {"192.0.2.64/26", "192.0.2.127", "192.0.2.128"},
        {"192.0.2.8/29", "192.0.2.15", "192.0.2.16"},
        {"192.0.2.7", "192.0.2.7", "192.0.2.6"},
        {"192.0.2.7/32", "192.0.2.7", "192.0.2.6"},
        {"2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"},
        {"2001:db8::7", "2001:db8::7", "2001:db8::6"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(allows(rows[i].network, rows[i].in, "198.51.100.1"));
        assert_false(allows(rows[i].network, rows[i].out, "198.51.100.1"));
    }
    assert_true(allows("0.0.0.0/0", "203.0.113.9", "198.51.100.1"));
    assert_false(allows("0.0.0.0/0", "2001:db8::1", "198.51.100.1"));
    assert_true(allows("::/0", "203.0.113.9", "198.51.100.1"));
    assert_true(allows("10.0.0.0/8,192.0.2.0/24", "192.0.2.1", "198.51.100.1"));
}

TEST(addresses, invalid_network_is_refused)
{
    static const char *const wrong[] = {
        "10.0.0.0/33", "2001:db8::/129", "10.0.0.0/",   "10.0.0.0/8x",
        "10.0.0.0/-1", "host",           "10.0.0.0/ 8", "name"};
    struct addresses allowed;
    struct tfe_reason reason;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(addresses_parse(&allowed, wrong[i], &reason), TFE_EINVAL);
        assert_non_null(strstr(reason.text, "networks such as"));
    }
    char many[32 * (ADDRESSES_MAX + 1)] = "";
    for (int i = 0; i < ADDRESSES_MAX; i++) {
        strcat(many, "10.0.0.0/8,");
    }
    assert_int_equal(addresses_parse(&allowed, many, &reason), 0);
    strcat(many, "names");
    assert_int_equal(addresses_parse(&allowed, many, &reason), 0);
    strcat(many, ",10.0.0.0/8");
    assert_int_equal(addresses_parse(&allowed, many, &reason), TFE_EINVAL);
}
