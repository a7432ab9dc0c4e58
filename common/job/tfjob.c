/* common/job/tfjob.c: converts a TFJob's replicas, policies and annotations to a job file. */
#include "common/job/tfjob.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/job/job_file.h"
#include "common/job/tfjob_part.h"
#include "common/message/range.h"

enum role { WORKER, CHIEF, MASTER, PS, EVALUATOR, N_ROLES };

static const struct {
    const char *name; /* name in the manifest, compared case-insensitively */
    const char *ours;
    json_int_t max;
} roles[N_ROLES] = {
    [WORKER] = {"Worker", "worker", MSG_NODES_MAX},
    [CHIEF] = {"Chief", "chief", 1},
    [MASTER] = {"Master", "chief", 1},
    [PS] = {"PS", "ps", MSG_NODES_MAX},
    [EVALUATOR] = {"Evaluator", "evaluator", 1},
};

struct manifest {
    json_t *out;         /* the resulting job file */
    json_t *role_labels; /* member role_labels of out */
    json_t *restarts;    /* restart policy by role name */
    json_t *shape; /* fields that all roles must have in common, taken from the first role; NULL if
                      no role was read */
    const char *shaped; /* name of the role that shape was taken from */
    json_int_t n[N_ROLES];
    bool is_there[N_ROLES];
    bool is_list;    /* v1alpha1, with a list of replicas */
    bool default_ps; /* the PS has no template */
};

static const struct tfjob_key top_keys[] = {
    {"apiVersion", NULL}, {"kind", NULL},   {"metadata", NULL},
    {"spec", NULL},       {"status", NULL}, {NULL, NULL},
};

/* Permitted keys of metadata. There is one namespace; labels have no effect. */
const struct tfjob_key tfjob_metadata_keys[] = {
    {"name", NULL},
    {"generateName", NULL},
    {"namespace", NULL},
    {"labels", NULL},
    {"annotations", NULL},
    /* Fields that a cluster adds. */
    {"clusterName", NULL},
    {"creationTimestamp", NULL},
    {"deletionGracePeriodSeconds", NULL},
    {"deletionTimestamp", NULL},
    {"finalizers", NULL},
    {"generation", NULL},
    {"managedFields", NULL},
    {"ownerReferences", NULL},
    {"resourceVersion", NULL},
    {"selfLink", NULL},
    {"uid", NULL},
    {NULL, NULL},
};

#define POLICY_KEYS                                                                                \
    {"cleanPodPolicy", NULL}, {"ttlSecondsAfterFinished", NULL},                                   \
        {"ttlSecondsAfterFinishing", NULL}, {"activeDeadlineSeconds", NULL},                       \
    {                                                                                              \
        "backoffLimit", NULL                                                                       \
    }

static const struct tfjob_key map_spec_keys[] = {
    {"tfReplicaSpecs", NULL},      {"runPolicy", NULL}, {"successPolicy", NULL},
    {"enableDynamicWorker", NULL}, POLICY_KEYS,         {NULL, NULL},
};

static const struct tfjob_key list_spec_keys[] = {
    {"replicaSpecs", NULL}, {"terminationPolicy", NULL},
    {"tfImage", NULL},      {"runtimeId", NULL},
    {"RuntimeId", NULL},    {"tensorboard", "jobs do not start a TensorBoard"},
    {NULL, NULL},
};

static const struct tfjob_key run_policy_keys[] = {
    POLICY_KEYS,
    {"suspend", NULL},
    {"managedBy", NULL}, /* no effect: names the controller in a cluster */
    {"schedulingPolicy", "a job always gets all nodes of its minimum at once (set its priority "
                         "with the annotation tfe/priority)"},
    {NULL, NULL},
};

static const struct tfjob_key map_replica_keys[] = {
    {"replicas", NULL}, {"restartPolicy", NULL}, {"template", NULL}, {NULL, NULL}};
