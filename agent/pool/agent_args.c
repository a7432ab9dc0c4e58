/* agent/pool/agent_args.c: implementation of agent_args.h. */
#include "agent/pool/agent_args.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli/secret_mem.h"

/* Growing NULL-terminated array of owned strings. */
struct strings {
    char **v;
    size_t n, cap;
    bool failed;
};

__attribute__((format(printf, 2, 3))) static void add(struct strings *s, const char *format, ...)
{
    if (s->n + 1 >= s->cap && !s->failed) {
        size_t cap = s->cap ? 2 * s->cap : 32;
        char **v = realloc(s->v, cap * sizeof *v);
        s->failed = !v;
        s->v = v ? v : s->v;
        s->cap = v ? cap : s->cap;
    }
    if (s->failed) {
        return;
    }
    va_list values;
    va_start(values, format);
    s->failed = vasprintf(&s->v[s->n], format, values) < 0;
    va_end(values);
    s->n += !s->failed;
    s->v[s->n] = NULL;
}

static void add_all(struct strings *s, const char *const *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        add(s, "%s", v[i]);
    }
}

/* --- command line --- */

static void add_sizes(struct strings *s, const struct msg_assign *assign)
{
    const struct msg_spec *spec = &assign->spec;
    add(s, "--nnodes=%" PRIu32 ":%" PRIu32, spec->min_nodes, spec->max_nodes);
    add(s, "--nproc-per-node=%" PRIu32, spec->nproc);
    add(s, "--ps=%" PRIu32, spec->n_ps);
    add(s, "--chief=%s", spec->chief ? "true" : "false");
    add(s, "--evaluator=%s", spec->evaluator ? "true" : "false");
    if (assign->has_role) {
        add(s, "--role=%s", msg_task_name(assign->role));
    }
}

static const char *policy_name(uint32_t policies, enum tfe_task task)
{
    return msg_restart_policy_name((enum tfe_restart_policy)job_restart_policy(policies, task));
}

/* Always sets all policies, because options of the pool node must not apply to jobs. */
static void add_policies(struct strings *s, const struct msg_spec *spec)
{
    const uint32_t policies = spec->restart_policies != MSG_UNSET
                                  ? spec->restart_policies
                                  : JOB_RESTART_ALL(spec->restart_policy);
    if (spec->backoff_limit != MSG_UNSET) {
        add(s, "--max-restarts=%" PRIu32, spec->backoff_limit);
    }
    add(s, "--restart-policy=worker:%s,chief:%s,ps:%s,evaluator:%s",
        policy_name(policies, TASK_WORKER), policy_name(policies, TASK_CHIEF),
        policy_name(policies, TASK_PS), policy_name(policies, TASK_EVALUATOR));
    add(s, "--all-workers=%s", spec->success_policy == SUCCESS_ALL_WORKERS ? "true" : "false");
    add(s, "--linger=%s", spec->clean_policy == CLEAN_NONE ? "true" : "false");
}

static bool is_option(const char *text, const char *name)
{
    size_t n = strlen(name);
    return strncmp(text, name, n) == 0 && (text[n] == '\0' || text[n] == '=');
}

/* Adds the job's options. Rejects those reserved to the machine's owner, above all
 * the trainers' user. */
static int add_options(struct strings *s, const struct msg_spec *spec, bool *ret_says_kind,
                       struct tfe_reason *reason)
{
    for (size_t i = 0; i < spec->n_options; i++) {
        const char *option = spec->options[i];
        if (!job_option_is_free(option, strcspn(option, "="))) {
            reason_set(reason, "a job may not set tfe-agent's option %.64s", option);
            return TFE_EINVAL;
        }
        *ret_says_kind =
            *ret_says_kind || is_option(option, "module") || is_option(option, "no-python");
        add(s, "--%s", option);
    }
    return 0;
}

static bool is_python(const char *word)
{
    const char *slash = strrchr(word, '/');
    const char *name = slash ? slash + 1 : word;
    return strncmp(name, "python", 6) == 0 && name[6 + strspn(name + 6, "0123456789.")] == '\0';
}

/* Converts "python train.py" to the script train.py, so that it can use a standby. Commands with
 * other Python options are passed on unchanged. */
static void add_command(struct strings *s, const struct msg_spec *spec, bool says_kind,
                        bool has_image)
{
    const char *const *v = spec->argv;
    size_t n = spec->n_argv;
    size_t at = 0;
    if (!says_kind && is_python(v[0])) {
        at = n > 1 && strcmp(v[1], "-u") == 0 ? 2 : 1; /* trainers are unbuffered anyway */
        bool is_module = n > at + 1 && strcmp(v[at], "-m") == 0;
        if (at < n && (is_module || v[at][0] != '-')) {
            if (has_image || strchr(v[0], '/')) {
                add(s, "--python=%s", v[0]);
            }
            if (is_module) {
                add(s, "--module");
                at++;
            }
        } else {
            at = 0;
        }
    }
    if (!says_kind && at == 0) {
        add(s, "--no-python");
    }
    add(s, "--");
    add_all(s, v + at, n - at);
}

