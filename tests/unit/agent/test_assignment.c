/* tests/unit/agent/test_assignment.c: the settings of an agent that works for an assignment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/pool/assignment.h"
#include "tests/unit/test_runner.h"

static struct {
    struct agent_settings settings;
    struct handover handover;
    json_t *job;
    char **operands;
    char text[4096];
} f;

static int begin(void **state)
{
    memset(&f, 0, sizeof f);
    f.handover = (struct handover){
        .assignment = 7, .run_key = "key-1", .endpoint = "10.0.0.1:5556", .node_name = "host-1"};
    return 0;
}

static int end(void **state)
{
    json_decref(f.job);
    free(f.operands);
    (void)unsetenv("TFE_ENVIRONMENT");
    (void)unsetenv("TFE_SET_A");
    (void)unsetenv("TFE_SET_B");
    return 0;
}

#define FIXTURE begin, end

/* Applies a job with these fields to the settings of a pool node with default options. 'Single
 * quotes' are accepted. */
static int apply(const char *fields, struct tfe_reason *reason)
{
    enum options_result result;
    int operand;
    char ignored[64];
    char *argv[] = {"tfe-agent", "--pool", "--log-dir=/logs", NULL};
    json_decref(f.job);
    free(f.operands);
    f.job = NULL;
    f.operands = NULL;
    agent_settings_init(&f.settings);
    assert_int_equal(options_parse(&agent_options, 3, argv, &f.settings, &result, &operand, ignored,
                                   sizeof ignored, reason),
                     0);
    (void)snprintf(f.handover.spec, sizeof f.handover.spec, "{'name': 'mnist'%s%s}",
                   fields[0] != '\0' ? ", " : "", fields);
    for (char *at = f.handover.spec; *at != '\0'; at++) {
        *at = *at == '\'' ? '"' : *at;
    }
    return assignment_apply(&f.handover, &f.settings, &f.job, &f.operands, reason);
}

static const struct agent_settings *applied(const char *fields)
{
    struct tfe_reason reason;
    if (apply(fields, &reason) != 0) {
        fail_msg("%s", reason.text);
    }
    return &f.settings;
}

/* Returns the operands, separated by blanks. */
static const char *operands(void)
{
    size_t n = 0;
    f.text[0] = '\0';
    for (char **word = f.operands; *word; word++) {
        n += (size_t)snprintf(f.text + n, sizeof f.text - n, "%s%s", n > 0 ? " " : "", *word);
    }
    return f.text;
}

TEST_IN(assignment, settings_are_those_of_job_and_handover)
{
    f.handover.has_role = true;
    f.handover.role = TASK_PS;
    const struct agent_settings *s =
        applied("'workers': {'min': 2, 'max': 4}, 'ps': 2, 'chief': true, 'nproc': 3, "
                "'command': ['python', 'train.py', '--lr', '0.1']");
    assert_string_equal(s->agent.job.text, "mnist");
    assert_string_equal(s->agent.run_key, "key-1");
    assert_string_equal(s->agent.node_name, "host-1");
    assert_string_equal(s->endpoint, "10.0.0.1:5556");
    assert_true(s->agent.has_role);
    assert_int_equal(s->agent.role, TASK_PS);
    assert_int_equal(s->agent.spec.min_nodes, 2);
    assert_int_equal(s->agent.spec.max_nodes, 4);
    assert_int_equal(s->agent.spec.n_ps, 2);
    assert_int_equal(s->agent.spec.nproc, 3);
    assert_true(s->agent.spec.chief);
    assert_false(s->agent.spec.evaluator);
    assert_int_equal(s->agent.spec.max_restarts, MSG_UNSET);
    assert_string_equal(operands(), "train.py --lr 0.1");
    assert_string_equal(s->logs.root, "/logs"); /* an option of the pool node */
    assert_null(s->python);
    assert_false(s->no_python);
    assert_null(getenv("TFE_ENVIRONMENT"));
}

TEST_IN(assignment, policies_become_options)
{
    const struct agent_settings *s =
        applied("'restart_policy': 'ExitCode', 'backoff_limit': 7, 'success_policy': 'AllWorkers', "
                "'clean_policy': 'None'");
    assert_int_equal(s->agent.spec.restart_policies, JOB_RESTART_ALL(RESTART_EXIT_CODE));
    assert_int_equal(s->agent.spec.max_restarts, 7);
    assert_true(s->agent.spec.all_workers);
    assert_true(s->agent.spec.linger);
    s = applied("'restart_policy': {'ps': 'Always', 'chief': 'Never'}");
    assert_int_equal(
        s->agent.spec.restart_policies,
        job_restart_set(job_restart_set(0, TASK_PS, RESTART_ALWAYS), TASK_CHIEF, RESTART_NEVER));
    assert_false(s->agent.spec.all_workers);
    assert_false(s->agent.spec.linger);
}

TEST_IN(assignment, options_and_variables_are_passed_on)
{
    (void)setenv("TFE_SET_A", "machine", 1);
    const struct agent_settings *s =
        applied("'options': {'grow-wait': '2m', 'no-hooks': true, 'checkpoint-dir': '/c'}, "
                "'env': {'A': 'job', 'B': ''}, 'environment': 'kubeflow', 'workers': 2");
    assert_int_equal(s->agent.spec.grow_wait_ms, 120000);
    assert_true(s->standby.no_hooks);
    assert_string_equal(s->checkpoint_dir, "/c");
    assert_string_equal(getenv("TFE_SET_A"), "job");
    assert_string_equal(getenv("TFE_SET_B"), "");
    assert_string_equal(getenv("TFE_ENVIRONMENT"), "kubeflow");
}

