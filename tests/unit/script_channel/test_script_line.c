/* tests/unit/script_channel/test_script_line.c: progress parsed from printed lines. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/script_channel/script_line.h"
#include "tests/unit/test_runner.h"

static char longest[1026]; /* a pattern that is one byte too long */

static bool reads(const char *pattern, const char *line, struct script_message *ret)
{
    struct script_line *s = NULL;
    struct tfe_reason reason = {.text = ""};
    assert_int_equal(script_line_new(pattern, &s, &reason), 0);
    bool does = script_line_read(s, line, strlen(line), ret);
    script_line_free(s);
    return does;
}

TEST(script_line, words_behind_tfe_tell_step_and_metrics)
{
    struct script_message m;
    assert_true(reads(NULL, "tfe: step=120, total=1000 samples=7680 loss=3.1e-1 acc=nan", &m));
    assert_int_equal(m.type, SCRIPT_PROGRESS);
    assert_true(m.has_step && m.step == 120 && m.total == 1000 && m.samples == 7680);
    assert_int_equal(m.metrics.n, 1); /* values that are no numbers are rejected */
    assert_string_equal(m.metrics.v[0].name, "loss");
    assert_true(m.metrics.v[0].value == 0.31);
}

TEST(script_line, what_tells_nothing_is_passed_over)
{
    struct script_message m;
    static const char *const lines[] = {"",       "tfe:",         "tfe: ",        "tfe: hello",
                                        "step=1", " tfe: step=1", "tfe: step=-1", "tfe: step=x",
                                        "tfe: =1"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (reads(NULL, lines[i], &m)) {
            fail_msg("\"%s\" tells something", lines[i]);
        }
    }
}

TEST(script_line, groups_of_a_pattern_have_names)
{
    struct script_message m;
    const char *pattern = "step (?<step>[0-9]+)[/(]([0-9]+)\\)? - loss: (?P<loss>[0-9.]+)";
    assert_true(reads(pattern, "  step 12/100 - loss: 0.75 - 3ms", &m));
    assert_true(m.has_step && m.step == 12);
    assert_int_equal(m.metrics.n, 1);
    assert_true(m.metrics.v[0].value == 0.75);
    assert_false(reads(pattern, "step x", &m));
    assert_true(reads(pattern, "tfe: step=3", &m)); /* case-insensitive */
}

TEST(script_line, a_pattern_that_makes_no_sense_or_is_too_large_is_refused)
{
    static const char *const patterns[] = {
        "(",
        "step [0-9]+",
        "([0-9]+)",
        "(?<step[0-9]+)",
        "(?<>[0-9]+)",
        "(?<step>((a{500}){500}){500})",
        "(?<a_name_longer_than_that_of_any_metric_may_be_in_this_protocol_of_ours_ever_ever>x)",
        "(?<step>\\C)",
        "(*UTF)(?<step>x)",
        longest};
    memset(longest, 'x', sizeof(longest) - 1);
    memcpy(longest, "(?<step>x)", 10);
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        struct script_line *s = NULL;
        struct tfe_reason reason = {.text = ""};
        assert_int_equal(script_line_new(patterns[i], &s, &reason), TFE_EINVAL);
        assert_true(reason.text[0] != '\0');
    }
}

static int64_t cpu_ms(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

TEST(script_line, no_pattern_holds_the_agent_up)
{
    static const char *const patterns[] = {"(?<step>(a+)+)b",          "(?<step>(a|aa)+)$",
                                           "(?<step>(a?){500}a{500})", "(?<step>((?1)?a))*b",
                                           "(?<step>.*a.*a.*a.*a.*)b", "(?<step>(a*)*)\\3b",
                                           "(?<step>(?:(?=(a+))a)+)b"};
    char line[1025];
    memset(line, 'a', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        struct script_line *s = NULL;
        struct script_message m;
        struct tfe_reason reason;
        if (script_line_new(patterns[i], &s, &reason) != 0) {
            continue; /* may also be rejected */
        }
        const int64_t began = cpu_ms();
        for (int k = 0; k < 10000; k++) { /* too few for one second */
            (void)script_line_read(s, line, sizeof(line) - 1, &m);
        }
        if (cpu_ms() - began > 1000) {
            fail_msg("%s: %lld ms", patterns[i], (long long)(cpu_ms() - began));
        }
        script_line_free(s);
    }
}

TEST(script_line, a_line_without_end_and_too_many_metrics_do_no_harm)
{
    static char line[100000];
    struct script_message m;
    memset(line, 'x', sizeof(line) - 1);
    memcpy(line, "tfe: step=1 ", 12);
    assert_false(reads("(?<step>x+)", line, &m));
    char many[600] = "tfe:";
    for (int i = 0; i < 20; i++) {
        (void)snprintf(many + strlen(many), sizeof(many) - strlen(many), " m%d=%d", i, i);
    }
    assert_true(reads(NULL, many, &m));
    assert_int_equal(m.metrics.n, SCRIPT_METRICS_MAX);
}
