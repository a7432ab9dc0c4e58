/* tests/unit/web/test_intake.c: what evhttp finds of a request whose body comes in pieces, wherever
 * its head is cut, and of all others. */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/web/http.h"
#include "server/web/intake.h"
#include "tests/unit/story.h"

static struct event_base *base;
static struct bufferevent *ends[2]; /* who asks, and whom intake looks at */
static struct intake *in;
static struct event *wake;
static unsigned n_woken;

static void on_wake(evutil_socket_t fd, short what, void *ctx)
{
    n_woken++;
}

static int begin(void **state)
{
    base = event_base_new();
    assert_int_equal(bufferevent_pair_new(base, 0, ends), 0);
    in = intake_new(ends[1]);
    wake = event_new(base, -1, 0, on_wake, NULL);
    assert_true(in && wake);
    (void)bufferevent_enable(ends[0], EV_READ | EV_WRITE);
    (void)bufferevent_enable(ends[1], EV_READ);
    n_woken = 0;
    return 0;
}

static int end(void **state)
{
    intake_free(in);
    event_free(wake);
    bufferevent_free(ends[0]);
    bufferevent_free(ends[1]);
    event_base_free(base);
    return 0;
}
#define FIXTURE begin, end

static void turn(void)
{
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
}

static void say(const char *text, size_t n)
{
    assert_int_equal(bufferevent_write(ends[0], text, n), 0);
    turn();
}

static size_t there(void)
{
    return evbuffer_get_length(bufferevent_get_input(ends[1]));
}

/* Takes what evhttp would find. */
static const char *found(void)
{
    static char text[16384];
    const size_t n = there();
    assert_true(n < sizeof(text));
    assert_int_equal(evbuffer_remove(bufferevent_get_input(ends[1]), text, n), n);
    text[n] = '\0';
    return text;
}

/* evhttp has taken n bytes. */
static void pass(size_t n)
{
    assert_int_equal(evbuffer_drain(bufferevent_get_input(ends[1]), n), 0);
}

#define LINE "POST /api/v1/jobs HTTP/1.1\r\n"
#define TYPE "Content-Type: multipart/form-data; boundary=x\r\n"
#define FORM LINE "Host: a\r\n" TYPE "Content-Length: 1234\r\n\r\n"
#define TOLD LINE "Host: a\r\n" TYPE "Content-Length: 0000\r\n\r\n"

TEST_IN(intake, a_form_has_no_body_wherever_its_head_is_cut)
{
    const size_t n = sizeof(FORM) - 1;
    for (size_t cut = 1; cut <= n; cut++) {
        say(FORM, cut);
        assert_int_equal(there(), cut < n ? 0 : n); /* evhttp takes line by line */
        if (cut < n) {
            say(FORM + cut, n - cut);
        }
        assert_int_equal(intake_left(in), 1234);
        assert_string_equal(found(), TOLD);
        assert_int_equal(end(NULL), 0);
        assert_int_equal(begin(NULL), 0);
    }
    for (size_t i = 0; i < n; i++) {
        say(FORM + i, 1);
    }
    assert_int_equal(intake_left(in), 1234);
    assert_string_equal(found(), TOLD);
}

TEST_IN(intake, its_body_is_taken_as_it_comes_and_nothing_behind_it)
{
    uint8_t bytes[2000];
    char body[1300];
    memset(body, 'b', 1234);
    memset(body + 1234, 'z', sizeof(body) - 1234);
    say(FORM, sizeof(FORM) - 1);
    say(body, 100);
    pass(sizeof(FORM) - 1);
    assert_int_equal(n_woken, 0);
    intake_begin(in, wake);
    assert_true(intake_is_taken(in));
    turn();
    assert_int_equal(n_woken, 1);
    assert_int_equal(intake_take(in, bytes, 60), 60);
    assert_int_equal(intake_take(in, bytes, sizeof(bytes)), 40);
    assert_int_equal(intake_take(in, bytes, sizeof(bytes)), 0);
    assert_int_equal(intake_left(in), 1134);
    say(body + 100, sizeof(body) - 100);
    assert_int_equal(n_woken, 2);
    assert_int_equal(intake_take(in, bytes, sizeof(bytes)), 1134);
    assert_true(bytes[0] == 'b' && bytes[1133] == 'b');
    assert_int_equal(intake_left(in), 0);
    assert_int_equal(intake_take(in, bytes, sizeof(bytes)), 0);
    assert_int_equal(there(), sizeof(body) - 1234);
    intake_end(in);
    assert_false(intake_is_taken(in));
    say("more", 4);
    assert_int_equal(n_woken, 2);
}

