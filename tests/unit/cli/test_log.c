/* tests/unit/cli/test_log.c: log lines as they are written to stderr. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cli/log.h"
#include "tests/unit/test_runner.h"

/* Replaces stderr by one end of a socket pair during a test; cmocka reports through a copy. */
struct capture {
    int stderr_copy;
    int fd;
    char text[1 << 18];
};

static struct capture capture;

static void capture_start(int read_end, int write_end)
{
    capture.stderr_copy = dup(STDERR_FILENO);
    assert_true(capture.stderr_copy >= 0);
    assert_int_equal(dup2(write_end, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(close(write_end), 0);
    capture.fd = read_end;
    assert_int_equal(fcntl(read_end, F_SETFL, O_NONBLOCK), 0);
}

static void capture_pipe(void)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    capture_start(ends[0], ends[1]);
}

/* Returns everything written so far. */
static const char *captured(void)
{
    size_t n = 0;
    for (;;) {
        const ssize_t got = read(capture.fd, capture.text + n, sizeof capture.text - 1 - n);
        if (got <= 0) {
            break;
        }
        n += (size_t)got;
    }
    capture.text[n] = '\0';
    return capture.text;
}

static void capture_stop(void)
{
    assert_int_equal(dup2(capture.stderr_copy, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(close(capture.stderr_copy), 0);
    assert_int_equal(close(capture.fd), 0);
}

/* Checks the time stamp of a line and returns the rest. */
static const char *behind_time(const char *line, const char *before)
{
    const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ";
    assert_memory_equal(line, before, strlen(before));
    line += strlen(before);
    for (size_t i = 0; form[i] != '\0'; i++) {
        if (form[i] == 'd') {
            assert_in_range(line[i], '0', '9');
        } else {
            assert_int_equal(line[i], form[i]);
        }
    }
    return line + strlen(form);
}

TEST(log, logfmt_quotes_only_what_needs_it)
{
    capture_pipe();
    log_init("tfe-rdzv", LOG_INFO_, LOG_LOGFMT);
    log_info("joined", LOG_S("node", "a.b-c_d"), LOG_S("name", "two words"),
             LOG_S("left_out", NULL), LOG_S("empty", ""), LOG_U("epoch", UINT64_MAX),
             LOG_I("late", -3), LOG_B("ok", true), LOG_B("no", false),
             LOG_S("q", "a\"b\\c\nd\te\x01=\xff"), LOG_S("u", "gr\xc3\xbcn"));
    assert_string_equal(behind_time(captured(), "time="),
                        " level=info program=tfe-rdzv event=joined node=a.b-c_d name=\"two words\" "
                        "empty=\"\" epoch=18446744073709551615 late=-3 ok=true no=false "
                        "q=\"a\\\"b\\\\c\\nd\\te\\u0001=\xef\xbf\xbd\" u=gr\xc3\xbcn\n");
    capture_stop();
}

TEST(log, json_is_one_object_a_line)
{
    capture_pipe();
    log_init("tfe-agent", LOG_DEBUG_, LOG_JSON);
    log_error("broken thing", LOG_S("k", "v\"\n\x7f\xc3"), LOG_U("n", 7), LOG_I("i", INT64_MIN),
              LOG_B("b", true));
    assert_string_equal(
        behind_time(captured(), "{\"time\":\""),
        "\",\"level\":\"error\",\"program\":\"tfe-agent\",\"event\":\"broken thing\","
        "\"k\":\"v\\\"\\n\\u007f\xef\xbf\xbd\",\"n\":7,\"i\":-9223372036854775808,"
        "\"b\":true}\n");
    capture_stop();
}

TEST(log, levels_below_the_least_are_silent_and_errno_is_kept)
{
    capture_pipe();
    log_init("p", LOG_WARN_, LOG_LOGFMT);
    errno = ENOSPC;
    log_debug("a");
    log_info("b");
    log_warn("c");
    assert_int_equal(errno, ENOSPC);
    assert_string_equal(behind_time(captured(), "time="), " level=warn program=p event=c\n");
    capture_stop();
}

/* U+202E reversed the rest of a line; U+009B starts an escape sequence. */
TEST(log, what_steers_a_terminal_is_shown_escaped)
{
    capture_pipe();
    log_init("p", LOG_INFO_, LOG_LOGFMT);
    log_info("e", LOG_S("c1", "\xc2\x9b"), LOG_S("bidi", "a\xe2\x80\xae"), LOG_S("bytes", "\xff"),
             LOG_S("plain", "\xc3\xbc\xe2\x82\xac"));
    assert_non_null(strstr(captured(), " c1=\"\\u009b\" bidi=\"a\\u202e\" bytes=\"\xef\xbf\xbd\""
                                       " plain=\xc3\xbc\xe2\x82\xac\n"));
    capture_stop();
}

TEST(log, a_long_line_is_cut_and_says_so)
{
    static char big[10000];
    /* Two-byte characters at both parities, so that a cut would split one. */
    for (size_t shift = 0; shift < 2; shift++) {
        memset(big, 'a', shift);
        for (size_t i = shift; i + 2 < sizeof big; i += 2) {
            memcpy(big + i, "\xc3\xbc", 2);
        }
        big[sizeof big - 1 - (sizeof big - 1 - shift) % 2] = '\0';
        for (int json = 0; json < 2; json++) {
            capture_pipe();
            log_init("p", LOG_INFO_, json ? LOG_JSON : LOG_LOGFMT);
            log_info("e", LOG_S("big", big), LOG_U("after", 1));
            const char *line = captured();
            const size_t n = strlen(line);
            assert_in_range(n, 4000, 4096);
            const char *end = json ? "\",\"cut\":true}\n" : "\" cut=true\n";
            assert_string_equal(line + n - strlen(end), end);
            assert_memory_equal(line + n - strlen(end) - 2, "\xc3\xbc", 2);
            assert_null(strstr(line, "after"));
            capture_stop();
        }
    }
}

TEST(log, many_fields_are_cut_between_fields)
{
    struct log_field fields[1000];
    for (size_t i = 0; i < 1000; i++) {
        fields[i] = LOG_U("some_key", 1000000 + i);
    }
    capture_pipe();
    log_init("p", LOG_INFO_, LOG_LOGFMT);
    log_line(LOG_INFO_, "e", fields, 1000);
    const char *line = captured();
    const char *cut = strstr(line, " cut=true\n");
    assert_non_null(cut);
    assert_int_equal(cut[10], '\0');
    assert_memory_equal(cut - 17, " some_key=1000", 14);
    capture_stop();
}

/* Fills the pipe or socket behind stderr until log lines are dropped. Returns the number of lines
 * dropped. */
static unsigned flood(unsigned lines)
{
    static char filler[2000];
    memset(filler, 'f', sizeof filler - 1);
    for (unsigned i = 0; i < lines; i++) {
        log_info("flood", LOG_S("filler", filler));
    }
    const char *text = captured();
    unsigned arrived = 0;
    for (const char *at = text; (at = strstr(at, "event=flood")) != NULL; at++) {
        arrived++;
    }
    return lines - arrived;
}

static void check_drops(void)
{
    log_init("p", LOG_INFO_, LOG_LOGFMT);
    const unsigned dropped = flood(300);
    assert_in_range(dropped, 1, 299);
    log_info("next");
    char want[96];
    (void)snprintf(want, sizeof want, " level=info program=p event=next dropped=%u\n", dropped);
    const char *line = captured();
    /* A socket may have accepted the start of the line before. */
    line += line[0] == '\n';
    assert_string_equal(behind_time(line, "time="), want);
    log_info("last");
    assert_string_equal(behind_time(captured(), "time="), " level=info program=p event=last\n");
}

TEST(log, a_full_pipe_costs_lines_and_no_time)
{
    capture_pipe();
    check_drops();
    capture_stop();
}

TEST(log, a_full_socket_costs_lines_and_no_time)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const int small = 16384;
    assert_int_equal(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    capture_start(ends[0], ends[1]);
    check_drops();
    capture_stop();
}

TEST(log, nobody_behind_stderr_is_survived)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const int spare = dup(ends[0]);
    capture_start(ends[0], ends[1]);
    assert_int_equal(close(spare), 0);
    assert_int_equal(close(capture.fd), 0);
    log_init("p", LOG_INFO_, LOG_LOGFMT);
    log_info("into nothing");
    assert_int_equal(close(STDERR_FILENO), 0);
    log_info("into less");
    capture.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (capture.fd == STDERR_FILENO) {
        capture.fd = dup(capture.fd);
    }
    capture_stop();

    capture_pipe();
    log_info("back");
    assert_string_equal(behind_time(captured(), "time="),
                        " level=info program=p event=back dropped=2\n");
    capture_stop();
}

TEST(log, pretty_is_a_sentence_for_people)
{
    capture_pipe();
    log_init("tfe-agent", LOG_DEBUG_, LOG_PRETTY);
    log_warn("port_still_accepts", LOG_U("port", 7), LOG_S("reason", "say \"no\"\n\x01"),
             LOG_S("node", "0123456789abcdef0123456789abcdef"), LOG_U("ttl_ms", 1500),
             LOG_U("join_timeout_ms", 600000), LOG_S("empty", ""));
    const char *text = captured();
    assert_int_equal(text[2], ':');
    assert_string_equal(text + sizeof "00:00:00 " - 1,
                        "tfe-agent: warning: port still accepts: say \"no\"\\n\\u0001 "
                        "(port 7, node 01234567, ttl 1.5 s, join timeout 600 s)\n");
    log_info("waiting", LOG_S("reason", "spare: 2 of 2 are training"));
    assert_string_equal(captured() + sizeof "00:00:00 " - 1,
                        "tfe-agent: spare: 2 of 2 are training\n");
    capture_stop();
}

TEST(log, auto_is_for_programs_where_nobody_reads)
{
    capture_pipe();
    log_init("p", LOG_INFO_, LOG_AUTO);
    log_info("e");
    assert_string_equal(behind_time(captured(), "time="), " level=info program=p event=e\n");
    capture_stop();
}
