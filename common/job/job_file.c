/* common/job/job_file.c: the table of a job file's fields, and their validation. */
#include "common/job/job_file.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/id.h"
#include "common/job/job_name.h"
#include "common/message/job_spec.h"
#include "common/message/msg.h"
#include "common/message/range.h"
#include "common/text/git_url.h"

#define SECONDS_MAX (MSG_DURATION_MAX_MS / 1000u)
#define N_ROLES 4

struct field {
    const char *name;
    /* Returns TFE_EINVAL with a reason if the value is invalid. */
    int (*check)(const struct field *field, const json_t *value, struct tfe_reason *reason);
    /* Default value as JSON; "null" is not validated. */
    const char *fallback;
    uint32_t min, max;
    const char *const *words; /* permitted words, NULL-terminated */
};

static int no_memory(struct tfe_reason *reason)
{
    reason_set(reason, "out of memory");
    return TFE_ENOMEM;
}

/* Sets the reason. Returns TFE_EINVAL. */
static int __attribute__((format(printf, 2, 3)))
invalid(struct tfe_reason *reason, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(reason->text, sizeof(reason->text), format, args);
    va_end(args);
    return TFE_EINVAL;
}

/* True if the text is in a NULL-terminated list. */
static bool is_one_of(const char *text, const char *const *list)
{
    while (*list && strcmp(text, *list) != 0) {
        list++;
    }
    return *list;
}

/* --- texts and numbers --- */

static int check_name(const struct field *field, const json_t *value, struct tfe_reason *reason)
{
    return id_is_valid(json_string_value(value)) ? 0 : invalid(reason, "expected " TFE_ID_RULE);
}

/* Checks the beginning of a generated name, which leaves space for the random part. */
static int check_beginning(const struct field *field, const json_t *value,
                           struct tfe_reason *reason)
{
    const size_t max = TFE_ID_MAX - JOB_NAME_RANDOM - 1;
    if (id_is_valid(json_string_value(value)) && json_string_length(value) <= max) {
        return 0;
    }
    return invalid(
        reason, "expected at most %zu characters of A-Z a-z 0-9 . _ -, not beginning with . or -",
        max);
}

static int check_count(const struct field *field, const json_t *value, struct tfe_reason *reason)
{
    const json_int_t n = json_integer_value(value);
    if (json_is_integer(value) && n >= field->min && n <= field->max) {
        return 0;
    }
    return invalid(reason, "expected an integer from %u to %u", field->min, field->max);
}

static int check_flag(const struct field *field, const json_t *value, struct tfe_reason *reason)
{
    return json_is_boolean(value) ? 0 : invalid(reason, "expected true or false");
}

static int check_word(const struct field *field, const json_t *value, struct tfe_reason *reason)
{
    const char *text = json_string_value(value);
    char list[128] = "";
    for (size_t i = 0; field->words[i]; i++) {
        if (text && strcmp(text, field->words[i]) == 0) {
            return 0;
        }
        const size_t n = strlen(list);
        (void)snprintf(list + n, sizeof(list) - n, "%s %s", i > 0 ? "," : "", field->words[i]);
    }
    return invalid(reason, "expected one of%s, found \"%.64s\"", list, text ? text : "");
}

static int check_text(const json_t *value, size_t max, struct tfe_reason *reason)
{
    if (!json_is_string(value)) {
        return invalid(reason, "expected a string (put the value in quotes)");
    }
    return json_string_length(value) <= max
               ? 0
               : invalid(reason, "the value is longer than %zu bytes", max);
}

/* Checks a text of one line without control characters. */
static int check_line(const json_t *value, struct tfe_reason *reason)
{
    int rc = check_text(value, MSG_WORD_MAX, reason);
    for (const char *at = json_string_value(value); rc == 0 && *at; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f) {
            rc = invalid(reason, "the value contains a line break or another control character");
        }
    }
    return rc;
}

/* Checks a directory: absolute, or relative to the job's files. */
static int check_work_dir(const struct field *field, const json_t *value, struct tfe_reason *reason)
{
    const char *text = json_string_value(value);
    int rc = check_line(value, reason);
    if (rc) {
        return rc;
    }
    if (!*text) {
        return invalid(reason, "the value is empty");
    }
    for (const char *at = text; at; at = strchr(at, '/')) {
        at += *at == '/';
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == '\0')) {
            return invalid(reason, "\"..\" would leave the directory of the job's files");
        }
    }
    return 0;
}

/* True for the name of an image in a registry. Rejects options of the container engine, and
 * transports such as dir:/etc that read files of the machine. */