TEST_IN(intake, what_is_thrown_away_counts_but_never_below_nothing)
{
    say(FORM, sizeof(FORM) - 1);
    intake_pass(in, 1000);
    assert_int_equal(intake_left(in), 234);
    intake_pass(in, 1000);
    assert_int_equal(intake_left(in), 0);
}

static const char *answered(void)
{
    static char text[256];
    turn();
    struct evbuffer *got = bufferevent_get_input(ends[0]);
    const size_t n = evbuffer_get_length(got);
    (void)evbuffer_remove(got, text, n);
    text[n] = '\0';
    return text;
}

TEST_IN(intake, who_waits_for_it_is_told_to_go_on_once_his_body_is_taken)
{
    static const char *const expects[] = {"Expect: 100-continue\r\n", "expect:  100-Continue\r\n"};
    for (size_t i = 0; i < 2; i++) {
        say(LINE TYPE, sizeof(LINE TYPE) - 1);
        say(expects[i], strlen(expects[i]));
        say("Content-Length: 9\r\n\r\n", 21);
        pass(there());
        assert_string_equal(answered(), "");
        intake_begin(in, wake);
        assert_string_equal(answered(), "HTTP/1.1 100 Continue\r\n\r\n");
        assert_int_equal(end(NULL), 0);
        assert_int_equal(begin(NULL), 0);
    }
    static const char *const not [] = {"", "Expect: 100-continues\r\n", "Expect: x\r\n"};
    for (size_t i = 0; i < 3; i++) {
        say(LINE TYPE, sizeof(LINE TYPE) - 1);
        say(not [i], strlen(not [i]));
        say("Content-Length: 9\r\n\r\n", 21);
        pass(there());
        intake_begin(in, wake);
        assert_string_equal(answered(), "");
        assert_int_equal(end(NULL), 0);
        assert_int_equal(begin(NULL), 0);
    }
    /* Who has not waited needs no word. */
    say(LINE TYPE "Expect: 100-continue\r\nContent-Length: 9\r\n\r\nb",
        sizeof(LINE TYPE "Expect: 100-continue\r\nContent-Length: 9\r\n\r\nb") - 1);
    pass(there() - 1);
    intake_begin(in, wake);
    assert_string_equal(answered(), "");
}

/* Whether the request is evhttp's as it is. */
static bool is_left_alone(const char *text)
{
    say(text, strlen(text));
    const bool is = intake_left(in) == 0 && strcmp(found(), text) == 0;
    assert_int_equal(end(NULL), 0);
    assert_int_equal(begin(NULL), 0);
    return is;
}

