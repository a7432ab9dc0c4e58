/* tests/unit/script_channel/test_script_message.c: parsing valid and invalid
 * messages of scripts. */
#include <stdio.h>
#include <string.h>

#include "agent/script_channel/script_message.h"
#include "tests/unit/test_runner.h"

static int read_text(const char *text, struct script_message *ret)
{
    struct tfe_reason reason;
    return script_message_read(text, strlen(text), ret, &reason);
}

TEST(script_message, hello_says_who_listens)
{
    struct script_message m;
    assert_int_equal(read_text("{\"type\":\"hello\",\"epoch\":3,\"rank\":2,\"pid\":77,"
                               "\"listens\":true}",
                               &m),
                     0);
    assert_int_equal(m.type, SCRIPT_HELLO);
    assert_int_equal(m.epoch, 3);
    assert_int_equal(m.rank, 2);
    assert_int_equal(m.pid, 77);
    assert_true(m.listens);
}

TEST(script_message, progress_and_checkpoint_carry_numbers_of_63_bits)
{
    struct script_message m;
    assert_int_equal(read_text("{\"samples\":10,\"type\":\"progress\",\"epoch\":1,\"rank\":0,"
                               "\"step\":9223372036854775807}",
                               &m),
                     0);
    assert_int_equal(m.type, SCRIPT_PROGRESS);
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
    assert_int_equal(m.type, SCRIPT_CHECKPOINT);
    assert_int_equal(m.step, 5);
    assert_int_equal(m.answers, 2);
}

TEST(script_message, kept_carries_the_step_that_is_whole)
{
    struct script_message m;
    assert_int_equal(read_text("{\"type\":\"snapshot\",\"epoch\":1,\"rank\":0,\"step\":5}", &m), 0);
    assert_int_equal(m.type, SCRIPT_SNAPSHOT);
    assert_int_equal(m.step, 5);
    assert_int_equal(m.answers, 0);
    assert_int_equal(
        read_text("{\"type\":\"snapshot\",\"epoch\":1,\"rank\":0,\"step\":5,\"answers\":2}", &m),
        0);
    assert_int_equal(m.answers, 2);
}

TEST(script_message, a_hook_may_not_know_the_step_and_says_who_it_is)
{
    struct script_message m;
    assert_int_equal(
        read_text("{\"type\":\"checkpoint\",\"epoch\":1,\"rank\":0,\"seen\":true}", &m), 0);
    assert_false(m.has_step);
    assert_true(m.seen);
    assert_int_equal(
        read_text("{\"type\":\"handler\",\"epoch\":1,\"rank\":0,\"pid\":7,\"term\":true}", &m), 0);
    assert_int_equal(m.type, SCRIPT_HANDLER);
    assert_true(m.handles);
    assert_int_equal(read_text("{\"type\":\"remark\",\"epoch\":1,\"rank\":0,"
                               "\"what\":\"hook_failed\",\"why\":\"steps: x\"}",
                               &m),
                     0);
    assert_int_equal(m.remark, REMARK_HOOK_FAILED);
    assert_string_equal(m.reason, "steps: x");
    assert_int_equal(
        read_text("{\"type\":\"remark\",\"epoch\":1,\"rank\":0,\"what\":\"else\"}", &m), 0);
    assert_int_equal(m.remark, REMARK_UNKNOWN);
}

TEST(script_message, state_of_artifacts_is_read_and_made_printable)
{
    struct script_message m;
    assert_int_equal(read_text("{\"type\":\"artifact\",\"epoch\":1,\"rank\":0,\"state\":\"stored\","
                               "\"place\":\"s3://b/\\u001b[m\",\"files\":3,\"bytes\":40}",
                               &m),
                     0);
    assert_int_equal(m.type, SCRIPT_ARTIFACT);
    assert_int_equal(m.artifact, ARTIFACT_STORED);
    assert_string_equal(m.place, "s3://b/\\u001b[m");
    assert_int_equal(m.files, 3);
    assert_int_equal(m.bytes, 40);
    assert_string_equal(m.reason, "");
}