/* Permitted keys of a v1alpha1 replica. The agent chooses the port. A PS without a template is a
 * default one, whatever IsDefaultPS says. */
static const struct tfjob_key list_replica_keys[] = {
    {"replicas", NULL},    {"tfReplicaType", NULL}, {"template", NULL}, {"tfPort", NULL},
    {"IsDefaultPS", NULL}, {"isDefaultPS", NULL},   {NULL, NULL}};

/* True if tree is a manifest. */
static bool is_manifest(const json_t *tree)
{
    return json_object_get(tree, "apiVersion") || json_object_get(tree, "kind");
}

static int invalid(struct tfe_reason *reason, const char *sentence)
{
    reason_set(reason, "%s", sentence);
    return TFE_EINVAL;
}

static int check_kind(const json_t *tree, struct manifest *m, struct tfe_reason *reason)
{
    static const char *const versions[] = {"kubeflow.org/v1",       "kubeflow.org/v1beta2",
                                           "kubeflow.org/v1beta1",  "kubeflow.org/v1alpha2",
                                           "kubeflow.org/v1alpha1", "tensorflow.org/v1alpha1"};
    const size_t n = sizeof(versions) / sizeof(versions[0]);
    const char *version = json_string_value(json_object_get(tree, "apiVersion"));
    const char *kind = json_string_value(json_object_get(tree, "kind"));
    size_t at = 0;
    if (!kind || strcasecmp(kind, "TFJob") != 0) {
        return invalid(reason, "kind: expected TFJob");
    }
    while (at < n && (!version || strcmp(version, versions[at]) != 0)) {
        at++;
    }
    if (at == n) {
        return invalid(reason, "apiVersion: expected kubeflow.org/v1, v1beta2, v1beta1, v1alpha2 "
                               "or v1alpha1, or tensorflow.org/v1alpha1");
    }
    m->is_list = at >= 4;
    return tfjob_keys(tree, "", top_keys, reason);
}

static int find_role(const char *name, enum role *ret, struct tfe_reason *reason)
{
    for (enum role role = 0; role < N_ROLES; role++) {
        if (name && strcasecmp(name, roles[role].name) == 0) {
            *ret = role;
            return 0;
        }
    }
    reason_set(reason, "expected Chief, Master, Worker, PS or Evaluator, found \"%.64s\"",
               name ? name : "");
    return TFE_EINVAL;
}

/* Records or compares the common fields of a role: a job has one command and one environment.
 * Borrows shape. */
static int merge_shape(struct manifest *m, enum role role, json_t *shape, struct tfe_reason *reason)
{
    const char *key;
    json_t *value;
    if (!m->shape) {
        m->shape = json_incref(shape);
        m->shaped = roles[role].name;
        return 0;
    }
    json_object_foreach(shape, key, value)
    {
        if (!json_equal(value, json_object_get(m->shape, key))) {
            reason_set(reason, "%s differs from that of %s (all roles of a job must have the same)",
                       key, m->shaped);
            return TFE_EINVAL;
        }
    }
    return 0;
}

/* Moves the restart policy out of shape, because it may differ by role. */
static int extract_restart(struct manifest *m, enum role role, json_t *shape,
                           struct tfe_reason *reason)
{
    json_t *given = json_incref(json_object_get(shape, "restart_policy"));
    (void)json_object_del(shape, "restart_policy");
    if (json_is_null(given)) {
        json_decref(given);
        given = json_string(m->is_list ? "OnFailure" : "Never");
    }
    return tfjob_put(m->restarts, roles[role].ours, given, reason);
}

static int read_template(struct manifest *m, enum role role, const json_t *replica,
                         struct tfe_reason *reason)
{
    json_t *shape;
    json_t *labels;
    int rc = tfjob_template(replica, &shape, &labels, reason);
    if (rc) {
        return rc;
    }
    rc = extract_restart(m, role, shape, reason);
    rc = rc ? rc : merge_shape(m, role, shape, reason);
    json_decref(shape);
    if (rc || json_object_size(labels) == 0) {
        json_decref(labels);
        return rc;
    }
    return tfjob_put(m->role_labels, roles[role].ours, labels, reason);
}

