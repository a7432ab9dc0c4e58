/* tests/unit/cli/test_suggest.c: suggestions for mistyped words. */
#include <string.h>

#include "common/cli/suggest.h"
#include "tests/unit/test_runner.h"

static const char *suggest_word(const char *typed)
{
    static const char *const words[] = {"status", "nodes", "drain", "stop"};
    struct suggestion suggestion;
    suggest_init(&suggestion, typed, strlen(typed));
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        suggest_try(&suggestion, words[i]);
    }
    return suggestion.word;
}

TEST(suggestion, is_a_slip_away)
{
    assert_string_equal(suggest_word("statsu"), "status");
    assert_string_equal(suggest_word("drian"), "drain");
    assert_string_equal(suggest_word("no"), "nodes");
    assert_string_equal(suggest_word("st"), "status");
}

TEST(suggestion, is_nothing_where_another_word_was_meant)
{
    char longest[100];
    memset(longest, 's', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_null(suggest_word("frobnicate"));
    assert_null(suggest_word(""));
    assert_null(suggest_word(longest));
}