static bool is_image(const char *text)
{
    static const char *const transports[] = {"atomic",
                                             "containers-storage",
                                             "dir",
                                             "docker",
                                             "docker-archive",
                                             "docker-daemon",
                                             "http",
                                             "https",
                                             "oci",
                                             "oci-archive",
                                             "ostree",
                                             "sif",
                                             "tarball"};
    static const char characters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/:@+";
    const size_t n_letters = sizeof(characters) - sizeof("._-/:@+");
    const size_t n = strcspn(text, ":");
    for (size_t i = 0; text[n] && i < sizeof(transports) / sizeof(transports[0]); i++) {
        if (strlen(transports[i]) == n && strncmp(transports[i], text, n) == 0) {
            return false;
        }
    }
    return *text && text[strspn(text, characters)] == '\0' && memchr(characters, *text, n_letters);
}

static int check_image(const struct field *field, const json_t *value, struct tfe_reason *reason)
{
    int rc = check_text(value, MSG_IMAGE_MAX, reason);
    if (rc == 0 && !is_image(json_string_value(value))) {
        rc = invalid(reason, "\"%.64s\" is not the name of an image in a registry",
                     json_string_value(value));
    }
    return rc;
}

static int check_command(const struct field *field, const json_t *value, struct tfe_reason *reason)
{
    const size_t n = json_array_size(value);
    if (n == 0 || n > MSG_WORDS_MAX) {
        return invalid(reason, "expected a list of 1 to %u strings", MSG_WORDS_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        int rc = check_text(json_array_get(value, i), MSG_WORD_MAX, reason);
        if (rc) {
            reason_prefix(reason, "[%zu]", i);
            return rc;
        }
    }
    return json_string_length(json_array_get(value, 0)) > 0
               ? 0
               : invalid(reason, "[0]: the program name is empty");
}

/* --- mappings --- */

typedef int member_check(const char *key, const json_t *value, struct tfe_reason *reason);

static int check_map(const json_t *value, size_t max, member_check *check,
                     struct tfe_reason *reason)
{
    const char *key;
    json_t *item;
    if (!json_is_object(value) || json_object_size(value) > max) {
        return invalid(reason, "expected a mapping of at most %zu names to strings", max);
    }
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
    {
        int rc = check(key, item, reason);
        if (rc) {
            reason_prefix(reason, "%.64s", key);
            return rc;
        }
    }
    return 0;
}

static int check_variable(const char *key, const json_t *value, struct tfe_reason *reason)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char others[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    if (!*key || !strchr(letters, *key) || key[strspn(key, others)] != '\0') {
        return invalid(reason, "not a valid variable name");
    }
    if (strcmp(key, "TF_CONFIG") == 0 || strncmp(key, "TFE_", 4) == 0) {
        return invalid(reason, "reserved (the agent sets this variable for each trainer)");
    }
    return check_text(value, MSG_WORD_MAX - strlen(key) - 1, reason);
}

static int check_env(const struct field *field, const json_t *value, struct tfe_reason *reason)
{
    return check_map(value, MSG_WORDS_MAX, check_variable, reason);
}

static bool is_visible(const char *text)
{
    while ((unsigned char)*text > 0x20 && *text != 0x7f) {
        text++;
    }
    return *text == '\0';
}

/* Checks a label; agents' labels have the same form. */
static int check_label(const char *key, const json_t *value, struct tfe_reason *reason)
{
    int rc = check_text(value, MSG_POOL_LABEL_MAX, reason);
    if (rc == 0 && (!*key || *key == '@' || strchr(key, '=') || !is_visible(key) ||
                    !is_visible(json_string_value(value)) || strchr(key, ',') ||
                    strchr(json_string_value(value), ',') ||
                    strlen(key) + 1 + json_string_length(value) > MSG_POOL_LABEL_MAX)) {
        rc = invalid(reason,
                     "expected KEY=VALUE of at most %u visible characters, without ',', without "
                     "'=' in KEY, and not beginning with '@'",
                     MSG_POOL_LABEL_MAX);
    }
    return rc;
}

static int check_labels(const struct field *field, const json_t *value, struct tfe_reason *reason)
{
    return check_map(value, MSG_POOL_LABELS_MAX, check_label, reason);
}

int job_file_role(const char *name)
{
    int task = N_ROLES - 1;
    while (task >= 0 && strcmp(name, msg_task_name((enum tfe_task)task)) != 0) {
        task--;
    }
    return task;
}

static int check_role(const char *key, struct tfe_reason *reason)
{
    return job_file_role(key) >= 0 ? 0 : invalid(reason, "expected worker, chief, ps or evaluator");
}

static int check_labels_of(const char *key, const json_t *value, struct tfe_reason *reason)
{
    int rc = check_role(key, reason);
    return rc ? rc : check_labels(NULL, value, reason);
}

static int check_role_labels(const struct field *field, const json_t *value,
                             struct tfe_reason *reason)
{
    return check_map(value, N_ROLES, check_labels_of, reason);
}

/* Checks an option of tfe-agent that a job may set: a setting of the job, nothing about paths and
 * users of the machine. */
static int check_option(const char *key, const json_t *value, struct tfe_reason *reason)
{
#define OPTION_NAME(member, type, kind, who, low, high, setting, tag, text, option, ...) option,
    static const char *const permitted[] = {JOB_SPEC_OPTIONS(OPTION_NAME) "grow",
                                            "checkpoint-dir",
                                            "progress-regex",
                                            "exit-grace",
                                            "start-timeout",
                                            "progress-timeout",
                                            "no-hooks",
                                            "preload",
                                            "framework",
                                            "state-memory",
                                            "artifacts",
                                            "artifacts-command",
                                            "artifacts-timeout",
                                            "module",
                                            "no-python",
                                            "default-ps",
                                            NULL};
#undef OPTION_NAME
    static const char *const fields[] = {"nproc-per-node", "ps",          "chief", "evaluator",
                                         "linger",         "all-workers", NULL};
    if (is_one_of(key, fields)) {
        return invalid(reason, "not an option here (the job file has a field for it)");
    }
    if (!is_one_of(key, permitted)) {
        return invalid(reason, "not an option of tfe-agent that a job may set");
    }
    return json_is_true(value) ? 0 : check_line(value, reason);
}

static int check_options(const struct field *field, const json_t *value, struct tfe_reason *reason)
{
    return check_map(value, MSG_POOL_LABELS_MAX, check_option, reason);
}

static const struct field restart_field = {
    .words = (const char *const[]){"Never", "OnFailure", "Always", "ExitCode", NULL}};

static int check_restart_of(const char *key, const json_t *value, struct tfe_reason *reason)
{
    int rc = check_role(key, reason);
    return rc ? rc : check_word(&restart_field, value, reason);
}

/* Checks one restart policy for all roles, or a mapping from role to policy. */
static int check_restart(const struct field *field, const json_t *value, struct tfe_reason *reason)
{
    return json_is_object(value) ? check_map(value, N_ROLES, check_restart_of, reason)
                                 : check_word(&restart_field, value, reason);
}

static int check_source_member(const char *key, const json_t *value, struct tfe_reason *reason)
{
    static const struct {
        const char *name, *expected;
    } members[] = {{"path", "an absolute path"},
                   {"bundle", "a directory"},
                   {"git", "a repository's URL"},
                   {"ref", "a branch, tag or commit"}};
    size_t i = 0;
    while (i < sizeof(members) / sizeof(members[0]) && strcmp(key, members[i].name) != 0) {
        i++;
    }
    if (i == sizeof(members) / sizeof(members[0])) {
        return invalid(reason, "unknown field");
    }
    if (json_is_null(value) && strcmp(key, "ref") == 0) {
        return 0; /* the default branch */
    }
    int rc = check_line(value, reason);
    const char first = rc == 0 ? json_string_value(value)[0] : '\0';
    /* A leading '-' would be an option of git. */
    if (rc == 0 && (i == 0 ? first != '/' : first == '\0' || first == '-')) {
        rc = invalid(reason, "expected %s", members[i].expected);
    }
    return rc;
}

static int check_source(const struct field *field, const json_t *value, struct tfe_reason *reason)
{
    if (!json_is_object(value)) {
        return invalid(reason, "expected a mapping with path, bundle, or git and ref");
    }
    int rc = check_map(value, N_ROLES, check_source_member, reason);
    const bool has_git = json_object_get(value, "git");
    const bool has_ref = json_object_get(value, "ref");
    if (rc == 0 && ((has_ref && !has_git) || json_object_size(value) != 1u + has_ref)) {
        rc = invalid(reason, "expected exactly one of path, bundle and git; ref requires git");
    }
    return rc;
}

/* Returns {min, max} for N or the text "MIN:MAX", a copy of any other value; NULL if out of
 * memory. */
static json_t *sizes_of(const json_t *value)
{
    const char *text = json_string_value(value);
    const size_t low = text ? strspn(text, "0123456789") : 0;
    const size_t high = low > 0 && text[low] == ':' ? strspn(text + low + 1, "0123456789") : 0;
    json_int_t min = json_integer_value(value);
    json_int_t max = min;
    if (low < 10 && high > 0 && high < 10 && text[low + 1 + high] == '\0') {
        min = strtoll(text, NULL, 10);
        max = strtoll(text + low + 1, NULL, 10);
    } else if (!json_is_integer(value)) {
        return json_deep_copy(value);
    }
    return json_pack("{sIsI}", "min", min, "max", max);
}

static int check_size(const char *key, const json_t *value, struct tfe_reason *reason)
{
    const bool is_known = strcmp(key, "min") == 0 || strcmp(key, "max") == 0;
    return is_known ? 0 : invalid(reason, "unknown field");
}

static int check_sizes(const struct field *field, const json_t *value, struct tfe_reason *reason)
{
    const json_t *low = json_object_get(value, "min");
    const json_t *high = json_object_get(value, "max");
    const json_int_t min = json_integer_value(low);
    int rc = json_is_object(value) ? check_map(value, N_ROLES, check_size, reason) : 0;
    if (rc == 0 && (!json_is_integer(low) || !json_is_integer(high) || min < 1 ||
                    min > json_integer_value(high) || json_integer_value(high) > MSG_NODES_MAX)) {
        rc = invalid(reason, "expected N, \"MIN:MAX\", or a mapping with min and max, from 1 to %u",
                     MSG_NODES_MAX);
    }
    return rc;
}

/* --- the whole job --- */

static const char *const clean_words[] = {"None", "Running", "All", NULL};
static const char *const success_words[] = {"Default", "AllWorkers", NULL};
static const char *const environment_words[] = {"tfe", "kubeflow", "kubeflow-master",
                                                "kubeflow-chief", NULL};

static const struct field fields[] = {
    {"name", check_name, "null", 0, 0, NULL},
    {"generate_name", check_beginning, "null", 0, 0, NULL},
    {"priority", check_count, "500", 0, MSG_PRIORITY_MAX, NULL},
    {"workers", check_sizes, "1", 0, 0, NULL},
    {"ps", check_count, "0", 0, MSG_NODES_MAX, NULL},
    {"chief", check_flag, "false", 0, 0, NULL},
    {"evaluator", check_flag, "false", 0, 0, NULL},
    {"nproc", check_count, "1", 1, MSG_NPROC_MAX, NULL},
    {"source", check_source, "null", 0, 0, NULL},
    {"work_dir", check_work_dir, "null", 0, 0, NULL},
    {"image", check_image, "null", 0, 0, NULL},
    {"command", check_command, "[\"python\", \"exec.py\"]", 0, 0, NULL},
    {"env", check_env, "{}", 0, 0, NULL},
    {"environment", check_word, "\"tfe\"", 0, 0, environment_words},
    {"labels", check_labels, "{}", 0, 0, NULL},
    {"role_labels", check_role_labels, "{}", 0, 0, NULL},
    {"options", check_options, "{}", 0, 0, NULL},
    {"preempt", check_flag, "false", 0, 0, NULL},
    {"suspend", check_flag, "false", 0, 0, NULL},
    {"restart_policy", check_restart, "\"OnFailure\"", 0, 0, NULL},
    {"backoff_limit", check_count, "null", 0, 1000000, NULL},
    {"active_deadline_s", check_count, "null", 1, SECONDS_MAX, NULL},
    {"ttl_after_finished_s", check_count, "null", 0, SECONDS_MAX, NULL},
    {"clean_policy", check_word, "\"Running\"", 0, 0, clean_words},
    {"success_policy", check_word, "\"Default\"", 0, 0, success_words},
};
#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

/* Returns the canonical value of the field, owned by the caller: what was given, or the default. */
static int read_field(const struct field *field, const json_t *given, json_t **ret,
                      struct tfe_reason *reason)
{
    const bool is_given = given && !json_is_null(given);
    json_t *fallback = is_given ? NULL : json_loads(field->fallback, JSON_DECODE_ANY, NULL);
    json_t *value = field->check == check_sizes ? sizes_of(is_given ? given : fallback)
                                                : json_deep_copy(is_given ? given : fallback);
    json_decref(fallback);
    if (!value) {
        return no_memory(reason);
    }
    int rc = json_is_null(value) ? 0 : field->check(field, value, reason);
    if (rc) {
        reason_prefix(reason, "%s", field->name);
        json_decref(value);
        return rc;
    }
    *ret = value;
    return 0;
}

/* Checks that a job without a chief has one worker if the worker is named master or chief in
 * TF_CONFIG. */
static int check_environment(const json_t *job, struct tfe_reason *reason)
{
    const char *environment = job_text(job, "environment");
    const json_t *workers = json_object_get(job, "workers");
    const bool has_chief = job_flag(job, "chief");
    const bool is_chief = strcmp(environment, "kubeflow-chief") == 0;
    const bool is_lead = is_chief || (strcmp(environment, "kubeflow-master") == 0 && !has_chief);
    if ((is_lead && json_integer_value(json_object_get(workers, "max")) != 1) ||
        (is_chief && has_chief)) {
        return invalid(reason, "environment: %s requires exactly one worker and no chief",
                       environment);
    }
    return 0;
}

/* Digits of a number of nodes. */
#define NODES_DIGITS 5
_Static_assert(MSG_NODES_MAX < 100000, "NODES_DIGITS");

/* Returns by how many bytes orders may lengthen the text of a valid job: SCALE changes numbers of
 * nodes, and RESUME sets suspend to false. */
static size_t growth_of(const json_t *job)
{
    const json_t *workers = json_object_get(job, "workers");
    const json_t *const numbers[] = {json_object_get(workers, "min"),
                                     json_object_get(workers, "max"), json_object_get(job, "ps")};
    size_t n = job_flag(job, "suspend") ? 1 : 0;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        char digits[NODES_DIGITS + 1];
        const int n_digits =
            snprintf(digits, sizeof(digits), "%u", (unsigned)json_integer_value(numbers[i]));
        n += NODES_DIGITS - (size_t)n_digits;
    }
    return n;
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
        return invalid(reason, "labels and role_labels: more than %u labels in total",
                       MSG_POOL_LABELS_MAX);
    }
    size_t n_bytes = json_dumpb(job, NULL, 0, JSON_COMPACT);
    if (n_bytes == 0) {
        return no_memory(reason);
    }
    if (n_bytes + growth_of(job) > MSG_SPEC_MAX) {
        return invalid(reason, "the job needs more than %u bytes (move long values into its files)",
                       MSG_SPEC_MAX);
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
        return invalid(reason, "name: missing (give name, generate_name, command or source)");
    }
    return 0;
}

