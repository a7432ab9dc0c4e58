/* agent/trainers/environment.c: what a trainer finds in its environment. */
#include "agent/trainers/environment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/id.h"
#include "common/base/json.h"

/* "253 characters:65535", brackets around an IPv6 address. */
#define ENDPOINT_MAX (TFE_HOST_MAX + 10)

/* Variables that are set below, and so not taken over. */
static const char *const replaced[] = {
    "TF_CONFIG",  "TF_GRPC_REUSE_PORT", "RANK",        "LOCAL_RANK",
    "WORLD_SIZE", "LOCAL_WORLD_SIZE",   "NUM_WORKERS",
};
#define OWN_MAX 32

struct list {
    char **strings;
    size_t n;
    bool failed;
};

static void *heap_resize(void *ctx, void *p, size_t n)
{
    (void)ctx;
    if (n == 0) {
        free(p);
        return NULL;
    }
    return realloc(p, n);
}

static const struct tfe_mem heap = {.resize = heap_resize};

/* Takes text over; NULL is a failed allocation. */
static void list_take(struct list *list, char *text)
{
    list->failed = list->failed || !text;
    if (text) {
        list->strings[list->n++] = text;
    }
}

static void list_text(struct list *list, const char *name, const char *value)
{
    size_t n = strlen(name);
    size_t v = strlen(value);
    char *text = malloc(n + v + 2);
    if (text) {
        memcpy(text, name, n);
        text[n] = '=';
        memcpy(text + n + 1, value, v + 1);
    }
    list_take(list, text);
}

static void list_number(struct list *list, const char *name, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    list_text(list, name, digits);
}

/* Whether entry ("NAME=value") is the variable. */
static bool entry_is(const char *entry, const char *name)
{
    size_t n = strlen(name);
    return strncmp(entry, name, n) == 0 && entry[n] == '=';
}

/* Everything that begins with TFE_ is an option (a token, perhaps) or left over from an agent that
 * this one runs under; neither is the trainer's business. The table knows which names are options,
 * should one ever be called otherwise. */
static bool entry_stays(const char *entry, const struct option_table *table)
{
    const char *end = strchr(entry, '=');
    char name[128];
    if (strncmp(entry, "TFE_", 4) == 0) {
        return false;
    }
    if (end && (size_t)(end - entry) < sizeof name) {
        memcpy(name, entry, (size_t)(end - entry));
        name[end - entry] = '\0';
        if (options_is_variable(table, name)) {
            return false;
        }
    }
    for (size_t i = 0; i < sizeof replaced / sizeof replaced[0]; i++) {
        if (entry_is(entry, replaced[i])) {
            return false;
        }
    }
    return true;
}

static void endpoint_format(char ret[ENDPOINT_MAX], const struct msg_row *row)
{
    if (strchr(row->host, ':')) {
        snprintf(ret, ENDPOINT_MAX, "[%s]:%u", row->host, (unsigned)row->port);
    } else {
        snprintf(ret, ENDPOINT_MAX, "%s:%u", row->host, (unsigned)row->port);
    }
}

/* {"cluster":{"worker":["host:port",…]},"task":{"type":"worker","index":R}} */
static void list_tf_config(struct list *list, const struct trainer_place *place)
{
    struct json j;
    const char *text;
    size_t n;
    json_init(&j, &heap);
    json_begin_object(&j, NULL);
    json_begin_object(&j, "cluster");
    json_begin_array(&j, "worker");
    for (size_t i = 0; i < place->n_rows; i++) {
        char endpoint[ENDPOINT_MAX];
        endpoint_format(endpoint, &place->rows[i]);
        json_text(&j, NULL, endpoint);
    }
    json_end_array(&j);
    json_end_object(&j);
    json_begin_object(&j, "task");
    json_text(&j, "type", "worker");
    json_u64(&j, "index", place->rank);
    json_end_object(&j);
    json_end_object(&j);
    if (json_finish(&j, &text, &n) == 0) {
        list_text(list, "TF_CONFIG", text);
    } else {
        list->failed = true;
    }
    json_done(&j);
}

/* Begins a list with what stays of base; room for OWN_MAX more. */
static int list_begin(struct list *list, const char *const *base, const struct option_table *table)
{
    size_t n_base = 0;
    bool unbuffered = false;
    while (base[n_base]) {
        unbuffered = unbuffered || entry_is(base[n_base], "PYTHONUNBUFFERED");
        n_base++;
    }
    *list = (struct list){.strings = calloc(n_base + OWN_MAX + 2, sizeof *list->strings)};
    if (!list->strings) {
        return TFE_ENOMEM;
    }
    for (size_t i = 0; i < n_base; i++) {
        if (entry_stays(base[i], table)) {
            list_take(list, strdup(base[i]));
        }
    }
    if (!unbuffered) {
        list_text(list, "PYTHONUNBUFFERED", "1");
    }
    return 0;
}

static int list_end(struct list *list, char ***ret)
{
    if (list->failed) {
        environment_free(list->strings);
        return TFE_ENOMEM;
    }
    *ret = list->strings;
    return 0;
}

int environment_new_base(const char *const *base, const struct option_table *table, char ***ret)
{
    struct list list;
    int rc = list_begin(&list, base, table);
    return rc ? rc : list_end(&list, ret);
}

int environment_new(const char *const *base, const struct option_table *table,
                    const struct trainer_place *place, char ***ret)
{
    struct list list;
    int rc = list_begin(&list, base, table);
    if (rc) {
        return rc;
    }
    list_tf_config(&list, place);
    /* The agent holds the port with SO_REUSEPORT until TensorFlow listens on it. */
    list_text(&list, "TF_GRPC_REUSE_PORT", "true");
    list_text(&list, "TFE_JOB", place->job);
    list_text(&list, "TFE_NODE", place->node);
    list_number(&list, "TFE_RUN", place->run);
    list_number(&list, "TFE_EPOCH", place->epoch);
    list_number(&list, "TFE_RANK", place->rank);
    list_number(&list, "TFE_WORLD_SIZE", place->n_rows);
    list_number(&list, "TFE_LOCAL_RANK", place->local_rank);
    list_number(&list, "TFE_RESTART_COUNT", place->restarts);
    if (place->socket) {
        list_text(&list, "TFE_SOCKET", place->socket);
        list_text(&list, "TFE_PREEMPT_FILE", place->preempt_file);
    }
    list_number(&list, "RANK", place->rank);
    list_number(&list, "LOCAL_RANK", place->local_rank);
    list_number(&list, "WORLD_SIZE", place->n_rows);
    list_number(&list, "LOCAL_WORLD_SIZE", place->nproc);
    list_number(&list, "NUM_WORKERS", place->n_rows);
    return list_end(&list, ret);
}

void environment_free(char **env)
{
    for (char **at = env; at && *at; at++) {
        free(*at);
    }
    free(env);
}
