/* server/jobs/pool_jobs.c: submitted jobs: their specification, conditions, and rows in the store.
 */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/cli/log.h"
#include "common/handshake/seal.h"
#include "common/message/codec.h"
#include "common/text/text.h"
#include "server/jobs/pool_private.h"

/* Delay before a failed write is retried. */
#define WRITE_AGAIN_MS 1000

const char *pool_condition_name(unsigned condition, char room[CONDITION_NAME_MAX])
{
    const char *word = condition == CONDITION_CREATED
                           ? "created"
                           : msg_job_state_name((enum tfe_job_state)condition);
    (void)snprintf(room, CONDITION_NAME_MAX, "%s", word);
    room[0] = (char)(room[0] - 'a' + 'A');
    return room;
}

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

const char *pool_run_key(const struct pool *p, const char *name)
{
    const struct pool_job *job = pool_job_find(p, name);
    return job && (!job->is_over || job->lingers) ? job->run_key.text : NULL;
}

static struct pool_job *job_new(struct pool *p, const char *name)
{
    struct pool_job *job = calloc(1, sizeof(*job));
    if (job) {
        job->pool = p;
        (void)id_set(&job->name, name); /* the caller has validated the name */
        job->ends = TFE_MONO_NEVER;
        job->gain_told = GAIN_WHOLE_MILLI;
        TAILQ_INIT(&job->nodes);
        LIST_INIT(&job->orders);
        TAILQ_INSERT_TAIL(&p->jobs, job, link);
        p->n_jobs++;
    }
    return job;
}

/* A job of this name that is being deleted must not remove the row of its successor. */
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
    const struct rdzv_run run = rdzv_get_run(p->config.core, job);
    if (run.opener) {
        memcpy(ret, run.opener, PRINCIPAL_KEY_ID_BYTES);
    }
    return run.opener ? PRINCIPAL_KEY_ID_BYTES : 0;
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
    job->start_error[0] = '\0';
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

/* --- specification --- */

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

/* --- conditions --- */

void pool_job_is(struct pool_job *job, unsigned what, const char *reason, const char *says)
{
    const struct tfe_wall now = clock_wall();
    for (unsigned i = 0; i < CONDITION__COUNT; i++) {
        struct pool_condition *c = &job->conditions[i];
        bool is_it = i == what;
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
                *at = *at == '\n' ? ' ' : *at; /* the text must stay on one line */
            }
        }
        pool_job_touch(job);
    }
}

bool pool_job_has_roles(const struct pool_job *job)
{
    return job->n_ps > 0 || job->chief || job->evaluator;
}

static unsigned holding(const struct pool_job *job)
{
    for (unsigned i = CONDITION__COUNT; --i > CONDITION_CREATED;) {
        if (job->conditions[i].status) {
            return i;
        }
    }
    return CONDITION_CREATED;
}

enum tfe_job_state pool_job_state(const struct pool_job *job)
{
    const unsigned is = holding(job);
    return is == CONDITION_CREATED ? STATE_WAITING : (enum tfe_job_state)is;
}

bool pool_job_is_fresh(const struct pool_job *job)
{
    return holding(job) == CONDITION_CREATED;
}