/* Reads a PS without a template, which runs TensorFlow's own server. */
static int read_default_ps(struct manifest *m, const json_t *replica, struct tfe_reason *reason)
{
    json_t *shape = json_object();
    const json_t *restart = json_object_get(replica, "restartPolicy");
    int rc = tfjob_put(shape, "restart_policy",
                       restart && !tfjob_is_empty(restart) ? json_deep_copy(restart) : json_null(),
                       reason);
    rc = rc ? rc : extract_restart(m, PS, shape, reason);
    json_decref(shape);
    m->default_ps = true;
    return rc;
}

static int read_replica(struct manifest *m, enum role role, const json_t *replica,
                        struct tfe_reason *reason)
{
    const json_t *given = json_object_get(replica, "replicas");
    json_int_t n = given ? json_integer_value(given) : 1;
    int rc = tfjob_keys(replica, "", m->is_list ? list_replica_keys : map_replica_keys, reason);
    if (rc) {
        return rc;
    }
    if (m->is_there[role]) {
        return invalid(reason, "the role is given twice");
    }
    if ((given && !json_is_integer(given)) || n < 0 || n > roles[role].max) {
        reason_set(reason, "replicas: expected an integer from 0 to %lld%s",
                   (long long)roles[role].max, json_is_string(given) ? ", found a string" : "");
        return TFE_EINVAL;
    }
    if (n == 0) {
        return 0; /* the job does not have this role */
    }
    m->is_there[role] = true;
    m->n[role] = n;
    return role == PS && !json_object_get(replica, "template")
               ? read_default_ps(m, replica, reason)
               : read_template(m, role, replica, reason);
}

static int read_map(struct manifest *m, const json_t *specs, struct tfe_reason *reason)
{
    const char *name;
    json_t *replica;
    json_object_foreach((json_t *)(uintptr_t)specs, name, replica)
    {
        enum role role;
        int rc = find_role(name, &role, reason);
        rc = rc ? rc : read_replica(m, role, replica, reason);
        if (rc) {
            reason_prefix(reason, "spec.tfReplicaSpecs.%.64s", name);
            return rc;
        }
    }
    return 0;
}

static int read_list(struct manifest *m, const json_t *specs, struct tfe_reason *reason)
{
    for (size_t i = 0; i < json_array_size(specs); i++) {
        const json_t *replica = json_array_get(specs, i);
        const json_t *type = json_object_get(replica, "tfReplicaType");
        enum role role = MASTER; /* default role of v1alpha1 */
        int rc = type ? find_role(json_string_value(type), &role, reason) : 0;
        rc = rc ? rc : read_replica(m, role, replica, reason);
        if (rc) {
            reason_prefix(reason, "spec.replicaSpecs[%zu]", i);
            return rc;
        }
    }
    return 0;
}

/* Checks the terminationPolicy of v1alpha1: the success of the master, or of worker 0 without a
 * master, ends a job; no other policy is supported. */
static int read_termination(const struct manifest *m, const json_t *policy,
                            struct tfe_reason *reason)
{
    const json_t *chief = json_object_get(policy, "chief");
    const char *name = json_string_value(json_object_get(chief, "replicaName"));
    enum role wanted = m->is_there[MASTER] ? MASTER : WORKER;
    if (!policy) {
        return 0;
    }
    if (!name || strcasecmp(name, roles[wanted].name) != 0 ||
        json_integer_value(json_object_get(chief, "replicaIndex")) != 0) {
        reason_set(
            reason,
            "spec.terminationPolicy is not supported: a job with these roles ends when %s 0 ends",
            roles[wanted].name);
        return TFE_EINVAL;
    }
    return 0;
}

