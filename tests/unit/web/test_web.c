/* tests/unit/web/test_web.c: routes.c: access rights, paths, queries and headers. */
#include <stdio.h>
#include <string.h>

#include "server/web/logins.h"
#include "server/web/request.h"
#include "tests/unit/web/web_harness.h"

#define FIXTURE web_begin, web_end

#define CLOSE LOCAL "Connection: close\r\n"

/* --- authentication --------------------------------------------------------------------------- */

TEST_IN(web, host_without_login_must_name_this_machine)
{
    static const char *const names[] = {"localhost",    "LocalHost:8080", "127.0.0.1",
                                        "127.1.2.3:80", "[::1]",          "[::1]:8080"};
    static const char *const others[] = {
        "example.com", "localhost.example.com", "127.0.0.1.nip.io", "127.example", "[::2]",
        "128.0.0.1",   "notlocalhost",          "127.0.0.1a:80",    "local:80",    "[::]"};
    char header[128];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(header, sizeof header, "Host: %s\r\n", names[i]);
        assert_int_equal(web_get_as("GET", "/api/v1/status", header), 200);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        (void)snprintf(header, sizeof header, "Host: %s\r\n", others[i]);
        assert_int_equal(web_get_as("GET", "/api/v1/status", header), 421);
    }
    assert_int_equal(web_get_as("GET", "/api/v1/status", "Host: \r\n"), 421);
    assert_int_equal(web_get_as("GET", "/api/v1/status", ""), 400);
    harness.web.requires_login = true;
    assert_int_equal(web_get_as("GET", "/api/v1/status", "Host: example.com\r\n"), 401);
}

TEST_IN(web, caller_without_a_token_of_this_server_is_rejected_if_login_is_required)
{
    assert_int_equal(web_get("/api/v1/status"), 200);
    assert_true(web_has("{\"role\":\"observer\"}")); /* with tfe-web's own token */
    harness.web.requires_login = true;
    assert_int_equal(web_get("/api/v1/status"), 401);
    assert_true(web_has("WWW-Authenticate: Bearer realm=\"tfe\""));
    assert_true(web_has("application/problem+json"));
    assert_int_equal(web_get_as("GET", "/api/v1/status", web_bearer(&harness.observer)), 200);
    assert_true(web_has("{\"role\":\"observer\"}"));
    assert_int_equal(web_get_as("GET", "/api/v1/status", web_bearer(&harness.admin)), 200);
    assert_true(web_has("{\"role\":\"admin\"}"));
    assert_int_equal(web_get_as("GET", "/api/v1/status", web_bearer(&harness.agent)), 401);
    assert_int_equal(web_get_as("GET", "/api/v1/status", web_bearer(&harness.foreign)), 401);
    assert_int_equal(web_get_as("GET", "/api/v1/status", LOCAL "Authorization: Bearer x\r\n"), 401);
    struct token forged = harness.admin; /* the key id alone is not a token */
    forged.secret[0] ^= 1;
    assert_int_equal(web_get_as("GET", "/api/v1/status", web_bearer(&forged)), 200);
    /* The server gets the token as it was sent. */
    assert_memory_equal(harness.client.join->token->secret, forged.secret, TOKEN_SECRET_BYTES);
}

TEST_IN(web, order_without_an_admins_token_is_rejected)
{
    assert_int_equal(web_order_as(LOCAL, NULL, ""), 401); /* a caller without a token */
    assert_true(web_has("orders need an admin's token: log in with one"));
    assert_int_equal(web_order_as(web_bearer(&harness.observer), NULL, ""), 403);
    assert_int_equal(harness.orders, 0);
    assert_int_equal(web_order_as(web_bearer(&harness.admin), NULL, ""), 200);
    assert_int_equal(harness.orders, 1);
    assert_true(web_has("{\"node\":\"n\"}"));
}

