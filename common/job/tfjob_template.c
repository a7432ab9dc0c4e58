/* common/job/tfjob_template.c: reads a replica's pod template: container, environment,
 * resources. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/job_file.h"
#include "common/job/tfjob_part.h"
#include "common/text/quantity.h"

#define NO_CONTAINER "nodes do not run pods"
#define NO_VOLUMES "nodes do not mount volumes (use a path that exists on the nodes)"
#define NO_SECRETS "nodes have no access to Kubernetes secrets"
#define NO_CONFIG_MAPS "nodes have no access to Kubernetes ConfigMaps"
#define NO_ACCOUNTS "nodes have no Kubernetes service accounts"
#define NO_POD "there is no pod (TF_CONFIG and TFE_* are set by the agent)"

static const struct tfjob_key template_keys[] = {{"metadata", NULL}, {"spec", NULL}, {NULL, NULL}};

static const struct tfjob_key pod_keys[] = {
    {"containers", NULL},
    {"restartPolicy", NULL},
    {"nodeSelector", NULL},
    {"terminationGracePeriodSeconds", NULL},
    {"hostNetwork", NULL},        /* no effect: trainers always use the machine's network */
    {"dnsPolicy", NULL},          /* no effect: trainers use the machine's resolver */
    {"enableServiceLinks", NULL}, /* no effect: there are no services */
    {"tolerations", NULL},        /* no effect: nodes have no taints */
    {"imagePullSecrets", NULL},   /* no effect: each node has its own registry credentials */
    {"volumes", NO_VOLUMES},
    {"initContainers", NO_CONTAINER},
    {"serviceAccount", NO_ACCOUNTS},
    {"serviceAccountName", NO_ACCOUNTS},
    {"affinity", "select nodes with nodeSelector"},
    {"priorityClassName", "set the priority with the annotation tfe/priority"},
    {"schedulerName", "tfe-rdzv places jobs"},
    {NULL, NULL},
};

static const struct tfjob_key container_keys[] = {
    {"name", NULL},
    {"image", NULL},
    {"imagePullPolicy", NULL},
    {"command", NULL},
    {"args", NULL},
    {"env", NULL},
    {"workingDir", NULL},
    {"resources", NULL},
    {"ports", NULL}, /* no effect: the agent chooses ports and sets TF_CONFIG */
    {"terminationMessagePath", NULL},
    {"terminationMessagePolicy", NULL},
    {"volumeMounts", NO_VOLUMES},
    {"envFrom", "nodes have no access to Kubernetes secrets and ConfigMaps"},
    {"securityContext", NO_CONTAINER},
    {NULL, NULL},
};

static const struct tfjob_key variable_keys[] = {
    {"name", NULL}, {"value", NULL}, {"valueFrom", NULL}, {NULL, NULL}};

static const struct tfjob_key value_from_keys[] = {
    {"secretKeyRef", NO_SECRETS},
    {"configMapKeyRef", NO_CONFIG_MAPS},
    {"fieldRef", NO_POD},
    {"resourceFieldRef", NO_POD},
    {NULL, NULL},
};

static const struct tfjob_key resource_keys[] = {
    {"limits", NULL}, {"requests", NULL}, {NULL, NULL}};

bool tfjob_is_empty(const json_t *value)
{
    return json_is_false(value) || (json_is_string(value) && json_string_length(value) == 0);
}

int tfjob_keys(const json_t *value, const char *path, const struct tfjob_key *keys,
               struct tfe_reason *reason)
{
    const char *key;
    json_t *item;
    if (value && !json_is_object(value)) {
        reason_set(reason, "%s%sexpected a mapping", path, *path ? ": " : "");
        return TFE_EINVAL;
    }
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
    {
        const struct tfjob_key *at = keys;
        while (at->name && strcmp(at->name, key) != 0) {
            at++;
        }
        if ((!at->name || at->note) && !tfjob_is_empty(item)) {
            reason_set(reason, "%s%s%.64s is not supported%s%s", path, *path ? "." : "", key,
                       at->name ? ": " : "", at->name ? at->note : "");
            return TFE_EINVAL;
        }
    }
    return 0;
}

int tfjob_put(json_t *object, const char *key, json_t *value, struct tfe_reason *reason)
{
    if (json_object_set_new(object, key, value)) {
        reason_set(reason, "out of memory");
        return TFE_ENOMEM;
    }
    return 0;
}

