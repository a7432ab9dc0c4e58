/* tests/unit/net/test_http_answer.c: answers as they come, in one piece and byte by byte. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/http_answer.h"
#include "tests/unit/story.h"

static struct http_answer answer;
static struct tfe_why why;

static int make(void **state)
{
    (void)state;
    http_answer_init(&answer);
    memset(&why, 0, sizeof why);
    return 0;
}

static int end(void **state)
{
    (void)state;
    http_answer_done(&answer);
    return 0;
}

static int feed(const char *text)
{
    return http_answer_feed(&answer, text, strlen(text), &why);
}

/* Byte by byte; every byte but the last must leave it wanting more. */
static int drip(const char *text)
{
    int rc = TFE_EMORE;
    for (const char *at = text; *at; at++) {
        assert_int_equal(rc, TFE_EMORE);
        rc = http_answer_feed(&answer, at, 1, &why);
    }
    return rc;
}

TEST(http_answer, has_a_status_headers_and_a_body_of_its_length)
{
    NO_FIXTURE;
    assert_int_equal(feed("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag:  a1 \r\n\r\nhelloX"), 0);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, "hello");
    assert_int_equal(answer.body_n, 5);
    assert_string_equal(http_answer_header(&answer, "etag"), "a1");
    assert_null(http_answer_header(&answer, "Tag"));
    assert_null(http_answer_header(&answer, "Date"));
}

TEST(http_answer, is_the_same_when_it_drips)
{
    NO_FIXTURE;
    assert_int_equal(drip("HTTP/1.0 404 Not Found\nDate: Thu\nContent-Length: 3\n\nabc"), 0);
    assert_int_equal(answer.status, 404);
    assert_string_equal(answer.body, "abc");
    assert_string_equal(http_answer_header(&answer, "Date"), "Thu");
}

TEST(http_answer, comes_in_chunks)
{
    NO_FIXTURE;
    assert_int_equal(drip("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n"
                          "4;x=y\r\nwiki\r\nA\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n"),
                     0);
    assert_string_equal(answer.body, "wiki0123456789");
    assert_string_equal(http_answer_header(&answer, "A"), "b");
    assert_null(http_answer_header(&answer, "Trailer"));
}

TEST(http_answer, without_a_length_goes_on_to_the_end)
{
    NO_FIXTURE;
    assert_int_equal(feed("HTTP/1.1 200 OK\r\n\r\nTRU"), TFE_EMORE);
    assert_int_equal(feed("E"), TFE_EMORE);
    assert_int_equal(http_answer_end(&answer, &why), 0);
    assert_string_equal(answer.body, "TRUE");
}

TEST(http_answer, without_a_body_is_whole_after_its_headers)
{
    NO_FIXTURE;
    assert_int_equal(feed("HTTP/1.1 204 No Content\r\n\r\n"), 0);
    assert_string_equal(answer.body, "");
}

TEST(http_answer, of_a_preliminary_kind_is_skipped)
{
    NO_FIXTURE;
    assert_int_equal(drip("HTTP/1.1 100 Continue\r\nA: 1\r\n\r\nHTTP/1.1 200 OK\r\nB: 2\r\n"
                          "Content-Length: 1\r\n\r\nx"),
                     0);
    assert_int_equal(answer.status, 200);
    assert_null(http_answer_header(&answer, "A"));
    assert_string_equal(http_answer_header(&answer, "B"), "2");
}

TEST(http_answer, that_is_cut_says_where)
{
    NO_FIXTURE;
    static const struct {
        const char *text;
        const char *where;
    } cuts[] = {
        {"", "before a status line"},
        {"HTTP/1.1 200 OK\r\nDa", "in its headers"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", "in its body"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na", "in a chunk"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", "between two chunks"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "in its trailer"},
    };
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        http_answer_done(&answer);
        assert_int_equal(feed(cuts[i].text), TFE_EMORE);
        assert_int_equal(http_answer_end(&answer, &why), TFE_EPROTO);
        assert_non_null(strstr(why.text, cuts[i].where));
    }
}