TEST_IN(intake, leaves_all_else_alone)
{
#define LENGTH "Content-Length: 12\r\n"
    static const char *const alone[] = {
        "GET / HTTP/1.1\r\n" TYPE LENGTH "\r\n",
        "POST /api/v1/login HTTP/1.1\r\n" TYPE LENGTH "\r\n",
        "POST /api/v1/jobs/a/cancel HTTP/1.1\r\n" TYPE LENGTH "\r\n",
        "POST /api/v1/jobsx HTTP/1.1\r\n" TYPE LENGTH "\r\n",
        "POST /api/v1/jobs\r\n" TYPE LENGTH "\r\n",
        "PUT /api/v1/jobs HTTP/1.1\r\n" TYPE LENGTH "\r\n",
        LINE LENGTH "\r\n",
        LINE TYPE "\r\n",
        LINE "Content-Type: application/json\r\n" LENGTH "\r\n",
        LINE "Content-Type: multipart/form-datas\r\n" LENGTH "\r\n",
        LINE "Content-Type: multipart/form-dat\r\n" LENGTH "\r\n",
        LINE TYPE "Content-Length: \r\n\r\n",
        LINE TYPE "Content-Length: 12x\r\n\r\n",
        LINE TYPE "Content-Length: 1 2\r\n\r\n",
        LINE TYPE "Content-Length: -12\r\n\r\n",
        LINE TYPE "Content-Length: 1234567890123456789\r\n\r\n",
        LINE TYPE "Content-Lengths: 12\r\n\r\n",
        LINE TYPE LENGTH LENGTH "\r\n",
        LINE TYPE LENGTH "Transfer-Encoding: chunked\r\n\r\n",
        LINE TYPE LENGTH "transfer-encoding: x\r\n\r\n",
        LINE TYPE LENGTH " folded\r\n\r\n",
        LINE TYPE LENGTH "\tfolded\r\n\r\n",
        "\r\n" LINE TYPE LENGTH "\r\n",
    };
    for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
        if (!is_left_alone(alone[i])) {
            fail_msg("%s", alone[i]);
        }
    }
    static const char nul[] = LINE TYPE LENGTH "X: a\0b\r\n\r\n";
    say(nul, sizeof(nul) - 1);
    assert_int_equal(intake_left(in), 0);
}

TEST_IN(intake, knows_a_form_however_it_is_written)
{
    static const char *const forms[] = {
        LINE TYPE LENGTH "\r\n",
        "POST /api/v1/jobs?a=b HTTP/1.1\r\n" TYPE LENGTH "\r\n",
        "POST /api/v1/jobs HTTP/1.0\n" TYPE LENGTH "\n",
        LINE "content-type:multipart/form-data\r\ncontent-length:12\r\n\r\n",
        LINE "Content-Type: Multipart/Form-Data;x\r\nContent-Length:   000000000000000012\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        say(forms[i], strlen(forms[i]));
        if (intake_left(in) != 12 || strstr(found(), "12")) {
            fail_msg("%s", forms[i]);
        }
        assert_int_equal(end(NULL), 0);
        assert_int_equal(begin(NULL), 0);
    }
}

TEST_IN(intake, a_head_that_is_too_long_is_evhttp_s_to_refuse)
{
    char *text = malloc(HTTP_HEADERS_MAX + 1);
    memset(text, 'a', HTTP_HEADERS_MAX);
    say(text, HTTP_HEADERS_MAX - 1);
    assert_int_equal(there(), 0);
    say(text, 1);
    assert_int_equal(there(), HTTP_HEADERS_MAX);
    say(text, 1); /* and all that comes behind it */
    assert_int_equal(there(), HTTP_HEADERS_MAX + 1);
    free(text);
}

TEST_IN(intake, the_next_request_of_a_connection_is_looked_at_once_the_last_is_answered)
{
    static const char first[] = "POST /api/v1/login HTTP/1.1\r\nContent-Length: 3\r\n\r\n{}\n";
    char both[sizeof(first) + sizeof(FORM)];
    (void)snprintf(both, sizeof(both), "%s%s", first, FORM);
    say(both, sizeof(first) - 1 + 20); /* the second one's beginning is there already */
    assert_int_equal(there(), sizeof(first) - 1 + 20);
    pass(sizeof(first) - 1);
    intake_next(in);
    assert_int_equal(there(), 0);
    say(FORM + 20, sizeof(FORM) - 1 - 20);
    assert_string_equal(found(), TOLD);
    assert_int_equal(intake_left(in), 1234);
    intake_next(in); /* its body is not over */
    say("GET / HTTP/1.1\r\n", 16);
    assert_int_equal(there(), 16);
}
