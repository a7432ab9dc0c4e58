/* tests/unit/agent/test_agent_args.c: conversion of an assignment to a command line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/pool/agent_args.h"
#include "tests/unit/test_runner.h"

static const char *const python[] = {"python", "train.py", "--lr", "0.1"};

static struct msg_assign assignment(const char *const *argv, size_t n)
{
    return (struct msg_assign){.assignment = 7,
                               .run_key = "key-1",
                               .spec = {.name = "mnist",
                                        .min_nodes = 2,
                                        .max_nodes = 4,
                                        .nproc = 1,
                                        .argv = argv,
                                        .n_argv = n,
                                        .source = "",
                                        .backoff_limit = MSG_UNSET,
                                        .restart_policies = MSG_UNSET}};
}

static int make(const struct msg_assign *assign, struct agent_args *ret, struct tfe_reason *reason)
{
    static char *const own[] = {"--pool", "--log-dir=/logs", NULL};
    static const char *const environment[] = {"PATH=/bin", "A=machine", NULL};
    const struct agent_args_options options = {.program = "/bin/tfe-agent",
                                               .options = own,
                                               .environment = environment,
                                               .endpoint = "10.0.0.1:5556",
                                               .node_name = "host-1",
                                               .directory = "/tmp/fresh",
                                               .assign = assign};
    return agent_args_make(&options, ret, reason);
}

static struct agent_args made(const struct msg_assign *assign)
{
    struct agent_args line;
    struct tfe_reason reason;
    assert_int_equal(make(assign, &line, &reason), 0);
    return line;
}

/* Returns all strings, separated by blanks. */
static const char *joined(char **v)
{
    static char text[4096];
    size_t n = 0;
    text[0] = '\0';
    for (; *v; v++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? " " : "", *v);
    }
    return text;
}

static void ends_with(char **v, const char *tail)
{
    const char *all = joined(v);
    assert_true(strlen(all) >= strlen(tail));
    assert_string_equal(all + strlen(all) - strlen(tail), tail);
}

TEST(agent_args, policies_are_wishes)
{
    struct msg_assign assign = assignment(python, 2);
    assign.spec.restart_policy = RESTART_EXIT_CODE;
    assign.spec.backoff_limit = 7;
    assign.spec.success_policy = SUCCESS_ALL_WORKERS;
    assign.spec.clean_policy = CLEAN_NONE;
    struct agent_args line = made(&assign);
    assert_non_null(strstr(joined(line.argv),
                           " --max-restarts=7 --restart-policy=worker:ExitCode,chief:ExitCode,"
                           "ps:ExitCode,evaluator:ExitCode --all-workers=true --linger=true "));
    agent_args_done(&line);
    assign.spec.restart_policies = job_restart_set(0, TASK_PS, RESTART_ALWAYS);
    line = made(&assign);
    assert_non_null(strstr(joined(line.argv),
                           "=worker:OnFailure,chief:OnFailure,ps:Always,evaluator:OnFailure "));
    agent_args_done(&line);
}

TEST(agent_args, it_is_what_would_have_been_typed)
{
    struct msg_assign assign = assignment(python, 4);
    struct agent_args line = made(&assign);
    assert_string_equal(
        joined(line.argv),
        "/bin/tfe-agent --pool --log-dir=/logs --rdzv-endpoint=10.0.0.1:5556 "
        "--node-name=host-1 --job=mnist --run=key-1 "
        "--restart-policy=worker:OnFailure,chief:OnFailure,ps:OnFailure,evaluator:OnFailure "
        "--all-workers=false --linger=false --nnodes=2:4 --nproc-per-node=1 --ps=0 "
        "--chief=false --evaluator=false -- train.py --lr 0.1");
    assert_string_equal(line.directory, "/tmp/fresh");
    assert_string_equal(joined(line.envp), "PATH=/bin A=machine");
    agent_args_done(&line);
}

