/* common/job/job_message.c: converts a canonical job to SPEC. */
#include "common/job/job_message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Upper bound of the number of words in any enum of the protocol. */
#define WORDS_MAX 8u

/* A NULL-terminated list that owns its texts, freed by job_message_done. */
struct texts {
    char **v;
    size_t n;
};

static int no_memory(struct tfe_reason *reason)
{
    reason_set(reason, "out of memory");
    return TFE_ENOMEM;
}

/* Reserves space for n more texts. */
static int texts_grow(struct texts *t, size_t n)
{
    char **v = realloc(t->v, (t->n + n + 1) * sizeof *v);
    if (!v) {
        return TFE_ENOMEM;
    }
    t->v = v;
    t->v[t->n] = NULL;
    return 0;
}

/* Appends "PREFIX KEY=VALUE" for each member, or "PREFIX KEY" if the value is true. */
static int add_members(struct texts *t, const char *prefix, const json_t *object)
{
    const char *key;
    json_t *value;
    if (texts_grow(t, json_object_size(object))) {
        return TFE_ENOMEM;
    }
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        const char *text = json_string_value(value);
        if (asprintf(&t->v[t->n], "%s%s%s%s", prefix, key, text ? "=" : "", text ? text : "") < 0) {
            t->v[t->n] = NULL;
            return TFE_ENOMEM;
        }
        t->v[++t->n] = NULL;
    }
    return 0;
}

static int add_role_labels(struct texts *t, const json_t *roles)
{
    const char *role;
    json_t *labels;
    int rc = 0;
    json_object_foreach((json_t *)(uintptr_t)roles, role, labels)
    {
        char prefix[32];
        (void)snprintf(prefix, sizeof prefix, "%.30s:", role);
        rc = rc ? rc : add_members(t, prefix, labels);
    }
    return rc;
}

static int add_words(struct texts *t, const json_t *words)
{
    size_t i;
    json_t *word;
    if (texts_grow(t, json_array_size(words))) {
        return TFE_ENOMEM;
    }
    json_array_foreach((json_t *)(uintptr_t)words, i, word)
    {
        t->v[t->n] = strdup(json_string_value(word));
        if (!t->v[t->n]) {
            return TFE_ENOMEM;
        }
        t->v[++t->n] = NULL;
    }
    return 0;
}

static uint32_t number_of(const json_t *job, const char *field, uint32_t scale, uint32_t absent)
{
    const json_t *value = json_object_get(job, field);
    return json_is_integer(value) ? (uint32_t)json_integer_value(value) * scale : absent;
}

static bool flag_of(const json_t *job, const char *field)
{
    return json_is_true(json_object_get(job, field));
}

static const char *restart_at(unsigned number)
{
    return msg_restart_policy_name((enum tfe_restart_policy)number);
}

static const char *clean_at(unsigned number)
{
    return msg_clean_policy_name((enum tfe_clean_policy)number);
}

static const char *success_at(unsigned number)
{
    return msg_success_policy_name((enum tfe_success_policy)number);
}

static const char *environment_at(unsigned number)
{
    return msg_environment_name((enum tfe_environment)number);
}

/* Returns the enum value of the field's word; job files use the protocol's words. */
static unsigned word_of(const json_t *job, const char *field, const char *(*name_at)(unsigned))
{
    const char *word = json_string_value(json_object_get(job, field));
    unsigned number = 0;
    while (number < WORDS_MAX && strcmp(word, name_at(number)) != 0) {
        number++;
    }
    return number;
}

/* Returns the restart policies of all roles; the default is OnFailure, value 0. */
static uint32_t restarts_of(const json_t *job)
{
    const json_t *roles = json_object_get(job, "restart_policy");
    uint32_t policies = 0;
    for (uint32_t task = 0; task < 4; task++) {
        const char *name = msg_task_name((enum tfe_task)task);
        if (json_object_get(roles, name)) {
            policies = job_restart_set(policies, task, word_of(roles, name, restart_at));
        }
    }
    return json_is_object(roles) ? policies : MSG_UNSET;
}