/* A text buffer with the maximum size of a word in a job. */
struct word {
    char text[MSG_WORD_MAX + 1];
    size_t n;
};

static bool word_add(struct word *word, const char *text, size_t n)
{
    if (n > MSG_WORD_MAX - word->n) {
        return false;
    }
    memcpy(word->text + word->n, text, n);
    word->n += n;
    word->text[word->n] = '\0';
    return true;
}

/* Expands the reference at *at, which begins with '$', and advances *at past it: "$(NAME)" becomes
 * the variable's value, or is unchanged if there is none; "$$" becomes '$'. */
static bool add_reference(struct word *word, const char **at, const json_t *env)
{
    const char *text = *at;
    const char *end = text[1] == '(' ? strchr(text, ')') : NULL;
    if (!end) {
        size_t n = text[1] == '$' ? 2 : 1;
        *at += n;
        return word_add(word, "$", 1);
    }
    *at = end + 1;
    const char *value =
        json_string_value(json_object_getn(env, text + 2, (size_t)(end - text) - 2));
    return value ? word_add(word, value, strlen(value))
                 : word_add(word, text, (size_t)(end - text) + 1);
}

/* Expands references in command, args and values as Kubernetes does. */
static int expand(const json_t *value, const json_t *env, json_t **ret, struct tfe_reason *reason)
{
    struct word word = {.n = 0};
    const char *at = json_string_value(value);
    if (!at) {
        reason_set(reason, "expected a string (put the value in quotes)");
        return TFE_EINVAL;
    }
    bool is_added = true;
    while (*at && is_added) {
        size_t n = strcspn(at, "$");
        is_added = word_add(&word, at, n);
        at += n;
        if (*at == '$' && is_added) {
            is_added = add_reference(&word, &at, env);
        }
    }
    if (!is_added) {
        reason_set(reason, "the value is longer than %u bytes", MSG_WORD_MAX);
        return TFE_EINVAL;
    }
    *ret = json_string(word.text);
    if (!*ret) {
        reason_set(reason, "out of memory");
        return TFE_ENOMEM;
    }
    return 0;
}

static int read_variable(const json_t *item, json_t *env, struct tfe_reason *reason)
{
    int rc = tfjob_keys(item, "", variable_keys, reason);
    rc = rc ? rc
            : tfjob_keys(json_object_get(item, "valueFrom"), "valueFrom", value_from_keys, reason);
    if (rc) {
        return rc;
    }
    const char *name = json_string_value(json_object_get(item, "name"));
    const json_t *value = json_object_get(item, "value");
    json_t *text;
    if (!name || json_object_get(env, name)) {
        reason_set(reason, name ? "%s: given twice" : "name: missing", name);
        return TFE_EINVAL;
    }
    if (!value) {
        return tfjob_put(env, name, json_string(""), reason);
    }
    rc = expand(value, env, &text, reason);
    if (rc) {
        reason_prefix(reason, "%.64s", name);
        return rc;
    }
    return tfjob_put(env, name, text, reason);
}

static int read_env(const json_t *list, json_t *env, struct tfe_reason *reason)
{
    if (list && !json_is_array(list)) {
        reason_set(reason, "env: expected a list");
        return TFE_EINVAL;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        int rc = read_variable(json_array_get(list, i), env, reason);
        if (rc) {
            reason_prefix(reason, "env[%zu]", i);
            return rc;
        }
    }
    return 0;
}

static int add_words(const json_t *list, const char *name, const json_t *env, json_t *words,
                     struct tfe_reason *reason)
{
    if (list && !json_is_array(list)) {
        reason_set(reason, "%s: expected a list", name);
        return TFE_EINVAL;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *text;
        int rc = expand(json_array_get(list, i), env, &text, reason);
        if (rc) {
            reason_prefix(reason, "%s[%zu]", name, i);
            return rc;
        }
        if (json_array_append_new(words, text)) {
            reason_set(reason, "out of memory");
            return TFE_ENOMEM;
        }
    }
    return 0;
}

/* Reads command and args. The command is required, because the image's own entry point is unknown
 * here. */
