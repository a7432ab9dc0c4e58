/* common/job/job_file.c: the table of a job file's fields, and their validation. */
#include "common/job/job_file.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/id.h"
#include "common/job/job_name.h"
#include "common/job/tfjob.h"
#include "common/message/job_spec.h"
#include "common/message/range.h"

#define SECONDS_MAX (MSG_DURATION_MAX_MS / 1000u)

struct field {
    const char *name;
    int (*read)(const struct field *field, const json_t *value, json_t **ret,
                struct tfe_reason *reason);
    /* Default value as JSON; "null" is not validated. */
    const char *fallback;
    uint32_t least, most;
    const char *const *words; /* permitted words, NULL-terminated */
};

static int no_memory(struct tfe_reason *reason)
{
    reason_set(reason, "out of memory");
    return TFE_ENOMEM;
}

static int set_result(json_t *value, json_t **ret, struct tfe_reason *reason)
{
    *ret = value;
    return value ? 0 : no_memory(reason);
}

static int read_name(const struct field *field, const json_t *value, json_t **ret,
                     struct tfe_reason *reason)
{
    if (!id_is_valid(json_string_value(value))) {
        reason_set(reason, TFE_ID_RULE " are a name");
        return TFE_EINVAL;
    }
    return set_result(json_copy((json_t *)(uintptr_t)value), ret, reason);
}

/* Validates the beginning of a generated name, which leaves space for the random part. */
static int read_beginning(const struct field *field, const json_t *value, json_t **ret,
                          struct tfe_reason *reason)
{
    const size_t most = TFE_ID_MAX - JOB_NAME_RANDOM - 1;
    if (!id_is_valid(json_string_value(value)) || json_string_length(value) > most) {
        reason_set(reason, TFE_ID_RULE " are a name, and at most %zu of them begin one", most);
        return TFE_EINVAL;
    }
    return set_result(json_copy((json_t *)(uintptr_t)value), ret, reason);
}

static int read_count(const struct field *field, const json_t *value, json_t **ret,
                      struct tfe_reason *reason)
{
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < field->least || n > field->most) {
        reason_set(reason, "a whole number from %u to %u is wanted", field->least, field->most);
        return TFE_EINVAL;
    }
    return set_result(json_integer(n), ret, reason);
}

static int read_flag(const struct field *field, const json_t *value, json_t **ret,
                     struct tfe_reason *reason)
{
    if (!json_is_boolean(value)) {
        reason_set(reason, "true or false is wanted");
        return TFE_EINVAL;
    }
    return set_result(json_boolean(json_is_true(value)), ret, reason);
}

static int read_word(const struct field *field, const json_t *value, json_t **ret,
                     struct tfe_reason *reason)
{
    const char *text = json_string_value(value);
    reason_set(reason, "one of");
    for (size_t i = 0; field->words[i]; i++) {
        struct tfe_reason so_far = *reason;
        if (text && strcmp(text, field->words[i]) == 0) {
            return set_result(json_string(text), ret, reason);
        }
        reason_set(reason, "%.400s%s %s", so_far.text, i > 0 ? "," : "", field->words[i]);
    }
    reason_prefix(reason, "\"%.64s\"", text ? text : "");
    return TFE_EINVAL;
}

static int check_text(const json_t *value, size_t most, struct tfe_reason *reason)
{
    if (!json_is_string(value)) {
        reason_set(reason, "a text is wanted: put it in quotes where it looks like something else");
        return TFE_EINVAL;
    }
    if (json_string_length(value) > most) {
        reason_set(reason, "it is longer than %zu bytes", most);
        return TFE_EINVAL;
    }
    return 0;
}