static int check_known(const json_t *tree, struct tfe_reason *reason)
{
    const char *key;
    json_t *item;
    if (!json_is_object(tree)) {
        return invalid(reason, "expected a mapping of fields");
    }
    json_object_foreach((json_t *)(uintptr_t)tree, key, item)
    {
        size_t i = 0;
        while (i < N_FIELDS && strcmp(key, fields[i].name) != 0) {
            i++;
        }
        if (i == N_FIELDS) {
            return invalid(reason, "%.64s: unknown field", key);
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
    const char *image = job_text(job, "image");
    reason_set(warning, "%s", "");
    if (image) {
        reason_set(warning,
                   "image %.200s runs only on nodes started with --runtime; other nodes run the "
                   "command without it",
                   image);
    }
}

char *job_file_format(const json_t *job)
{
    return json_dumps(job, JSON_COMPACT | JSON_SORT_KEYS);
}

/* Checks that the job has a name and that its files cannot change. */
static int check_complete(const json_t *job, struct tfe_reason *reason)
{
    const char *bundle = job_source(job, "bundle");
    const char *ref = job_source(job, "ref");
    if (!job_text(job, "name")) {
        return invalid(reason, "name: missing");
    }
    if (bundle && !submission_is_digest(bundle)) {
        return invalid(reason, "source: bundle: expected a digest of 64 hexadecimal digits");
    }
    if (job_source(job, "git") && !(ref && git_ref_is_commit(ref))) {
        return invalid(reason,
                       "source: ref: expected a full commit ID of 40 or 64 hexadecimal digits");
    }
    return 0;
}

int job_file_parse(const char *text, json_t **ret, struct tfe_reason *reason)
{
    json_error_t error;
    json_t *tree = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!tree) {
        return json_error_code(&error) == json_error_out_of_memory
                   ? no_memory(reason)
                   : invalid(reason, "the job is not valid JSON: %.200s", error.text);
    }
    json_t *job = NULL;
    int rc = job_file_read(tree, &job, reason);
    json_decref(tree);
    rc = rc == 0 ? check_complete(job, reason) : rc;
    if (rc) {
        json_decref(job);
        return rc;
    }
    *ret = job;
    return 0;
}