static int read_command(const json_t *container, const json_t *env, json_t *shape,
                        struct tfe_reason *reason)
{
    const json_t *command = json_object_get(container, "command");
    if (!command) {
        reason_set(reason, "command: missing (the entry point of the image is not used)");
        return TFE_EINVAL;
    }
    json_t *words = json_array();
    if (!words) {
        reason_set(reason, "out of memory");
        return TFE_ENOMEM;
    }
    int rc = add_words(command, "command", env, words, reason);
    rc = rc ? rc : add_words(json_object_get(container, "args"), "args", env, words, reason);
    if (rc) {
        json_decref(words);
        return rc;
    }
    return tfjob_put(shape, "command", words, reason);
}

static int add_label(json_t *labels, const char *key, const char *text, struct tfe_reason *reason)
{
    const char *other = json_string_value(json_object_get(labels, key));
    if (!other) {
        return tfjob_put(labels, key, json_string(text), reason);
    }
    if (strcmp(other, text) != 0 && !quantity_equal(other, text)) {
        reason_set(reason, "%.64s: one node cannot have both %.64s and %.64s", key, other, text);
        return TFE_EINVAL;
    }
    return 0;
}

/* Returns a scalar as text as written in a manifest, numbers formatted in buf, or NULL if it is not
 * a scalar. */
static const char *scalar_text(const json_t *value, char *buf, size_t size)
{
    const double real = json_real_value(value);
    if (json_is_integer(value)) {
        (void)snprintf(buf, size, "%lld", (long long)json_integer_value(value));
        return buf;
    }
    if (json_is_real(value)) { /* YAML notation such as 1e9 for a whole number */
        (void)snprintf(
            buf, size,
            real >= 0 && real < 1e15 && real == (double)(long long)real ? "%.0f" : "%.15g", real);
        return buf;
    }
    return json_string_value(value);
}

/* Adds a resource as a label. A quantity of zero requests nothing. */
static int add_resource(json_t *labels, const char *key, const json_t *value,
                        struct tfe_reason *reason)
{
    char buf[64];
    struct quantity quantity;
    const char *text = scalar_text(value, buf, sizeof(buf));
    if (!text || !quantity_parse(text, &quantity)) {
        reason_set(reason, "%.64s: expected a quantity such as 2, 0.5, 500m or 4Gi", key);
        return TFE_EINVAL;
    }
    return quantity.whole == 0 && quantity.nano == 0 ? 0 : add_label(labels, key, text, reason);
}

static int add_resources(json_t *labels, const json_t *from, const char *path, const json_t *unless,
                         struct tfe_reason *reason)
{
    const char *key;
    json_t *value;
    if (from && !json_is_object(from)) {
        reason_set(reason, "%s: expected a mapping", path);
        return TFE_EINVAL;
    }
    json_object_foreach((json_t *)(uintptr_t)from, key, value)
    {
        int rc = json_object_get(unless, key) ? 0 : add_resource(labels, key, value, reason);
        if (rc) {
            reason_prefix(reason, "%s", path);
            return rc;
        }
    }
    return 0;
}

/* Reads requests, and limits of resources without a request, as Kubernetes schedules pods. */
static int read_resources(const json_t *resources, json_t *labels, struct tfe_reason *reason)
{
    const json_t *requests = json_object_get(resources, "requests");
    int rc = tfjob_keys(resources, "resources", resource_keys, reason);
    rc = rc ? rc : add_resources(labels, requests, "resources.requests", NULL, reason);
    return rc ? rc
              : add_resources(labels, json_object_get(resources, "limits"), "resources.limits",
                              requests, reason);
}

static int read_selector(const json_t *selector, json_t *labels, struct tfe_reason *reason)
{
    static const char path[] = "template.spec.nodeSelector";
    const char *key;
    json_t *value;
    if (selector && !json_is_object(selector)) {
        reason_set(reason, "%s: expected a mapping", path);
        return TFE_EINVAL;
    }
    json_object_foreach((json_t *)(uintptr_t)selector, key, value)
    {
        char buf[64];
        const char *text = json_is_real(value) ? NULL : scalar_text(value, buf, sizeof(buf));
        int rc = TFE_EINVAL;
        if (text) {
            rc = add_label(labels, key, text, reason);
        } else {
            reason_set(reason, "%.64s: expected a string or an integer", key);
        }
        if (rc) {
            reason_prefix(reason, "%s", path);
            return rc;
        }
    }
    return 0;
}

