/* tests/unit/cli/test_suggest.c: which word somebody meant who typed another one. */
#include <string.h>

#include "common/cli/suggest.h"
#include "tests/unit/test_runner.h"

static const char *nearest_of(const char *typed)
{
    static const char *const words[] = {"status", "nodes", "drain", "stop"};
    struct nearest nearest;
    nearest_init(&nearest, typed, strlen(typed));
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        nearest_try(&nearest, words[i]);
    }
    return nearest.word;
}

TEST(nearest, is_a_slip_away)
{
    assert_string_equal(nearest_of("statsu"), "status");
    assert_string_equal(nearest_of("drian"), "drain");
    assert_string_equal(nearest_of("no"), "nodes");
    assert_string_equal(nearest_of("st"), "status");
}

TEST(nearest, is_nothing_where_another_word_was_meant)
{
    char longest[100];
    memset(longest, 's', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_null(nearest_of("frobnicate"));
    assert_null(nearest_of(""));
    assert_null(nearest_of(longest));
}
