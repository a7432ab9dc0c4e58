/* tests/unit/scripts/test_script_message.c: what a script may say, and everything else that may
 * come. */
#include <stdio.h>
#include <string.h>

#include "agent/scripts/script_message.h"
#include "tests/unit/story.h"

static int read_text(const char *text, struct script_message *ret)
{
    const char *why;
    return script_message_read(text, strlen(text), ret, &why);
}

TEST(script_message, hello_says_who_listens)
{
    NO_FIXTURE;
    struct script_message m;
    assert_int_equal(read_text("{\"type\":\"hello\",\"epoch\":3,\"rank\":2,\"pid\":77,"
                               "\"listens\":true}",
                               &m),
                     0);
    assert_int_equal(m.word, SCRIPT_HELLO);
    assert_int_equal(m.epoch, 3);
    assert_int_equal(m.rank, 2);
    assert_int_equal(m.pid, 77);
    assert_true(m.listens);
}

TEST(script_message, progress_and_checkpoint_carry_numbers_of_63_bits)
{
    NO_FIXTURE;
    struct script_message m;
    assert_int_equal(read_text("{\"samples\":10,\"type\":\"progress\",\"epoch\":1,\"rank\":0,"
                               "\"step\":9223372036854775807}",
                               &m),
                     0);
    assert_int_equal(m.word, SCRIPT_PROGRESS);
    assert_int_equal(m.step, INT64_MAX);
    assert_false(m.restored);
    assert_int_equal(read_text("{\"type\":\"progress\",\"epoch\":1,\"rank\":0,\"step\":5,"
                               "\"restored\":true}",
                               &m),
                     0);
    assert_true(m.restored);
    assert_int_equal(read_text("{\"type\":\"checkpoint\",\"epoch\":1,\"rank\":0,\"step\":5,"
                               "\"path\":\"/data/ckpt-5\",\"answers\":2}",
                               &m),
                     0);
    assert_int_equal(m.word, SCRIPT_CHECKPOINT);
    assert_int_equal(m.step, 5);
    assert_int_equal(m.answers, 2);
}

TEST(script_message, what_is_not_known_is_left_for_later_versions)
{
    NO_FIXTURE;
    struct script_message m;
    assert_int_equal(read_text("{\"type\":\"progress\",\"epoch\":1,\"rank\":0,\"step\":1,"
                               "\"mood\":{\"good\":[true]}}",
                               &m),
                     0);
    assert_int_equal(read_text("{\"type\":\"sing\",\"epoch\":1,\"rank\":0}", &m), TFE_EUNKNOWN);
}

TEST(script_message, wrong_types_sizes_and_repeated_members_are_refused)
{
    NO_FIXTURE;
    static const char *const wrong[] = {
        "",
        "{",
        "[]",
        "7",
        "null",
        "{}",
        "{\"type\":7,\"epoch\":1,\"rank\":0}",
        "{\"type\":\"progress\",\"rank\":0,\"step\":1}",
        "{\"type\":\"progress\",\"epoch\":-1,\"rank\":0,\"step\":1}",
        "{\"type\":\"progress\",\"epoch\":\"1\",\"rank\":0,\"step\":1}",
        "{\"type\":\"progress\",\"epoch\":1.0,\"rank\":0,\"step\":1}",
        "{\"type\":\"progress\",\"epoch\":1,\"rank\":4294967296,\"step\":1}",
        "{\"type\":\"progress\",\"epoch\":1,\"rank\":0}",
        "{\"type\":\"progress\",\"epoch\":1,\"rank\":0,\"step\":null}",
        "{\"type\":\"progress\",\"epoch\":1,\"rank\":0,\"step\":9223372036854775808}",
        "{\"type\":\"progress\",\"epoch\":1,\"rank\":0,\"step\":1,\"samples\":-1}",
        "{\"type\":\"progress\",\"epoch\":1,\"epoch\":1,\"rank\":0,\"step\":1}",
        "{\"type\":\"progress\",\"epoch\":1,\"rank\":0,\"step\":1,\"restored\":1}",
        "{\"type\":\"progress\",\"epoch\":1,\"rank\":0,\"step\":1} x",
        "{\"type\":\"hello\",\"epoch\":1,\"rank\":0,\"pid\":0,\"listens\":true}",
        "{\"type\":\"hello\",\"epoch\":1,\"rank\":0,\"pid\":2147483648,\"listens\":true}",
        "{\"type\":\"hello\",\"epoch\":1,\"rank\":0,\"pid\":1,\"listens\":1}",
        "{\"type\":\"hello\",\"epoch\":1,\"rank\":0,\"pid\":1}",
        "{\"type\":\"checkpoint\",\"epoch\":1,\"rank\":0,\"step\":1,\"path\":7}",
        "{\"type\":\"checkpoint\",\"epoch\":1,\"rank\":0,\"step\":1,\"answers\":true}",
        "{\"type\":\"progress\xff\",\"epoch\":1,\"rank\":0,\"step\":1}",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct script_message m = {.step = 4711};
        const char *why = NULL;
        if (script_message_read(wrong[i], strlen(wrong[i]), &m, &why) != TFE_EINVAL || !why ||
            m.step != 4711) {
            fail_msg("taken: %s", wrong[i]);
        }
    }
}

TEST(script_message, long_and_deep_ones_are_refused)
{
    NO_FIXTURE;
    static char text[SCRIPT_MESSAGE_MAX + 2];
    struct script_message m;
    const char *why;
    memset(text, '[', SCRIPT_MESSAGE_MAX);
    assert_int_equal(script_message_read(text, SCRIPT_MESSAGE_MAX, &m, &why), TFE_EINVAL);
    memset(text, ' ', sizeof(text));
    memcpy(text, "{\"type\":\"progress\",\"epoch\":1,\"rank\":0,\"step\":1}", 46);
    assert_int_equal(script_message_read(text, SCRIPT_MESSAGE_MAX + 1, &m, &why), TFE_EINVAL);
    int n = snprintf(text, sizeof(text),
                     "{\"type\":\"checkpoint\",\"epoch\":1,\"rank\":0,\"step\":1,"
                     "\"path\":\"%04500d\"}",
                     0);
    assert_int_equal(script_message_read(text, (size_t)n, &m, &why), TFE_EINVAL);
}

TEST(script_message, the_agent_says_save_and_stop)
{
    NO_FIXTURE;
    char text[SCRIPT_ANSWER_MAX];
    size_t n = script_message_save(text, UINT64_MAX, UINT64_MAX, true, UINT64_MAX);
    assert_int_equal(n, strlen(text));
    script_message_save(text, 3, 1, false, 0);
    assert_string_equal(text, "{\"type\":\"save\",\"epoch\":3,\"number\":1,\"within_ms\":null}");
    script_message_save(text, 3, 2, true, 1500);
    assert_string_equal(text, "{\"type\":\"save\",\"epoch\":3,\"number\":2,\"within_ms\":1500}");
    script_message_stop(text, 3, 5000);
    assert_string_equal(text, "{\"type\":\"stop\",\"epoch\":3,\"grace_ms\":5000}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(script_message, hello_says_who_listens),
        STORY(script_message, progress_and_checkpoint_carry_numbers_of_63_bits),
        STORY(script_message, what_is_not_known_is_left_for_later_versions),
        STORY(script_message, wrong_types_sizes_and_repeated_members_are_refused),
        STORY(script_message, long_and_deep_ones_are_refused),
        STORY(script_message, the_agent_says_save_and_stop),
    };
    return cmocka_run_group_tests_name("script_message", tests, NULL, NULL);
}
