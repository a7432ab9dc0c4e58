/* tests/unit/net/test_http.c: one question over loopback, to a service that behaves or does not. */
#include "common/net/http.h"
#include "tests/unit/net/wires.h"

static struct event_base *base;
static struct listener *listener;
static struct http_place place;
static struct http *http;
static unsigned open_before;

/* What the service does with a connection. */
static struct {
    const char *says; /* once it has heard the request; NULL: nothing */
    size_t bytes;     /* of filler after it */
    bool closes;      /* after that */
    bool resets;      /* instead, without an answer */
    unsigned drip_ms; /* between two bytes */
    int fd;
    size_t said;
    struct event *ready;
    struct event *drip;
    char heard[8192];
    size_t heard_n;
} service;

static struct {
    unsigned told;
    int status;
    char body[256];
    size_t body_n;
    char error[256];
    struct timespec when;
} seen;

static void service_close(void)
{
    if (service.fd >= 0) {
        event_free(service.ready);
        assert_int_equal(close(service.fd), 0);
        service.fd = -1;
    }
}

static void service_speak(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    (void)ctx;
    const size_t n = service.says ? strlen(service.says) : 0;
    static char filler[1024];
    memset(filler, 'x', sizeof filler);
    while (service.said < n + service.bytes) {
        const bool text = service.said < n;
        const char *from = text ? service.says + service.said : filler;
        size_t left = text ? n - service.said : n + service.bytes - service.said;
        left = left < sizeof filler ? left : sizeof filler;
        ssize_t sent = send(service.fd, from, service.drip_ms ? 1 : left, MSG_NOSIGNAL);
        if (sent < 0) {
            service_close(); /* the other side has had enough */
            return;
        }
        service.said += (size_t)sent;
        if (service.drip_ms) {
            const struct timeval pause = {.tv_usec = (suseconds_t)service.drip_ms * 1000};
            assert_int_equal(evtimer_add(service.drip, &pause), 0);
            return;
        }
    }
    if (service.closes) {
        service_close();
    }
}