static int make_argv(const struct agent_args_options *options, struct strings *s,
                     struct tfe_reason *reason)
{
    const struct msg_assign *assign = options->assign;
    bool says_kind = false;
    add(s, "%s", options->program);
    for (char *const *option = options->options; *option; option++) {
        add(s, "%s", *option);
    }
    add(s, "--rdzv-endpoint=%s", options->endpoint);
    add(s, "--node-name=%s", options->node_name);
    add(s, "--job=%s", assign->spec.name);
    add(s, "--run=%s", assign->run_key);
    add_policies(s, &assign->spec);
    add_sizes(s, assign);
    int rc = add_options(s, &assign->spec, &says_kind, reason);
    if (options->has_image) {
        add(s, "--python=python3"); /* the machine's interpreter does not exist in the image */
    }
    if (rc == 0) {
        add_command(s, &assign->spec, says_kind, options->has_image);
    }
    return rc;
}

/* --- environment and directory --- */

static void make_envp(const struct agent_args_options *options, struct strings *s)
{
    const struct msg_spec *spec = &options->assign->spec;
    /* Permanently a single trainer; an epoch with one member of a larger job
     * still forms a cluster. */
    const bool is_alone = spec->max_nodes == 1 && spec->nproc == 1 && spec->n_ps == 0 &&
                          !spec->chief && !spec->evaluator;
    for (const char *const *entry = options->environment; *entry; entry++) {
        add(s, "%s", *entry);
    }
    for (size_t i = 0; i < spec->n_env; i++) {
        add(s, "TFE_SET_%s", spec->env[i]);
    }
    if (spec->environment != ENVIRONMENT_TFE) {
        add(s, "TFE_ENVIRONMENT=%s",
            is_alone ? "kubeflow-alone" : msg_environment_name(spec->environment));
    }
}

static int find_directory(const struct agent_args_options *options, char **ret,
                          struct tfe_reason *reason)
{
    const struct msg_spec *spec = &options->assign->spec;
    const char *files = spec->source_kind == SOURCE_PATH ? spec->source : options->directory;
    const char *below = spec->work_dir ? spec->work_dir : "";
    bool is_whole = below[0] == '/';
    if (options->has_image && is_whole) { /* the machine need not have this directory */
        below = "";
        is_whole = false;
    }
    if (asprintf(ret, "%s%s%s", is_whole ? "" : files, is_whole || !below[0] ? "" : "/", below) <
        0) {
        *ret = NULL;
        reason_set(reason, "out of memory");
        return TFE_ENOMEM;
    }
    return 0;
}

/* Determines the directory in the image, if the job brings files or names a directory. */
static int find_inside(const struct agent_args_options *options, const char *directory, char **ret,
                       struct tfe_reason *reason)
{
    const struct msg_spec *spec = &options->assign->spec;
    const bool is_whole = spec->work_dir && spec->work_dir[0] == '/';
    if (!options->has_image || (spec->source_kind == SOURCE_NONE && !spec->work_dir)) {
        return 0;
    }
    *ret = strdup(is_whole ? spec->work_dir : directory);
    if (!*ret) {
        reason_set(reason, "out of memory");
    }
    return *ret ? 0 : TFE_ENOMEM;
}

int agent_args_make(const struct agent_args_options *options, struct agent_args *ret,
                    struct tfe_reason *reason)
{
    struct strings argv = {.v = NULL};
    struct strings envp = {.v = NULL};
    struct agent_args line = {.argv = NULL};
    int rc = find_directory(options, &line.directory, reason);
    rc = rc ? rc : find_inside(options, line.directory, &line.inside, reason);
    rc = rc ? rc : make_argv(options, &argv, reason);
    if (rc == 0) {
        make_envp(options, &envp);
    }
    if (rc == 0 && (argv.failed || envp.failed)) {
        reason_set(reason, "out of memory");
        rc = TFE_ENOMEM;
    }
    line.argv = argv.v;
    line.envp = envp.v;
    if (rc) {
        agent_args_done(&line);
        return rc;
    }
    *ret = line;
    return 0;
}

static void strings_done(char **v)
{
    for (char **at = v; at && *at; at++) {
        secret_mem_wipe_text(*at);
        free(*at);
    }
    free(v);
}

void agent_args_done(struct agent_args *line)
{
    strings_done(line->argv);
    strings_done(line->envp);
    free(line->directory);
    free(line->inside);
    *line = (struct agent_args){.argv = NULL};
}
