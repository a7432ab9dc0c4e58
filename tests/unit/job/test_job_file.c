/* tests/unit/job/test_job_file.c: the job file: defaults, ranges and canonical form. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/job_file.h"
#include "tests/unit/job/parse_fixture.h"
#include "tests/unit/test_runner.h"

static int done(void **state)
{
    reading_done();
    return 0;
}
#define FIXTURE NULL, done

TEST_IN(job_file, a_name_is_enough)
{
    const json_t *job = reads("name: mnist\n");
    assert_true(has(job, "name", "'mnist'"));
    assert_true(has(job, "workers", "{'min':1,'max':1}"));
    assert_true(has(job, "priority", "500"));
    assert_true(has(job, "command", "['python','exec.py']"));
    assert_true(has(job, "source", "null"));
    assert_true(has(job, "restart_policy", "'OnFailure'"));
    assert_true(has(job, "backoff_limit", "null"));
    assert_true(has(job, "environment", "'tfe'"));
    assert_string_equal(reading_warned(), "");
}

TEST_IN(job_file, every_field_is_taken)
{
    const json_t *job =
        reads("name: big\npriority: 900\nworkers: {min: 2, max: 8}\nps: 2\nchief: true\n"
              "evaluator: true\nnproc: 4\nsource: {git: 'https://example.org/x.git', ref: main}\n"
              "work_dir: src\nimage: 'localhost:5000/a/b:1'\ncommand: [python, train.py, --steps, "
              "'10']\nenv: {A: '1', B: ''}\n"
              "labels: {gpu: a100}\nrole_labels: {ps: {spot: 'false'}}\n"
              "options: {grow-wait: 60s, no-grow: true}\npreempt: true\nsuspend: true\n"
              "restart_policy: ExitCode\nbackoff_limit: 3\nactive_deadline_s: 3600\n"
              "ttl_after_finished_s: 0\nclean_policy: All\nsuccess_policy: AllWorkers\n"
              "environment: kubeflow\n");
    assert_true(has(job, "priority", "900"));
    assert_true(has(job, "workers", "{'min':2,'max':8}"));
    assert_true(has(job, "ps", "2"));
    assert_true(has(job, "chief", "true"));
    assert_true(has(job, "evaluator", "true"));
    assert_true(has(job, "nproc", "4"));
    assert_true(has(job, "source", "{'git':'https://example.org/x.git','ref':'main'}"));
    assert_true(has(job, "work_dir", "'src'"));
    assert_true(has(job, "image", "'localhost:5000/a/b:1'"));
    assert_true(has(job, "command", "['python','train.py','--steps','10']"));
    assert_true(has(job, "env", "{'A':'1','B':''}"));
    assert_true(has(job, "labels", "{'gpu':'a100'}"));
    assert_true(has(job, "role_labels", "{'ps':{'spot':'false'}}"));
    assert_true(has(job, "options", "{'grow-wait':'60s','no-grow':true}"));
    assert_true(has(job, "preempt", "true"));
    assert_true(has(job, "suspend", "true"));
    assert_true(has(job, "restart_policy", "'ExitCode'"));
    assert_true(has(job, "backoff_limit", "3"));
    assert_true(has(job, "active_deadline_s", "3600"));
    assert_true(has(job, "ttl_after_finished_s", "0"));
    assert_true(has(job, "clean_policy", "'All'"));
    assert_true(has(job, "success_policy", "'AllWorkers'"));
    assert_true(has(job, "environment", "'kubeflow'"));
}

TEST_IN(job_file, the_canonical_form_is_its_own)
{
    char *once = json_dumps(reads("name: x\nworkers: '2:8'\nps: 1\nenv: {Z: a, B: b}\n"), 0);
    char *twice = json_dumps(reads(once), 0);
    assert_string_equal(once, twice);
    assert_ptr_equal(strstr(once, "{\"name\": \"x\", \"generate_name\": null, \"priority\": 500, "
                                  "\"workers\": {\"min\": 2, "),
                     once);
    free(once);
    free(twice);
}

TEST_IN(job_file, null_is_as_if_it_were_not_said)
{
    assert_true(
        has(reads("name: x\npriority:\nworkers: ~\nbackoff_limit: null\n"), "priority", "500"));
    assert_true(
        has(reads("name: x\nsource: {git: a, ref: }\n"), "source", "{'git':'a','ref':null}"));
    assert_true(is_refused("name:\n", "name: missing"));
}

TEST(job_file, sizes_are_a_number_a_range_or_a_mapping)
{
    assert_true(has(reads("name: x\nworkers: 3\n"), "workers", "{'min':3,'max':3}"));
    assert_true(has(reads("name: x\nworkers: 2:4\n"), "workers", "{'min':2,'max':4}"));
    reading_done();
    const char *const bad[] = {"0",
                               "-1",
                               "65537",
                               "'4:2'",
                               "'2:'",
                               "':2'",
                               "'2:4x'",
                               "'0:1'",
                               "{min: 2}",
                               "{max: 2}",
                               "{min: 1, max: 65537}",
                               "2.5",
                               "true",
                               "[1]",
                               "'99999999999:1'"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[80];
        (void)snprintf(text, sizeof(text), "name: x\nworkers: %s\n", bad[i]);
        assert_true(is_refused(text, "workers: expected N, \"MIN:MAX\""));
    }
    assert_true(is_refused("name: x\nworkers: {min: 1, max: 2, most: 3}\n", "most: unknown field"));
}

TEST(job_file, each_bad_value_is_named)
{
    const struct {
        const char *line, *part;
    } bad[] = {
        {"name: 'a b'", "name: expected 1 to 64"},
        {"name: 5", "name: expected 1 to 64"},
        {"nam: x", "nam: unknown field"},
        {"priority: 1001", "priority: expected an integer from 0 to 1000"},
        {"priority: -1", "priority: "},
        {"priority: '5'", "priority: "},
        {"ps: 65537", "ps: "},
        {"chief: yes", "chief: expected true or false"},
        {"nproc: 0", "nproc: expected an integer from 1 to 64"},
        {"nproc: 65", "nproc: "},
        {"command: python", "command: expected a list"},
        {"command: []", "command: expected a list"},
        {"command: [python, 5]", "command: [1]: expected a string"},
        {"command: ['']", "command: [0]: the program name is empty"},
        {"env: [A]", "env: expected a mapping"},
        {"env: {A: 1}", "env: A: expected a string"},
        {"env: {1A: x}", "env: 1A: not a valid variable name"},
        {"env: {'': x}", "not a valid variable name"},
        {"env: {A-B: x}", "env: A-B: not a valid variable name"},
        {"env: {TF_CONFIG: x}", "env: TF_CONFIG: reserved (the agent sets"},
        {"env: {TFE_RANK: x}", "env: TFE_RANK: reserved (the agent sets"},
        {"labels: {'a=b': x}", "labels: a=b: expected KEY=VALUE"},
        {"labels: {'': x}", "KEY=VALUE"},
        {"labels: {'@jobs': a}", "labels: @jobs: expected KEY=VALUE"},
        {"role_labels: {ps: {a: 'b,c'}}", "role_labels: ps: a: expected KEY=VALUE"},
        {"role_labels: {master: {a: b}}", "role_labels: master: expected worker"},
        {"role_labels: {ps: {a: 1}}", "role_labels: ps: a: expected a string"},
        {"source: /shared", "source: expected a mapping"},
        {"source: {path: code}", "source: path: expected an absolute path"},
        {"source: {path: /a, git: b}", "source: expected exactly one of"},
        {"source: {}", "source: expected exactly one of"},
        {"source: {path: /a, ref: b}", "source: expected exactly one of"},
        {"source: {git: '--upload-pack=x'}", "source: git: expected a repository"},
        {"source: {git: a, ref: '-x'}", "source: ref: "},
        {"source: {path: /a, depth: '1'}", "source: depth: unknown field"},
        {"image: dir:/etc", "image: \"dir:/etc\" is not the name of an image in a registry"},
        {"image: --privileged", "image: \"--privileged\" is not the name"},
        {"image: 1", "image: expected a string"},
        {"image: ''", "image: \"\" is not the name"},
        {"image: /etc", "image: \"/etc\" is not the name"},
        {"image: a b", "image: \"a b\" is not the name"},
        {"image: 'docker-archive:x'", "image: \"docker-archive:x\" is not the name"},
        {"image: 'tarball:x'", "image: \"tarball:x\" is not the name"},
        {"source: {git: \"a\\nb\"}", "source: git: the value contains a line break"},
        {"work_dir: \"a\\x7f\"", "work_dir: the value contains a line break or another control"},
        {"work_dir: ''", "work_dir: the value is empty"},
        {"work_dir: ../x", "work_dir: \"..\""},
        {"work_dir: a/..", "work_dir: \"..\""},
        {"work_dir: a/../b", "work_dir: \"..\""},
        {"options: {token: x}", "options: token: not an option"},
        {"options: {trainer-user: root}", "options: trainer-user: not an option"},
        {"options: {ps: '1'}", "options: ps: not an option here"},
        {"options: {gather: \"1\\n\"}", "options: gather: the value contains a line break"},
        {"options: {gather: 3}", "options: gather: expected a string"},
        {"options: {no-grow: false}", "options: no-grow: expected a string"},
        {"restart_policy: {master: Never}", "restart_policy: master: expected worker"},
        {"restart_policy: {ps: 5}",
         "restart_policy: ps: expected one of Never, OnFailure, Always, ExitCode, found"},
        {"restart_policy: Sometimes",
         "restart_policy: expected one of Never, OnFailure, Always, ExitCode, found \"Sometimes\""},
        {"clean_policy: 5", "clean_policy: expected one of None, Running, All"},
        {"backoff_limit: -1", "backoff_limit: "},
        {"active_deadline_s: 0", "active_deadline_s: expected an integer from 1 to 2592000"},
        {"active_deadline_s: 2592001", "active_deadline_s: "},
        {"success_policy: ''", "success_policy: "},
        {"environment: cloud", "environment: expected one of"},
        {"environment: kubeflow-chief\nworkers: 2",
         "environment: kubeflow-chief requires exactly one"},
        {"environment: kubeflow-chief\nchief: true",
         "environment: kubeflow-chief requires exactly one"},
        {"environment: kubeflow-master\nworkers: 2",
         "environment: kubeflow-master requires exactly one"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[160];
        const char *name = strncmp(bad[i].line, "name", 4) == 0 ? "" : "name: x\n";
        (void)snprintf(text, sizeof(text), "%s%s\n", name, bad[i].line);
        assert_true(is_refused(text, bad[i].part));
    }
    assert_true(is_refused("[a]", "expected a mapping of fields"));
}

TEST_IN(job_file, a_folder_may_have_points_in_its_name)
{
    assert_true(has(reads("name: x\nwork_dir: a/..b/c\n"), "work_dir", "'a/..b/c'"));
    assert_true(has(reads("name: x\nwork_dir: /srv/code\n"), "work_dir", "'/srv/code'"));
}

/* Returns head, n entries wNUMBER with suffix, and tail; the caller frees the text. */
static char *many(const char *head, const char *suffix, int n, const char *tail)
{
    char *text = malloc(128 + (size_t)n * 32);
    assert_non_null(text);
    size_t at = (size_t)sprintf(text, "%s", head);
    for (int i = 0; i < n; i++) {
        at += (size_t)snprintf(text + at, 32, "w%d%s,", i, suffix);
    }
    (void)sprintf(text + at, "%s", tail);
    return text;
}

