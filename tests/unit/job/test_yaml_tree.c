/* tests/unit/job/test_yaml_tree.c: values of YAML texts, and texts that are refused. */
#include <stdlib.h>
#include <string.h>

#include "server/ctl/jobs/yaml_tree.h"
#include "tests/unit/test_runner.h"

/* Compares the text's value with JSON, or expects a refusal that contains json if the result is
 * NULL. */
static void gives(const char *text, const char *json)
{
    struct tfe_reason reason = {""};
    json_t *tree = NULL;
    int rc = yaml_tree_read(text, strlen(text), &tree, &reason);
    if (rc) {
        print_message("refused: %s\n", reason.text);
    }
    assert_int_equal(rc, 0);
    char *got = json_dumps(tree, JSON_COMPACT | JSON_ENCODE_ANY);
    assert_string_equal(got, json);
    free(got);
    json_decref(tree);
}

static void refuses_bytes(const char *text, size_t n, int code, const char *part)
{
    struct tfe_reason reason = {""};
    json_t *tree = NULL;
    assert_int_equal(yaml_tree_read(text, n, &tree, &reason), code);
    assert_null(tree);
    if (!strstr(reason.text, part)) {
        print_message("refused: %s\n", reason.text);
        fail();
    }
}

static void refuses(const char *text, const char *part)
{
    refuses_bytes(text, strlen(text), TFE_EINVAL, part);
}

TEST(yaml_tree, mappings_lists_and_texts_are_what_they_look_like)
{
    gives("a: 1\nb: [x, 'y', \"z\"]\nc:\n  - d: true\n  -\n    e: ~\n",
          "{\"a\":1,\"b\":[\"x\",\"y\",\"z\"],\"c\":[{\"d\":true},{\"e\":null}]}");
    gives("a: |\n  two\n  lines\n", "{\"a\":\"two\\nlines\\n\"}");
}

TEST(yaml_tree, json_is_yaml)
{
    gives("{\"a\": {\"b\": [1, -2, 0.5, null, false, \"1\"]}}",
          "{\"a\":{\"b\":[1,-2,0.5,null,false,\"1\"]}}");
}

TEST(yaml_tree, what_other_readers_take_for_something_else_is_a_text)
{
    gives("[yes, no, on, 0777, 0x10, 1_000, .inf, 12:30, 1.2.3, v1, -, +]",
          "[\"yes\",\"no\",\"on\",\"0777\",\"0x10\",\"1_000\",\".inf\",\"12:30\",\"1.2.3\",\"v1\","
          "\"-\",\"+\"]");
    gives("[+5, 0, -0, 1e3, 1., .5]", "[5,0,0,1000.0,1.0,0.5]");
    gives("['1', \"true\", 'null']", "[\"1\",\"true\",\"null\"]");
}

TEST(yaml_tree, one_document_is_read)
{
    gives("---\na: 1\n...\n", "{\"a\":1}");
    refuses("a: 1\n---\nb: 2\n", "line 2: second document:");
    gives("---\na: 1\n---\n", "{\"a\":1}");
    gives("---\n# nothing\n---\na: 1\n---\n...\n---\n", "{\"a\":1}");
    refuses("---\n---\na: 1\n---\nb: 2\n", "line 4: second document:");
    refuses("---\n---\n", "empty");
    refuses("", "empty");
    refuses("# nothing\n", "empty");
}

TEST(yaml_tree, nothing_stands_for_something_written_elsewhere)
{
    refuses("a: &x [1]\nb: *x\n", "line 1: anchors");
    refuses("a: !!python/object:os.system x\n", "line 1: anchors, aliases and tags");
    refuses("a:\n  <<: {b: 1}\n", "merging of mappings is not supported");
}

TEST(yaml_tree, a_key_is_a_text_and_there_once)
{
    refuses("a: 1\nb: 2\na: 3\n", "line 3: \"a\" is repeated");
    refuses("? [a]\n: 1\n", "a key is not a string");
    gives("1: x\n", "{\"1\":\"x\"}");
}

TEST(yaml_tree, what_is_no_yaml_is_refused_with_its_line)
{
    refuses("a: 1\nb: [1, 2\n", "line ");
    refuses("a: 'x\n", "line ");
    refuses("\ta: 1\n", "line 1");
    refuses("a: 99999999999999999999\n", "too large");
    refuses("a: 1e999\n", "too large");
    refuses("a: \"x\\0y\"\n", "NUL");
    refuses("\"a\\0b\": 1\n", "NUL");
    refuses_bytes("a: \xff\xfe\n", 6, TFE_EINVAL, "line 1");
    refuses("a: 1\nb: 2 # f\xfcr\nc: 3\n", "line 2: invalid leading UTF-8 octet (save");
    refuses("a: 1\nb: 2\n\nc: caf\xe9", "line 4: incomplete UTF-8");
    refuses("a: 1\nb: \x01\n", "line 2: control characters");
    refuses("a:\n  b: 1\n\tc: 2\n", "line 3: tab in the indentation");
    refuses("a:\n\xc2\xa0\xc2\xa0 b: 1\n  c:\n    d: 2\n", "line 2: no-break or other");
    refuses("a:\n\xe3\x80\x80 b: 1\n  c:\n    d: 2\n", "line 2: no-break or other");
}

TEST(yaml_tree, depth_number_and_length_are_bounded)
{
    char deep[2 * YAML_TREE_DEPTH_MAX + 3];
    memset(deep, '[', YAML_TREE_DEPTH_MAX);
    memset(deep + YAML_TREE_DEPTH_MAX, ']', YAML_TREE_DEPTH_MAX);
    deep[2 * YAML_TREE_DEPTH_MAX] = '\0';
    struct tfe_reason reason;
    json_t *tree;
    assert_int_equal(yaml_tree_read(deep, strlen(deep), &tree, &reason), 0);
    json_decref(tree);
    memset(deep, '[', sizeof(deep));
    refuses_bytes(deep, YAML_TREE_DEPTH_MAX + 1, TFE_ETOOBIG, "nested too deeply");

    size_t n = 2 * (YAML_TREE_NODES_MAX + 8);
    char *many = malloc(n);
    assert_non_null(many);
    for (size_t i = 0; i < n; i += 2) {
        memcpy(many + i, i == 0 ? "[1" : ",1", 2);
    }
    refuses_bytes(many, n, TFE_ETOOBIG, "too many values");
    free(many);

    char *longer = malloc(YAML_TREE_BYTES_MAX + 1);
    assert_non_null(longer);
    memset(longer, ' ', YAML_TREE_BYTES_MAX + 1);
    refuses_bytes(longer, YAML_TREE_BYTES_MAX + 1, TFE_ETOOBIG, "longer than");
    free(longer);
}
