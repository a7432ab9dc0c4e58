/* tests/unit/text/test_git_url.c: URL@REF of a repository. */
#include <stdio.h>
#include <string.h>

#include "common/text/git_url.h"
#include "tests/unit/test_runner.h"

TEST(git_url, ends_before_the_ref)
{
    static const struct {
        const char *url, *ref;
    } cases[] = {
        {"https://host/x.git", "@main"},
        {"https://me@host/x.git", "@v1"},
        {"https://me@host/x.git", ""},
        {"git@host:x.git", "@feature/a"},
        {"git@host:x.git", ""},
        {"ssh://git@host:22/x", ""},
        {"file:///srv/x@2/y", "@main"},
        {"/srv/x", "@main"},
        {"x", "@main"},
        {"https://u:p@host/x", "@"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[128];
        snprintf(text, sizeof(text), "%s%s", cases[i].url, cases[i].ref);
        assert_int_equal(git_url_length(text), strlen(cases[i].url));
    }
}

TEST(git_url, a_commit_is_complete_and_its_number_has_its_first_digits)
{
    char text[GIT_COMMIT_MAX + 2] = "";
    for (size_t n = 0; n <= GIT_COMMIT_MAX; n++) {
        assert_int_equal(git_ref_is_commit(text), n == 40 || n == 64);
        text[n] = "fedcba9876543210"[n % 16];
    }
    assert_int_equal(git_commit_number(text), 0xfedcba9876543210);
    text[3] = 'X';
    assert_false(git_ref_is_commit(text));
}

TEST(git_url, is_shown_without_secrets)
{
    static const char *const cases[][2] = {
        {"https://u:p@host/x?token=t#f", "https://***@host/x?***"},
        {"https://token@host/x", "https://***@host/x"},
        {"https://u:p@q@host/x@y", "https://***@host/x@y"},
        {"ssh://git@host/x", "ssh://git@host/x"},
        {"ssh://git:p@host/x", "ssh://***@host/x"},
        {"git@host:x", "git@host:x"},
        {"file:///srv/x", "file:///srv/x"},
    };
    char shown[64];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        git_url_mask(shown, sizeof(shown), cases[i][0]);
        assert_string_equal(shown, cases[i][1]);
    }
    git_url_mask(shown, 12, "https://u:p@host/x");
    assert_string_equal(shown, "https://***");
}