/* Validates a directory: absolute, or relative to the job's files. */
static int read_work_dir(const struct field *field, const json_t *value, json_t **ret,
                         struct tfe_reason *reason)
{
    const char *text = json_string_value(value);
    int rc = check_text(value, MSG_WORD_MAX, reason);
    if (rc) {
        return rc;
    }
    if (!*text) {
        reason_set(reason, "it is empty");
        return TFE_EINVAL;
    }
    for (const char *at = text; at; at = strchr(at, '/')) {
        at += *at == '/';
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == '\0')) {
            reason_set(reason, "\"..\" leads out of the job's files");
            return TFE_EINVAL;
        }
    }
    return set_result(json_string(text), ret, reason);
}

static int read_image(const struct field *field, const json_t *value, json_t **ret,
                      struct tfe_reason *reason)
{
    const char *text = json_string_value(value);
    int rc = check_text(value, MSG_IMAGE_MAX, reason);
    if (rc == 0 && !submission_is_image(text)) {
        reason_set(reason, "\"%.64s\" is no name of an image in a registry", text);
        rc = TFE_EINVAL;
    }
    return rc ? rc : set_result(json_string(text), ret, reason);
}

static int read_words(const struct field *field, const json_t *value, json_t **ret,
                      struct tfe_reason *reason)
{
    size_t n = json_array_size(value);
    if (!json_is_array(value) || n == 0 || n > MSG_WORDS_MAX) {
        reason_set(reason, "a list of 1 to %u texts is wanted", MSG_WORDS_MAX);
        return TFE_EINVAL;
    }
    for (size_t i = 0; i < n; i++) {
        int rc = check_text(json_array_get(value, i), MSG_WORD_MAX, reason);
        if (rc) {
            reason_prefix(reason, "[%zu]", i);
            return rc;
        }
    }
    if (json_string_length(json_array_get(value, 0)) == 0) {
        reason_set(reason, "[0]: the program has no name");
        return TFE_EINVAL;
    }
    return set_result(json_deep_copy(value), ret, reason);
}

static int check_variable(const char *key, const json_t *value, struct tfe_reason *reason)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char others[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    if (!*key || !strchr(letters, *key) || key[strspn(key, others)] != '\0') {
        reason_set(reason, "no name of a variable");
        return TFE_EINVAL;
    }
    if (strcmp(key, "TF_CONFIG") == 0 || strncmp(key, "TFE_", 4) == 0) {
        reason_set(reason, "the agent sets it for each trainer");
        return TFE_EINVAL;
    }
    return check_text(value, MSG_WORD_MAX - strlen(key) - 1, reason);
}

static bool is_visible(const char *text)
{
    while ((unsigned char)*text > 0x20 && *text != 0x7f) {
        text++;
    }
    return *text == '\0';
}

/* Validates a label; agents' labels have the same form. */
static int check_label(const char *key, const json_t *value, struct tfe_reason *reason)
{
    int rc = check_text(value, MSG_POOL_LABEL_MAX, reason);
    if (rc == 0 && (!*key || *key == '@' || strchr(key, '=') || !is_visible(key) ||
                    !is_visible(json_string_value(value)) || strchr(key, ',') ||
                    strchr(json_string_value(value), ',') ||
                    strlen(key) + 1 + json_string_length(value) > MSG_POOL_LABEL_MAX)) {
        reason_set(
            reason,
            "KEY=VALUE of at most %u visible characters is wanted, without ',', without '=' in KEY "
            "and without '@' in front of it",
            MSG_POOL_LABEL_MAX);
        rc = TFE_EINVAL;
    }
    return rc;
}

/* Validates an option of tfe-agent that a job may set, which excludes those about paths and users
 * of the machine. */
static int check_option(const char *key, const json_t *value, struct tfe_reason *reason)
{
    static const char *const fields[] = {"nproc-per-node", "ps", "chief", "evaluator"};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (strcmp(key, fields[i]) == 0) {
            reason_set(reason, "it is a field of the job file itself");
            return TFE_EINVAL;
        }
    }
    if (job_option_is_free(key, strlen(key))) {
        return json_is_true(value) ? 0 : check_text(value, MSG_WORD_MAX, reason);
    }
    reason_set(reason, "no option of tfe-agent that a job may set");
    return TFE_EINVAL;
}

