/* tests/unit/channel/test_endpoint.c: conversion of hosts and ports between text and socket
 * addresses. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

#include "common/channel/endpoint.h"
#include "tests/unit/test_runner.h"

TEST(endpoint, is_read_with_and_without_a_port)
{
    static const struct {
        const char *text;
        const char *host;
        uint16_t port;
    } good[] = {{"h", "h", 9},
                {"h:1", "h", 1},
                {"10.0.0.1:65535", "10.0.0.1", 65535},
                {"a-b.c_d.example:80", "a-b.c_d.example", 80},
                {"[::1]:5556", "::1", 5556},
                {"[fe80::1%eth0]", "fe80::1%eth0", 9},
                {"::1", "::1", 9},
                {"2001:db8::5", "2001:db8::5", 9}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char host[254];
        uint16_t port = 9;
        assert_int_equal(endpoint_parse(good[i].text, host, sizeof host, &port), 0);
        assert_string_equal(host, good[i].host);
        assert_int_equal(port, good[i].port);
    }
}

TEST(endpoint, what_is_none_changes_nothing)
{
    static const char *const bad[] = {"",       ":1",     "h:",    "h:0",   "h:65536",
                                      "h:1x",   "h h:1",  "h/x:1", "[h]:1", "[::1",
                                      "[::1]x", "[::1]:", "a:b:c", "[]:1",  "tcp://h:1",
                                      "::1%",   "[::1]1", "h:+1",  "h: 1",  "::1:5599"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char host[254] = "kept";
        uint16_t port = 9;
        assert_int_equal(endpoint_parse(bad[i], host, sizeof host, &port), TFE_EINVAL);
        assert_string_equal(host, "kept");
        assert_int_equal(port, 9);
    }
    char small[4];
    uint16_t port = 9;
    assert_int_equal(endpoint_parse("abc", small, sizeof small, &port), 0);
    assert_int_equal(endpoint_parse("abcd", small, sizeof small, &port), TFE_EINVAL);
    char longest[260];
    memset(longest, 'a', sizeof longest);
    longest[254] = '\0';
    char host[300];
    assert_int_equal(endpoint_parse(longest, host, sizeof host, &port), TFE_EINVAL);
    longest[253] = '\0';
    assert_int_equal(endpoint_parse(longest, host, sizeof host, &port), 0);
}

TEST(endpoint, a_v6_host_stands_in_brackets)
{
    char text[ENDPOINT_TEXT_MAX];
    char longest[300];
    assert_string_equal(endpoint_format(text, "h.example", 5556), "h.example:5556");
    assert_string_equal(endpoint_format(text, "::1", 65535), "[::1]:65535");
    memset(longest, ':', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(strlen(endpoint_format(text, longest, 65535)), ENDPOINT_TEXT_MAX - 1);
    assert_string_equal(text + TFE_HOST_MAX, ":]:65535");
}

TEST(endpoint, an_address_goes_to_a_socket_and_back)
{
    static const char *const hosts[] = {"192.0.2.7", "2001:db8::5", "::"};
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        struct sockaddr_storage at;
        socklen_t n = 0;
        char host[TFE_HOST_MAX + 1];
        uint16_t port = 0;
        assert_int_equal(endpoint_address(hosts[i], 5556, &at, &n), 0);
        assert_int_equal(n, i == 0 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
        assert_int_equal(endpoint_of((const struct sockaddr *)&at, host, &port), 0);
        assert_string_equal(host, hosts[i]);
        assert_int_equal(port, 5556);
    }
}

TEST(endpoint, a_mapped_v4_address_is_v4)
{
    struct sockaddr_storage at;
    socklen_t n = 0;
    char host[TFE_HOST_MAX + 1];
    assert_int_equal(endpoint_address("::ffff:192.0.2.7", 1, &at, &n), 0);
    assert_int_equal(endpoint_of((const struct sockaddr *)&at, host, NULL), 0);
    assert_string_equal(host, "192.0.2.7");
}

TEST(endpoint, names_and_other_families_are_no_addresses)
{
    struct sockaddr_storage at;
    socklen_t n = 0;
    assert_int_equal(endpoint_address("localhost", 1, &at, &n), TFE_EINVAL);
    assert_int_equal(endpoint_address("[::1]", 1, &at, &n), TFE_EINVAL);
    const struct sockaddr_un local = {.sun_family = AF_UNIX};
    char host[TFE_HOST_MAX + 1] = "x";
    uint16_t port = 9;
    assert_int_equal(endpoint_of((const struct sockaddr *)&local, host, &port), TFE_EINVAL);
    assert_string_equal(host, "");
    assert_int_equal(port, 0);
}