TEST_IN(job_file, numbers_of_words_and_labels_are_bounded)
{
    char *max = many("name: x\ncommand: [", "", 256, "]\n");
    (void)reads(max);
    free(max);
    char *words = many("name: x\ncommand: [", "", 257, "]\n");
    assert_true(is_refused(words, "command: expected a list of 1 to 256"));
    free(words);
    char *labels = many("name: x\nrole_labels: {ps: {p: q}}\nlabels: {", ": a", 32, "}\n");
    assert_true(is_refused(labels, "labels and role_labels: more than 32"));
    free(labels);
    char *only = many("name: x\nlabels: {", ": a", 32, "}\n");
    (void)reads(only);
    free(only);
}

static char *long_words(int n, size_t length)
{
    char *text = malloc(64 + (size_t)n * (length + 2));
    assert_non_null(text);
    size_t at = (size_t)sprintf(text, "name: x\ncommand: [");
    for (int i = 0; i < n; i++) {
        memset(text + at, 'w', length);
        at += length;
        text[at++] = ',';
    }
    (void)sprintf(text + at, "]\n");
    return text;
}

TEST_IN(job_file, its_bytes_are_bounded)
{
    char *max = long_words(1, 4096);
    (void)reads(max);
    free(max);
    char *word = long_words(1, 4097);
    assert_true(is_refused(word, "command: [0]: the value is longer than 4096"));
    free(word);
    char *all = long_words(13, 4096);
    assert_true(is_refused(all, "more than 12288 bytes"));
    free(all);
}

