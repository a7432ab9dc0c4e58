/* agent/trainer/environment.c: implementation of environment.h. */
#include "agent/trainer/environment.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/trainer_user.h"
#include "common/channel/endpoint.h"

/* Variables that are not inherited. TFE_* variables are options, possibly tokens, or come from
 * an outer agent. The others are set below. */
static const char *const replaced[] = {
    "TFE_*",
    "TF_CONFIG",
    "TF_GRPC_REUSE_PORT",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "NUM_WORKERS",
    /* belong to the interface between systemd and the agent */
    "NOTIFY_SOCKET",
    "WATCHDOG_*",
    "CREDENTIALS_DIRECTORY",
};
/* Variables that trainers of another user inherit from root: paths and settings of programs,
 * libraries and devices. Any other may be a secret; TFE_SET_NAME passes it on. */
static const char *const shared[] = {"PATH",
                                     "LD_LIBRARY_PATH",
                                     "LD_PRELOAD",
                                     "PYTHON*",
                                     "VIRTUAL_ENV",
                                     "LANG",
                                     "LANGUAGE",
                                     "LC_*",
                                     "TZ",
                                     "TERM",
                                     "HOSTNAME",
                                     "TF_*",
                                     "XLA_*",
                                     "KERAS_*",
                                     "JAX_*",
                                     "JAXLIB_*",
                                     "TORCH_*",
                                     "PYTORCH_*",
                                     "GLOO_*",
                                     "MASTER_ADDR",
                                     "MASTER_PORT",
                                     "CUDA_*",
                                     "CUDNN_*",
                                     "NCCL_*",
                                     "NVIDIA_*",
                                     "ROCM_*",
                                     "ROCR_*",
                                     "HIP_*",
                                     "HSA_*",
                                     "TPU_*",
                                     "GRPC_*",
                                     "OMP_*",
                                     "KMP_*",
                                     "MKL_*",
                                     "OPENBLAS_*",
                                     "MALLOC_*",
                                     "SSL_CERT_FILE",
                                     "SSL_CERT_DIR",
                                     "REQUESTS_CA_BUNDLE",
                                     "CURL_CA_BUNDLE",
                                     "http_proxy",
                                     "https_proxy",
                                     "no_proxy",
                                     "HTTP_PROXY",
                                     "HTTPS_PROXY",
                                     "NO_PROXY"};
/* Variables where other frameworks look for their coordinator. The user's own values take
 * precedence, see list_add_frameworks(). */
static const char *const coordinates[] = {
    "JAX_COORDINATOR_ADDRESS",
    "JAX_NUM_PROCESSES",
    "JAX_PROCESS_ID",
    "KERAS_DISTRIBUTION_JOB_ADDRESSES",
    "KERAS_DISTRIBUTION_NUM_PROCESSES",
    "KERAS_DISTRIBUTION_PROCESS_ID",
    "MASTER_ADDR",
    "MASTER_PORT",
};
#define OWN_MAX 44
/* TFE_SET_NAME=value sets NAME=value for trainers but not for the agent itself. */
#define SET_PREFIX "TFE_SET_"

struct list {
    char **strings;
    size_t n;
    bool failed;
};

__attribute__((format(printf, 2, 3))) static void list_add(struct list *list, const char *format,
                                                           ...)
{
    va_list values;
    va_start(values, format);
    if (vasprintf(&list->strings[list->n], format, values) >= 0) {
        list->n++;
    } else {
        list->strings[list->n] = NULL;
        list->failed = true;
    }
    va_end(values);
}

/* Returns true if entry ("NAME=value") has this name, or a name matching the pattern "NAME_*". */
static bool entry_is(const char *entry, const char *name)
{
    size_t n = strlen(name);
    bool is_family = name[n - 1] == '*';
    n -= is_family;
    return strncmp(entry, name, n) == 0 && (is_family || entry[n] == '=');
}

static bool entry_is_one_of(const char *entry, const char *const *names, size_t n)
{
    bool is = false;
    for (size_t i = 0; i < n && !is; i++) {
        is = entry_is(entry, names[i]);
    }
    return is;
}

