/* server/pool_jobs.c: jobs that were handed in: what they want, what has become of them, and the
 * rows that the store keeps. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/clock.h"
#include "common/net/log.h"
#include "common/wire/codec.h"
#include "common/wire/seal.h"
#include "server/pool_private.h"

/* A disk that does not take a row is tried again so soon. */
#define WRITE_AGAIN_MS 1000
/* A node's line in a row: an id, a number and a digit. */
#define NODE_LINE_MAX (TFE_ID_MAX + 32)

const char *const pool_condition_names[CONDITION__COUNT] = {
#define CONDITION_NAME(NAME, name, state) name,
    POOL_CONDITIONS(CONDITION_NAME)
#undef CONDITION_NAME
};

struct pool_job *pool_job_find(const struct pool *p, const char *name)
{
    struct pool_job *job;
    TAILQ_FOREACH(job, &p->jobs, link)
    {
        if (!job->is_gone && strcmp(job->name.text, name) == 0) {
            return job;
        }
    }
    return NULL;
}

static struct pool_job *job_new(struct pool *p, const char *name)
{
    struct pool_job *job = calloc(1, sizeof(*job));
    if (job) {
        job->pool = p;
        (void)id_set(&job->name, name); /* was checked */
        job->ends = TFE_MONO_NEVER;
        job->gain_told = GAIN_WHOLE_MILLI;
        TAILQ_INIT(&job->nodes);
        LIST_INIT(&job->orders);
        TAILQ_INSERT_TAIL(&p->jobs, job, link);
        p->n_jobs++;
    }
    return job;
}

/* One of this name that is about to be forgotten must not take the row of the one that comes. */
static void give_up_row(struct pool *p, const char *name)
{
    for (struct pool_job *job = TAILQ_FIRST(&p->jobs), *next; job; job = next) {
        next = TAILQ_NEXT(job, link);
        if (job->is_gone && strcmp(job->name.text, name) == 0) {
            job->is_replaced = true;
            if (!job->ask) {
                pool_job_free(job);
            }
        }
    }
}

size_t pool_owner_of(const void *ctx, const char *job, uint8_t ret[ADMISSION_NAME_MAX])
{
    const struct pool *p = ctx;
    const struct pool_job *own = pool_job_find(p, job);
    if (own && own->is_submitter_known) {
        memcpy(ret, own->submitter, sizeof(own->submitter));
        return sizeof(own->submitter);
    }
    return rdzv_job_opener(p->config.core, job, ret) ? PRINCIPAL_KEY_ID_BYTES : 0;
}

int pool_job_begin(struct pool *p, const char *name, struct pool_job **ret)
{
    struct pool_job *job = pool_job_find(p, name);
    uint64_t random;
    give_up_row(p, name);
    if (!job && p->n_jobs >= POOL_JOBS_MAX) {
        return TFE_EFULL;
    }
    job = job ? job : job_new(p, name);
    if (!job) {
        return TFE_ENOMEM;
    }
    TAILQ_REMOVE(&p->jobs, job, link);
    TAILQ_INSERT_TAIL(&p->jobs, job, link);
    job->number = ++p->last_number;
    randombytes_buf(&random, sizeof(random));
    (void)snprintf(job->run_key.text, sizeof(job->run_key.text), "pool-%016llx",
                   (unsigned long long)random);
    memset(job->conditions, 0, sizeof(job->conditions));
    job->is_over = job->lingers = false;
    job->is_placed = false;
    job->started.ms = 0;
    job->failures = 0;
    job->gain = (struct gain){.now.workers = 0};
    job->gain_told = GAIN_WHOLE_MILLI;
    job->ends = TFE_MONO_NEVER;
    *ret = job;
    return 0;
}

void pool_job_free(struct pool_job *job)
{
    TAILQ_REMOVE(&job->pool->jobs, job, link);
    job->pool->n_jobs--;
    free(job->bytes);
    free(job);
}

/* --- what it wants ---------------------------------------------------------------------------- */

