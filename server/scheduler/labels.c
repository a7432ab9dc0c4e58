/* server/scheduler/labels.c: classes of nodes with equal labels, and the tasks that these labels
 * allow. */
#include <string.h>

#include "common/message/principal.h"
#include "common/text/quantity.h"
#include "server/scheduler/placement_state.h"

static bool is_label(const char *text)
{
    size_t n = text ? strlen(text) : 0;
    const char *value = n > 0 ? strchr(text, '=') : NULL;
    bool is_ok = n <= PLACEMENT_LABEL_MAX && value && value != text;
    for (size_t i = 0; is_ok && i < n; i++) {
        is_ok = (unsigned char)text[i] > 0x20 && text[i] != 0x7f;
    }
    return is_ok;
}

int labels_gather(const struct tfe_mem *mem, const char *const *labels, size_t n, char **ret,
                  size_t *ret_bytes)
{
    const char *sorted[PLACEMENT_LABELS_MAX];
    size_t bytes = 1; /* at least 1, because NULL labels mark an unused class */
    if (n > PLACEMENT_LABELS_MAX) {
        return TFE_EINVAL;
    }
    for (size_t i = 0; i < n; i++) {
        if (!is_label(labels[i])) {
            return TFE_EINVAL;
        }
        size_t at = i;
        for (; at > 0 && strcmp(labels[i], sorted[at - 1]) < 0; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = labels[i];
        bytes += strlen(labels[i]) + 1;
    }
    char *all = mem_new(mem, bytes, 1);
    if (!all) {
        return TFE_ENOMEM;
    }
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        size_t one = strlen(sorted[i]) + 1;
        memcpy(all + used, sorted[i], one);
        used += one;
    }
    *ret = all;
    *ret_bytes = used;
    return 0;
}

static bool has_key_of(const char *label, const char *other)
{
    const size_t n = strcspn(other, "=");
    return strncmp(label, other, n) == 0 && label[n] == '=';
}

int labels_replace(const struct tfe_mem *mem, const struct place_class *class,
                   const char *const *labels, size_t n, char **ret, size_t *ret_bytes)
{
    const char *all[2 * PLACEMENT_LABELS_MAX];
    if (n > PLACEMENT_LABELS_MAX) {
        return TFE_EINVAL;
    }
    size_t n_all = 0;
    for (; n_all < n; n_all++) {
        all[n_all] = labels[n_all];
    }
    for (size_t at = 0; at < class->n_bytes; at += strlen(class->labels + at) + 1) {
        bool stays = true;
        for (size_t i = 0; i < n; i++) {
            stays = stays && !has_key_of(class->labels + at, labels[i]);
        }
        if (stays) {
            all[n_all++] = class->labels + at;
        }
    }
    return labels_gather(mem, all, n_all, ret, ret_bytes);
}

static bool has_label(const struct place_class *class, const char *text)
{
    for (size_t at = 0; at < class->n_bytes; at += strlen(class->labels + at) + 1) {
        if (quantity_label_fits(text, class->labels + at)) {
            return true;
        }
    }
    return false;
}

/* Returns the job pattern of the token with which nodes with these labels connected; NULL if they
 * work for all jobs. */
static const char *scope_of(const char *labels, size_t n_bytes)
{
    static const size_t n = sizeof(PLACEMENT_SCOPE) - 1;
    for (size_t at = 0; at < n_bytes; at += strlen(labels + at) + 1) {
        if (strncmp(labels + at, PLACEMENT_SCOPE, n) == 0) {
            return labels + at + n;
        }
    }
    return NULL;
}

static bool is_in_scope(const struct place_class *class, const char *job)
{
    const struct principal of = {.role = PRINCIPAL_AGENT,
                                 .scope = scope_of(class->labels, class->n_bytes)};
    return !of.scope || !principal_fault(&of, MSG_JOIN, job);
}

/* Returns true if this token's nodes already use their maximum number of classes, so that one token
 * cannot use up all of them. */
