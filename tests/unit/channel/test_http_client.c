/* tests/unit/channel/test_http_client.c: one request over loopback, to a well-behaved or faulty
 * service. */
#include <dlfcn.h>
#include <netdb.h>
#include <semaphore.h>

#include "common/channel/http_client.h"
#include "tests/unit/channel/socketpair.h"

static struct event_base *base;
static struct listener *listener;
static char place[64]; /* "http://127.0.0.1:PORT" */
static struct http_call *request;
static unsigned open_before;

/* Delay in seconds after which the fake resolver gives up on one name, unless it is released
 * earlier. */
#define SILENCE_S 10
static sem_t silence;
int getaddrinfo(const char *restrict host, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict ret)
{
    if (host && strcmp(host, "silent.test") == 0 && !(hints->ai_flags & AI_NUMERICHOST)) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += SILENCE_S;
        (void)sem_timedwait(&silence, &until);
        return EAI_AGAIN;
    }
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    void *found = dlsym(RTLD_NEXT, "getaddrinfo");
    memcpy(&real, &found, sizeof real);
    return real(host, service, hints, ret);
}

/* Behaviour of the service on a connection. */
static struct {
    const char *message; /* response to the request; NULL for none */
    size_t bytes;        /* bytes of filler after the response */
    bool closes;         /* closes after the response */
    bool resets;         /* resets the connection without a response */
    unsigned drip_ms;    /* pause between two bytes */
    int fd;
    unsigned accepted;
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
    char header[256]; /* value of the "Metadata-Flavor" header */
    char error[256];
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
    const size_t n = service.message ? strlen(service.message) : 0;
    static char filler[1024];
    memset(filler, 'x', sizeof filler);
    while (service.said < n + service.bytes) {
        const bool text = service.said < n;
        const char *from = text ? service.message + service.said : filler;
        size_t left = text ? n - service.said : n + service.bytes - service.said;
        left = left < sizeof filler ? left : sizeof filler;
        ssize_t sent = send(service.fd, from, service.drip_ms ? 1 : left, MSG_NOSIGNAL);
        if (sent < 0) {
            service_close(); /* the client has closed the connection */
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
    service.heard_n = 0; /* the next request may use this connection */
    service.said = 0;
    /* The send is non-blocking: a blocking one would stop the loop that reads the response. */
    const int flags = fcntl(fd, F_GETFL);
    (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    service_speak(fd, 0, NULL);
}

static void on_accept(void *ctx, int fd, const struct sockaddr *peer, socklen_t peer_n)
{
    (void)ctx;
    (void)peer;
    (void)peer_n;
    service_close();
    service.accepted++;
    service.fd = fd;
    service.ready = event_new(base, fd, EV_READ | EV_PERSIST, service_hear, NULL);
    assert_int_equal(event_add(service.ready, NULL), 0);
}

static void on_answer(void *ctx, const struct http_response *answer, const char *error)
{
    assert_ptr_equal(ctx, &seen);
    assert_false(wires_inside);
    seen.told++;
    request = NULL;
    if (answer) {
        assert_null(error);
        const char *header = http_response_header(answer, "metadata-FLAVOR");
        seen.status = answer->status;
        assert_int_equal(strlen(answer->body), answer->body_n);
        (void)snprintf(seen.body, sizeof seen.body, "%s", answer->body);
        (void)snprintf(seen.header, sizeof seen.header, "%s", header ? header : "none");
    } else {
        (void)snprintf(seen.error, sizeof seen.error, "%s", error);
    }
    (void)event_base_loopbreak(base);
}

static int make(void **state)
{
    (void)state;
    struct tfe_reason reason;
    memset(&seen, 0, sizeof seen);
    memset(&service, 0, sizeof service);
    service.fd = -1;
    open_before = open_files();
    base = event_base_new();
    service.drip = evtimer_new(base, service_speak, NULL);
    if (listener_new(base, "127.0.0.1", 0, on_accept, NULL, &listener, &reason)) {
        return -1;
    }
    (void)snprintf(place, sizeof place, "http://127.0.0.1:%u", listener_port(listener));
    return sem_init(&silence, 0, 0);
}

static int end(void **state)
{
    (void)state;
    service_close();
    http_cancel(request);
    request = NULL;
    event_free(service.drip);
    listener_free(listener);
    listener = NULL;
    event_base_free(base);
    const time_t last = time(NULL) + DEADLINE_S;
    while (open_files() != open_before && time(NULL) < last) {
        (void)sched_yield(); /* a thread in getaddrinfo may take a while */
    }
    return open_files() == open_before ? 0 : -1;
}

/* Starts a request for a path or a full URL. */
static int begin(const char *path, const struct http_request *question)
{
    char url[256];
    struct http_request q = *question;
    (void)snprintf(url, sizeof url, "%s%s", path[0] == '/' ? place : "", path);
    q.url = url;
    q.method = q.method ? q.method : "GET";
    q.max = 65536;
    q.within_ms = q.within_ms ? q.within_ms : DEADLINE_S * 1000;
    return INSIDE(http_call(base, &q, on_answer, &seen, &request));
}

static void run_for(int64_t ms)
{
    const struct timeval patience = {.tv_sec = ms / 1000,
                                     .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
    (void)event_base_loopexit(base, &patience);
    (void)event_base_dispatch(base);
}

static void ask_at(const char *path, const struct http_request *question)
{
    seen.told = 0;
    assert_int_equal(begin(path, question), 0);
    run_for(DEADLINE_S * INT64_C(1000));
    assert_int_equal(seen.told, 1);
}

#define ASK(...) ask_at("/", &(struct http_request){__VA_ARGS__})

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#define FIXTURE make, end

TEST_IN(http, asks_and_is_answered)
{
    static const char *const headers[] = {"Metadata: true", "X-More: a b", NULL};
    service.message = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    ask_at("/a?b=c", &(struct http_request){.headers = headers});
    assert_int_equal(seen.status, 200);
    assert_string_equal(seen.body, "hi");
    char host[128];
    (void)snprintf(host, sizeof host, "\r\nHost: %s\r\n", place + strlen("http://"));
    assert_int_equal(strncmp(service.heard, "GET /a?b=c HTTP/1.1\r\n", 21), 0);
    assert_non_null(strstr(service.heard, host));
    assert_non_null(strstr(service.heard, "\r\nMetadata: true\r\n"));
    assert_non_null(strstr(service.heard, "\r\nX-More: a b\r\n"));
    assert_null(strstr(service.heard, "Content-"));
}

TEST_IN(http, sends_a_body_with_its_length_and_type)
{
    service.message = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    ASK(.method = "POST", .type = "application/json", .body = "{\"a\":1}", .body_n = 7);
    assert_int_equal(seen.status, 200);
    assert_string_equal(seen.body, "");
    assert_int_equal(strncmp(service.heard, "POST / HTTP/1.1\r\n", 17), 0);
    assert_non_null(strstr(service.heard, "\r\nContent-Length: 7\r\n"));
    assert_non_null(strstr(service.heard, "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(service.heard, "\r\n\r\n{\"a\":1}"));
}

TEST_IN(http, puts_nothing_with_length_0)
{
    service.message = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ntoken";
    ASK(.method = "PUT");
    assert_string_equal(seen.body, "token");
    assert_non_null(strstr(service.heard, "\r\nContent-Length: 0\r\n"));
    assert_null(strstr(service.heard, "Content-Type"));
}

TEST_IN(http, headers_come_back)
{
    service.message = "HTTP/1.1 200 OK\r\nMetadata-Flavor:  Google \r\n"
                      "Metadata-Flavor: other\r\nContent-Length: 0\r\n\r\n";
    ASK(0);
    assert_string_equal(seen.header, "Google");
    service.message = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    ASK(0);
    assert_string_equal(seen.header, "none");
}

TEST_IN(http, each_request_has_a_connection_of_its_own)
{
    service.message = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    ASK(0);
    ASK(0);
    assert_int_equal(service.accepted, 2);
}

TEST_IN(http, chunked_response_is_joined)
{
    service.message = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                      "2\r\nhi\r\n4\r\n you\r\n0\r\n\r\n";
    ASK(0);
    assert_string_equal(seen.body, "hi you");
}

TEST_IN(http, any_status_is_an_answer)
{
    service.message = "HTTP/1.1 503 Busy\r\n\r\n<html>";
    service.closes = true;
    ASK(0);
    assert_int_equal(seen.status, 503);
    assert_string_equal(seen.body, "<html>");
}

TEST_IN(http, refused_says_so)
{
    listener_free(listener);
    listener = NULL;
    ASK(0);
    assert_string_equal(seen.error, "cannot connect");
}

TEST_IN(http, hanging_ends_at_the_deadline)
{
    const int64_t began = now_ms();
    ASK(.within_ms = 80);
    assert_non_null(strstr(seen.error, "timed out"));
    assert_true(now_ms() - began >= 70); /* 10 ms of tolerance: libevent uses a coarse clock */
}

TEST_IN(http, a_slow_drip_ends_at_the_same_deadline)
{
    service.message = "HTTP/1.1 200 OK\r\n\r\n";
    service.bytes = 100000;
    service.drip_ms = 5;
    ASK(.within_ms = 150);
    assert_non_null(strstr(seen.error, "timed out"));
    assert_true(service.said > 1);
}

TEST_IN(http, truncated_response_is_an_error)
{
    service.message = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab";
    service.closes = true;
    ASK(0);
    assert_non_null(strstr(seen.error, "closed before the end"));
}

TEST_IN(http, reset_connection_is_an_error)
{
    service.resets = true;
    ASK(0);
    assert_non_null(strstr(seen.error, "closed before the end"));
}

TEST_IN(http, a_megabyte_is_not_read)
{
    service.message = "HTTP/1.1 200 OK\r\n\r\n";
    service.bytes = 200000; /* more than the limit, and less than a socket buffer */
    ASK(0);
    assert_string_equal(seen.error, "the response is too long");
}

TEST_IN(http, another_protocol_is_no_answer)
{
    service.message = "220 mail.example ESMTP\r\n";
    ASK(0);
    assert_non_null(strstr(seen.error, "not HTTP"));
}

TEST_IN(http, names_are_resolved)
{
    char url[64];
    (void)snprintf(url, sizeof url, "http://localhost:%u/", listener_port(listener));
    service.message = "HTTP/1.1 204 No Content\r\n\r\n";
    ask_at(url, &(struct http_request){0});
    assert_int_equal(seen.status, 204);
}

TEST_IN(http, a_silent_name_server_stops_neither_the_loop_nor_the_end)
{
    const int64_t began = now_ms();
    ask_at("http://silent.test/", &(struct http_request){.within_ms = 80});
    assert_non_null(strstr(seen.error, "timed out"));
    assert_int_equal(begin("http://silent.test/", &(struct http_request){0}), 0);
    run_for(20);
    http_cancel(request);
    request = NULL;
    assert_true(now_ms() - began < SILENCE_S * INT64_C(1000));
    (void)sem_post(&silence);
    (void)sem_post(&silence);
}

TEST_IN(http, v6_addresses_are_asked)
{
    struct tfe_reason reason;
    char url[64];
    listener_free(listener);
    if (listener_new(base, "::1", 0, on_accept, NULL, &listener, &reason)) {
        listener = NULL;
        SKIP("this machine has no IPv6");
    }
    (void)snprintf(url, sizeof url, "http://[::1]:%u/", listener_port(listener));
    service.message = "HTTP/1.1 204 No Content\r\n\r\n";
    ask_at(url, &(struct http_request){0});
    assert_int_equal(seen.status, 204);
}

TEST_IN(http, nobody_is_asked_but_who_was_meant)
{
    (void)setenv("http_proxy", "http://127.0.0.1:1", 1);
    (void)setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
    service.message = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n"
                      "Content-Length: 0\r\n\r\n";
    ASK(0);
    assert_int_equal(seen.status, 302);
    (void)unsetenv("http_proxy");
    (void)unsetenv("ALL_PROXY");
}

TEST_IN(http, other_schemes_and_nonsense_are_errors)
{
    static const char *const urls[] = {"file:///etc/passwd",   "ftp://127.0.0.1/",
                                       "https://127.0.0.1/",   "http://",
                                       "http://127.0.0.1/a b", "http://127.0.0.1:x/"};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        seen.error[0] = '\0';
        ask_at(urls[i], &(struct http_request){0});
        assert_true(seen.error[0] != '\0');
    }
}

TEST_IN(http, what_a_service_said_breaks_no_line)
{
    static const char *const evil[] = {"X-Token: a\r\nX-Evil: 1", NULL};
    assert_int_equal(begin("/", &(struct http_request){.headers = evil}), TFE_EINVAL);
}

/* Returns true if a connection to the service is not close-on-exec. */
static bool is_inherited(void)
{
    for (int fd = 3; fd < 100; fd++) {
        struct sockaddr_in peer = {0};
        socklen_t n = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &n) == 0 && peer.sin_family == AF_INET &&
            ntohs(peer.sin_port) == listener_port(listener)) {
            return !(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        }
    }
    fail_msg("there is no connection");
    return true;
}

TEST_IN(http, cancelled_it_tells_nothing)
{
    assert_int_equal(begin("/", &(struct http_request){.within_ms = 20}), 0);
    while (!service.heard[0]) {
        assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
    }
    assert_false(is_inherited());
    http_cancel(request);
    request = NULL;
    run_for(60);
    assert_int_equal(seen.told, 0);
}