/* Returns NAME=value of an entry with this prefix, or NULL for other entries. */
static const char *entry_behind(const char *entry, const char *prefix)
{
    const size_t n = strlen(prefix);
    return strncmp(entry, prefix, n) == 0 && entry[n] != '=' ? entry + n : NULL;
}

/* Returns true if a TFE_SET_ entry of base replaces this entry. */
static bool entry_is_overruled(const char *const *base, const char *entry)
{
    const size_t n = strcspn(entry, "=") + 1;
    bool is = false;
    for (; *base && !is; base++) {
        const char *set = entry_behind(*base, SET_PREFIX);
        is = set && strncmp(set, entry, n) == 0;
    }
    return is;
}

/* Returns true if this agent is itself a trainer of another agent, so that coordinates in its
 * environment belong to the outer job. */
static bool is_nested(const char *const *base)
{
    bool is = false;
    for (; *base && !is; base++) {
        is = entry_is(*base, "TFE_EPOCH");
    }
    return is;
}

/* Variable that selects the conventions of TF_CONFIG. */
#define ENVIRONMENT_VARIABLE "TFE_ENVIRONMENT="
/* Kubeflow's convention for a job with a single trainer: no TF_CONFIG. */
#define ENVIRONMENT_ALONE "kubeflow-alone"

static const char *convention_of(const char *const *base)
{
    const size_t n = sizeof ENVIRONMENT_VARIABLE - 1;
    const char *convention = "";
    for (; *base; base++) {
        convention = strncmp(*base, ENVIRONMENT_VARIABLE, n) == 0 ? *base + n : convention;
    }
    return convention;
}

/* Returns a role's name in TF_CONFIG. Without a chief, the worker may have the chief's name. */
static const char *task_name(enum tfe_task task, bool has_chief, const char *convention)
{
    if (task == (has_chief ? TASK_CHIEF : TASK_WORKER)) {
        if (strcmp(convention, "kubeflow-master") == 0) {
            return "master";
        }
        if (strcmp(convention, "kubeflow-chief") == 0) {
            return "chief";
        }
    }
    return msg_task_name(task);
}

static bool has_chief(const struct msg_row *rows, size_t n)
{
    bool has = false;
    for (size_t i = 0; i < n && !has; i++) {
        has = rows[i].role == TASK_CHIEF;
    }
    return has;
}

/* Returns {"ps":["host:port",...],"worker":[...]} with sorted keys, as Kubeflow does. Returns
 * NULL if out of memory. */
static json_t *cluster_new(const struct msg_row *rows, size_t n, const char *convention)
{
    static const char *const names[] = {"chief", "evaluator", "master", "ps", "worker"};
    json_t *cluster = json_object();
    bool good = cluster;
    const bool has = has_chief(rows, n);
    for (size_t k = 0; good && k < sizeof names / sizeof names[0]; k++) {
        json_t *places = json_array();
        for (size_t i = 0; good && i < n; i++) {
            char endpoint[ENDPOINT_TEXT_MAX];
            if (strcmp(task_name(rows[i].role, has, convention), names[k]) == 0) {
                endpoint_format(endpoint, rows[i].host, rows[i].port);
                good = json_array_append_new(places, json_string(endpoint)) == 0;
            }
        }
        if (good && json_array_size(places) > 0) {
            good = json_object_set(cluster, names[k], places) == 0;
        }
        json_decref(places);
    }
    if (!good) {
        json_decref(cluster);
        return NULL;
    }
    return cluster;
}

static char *tf_config_text(const struct msg_row *rows, size_t n, const struct msg_row *own,
                            const char *convention)
{
    const bool is_cloud = strcmp(convention, "kubeflow") == 0 ||
                          strcmp(convention, "kubeflow-master") == 0 ||
                          strcmp(convention, "kubeflow-chief") == 0;
    json_t *cluster = cluster_new(rows, n, convention);
    json_t *config = cluster ? json_pack("{s:o, s:{s:s, s:I}}", "cluster", cluster, "task", "type",
                                         task_name(own->role, has_chief(rows, n), convention),
                                         "index", (json_int_t)(own->rank - own->first))
                             : NULL;
    bool good = config && (!is_cloud ||
                           json_object_set_new(config, "environment", json_string("cloud")) == 0);
    char *text = good ? json_dumps(config, JSON_COMPACT) : NULL;
    json_decref(config);
    return text;
}

