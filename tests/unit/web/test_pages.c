/* tests/unit/web/test_pages.c: time limits and number of connections, views, and event streams. */
#include <errno.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/web/logins.h"
#include "server/web/reply.h"
#include "server/web/streams.h"
#include "tests/unit/web/web_harness.h"

#define FIXTURE web_begin, web_end

/* --- connections ------------------------------------------------------------------------------ */

TEST_IN(web, connection_without_request_makes_room_oldest_first)
{
    int fds[PLACES];
    fds[0] = web_dialled();
    web_reset_response();
    web_send(fds[0], "GET /api/v1/pool HTTP/1.1\r\n" LOCAL
                     "\r\n"); /* this request waits for its response */
    TURN_UNTIL(harness.web.base, harness.waiting);
    for (int i = 1; i < PLACES - 1; i++) {
        web_pass(10);
        fds[i] = web_dialled();
    }
    web_pass(10);
    fds[3] = web_dial(); /* the last connection that is allowed */
    TURN_UNTIL(harness.web.base, http_shut(harness.web.http) == 1);
    TURN_UNTIL(harness.web.base, web_is_shut(fds[1]));
    assert_false(web_is_shut(fds[2]));
    assert_false(web_is_shut(fds[0]));
    web_pass(100);
    assert_int_equal(http_connections(harness.web.http), PLACES - 1);
    reply_problem(harness.waiting, 503, "x", "y");
    harness.waiting = NULL;
    TURN_UNTIL(harness.web.base, web_receive(fds[0]) && web_code() == 503);
    web_reset_response();
    web_send(fds[3],
             "GET /api/v1/status HTTP/1.1\r\n" LOCAL "\r\n"); /* the last connection works */
    TURN_UNTIL(harness.web.base, web_receive(fds[3]) && web_code() == 200);
    const int fifth = web_dial(); /* another connection is accepted again */
    TURN_UNTIL(harness.web.base, http_shut(harness.web.http) == 2);
    TURN_UNTIL(harness.web.base, web_is_shut(fds[2]));
    for (int i = 0; i < PLACES; i++) {
        close(fds[i]);
    }
    close(fifth);
    TURN_UNTIL(harness.web.base, (web_pass(100), http_connections(harness.web.http) == 0));
}

TEST_IN(web, request_that_comes_too_slowly_is_closed)
{
    const int fd = web_dialled();
    web_send(fd, "GET /api/v1/status HTTP/1.1\r\n");
    for (int64_t ms = 0; ms < HTTP_REQUEST_MS; ms += 500) {
        web_send(fd, "X");
        web_pass(500);
    }
    assert_false(web_is_shut(fd));
    web_pass(200);
    TURN_UNTIL(harness.web.base, web_is_shut(fd));
    close(fd);
}

TEST_IN(web, response_and_next_request_have_separate_time_limits)
{
    const int fd = web_dialled();
    web_send(fd, "GET /api/v1/pool HTTP/1.1\r\n" LOCAL "\r\n");
    TURN_UNTIL(harness.web.base, harness.waiting);
    web_send(fd, "GET /api/v1/status HTTP/1.1\r\n" LOCAL
                 "\r\n");             /* pipelined: not read before the response is complete */
    web_pass(HTTP_REQUEST_MS + 1000); /* the request waits for the server */
    assert_int_equal(harness.web.n_requests, 1);
    assert_false(web_is_shut(fd));
    web_reset_response();
    reply_problem(harness.waiting, 503, "x", "y");
    harness.waiting = NULL;
    TURN_UNTIL(harness.web.base, web_receive(fd) && web_has("HTTP/1.1 200 "));
    assert_int_equal(web_code(), 503); /* the handler has responded first */
    web_pass(HTTP_REQUEST_MS - 200);
    assert_false(web_is_shut(fd));
    web_pass(400); /* no request has come since */
    TURN_UNTIL(harness.web.base, web_is_shut(fd));
    close(fd);
    const int slow = web_dialled();
    web_pass(HTTP_REQUEST_MS - 1000); /* the time of the response does not count */
    web_send(slow, "GET /api/v1/gauges?bytes=8000000 HTTP/1.1\r\n" LOCAL "\r\n");
    web_pass(HTTP_RESPONSE_MS - 1000);
    assert_int_equal(http_connections(harness.web.http), 1);
    web_pass(1200);
    TURN_UNTIL(harness.web.base, (web_pass(100), http_connections(harness.web.http) == 0));
    close(slow);
}