TEST(script_message, what_is_not_known_is_left_for_later_versions)
{
    struct script_message m;
    assert_int_equal(read_text("{\"type\":\"progress\",\"epoch\":1,\"rank\":0,\"step\":1,"
                               "\"mood\":{\"good\":[true]}}",
                               &m),
                     0);
    assert_int_equal(read_text("{\"type\":\"sing\",\"epoch\":1,\"rank\":0}", &m), TFE_EUNKNOWN);
}

TEST(script_message, wrong_types_sizes_and_repeated_members_are_refused)
{
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
        "{\"type\":\"memory\",\"epoch\":1,\"rank\":0,\"bytes\":-1}",
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
        "{\"type\":\"artifact\",\"epoch\":1,\"rank\":0,\"state\":\"lost\",\"place\":\"p\","
        "\"files\":1,\"bytes\":1}",
        "{\"type\":\"artifact\",\"epoch\":1,\"rank\":0,\"state\":\"stored\",\"place\":\"\","
        "\"files\":1,\"bytes\":1}",
        "{\"type\":\"artifact\",\"epoch\":1,\"rank\":0,\"state\":\"stored\",\"place\":\"p\","
        "\"files\":-1,\"bytes\":1}",
        "{\"type\":\"snapshot\",\"epoch\":1,\"rank\":0}",
        "{\"type\":\"snapshot\",\"epoch\":1,\"rank\":0,\"step\":-1}",
        "{\"type\":\"snapshot\",\"epoch\":1,\"rank\":0,\"step\":1,\"answers\":-1}",
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
        struct tfe_reason reason = {.text = ""};
        if (script_message_read(wrong[i], strlen(wrong[i]), &m, &reason) != TFE_EINVAL ||
            !reason.text[0] || m.step != 4711) {
            fail_msg("taken: %s", wrong[i]);
        }
    }
}

TEST(script_message, long_and_deep_ones_are_refused)
{
    static char text[SCRIPT_MESSAGE_MAX + 2];
    struct script_message m;
    struct tfe_reason reason;
    memset(text, '[', SCRIPT_MESSAGE_MAX);
    assert_int_equal(script_message_read(text, SCRIPT_MESSAGE_MAX, &m, &reason), TFE_EINVAL);
    memset(text, ' ', sizeof(text));
    static const char good[] = "{\"type\":\"progress\",\"epoch\":1,\"rank\":0,\"step\":1}";
    memcpy(text, good, sizeof(good) - 1);
    assert_int_equal(script_message_read(text, SCRIPT_MESSAGE_MAX, &m, &reason), 0);
    assert_int_equal(script_message_read(text, SCRIPT_MESSAGE_MAX + 1, &m, &reason), TFE_EINVAL);
    int n = snprintf(text, sizeof(text),
                     "{\"type\":\"checkpoint\",\"epoch\":1,\"rank\":0,\"step\":1,"
                     "\"path\":\"%04500d\"}",
                     0);
    assert_int_equal(script_message_read(text, (size_t)n, &m, &reason), TFE_EINVAL);
}

TEST(script_message, the_agent_says_save_and_stop)
{
    char text[SCRIPT_REPLY_MAX];
    size_t n = script_message_save(text, INT64_MAX, INT64_MAX, true, INT64_MAX, true);
    assert_int_equal(n, strlen(text));
    assert_non_null(strstr(text, "\"epoch\":9223372036854775807,"));
    script_message_save(text, 3, 1, false, 0, true);
    assert_string_equal(text, "{\"type\":\"save\",\"epoch\":3,\"number\":1,\"within_ms\":null,"
                              "\"in_memory\":true}");
    script_message_save(text, 3, 2, true, 1500, false);
    assert_string_equal(text, "{\"type\":\"save\",\"epoch\":3,\"number\":2,\"within_ms\":1500,"
                              "\"in_memory\":false}");
    script_message_stop(text, 3, 5000, true);
    assert_string_equal(text,
                        "{\"type\":\"stop\",\"epoch\":3,\"grace_ms\":5000,\"in_memory\":true}");
}
