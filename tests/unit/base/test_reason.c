/* tests/unit/base/test_reason.c: sentences that grow from the inside outwards. */
#include <errno.h>
#include <string.h>

#include "common/base/reason.h"
#include "tests/unit/test_runner.h"

TEST(why, grows_outwards)
{
    struct tfe_why why;
    errno = EACCES;
    why_errno(&why, "open %s", "/var/lib/tfe/server.key");
    why_prefix(&why, "load %s", "keys");
    assert_string_equal(why.text, "load keys: open /var/lib/tfe/server.key: permission denied");
    why_set(&why, "other");
    assert_string_equal(why.text, "other");
}

TEST(why, keeps_errno_and_capitals_that_belong)
{
    struct tfe_why why;
    errno = EDOTDOT; /* "RFS specific error" */
    why_errno(&why, "call");
    assert_int_equal(errno, EDOTDOT);
    assert_string_equal(why.text, "call: RFS specific error");
}

TEST(why, may_be_built_from_itself)
{
    struct tfe_why why;
    why_set(&why, "inner");
    why_set(&why, "outer (%s)", why.text);
    assert_string_equal(why.text, "outer (inner)");
    why_prefix(&why, "%s", why.text);
    assert_string_equal(why.text, "outer (inner): outer (inner)");
}

TEST(why, is_cut_and_never_within_a_character)
{
    struct tfe_why why;
    char text[700];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    why_set(&why, "%s", text);
    assert_int_equal(strlen(why.text), sizeof why.text - 1);
    /* The 3 bytes of the euro sign would be torn by the end of the buffer. */
    for (size_t at = sizeof why.text - 4; at < sizeof why.text; at++) {
        memset(text, 'a', sizeof text - 1);
        memcpy(text + at, "\xe2\x82\xac", 3);
        why_set(&why, "%s", text);
        assert_int_equal(strlen(why.text), at + 3 <= sizeof why.text - 1 ? sizeof why.text - 1
                                           : at < sizeof why.text - 1    ? at
                                                                         : sizeof why.text - 1);
        why_set(&why, "x");
        why_prefix(&why, "%s", text);
        assert_null(strchr(why.text, 'x'));
    }
}