TEST_IN(assignment, a_kubeflow_job_of_one_trainer_has_no_cluster)
{
    static const char *const more[] = {"'nproc': 2", "'ps': 1", "'evaluator': true"};
    (void)applied("'environment': 'kubeflow-master'");
    assert_string_equal(getenv("TFE_ENVIRONMENT"), "kubeflow-alone");
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        char fields[80];
        (void)snprintf(fields, sizeof fields, "'environment': 'kubeflow-master', %s", more[i]);
        (void)applied(fields);
        assert_string_equal(getenv("TFE_ENVIRONMENT"), "kubeflow-master");
    }
    (void)applied("'environment': 'kubeflow', 'workers': '1:2'");
    assert_string_equal(getenv("TFE_ENVIRONMENT"), "kubeflow");
}

TEST_IN(assignment, a_job_may_not_set_options_of_the_machine)
{
    static const struct {
        const char *fields, *part;
    } refused[] = {
        {"'options': {'trainer-user': 'root'}", "options: trainer-user: not an option"},
        {"'options': {'notice': 'cmd:x'}", "options: notice: not an option"},
        {"'options': {'ps': '3'}", "options: ps: not an option here"},
        {"'options': {'no-hook': true}", "options: no-hook: not an option"},
        {"'options': {'grow-wait': 'soon'}", "--grow-wait: "},
        {"'options': {'grow-wait': true}", "--grow-wait needs a value"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct tfe_reason reason;
        assert_int_equal(apply(refused[i].fields, &reason), TFE_EINVAL);
        if (!strstr(reason.text, refused[i].part)) {
            fail_msg("%s: %s", refused[i].fields, reason.text);
        }
    }
}

TEST_IN(assignment, python_with_options_is_run_as_a_command)
{
    static const struct {
        const char *command, *operands, *python;
        bool module, no_python;
    } lines[] = {
        {"'python3', '-u', 'a.py', 'x'", "a.py x", NULL, false, false},
        {"'/opt/py/bin/python3.11', 'a.py'", "a.py", "/opt/py/bin/python3.11", false, false},
        {"'python', '-m', 'pkg.train', 'x'", "pkg.train x", NULL, true, false},
        {"'python', '-X', 'dev', 'a.py'", "python -X dev a.py", NULL, false, true},
        {"'python'", "python", NULL, false, true},
        {"'pythonic', 'a.py'", "pythonic a.py", NULL, false, true},
        {"'./run.sh', '-v'", "./run.sh -v", NULL, false, true},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char fields[120];
        (void)snprintf(fields, sizeof fields, "'command': [%s]", lines[i].command);
        const struct agent_settings *s = applied(fields);
        assert_string_equal(operands(), lines[i].operands);
        assert_int_equal(s->module, lines[i].module);
        assert_int_equal(s->no_python, lines[i].no_python);
        if (lines[i].python) {
            assert_string_equal(s->python, lines[i].python);
        } else {
            assert_null(s->python);
        }
    }
}

TEST_IN(assignment, option_about_the_command_keeps_it_unchanged)
{
    const struct agent_settings *s =
        applied("'options': {'no-python': true}, 'command': ['python', 'train.py']");
    assert_string_equal(operands(), "python train.py");
    assert_true(s->no_python);
}

TEST_IN(assignment, an_image_has_its_own_python)
{
    f.handover.is_container = true;
    const struct agent_settings *s = applied("'command': ['python3.12', '-m', 'trainer']");
    assert_string_equal(s->python, "python3.12");
    assert_true(s->module);
    s = applied("'command': ['./run.sh']");
    assert_string_equal(s->python, "python3");
}

/* Returns the working directory of a job with these fields. */
static const char *directory(const char *fields, bool has_image)
{
    static char ret[PATH_MAX];
    struct tfe_reason reason;
    (void)applied(fields);
    assert_int_equal(assignment_directory(f.job, "/tmp/fresh", has_image, ret, &reason), 0);
    return ret;
}

TEST_IN(assignment, working_directory_is_that_of_the_files)
{
    static const struct {
        const char *fields, *directory, *with_image;
    } places[] = {
        {"", "/tmp/fresh", "/tmp/fresh"},
        {"'work_dir': 'out'", "/tmp/fresh/out", "/tmp/fresh/out"},
        {"'work_dir': '/srv/y'", "/srv/y", "/tmp/fresh"},
        {"'source': {'path': '/shared/code'}", "/shared/code", "/shared/code"},
        {"'source': {'path': '/shared/code'}, 'work_dir': 'src/a'", "/shared/code/src/a",
         "/shared/code/src/a"},
        {"'source': {'path': '/shared/code'}, 'work_dir': '/data'", "/data", "/shared/code"},
        {"'source': {'git': 'x', 'ref': '0123456789012345678901234567890123456789'}", "/tmp/fresh",
         "/tmp/fresh"}, /* prepared there */
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        assert_string_equal(directory(places[i].fields, false), places[i].directory);
        assert_string_equal(directory(places[i].fields, true), places[i].with_image);
    }
}

TEST_IN(assignment, directory_with_too_long_a_name_is_refused)
{
    static char fields[PATH_MAX + 32] = "'work_dir': '";
    char ret[PATH_MAX];
    struct tfe_reason reason;
    const size_t n = strlen(fields);
    memset(fields + n, 'd', PATH_MAX - 2);
    fields[n + PATH_MAX - 2] = '\'';
    (void)applied(fields);
    assert_int_equal(assignment_directory(f.job, "/tmp/fresh", false, ret, &reason), TFE_EINVAL);
}