TEST_IN(web, order_of_a_login_needs_its_csrf_token)
{
    char csrf[LOGIN_TEXT_MAX];
    char cookie[128];
    char headers[512];
    assert_int_equal(web_get_as("GET", "/api/v1/session", web_bearer(&harness.admin)), 200);
    assert_int_equal(sscanf(strstr(harness.answer, "Set-Cookie: "), "Set-Cookie: %127[^;]", cookie),
                     1);
    assert_int_equal(sscanf(strstr(harness.answer, "\"csrf\":\""), "\"csrf\":\"%64[0-9a-f]", csrf),
                     1);
    (void)snprintf(headers, sizeof headers, LOCAL "Cookie: %s\r\n", cookie);
    assert_int_equal(web_get_as("GET", "/api/v1/status", headers), 200);
    assert_true(web_has("{\"role\":\"admin\"}"));
    assert_int_equal(web_order_as(headers, NULL, ""), 403);
    (void)snprintf(headers, sizeof headers, LOCAL "Cookie: %s\r\nX-CSRF-Token: %s0\r\n", cookie,
                   csrf);
    assert_int_equal(web_order_as(headers, NULL, ""), 403);
    assert_true(web_has("\"csrf\""));
    assert_int_equal(harness.orders, 0);
    (void)snprintf(headers, sizeof headers, LOCAL "Cookie: %s\r\nX-CSRF-Token: %s\r\n", cookie,
                   csrf);
    assert_int_equal(web_order_as(headers, NULL, ""), 200);
    assert_int_equal(harness.orders, 1);
    /* If the token is revoked, its login ends, and a new one is required. */
    struct view *view;
    assert_int_equal(views_use(harness.web.views, &harness.admin, NULL, &view), 0);
    view_reject(view);
    view_leave(view);
    harness.web.requires_login = true;
    assert_int_equal(web_get_as("GET", "/api/v1/status", headers), 401);
}

TEST_IN(web, order_with_a_body_that_is_not_json_is_rejected)
{
    const char *headers = web_bearer(&harness.admin);
    char own[512];
    (void)snprintf(own, sizeof own, "%s", headers);
    assert_int_equal(web_order_as(own, "application/json\r\n", "{\"within\":\"1m\"}"), 200);
    assert_string_equal(harness.body, "{\"within\":\"1m\"}");
    assert_int_equal(web_order_as(own, "text/plain\r\n", "{\"within\":\"1m\"}"), 400);
    assert_int_equal(web_order_as(own, NULL, "{\"within\":\"1m\"}"), 400);
    assert_int_equal(web_order_as(own, "application/json\r\n", "[1]"), 400);
    assert_int_equal(web_order_as(own, "application/json\r\n", "{\"a\":1,\"a\":2}"), 400);
    assert_int_equal(web_order_as(own, "application/json\r\n", "{"), 400);
    assert_int_equal(harness.orders, 1);
}

TEST_IN(web, new_tokens_of_a_source_are_limited_in_rate)
{
    unsigned n = 0;
    harness.web.requires_login = true;
    for (unsigned i = 0; i < 20; i++) {
        struct token token = harness.observer;
        token.key_id[TOKEN_KEY_ID_BYTES - 1] = (uint8_t)i;
        const int answer = web_get_as("GET", "/api/v1/status", web_bearer(&token));
        assert_true(answer == 200 || answer == 429);
        n += answer == 200;
    }
    assert_in_range(n, 7, 13); /* the rate allows eight at once; 100 ms pass with each request */
    web_pass(500);
    assert_int_equal(web_get_as("GET", "/api/v1/status", web_bearer(&harness.observer)), 200);
}

/* --- paths ------------------------------------------------------------------------------------ */