static void take_some(struct pool_job *job, const struct msg_spec *spec)
{
    job->priority = spec->priority == MSG_UNSET ? MSG_PRIORITY_DEFAULT : spec->priority;
    job->min_nodes = spec->min_nodes;
    job->max_nodes = spec->max_nodes;
    job->n_ps = spec->n_ps;
    job->chief = spec->chief;
    job->evaluator = spec->evaluator;
    job->suspend = spec->suspend;
    job->may_linger = spec->clean_policy == CLEAN_NONE;
    (void)snprintf(job->bundle, sizeof(job->bundle), "%s",
                   spec->source_kind == SOURCE_BUNDLE ? spec->source : "");
    job->limit = spec->restart_policy == RESTART_NEVER ? 0
                 : spec->backoff_limit == MSG_UNSET    ? job->pool->config.max_restarts
                                                       : spec->backoff_limit;
    job->active_deadline_ms = spec->active_deadline_ms;
    job->ttl_ms = spec->ttl_after_finished_ms;
}

int pool_job_set(struct pool_job *job, const struct msg_spec *spec)
{
    const struct tfe_msg msg = {.type = MSG_SUBMIT, .u.submit.spec = *spec};
    size_t n = 0;
    uint8_t *bytes = malloc(SEAL_PLAIN_MAX);
    if (!bytes) {
        return TFE_ENOMEM;
    }
    int rc = codec_encode(&msg, bytes, SEAL_PLAIN_MAX, &n);
    if (rc != 0 || n > MSG_SPEC_MAX) {
        free(bytes);
        return rc != 0 ? rc : TFE_ETOOBIG;
    }
    uint8_t *fit = realloc(bytes, n);
    free(job->bytes);
    job->bytes = fit ? fit : bytes;
    job->n_bytes = n;
    take_some(job, spec);
    return 0;
}

int pool_job_spec(struct pool_job *job, struct msg_spec *ret)
{
    struct tfe_msg msg;
    arena_reset(&job->pool->arena);
    int rc = codec_decode(&job->pool->arena, job->bytes, job->n_bytes, &msg);
    if (rc == 0) {
        *ret = msg.u.submit.spec;
    }
    return rc;
}

/* --- what has become of it -------------------------------------------------------------------- */

void pool_job_is(struct pool_job *job, enum pool_condition_name what, const char *reason,
                 const char *says)
{
    const struct tfe_wall now = clock_wall();
    for (int i = 0; i < CONDITION__COUNT; i++) {
        struct pool_condition *c = &job->conditions[i];
        bool is_it = i == (int)what;
        bool holds = is_it || (i == CONDITION_CREATED && c->status);
        if (holds == c->status && (!is_it || strcmp(c->reason, reason) == 0)) {
            continue;
        }
        c->at = holds == c->status ? c->at : now;
        c->status = holds;
        if (is_it) {
            (void)snprintf(c->reason, sizeof(c->reason), "%s", reason);
            (void)snprintf(c->says, sizeof(c->says), "%s", says);
            for (char *at = c->says; *at != '\0'; at++) {
                *at = *at == '\n' ? ' ' : *at; /* one line of the row, whoever wrote it */
            }
        }
        pool_job_touch(job);
    }
}

bool pool_job_has_roles(const struct pool_job *job)
{
    return job->n_ps > 0 || job->chief || job->evaluator;
}

enum pool_condition_name pool_job_state(const struct pool_job *job)
{
    for (int i = CONDITION__COUNT; --i > CONDITION_CREATED;) {
        if (job->conditions[i].status) {
            return (enum pool_condition_name)i;
        }
    }
    return CONDITION_CREATED;
}

bool pool_job_view(const struct pool_job *job, struct placement_view *ret)
{
    const struct placement *placement = job->pool->placement;
    for (size_t i = 0; job->is_placed && i < placement_jobs(placement); i++) {
        placement_job_view(placement, i, ret);
        if (strcmp(ret->job, job->name.text) == 0) {
            return true;
        }
    }
    return false;
}

const char *pool_job_in_core(const struct pool_job *job)
{
    struct msg_status_job row;
    const struct rdzv *core = job->pool->config.core;
    return strcmp(rdzv_run_key(core, job->name.text), job->run_key.text) == 0 &&
                   rdzv_find_job(core, job->name.text, &row) == 0
               ? row.state
               : NULL;
}