/* Returns TF_CONFIG of a trainer. An evaluator has a cluster of its own, as tf.estimator
 * requires; with Kubeflow's conventions it sees the cluster without being part of it. */
static char *tf_config_of(const struct agent_place *node, uint32_t local_rank,
                          const char *convention)
{
    struct msg_row own = node->own;
    if (own.role == TASK_EVALUATOR) {
        const bool is_alone = *convention == '\0' || strcmp(convention, "tfe") == 0;
        return is_alone ? tf_config_text(&own, 1, &own, convention)
                        : tf_config_text(node->rows, node->n_rows, &own, convention);
    }
    return tf_config_text(node->rows, node->n_rows, &node->rows[own.rank + local_rank], convention);
}

static void list_add_role(struct list *list, const struct trainer_place *place)
{
    const struct agent_place *node = place->node;
    list_add(list, "TFE_ROLE=%s", msg_task_name(node->own.role));
    list_add(list, "TFE_ROLE_INDEX=%" PRIu32, node->rank + place->local_rank - node->own.first);
    if (node->has_roles) {
        json_t *cluster = cluster_new(node->rows, node->n_rows, "");
        char *text = cluster ? json_dumps(cluster, JSON_COMPACT) : NULL;
        json_decref(cluster);
        list->failed = list->failed || !text;
        if (text) {
            list_add(list, "TFE_CLUSTER=%s", text);
        }
        free(text);
    }
}

static void list_add_tf_config(struct list *list, const struct trainer_place *place,
                               const char *convention)
{
    if (strcmp(convention, ENVIRONMENT_ALONE) != 0) {
        char *tf_config = tf_config_of(place->node, place->local_rank, convention);
        list->failed = list->failed || !tf_config;
        if (tf_config) {
            list_add(list, "TF_CONFIG=%s", tf_config);
        }
        free(tf_config);
    }
}

/* Returns true if the user has set the variable, under its own name or with TFE_SET_. */
static bool user_has_set(const char *const *base, bool is_nested, const char *name)
{
    bool has = false;
    for (; *base && !has; base++) {
        const char *set = entry_behind(*base, SET_PREFIX);
        has = (!is_nested && entry_is(*base, name)) || (set && entry_is(set, name));
    }
    return has;
}

/* Adds the variables by which JAX, Keras 3 and PyTorch find their coordinator, which is rank 0.
 * An evaluator forms a cluster of its own, as in TF_CONFIG. */
static void list_add_frameworks(struct list *list, const struct trainer_place *place,
                                const char *const *base)
{
    const struct agent_place *node = place->node;
    const bool is_alone = node->own.role == TASK_EVALUATOR;
    const struct msg_row *leader = is_alone ? &node->own : &node->rows[0];
    char address[ENDPOINT_TEXT_MAX];
    char port[8];
    char count[24];
    char rank[16];
    endpoint_format(address, leader->host, leader->port);
    snprintf(port, sizeof port, "%u", (unsigned)leader->port);
    snprintf(count, sizeof count, "%zu", is_alone ? (size_t)1 : node->n_rows);
    snprintf(rank, sizeof rank, "%" PRIu32, is_alone ? 0 : node->rank + place->local_rank);
    /* in the order of coordinates[] */
    const char *const values[] = {address, count, rank, address, count, rank, leader->host, port};
    const bool nested = is_nested(base);
    for (size_t i = 0; i < sizeof coordinates / sizeof coordinates[0]; i++) {
        if (!user_has_set(base, nested, coordinates[i])) {
            list_add(list, "%s=%s", coordinates[i], values[i]);
        }
    }
}

/* Adds the directory for every trainer, because all run the same script, and the rest only for the
 * job's rank 0, whose bootstrap copies it. */
static void list_add_artifacts(struct list *list, const struct trainer_place *place)
{
    const struct artifacts_settings *artifacts = place->artifacts;
    if (!place->artifacts_dir) {
        return;
    }
    list_add(list, "TFE_ARTIFACTS=%s", place->artifacts_dir);
    if (place->local_rank == 0 && place->node->rank == 0) {
        list_add(list, "TFE_ARTIFACTS_URI=%s", artifacts->uri);
        list_add(list, "TFE_ARTIFACTS_TIMEOUT_MS=%" PRIu32, artifacts->timeout_ms);
        if (artifacts->command) {
            list_add(list, "TFE_ARTIFACTS_COMMAND=%s", artifacts->command);
        }
    }
}