TEST_IN(web, unknown_path_or_method_is_rejected)
{
    static const struct {
        const char *method, *path;
        int code;
    } asked[] = {
        {"GET", "/api/v1/status", 200},
        {"HEAD", "/api/v1/status", 200},
        {"POST", "/api/v1/status", 405},
        {"GET", "/api/v1/nodes/n/drain", 405},
        {"PUT", "/api/v1/status", 405},
        {"OPTIONS", "/api/v1/status", 405},
        {"DELETE", "/api/v1/jobs/j", 401},
        {"DELETE", "/", 405},
        {"POST", "/nothing", 404},
        {"GET", "/api/v1/statu", 404},
        {"GET", "/api/v1/status/", 404},
        {"GET", "/api/v1/jobs/j", 200},
        {"GET", "/api/v1/jobs/", 404},
        {"GET", "/api/v1/jobs/j/nothing", 404},
        {"GET", "/api/v1/jobs/j/epochsandmore", 404},
        {"GET", "/api/v1/jobs/a%00b", 404},
        {"GET", "/api/v1/jobs/a%0ab", 404},
        {"GET", "/api/v1/jobs/a%7fb", 404},
    };
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        if (web_get_as(asked[i].method, asked[i].path, LOCAL) != asked[i].code) {
            fail_msg("%s %s: %d", asked[i].method, asked[i].path, web_code());
        }
    }
    assert_int_equal(web_get("/api/v1/jobs/a%20b"), 200);
    assert_true(web_has("{\"job\":\"a b\"}"));
    char path[REQUEST_NAME_MAX + 32] = "/api/v1/jobs/";
    memset(path + 13, 'x', REQUEST_NAME_MAX);
    assert_int_equal(web_get(path), 200);
    path[13 + REQUEST_NAME_MAX] = 'x';
    assert_int_equal(web_get(path), 404);
}

TEST_IN(web, query_number_out_of_range_is_rejected)
{
    assert_int_equal(web_get("/api/v1/gauges?bytes=2"), 200);
    assert_true(web_has("\r\n\r\nxx"));
    assert_int_equal(web_get("/api/v1/gauges?bytes=0"), 400);
    assert_int_equal(web_get("/api/v1/gauges?bytes=2x"), 400);
    assert_int_equal(web_get("/api/v1/gauges?bytes=-1"), 400);
    assert_int_equal(web_get("/api/v1/gauges?bytes=1073741825"), 400);
    assert_int_equal(web_get("/api/v1/gauges"), 200);
}

TEST_IN(web, every_response_has_security_headers)
{
    static const char *const headers[] = {
        "Content-Security-Policy: default-src 'none'",
        "X-Content-Type-Options: nosniff",
        "X-Frame-Options: DENY",
        "Referrer-Policy: no-referrer",
        "Cross-Origin-Opener-Policy: same-origin",
        "Cross-Origin-Resource-Policy: same-origin",
        "Permissions-Policy: ",
        "Cache-Control: no-store",
    };
    static const char *const asked[] = {
        "GET /api/v1/status HTTP/1.1\r\n" CLOSE "\r\n",
        "GET /nothing HTTP/1.1\r\n" CLOSE "\r\n",
        "DELETE / HTTP/1.1\r\n" CLOSE "\r\n",
        "GET / HTTP/1.1\r\nHost: elsewhere\r\nConnection: close\r\n\r\n",
        "POST /api/v1/login HTTP/1.1\r\nContent-Length: 99999999\r\n" CLOSE "\r\n",
        "GET / HTTP/3.0\r\n\r\n",
        "no HTTP\r\n\r\n",
        "\x16\x03\x01",
    };
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        (void)web_ask(asked[i]);
        for (size_t h = 0; h < sizeof headers / sizeof headers[0]; h++) {
            if (!web_has(headers[h])) {
                fail_msg("%s: no %s", asked[i], headers[h]);
            }
        }
        assert_false(web_has("Strict-Transport-Security"));
    }
    harness.settings.tls_cert = "it has one";
    (void)web_get("/api/v1/status");
    assert_true(web_has("Strict-Transport-Security: max-age=31536000"));
}

TEST_IN(web, page_with_a_known_etag_is_not_sent_again)
{
    char etag[128];
    char headers[256];
    assert_int_equal(web_get("/"), 200);
    assert_true(web_has("<html"));
    assert_true(web_has("Cache-Control: no-cache"));
    assert_false(web_has("no-store"));
    assert_int_equal(sscanf(strstr(harness.answer, "ETag: "), "ETag: %127[^\r]", etag), 1);
    (void)snprintf(headers, sizeof headers, LOCAL "If-None-Match: %s\r\n", etag);
    assert_int_equal(web_get_as("GET", "/", headers), 304);
    assert_false(web_has("<html"));
    assert_int_equal(web_get_as("GET", "/", LOCAL "If-None-Match: \"other\"\r\n"), 200);
    assert_int_equal(web_get_as("POST", "/", LOCAL "Content-Length: 0\r\n"), 405);
    assert_true(web_has("\r\nAllow: GET, HEAD\r\n"));
}
