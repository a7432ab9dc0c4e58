/* server/jobs/pool_jobs.c: submitted jobs: their specification, conditions, and rows in the store.
 */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "server/jobs/pool_private.h"

/* Delay before a failed write is retried. */
#define WRITE_AGAIN_MS 1000
/* Roles of a label without a role: bits of enum tfe_task. */
#define EVERY_TASK 0xfu

const char *pool_condition_name(unsigned condition, char buf[CONDITION_NAME_MAX])
{
    const char *word = condition == CONDITION_CREATED
                           ? "created"
                           : msg_job_state_name((enum tfe_job_state)condition);
    (void)snprintf(buf, CONDITION_NAME_MAX, "%s", word);
    buf[0] = (char)(buf[0] - 'a' + 'A');
    return buf;
}

struct condition_text condition_text(enum tfe_job_state state)
{
    static const struct condition_text texts[] = {
        [CONDITION_CREATED] = {"JobCreated", "it was submitted"},
        [STATE_WAITING] = {"WaitsForNodes", "it waits for nodes"},
        [STATE_STARTING] = {"JobStarting", "its first epoch is about to begin"},
        [STATE_RUNNING] = {"JobRunning", "an epoch is running"},
        [STATE_RESTARTING] = {"JobRestarting", "another epoch is about to begin"},
        [STATE_SUSPENDED] = {"JobSuspended", "it has no nodes until it is resumed"},
        [STATE_SUCCEEDED] = {"JobSucceeded", "the job has succeeded"},
        [STATE_FAILED] = {"JobFailed", ""},
        [STATE_CANCELLED] = {"JobCancelled", "it " RDZV_CANCELLED},
        [STATE_SET_ASIDE] = {"JobSetAside", ""},
    };
    return texts[state];
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
        job->gain_reported = GAIN_WHOLE_MILLI;
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
            if (!job->request) {
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
    job->condition = CONDITION_CREATED;
    job->is_over = job->lingers = false;
    job->is_placed = false;
    job->started.ms = 0;
    job->failures = 0;
    job->start_error[0] = '\0';
    job->gain = (struct gain){.now.workers = 0};
    job->gain_reported = GAIN_WHOLE_MILLI;
    job->ends = TFE_MONO_NEVER;
    *ret = job;
    return 0;
}

void pool_job_free(struct pool_job *job)
{
    TAILQ_REMOVE(&job->pool->jobs, job, link);
    job->pool->n_jobs--;
    free(job->spec);
    free(job);
}

/* --- specification --- */

struct pool_needs pool_needs_of(const struct pool *p, const json_t *spec)
{
    const json_t *workers = json_object_get(spec, "workers");
    const char *bundle = job_source(spec, "bundle");
    const char *restart = job_text(spec, "restart_policy"); /* NULL if it differs by role */
    const uint32_t ttl_s = job_number(spec, "ttl_after_finished_s", MSG_UNSET);
    struct pool_needs needs = {
        .priority = job_number(spec, "priority", MSG_PRIORITY_DEFAULT),
        .min_nodes = job_number(workers, "min", 1),
        .max_nodes = job_number(workers, "max", 1),
        .n_ps = job_number(spec, "ps", 0),
        .nproc = job_number(spec, "nproc", 1),
        .chief = job_flag(spec, "chief"),
        .evaluator = job_flag(spec, "evaluator"),
        .preempt = job_flag(spec, "preempt"),
        .suspend = job_flag(spec, "suspend"),
        .may_linger = strcmp(job_text(spec, "clean_policy"), "None") == 0,
        .limit = restart && strcmp(restart, "Never") == 0
                     ? 0
                     : job_number(spec, "backoff_limit", p->config.max_restarts),
        .active_deadline_ms = job_number(spec, "active_deadline_s", 0) * 1000,
        .ttl_ms = ttl_s == MSG_UNSET ? MSG_UNSET : ttl_s * 1000,
    };
    (void)snprintf(needs.bundle, sizeof(needs.bundle), "%s", bundle ? bundle : "");
    return needs;
}

int pool_job_set(struct pool_job *job, const json_t *spec)
{
    char *text = job_file_format(spec);
    if (!text) {
        return TFE_ENOMEM;
    }
    if (strlen(text) > MSG_SPEC_MAX) {
        free(text);
        return TFE_ETOOBIG;
    }
    free(job->spec);
    job->spec = text;
    job->needs = pool_needs_of(job->pool, spec);
    return 0;
}

json_t *pool_job_spec(const struct pool_job *job)
{
    return json_loads(job->spec, 0, NULL);
}

static size_t add_labels(const json_t *labels, uint8_t tasks, struct pool_label *ret, size_t n)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)labels, key, value)
    {
        ret[n].tasks = tasks;
        (void)snprintf(ret[n].text, sizeof(ret[n].text), "%s=%s", key, json_string_value(value));
        n++;
    }
    return n;
}