static int read_map(const json_t *value, size_t most,
                    int (*check)(const char *key, const json_t *value, struct tfe_reason *reason),
                    json_t **ret, struct tfe_reason *reason)
{
    const char *key;
    json_t *item;
    if (!json_is_object(value) || json_object_size(value) > most) {
        reason_set(reason, "a mapping of at most %zu names to texts is wanted", most);
        return TFE_EINVAL;
    }
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
    {
        int rc = check(key, item, reason);
        if (rc) {
            reason_prefix(reason, "%.64s", key);
            return rc;
        }
    }
    return set_result(json_deep_copy(value), ret, reason);
}

static int read_env(const struct field *field, const json_t *value, json_t **ret,
                    struct tfe_reason *reason)
{
    return read_map(value, MSG_WORDS_MAX, check_variable, ret, reason);
}

static int read_labels(const struct field *field, const json_t *value, json_t **ret,
                       struct tfe_reason *reason)
{
    return read_map(value, MSG_POOL_LABELS_MAX, check_label, ret, reason);
}

static int read_options(const struct field *field, const json_t *value, json_t **ret,
                        struct tfe_reason *reason)
{
    return read_map(value, MSG_POOL_LABELS_MAX, check_option, ret, reason);
}

static int check_role(const char *key, struct tfe_reason *reason)
{
    static const char *const roles[] = {"worker", "chief", "ps", "evaluator"};
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        if (strcmp(key, roles[i]) == 0) {
            return 0;
        }
    }
    reason_set(reason, "none of worker, chief, ps, evaluator");
    return TFE_EINVAL;
}

static int check_labels_of(const char *key, const json_t *value, struct tfe_reason *reason)
{
    json_t *copy = NULL;
    int rc = check_role(key, reason);
    rc = rc ? rc : read_labels(NULL, value, &copy, reason);
    json_decref(copy);
    return rc;
}

static int read_role_labels(const struct field *field, const json_t *value, json_t **ret,
                            struct tfe_reason *reason)
{
    return read_map(value, 4, check_labels_of, ret, reason);
}

static const struct field restart_field = {
    .words = (const char *const[]){"Never", "OnFailure", "Always", "ExitCode", NULL}};

static int check_restart_of(const char *key, const json_t *value, struct tfe_reason *reason)
{
    json_t *copy = NULL;
    int rc = check_role(key, reason);
    rc = rc ? rc : read_word(&restart_field, value, &copy, reason);
    json_decref(copy);
    return rc;
}

/* Reads one restart policy for all roles, or a mapping from role to policy. */
static int read_restart(const struct field *field, const json_t *value, json_t **ret,
                        struct tfe_reason *reason)
{
    return json_is_object(value) ? read_map(value, 4, check_restart_of, ret, reason)
                                 : read_word(&restart_field, value, ret, reason);
}

/* Reads an optional member of a mapping; *ret is borrowed, NULL if absent. */
static int read_member(const json_t *value, const char *name, bool (*is_valid)(const char *text),
                       const char *wanted, struct tfe_reason *reason, const json_t **ret)
{
    const json_t *member = json_object_get(value, name);
    *ret = NULL;
    if (!member || json_is_null(member)) {
        return 0;
    }
    int rc = check_text(member, MSG_WORD_MAX, reason);
    if (rc == 0 && !is_valid(json_string_value(member))) {
        reason_set(reason, "%s is wanted", wanted);
        rc = TFE_EINVAL;
    }
    if (rc) {
        reason_prefix(reason, "%s", name);
        return rc;
    }
    *ret = member;
    return 0;
}

static bool is_plain(const char *text)
{
    return *text != '\0' && *text != '-'; /* a leading '-' would be an option of git */
}

static bool is_absolute(const char *text)
{
    return *text == '/';
}