/* Returns a member that is present and not empty, or NULL. */
static const json_t *member_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value && !tfjob_is_empty(value) ? value : NULL;
}

static int read_container(const json_t *container, json_t *shape, json_t *labels,
                          struct tfe_reason *reason)
{
    int rc = tfjob_keys(container, "", container_keys, reason);
    const char *name = json_string_value(json_object_get(container, "name"));
    if (rc) {
        return rc;
    }
    if (!name || strcmp(name, "tensorflow") != 0) {
        reason_set(reason, "name: expected tensorflow, the container name of a TFJob");
        return TFE_EINVAL;
    }
    json_t *env = json_object();
    if ((rc = tfjob_put(shape, "env", env, reason))) {
        return rc;
    }
    const json_t *dir = member_of(container, "workingDir");
    const json_t *image = member_of(container, "image");
    if ((rc = read_env(json_object_get(container, "env"), env, reason)) ||
        (rc = read_command(container, env, shape, reason)) ||
        (rc = tfjob_put(shape, "work_dir", dir ? json_deep_copy(dir) : json_null(), reason)) ||
        (rc = tfjob_put(shape, "image", image ? json_deep_copy(image) : json_null(), reason))) {
        return rc;
    }
    return read_resources(json_object_get(container, "resources"), labels, reason);
}

/* Reads the restart policy. That of the replica overrides that of its pod, as in Kubeflow. */
static int read_restart(const json_t *replica, const json_t *pod, json_t *shape,
                        struct tfe_reason *reason)
{
    const json_t *outer = member_of(replica, "restartPolicy");
    const json_t *given = outer ? outer : member_of(pod, "restartPolicy");
    return tfjob_put(shape, "restart_policy", given ? json_deep_copy(given) : json_null(), reason);
}

static int read_grace(const json_t *pod, json_t *shape, struct tfe_reason *reason)
{
    const json_t *grace = json_object_get(pod, "terminationGracePeriodSeconds");
    json_int_t seconds = json_integer_value(grace);
    if (!grace) {
        return tfjob_put(shape, "stop_grace", json_null(), reason);
    }
    if (!json_is_integer(grace) || seconds < 0 || seconds > 86400) {
        reason_set(
            reason,
            "template.spec.terminationGracePeriodSeconds: expected an integer from 0 to 86400");
        return TFE_EINVAL;
    }
    return tfjob_put(shape, "stop_grace", json_sprintf("%llds", (long long)seconds), reason);
}

static int read_pod(const json_t *replica, json_t *shape, json_t *labels, struct tfe_reason *reason)
{
    const json_t *template = json_object_get(replica, "template");
    const json_t *pod = json_object_get(template, "spec");
    const json_t *containers = json_object_get(pod, "containers");
    int rc;
    if ((rc = tfjob_keys(template, "template", template_keys, reason)) ||
        (rc = tfjob_keys(json_object_get(template, "metadata"), "template.metadata",
                         tfjob_metadata_keys, reason)) ||
        (rc = tfjob_keys(pod, "template.spec", pod_keys, reason))) {
        return rc;
    }
    if (json_array_size(containers) != 1) {
        reason_set(reason, "template.spec.containers: expected exactly one container");
        return TFE_EINVAL;
    }
    const json_t *container = json_array_get(containers, 0);
    rc = read_container(container, shape, labels, reason);
    if (rc) {
        reason_prefix(reason, "template.spec.containers[0]");
        return rc;
    }
    if ((rc = read_restart(replica, pod, shape, reason)) || (rc = read_grace(pod, shape, reason))) {
        return rc;
    }
    return read_selector(json_object_get(pod, "nodeSelector"), labels, reason);
}

int tfjob_template(const json_t *replica, json_t **ret_shape, json_t **ret_labels,
                   struct tfe_reason *reason)
{
    json_t *shape = json_object();
    json_t *labels = json_object();
    int rc = shape && labels ? 0 : TFE_ENOMEM;
    if (rc) {
        reason_set(reason, "out of memory");
    } else {
        rc = read_pod(replica, shape, labels, reason);
    }
    if (rc) {
        json_decref(shape);
        json_decref(labels);
        return rc;
    }
    *ret_shape = shape;
    *ret_labels = labels;
    return 0;
}