int pool_job_labels(const struct pool_job *job, struct pool_label ret[MSG_POOL_LABELS_MAX],
                    size_t *ret_n)
{
    json_t *spec = pool_job_spec(job);
    const char *role;
    json_t *labels;
    size_t n = add_labels(json_object_get(spec, "labels"), EVERY_TASK, ret, 0);
    json_object_foreach(json_object_get(spec, "role_labels"), role, labels)
    {
        n = add_labels(labels, (uint8_t)(1u << job_file_role(role)), ret, n);
    }
    *ret_n = n;
    const bool is_read = spec;
    json_decref(spec);
    return is_read ? 0 : TFE_ENOMEM;
}

/* --- conditions --- */

void pool_job_is(struct pool_job *job, unsigned what, const char *reason, const char *message)
{
    const struct tfe_wall now = clock_wall();
    struct pool_condition *c = &job->conditions[what];
    char line[sizeof(c->message)];
    text_setf(line, sizeof(line), "%s", message);
    for (char *at = line; *at != '\0'; at++) {
        *at = *at == '\n' ? ' ' : *at; /* the text must stay on one line */
    }
    if (job->condition != what) {
        if (job->condition != CONDITION_CREATED) {
            job->conditions[job->condition].at = now;
        }
        c->at.ms = 0;
    }
    if (c->at.ms != 0 && strcmp(c->reason, reason) == 0 && strcmp(c->message, line) == 0) {
        return;
    }
    c->at = c->at.ms != 0 ? c->at : now;
    job->condition = what;
    (void)snprintf(c->reason, sizeof(c->reason), "%s", reason);
    memcpy(c->message, line, sizeof(line));
    pool_job_touch(job);
}

void pool_job_is_usual(struct pool_job *job, enum tfe_job_state state)
{
    const struct condition_text text = condition_text(state);
    pool_job_is(job, state, text.reason, text.says);
}

bool pool_job_has_roles(const struct pool_job *job)
{
    return job->needs.n_ps > 0 || job->needs.chief || job->needs.evaluator;
}

enum tfe_job_state pool_job_state(const struct pool_job *job)
{
    return job->condition == CONDITION_CREATED ? STATE_WAITING : (enum tfe_job_state)job->condition;
}

bool pool_job_is_fresh(const struct pool_job *job)
{
    return job->condition == CONDITION_CREATED;
}

const struct pool_condition *pool_job_condition(const struct pool_job *job)
{
    return &job->conditions[job->condition];
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

static void describe_quota(const struct placement_view *view, char buf[MSG_SENTENCE_MAX])
{
    if (view->quota_lacks == 0) {
        (void)snprintf(buf, MSG_SENTENCE_MAX,
                       "waiting for a larger quota: the job's minimum exceeds the quota of jobs "
                       "%s, which is %u",
                       view->quota, (unsigned)view->quota_nodes);
    } else {
        (void)snprintf(buf, MSG_SENTENCE_MAX,
                       "waiting for %u more %s of the quota of jobs %s, which is %u",
                       (unsigned)view->quota_lacks, view->quota_lacks == 1 ? "node" : "nodes",
                       view->quota, (unsigned)view->quota_nodes);
    }
}

/* Appends how many nodes of the pool carry the labels of these roles:
 * "; 0 of 3 nodes have gpu=a100". */
static void add_count(const struct pool *p, const struct pool_label *labels, size_t n_labels,
                      uint8_t tasks, struct text *text)
{
    struct pool_node *node;
    uint32_t n = 0;
    uint32_t n_have = 0;
    const char *between = "";
    RB_FOREACH(node, pool_tree, (struct pool_tree *)(uintptr_t)&p->nodes)
    {
        bool has = node->session && node->out == OUT_NOT;
        n += has;
        for (size_t i = 0; i < n_labels && has; i++) {
            has = (labels[i].tasks & tasks) != tasks || pool_node_has_label(node, labels[i].text);
        }
        n_have += has;
    }
    text_addf(text, "; %u of %u %s ", (unsigned)n_have, (unsigned)n,
              n == 1 ? "node has" : "nodes have");
    for (size_t i = 0; i < n_labels; i++) {
        if ((labels[i].tasks & tasks) == tasks) {
            text_addf(text, "%s%s", between, labels[i].text);
            between = " and ";
        }
    }
    for (unsigned task = 0; tasks != EVERY_TASK && task < 4; task++) {
        if (tasks == 1u << task) {
            text_addf(text, " (for its %s)", msg_task_name((enum tfe_task)task));
        }
    }
}

/* Appends the labels that the job wants, and those of each role that has labels of its own. */
static void add_wanted_labels(const struct pool_job *job, struct text *text)
{
    struct pool_label labels[MSG_POOL_LABELS_MAX];
    size_t n;
    if (pool_job_labels(job, labels, &n) != 0) {
        return; /* out of memory: the sentence stays without them */
    }
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || labels[i].tasks != labels[i - 1].tasks) {
            add_count(job->pool, labels, n, labels[i].tasks, text);
        }
    }
}