/* Copies the named members that are present, and rejects any other member. */
static int copy_members(const json_t *value, const json_t *const *given, const char *const *names,
                        size_t n, json_t **ret, struct tfe_reason *reason)
{
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
    {
        size_t i = 0;
        while (i < n && strcmp(key, names[i]) != 0) {
            i++;
        }
        if (i == n) {
            reason_set(reason, "%.64s: no such field", key);
            return TFE_EINVAL;
        }
    }
    json_t *copy = json_object();
    for (size_t i = 0; i < n; i++) {
        if (given[i] && json_object_set_new(copy, names[i], json_deep_copy(given[i]))) {
            json_decref(copy);
            return no_memory(reason);
        }
    }
    return set_result(copy, ret, reason);
}

static int read_source(const struct field *field, const json_t *value, json_t **ret,
                       struct tfe_reason *reason)
{
    static const char *const names[] = {"path", "bundle", "git", "ref"};
    const json_t *given[4];
    int rc;
    if (!json_is_object(value)) {
        reason_set(reason, "a mapping with path, bundle, or git and ref is wanted");
        return TFE_EINVAL;
    }
    if ((rc = read_member(value, names[0], is_absolute, "an absolute path", reason, &given[0])) ||
        (rc = read_member(value, names[1], is_plain, "a directory", reason, &given[1])) ||
        (rc = read_member(value, names[2], is_plain, "a repository's URL", reason, &given[2])) ||
        (rc = read_member(value, names[3], is_plain, "a branch, tag or commit", reason,
                          &given[3]))) {
        return rc;
    }
    if (!!given[0] + !!given[1] + !!given[2] != 1 || (given[3] && !given[2])) {
        reason_set(reason, "one of path, bundle and git is wanted, and ref with git only");
        return TFE_EINVAL;
    }
    return copy_members(value, given, names, 4, ret, reason);
}

/* Reads {min, max}, N for N:N, or the text "MIN:MAX". */
static int read_sizes(const struct field *field, const json_t *value, json_t **ret,
                      struct tfe_reason *reason)
{
    static const char *const names[] = {"min", "max"};
    json_int_t size[2] = {json_integer_value(value), json_integer_value(value)};
    bool is_valid = json_is_integer(value);
    if (json_is_object(value)) {
        const json_t *given[2] = {json_object_get(value, "min"), json_object_get(value, "max")};
        json_t *copy;
        int rc = copy_members(value, given, names, 2, &copy, reason);
        if (rc) {
            return rc;
        }
        json_decref(copy);
        is_valid = json_is_integer(given[0]) && json_is_integer(given[1]);
        size[0] = json_integer_value(given[0]);
        size[1] = json_integer_value(given[1]);
    } else if (json_is_string(value)) {
        const char *text = json_string_value(value);
        size_t low = strspn(text, "0123456789");
        size_t high = text[low] == ':' ? strspn(text + low + 1, "0123456789") : 0;
        is_valid = low > 0 && low < 10 && high > 0 && high < 10 && text[low + 1 + high] == '\0';
        size[0] = is_valid ? strtoll(text, NULL, 10) : 0;
        size[1] = is_valid ? strtoll(text + low + 1, NULL, 10) : 0;
    }
    if (!is_valid || size[0] < 1 || size[0] > size[1] || size[1] > MSG_NODES_MAX) {
        reason_set(reason, "N, \"MIN:MAX\" or min and max are wanted, from 1 to %u", MSG_NODES_MAX);
        return TFE_EINVAL;
    }
    return set_result(json_pack("{sIsI}", "min", size[0], "max", size[1]), ret, reason);
}

static const char *const clean_words[] = {"None", "Running", "All", NULL};
static const char *const success_words[] = {"Default", "AllWorkers", NULL};
static const char *const environment_words[] = {"tfe", "kubeflow", "kubeflow-master",
                                                "kubeflow-chief", NULL};