static void service_hear(evutil_socket_t fd, short what, void *ctx)
{
    (void)what;
    (void)ctx;
    ssize_t n =
        recv(fd, service.heard + service.heard_n, sizeof service.heard - 1 - service.heard_n, 0);
    if (n <= 0) {
        (void)event_del(service.drip);
        service_close();
        return;
    }
    service.heard_n += (size_t)n;
    service.heard[service.heard_n] = '\0';
    if (!strstr(service.heard, "\r\n\r\n")) {
        return;
    }
    if (service.resets) {
        const struct linger at_once = {.l_onoff = 1};
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        service_close();
        return;
    }
    /* The whole answer fits: a send that waits would stop the loop that reads it. */
    const int flags = fcntl(fd, F_GETFL);
    (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    service_speak(fd, 0, NULL);
}

static void on_accept(void *ctx, int fd, const struct sockaddr *peer, socklen_t peer_n)
{
    (void)ctx;
    (void)peer;
    (void)peer_n;
    assert_int_equal(service.fd, -1);
    service.fd = fd;
    service.ready = event_new(base, fd, EV_READ | EV_PERSIST, service_hear, NULL);
    assert_int_equal(event_add(service.ready, NULL), 0);
}

static void on_answer(void *ctx, const struct http_answer *answer, const char *error)
{
    assert_ptr_equal(ctx, &seen);
    assert_false(wires_inside);
    seen.told++;
    http = NULL;
    if (answer) {
        assert_null(error);
        seen.status = answer->status;
        seen.body_n = answer->body_n;
        (void)snprintf(seen.body, sizeof seen.body, "%s", answer->body);
    } else {
        (void)snprintf(seen.error, sizeof seen.error, "%s", error);
    }
    (void)event_base_loopbreak(base);
}

static int make(void **state)
{
    (void)state;
    struct tfe_why why;
    memset(&seen, 0, sizeof seen);
    memset(&service, 0, sizeof service);
    service.fd = -1;
    open_before = open_files();
    base = event_base_new();
    service.drip = evtimer_new(base, service_speak, NULL);
    if (listener_new(base, "127.0.0.1", 0, on_accept, NULL, &listener, &why)) {
        return -1;
    }
    (void)snprintf(place.host, sizeof place.host, "127.0.0.1");
    place.port = listener_port(listener);
    return 0;
}

static int end(void **state)
{
    (void)state;
    service_close();
    http_free(http);
    http = NULL;
    event_free(service.drip);
    listener_free(listener);
    listener = NULL;
    event_base_free(base);
    return open_files() == open_before ? 0 : -1;
}

static void ask(const struct http_question *question)
{
    struct http_question q = *question;
    q.place = q.place ? q.place : &place;
    q.method = q.method ? q.method : "GET";
    q.path = q.path ? q.path : "/";
    q.within_ms = q.within_ms ? q.within_ms : DEADLINE_S * 1000;
    assert_int_equal(INSIDE(http_ask(base, &q, on_answer, &seen, &http)), 0);
    const struct timeval patience = {.tv_sec = DEADLINE_S};
    (void)event_base_loopexit(base, &patience);
    (void)event_base_dispatch(base);
    assert_int_equal(seen.told, 1);
}

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

TEST(http, asks_and_is_answered)
{
    NO_FIXTURE;
    service.says = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    const struct http_header headers[] = {{"Metadata", "true"}, {"X-More", "a b"}, {NULL, NULL}};
    ask(&(struct http_question){.path = "/a?b=c", .headers = headers});
    assert_int_equal(seen.status, 200);
    assert_string_equal(seen.body, "hi");
    char host[64];
    (void)snprintf(host, sizeof host, "\r\nHost: 127.0.0.1:%u\r\n", place.port);
    assert_int_equal(strncmp(service.heard, "GET /a?b=c HTTP/1.1\r\n", 21), 0);
    assert_non_null(strstr(service.heard, host));
    assert_non_null(strstr(service.heard, "\r\nMetadata: true\r\n"));
    assert_non_null(strstr(service.heard, "\r\nX-More: a b\r\n"));
    assert_non_null(strstr(service.heard, "\r\nConnection: close\r\n"));
    assert_null(strstr(service.heard, "Content-Length"));
}

TEST(http, sends_a_body_with_its_length)
{
    NO_FIXTURE;
    service.says = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    ask(&(struct http_question){.method = "POST", .body = "{\"a\":1}"});
    assert_int_equal(seen.status, 200);
    assert_non_null(strstr(service.heard, "\r\nContent-Length: 7\r\n"));
    assert_non_null(strstr(service.heard, "\r\n\r\n{\"a\":1}"));
}

TEST(http, puts_nothing_with_length_0)
{
    NO_FIXTURE;
    service.says = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ntoken";
    ask(&(struct http_question){.method = "PUT", .path = "/latest/api/token"});
    assert_string_equal(seen.body, "token");
    assert_non_null(strstr(service.heard, "\r\nContent-Length: 0\r\n"));
}

TEST(http, any_status_is_an_answer)
{
    NO_FIXTURE;
    service.says = "HTTP/1.1 503 Busy\r\n\r\n<html>";
    service.closes = true;
    ask(&(struct http_question){0});
    assert_int_equal(seen.status, 503);
    assert_string_equal(seen.body, "<html>");
}

TEST(http, refused_says_so)
{
    NO_FIXTURE;
    listener_free(listener);
    listener = NULL;
    ask(&(struct http_question){0});
    assert_string_equal(seen.error, "Connection refused");
}

TEST(http, hanging_ends_at_the_deadline)
{
    NO_FIXTURE;
    const int64_t began = now_ms();
    ask(&(struct http_question){.within_ms = 80});
    assert_string_equal(seen.error, "no whole answer within 80 ms");
    assert_true(now_ms() - began >=
                70); /* libevent counts from a coarse clock: a tick less than 80 may pass */
}

TEST(http, a_slow_drip_ends_at_the_same_deadline)
{
    NO_FIXTURE;
    service.says = "HTTP/1.1 200 OK\r\n\r\n";
    service.bytes = 100000;
    service.drip_ms = 5;
    ask(&(struct http_question){.within_ms = 150});
    assert_string_equal(seen.error, "no whole answer within 150 ms");
    assert_true(service.said > 1);
}

TEST(http, cut_says_where)
{
    NO_FIXTURE;
    service.says = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab";
    service.closes = true;
    ask(&(struct http_question){0});
    assert_string_equal(seen.error, "the answer was cut in its body");
}

TEST(http, a_reset_says_so)
{
    NO_FIXTURE;
    service.resets = true;
    ask(&(struct http_question){0});
    assert_string_equal(seen.error, "Connection reset by peer");
}

TEST(http, a_megabyte_is_not_read)
{
    NO_FIXTURE;
    service.says = "HTTP/1.1 200 OK\r\n\r\n";
    service.bytes = 200000; /* more than the limit; what a socket takes at once */
    ask(&(struct http_question){0});
    assert_string_equal(seen.error, "the answer is longer than 65536 bytes");
}

TEST(http, another_protocol_is_no_answer)
{
    NO_FIXTURE;
    service.says = "220 mail.example ESMTP\r\n";
    ask(&(struct http_question){0});
    assert_string_equal(seen.error, "it does not answer in HTTP: no status line");
}

TEST(http, names_are_resolved)
{
    NO_FIXTURE;
    struct http_place by_name = {.host = "localhost", .port = place.port};
    service.says = "HTTP/1.1 204 No Content\r\n\r\n";
    ask(&(struct http_question){.place = &by_name});
    assert_int_equal(seen.status, 204);
}

TEST(http, what_a_service_said_breaks_no_line)
{
    NO_FIXTURE;
    const struct http_header evil[] = {{"X-Token", "a\r\nX-Evil: 1"}, {NULL, NULL}};
    struct http_question q = {
        .place = &place, .method = "GET", .path = "/", .headers = evil, .within_ms = 1000};
    assert_int_equal(http_ask(base, &q, on_answer, &seen, &http), TFE_EINVAL);
    q.headers = NULL;
    q.path = "/a b";
    assert_int_equal(http_ask(base, &q, on_answer, &seen, &http), TFE_EINVAL);
    char path[HTTP_REQUEST_MAX];
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    q.path = path;
    assert_int_equal(http_ask(base, &q, on_answer, &seen, &http), TFE_EINVAL);
}

TEST(http, freed_early_it_tells_nothing)
{
    NO_FIXTURE;
    struct http_question q = {.place = &place, .method = "GET", .path = "/", .within_ms = 20};
    assert_int_equal(http_ask(base, &q, on_answer, &seen, &http), 0);
    while (!service.heard_n) {
        assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
    }
    http_free(http);
    http = NULL;
    const struct timeval later = {.tv_usec = 60000};
    (void)event_base_loopexit(base, &later);
    (void)event_base_dispatch(base);
    assert_int_equal(seen.told, 0);
}

TEST(http, places_are_read)
{
    NO_FIXTURE;
    struct http_place p;
    struct tfe_why why;
    assert_int_equal(http_place_parse("http://169.254.169.254", &p, &why), 0);
    assert_string_equal(p.host, "169.254.169.254");
    assert_int_equal(p.port, 80);
    assert_int_equal(http_place_parse("http://localhost:1338/", &p, &why), 0);
    assert_string_equal(p.host, "localhost");
    assert_int_equal(p.port, 1338);
    assert_int_equal(http_place_parse("http://[fd00:ec2::254]:8080", &p, &why), 0);
    assert_string_equal(p.host, "fd00:ec2::254");
    assert_int_equal(http_place_parse("metadata.google.internal", &p, &why), 0);
    assert_int_equal(p.port, 80);
    static const char *const bad[] = {"",           "http://",    "https://a",
                                      "http://a/b", "http://a:0", "a:b"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(http_place_parse(bad[i], &p, &why), TFE_EINVAL);
        assert_non_null(strstr(why.text, "is not http://HOST[:PORT]"));
    }
}

int main(void)
{
#define WITH_SERVICE(story) cmocka_unit_test_setup_teardown(http__##story, make, end)
    const struct CMUnitTest tests[] = {
        WITH_SERVICE(asks_and_is_answered),
        WITH_SERVICE(sends_a_body_with_its_length),
        WITH_SERVICE(puts_nothing_with_length_0),
        WITH_SERVICE(any_status_is_an_answer),
        WITH_SERVICE(refused_says_so),
        WITH_SERVICE(hanging_ends_at_the_deadline),
        WITH_SERVICE(a_slow_drip_ends_at_the_same_deadline),
        WITH_SERVICE(cut_says_where),
        WITH_SERVICE(a_reset_says_so),
        WITH_SERVICE(a_megabyte_is_not_read),
        WITH_SERVICE(another_protocol_is_no_answer),
        WITH_SERVICE(names_are_resolved),
        WITH_SERVICE(what_a_service_said_breaks_no_line),
        WITH_SERVICE(freed_early_it_tells_nothing),
        WITH_SERVICE(places_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