/* --- the text of SUBMIT and ASSIGN --- */

/* Returns the reason for which the text is refused, or "" if it is not. */
static const char *refused(const char *text)
{
    static struct tfe_reason reason;
    json_t *job = NULL;
    reason.text[0] = '\0';
    const int rc = job_file_parse(text, &job, &reason);
    assert_int_equal(rc, job ? 0 : TFE_EINVAL);
    json_decref(job);
    return reason.text;
}

#define DIGITS "0123456789abcdef0123456789abcdef"

TEST_IN(job_file, its_text_has_sorted_keys_and_is_read_again)
{
    const char *const sources[] = {"~", "{path: /a}", "{bundle: " DIGITS DIGITS "}",
                                   "{git: x, ref: " DIGITS "01234567}"};
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        char given[256];
        json_t *job = NULL;
        struct tfe_reason reason;
        (void)snprintf(given, sizeof given, "name: x\nsource: %s\n", sources[i]);
        char *text = job_file_format(reads(given));
        assert_ptr_equal(strstr(text, "{\"active_deadline_s\":null,\"backoff_limit\":null,"), text);
        assert_int_equal(job_file_parse(text, &job, &reason), 0);
        char *again = job_file_format(job);
        assert_string_equal(again, text);
        free(text);
        free(again);
        json_decref(job);
    }
}

