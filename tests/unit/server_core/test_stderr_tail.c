/* tests/unit/server_core/test_stderr_tail.c: what is read from the last lines of a trainer's
 * output. */
#include "server/core/stderr_tail.h"
#include "tests/unit/server_core/server_fixture.h"

#define RAISED                                                                                     \
    "2026-11-29 07:20:58.123456: I tensorflow/core/platform/cpu_feature_guard.cc:210] This\n"      \
    "Traceback (most recent call last):\n"                                                         \
    "  File \"/job/src/train.py\", line 6, in <module>\n    f()\n"                                 \
    "  File \"/venv/lib/python3.12/site-packages/keras/x.py\", line 99, in f\n    g()\n"

static void assert_read(const char *tail, const char *error, const char *source, const char *line)
{
    char text[400];
    stderr_tail_error(tail, text, sizeof(text));
    assert_string_equal(text, error);
    stderr_tail_source(tail, text, sizeof(text));
    assert_string_equal(text, source);
    stderr_tail_line(tail, text, sizeof(text));
    assert_string_equal(text, line);
}

TEST(stderr_tail, exception_is_one_line_with_the_users_file)
{
    assert_read(RAISED "KeyError: 'learning_rate'\n", "KeyError: 'learning_rate'", "train.py:6",
                "KeyError: 'learning_rate'");
    assert_read("Traceback (most recent call last):\nValueError: no\n1\n", "ValueError: no", "",
                "1");
    assert_read("Traceback (most recent call last):\n"
                "  File \"/v/lib/python3.12/runpy.py\", line 7, in x\nImportError: no\n",
                "ImportError: no", "runpy.py:7", "ImportError: no");
}

TEST(stderr_tail, chained_exception_is_the_last_one)
{
    assert_read(RAISED "KeyError: 'a'\n\nDuring handling of the above exception, another exception "
                       "occurred:\n\nTraceback (most recent call last):\n"
                       "  File \"b.py\", line 12, in <module>\nRuntimeError: b\n",
                "RuntimeError: b", "b.py:12", "RuntimeError: b");
}

TEST(stderr_tail, syntax_error_needs_no_traceback)
{
    assert_read(
        "  File \"/job/train.py\", line 3\n    x = (\n        ^\nSyntaxError: '(' was never "
        "closed\n",
        "SyntaxError: '(' was never closed", "train.py:3", "SyntaxError: '(' was never closed");
    assert_read("SyntaxError: printed by hand", "", "", "SyntaxError: printed by hand");
}

TEST(stderr_tail, error_of_a_graph_names_the_fault)
{
    assert_read(RAISED "tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph "
                       "execution error:\n\nDetected at node add defined at (most recent call "
                       "last):\n  File \"x.py\", line 1\n<stack traces unavailable>\n"
                       "Incompatible shapes: [32,10] vs. [32]\n\t [[{{node add}}]] [Op:f]\n",
                "InvalidArgumentError: Graph execution error: Incompatible shapes: [32,10] vs. "
                "[32]",
                "train.py:6", "[[{{node add}}]] [Op:f]");
}

TEST(stderr_tail, tensorflow_log_lines_are_skipped)
{
    char text[200];
    struct text out;
    const char *tail = "WARNING: All log messages before absl::InitializeLog() is called are\n"
                       "I0000 00:00:1764400858.123 77 cuda.cc:1] info\n"
                       "usage: x.py --a\n"
                       "2026-11-29 07:20:58.123456: E tensorflow/x.cc:1] an error\n"
                       "W0000 00:00:1764400858.123 77 cuda.cc:1] warning\n"
                       "2026-11-29 07:20:58.123456: W tensorflow/x.cc:1] a warning\n"
                       "To enable the following instructions: AVX2, rebuild TensorFlow\n\n";
    assert_read(tail, "", "", "2026-11-29 07:20:58.123456: E tensorflow/x.cc:1] an error");
    text_init(&out, text, sizeof(text));
    stderr_tail_add(&out, tail, 200);
    assert_string_equal(text, "usage: x.py --a\n"
                              "2026-11-29 07:20:58.123456: E tensorflow/x.cc:1] an error\n\n");
    assert_read("", "", "", "");
}