static int set_source(const json_t *job, struct msg_spec *spec, struct tfe_reason *reason)
{
    static const char *const names[] = {
        [SOURCE_PATH] = "path", [SOURCE_BUNDLE] = "bundle", [SOURCE_GIT] = "git"};
    const json_t *source = json_object_get(job, "source");
    const char *ref = json_string_value(json_object_get(source, "ref"));
    char *text = NULL;
    for (unsigned kind = SOURCE_PATH; kind <= SOURCE_GIT && !text; kind++) {
        const char *given = json_string_value(json_object_get(source, names[kind]));
        if (given && asprintf(&text, "%s%s%s", given, ref ? "@" : "", ref ? ref : "") < 0) {
            return no_memory(reason);
        }
        spec->source_kind = given ? (enum tfe_source)kind : SOURCE_NONE;
    }
    spec->source = text ? text : "";
    if ((spec->source_kind == SOURCE_BUNDLE && !submission_is_digest(text)) ||
        (spec->source_kind == SOURCE_GIT && !submission_commit(text))) {
        reason_set(reason, "source: a digest, or a whole commit, is wanted here");
        free(text);
        return TFE_EINVAL;
    }
    return 0;
}

int job_message_make(const json_t *job, struct msg_spec *ret, struct tfe_reason *reason)
{
    struct texts argv = {.v = NULL};
    struct texts env = {.v = NULL};
    struct texts labels = {.v = NULL};
    struct texts role_labels = {.v = NULL};
    struct texts options = {.v = NULL};
    const json_t *workers = json_object_get(job, "workers");
    struct msg_spec spec = {
        .name = json_string_value(json_object_get(job, "name")),
        .priority = number_of(job, "priority", 1, MSG_UNSET),
        .min_nodes = number_of(workers, "min", 1, 1),
        .max_nodes = number_of(workers, "max", 1, 1),
        .n_ps = number_of(job, "ps", 1, 0),
        .chief = flag_of(job, "chief"),
        .evaluator = flag_of(job, "evaluator"),
        .nproc = number_of(job, "nproc", 1, 1),
        .preempt = flag_of(job, "preempt"),
        .restart_policies = restarts_of(job),
        .backoff_limit = number_of(job, "backoff_limit", 1, MSG_UNSET),
        .active_deadline_ms = number_of(job, "active_deadline_s", 1000, 0),
        .ttl_after_finished_ms = number_of(job, "ttl_after_finished_s", 1000, MSG_UNSET),
        .clean_policy = (enum tfe_clean_policy)word_of(job, "clean_policy", clean_at),
        .success_policy = (enum tfe_success_policy)word_of(job, "success_policy", success_at),
        .suspend = flag_of(job, "suspend"),
        .environment = (enum tfe_environment)word_of(job, "environment", environment_at),
        .work_dir = json_string_value(json_object_get(job, "work_dir")),
        .image = json_string_value(json_object_get(job, "image")),
    };
    if (spec.restart_policies == MSG_UNSET) {
        spec.restart_policy = (enum tfe_restart_policy)word_of(job, "restart_policy", restart_at);
    }
    int rc = set_source(job, &spec, reason);
    if (rc) {
        return rc;
    }
    bool failed = add_words(&argv, json_object_get(job, "command")) ||
                  add_members(&env, "", json_object_get(job, "env")) ||
                  add_members(&labels, "", json_object_get(job, "labels")) ||
                  add_role_labels(&role_labels, json_object_get(job, "role_labels")) ||
                  add_members(&options, "", json_object_get(job, "options"));
    spec.argv = (const char *const *)argv.v;
    spec.n_argv = argv.n;
    spec.env = (const char *const *)env.v;
    spec.n_env = env.n;
    spec.labels = (const char *const *)labels.v;
    spec.n_labels = labels.n;
    spec.role_labels = (const char *const *)role_labels.v;
    spec.n_role_labels = role_labels.n;
    spec.options = (const char *const *)options.v;
    spec.n_options = options.n;
    if (failed) {
        job_message_done(&spec);
        return no_memory(reason);
    }
    *ret = spec;
    return 0;
}

static void texts_free(const char *const *v)
{
    for (const char *const *at = v; at && *at; at++) {
        free((void *)(uintptr_t)*at);
    }
    free((void *)(uintptr_t)v);
}

void job_message_done(struct msg_spec *spec)
{
    if (spec->source_kind != SOURCE_NONE) {
        free((void *)(uintptr_t)spec->source);
    }
    texts_free(spec->argv);
    texts_free(spec->env);
    texts_free(spec->labels);
    texts_free(spec->role_labels);
    texts_free(spec->options);
}
