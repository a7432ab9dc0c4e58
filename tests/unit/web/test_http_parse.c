/* tests/unit/web/test_http_parse.c: http_parse.c: accepted and rejected heads, and chunked bodies.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/web/http_parse.h"
#include "tests/unit/test_runner.h"

#define LINE "GET /a HTTP/1.1\r\n"
#define HOST "Host: a\r\n"

/* Parses text, which is copied into *ret_text for the caller to free. */
static int parse(const char *text, size_t n, struct http_head *ret, char **ret_text)
{
    const char *reason = NULL;
    size_t scanned = 0;
    *ret_text = malloc(n + 1);
    memcpy(*ret_text, text, n);
    (*ret_text)[n] = '\0';
    const long head = http_head_end(*ret_text, n, &scanned);
    if (head <= 0) {
        return head < 0 ? (int)head : TFE_EMORE;
    }
    const int rc = http_head_parse(*ret_text, (size_t)head, ret, &reason);
    assert_int_equal(rc != 0, reason != NULL);
    return rc;
}

static int parse_only(const char *text, size_t n)
{
    struct http_head head;
    char *copy;
    const int rc = parse(text, n, &head, &copy);
    free(copy);
    return rc;
}

TEST(http_parse, head_is_split_into_its_parts)
{
    static const char text[] =
        "PUT /a%20b/c?d=e&f=?g HTTP/1.1\r\nhost: \t x y\t \r\nX:\r\n"
        "x-a:b:c\r\nContent-Length: 0012\r\nExpect: 100-Continue\r\n\r\nrest";
    struct http_head head;
    char *copy;
    assert_int_equal(parse(text, sizeof(text) - 1, &head, &copy), 0);
    assert_int_equal(head.method, HTTP_PUT);
    assert_string_equal(head.path, "/a%20b/c");
    assert_string_equal(head.query, "d=e&f=?g");
    assert_string_equal(http_head_field(&head, "HOST"), "x y");
    assert_string_equal(http_head_field(&head, "x"), "");
    assert_string_equal(http_head_field(&head, "X-A"), "b:c");
    assert_null(http_head_field(&head, "y"));
    assert_true(head.keeps_alive && head.expects_continue && head.has_length);
    assert_int_equal(head.length, 12);
    free(copy);
}