TEST_IN(web, unread_responses_are_bounded)
{
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = web_dialled();
        web_send(fds[i], "GET /api/v1/gauges?bytes=32000000 HTTP/1.1\r\n" LOCAL "\r\n");
        web_pass(200);
    }
    assert_int_equal(http_shut(harness.web.http), 1); /* 96 MB exceed the limit of 64 MiB */
    TURN_UNTIL(harness.web.base, (web_pass(100), http_connections(harness.web.http) == 2));
    web_reset_response();
    TURN_UNTIL(harness.web.base, !web_receive(fds[0])); /* the oldest one is closed */
    for (int i = 0; i < 3; i++) {
        close(fds[i]);
    }
}

TEST_IN(web, headers_and_bodies_are_bounded)
{
    static char text[HTTP_BODY_MAX + 4096];
    int n = snprintf(text, sizeof text,
                     "GET /api/v1/status HTTP/1.1\r\nConnection: close\r\n" LOCAL "X: ");
    memset(text + n, 'x', HTTP_HEADERS_MAX);
    (void)strcpy(text + n + HTTP_HEADERS_MAX, "\r\n\r\n");
    assert_int_equal(web_ask(text), 431);
    n = snprintf(text, sizeof text,
                 "POST /api/v1/nodes/n/drain HTTP/1.1\r\nConnection: close\r\n%s"
                 "Content-Length: %d\r\n\r\n",
                 web_bearer(&harness.admin), HTTP_BODY_MAX + 1);
    assert_int_equal(web_ask(text), 413);
    assert_int_equal(harness.orders, 0);
}

/* --- views of tokens -------------------------------------------------------------------------- */

TEST_IN(web, unused_view_is_freed_after_its_idle_time)
{
    struct view *first;
    struct view *again;
    assert_int_equal(views_use(harness.web.views, &harness.observer, NULL, &first), 0);
    assert_int_equal(views_use(harness.web.views, &harness.observer, NULL, &again), 0);
    assert_ptr_equal(first, again);
    assert_int_equal(first->users, 2);
    view_leave(first);
    web_pass(10L * VIEWS_IDLE_MS + VIEWS_IDLE_MS / 2); /* longer than several checks */
    assert_int_equal(first->users, 1);
    view_leave(first);
    memset(&harness.client, 0, sizeof harness.client);
    web_pass(VIEWS_IDLE_MS - 1000);
    assert_int_equal(views_use(harness.web.views, &harness.observer, NULL, &again), 0);
    assert_null(harness.client.join); /* the view still exists */
    view_leave(again);
    web_pass(3L * VIEWS_IDLE_MS);
    assert_int_equal(views_use(harness.web.views, &harness.observer, NULL, &again), 0);
    assert_non_null(harness.client.join); /* the view is new */
    view_leave(again);
}

TEST_IN(web, rejected_token_is_tried_again_with_a_new_view)
{
    struct view *first;
    struct view *again;
    assert_int_equal(views_use(harness.web.views, &harness.observer, NULL, &first), 0);
    const struct client_config config = harness.client;
    view_reject(first);
    assert_int_equal(views_use(harness.web.views, &harness.observer, NULL, &again), 0);
    assert_ptr_not_equal(first, again);
    config.connected(config.ctx); /* the server accepts the token after all */
    assert_false(first->is_rejected);
    view_reject(first);
    view_leave(first);
    web_pass(0); /* the rejected view is freed at once */
    view_leave(again);
}

TEST_IN(web, rejected_own_token_is_replaced_by_one_of_the_same_role_only)
{
    struct view *before = harness.web.own;
    harness.found = &harness.own; /* the file has the same token */
    view_reject(harness.web.own);
    assert_ptr_equal(harness.web.own, before);
    harness.found = &harness.admin; /* every caller would see as much as the admin */
    view_reject(harness.web.own);
    assert_ptr_equal(harness.web.own, before);
    harness.found = &harness.observer;
    view_reject(harness.web.own);
    assert_ptr_not_equal(harness.web.own, before);
    assert_int_equal(harness.web.own->users, 1);
    assert_memory_equal(harness.web.server.token->secret, harness.observer.secret,
                        TOKEN_SECRET_BYTES);
    assert_int_equal(web_get("/api/v1/status"), 200);
    harness.found = NULL; /* the file cannot be read */
    view_reject(harness.web.own);
    assert_int_equal(harness.web.own->users, 1);
}

/* Uses all views, then releases them. */
static void fill_views(struct token *token)
{
    struct view *views[VIEWS_MAX];
    unsigned n = 0;
    int rc = 0;
    while (rc == 0) {
        token->key_id[TOKEN_KEY_ID_BYTES - 1]++;
        assert_true(n < VIEWS_MAX);
        rc = views_use(harness.web.views, token, NULL, &views[n]);
        n += rc == 0;
    }
    assert_int_equal(rc, TFE_EFULL);
    assert_int_equal(n, VIEWS_MAX - 1); /* one is tfe-web's own */
    while (n > 0) {
        view_leave(views[--n]);
    }
}

