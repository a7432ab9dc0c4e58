/* tests/unit/web/test_pages.c: which connections to tfe-web make room, and when; what a token sees,
 * and what pages that stay are told. */
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
#include "tests/unit/web/web_bench.h"

#define FIXTURE web_begin, web_end

/* --- connections ------------------------------------------------------------------------------ */

TEST_IN(web, who_asks_for_nothing_makes_room_the_oldest_first)
{
    int fds[PLACES];
    fds[0] = web_dialled();
    web_hear_nothing();
    web_say(fds[0], "GET /api/v1/pool HTTP/1.1\r\n" LOCAL "\r\n"); /* its answer is waited for */
    TURN_UNTIL(bench.web.base, bench.waiting);
    for (int i = 1; i < PLACES - 1; i++) {
        web_pass(10);
        fds[i] = web_dialled();
    }
    web_pass(10);
    fds[3] = web_dial(); /* the last place */
    TURN_UNTIL(bench.web.base, http_shut(bench.web.http) == 1);
    TURN_UNTIL(bench.web.base, web_is_shut(fds[1]));
    assert_false(web_is_shut(fds[2]));
    assert_false(web_is_shut(fds[0]));
    web_pass(100);
    assert_int_equal(http_connections(bench.web.http), PLACES - 1);
    reply_problem(bench.waiting, 503, "x", "y");
    bench.waiting = NULL;
    TURN_UNTIL(bench.web.base, web_hear(fds[0]) && web_code() == 503);
    web_hear_nothing();
    web_say(fds[3], "GET /api/v1/status HTTP/1.1\r\n" LOCAL "\r\n"); /* as good as any other */
    TURN_UNTIL(bench.web.base, web_hear(fds[3]) && web_code() == 200);
    const int fifth = web_dial(); /* there is a place again */
    TURN_UNTIL(bench.web.base, http_shut(bench.web.http) == 2);
    TURN_UNTIL(bench.web.base, web_is_shut(fds[2]));
    for (int i = 0; i < PLACES; i++) {
        close(fds[i]);
    }
    close(fifth);
    TURN_UNTIL(bench.web.base, (web_pass(100), http_connections(bench.web.http) == 0));
}

TEST_IN(web, a_request_is_made_in_its_time_however_slowly_it_comes)
{
    const int fd = web_dialled();
    web_say(fd, "GET /api/v1/status HTTP/1.1\r\n");
    for (int64_t ms = 0; ms < HTTP_REQUEST_MS; ms += 500) {
        web_say(fd, "X");
        web_pass(500);
    }
    assert_false(web_is_shut(fd));
    web_pass(200);
    TURN_UNTIL(bench.web.base, web_is_shut(fd));
    close(fd);
}

TEST_IN(web, an_answer_is_read_in_its_time_and_the_next_request_has_its_own)
{
    const int fd = web_dialled();
    web_say(fd, "GET /api/v1/pool HTTP/1.1\r\n" LOCAL "\r\n");
    TURN_UNTIL(bench.web.base, bench.waiting);
    web_say(fd, "GET /api/v1/status HTTP/1.1\r\n" LOCAL "\r\n"); /* which is not its turn */
    web_pass(HTTP_REQUEST_MS + 1000);                            /* it waits for the server */
    assert_int_equal(bench.web.n_requests, 1);
    assert_false(web_is_shut(fd));
    web_hear_nothing();
    reply_problem(bench.waiting, 503, "x", "y");
    bench.waiting = NULL;
    TURN_UNTIL(bench.web.base, web_hear(fd) && web_has("HTTP/1.1 200 "));
    assert_int_equal(web_code(), 503); /* came first */
    web_pass(HTTP_REQUEST_MS - 200);
    assert_false(web_is_shut(fd));
    web_pass(400); /* nothing was asked since */
    TURN_UNTIL(bench.web.base, web_is_shut(fd));
    close(fd);
    const int slow = web_dialled();
    web_pass(HTTP_REQUEST_MS - 1000); /* which is no time of the answer's */
    web_say(slow, "GET /api/v1/gauges?bytes=8000000 HTTP/1.1\r\n" LOCAL "\r\n");
    web_pass(HTTP_RESPONSE_MS - 1000);
    assert_int_equal(http_connections(bench.web.http), 1);
    web_pass(1200);
    TURN_UNTIL(bench.web.base, (web_pass(100), http_connections(bench.web.http) == 0));
    close(slow);
}

