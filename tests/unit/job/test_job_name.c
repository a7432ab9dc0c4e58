/* tests/unit/job/test_job_name.c: generated names of jobs submitted without a name. */
#include <stdio.h>
#include <string.h>

#include "common/base/id.h"
#include "common/job/job_name.h"
#include "tests/unit/job/parse_fixture.h"
#include "tests/unit/test_runner.h"

static int done(void **state)
{
    reading_done();
    return 0;
}
#define FIXTURE NULL, done

static const uint8_t first[JOB_NAME_RANDOM] = {0, 1, 26, 27, 255};
#define FIRST "bc9bq"

static const char *made(const char *text, const uint8_t random[JOB_NAME_RANDOM])
{
    json_t *job = (json_t *)(uintptr_t)reads(text); /* the test owns the value */
    struct tfe_reason reason;
    assert_true(job_name_is_wanted(job));
    assert_int_equal(job_name_make(job, random, &reason), 0);
    assert_false(job_name_is_wanted(job));
    const char *name = json_string_value(json_object_get(job, "name"));
    assert_true(id_is_valid(name));
    return name;
}

TEST_IN(job_name, is_the_script_s_or_the_directory_s)
{
    static const char *const jobs[][2] = {
        {"command: [python, train.py, --data, other.py]", "train-" FIRST},
        {"command: [python, -u, src/deep/train_it.py]", "train_it-" FIRST},
        {"command: [python, -m, trainer.task, x.py]", "trainer.task-" FIRST},
        {"command: [python, -m]", "python-" FIRST},
        {"command: [./run.sh]", "run.sh-" FIRST},
        {"command: ['.py']", "_py-" FIRST},
        {"command: [a b/c d.py]", "c-d-" FIRST},
        {"command: ['äß.py']", "_----" FIRST},
        {"command: [/]", "exec-" FIRST},
        {"command: [python, train.py]\nsource: {path: /srv/code}", "train-" FIRST},
        {"source: {path: /srv/code/}", "code-" FIRST},
        {"source: {path: /}", "exec-" FIRST},
        {"source: {bundle: code.git}", "code.git-" FIRST},
        {"source: {bundle: ../code}\ncommand: [python, ./exec.py]", "code-" FIRST},
        {"source: {bundle: .}", "exec-" FIRST},
        {"source: {bundle: ../..}", "exec-" FIRST},
        {"source: {git: 'https://example.org/me/mnist.git'}", "mnist-" FIRST},
        {"source: {git: 'git@example.org:mnist'}", "mnist-" FIRST},
        {"source: {git: '.git'}", "_git-" FIRST},
        {"source: {bundle: "
         "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}",
         "exec-" FIRST},
        {"generate_name: mnist-\ncommand: [python, train.py]", "mnist-" FIRST},
        {"generate_name: m", "m" FIRST},
    };
    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
        assert_string_equal(made(jobs[i][0], first), jobs[i][1]);
    }
}

TEST_IN(job_name, is_no_longer_than_a_name_may_be)
{
    char text[256];
    char max[64];
    (void)snprintf(max, sizeof(max), "%058d", 7);
    (void)snprintf(text, sizeof(text), "command: [%0100d.py]", 7);
    const char *name = made(text, first);
    assert_int_equal(strlen(name), TFE_ID_MAX);
    assert_string_equal(name + TFE_ID_MAX - 6, "-" FIRST);
    (void)snprintf(text, sizeof(text), "generate_name: '%s'", max);
    name = made(text, first);
    assert_int_equal(strlen(name), 58 + JOB_NAME_RANDOM);
    (void)snprintf(text, sizeof(text), "generate_name: '0%s'", max);
    assert_true(is_refused(text, "expected at most 58 characters"));
    assert_true(is_refused("generate_name: ''", "expected at most 58 characters"));
    assert_true(is_refused("generate_name: 5", "expected at most 58 characters"));
}

TEST_IN(job_name, each_random_byte_counts_and_it_is_made_anew_where_it_is_taken)
{
    json_t *job = (json_t *)(uintptr_t)reads("command: [python, train.py]");
    struct tfe_reason reason;
    for (size_t i = 0; i < JOB_NAME_RANDOM; i++) {
        uint8_t random[JOB_NAME_RANDOM] = {0};
        char expected[] = "train-bbbbb";
        random[i] = 3;
        expected[6 + i] = 'f';
        assert_int_equal(job_name_make(job, random, &reason), 0);
        assert_string_equal(json_string_value(json_object_get(job, "name")), expected);
    }
}

TEST_IN(job_name, that_is_said_is_the_one_it_has)
{
    assert_false(job_name_is_wanted(reads("name: x\ngenerate_name: y")));
    assert_true(is_refused("{}", "name: missing"));
    assert_true(is_refused("workers: 3", "name: missing"));
    assert_true(is_refused("name:\ncommand:\nsource:\ngenerate_name:\n", "name: missing"));
}