TEST(job_file, text_of_a_peer_is_a_whole_job_or_refused)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"", "the job is not valid JSON"},
        {"name: x", "the job is not valid JSON"},
        {"{\"name\":\"x\"", "the job is not valid JSON"},
        {"{\"name\":\"x\",\"name\":\"x\"}", "the job is not valid JSON: duplicate object key"},
        {"{\"name\":\"\xff\"}", "the job is not valid JSON"},
        {"[]", "expected a mapping of fields"},
        {"{\"command\":[\"a\"]}", "name: missing"},
        {"{\"name\":\"a/b\"}", "name: expected 1 to 64"},
        {"{\"name\":\"x\",\"nproc\":1e9}", "nproc: expected an integer"},
        {"{\"name\":\"x\",\"workers\":{\"min\":2,\"max\":1}}", "workers: expected N, "},
        {"{\"name\":\"x\",\"source\":{\"bundle\":\"src\"}}", "source: bundle: expected a digest"},
        {"{\"name\":\"x\",\"source\":{\"git\":\"u\"}}", "source: ref: expected a full commit ID"},
        {"{\"name\":\"x\",\"source\":{\"git\":\"u\",\"ref\":\"" DIGITS "\"}}",
         "source: ref: expected a full commit ID"},
        {"{\"name\":\"x\",\"options\":{\"trainer-user\":\"root\"}}",
         "options: trainer-user: not an option"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (!strstr(refused(bad[i].text), bad[i].part)) {
            fail_msg("%s: %s", bad[i].text, refused(bad[i].text));
        }
    }
    assert_string_equal(refused("{\"name\":\"x\"}"), "");
}