static bool has_enough(const struct placement *p, const char *scope)
{
    uint32_t n = 0;
    for (uint32_t i = 0; scope && i < PLACEMENT_CLASSES_MAX; i++) {
        const struct place_class *c = &p->classes[i];
        const char *its = c->n_nodes > 0 ? scope_of(c->labels, c->n_bytes) : NULL;
        n += its && strcmp(its, scope) == 0;
    }
    return n >= PLACEMENT_CLASSES_OF_SCOPE;
}

static uint8_t schema_of(const struct place_job *job, const struct place_class *class)
{
    uint8_t kind = is_in_scope(class, job->name.text) ? (1u << PLACEMENT_TASKS) - 1 : 0;
    for (size_t at = 0; at < job->n_bytes; at += strlen(job->labels + at + 1) + 2) {
        if (!has_label(class, job->labels + at + 1)) {
            kind &= (uint8_t) ~(uint8_t)job->labels[at];
        }
    }
    return kind;
}

/* Computes the tasks that nodes of the class may have in the job. */
static void admit(const struct placement *p, struct place_job *job, uint32_t class)
{
    const struct place_class *c = &p->classes[class];
    const uint64_t bit = (uint64_t)1 << class;
    const uint8_t kind = c->labels ? schema_of(job, c) : 0;
    job->kinds[class] = kind;
    job->for_workers =
        kind & (1u << TASK_WORKER) ? job->for_workers | bit : job->for_workers & ~bit;
}

int class_find(struct placement *p, char *labels, size_t n_bytes, uint32_t *ret)
{
    uint32_t unused = CLASS_NONE;
    for (uint32_t i = 0; i < PLACEMENT_CLASSES_MAX; i++) {
        const struct place_class *c = &p->classes[i];
        if (c->labels && c->n_bytes == n_bytes && memcmp(c->labels, labels, n_bytes) == 0) {
            mem_free(p->mem, labels);
            *ret = i;
            return 0;
        }
        if (unused == CLASS_NONE && c->n_nodes == 0) {
            unused = i;
        }
    }
    if (unused == CLASS_NONE || has_enough(p, scope_of(labels, n_bytes))) {
        mem_free(p->mem, labels);
        return TFE_EFULL;
    }
    struct place_class *class = &p->classes[unused];
    mem_free(p->mem, class->labels);
    class->labels = labels;
    class->n_bytes = n_bytes;
    class->is_durable = has_label(class, "spot=false");
    p->n_classes = unused < p->n_classes ? p->n_classes : unused + 1;
    for (size_t i = 0; i < p->n_jobs; i++) {
        admit(p, p->jobs[i], unused);
    }
    *ret = unused;
    return 0;
}

int job_set_labels(struct placement *p, struct place_job *job,
                   const struct placement_options *options)
{
    size_t bytes = 1;
    if (options->n_labels > PLACEMENT_LABELS_MAX) {
        return TFE_EINVAL;
    }
    for (size_t i = 0; i < options->n_labels; i++) {
        if (!is_label(options->labels[i].text) || options->labels[i].tasks == 0 ||
            options->labels[i].tasks >= 1u << PLACEMENT_TASKS) {
            return TFE_EINVAL;
        }
        bytes += strlen(options->labels[i].text) + 2;
    }
    char *all = mem_new(p->mem, bytes, 1);
    if (!all) {
        return TFE_ENOMEM;
    }
    size_t used = 0;
    for (size_t i = 0; i < options->n_labels; i++) {
        size_t one = strlen(options->labels[i].text) + 1;
        all[used] = (char)options->labels[i].tasks;
        memcpy(all + used + 1, options->labels[i].text, one);
        used += one + 1;
    }
    mem_free(p->mem, job->labels);
    job->labels = all;
    job->n_bytes = used;
    for (uint32_t i = 0; i < PLACEMENT_CLASSES_MAX; i++) {
        admit(p, job, i);
    }
    return 0;
}