TEST_IN(web, answers_that_nobody_reads_are_bounded)
{
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = web_dialled();
        web_say(fds[i], "GET /api/v1/gauges?bytes=32000000 HTTP/1.1\r\n" LOCAL "\r\n");
        web_pass(200);
    }
    assert_int_equal(http_shut(bench.web.http), 1); /* 96 MB, of 64 MiB that may be */
    TURN_UNTIL(bench.web.base, (web_pass(100), http_connections(bench.web.http) == 2));
    web_hear_nothing();
    TURN_UNTIL(bench.web.base, !web_hear(fds[0])); /* the oldest */
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
                 web_bearer(&bench.admin), HTTP_BODY_MAX + 1);
    assert_int_equal(web_ask(text), 413);
    assert_int_equal(bench.orders, 0);
}

/* --- what a token sees ------------------------------------------------------------------------ */

TEST_IN(web, a_view_is_kept_while_it_is_used_and_a_little_longer)
{
    struct view *first;
    struct view *again;
    assert_int_equal(views_use(bench.web.views, &bench.observer, NULL, &first), 0);
    assert_int_equal(views_use(bench.web.views, &bench.observer, NULL, &again), 0);
    assert_ptr_equal(first, again);
    assert_int_equal(first->users, 2);
    view_leave(first);
    web_pass(10L * VIEWS_IDLE_MS + VIEWS_IDLE_MS / 2); /* it is looked at between */
    assert_int_equal(first->users, 1);
    view_leave(first);
    memset(&bench.client, 0, sizeof bench.client);
    web_pass(VIEWS_IDLE_MS - 1000);
    assert_int_equal(views_use(bench.web.views, &bench.observer, NULL, &again), 0);
    assert_null(bench.client.join); /* it was there still */
    view_leave(again);
    web_pass(3L * VIEWS_IDLE_MS);
    assert_int_equal(views_use(bench.web.views, &bench.observer, NULL, &again), 0);
    assert_non_null(bench.client.join); /* a new connection */
    view_leave(again);
}

TEST_IN(web, a_token_that_was_refused_is_asked_about_anew)
{
    struct view *first;
    struct view *again;
    assert_int_equal(views_use(bench.web.views, &bench.observer, NULL, &first), 0);
    const struct client_config config = bench.client;
    view_reject(first);
    assert_int_equal(views_use(bench.web.views, &bench.observer, NULL, &again), 0);
    assert_ptr_not_equal(first, again);
    config.connected(config.ctx); /* the server takes it after all */
    assert_false(first->is_rejected);
    view_reject(first);
    view_leave(first);
    web_pass(0); /* it holds no place */
    view_leave(again);
}

TEST_IN(web, our_own_token_is_read_anew_where_it_is_refused_but_none_of_another_role)
{
    struct view *before = bench.web.own;
    bench.found = &bench.own; /* the file is as it was */
    view_reject(bench.web.own);
    assert_ptr_equal(bench.web.own, before);
    bench.found = &bench.admin; /* everybody who looks would see as much as he */
    view_reject(bench.web.own);
    assert_ptr_equal(bench.web.own, before);
    bench.found = &bench.observer;
    view_reject(bench.web.own);
    assert_ptr_not_equal(bench.web.own, before);
    assert_int_equal(bench.web.own->users, 1);
    assert_memory_equal(bench.web.server.token->secret, bench.observer.secret, TOKEN_SECRET_BYTES);
    assert_int_equal(web_get("/api/v1/status"), 200);
    bench.found = NULL; /* it cannot be read again */
    view_reject(bench.web.own);
    assert_int_equal(bench.web.own->users, 1);
}