/* Moves the fields given for Chief to Worker. */
static int make_worker(json_t *by_role, struct tfe_reason *reason)
{
    json_t *chiefs = json_object_get(by_role, "chief");
    int rc = chiefs ? tfjob_put(by_role, "worker", json_incref(chiefs), reason) : 0;
    (void)json_object_del(by_role, "chief");
    return rc;
}

/* Turns the chief of a job without Worker into the only worker. TF_CONFIG retains the role's name,
 * unless the node is alone and so has no cluster in TF_CONFIG. */
static int chief_becomes_worker(struct manifest *m, enum role chief, struct tfe_reason *reason)
{
    m->is_there[WORKER] = true;
    m->n[WORKER] = 1;
    m->is_there[chief] = false;
    int rc = make_worker(m->role_labels, reason);
    return rc ? rc : make_worker(m->restarts, reason);
}

static int put_roles(struct manifest *m, struct tfe_reason *reason)
{
    const bool has_worker = m->is_there[WORKER];
    const bool has_others = m->is_there[PS] || m->is_there[EVALUATOR];
    const enum role chief = m->is_there[MASTER] ? MASTER : CHIEF;
    const char *environment = chief == MASTER ? "kubeflow-master" : "kubeflow";
    int rc;
    if (m->is_there[MASTER] && m->is_there[CHIEF]) {
        return invalid(reason, "Chief and Master are the same role (give only one of them)");
    }
    if (!has_worker && !m->is_there[chief]) {
        return invalid(reason,
                       "the job has no replica that trains (add a Worker, Chief or Master)");
    }
    if (!has_worker) {
        if (!has_others) {
            environment = "kubeflow";
        } else if (chief == CHIEF) {
            environment = "kubeflow-chief";
        }
        rc = chief_becomes_worker(m, chief, reason);
        if (rc) {
            return rc;
        }
    }
    if ((rc = tfjob_put(m->out, "workers", json_integer(m->n[WORKER]), reason)) ||
        (rc = tfjob_put(m->out, "ps", json_integer(m->n[PS]), reason)) ||
        (rc = tfjob_put(m->out, "chief", json_boolean(m->is_there[chief]), reason)) ||
        (rc = tfjob_put(m->out, "evaluator", json_boolean(m->is_there[EVALUATOR]), reason))) {
        return rc;
    }
    return tfjob_put(m->out, "environment", json_string(environment), reason);
}