static void say_quota(const struct placement_view *view, char room[MSG_SENTENCE_MAX])
{
    if (view->quota_lacks == 0) {
        (void)snprintf(room, MSG_SENTENCE_MAX,
                       "a larger quota: its minimum is above that of jobs %s, which is %u",
                       view->quota, (unsigned)view->quota_nodes);
    } else {
        (void)snprintf(room, MSG_SENTENCE_MAX, "%u more %s of the quota of jobs %s, which is %u",
                       (unsigned)view->quota_lacks, view->quota_lacks == 1 ? "node" : "nodes",
                       view->quota, (unsigned)view->quota_nodes);
    }
}

const char *pool_job_waits(const struct pool_job *job, char room[MSG_SENTENCE_MAX])
{
    struct placement_view view;
    struct msg_status_job row = {.job = job->name.text};
    const char *node;
    const char *error;
    if (job->is_over || !pool_job_view(job, &view)) {
        return job->is_over ? NULL : "until it is on the disk";
    }
    switch (view.state) {
    case PLACEMENT_JOB_PAUSED:
        return "to be resumed";
    case PLACEMENT_JOB_QUEUED:
    case PLACEMENT_JOB_SHORT:
        if (view.quota) {
            say_quota(&view, room);
            return room;
        }
        (void)snprintf(room, MSG_SENTENCE_MAX,
                       view.is_too_large
                           ? "%u more nodes: the pool has too few that may work for it"
                       : view.lacks > 0 ? "%u more nodes, which others have or nobody"
                                        : "nodes that are about to be free",
                       (unsigned)view.lacks);
        return room;
    case PLACEMENT_JOB_PLACED:
        error = pool_files_error(job, &node);
        if (error) {
            (void)snprintf(room, MSG_SENTENCE_MAX, "its files on %.64s: %.700s", node, error);
            return room;
        }
        rdzv_view_waits(job->pool->config.core, &row, room);
        return row.waits                                  ? row.waits
               : pool_job_state(job) == CONDITION_RUNNING ? NULL
                                                          : "its nodes to come in and be ready";
    case PLACEMENT_JOB_IS_OVER:
        break;
    }
    return NULL;
}

/* --- kept ------------------------------------------------------------------------------------- */

void pool_job_touch(struct pool_job *job)
{
    job->version++;
}

static char *spec_text(const struct pool_job *job)
{
    char *text = malloc(2 * job->n_bytes + 1);
    if (text) {
        (void)sodium_bin2hex(text, 2 * job->n_bytes + 1, job->bytes, job->n_bytes);
    }
    return text;
}

static char *conditions_text(const struct pool_job *job)
{
    const size_t cap = CONDITION__COUNT * (sizeof(struct pool_condition) + 64);
    char *text = malloc(cap);
    size_t n = 0;
    for (int i = 0; text && i < CONDITION__COUNT; i++) {
        const struct pool_condition *c = &job->conditions[i];
        text[n] = '\0';
        if (c->at.ms != 0) {
            n += (size_t)snprintf(text + n, cap - n, "%s %d %lld %s %s\n", pool_condition_names[i],
                                  c->status, (long long)c->at.ms, c->reason, c->says);
        }
    }
    return text;
}

static char *nodes_text(const struct pool_job *job)
{
    size_t n = 0;
    size_t cap = 1;
    const struct pool_node *node;
    TAILQ_FOREACH(node, &job->nodes, of_job)
    {
        cap += NODE_LINE_MAX;
    }
    char *text = calloc(1, cap);
    TAILQ_FOREACH(node, &job->nodes, of_job)
    {
        if (text) {
            n += (size_t)snprintf(text + n, cap - n, "%s %llu %d\n", node->id.text,
                                  (unsigned long long)node->assignment, (int)node->task);
        }
    }
    return text;
}