TEST(agent_args, roles_options_and_variables_are_the_jobs)
{
    static const char *const options[] = {"grow-wait=2m", "no-hooks"};
    static const char *const env[] = {"A=job", "B="};
    struct msg_assign assign = assignment(python, 2);
    assign.has_role = true;
    assign.role = TASK_PS;
    assign.spec.n_ps = 2;
    assign.spec.chief = true;
    assign.spec.options = options;
    assign.spec.n_options = 2;
    assign.spec.env = env;
    assign.spec.n_env = 2;
    assign.spec.environment = ENVIRONMENT_KUBEFLOW;
    struct agent_args line = made(&assign);
    ends_with(line.argv, " --ps=2 --chief=true --evaluator=false --role=ps --grow-wait=2m "
                         "--no-hooks -- train.py");
    assert_string_equal(joined(line.envp), "PATH=/bin A=machine TFE_SET_A=job TFE_SET_B= "
                                           "TFE_ENVIRONMENT=kubeflow");
    agent_args_done(&line);
}

TEST(agent_args, a_kubeflow_job_of_one_trainer_has_no_cluster)
{
    struct msg_assign assign = assignment(python, 2);
    assign.spec.min_nodes = assign.spec.max_nodes = 1;
    assign.spec.environment = ENVIRONMENT_KUBEFLOW_MASTER;
    struct agent_args line = made(&assign);
    assert_non_null(strstr(joined(line.envp), " TFE_ENVIRONMENT=kubeflow-alone"));
    agent_args_done(&line);
    assign.spec.max_nodes = 2;
    line = made(&assign);
    assert_non_null(strstr(joined(line.envp), " TFE_ENVIRONMENT=kubeflow-master"));
    agent_args_done(&line);
    for (int i = 0; i < 4; i++) { /* in addition to other options */
        assign.spec.max_nodes = 1;
        assign.spec.nproc = i == 0 ? 2 : 1;
        assign.spec.n_ps = i == 1;
        assign.spec.chief = i == 2;
        assign.spec.evaluator = i == 3;
        line = made(&assign);
        assert_non_null(strstr(joined(line.envp), " TFE_ENVIRONMENT=kubeflow-master"));
        agent_args_done(&line);
    }
}

TEST(agent_args, a_job_may_not_set_what_is_the_machines)
{
    static const char *const refused[] = {"trainer-user=root", "notice=cmd:x", "token=x", "ps=3",
                                          "no-hook",           "grow-wait-=1"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct msg_assign assign = assignment(python, 2);
        struct agent_args line;
        struct tfe_reason reason;
        assign.spec.options = &refused[i];
        assign.spec.n_options = 1;
        assert_int_equal(make(&assign, &line, &reason), TFE_EINVAL);
        assert_non_null(strstr(reason.text, refused[i]));
    }
}

