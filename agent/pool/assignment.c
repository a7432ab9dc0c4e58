/* agent/pool/assignment.c: implementation of assignment.h. */
#include "agent/pool/assignment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/job_file.h"
#include "common/message/msg.h"

static int no_memory(struct tfe_reason *reason)
{
    reason_set(reason, "out of memory");
    return TFE_ENOMEM;
}

int assignment_directory(const json_t *job, const char *files, bool has_image, char ret[PATH_MAX],
                         struct tfe_reason *reason)
{
    const char *path = job_source(job, "path");
    const char *below = job_text(job, "work_dir");
    const bool is_absolute = below && below[0] == '/';
    if (is_absolute && has_image) {
        below = NULL;
    }
    path = path ? path : files;
    const int n = below ? snprintf(ret, PATH_MAX, "%s%s%s", is_absolute ? "" : path,
                                   is_absolute ? "" : "/", below)
                        : snprintf(ret, PATH_MAX, "%s", path);
    if (n >= PATH_MAX) {
        reason_set(reason, "the path of the working directory is too long");
        return TFE_EINVAL;
    }
    return 0;
}

/* --- settings --- */

static uint32_t restart_number(const json_t *policy)
{
    uint32_t number = RESTART_EXIT_CODE;
    while (number > 0 && strcmp(json_string_value(policy),
                                msg_restart_policy_name((enum tfe_restart_policy)number)) != 0) {
        number--;
    }
    return number;
}

/* Returns the policies of all roles; a role without one has OnFailure, number 0. */
static uint32_t restart_policies(const json_t *given)
{
    uint32_t policies = 0;
    const char *role;
    json_t *policy;
    if (json_is_string(given)) {
        return JOB_RESTART_ALL(restart_number(given));
    }
    json_object_foreach((json_t *)(uintptr_t)given, role, policy)
    {
        policies = job_restart_set(policies, (uint32_t)job_file_role(role), restart_number(policy));
    }
    return policies;
}

/* Always sets all policies, because options of the pool node must not apply to jobs. */
static void apply_spec(const json_t *job, struct job_spec *spec)
{
    const json_t *workers = json_object_get(job, "workers");
    spec->min_nodes = job_number(workers, "min", 1);
    spec->max_nodes = job_number(workers, "max", 1);
    spec->nproc = job_number(job, "nproc", 1);
    spec->n_ps = job_number(job, "ps", 0);
    spec->chief = job_flag(job, "chief");
    spec->evaluator = job_flag(job, "evaluator");
    spec->max_restarts = job_number(job, "backoff_limit", spec->max_restarts);
    spec->restart_policies = restart_policies(json_object_get(job, "restart_policy"));
    spec->all_workers = strcmp(job_text(job, "success_policy"), "AllWorkers") == 0;
    spec->linger = strcmp(job_text(job, "clean_policy"), "None") == 0;
}

static int apply_options(const json_t *job, struct agent_settings *settings,
                         struct tfe_reason *reason)
{
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(job, "options"), name, value)
    {
        int rc = options_set(&agent_options, settings, name, json_string_value(value), reason);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static int set_variables(const json_t *job, struct tfe_reason *reason)
{
    const struct json_t *workers = json_object_get(job, "workers");
    /* Permanently a single trainer; an epoch with one member of a larger job still forms a
     * cluster. */
    const bool is_alone = job_number(workers, "max", 1) == 1 && job_number(job, "nproc", 1) == 1 &&
                          job_number(job, "ps", 0) == 0 && !job_flag(job, "chief") &&
                          !job_flag(job, "evaluator");
    const char *environment = job_text(job, "environment");
    const char *name;
    json_t *value;
    bool is_set = true;
    json_object_foreach(json_object_get(job, "env"), name, value)
    {
        char *variable = NULL;
        is_set = is_set && asprintf(&variable, "TFE_SET_%s", name) >= 0 &&
                 setenv(variable, json_string_value(value), 1) == 0;
        free(variable);
    }
    if (strcmp(environment, "tfe") != 0) {
        is_set =
            setenv("TFE_ENVIRONMENT", is_alone ? "kubeflow-alone" : environment, 1) == 0 && is_set;
    }
    return is_set ? 0 : no_memory(reason);
}

/* --- command --- */

static bool is_python(const char *word)
{
    const char *slash = strrchr(word, '/');
    const char *name = slash ? slash + 1 : word;
    return strncmp(name, "python", 6) == 0 && name[6 + strspn(name + 6, "0123456789.")] == '\0';
}

/* Converts "python train.py" to the script train.py, so that it can use a standby. Commands with
 * other Python options are passed on unchanged. Returns the number of words that are replaced by
 * settings. */
static size_t apply_command(const char *const *words, size_t n, struct agent_settings *settings)
{
    if (n == 0 || !is_python(words[0])) {
        settings->no_python = true;
        return 0;
    }
    size_t at = n > 1 && strcmp(words[1], "-u") == 0 ? 2 : 1; /* trainers are unbuffered anyway */
    const bool is_module = n > at + 1 && strcmp(words[at], "-m") == 0;
    if (at >= n || (!is_module && words[at][0] == '-')) {
        settings->no_python = true;
        return 0;
    }
    if (settings->handover->is_container || strchr(words[0], '/')) {
        settings->python = words[0];
    }
    settings->module = is_module;
    return at + is_module;
}

static int make_operands(const json_t *job, struct agent_settings *settings, char ***ret,
                         struct tfe_reason *reason)
{
    const json_t *options = json_object_get(job, "options");
    const json_t *command = json_object_get(job, "command");
    const size_t n = json_array_size(command);
    const char **words = calloc(n + 1, sizeof *words);
    if (!words) {
        return no_memory(reason);
    }
    for (size_t i = 0; i < n; i++) {
        words[i] = json_string_value(json_array_get(command, i));
    }
    if (settings->handover->is_container) {
        settings->python = "python3"; /* the machine's interpreter does not exist in the image */
    }
    if (!json_object_get(options, "module") && !json_object_get(options, "no-python")) {
        const size_t at = apply_command(words, n, settings);
        memmove(words, words + at, (n + 1 - at) * sizeof *words);
    }
    *ret = (char **)(uintptr_t)words;
    return 0;
}

int assignment_apply(const struct handover *handover, struct agent_settings *settings,
                     json_t **ret_job, char ***ret_operands, struct tfe_reason *reason)
{
    json_t *job;
    int rc = job_file_parse(handover->spec, &job, reason);
    if (rc) {
        return rc;
    }
    settings->handover = handover;
    settings->endpoint = handover->endpoint;
    settings->agent.node_name = handover->node_name;
    settings->agent.run_key = handover->run_key;
    settings->agent.has_role = handover->has_role;
    settings->agent.role = handover->role;
    (void)id_set(&settings->agent.job, job_text(job, "name")); /* job_file_parse has validated it */
    apply_spec(job, &settings->agent.spec);
    rc = apply_options(job, settings, reason);
    rc = rc ? rc : set_variables(job, reason);
    rc = rc ? rc : make_operands(job, settings, ret_operands, reason);
    if (rc) {
        json_decref(job);
        return rc;
    }
    *ret_job = job;
    return 0;
}