static const struct field fields[] = {
    {"name", read_name, "null", 0, 0, NULL},
    {"generate_name", read_beginning, "null", 0, 0, NULL},
    {"priority", read_count, "500", 0, MSG_PRIORITY_MAX, NULL},
    {"workers", read_sizes, "1", 0, 0, NULL},
    {"ps", read_count, "0", 0, MSG_NODES_MAX, NULL},
    {"chief", read_flag, "false", 0, 0, NULL},
    {"evaluator", read_flag, "false", 0, 0, NULL},
    {"nproc", read_count, "1", 1, MSG_NPROC_MAX, NULL},
    {"source", read_source, "null", 0, 0, NULL},
    {"work_dir", read_work_dir, "null", 0, 0, NULL},
    {"image", read_image, "null", 0, 0, NULL},
    {"command", read_words, "[\"python\", \"exec.py\"]", 0, 0, NULL},
    {"env", read_env, "{}", 0, 0, NULL},
    {"environment", read_word, "\"tfe\"", 0, 0, environment_words},
    {"labels", read_labels, "{}", 0, 0, NULL},
    {"role_labels", read_role_labels, "{}", 0, 0, NULL},
    {"options", read_options, "{}", 0, 0, NULL},
    {"preempt", read_flag, "false", 0, 0, NULL},
    {"suspend", read_flag, "false", 0, 0, NULL},
    {"restart_policy", read_restart, "\"OnFailure\"", 0, 0, NULL},
    {"backoff_limit", read_count, "null", 0, 1000000, NULL},
    {"active_deadline_s", read_count, "null", 1, SECONDS_MAX, NULL},
    {"ttl_after_finished_s", read_count, "null", 0, SECONDS_MAX, NULL},
    {"clean_policy", read_word, "\"Running\"", 0, 0, clean_words},
    {"success_policy", read_word, "\"Default\"", 0, 0, success_words},
};
#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

static int read_field(const struct field *field, const json_t *given, json_t **ret,
                      struct tfe_reason *reason)
{
    json_t *fallback = NULL;
    if (!given || json_is_null(given)) {
        fallback = json_loads(field->fallback, JSON_DECODE_ANY, NULL);
        if (!fallback || json_is_null(fallback)) {
            return set_result(fallback, ret, reason);
        }
        given = fallback;
    }
    int rc = field->read(field, given, ret, reason);
    json_decref(fallback);
    if (rc == TFE_EINVAL) {
        reason_prefix(reason, "%s", field->name);
    }
    return rc;
}

/* Checks that a job without a chief has one worker if the worker is named master or chief in
 * TF_CONFIG. */
static int check_environment(const json_t *job, struct tfe_reason *reason)
{
    const char *environment = json_string_value(json_object_get(job, "environment"));
    const json_t *workers = json_object_get(job, "workers");
    const bool has_chief = json_is_true(json_object_get(job, "chief"));
    const bool is_chief = strcmp(environment, "kubeflow-chief") == 0;
    const bool is_lead = is_chief || (strcmp(environment, "kubeflow-master") == 0 && !has_chief);
    if ((is_lead && json_integer_value(json_object_get(workers, "max")) != 1) ||
        (is_chief && has_chief)) {
        reason_set(reason, "environment: %s names the only worker of a job without a chief",
                   environment);
        return TFE_EINVAL;
    }
    return 0;
}

static int check_whole(const json_t *job, struct tfe_reason *reason)
{
    int rc = check_environment(job, reason);
    if (rc) {
        return rc;
    }
    size_t n_labels = json_object_size(json_object_get(job, "labels"));
    const char *role;
    json_t *labels;
    json_object_foreach(json_object_get(job, "role_labels"), role, labels)
    {
        n_labels += json_object_size(labels);
    }
    if (n_labels > MSG_POOL_LABELS_MAX) {
        reason_set(reason, "labels and role_labels: more than %u in all", MSG_POOL_LABELS_MAX);
        return TFE_EINVAL;
    }
    size_t n_bytes = json_dumpb(job, NULL, 0, JSON_COMPACT);
    if (n_bytes == 0) {
        return no_memory(reason);
    }
    if (n_bytes > MSG_SPEC_MAX) {
        reason_set(reason, "the job needs more than %u bytes: put what is long into its files",
                   MSG_SPEC_MAX);
        return TFE_EINVAL;
    }
    return 0;
}