void pool_job_write(struct pool_job *job, writer_answer_fn done)
{
    if (!job->pool->writer || job->ask || job->is_replaced || job->version == job->written ||
        tfe_mono_before(clock_mono(), job->again)) {
        return;
    }
    char *spec = spec_text(job);
    char *conditions = conditions_text(job);
    char *nodes = nodes_text(job);
    const struct store_submission row = {.job = job->name.text,
                                         .number = job->number,
                                         .run_key = job->run_key.text,
                                         .spec = spec,
                                         .conditions = conditions,
                                         .nodes = nodes,
                                         .started = job->started,
                                         .is_gone = job->is_gone};
    job->writing = job->version;
    if (!spec || !conditions || !nodes ||
        writer_keep_submission(job->pool->writer, &row, done, job, &job->ask) != 0) {
        job->again = tfe_mono_add(clock_mono(), WRITE_AGAIN_MS);
    }
    free(spec);
    free(conditions);
    free(nodes);
}

void pool_job_settle(struct pool_job *job, int rc, const char *why)
{
    struct pool_order *order = LIST_FIRST(&job->orders);
    for (struct pool_order *next; order; order = next) {
        next = LIST_NEXT(order, link);
        if (rc == 0 && order->version > job->written) {
            continue;
        }
        if (rc != 0) {
            order->refusal = REFUSAL_STORE;
            (void)snprintf(order->sentence, sizeof(order->sentence), "%s", why);
        }
        LIST_REMOVE(order, link);
        order->job = NULL;
        order->rows.wake(order->rows.wake_ctx);
    }
}

bool pool_job_word(const char **at, char *ret, size_t cap)
{
    *at += strspn(*at, " ");
    const size_t n = strcspn(*at, " \n");
    if (n == 0 || n >= cap) {
        return false;
    }
    memcpy(ret, *at, n);
    ret[n] = '\0';
    *at += n;
    return true;
}

/* A line that makes no sense is passed over. */
static void load_conditions(struct pool_job *job, const char *text)
{
    for (const char *line = text; line; line = strchr(line, '\n')) {
        char name[16];
        char status[4];
        char at[24];
        struct pool_condition c = {.status = false};
        line += *line == '\n';
        const char *rest = line;
        bool is_sound = pool_job_word(&rest, name, sizeof(name)) &&
                        pool_job_word(&rest, status, sizeof(status)) &&
                        pool_job_word(&rest, at, sizeof(at)) &&
                        pool_job_word(&rest, c.reason, sizeof(c.reason));
        rest += strspn(rest, " ");
        (void)snprintf(c.says, sizeof(c.says), "%.*s", (int)strcspn(rest, "\n"), rest);
        c.status = is_sound && strcmp(status, "1") == 0;
        c.at.ms = is_sound ? strtoll(at, NULL, 10) : 0;
        for (int i = 0; is_sound && i < CONDITION__COUNT; i++) {
            if (strcmp(pool_condition_names[i], name) == 0) {
                job->conditions[i] = c;
            }
        }
    }
}

int pool_job_load(struct pool *p, const struct store_submission *row, struct pool_job **ret)
{
    const size_t n_hex = strlen(row->spec);
    struct msg_spec spec;
    size_t n = 0;
    if (!id_is_valid(row->job) || !id_is_valid(row->run_key) || n_hex > 2 * SEAL_PLAIN_MAX ||
        pool_job_find(p, row->job)) {
        return TFE_EINVAL;
    }
    struct pool_job *job = job_new(p, row->job);
    if (!job) {
        return TFE_ENOMEM;
    }
    job->bytes = malloc(n_hex / 2 + 1);
    bool is_read =
        job->bytes && sodium_hex2bin(job->bytes, n_hex / 2, row->spec, n_hex, NULL, &n, NULL) == 0;
    job->n_bytes = n;
    int rc = !job->bytes ? TFE_ENOMEM : !is_read ? TFE_EINVAL : pool_job_spec(job, &spec);
    if (rc != 0 || strcmp(spec.name, row->job) != 0) {
        pool_job_free(job);
        return rc == TFE_ENOMEM ? rc : TFE_EINVAL;
    }
    take_some(job, &spec);
    (void)id_set(&job->run_key, row->run_key);
    job->number = row->number;
    job->started = row->started;
    p->last_number = row->number > p->last_number ? row->number : p->last_number;
    load_conditions(job, row->conditions);
    enum pool_condition_name state = pool_job_state(job);
    job->is_over = state == CONDITION_SUCCEEDED || state == CONDITION_FAILED;
    *ret = job;
    return 0;
}