/* Copies policies that are not empty. The job file's reader validates their values. */
static int put_policies(struct manifest *m, const json_t *from, const char *path,
                        struct tfe_reason *reason)
{
    static const struct {
        const char *theirs, *ours;
    } names[] = {
        {"cleanPodPolicy", "clean_policy"},
        {"ttlSecondsAfterFinished", "ttl_after_finished_s"},
        {"ttlSecondsAfterFinishing", "ttl_after_finished_s"},
        {"activeDeadlineSeconds", "active_deadline_s"},
        {"backoffLimit", "backoff_limit"},
        {"suspend", "suspend"},
        {"successPolicy", "success_policy"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const json_t *value = json_object_get(from, names[i].theirs);
        if (!value || tfjob_is_empty(value)) {
            continue;
        }
        if (json_object_get(m->out, names[i].ours)) {
            reason_set(reason, "%s.%s: this policy is given twice", path, names[i].theirs);
            return TFE_EINVAL;
        }
        int rc = tfjob_put(m->out, names[i].ours, json_deep_copy(value), reason);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

/* Sets one restart policy if all roles have the same, else one per role. */
static int put_restarts(struct manifest *m, struct tfe_reason *reason)
{
    const json_t *first = json_object_iter_value(json_object_iter(m->restarts));
    const char *role;
    json_t *policy;
    bool is_one = true;
    json_object_foreach(m->restarts, role, policy)
    {
        is_one = is_one && json_equal(policy, first);
    }
    return tfjob_put(m->out, "restart_policy",
                     is_one ? json_deep_copy(first) : json_incref(m->restarts), reason);
}

static int put_shape(struct manifest *m, struct tfe_reason *reason)
{
    static const char *const same[] = {"command", "env", "work_dir", "image"};
    json_t *grace = json_object_get(m->shape, "stop_grace");
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        int rc =
            tfjob_put(m->out, same[i], json_incref(json_object_get(m->shape, same[i])), reason);
        if (rc) {
            return rc;
        }
    }
    json_t *options = json_object();
    int rc = put_restarts(m, reason);
    rc = rc ? rc : tfjob_put(m->out, "options", json_incref(options), reason);
    if (rc == 0 && !json_is_null(grace)) {
        rc = tfjob_put(options, "stop-grace", json_incref(grace), reason);
    }
    if (rc == 0 && m->default_ps) {
        rc = tfjob_put(options, "default-ps", json_true(), reason);
    }
    json_decref(options);
    return rc;
}

/* Converts the text of an annotation to a flag or number. Any other text remains a text, which its
 * field rejects. Returns NULL if out of memory. */
static json_t *scalar(const char *text)
{
    const size_t n = strspn(text, "0123456789");
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        return json_boolean(text[0] == 't');
    }
    return n > 0 && n < 10 && text[n] == '\0' ? json_integer(strtol(text, NULL, 10))
                                              : json_string(text);
}

static int put_annotation(struct manifest *m, const char *key, const char *text,
                          struct tfe_reason *reason)
{
    static const struct {
        const char *name; /* name after "tfe/" */
        const char *ours;
        bool is_source;
        bool is_scalar; /* a number or flag written as text */
    } names[] = {
        {"workers", "workers", false, false}, {"priority", "priority", false, true},
        {"preempt", "preempt", false, true},  {"nproc", "nproc", false, true},
        {"path", "path", true, false},        {"bundle", "bundle", true, false},
        {"git", "git", true, false},          {"ref", "ref", true, false},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(key, names[i].name) != 0) {
            continue;
        }
        int rc = 0;
        json_t *value = names[i].is_scalar ? scalar(text) : json_string(text);
        json_t *source = json_object_get(m->out, "source");
        if (names[i].is_source && !source) {
            source = json_object();
            rc = tfjob_put(m->out, "source", source, reason);
            if (rc) {
                json_decref(value);
                return rc;
            }
        }
        return tfjob_put(names[i].is_source ? source : m->out, names[i].ours, value, reason);
    }
    return invalid(reason, "unknown annotation: expected tfe/workers, priority, preempt, nproc, "
                           "path, bundle, git or ref");
}

/* Reads the annotations with prefix "tfe/"; ignores all others. */
static int put_annotations(struct manifest *m, const json_t *from, struct tfe_reason *reason)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)from, key, value)
    {
        if (strncmp(key, "tfe/", 4) != 0) {
            continue;
        }
        const char *text = json_string_value(value);
        int rc = text ? put_annotation(m, key + 4, text, reason)
                      : invalid(reason, "expected a string (put the value in quotes)");
        if (rc) {
            reason_prefix(reason, "metadata.annotations.%.64s", key);
            return rc;
        }
    }
    return 0;
}

static int read_spec(struct manifest *m, const json_t *spec, struct tfe_reason *reason)
{
    const char *name = m->is_list ? "replicaSpecs" : "tfReplicaSpecs";
    const json_t *specs = json_object_get(spec, name);
    int rc = tfjob_keys(spec, "spec", m->is_list ? list_spec_keys : map_spec_keys, reason);
    if (rc) {
        return rc;
    }
    if (m->is_list ? !json_is_array(specs) : !json_is_object(specs)) {
        reason_set(reason, "spec.%s: expected a %s of replicas", name,
                   m->is_list ? "list" : "mapping");
        return TFE_EINVAL;
    }
    const json_t *dynamic = json_object_get(spec, "enableDynamicWorker");
    if (dynamic && !tfjob_is_empty(dynamic)) {
        return invalid(reason, "spec.enableDynamicWorker is not supported (give the range of "
                               "workers in the annotation tfe/workers, for example \"2:8\")");
    }
    const json_t *policy = json_object_get(spec, "runPolicy");
    if ((rc = tfjob_keys(policy, "spec.runPolicy", run_policy_keys, reason)) ||
        (rc = m->is_list ? read_list(m, specs, reason) : read_map(m, specs, reason)) ||
        (rc = read_termination(m, json_object_get(spec, "terminationPolicy"), reason)) ||
        (rc = put_roles(m, reason)) || (rc = put_shape(m, reason)) ||
        (rc = put_policies(m, spec, "spec", reason))) {
        return rc;
    }
    return put_policies(m, policy, "spec.runPolicy", reason);
}