const struct pool_condition *pool_job_condition(const struct pool_job *job)
{
    return &job->conditions[holding(job)];
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

bool pool_job_in_core(const struct pool_job *job, struct msg_status_job *ret)
{
    const struct rdzv *core = job->pool->config.core;
    return strcmp(rdzv_get_run(core, job->name.text).key, job->run_key.text) == 0 &&
           rdzv_find_job(core, job->name.text, ret) == 0;
}

static void say_quota(const struct placement_view *view, char room[MSG_SENTENCE_MAX])
{
    if (view->quota_lacks == 0) {
        (void)snprintf(
            room, MSG_SENTENCE_MAX,
            "waiting for a larger quota: its minimum is above that of jobs %s, which is %u",
            view->quota, (unsigned)view->quota_nodes);
    } else {
        (void)snprintf(room, MSG_SENTENCE_MAX,
                       "waiting for %u more %s of the quota of jobs %s, which is %u",
                       (unsigned)view->quota_lacks, view->quota_lacks == 1 ? "node" : "nodes",
                       view->quota, (unsigned)view->quota_nodes);
    }
}

/* Appends how many nodes of the pool carry these labels, and `other` if it is not NULL:
 * "; 0 of 3 nodes have gpu=a100". */
static void add_count(const struct pool *p, const char *const *labels, size_t n_labels,
                      const char *other, struct text *text)
{
    struct pool_node *node;
    uint32_t n = 0;
    uint32_t n_have = 0;
    RB_FOREACH(node, pool_tree, (struct pool_tree *)(uintptr_t)&p->nodes)
    {
        bool has = !other || pool_node_has_label(node, other);
        for (size_t i = 0; i < n_labels && has; i++) {
            has = pool_node_has_label(node, labels[i]);
        }
        n += node->session && node->out == OUT_NOT;
        n_have += node->session && node->out == OUT_NOT && has;
    }
    text_addf(text, "; %u of %u %s ", (unsigned)n_have, (unsigned)n, n == 1 ? "node" : "nodes");
    text_add(text, n == 1 ? "has " : "have ");
    for (size_t i = 0; i < n_labels; i++) {
        text_addf(text, "%s%s", i > 0 ? " and " : "", labels[i]);
    }
    text_addf(text, "%s%s", other && n_labels > 0 ? " and " : "", other ? other : "");
}

/* Appends the labels that the job wants. */
static void add_labels(struct pool_job *job, struct text *text)
{
    struct msg_spec spec;
    if (pool_job_spec(job, &spec) != 0) {
        return; /* out of memory: the sentence stays without them */
    }
    if (spec.n_labels > 0) {
        add_count(job->pool, spec.labels, spec.n_labels, NULL, text);
    }
    for (size_t i = 0; i < spec.n_role_labels; i++) {
        const char *label = spec.role_labels[i];
        const size_t n = strcspn(label, ":");
        add_count(job->pool, spec.labels, spec.n_labels, label + n + 1, text);
        text_addf(text, " (for its %.*s)", (int)n, label);
    }
}

static void say_lacks(struct pool_job *job, const struct placement_view *view,
                      char room[MSG_SENTENCE_MAX])
{
    const char *nodes = view->lacks == 1 ? "node" : "nodes";
    struct text text;
    text_init(&text, room, MSG_SENTENCE_MAX);
    if (view->lacks == 0) {
        text_add(&text, "waiting for nodes that are about to be free");
    } else if (view->is_too_large) {
        text_addf(&text, "waiting for %u more %s: the pool has too few that may work for it",
                  (unsigned)view->lacks, nodes);
    } else {
        text_addf(&text, "waiting for %u more %s: other jobs have them, or nobody",
                  (unsigned)view->lacks, nodes);
    }
    add_labels(job, &text);
}

uint32_t pool_job_retry_ms(const struct pool_job *job)
{
    const struct tfe_mono now = clock_mono();
    struct tfe_mono first = TFE_MONO_NEVER;
    const struct pool_node *node;
    TAILQ_FOREACH(node, &job->nodes, of_job)
    {
        first = tfe_mono_min(first, node->rests);
    }
    if (job->is_over || tfe_mono_is_never(first) || !tfe_mono_before(now, first)) {
        return 0;
    }
    return (uint32_t)tfe_mono_sub(first, now);
}

const char *pool_job_waits(struct pool_job *job, char room[MSG_SENTENCE_MAX])
{
    struct placement_view view;
    struct msg_status_job row = {.job = job->name.text};
    const char *node;
    const char *error;
    if (job->is_over || !pool_job_view(job, &view)) {
        return job->is_over ? NULL : "waiting until it is on the disk";
    }
    switch (view.state) {
    case PLACEMENT_JOB_PAUSED:
        return "waiting to be resumed (tfe-ctl resume)";
    case PLACEMENT_JOB_QUEUED:
    case PLACEMENT_JOB_SHORT:
        if (view.quota) {
            say_quota(&view, room);
        } else {
            say_lacks(job, &view, room);
        }
        return room;
    case PLACEMENT_JOB_PLACED:
        error = pool_files_error(job, &node);
        if (error) {
            (void)snprintf(room, MSG_SENTENCE_MAX, "waiting for its files on %.64s: %.700s", node,
                           error);
            return room;
        }
        rdzv_view_waits(job->pool->config.core, &row, room);
        return row.waits ? row.waits
               : pool_job_state(job) == STATE_RUNNING
                   ? NULL
                   : "waiting for its nodes to join and be ready";
    case PLACEMENT_JOB_IS_OVER:
        break;
    }
    return NULL;
}

/* --- rows in the store --- */

void pool_job_touch(struct pool_job *job)
{
    job->version++;
}

/* Packs or unpacks one condition, by its index. */
static void pack_condition(struct pack *k, uint32_t *number, struct pool_condition *c)
{
    const char *reason = c->reason;
    const char *says = c->says;
    pack_u32(k, number);
    pack_bool(k, &c->status);
    pack_wall(k, &c->at);
    pack_text(k, &reason);
    pack_text(k, &says);
    if (k->in) {
        (void)snprintf(c->reason, sizeof(c->reason), "%s", reason);
        (void)snprintf(c->says, sizeof(c->says), "%s", says);
    }
}

void pool_job_pack_node(struct pack *k, const char **id, uint64_t *assignment, uint32_t *task)
{
    pack_text(k, id);
    pack_u64(k, assignment);
    pack_u32(k, task);
}

/* Packs run_key, SUBMIT as it was received, started, conditions and nodes. */
static void pack_job(struct pack *k, const struct pool_job *job)
{
    const char *run_key = job->run_key.text;
    const uint8_t *spec = job->bytes;
    size_t n_spec = job->n_bytes;
    struct tfe_wall started = job->started;
    uint32_t n = 0;
    const struct pool_node *node;
    pack_text(k, &run_key);
    pack_bytes(k, &spec, &n_spec);
    pack_wall(k, &started);
    for (uint32_t i = 0; i < CONDITION__COUNT; i++) {
        n += job->conditions[i].at.ms != 0;
    }
    pack_u32(k, &n);
    for (uint32_t i = 0; i < CONDITION__COUNT; i++) {
        struct pool_condition c = job->conditions[i];
        if (c.at.ms != 0) {
            pack_condition(k, &i, &c);
        }
    }
    TAILQ_FOREACH(node, &job->nodes, of_job)
    {
        const char *id = node->id.text;
        uint64_t assignment = node->assignment;
        uint32_t task = node->task;
        pool_job_pack_node(k, &id, &assignment, &task);
    }
}

void pool_job_write(struct pool_job *job, writer_result_fn done)
{
    if (!job->pool->writer || job->ask || job->is_replaced || job->version == job->written ||
        tfe_mono_before(clock_mono(), job->again)) {
        return;
    }
    struct pack packed = {.n = 0};
    pack_job(&packed, job);
    const struct store_submission row = {.job = job->name.text,
                                         .number = job->number,
                                         .bytes = packed.out,
                                         .n = packed.n,
                                         .is_gone = job->is_gone};
    job->writing = job->version;
    if (packed.rc != 0 ||
        writer_put_submission(job->pool->writer, &row, done, job, &job->ask) != 0) {
        job->again = tfe_mono_add(clock_mono(), WRITE_AGAIN_MS);
    }
    free(packed.out);
}

void pool_job_settle(struct pool_job *job, int rc, const char *reason)
{
    struct pool_order *order = LIST_FIRST(&job->orders);
    for (struct pool_order *next; order; order = next) {
        next = LIST_NEXT(order, link);
        if (rc == 0 && order->version > job->written) {
            continue;
        }
        if (rc != 0) {
            order->refusal = REFUSAL_STORE;
            (void)snprintf(order->sentence, sizeof(order->sentence), "%s", reason);
        }
        LIST_REMOVE(order, link);
        order->job = NULL;
        order->rows.wake(order->rows.wake_ctx);
    }
}

static void load_conditions(struct pool_job *job, struct pack *k)
{
    uint32_t n = 0;
    pack_u32(k, &n);
    for (uint32_t i = 0; k->rc == 0 && i < n; i++) {
        struct pool_condition c = {.status = false};
        uint32_t number = 0;
        pack_condition(k, &number, &c);
        if (k->rc == 0 && number < CONDITION__COUNT) {
            job->conditions[number] = c;
        }
    }
}

/* Returns TFE_EINVAL if the row is invalid. */
static int load(struct pool_job *job, struct pack *k)
{
    struct msg_spec spec;
    const char *run_key = "";
    const uint8_t *bytes = NULL;
    pack_text(k, &run_key);
    pack_bytes(k, &bytes, &job->n_bytes);
    pack_wall(k, &job->started);
    load_conditions(job, k);
    if (k->rc != 0 || id_set(&job->run_key, run_key) != 0 || job->n_bytes > SEAL_PLAIN_MAX) {
        return TFE_EINVAL;
    }
    job->bytes = malloc(job->n_bytes + 1);
    if (!job->bytes) {
        return TFE_ENOMEM;
    }
    memcpy(job->bytes, bytes, job->n_bytes);
    int rc = pool_job_spec(job, &spec);
    if (rc != 0 || strcmp(spec.name, job->name.text) != 0) {
        return rc == TFE_ENOMEM ? rc : TFE_EINVAL;
    }
    take_some(job, &spec);
    return 0;
}

int pool_job_load(struct pool *p, const struct store_submission *row, struct pack *ret_nodes,
                  struct pool_job **ret)
{
    *ret_nodes = (struct pack){.in = row->bytes, .n = row->n};
    if (!id_is_valid(row->job) || pool_job_find(p, row->job)) {
        return TFE_EINVAL;
    }
    struct pool_job *job = job_new(p, row->job);
    int rc = job ? load(job, ret_nodes) : TFE_ENOMEM;
    if (rc != 0) {
        pool_job_free(job);
        return rc;
    }
    job->number = row->number;
    p->last_number = row->number > p->last_number ? row->number : p->last_number;
    job->is_over = msg_job_is_over(pool_job_state(job));
    *ret = job;
    return 0;
}