static void describe_lacks(struct pool_job *job, const struct placement_view *view,
                           char buf[MSG_SENTENCE_MAX])
{
    const char *nodes = view->lacks == 1 ? "node" : "nodes";
    struct text text;
    text_init(&text, buf, MSG_SENTENCE_MAX);
    if (view->lacks == 0) {
        text_add(&text, "waiting for nodes that are being released");
    } else if (view->is_too_large) {
        text_addf(&text, "waiting for %u more %s: the pool has too few suitable nodes",
                  (unsigned)view->lacks, nodes);
    } else {
        text_addf(
            &text,
            "waiting for %u more %s: all suitable nodes are assigned to other jobs or unavailable",
            (unsigned)view->lacks, nodes);
    }
    add_wanted_labels(job, &text);
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

const char *pool_job_waits(struct pool_job *job, char buf[MSG_SENTENCE_MAX])
{
    struct placement_view view;
    struct msg_status_job row = {.job = job->name.text};
    const char *node;
    const char *error;
    if (job->is_over || !pool_job_view(job, &view)) {
        return job->is_over ? NULL : "waiting for the job to be written to the database";
    }
    switch (view.state) {
    case PLACEMENT_JOB_PAUSED:
        return "waiting to be resumed (tfe-ctl resume)";
    case PLACEMENT_JOB_QUEUED:
    case PLACEMENT_JOB_SHORT:
        if (view.quota) {
            describe_quota(&view, buf);
        } else {
            describe_lacks(job, &view, buf);
        }
        return buf;
    case PLACEMENT_JOB_PLACED:
        error = pool_files_error(job, &node);
        if (error) {
            text_setf(buf, MSG_SENTENCE_MAX, "waiting for its files on %.64s: %.700s", node, error);
            return buf;
        }
        rdzv_view_waits(job->pool->config.core, &row, buf);
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
    const char *message = c->message;
    pack_u32(k, number);
    pack_wall(k, &c->at);
    pack_text(k, &reason);
    pack_text(k, &message);
    if (k->in) {
        (void)snprintf(c->reason, sizeof(c->reason), "%s", reason);
        (void)snprintf(c->message, sizeof(c->message), "%s", message);
    }
}

void pool_job_pack_node(struct pack *k, const char **id, uint64_t *assignment, uint32_t *task)
{
    pack_text(k, id);
    pack_u64(k, assignment);
    pack_u32(k, task);
}

/* Packs run_key, the job's text, started, conditions and nodes. */
static void pack_job(struct pack *k, const struct pool_job *job)
{
    const char *run_key = job->run_key.text;
    const char *spec = job->spec;
    struct tfe_wall started = job->started;
    uint32_t condition = job->condition;
    uint32_t n = 0;
    const struct pool_node *node;
    pack_text(k, &run_key);
    pack_text(k, &spec);
    pack_wall(k, &started);
    pack_u32(k, &condition);
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
    if (!job->pool->writer || job->request || job->is_replaced || job->version == job->written ||
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
        writer_put_submission(job->pool->writer, &row, done, job, &job->request) != 0) {
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
    pack_u32(k, &job->condition);
    pack_u32(k, &n);
    for (uint32_t i = 0; k->rc == 0 && i < n; i++) {
        struct pool_condition c = {.message = ""};
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
    const char *run_key = "";
    const char *text = "";
    json_t *spec;
    struct tfe_reason reason;
    pack_text(k, &run_key);
    pack_text(k, &text);
    pack_wall(k, &job->started);
    load_conditions(job, k);
    if (k->rc != 0 || job->condition >= CONDITION__COUNT || id_set(&job->run_key, run_key) != 0) {
        return TFE_EINVAL;
    }
    int rc = job_file_parse(text, &spec, &reason);
    if (rc == 0) {
        rc = strcmp(job_text(spec, "name"), job->name.text) == 0 ? pool_job_set(job, spec)
                                                                 : TFE_EINVAL;
        json_decref(spec);
    }
    return rc == 0 || rc == TFE_ENOMEM ? rc : TFE_EINVAL;
}

int pool_job_load(struct pool *p, const struct store_submission *row, struct pack *ret_nodes,
                  struct pool_job **ret)
{
    *ret_nodes = (struct pack){.in = row->bytes, .n = row->n};
    if (!id_is_valid(row->job) || pool_job_find(p, row->job)) {
        return TFE_EINVAL;
    }
    struct pool_job *job = job_new(p, row->job);
    if (!job) {
        return TFE_ENOMEM;
    }
    const int rc = load(job, ret_nodes);
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