static int read_whole(struct manifest *m, const json_t *tree, struct tfe_reason *reason)
{
    const json_t *metadata = json_object_get(tree, "metadata");
    const json_t *name = json_object_get(metadata, "name");
    const json_t *begins = json_object_get(metadata, "generateName");
    int rc = check_kind(tree, m, reason);
    if (rc || (rc = tfjob_keys(metadata, "metadata", tfjob_metadata_keys, reason))) {
        return rc;
    }
    const bool is_named = name && !tfjob_is_empty(name);
    if (!is_named && !begins) {
        return invalid(reason, "metadata.name: missing");
    }
    if ((rc = tfjob_put(m->out, is_named ? "name" : "generate_name",
                        json_deep_copy(is_named ? name : begins), reason)) ||
        (rc = read_spec(m, json_object_get(tree, "spec"), reason))) {
        return rc;
    }
    return put_annotations(m, json_object_get(metadata, "annotations"), reason);
}

/* Removes keys whose value is null, {} or [] from all nested mappings. */
static void remove_empty(json_t *tree)
{
    const char *key;
    void *next;
    size_t i;
    json_t *item;
    json_array_foreach(tree, i, item)
    {
        remove_empty(item);
    }
    json_object_foreach_safe(tree, next, key, item)
    {
        remove_empty(item);
        if (json_is_null(item) || (json_is_object(item) && json_object_size(item) == 0) ||
            (json_is_array(item) && json_array_size(item) == 0)) {
            (void)json_object_del(tree, key);
        }
    }
}

/* Converts a manifest to input for job_file_read, owned by the caller. */
static int read_manifest(const json_t *tree, json_t **ret, struct tfe_reason *reason)
{
    struct manifest m = {
        .out = json_object(), .role_labels = json_object(), .restarts = json_object()};
    json_t *given = json_deep_copy(tree);
    int rc = m.out && m.role_labels && m.restarts && given ? 0 : TFE_ENOMEM;
    if (rc == 0) {
        remove_empty(given);
        rc = read_whole(&m, given, reason);
    }
    if (rc == 0) {
        rc = tfjob_put(m.out, "role_labels", json_incref(m.role_labels), reason);
    }
    json_decref(given);
    json_decref(m.shape);
    json_decref(m.role_labels);
    json_decref(m.restarts);
    if (rc) {
        json_decref(m.out);
        return rc;
    }
    *ret = m.out;
    return 0;
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
        reason_set(reason, "items: expected one job, found %zu", json_array_size(items));
        return TFE_EINVAL;
    }
    *tree = json_array_get(items, 0);
    return 0;
}

int tfjob_read(const json_t *tree, json_t **ret, struct tfe_reason *reason)
{
    json_t *own = NULL;
    int rc = find_item(&tree, reason);
    if (rc) {
        return rc;
    }
    rc = is_manifest(tree) ? read_manifest(tree, &own, reason) : 0;
    if (rc == 0) {
        rc = job_file_read(own ? own : tree, ret, reason);
    }
    json_decref(own);
    if (rc == TFE_ENOMEM) {
        reason_set(reason, "out of memory");
    }
    return rc;
}