/* As many as there may be; then they are left. */
static void fill_views(struct token *token)
{
    struct view *views[VIEWS_MAX];
    unsigned n = 0;
    int rc = 0;
    while (rc == 0) {
        token->key_id[TOKEN_KEY_ID_BYTES - 1]++;
        assert_true(n < VIEWS_MAX);
        rc = views_use(bench.web.views, token, NULL, &views[n]);
        n += rc == 0;
    }
    assert_int_equal(rc, TFE_EFULL);
    assert_int_equal(n, VIEWS_MAX - 1); /* and our own */
    while (n > 0) {
        view_leave(views[--n]);
    }
}

TEST_IN(web, an_unused_view_makes_room_for_another_token)
{
    struct token token = bench.observer;
    fill_views(&token);
    fill_views(&token); /* at once: nobody uses the first ones */
    web_pass(3L * VIEWS_IDLE_MS);
    fill_views(&token);
}

static int use_new(struct token *token, const uint8_t source[HTTP_SOURCE_BYTES])
{
    struct view *view;
    token->key_id[TOKEN_KEY_ID_BYTES - 1]++;
    const int rc = views_use(bench.web.views, token, source, &view);
    if (rc == 0) {
        view_leave(view);
    }
    return rc;
}

TEST_IN(web, a_source_that_shows_many_new_tokens_is_limited_and_no_other_is)
{
    const uint8_t evil[HTTP_SOURCE_BYTES] = {1};
    const uint8_t honest[HTTP_SOURCE_BYTES] = {2};
    struct token token = bench.observer;
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

/* --- pages that stay -------------------------------------------------------------------------- */

static int follow(const char *headers)
{
    char text[1024];
    const int fd = web_dialled();
    (void)snprintf(text, sizeof text, "GET /api/v1/stream HTTP/1.1\r\n%s\r\n", headers);
    web_hear_nothing();
    web_say(fd, text);
    TURN_UNTIL(bench.web.base, web_hear(fd) && web_has("event: state\n"));
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
    stream_write_change(bench.stream, web_topic, event, is_whole);
    evbuffer_free(event);
}

/* The page reads until that has come. */
static void until_heard(int fd, const char *text)
{
    TURN_UNTIL(bench.web.base, web_hear(fd) && web_has(text));
}

enum { MUCH = 4 << 20 }; /* more than the page may be behind, and the kernel takes */

/* It reads all of an event of so many bytes, to the end of its chunk. */
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

TEST_IN(web, a_page_is_told_what_changes_and_beats_meanwhile)
{
    const int fd = follow(LOCAL);
    assert_int_equal(web_streams(), 1);
    assert_int_equal(bench.told_all, 1);
    assert_true(web_has("text/event-stream"));
    web_say(fd, "GET /api/v1/status HTTP/1.1\r\n\r\n"); /* which is not its turn */
    change("one", 0, false);
    until_heard(fd, "data: one\n\n");
    assert_int_equal(bench.web.n_requests, 1);
    web_hear_nothing();
    web_pass(4900);
    TURN_UNTIL(bench.web.base, web_hear(fd));
    assert_false(web_has(":\n\n"));
    web_pass(1000);
    until_heard(fd, ":\n\n");
    bench.client.waiting(bench.client.ctx, "it is away"); /* the server */
    until_heard(fd, "\"up\":false,\"why\":\"it is away\"");
    web_hear_nothing();
    bench.client.waiting(bench.client.ctx, "it is away"); /* said once */
    bench.client.connected(bench.client.ctx);
    until_heard(fd, "\"up\":true");
    assert_false(web_has("\"up\":false"));
    close(fd);
    TURN_UNTIL(bench.web.base, web_streams() == 0);
    assert_int_equal(bench.quits, 1);
}

TEST_IN(web, a_page_that_is_behind_gets_all_of_it_once_it_has_caught_up)
{
    const int fd = follow(LOCAL);
    change("much", MUCH, false);
    assert_true(stream_is_behind(bench.stream));
    change("missed", 0, false);
    read_much(fd);
    assert_false(stream_is_behind(bench.stream));
    change("part", 0, false); /* a part of what it does not know */
    web_hear_nothing();
    web_turn();
    TURN_UNTIL(bench.web.base, web_hear(fd));
    assert_false(web_has("part"));
    assert_int_equal(bench.told_all, 1);
    web_pass(500);
    assert_int_equal(bench.told_all, 2);
    change("next", 0, false);
    until_heard(fd, "data: next\n\n");
    change("much", MUCH, false);
    change("missed", 0, false);
    read_much(fd);
    change("whole", 0, true); /* which it may know without what it missed */
    until_heard(fd, "data: whole\n\n");
    web_pass(500);
    assert_int_equal(bench.told_all, 2);
    close(fd);
    TURN_UNTIL(bench.web.base, web_streams() == 0);
}

TEST_IN(web, a_page_that_never_reads_is_cut)
{
    const int fd = follow(LOCAL);
    change("much", MUCH, false);
    web_pass(STREAM_CUT_MS - 1000);
    assert_int_equal(web_streams(), 1);
    web_pass(2000);
    assert_int_equal(web_streams(), 0);
    assert_int_equal(bench.web.n_cut, 1);
    close(fd);
}

TEST_IN(web, a_page_outlives_the_time_of_other_answers_but_not_its_login)
{
    char cookie[128];
    char headers[256];
    assert_int_equal(web_get_as("GET", "/api/v1/session", web_bearer(&bench.observer)), 200);
    assert_int_equal(sscanf(strstr(bench.answer, "Set-Cookie: "), "Set-Cookie: %127[^;]", cookie),
                     1);
    (void)snprintf(headers, sizeof headers, LOCAL "Cookie: %s\r\n", cookie);
    const int fd = follow(headers);
    for (int i = 0; i < 100; i++) {
        web_pass(1000);
        TURN_UNTIL(bench.web.base, web_hear(fd));
    }
    assert_int_equal(web_streams(), 1);
    assert_int_equal(http_shut(bench.web.http), 0);
    struct view *view;
    assert_int_equal(views_use(bench.web.views, &bench.observer, NULL, &view), 0);
    logins_end_view(bench.web.logins, view);
    view_leave(view);
    web_pass(500);
    assert_int_equal(web_streams(), 0);
    assert_int_equal(bench.web.n_cut, 0);
    close(fd);
}

TEST_IN(web, pages_above_the_share_of_a_source_are_refused_and_those_of_a_token_are_not)
{
    enum { SHARE = (SHARE_STREAMS_MAX - SHARE_STREAMS_RESERVE) / 4 };
    struct share held[SHARE] = {{.all = NULL}};
    struct view *view;
    const uint8_t here[HTTP_SOURCE_BYTES] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
    for (int i = 0; i < SHARE; i++) {
        const struct share_holder holder = {.source = here};
        assert_true(share_enter(bench.web.shares, SHARE_STREAMS, &holder, NULL, NULL, &held[i]));
    }
    assert_int_equal(web_get("/api/v1/stream"), 503);
    assert_int_equal(views_use(bench.web.views, &bench.observer, NULL, &view), 0);
    view->is_accepted = true;
    char headers[512];
    (void)snprintf(headers, sizeof headers, "%s", web_bearer(&bench.observer));
    const int fd = follow(headers);
    assert_int_equal(web_streams(), SHARE + 1);
    for (int i = 0; i < SHARE; i++) {
        share_release(&held[i]);
    }
    close(fd);
    TURN_UNTIL(bench.web.base, web_streams() == 0);
    view_leave(view);
}

TEST_IN(web, pages_of_a_token_that_is_refused_end)
{
    const int fd = follow(web_bearer(&bench.observer));
    struct view *view;
    assert_int_equal(views_use(bench.web.views, &bench.observer, NULL, &view), 0);
    view_reject(view);
    view_leave(view);
    web_turn();
    assert_int_equal(web_streams(), 0);
    TURN_UNTIL(bench.web.base, web_is_shut(fd) || !web_hear(fd));
    close(fd);
}
