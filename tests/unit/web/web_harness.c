/* tests/unit/web/web_harness.c: see web_harness.h. */
#include "tests/unit/web/web_harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/web/api.h"
#include "server/web/logins.h"
#include "server/web/reply.h"
#include "server/web/routes.h"
#include "server/web/shares.h"
#include "server/web/streams.h"
#include "server/web/token_reader.h"
#include "tests/unit/fake_clock.h"

struct web_harness harness;

struct topic *const web_topic = (struct topic *)&harness;

uint32_t web_streams(void)
{
    return shares_count(harness.web.shares, SHARE_STREAMS);
}

/* --- fake server client ----------------------------------------------------------------------- */

int __wrap_client_new(const struct client_config *config, struct client **ret);
int __wrap_client_new(const struct client_config *config, struct client **ret)
{
    harness.client = *config;
    *ret = NULL;
    return 0;
}

void __wrap_client_free(struct client *c);
void __wrap_client_free(struct client *c) {}

int __wrap_token_reader_read(struct token_reader *reader, struct join_info *ret);
int __wrap_token_reader_read(struct token_reader *reader, struct join_info *ret)
{
    if (!harness.found) {
        return TFE_EAUTH;
    }
    *ret = (struct join_info){.port = 1, .token = sodium_malloc(sizeof *ret->token)};
    *ret->token = *harness.found;
    return 0;
}

struct topic *__wrap_topic_join(struct view *view, enum topic_kind kind, const char *job,
                                struct stream *stream);
struct topic *__wrap_topic_join(struct view *view, enum topic_kind kind, const char *job,
                                struct stream *stream)
{
    return web_topic;
}

void __wrap_topic_leave(struct topic *topic, struct stream *stream);
void __wrap_topic_leave(struct topic *topic, struct stream *stream)
{
    harness.quits++;
}

void __wrap_topic_send_all(struct topic *topic, struct stream *stream);
void __wrap_topic_send_all(struct topic *topic, struct stream *stream)
{
    harness.sent_all++;
}

/* --- fake handlers ---------------------------------------------------------------------------- */

static const char *role_of(const struct request *r)
{
    return r->view ? principal_role_name(view_role(r->view)) : "nobody";
}

/* Starts a login of the caller's view and responds with its CSRF token. */
void __wrap_api_session(struct request *r);
void __wrap_api_session(struct request *r)
{
    char csrf[LOGIN_TEXT_MAX];
    login_csrf(logins_begin(r->web->logins, r->view, r->req), csrf);
    reply_json(r->req, 200, json_pack("{s:s}", "csrf", csrf));
}

void __wrap_api_stream(struct request *r);
void __wrap_api_stream(struct request *r)
{
    struct stream *stream = stream_new(r);
    if (!stream) {
        reply_problem(r->req, 503, "limit_reached", "too many pages are open");
        return;
    }
    harness.stream = stream;
    stream_join(stream, TOPIC_FLEET, "");
}

static void show_order(struct request *r)
{
    char *body = r->body ? json_dumps(r->body, JSON_COMPACT) : NULL;
    harness.orders++;
    (void)snprintf(harness.body, sizeof harness.body, "%s", body ? body : "");
    free(body);
    reply_json(r->req, 200, json_pack("{s:s}", "node", r->name));
}

/* Responds with the number of bytes that the query names. */
static void send_bytes(struct request *r)
{
    uint64_t n = 0;
    if (request_number(r, "bytes", 1, 1 << 30, &n)) {
        struct evbuffer *out = evbuffer_new();
        char *bytes = calloc(1, n + 1);
        assert_non_null(bytes);
        memset(bytes, 'x', n);
        assert_int_equal(evbuffer_add(out, bytes, n), 0);
        free(bytes);
        reply_buffer(r->req, "text/plain", out);
        evbuffer_free(out);
    }
}

void __wrap_api_operate(struct request *r);
void __wrap_api_operate(struct request *r)
{
    const enum operation_id operation = r->route->operation;
    if (operation == OPERATION_POOL) { /* without a response, as if the server had the query */
        harness.waiting = r->req;
    } else if (operation == OPERATION_GAUGES) {
        send_bytes(r);
    } else if (operation == OPERATION_DRAIN) {
        show_order(r);
    } else if (operation == OPERATION_JOB) {
        reply_json(r->req, 200, json_pack("{s:s}", "job", r->name));
    } else {
        reply_json(r->req, 200, json_pack("{s:s}", "role", role_of(r)));
    }
}

/* --- HTTP client ------------------------------------------------------------------------------ */

void web_turn(void)
{
    for (int i = 0; i < 8; i++) {
        (void)event_base_loop(harness.web.base, EVLOOP_NONBLOCK);
    }
}

void web_pass(int64_t ms)
{
    fake_clock_pass(harness.web.base, ms);
    web_turn();
}

int web_dial(void)
{
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons(http_port(harness.web.http)),
                                   .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int small = 4096;
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    assert_true(connect(fd, (const struct sockaddr *)&at, sizeof at) == 0 || errno == EINPROGRESS);
    return fd;
}

int web_dialled(void)
{
    const uint32_t before = http_connections(harness.web.http);
    const int fd = web_dial();
    TURN_UNTIL(harness.web.base, http_connections(harness.web.http) == before + 1);
    return fd;
}

