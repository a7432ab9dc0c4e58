/* tests/unit/text/test_reason.c: error messages that callers prefix. */
#include <errno.h>
#include <string.h>

#include "common/text/reason.h"
#include "common/text/text.h"
#include "tests/unit/test_runner.h"

TEST(reason, grows_outwards)
{
    struct tfe_reason reason;
    errno = EACCES;
    reason_errno(&reason, "open %s", "/var/lib/tfe/server.key");
    reason_prefix(&reason, "load %s", "keys");
    assert_string_equal(reason.text, "load keys: open /var/lib/tfe/server.key: permission denied");
    reason_set(&reason, "other");
    assert_string_equal(reason.text, "other");
}

TEST(reason, keeps_errno_and_capitals_that_belong)
{
    struct tfe_reason reason;
    errno = EDOTDOT; /* "RFS specific error" */
    reason_errno(&reason, "call");
    assert_int_equal(errno, EDOTDOT);
    assert_string_equal(reason.text, "call: RFS specific error");
}

TEST(reason, may_be_built_from_itself)
{
    struct tfe_reason reason;
    reason_set(&reason, "inner");
    reason_set(&reason, "outer (%s)", reason.text);
    assert_string_equal(reason.text, "outer (inner)");
    reason_prefix(&reason, "%s", reason.text);
    assert_string_equal(reason.text, "outer (inner): outer (inner)");
}

TEST(reason, is_cut_and_never_within_a_character)
{
    struct tfe_reason reason;
    char text[700];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    reason_set(&reason, "%s", text);
    assert_int_equal(strlen(reason.text), sizeof reason.text - 1);
    /* The end of the buffer would split the 3 bytes of the euro sign. */
    for (size_t at = sizeof reason.text - 4; at < sizeof reason.text; at++) {
        memset(text, 'a', sizeof text - 1);
        memcpy(text + at, "\xe2\x82\xac", 3);
        reason_set(&reason, "%s", text);
        assert_int_equal(strlen(reason.text),
                         at + 3 <= sizeof reason.text - 1 ? sizeof reason.text - 1
                         : at < sizeof reason.text - 1    ? at
                                                          : sizeof reason.text - 1);
        reason_set(&reason, "x");
        reason_prefix(&reason, "%s", text);
        assert_null(strchr(reason.text, 'x'));
    }
}

TEST(reason, marks_characters_that_a_precision_has_cut)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"abcd", "\"abcd\" is unknown"},
        {"abc\xc3\xa9", "\"abc\xe2\x80\xa6\" is unknown"},
        {"ab\xe2\x82\xac", "\"ab\xe2\x80\xa6\" is unknown"},
        {"ab\xc3\xa9", "\"ab\xc3\xa9\" is unknown"},
        {"a\xf0\x9f\x98\x80", "\"a\xe2\x80\xa6\" is unknown"},
        {"ab\xa9\xa9", "\"ab\xa9\xa9\" is unknown"}, /* other malformed bytes stay */
    };
    struct tfe_reason reason;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        reason_set(&reason, "\"%.4s\" is unknown", cases[i].text);
        assert_string_equal(reason.text, cases[i].expected);
    }
}

TEST(text, is_cut_before_a_character_that_does_not_fit)
{
    char small[6];
    text_setf(small, sizeof small, "abc\xe2\x82\xac");
    assert_string_equal(small, "abc");
    struct text text;
    text_init(&text, small, sizeof small);
    text_add(&text, "a");
    text_addf(&text, "%.1s-", "\xc3\xa9");
    assert_string_equal(small, "a\xe2\x80\xa6-");
}