TEST(http_answer, that_is_none_is_refused)
{
    NO_FIXTURE;
    static const char *const texts[] = {
        "SSH-2.0-OpenSSH_9.6\r\n",
        "\r\n",
        "HTTP/2 200 OK\r\n",
        "HTTP/1.1 20 OK\r\n",
        "HTTP/1.1 2000 OK\r\n",
        "HTTP/1.1 +20 OK\r\n",
        "HTTP/1.1 099 OK\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0x10\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        http_answer_done(&answer);
        assert_int_equal(feed(texts[i]), TFE_EPROTO);
        assert_non_null(strstr(why.text, "does not answer in HTTP"));
    }
    http_answer_done(&answer);
    assert_int_equal(http_answer_feed(&answer, "HTTP/1.1 200 O\0K\r\n", 18, &why), TFE_EPROTO);
}

/* Feeds letters until it is refused; returns how many were taken. */
static size_t flood(const char *letters, size_t most, int *ret_rc)
{
    size_t n = 0;
    *ret_rc = TFE_EMORE;
    while (*ret_rc == TFE_EMORE && n < most) {
        *ret_rc = feed(letters);
        n += strlen(letters);
    }
    return n;
}

TEST(http_answer, that_is_huge_is_refused_at_the_limits)
{
    NO_FIXTURE;
    int rc;
    char start[128];
    /* Said beforehand. */
    (void)snprintf(start, sizeof start, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n",
                   HTTP_BODY_MAX + 1);
    assert_int_equal(feed(start), TFE_ETOOBIG);
    http_answer_done(&answer);
    (void)snprintf(start, sizeof start,
                   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n",
                   HTTP_BODY_MAX + 1);
    assert_int_equal(feed(start), TFE_ETOOBIG);
    /* Without saying so. */
    http_answer_done(&answer);
    assert_int_equal(feed("HTTP/1.1 200 OK\r\n\r\n"), TFE_EMORE);
    assert_int_equal(flood("0123456789abcdef", 1 << 20, &rc), HTTP_BODY_MAX + 16);
    assert_int_equal(rc, TFE_ETOOBIG);
    /* Small chunks add up. */
    http_answer_done(&answer);
    assert_int_equal(feed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), TFE_EMORE);
    assert_in_range(flood("8\r\nabcdefgh\r\n", 1 << 20, &rc), HTTP_BODY_MAX, 2 * HTTP_BODY_MAX);
    assert_int_equal(rc, TFE_ETOOBIG);
    /* Headers, one long and many. */
    http_answer_done(&answer);
    assert_in_range(flood("aaaaaaaa", 1 << 20, &rc), HTTP_HEAD_MAX - 16, HTTP_HEAD_MAX);
    assert_int_equal(rc, TFE_ETOOBIG);
    http_answer_done(&answer);
    assert_int_equal(feed("HTTP/1.1 200 OK\r\n"), TFE_EMORE);
    assert_in_range(flood("a: b\r\n", 1 << 20, &rc), HTTP_HEAD_MAX - 16, 2 * HTTP_HEAD_MAX);
    assert_int_equal(rc, TFE_ETOOBIG);
}

int main(void)
{
#define WITH_ANSWER(story) cmocka_unit_test_setup_teardown(http_answer__##story, make, end)
    const struct CMUnitTest tests[] = {
        WITH_ANSWER(has_a_status_headers_and_a_body_of_its_length),
        WITH_ANSWER(is_the_same_when_it_drips),
        WITH_ANSWER(comes_in_chunks),
        WITH_ANSWER(without_a_length_goes_on_to_the_end),
        WITH_ANSWER(without_a_body_is_whole_after_its_headers),
        WITH_ANSWER(of_a_preliminary_kind_is_skipped),
        WITH_ANSWER(that_is_cut_says_where),
        WITH_ANSWER(that_is_none_is_refused),
        WITH_ANSWER(that_is_huge_is_refused_at_the_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