TEST(http_parse, connection_ends_if_either_side_wants_that)
{
    static const struct {
        const char *text;
        bool keeps;
    } cases[] = {
        {LINE HOST "\r\n", true},
        {LINE HOST "Connection: keep-alive\r\n\r\n", true},
        {LINE HOST "Connection: closed\r\n\r\n", true},
        {LINE HOST "Connection: a,Close\r\n\r\n", false},
        {LINE HOST "Connection: a\r\nconnection: \tclose ,b\r\n\r\n", false},
        {"GET / HTTP/1.0\r\n\r\n", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct http_head head;
        char *copy;
        assert_int_equal(parse(cases[i].text, strlen(cases[i].text), &head, &copy), 0);
        assert_int_equal(head.keeps_alive, cases[i].keeps);
        free(copy);
    }
}

TEST(http_parse, end_is_found_wherever_the_head_is_cut)
{
    static const char text[] = LINE HOST "\r\nGET";
    const size_t n = sizeof(text) - 1 - 3;
    for (size_t cut = 1; cut < n; cut++) {
        size_t scanned = 0;
        assert_int_equal(http_head_end(text, cut, &scanned), 0);
        assert_int_equal(scanned, cut);
        assert_int_equal(http_head_end(text, sizeof(text) - 1, &scanned), n);
    }
}

#define BAD(text)                                                                                  \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

TEST(http_parse, ambiguous_request_is_rejected)
{
    static const struct {
        const char *text;
        size_t n;
    } bad[] = {
        BAD("\r\n" LINE HOST "\r\n"),
        BAD("\n" LINE HOST "\r\n"),
        BAD("GET /a HTTP/1.1\n"),
        BAD("GET  /a HTTP/1.1\r\n" HOST "\r\n"),
        BAD("GET /a  HTTP/1.1\r\n" HOST "\r\n"),
        BAD(" GET /a HTTP/1.1\r\n" HOST "\r\n"),
        BAD("GET\t/a HTTP/1.1\r\n" HOST "\r\n"),
        BAD("GET /a HTTP/1.1 \r\n" HOST "\r\n"),
        BAD("GET /a b HTTP/1.1\r\n" HOST "\r\n"),
        BAD("GET /a\r\n" HOST "\r\n"),
        BAD("GET /a HTTP/1.2\r\n" HOST "\r\n"),
        BAD("GET /a HTTP/2.0\r\n" HOST "\r\n"),
        BAD("GET /a http/1.1\r\n" HOST "\r\n"),
        BAD("GET /a HTTP/01.1\r\n" HOST "\r\n"),
        BAD("G(T /a HTTP/1.1\r\n" HOST "\r\n"),
        BAD("GET http://a/ HTTP/1.1\r\n" HOST "\r\n"),
        BAD("GET * HTTP/1.1\r\n" HOST "\r\n"),
        BAD("GET /a#b HTTP/1.1\r\n" HOST "\r\n"),
        BAD("GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n"),
        BAD(LINE "\r\n"),
        BAD(LINE HOST HOST "\r\n"),
        BAD(LINE HOST "X : a\r\n\r\n"),
        BAD(LINE HOST "X\t: a\r\n\r\n"),
        BAD(LINE HOST " X: a\r\n\r\n"),
        BAD(LINE HOST "X: a\r\n b\r\n\r\n"),
        BAD(LINE HOST "X: a\r\n\tb\r\n\r\n"),
        BAD(LINE HOST ": a\r\n\r\n"),
        BAD(LINE HOST "X\r\n\r\n"),
        BAD(LINE HOST "X(: a\r\n\r\n"),
        BAD(LINE HOST "X: a\0b\r\n\r\n"),
        BAD(LINE HOST "X\0: a\r\n\r\n"),
        BAD(LINE HOST "X: a\x01\r\n\r\n"),
        BAD(LINE HOST "X: a\x7f\r\n\r\n"),
        BAD(LINE HOST "X: a\rb\r\n\r\n"),
        BAD(LINE HOST "X: a\nY: b\r\n\r\n"),
        BAD(LINE HOST "X: a\r\r\n\r\n"),
        BAD(LINE HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n"),
        BAD(LINE HOST "Content-Length: 1\r\ncontent-length: 2\r\n\r\n"),
        BAD(LINE HOST "Content-Length: 1, 1\r\n\r\n"),
        BAD(LINE HOST "Content-Length: +1\r\n\r\n"),
        BAD(LINE HOST "Content-Length: -1\r\n\r\n"),
        BAD(LINE HOST "Content-Length: 1 1\r\n\r\n"),
        BAD(LINE HOST "Content-Length: 0x1\r\n\r\n"),
        BAD(LINE HOST "Content-Length:\r\n\r\n"),
        BAD(LINE HOST "Content-Length: 1234567890123456789\r\n\r\n"),
        BAD(LINE HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
        BAD(LINE HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
        BAD(LINE HOST "Transfer-Encoding: gzip, chunked\r\n\r\n"),
        BAD(LINE HOST "Transfer-Encoding: identity\r\n\r\n"),
        BAD(LINE HOST "Transfer-Encoding:\r\n\r\n"),
        BAD("GET /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
        BAD(LINE HOST "Authorization: a\r\nAuthorization: b\r\n\r\n"),
        BAD(LINE HOST "Cookie: a\r\nCookie: b\r\n\r\n"),
        BAD(LINE HOST "Expect: 200-ok\r\n\r\n"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (parse_only(bad[i].text, bad[i].n) != TFE_EINVAL) {
            fail_msg("%s", bad[i].text);
        }
    }
    assert_int_equal(parse_only(LINE HOST "\r\n", sizeof(LINE HOST "\r\n") - 1), 0);
}

TEST(http_parse, fields_are_bounded)
{
    char text[4096] = LINE HOST;
    for (unsigned i = 1; i < HTTP_FIELDS_MAX; i++) {
        (void)strcat(text, "X: y\r\n");
    }
    const size_t n = strlen(text);
    (void)strcat(text, "\r\n");
    assert_int_equal(parse_only(text, strlen(text)), 0);
    (void)strcpy(text + n, "X: y\r\n\r\n");
    assert_int_equal(parse_only(text, strlen(text)), TFE_EINVAL);
}

/* Reads a chunked body in pieces of `each` bytes. Returns its data, or NULL if it is malformed.
 * *ret_left: bytes after its end, or SIZE_MAX if the end has not come. */
static const char *read_chunks(const char *text, size_t n, size_t each, size_t *ret_left)
{
    static char data[256];
    struct http_chunks chunks = {.state = 0};
    size_t n_data = 0;
    size_t at = 0;
    while (at < n && !chunks.is_over) {
        const size_t some = n - at < each ? n - at : each;
        size_t got;
        const long used = http_chunks_read(&chunks, (const uint8_t *)text + at, some, &got);
        if (used < 0) {
            return NULL;
        }
        at += (size_t)used;
        memcpy(data + n_data, text + at - got, got);
        n_data += got;
    }
    data[n_data] = '\0';
    *ret_left = chunks.is_over ? n - at : SIZE_MAX;
    return data;
}

TEST(http_parse, chunks_are_joined_however_they_come)
{
    static const char text[] = "5\r\nhello\r\n00A\r\n, \r\n world\r\n1\r\n!\r\n0\r\n\r\nmore";
    for (size_t each = 1; each < sizeof(text); each++) {
        size_t left;
        assert_string_equal(read_chunks(text, sizeof(text) - 1, each, &left), "hello, \r\n world!");
        assert_int_equal(left, 4);
    }
    size_t left;
    assert_string_equal(read_chunks("5\r\nhel", 6, 6, &left), "hel");
    assert_true(left == SIZE_MAX);
}

TEST(http_parse, chunks_that_are_malformed_are_rejected)
{
    static const char *const bad[] = {
        "\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5 \r\nhello",
        " 5\r\nhello",
        "+5\r\nhello",
        "-1\r\n",
        "0x5\r\nhello",
        "5;a=b\r\nhello",
        "g\r\n",
        "123456789\r\n",
        "5\r\nhello\n0",
        "5\r\nhellox",
        "5\r\nhello\r\n\r\n",
        "0\r\nX: y\r\n",
        "0\r\n\n",
        "5\rhello",
        "0\r\n\rx",
        "fffffffffffffffff\r\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t left;
        if (read_chunks(bad[i], strlen(bad[i]), 100, &left)) {
            fail_msg("%s", bad[i]);
        }
    }
}