void web_send(int fd, const char *text)
{
    size_t n = strlen(text);
    while (n > 0) {
        const ssize_t sent = send(fd, text, n, MSG_NOSIGNAL);
        assert_true(sent > 0 || errno == EAGAIN);
        n -= sent > 0 ? (size_t)sent : 0;
        text += sent > 0 ? sent : 0;
        web_turn();
    }
}

/* Appends to the response. Returns false at the end of the connection. */
bool web_receive(int fd)
{
    char rest[65536];
    const ssize_t n = recv(fd, rest, sizeof rest, 0);
    if (n > 0) {
        const size_t room = ANSWER_MAX - 1 - harness.n_answer;
        const size_t some = (size_t)n < room ? (size_t)n : room;
        memcpy(harness.answer + harness.n_answer, rest, some);
        harness.n_answer += some;
        harness.answer[harness.n_answer] = '\0';
    }
    web_turn();
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));
}

bool web_is_shut(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK) == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

void web_reset_response(void)
{
    harness.n_answer = 0;
    harness.answer[0] = '\0';
}

/* Returns the status of the response, or 0 if none has come. */
int web_code(void)
{
    int number = 0;
    return sscanf(harness.answer, "HTTP/1.1 %d ", &number) == 1 ? number : 0;
}

/* Sends a request on a new connection. Returns the status of the response. */
int web_ask(const char *text)
{
    const int fd = web_dial();
    web_reset_response();
    TURN_UNTIL(harness.web.base, http_connections(harness.web.http) > 0);
    web_send(fd, text);
    TURN_UNTIL(harness.web.base, !web_receive(fd));
    close(fd);
    web_pass(100); /* the connection is closed */
    return web_code();
}

int web_get_as(const char *method, const char *path, const char *headers)
{
    char text[4096];
    (void)snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nConnection: close\r\n%s\r\n", method, path,
                   headers);
    return web_ask(text);
}

int web_get(const char *path)
{
    return web_get_as("GET", path, LOCAL);
}

const char *web_bearer(const struct token *token)
{
    static char header[TOKEN_TEXT_MAX + 64];
    char text[TOKEN_TEXT_MAX];
    token_format(token, text);
    (void)snprintf(header, sizeof header, LOCAL "Authorization: Bearer %s\r\n", text);
    return header;
}

int web_order_as(const char *headers, const char *type, const char *body)
{
    char text[4096];
    (void)snprintf(text, sizeof text,
                   "POST /api/v1/nodes/n/drain HTTP/1.1\r\nConnection: close\r\n%s%s%s"
                   "Content-Length: %zu\r\n\r\n%s",
                   headers, type ? "Content-Type: " : "", type ? type : "", strlen(body), body);
    return web_ask(text);
}

bool web_has(const char *text)
{
    return strstr(harness.answer, text) != NULL;
}

/* --- set-up and tear-down --------------------------------------------------------------------- */

int web_begin(void **state)
{
    static uint8_t root[TOKEN_ROOT_BYTES], key[TOKEN_PUBLIC_KEY_BYTES], other[sizeof key];
    struct tfe_reason reason;
    memset(&harness, 0, sizeof harness);
    assert_true(sodium_init() >= 0);
    randombytes_buf(root, sizeof root);
    randombytes_buf(key, sizeof key);
    randombytes_buf(other, sizeof other);
    token_mint(&harness.own, &(struct token_config){.role = PRINCIPAL_OBSERVER}, root, key);
    token_mint(&harness.observer, &(struct token_config){.role = PRINCIPAL_OBSERVER}, root, key);
    token_mint(&harness.admin, &(struct token_config){.role = PRINCIPAL_ADMIN}, root, key);
    token_mint(&harness.agent, &(struct token_config){.role = PRINCIPAL_AGENT}, root, key);
    token_mint(&harness.foreign, &(struct token_config){.role = PRINCIPAL_ADMIN}, root, other);
    (void)signal(SIGPIPE, SIG_IGN); /* as tfe-web does */
    fake_clock_init();
    harness.settings = (struct web_settings){.bind = "127.0.0.1", .max_connections = PLACES};
    harness.web.settings = &harness.settings;
    harness.web.base = event_base_new();
    harness.web.server.token = sodium_malloc(sizeof harness.own);
    *harness.web.server.token = harness.own;
    assert_int_equal(shares_new(&harness.web.shares), 0);
    assert_int_equal(views_new(&harness.web, &harness.web.views), 0);
    assert_int_equal(logins_new(&harness.web, &harness.web.logins), 0);
    assert_int_equal(views_use(harness.web.views, &harness.own, NULL, &harness.web.own), 0);
    const struct http_handler handler = routes_handler(&harness.web);
    assert_int_equal(
        http_new(harness.web.base, &harness.settings, &handler, &harness.web.http, &reason), 0);
    return 0;
}

int web_end(void **state)
{
    http_free(harness.web.http);
    web_turn();
    assert_int_equal(web_streams(), 0);
    assert_int_equal(harness.web.own->users, 1);
    logins_free(harness.web.logins);
    view_leave(harness.web.own);
    views_free(harness.web.views);
    shares_free(harness.web.shares);
    join_done(&harness.web.server);
    event_base_free(harness.web.base);
    return 0;
}