static bool is_there(const json_t *tree, const char *field)
{
    const json_t *value = json_object_get(tree, field);
    return value && !json_is_null(value);
}

/* Checks that the job has a field from which a name can be made. */
static int check_named(const json_t *tree, struct tfe_reason *reason)
{
    if (!is_there(tree, "name") && !is_there(tree, "generate_name") && !is_there(tree, "command") &&
        !is_there(tree, "source")) {
        reason_set(reason, "name: it is missing, and so is what one could be made of");
        return TFE_EINVAL;
    }
    return 0;
}

static int check_known(const json_t *tree, struct tfe_reason *reason)
{
    const char *key;
    json_t *item;
    if (!json_is_object(tree)) {
        reason_set(reason, "a mapping of fields is wanted");
        return TFE_EINVAL;
    }
    json_object_foreach((json_t *)(uintptr_t)tree, key, item)
    {
        size_t i = 0;
        while (i < N_FIELDS && strcmp(key, fields[i].name) != 0) {
            i++;
        }
        if (i == N_FIELDS) {
            reason_set(reason, "%.64s: no such field", key);
            return TFE_EINVAL;
        }
    }
    return 0;
}

int job_file_read(const json_t *tree, json_t **ret, struct tfe_reason *reason)
{
    int rc = check_known(tree, reason);
    rc = rc ? rc : check_named(tree, reason);
    if (rc) {
        return rc;
    }
    json_t *job = json_object();
    if (!job) {
        return no_memory(reason);
    }
    for (size_t i = 0; i < N_FIELDS && rc == 0; i++) {
        json_t *value;
        rc = read_field(&fields[i], json_object_get(tree, fields[i].name), &value, reason);
        if (rc == 0 && json_object_set_new(job, fields[i].name, value)) {
            rc = no_memory(reason);
        }
    }
    if (rc == 0) {
        rc = check_whole(job, reason);
    }
    if (rc) {
        json_decref(job);
        return rc;
    }
    *ret = job;
    return 0;
}

void job_file_warn(const json_t *job, struct tfe_reason *warning)
{
    const char *image = json_string_value(json_object_get(job, "image"));
    reason_set(warning, "%s", "");
    if (image) {
        reason_set(warning,
                   "image %.200s is run on nodes with --runtime; on others the command finds what "
                   "each has",
                   image);
    }
}

/* Unwraps a list of one job, as written by "kubectl get -o yaml". */
static int find_item(const json_t **tree, struct tfe_reason *reason)
{
    const char *kind = json_string_value(json_object_get(*tree, "kind"));
    const json_t *items = json_object_get(*tree, "items");
    if (!kind || (strcmp(kind, "List") != 0 && strcmp(kind, "TFJobList") != 0)) {
        return 0;
    }
    if (json_array_size(items) != 1) {
        reason_set(reason, "items: %zu of them, and one job a file is wanted",
                   json_array_size(items));
        return TFE_EINVAL;
    }
    *tree = json_array_get(items, 0);
    return 0;
}

int job_file_read_any(const json_t *tree, json_t **ret, struct tfe_reason *warning,
                      struct tfe_reason *reason)
{
    json_t *own = NULL;
    int rc = find_item(&tree, reason);
    if (rc) {
        return rc;
    }
    rc = tfjob_is(tree) ? tfjob_read(tree, &own, reason) : 0;
    if (rc == 0) {
        rc = job_file_read(own ? own : tree, ret, reason);
    }
    if (rc == 0) {
        job_file_warn(*ret, warning);
    }
    json_decref(own);
    return rc == TFE_ENOMEM ? no_memory(reason) : rc;
}