TEST_IN(web, unused_view_makes_room_for_another_token)
{
    struct token token = harness.observer;
    fill_views(&token);
    fill_views(&token); /* works at once because the first views are unused */
    web_pass(3L * VIEWS_IDLE_MS);
    fill_views(&token);
}

static int use_new(struct token *token, const uint8_t source[HTTP_SOURCE_BYTES])
{
    struct view *view;
    token->key_id[TOKEN_KEY_ID_BYTES - 1]++;
    const int rc = views_use(harness.web.views, token, source, &view);
    if (rc == 0) {
        view_leave(view);
    }
    return rc;
}

TEST_IN(web, source_with_many_new_tokens_is_limited_others_are_not)
{
    const uint8_t evil[HTTP_SOURCE_BYTES] = {1};
    const uint8_t honest[HTTP_SOURCE_BYTES] = {2};
    struct token token = harness.observer;
    for (int i = 0; i < VIEWS_NEW_BURST; i++) {
        assert_int_equal(use_new(&token, evil), 0);
    }
    for (int i = 0; i < 100; i++) {
        assert_int_equal(use_new(&token, evil), TFE_EFULL);
    }
    assert_int_equal(use_new(&token, honest), 0);
    web_pass(VIEWS_NEW_MS);
    assert_int_equal(use_new(&token, evil), 0);
    assert_int_equal(use_new(&token, evil), TFE_EFULL);
}

/* --- event streams ---------------------------------------------------------------------------- */

static int follow(const char *headers)
{
    char text[1024];
    const int fd = web_dialled();
    (void)snprintf(text, sizeof text, "GET /api/v1/stream HTTP/1.1\r\n%s\r\n", headers);
    web_reset_response();
    web_send(fd, text);
    TURN_UNTIL(harness.web.base, web_receive(fd) && web_has("event: state\n"));
    return fd;
}

static struct evbuffer *event_of(const char *text, size_t more)
{
    struct evbuffer *out = evbuffer_new();
    char *bytes = calloc(1, more + 1);
    assert_non_null(bytes);
    memset(bytes, 'x', more);
    assert_int_equal(evbuffer_add_printf(out, "data: %s", text), 6 + (int)strlen(text));
    assert_int_equal(evbuffer_add(out, bytes, more), 0);
    assert_int_equal(evbuffer_add(out, "\n\n", 2), 0);
    free(bytes);
    return out;
}

static void change(const char *text, size_t more, bool is_whole)
{
    struct evbuffer *event = event_of(text, more);
    stream_write_change(harness.stream, web_topic, event, is_whole);
    evbuffer_free(event);
}

/* Reads until the text has been received. */
static void until_heard(int fd, const char *text)
{
    TURN_UNTIL(harness.web.base, web_receive(fd) && web_has(text));
}

enum { MUCH = 4 << 20 }; /* more than a stream may be behind, and more than the kernel buffers */

/* Reads an event of MUCH bytes to the end of its chunk. */
static void read_much(int fd)
{
    static char bytes[65536];
    size_t all = 0;
    char tail[5] = "";
    while (all < MUCH || strcmp(tail, "\n\n\r\n") != 0) {
        const ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        assert_true(n > 0 || (n < 0 && errno == EAGAIN));
        all += n > 0 ? (size_t)n : 0;
        for (ssize_t b = n > 4 ? n - 4 : 0; b < n; b++) {
            memmove(tail, tail + 1, 3);
            tail[3] = bytes[b];
        }
        web_turn();
    }
}

TEST_IN(web, stream_sends_changes_and_heartbeats)
{
    const int fd = follow(LOCAL);
    assert_int_equal(web_streams(), 1);
    assert_int_equal(harness.sent_all, 1);
    assert_true(web_has("text/event-stream"));
    web_send(fd, "GET /api/v1/status HTTP/1.1\r\n\r\n"); /* pipelined: not read before the response
                                                            is complete */
    change("one", 0, false);
    until_heard(fd, "data: one\n\n");
    assert_int_equal(harness.web.n_requests, 1);
    web_reset_response();
    web_pass(4900);
    TURN_UNTIL(harness.web.base, web_receive(fd));
    assert_false(web_has(":\n\n"));
    web_pass(1000);
    until_heard(fd, ":\n\n");
    harness.client.waiting(harness.client.ctx,
                           "it is away"); /* reports that the server is not reachable */
    until_heard(fd, "\"up\":false,\"why\":\"it is away\"");
    web_reset_response();
    harness.client.waiting(harness.client.ctx, "it is away"); /* the state is sent once */
    harness.client.connected(harness.client.ctx);
    until_heard(fd, "\"up\":true");
    assert_false(web_has("\"up\":false"));
    close(fd);
    TURN_UNTIL(harness.web.base, web_streams() == 0);
    assert_int_equal(harness.quits, 1);
}