static void list_add_place(struct list *list, const struct trainer_place *place)
{
    const struct agent_place *node = place->node;
    uint32_t rank = node->rank + place->local_rank;
    /* The agent reserves the port with SO_REUSEPORT until TensorFlow listens on it. */
    list_add(list, "TF_GRPC_REUSE_PORT=true");
    list_add(list, "TFE_JOB=%s", place->job);
    list_add(list, "TFE_NODE=%s", place->node_id);
    list_add(list, "TFE_RUN=%" PRIu32, node->run);
    list_add(list, "TFE_EPOCH=%" PRIu64, node->epoch);
    list_add(list, "TFE_RANK=%" PRIu32, rank);
    list_add(list, "TFE_WORLD_SIZE=%zu", node->n_rows);
    list_add(list, "TFE_LOCAL_RANK=%" PRIu32, place->local_rank);
    list_add(list, "TFE_RESTART_COUNT=%" PRIu32, node->restarts);
    list_add_role(list, place);
    if (place->socket) {
        list_add(list, "TFE_SOCKET=%s", place->socket);
        list_add(list, "TFE_PREEMPT_FILE=%s", place->preempt_file);
    }
    if (place->tmp_dir) {
        list_add(list, "TMPDIR=%s", place->tmp_dir);
    }
    list_add_artifacts(list, place);
    list_add(list, "RANK=%" PRIu32, rank);
    list_add(list, "LOCAL_RANK=%" PRIu32, place->local_rank);
    list_add(list, "WORLD_SIZE=%zu", node->n_rows);
    list_add(list, "LOCAL_WORLD_SIZE=%" PRIu32, place->nproc);
    list_add(list, "NUM_WORKERS=%zu", node->n_rows);
}

int environment_new(const char *const *base, const struct trainer_place *place, char ***ret)
{
    const struct trainer_user *user = trainer_user();
    size_t n_base = 0;
    bool unbuffered = false;
    const bool nested = is_nested(base);
    for (; base[n_base]; n_base++) {
        unbuffered = unbuffered || entry_is(base[n_base], "PYTHONUNBUFFERED") ||
                     entry_is(base[n_base], SET_PREFIX "PYTHONUNBUFFERED");
    }
    struct list list = {.strings = calloc(n_base + OWN_MAX + 2, sizeof(*list.strings))};
    if (!list.strings) {
        return TFE_ENOMEM;
    }
    for (size_t i = 0; i < n_base; i++) {
        const char *set = entry_behind(base[i], SET_PREFIX);
        if (set && !entry_is_one_of(set, replaced, sizeof replaced / sizeof replaced[0])) {
            list_add(&list, "%s", set);
        } else if (!entry_is_one_of(base[i], replaced, sizeof replaced / sizeof replaced[0]) &&
                   !(nested && entry_is_one_of(base[i], coordinates,
                                               sizeof coordinates / sizeof coordinates[0])) &&
                   !entry_is_overruled(base, base[i]) &&
                   (!user->name ||
                    entry_is_one_of(base[i], shared, sizeof shared / sizeof shared[0]))) {
            list_add(&list, "%s", base[i]);
        }
    }
    if (!unbuffered) {
        list_add(&list, "PYTHONUNBUFFERED=1");
    }
    if (user->name) {
        list_add(&list, "HOME=%s", user->home);
        list_add(&list, "USER=%s", user->name);
        list_add(&list, "LOGNAME=%s", user->name);
    }
    if (place) {
        list_add_tf_config(&list, place, convention_of(base));
        list_add_place(&list, place);
        list_add_frameworks(&list, place, base);
    }
    if (list.failed) {
        environment_free(list.strings);
        return TFE_ENOMEM;
    }
    *ret = list.strings;
    return 0;
}

void environment_free(char **env)
{
    for (char **at = env; at && *at; at++) {
        free(*at);
    }
    free(env);
}
