/* tests/unit/base/test_json.c: the JSON writer: what it writes, and how it fails. */
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/json.h"
#include "tests/unit/story.h"

/* An allocator that fails from the call number fail_at on (0: never). */
struct failing {
    unsigned calls;
    unsigned fail_at;
};

static void *failing_resize(void *ctx, void *p, size_t n)
{
    struct failing *f = ctx;
    if (n == 0) {
        free(p);
        return NULL;
    }
    f->calls++;
    return f->fail_at > 0 && f->calls >= f->fail_at ? NULL : realloc(p, n);
}

static const char *finish(struct json *j)
{
    const char *text = NULL;
    size_t n = 0;
    assert_int_equal(json_finish(j, &text, &n), 0);
    assert_int_equal(strlen(text), n);
    return text;
}

static int finish_error(struct json *j)
{
    const char *text = NULL;
    size_t n = 0;
    return json_finish(j, &text, &n);
}

#define WITH_JSON(j)                                                                               \
    struct failing failing = {0};                                                                  \
    const struct tfe_mem mem = {failing_resize, &failing};                                         \
    struct json j;                                                                                 \
    json_init(&j, &mem)

TEST(json, containers_nest_and_commas_stand_between)
{
    NO_FIXTURE;
    WITH_JSON(j);
    json_begin_object(&j, NULL);
    json_begin_array(&j, "jobs");
    json_begin_object(&j, NULL);
    json_text(&j, "job", "default");
    json_u64(&j, "epoch", UINT64_MAX);
    json_i64(&j, "left", INT64_MIN);
    json_bool(&j, "ok", true);
    json_bool(&j, "late", false);
    json_add_null(&j, "rank");
    json_text(&j, "address", NULL);
    json_end_object(&j);
    json_begin_object(&j, NULL);
    json_end_object(&j);
    json_u64(&j, NULL, 0);
    json_i64(&j, NULL, -7);
    json_end_array(&j);
    json_begin_array(&j, "none");
    json_end_array(&j);
    json_end_object(&j);
    assert_string_equal(finish(&j),
                        "{\"jobs\":[{\"job\":\"default\",\"epoch\":18446744073709551615,"
                        "\"left\":-9223372036854775808,\"ok\":true,\"late\":false,"
                        "\"rank\":null,\"address\":null},{},0,-7],\"none\":[]}");
    json_done(&j);
}

TEST(json, a_bare_value_is_a_document)
{
    NO_FIXTURE;
    WITH_JSON(j);
    json_text(&j, NULL, "");
    assert_string_equal(finish(&j), "\"\"");
    json_done(&j);
}

TEST(json, text_is_escaped_and_repaired)
{
    NO_FIXTURE;
    static const struct {
        const char *in;
        const char *out;
    } cases[] = {
        {"a\"b\\c/", "\"a\\\"b\\\\c/\""},
        {"\n\r\t\x01\x1f\x7f", "\"\\n\\r\\t\\u0001\\u001f\x7f\""},
        {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
         "\"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80\""},
        {"\xff", "\"\xef\xbf\xbd\""},
        {"x\x80y", "\"x\xef\xbf\xbdy\""},
        /* Overlong '/', a surrogate, above U+10FFFF, a sequence that breaks off. */
        {"\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xe2\x82\"", "\"\xef\xbf\xbd\xef\xbf\xbd\\\"\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        WITH_JSON(j);
        json_text(&j, NULL, cases[i].in);
        assert_string_equal(finish(&j), cases[i].out);
        json_done(&j);
    }
}

TEST(json, keys_are_escaped_too)
{
    NO_FIXTURE;
    WITH_JSON(j);
    json_begin_object(&j, NULL);
    json_add_null(&j, "a\"\n");
    json_end_object(&j);
    assert_string_equal(finish(&j), "{\"a\\\"\\n\":null}");
    json_done(&j);
}

TEST(json, depth_is_bounded_and_the_bound_itself_is_legal)
{
    NO_FIXTURE;
    for (unsigned depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        WITH_JSON(j);
        for (unsigned i = 0; i < depth; i++) {
            json_begin_array(&j, NULL);
        }
        for (unsigned i = 0; i < depth; i++) {
            json_end_array(&j);
        }
        assert_int_equal(finish_error(&j), depth > JSON_DEPTH_MAX ? TFE_ETOOBIG : 0);
        json_done(&j);
    }
}

TEST(json, calls_that_make_no_document_are_told)
{
    NO_FIXTURE;
    for (int which = 0; which < 8; which++) {
        WITH_JSON(j);
        switch (which) {
        case 0: /* nothing written */
            break;
        case 1:
            json_begin_object(&j, NULL); /* still open */
            break;
        case 2:
            json_begin_object(&j, NULL);
            json_end_array(&j);
            break;
        case 3:
            json_end_object(&j);
            break;
        case 4:
            json_begin_object(&j, NULL);
            json_add_null(&j, NULL); /* a member without a name */
            json_end_object(&j);
            break;
        case 5:
            json_begin_array(&j, NULL);
            json_add_null(&j, "name");
            json_end_array(&j);
            break;
        case 6:
            json_add_null(&j, NULL);
            json_add_null(&j, NULL); /* two documents */
            break;
        default:
            json_add_null(&j, "name");
        }
        assert_int_equal(finish_error(&j), TFE_ESTATE);
        json_done(&j);
    }
}

TEST(json, each_failing_allocation_is_remembered_until_finish)
{
    NO_FIXTURE;
    unsigned needed = 1;
    for (unsigned fail_at = 1; fail_at <= needed; fail_at++) {
        WITH_JSON(j);
        failing.fail_at = fail_at;
        json_begin_array(&j, NULL);
        for (int i = 0; i < 400; i++) {
            json_text(&j, NULL, "0123456789\n");
        }
        json_end_array(&j);
        if (fail_at == 1) {
            /* How many there are to fail, from a run in which none does. */
            struct failing whole = {0};
            const struct tfe_mem whole_mem = {failing_resize, &whole};
            struct json k;
            json_init(&k, &whole_mem);
            json_begin_array(&k, NULL);
            for (int i = 0; i < 400; i++) {
                json_text(&k, NULL, "0123456789\n");
            }
            json_end_array(&k);
            assert_int_equal(strlen(finish(&k)), 2 + 400 * 14 + 399);
            json_done(&k);
            needed = whole.calls;
            assert_true(needed > 3);
        }
        assert_int_equal(finish_error(&j), TFE_ENOMEM);
        json_done(&j);
    }
}

TEST(json, done_may_be_followed_by_done)
{
    NO_FIXTURE;
    WITH_JSON(j);
    json_add_null(&j, NULL);
    json_done(&j);
    json_done(&j);
    json_bool(&j, NULL, true);
    assert_string_equal(finish(&j), "true");
    json_done(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(json, containers_nest_and_commas_stand_between),
        STORY(json, a_bare_value_is_a_document),
        STORY(json, text_is_escaped_and_repaired),
        STORY(json, keys_are_escaped_too),
        STORY(json, depth_is_bounded_and_the_bound_itself_is_legal),
        STORY(json, calls_that_make_no_document_are_told),
        STORY(json, each_failing_allocation_is_remembered_until_finish),
        STORY(json, done_may_be_followed_by_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