TEST_IN(web, stream_that_was_behind_gets_whole_topics)
{
    const int fd = follow(LOCAL);
    change("much", MUCH, false);
    assert_true(stream_is_behind(harness.stream));
    change("missed", 0, false);
    read_much(fd);
    assert_false(stream_is_behind(harness.stream));
    change("part", 0, false); /* a part of a topic that the client has missed */
    web_reset_response();
    web_turn();
    TURN_UNTIL(harness.web.base, web_receive(fd));
    assert_false(web_has("part"));
    assert_int_equal(harness.sent_all, 1);
    web_pass(500);
    assert_int_equal(harness.sent_all, 2);
    change("next", 0, false);
    until_heard(fd, "data: next\n\n");
    change("much", MUCH, false);
    change("missed", 0, false);
    read_much(fd);
    change("whole", 0, true); /* a whole topic replaces what the client has missed */
    until_heard(fd, "data: whole\n\n");
    web_pass(500);
    assert_int_equal(harness.sent_all, 2);
    close(fd);
    TURN_UNTIL(harness.web.base, web_streams() == 0);
}

TEST_IN(web, stream_that_is_never_read_is_closed)
{
    const int fd = follow(LOCAL);
    change("much", MUCH, false);
    web_pass(STREAM_CUT_MS - 1000);
    assert_int_equal(web_streams(), 1);
    web_pass(2000);
    assert_int_equal(web_streams(), 0);
    assert_int_equal(harness.web.n_cut, 1);
    close(fd);
}

TEST_IN(web, stream_ends_with_its_login_and_not_with_the_response_time)
{
    char cookie[128];
    char headers[256];
    assert_int_equal(web_get_as("GET", "/api/v1/session", web_bearer(&harness.observer)), 200);
    assert_int_equal(sscanf(strstr(harness.answer, "Set-Cookie: "), "Set-Cookie: %127[^;]", cookie),
                     1);
    (void)snprintf(headers, sizeof headers, LOCAL "Cookie: %s\r\n", cookie);
    const int fd = follow(headers);
    for (int i = 0; i < 100; i++) {
        web_pass(1000);
        TURN_UNTIL(harness.web.base, web_receive(fd));
    }
    assert_int_equal(web_streams(), 1);
    assert_int_equal(http_shut(harness.web.http), 0);
    struct view *view;
    assert_int_equal(views_use(harness.web.views, &harness.observer, NULL, &view), 0);
    logins_end_view(harness.web.logins, view);
    view_leave(view);
    web_pass(500);
    assert_int_equal(web_streams(), 0);
    assert_int_equal(harness.web.n_cut, 0);
    close(fd);
}

TEST_IN(web, streams_above_the_share_of_a_source_are_refused_those_of_a_token_are_not)
{
    enum { SHARE = (SHARE_STREAMS_MAX - SHARE_STREAMS_RESERVE) / 4 };
    struct share held[SHARE] = {{.all = NULL}};
    struct view *view;
    const uint8_t here[HTTP_SOURCE_BYTES] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
    for (int i = 0; i < SHARE; i++) {
        const struct share_holder holder = {.source = here};
        assert_true(share_enter(harness.web.shares, SHARE_STREAMS, &holder, NULL, NULL, &held[i]));
    }
    assert_int_equal(web_get("/api/v1/stream"), 503);
    assert_int_equal(views_use(harness.web.views, &harness.observer, NULL, &view), 0);
    view->is_accepted = true;
    char headers[512];
    (void)snprintf(headers, sizeof headers, "%s", web_bearer(&harness.observer));
    const int fd = follow(headers);
    assert_int_equal(web_streams(), SHARE + 1);
    for (int i = 0; i < SHARE; i++) {
        share_release(&held[i]);
    }
    close(fd);
    TURN_UNTIL(harness.web.base, web_streams() == 0);
    view_leave(view);
}

TEST_IN(web, streams_of_a_rejected_token_end)
{
    const int fd = follow(web_bearer(&harness.observer));
    struct view *view;
    assert_int_equal(views_use(harness.web.views, &harness.observer, NULL, &view), 0);
    view_reject(view);
    view_leave(view);
    web_turn();
    assert_int_equal(web_streams(), 0);
    TURN_UNTIL(harness.web.base, web_is_shut(fd) || !web_receive(fd));
    close(fd);
}