TEST(agent_args, what_python_is_told_otherwise_is_left_to_it)
{
    static const struct {
        const char *const argv[4];
        const char *tail;
    } lines[] = {
        {{"python3", "-u", "a.py", "x"}, "--evaluator=false -- a.py x"},
        {{"/opt/py/bin/python3.11", "a.py"},
         "--evaluator=false --python=/opt/py/bin/python3.11 -- a.py"},
        {{"python", "-m", "pkg.train", "x"}, "--evaluator=false --module -- pkg.train x"},
        {{"python", "-X", "dev", "a.py"}, "--evaluator=false --no-python -- python -X dev a.py"},
        {{"python"}, "--evaluator=false --no-python -- python"},
        {{"pythonic", "a.py"}, "--evaluator=false --no-python -- pythonic a.py"},
        {{"./run.sh", "-v"}, "--evaluator=false --no-python -- ./run.sh -v"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        size_t n = 0;
        while (n < 4 && lines[i].argv[n]) {
            n++;
        }
        struct msg_assign assign = assignment(lines[i].argv, n);
        struct agent_args line = made(&assign);
        ends_with(line.argv, lines[i].tail);
        agent_args_done(&line);
    }
}

TEST(agent_args, an_option_that_says_what_the_command_is_says_it_alone)
{
    static const char *const option = "no-python";
    struct msg_assign assign = assignment(python, 2);
    assign.spec.options = &option;
    assign.spec.n_options = 1;
    struct agent_args line = made(&assign);
    ends_with(line.argv, "--evaluator=false --no-python -- python train.py");
    agent_args_done(&line);
}

/* Builds the arguments for a node that runs images, as they are used in the container. */
static struct agent_args made_for_image(const struct msg_assign *assign)
{
    static char *const own[] = {"--pool", NULL};
    static const char *const environment[] = {"PATH=/bin", NULL};
    const struct agent_args_options options = {.program = "/bin/tfe-agent",
                                               .options = own,
                                               .environment = environment,
                                               .endpoint = "10.0.0.1:5556",
                                               .node_name = "host-1",
                                               .directory = "/tmp/fresh/tmp",
                                               .has_image = true,
                                               .assign = assign};
    struct agent_args line;
    struct tfe_reason reason;
    assert_int_equal(agent_args_make(&options, &line, &reason), 0);
    return line;
}

TEST(agent_args, an_image_has_its_own_python)
{
    static const char *const module[] = {"python3.12", "-m", "trainer"};
    struct msg_assign assign = assignment(python, 4);
    struct agent_args line = made_for_image(&assign);
    ends_with(line.argv, "--python=python3 --python=python -- train.py --lr 0.1");
    agent_args_done(&line);
    assign = assignment(module, 3);
    line = made_for_image(&assign);
    ends_with(line.argv, "--python=python3 --python=python3.12 --module -- trainer");
    agent_args_done(&line);
}

TEST(agent_args, an_image_says_where_to_work_if_the_job_does_not)
{
    static const struct {
        const char *path, *work_dir, *directory, *inside;
    } places[] = {
        {NULL, NULL, "/tmp/fresh/tmp", NULL},
        {NULL, "/srv/y", "/tmp/fresh/tmp", "/srv/y"},
        {NULL, "out", "/tmp/fresh/tmp/out", "/tmp/fresh/tmp/out"},
        {"/shared/code", NULL, "/shared/code", "/shared/code"},
        {"/shared/code", "src", "/shared/code/src", "/shared/code/src"},
        {"/shared/code", "/srv/y", "/shared/code", "/srv/y"},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct msg_assign assign = assignment(python, 2);
        assign.spec.source_kind = places[i].path ? SOURCE_PATH : SOURCE_NONE;
        assign.spec.source = places[i].path ? places[i].path : "";
        assign.spec.work_dir = places[i].work_dir;
        struct agent_args line = made_for_image(&assign);
        assert_string_equal(line.directory, places[i].directory);
        if (places[i].inside) {
            assert_string_equal(line.inside, places[i].inside);
        } else {
            assert_null(line.inside);
        }
        agent_args_done(&line);
    }
}

TEST(agent_args, it_works_where_the_jobs_files_are)
{
    static const struct {
        const char *path, *work_dir, *directory;
    } places[] = {
        {"/shared/code", NULL, "/shared/code"},
        {"/shared/code", "src/a", "/shared/code/src/a"},
        {"/shared/code", "/data", "/data"},
        {NULL, "out", "/tmp/fresh/out"},
        {"https://example.org/x.git@1", NULL, "/tmp/fresh"}, /* prepared there */
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct msg_assign assign = assignment(python, 2);
        assign.spec.source_kind = !places[i].path            ? SOURCE_NONE
                                  : places[i].path[0] == '/' ? SOURCE_PATH
                                                             : SOURCE_GIT;
        assign.spec.source = places[i].path ? places[i].path : "";
        assign.spec.work_dir = places[i].work_dir;
        struct agent_args line = made(&assign);
        assert_string_equal(line.directory, places[i].directory);
        agent_args_done(&line);
    }
}
