/* server/pool.c: the nodes of the pool and their sessions; placement's steps and what follows. */
#include "server/pool.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "common/net/channel.h"
#include "common/net/clock.h"
#include "common/net/heap.h"
#include "common/net/log.h"
#include "common/net/timer.h"
#include "common/rows/kinds.h"
#include "server/operator.h"
#include "server/pool_private.h"
#include "server/session.h"

/* The loop's timers stand still while the machine is suspended: look at least this often. */
#define LOOK_MS 1000
/* A job that lacks some of its minimum gives the rest up after so long, if others wait. */
#define GANG_WAIT_MS 60000
/* A node that is released has so long to leave its job in an orderly way. */
#define RELEASE_MS 60000
/* Assignments are never numbered as those of a server before were, whatever its disk has kept: by
 * the civil clock, with room for so many a millisecond. */
#define ASSIGNMENTS_EACH_MS 1000u
/* A node whose agent failed at once rests for so long, doubling. */
#define REST_MS 1000
#define REST_MAX_MS 60000

RB_GENERATE(pool_tree, pool_node, by_id, pool_node_compare)

int pool_node_compare(const struct pool_node *a, const struct pool_node *b)
{
    return id_compare(&a->id, &b->id);
}

void pool_wake(struct pool *p, struct tfe_mono when)
{
    if (tfe_mono_before(when, p->fires)) {
        const int64_t ms = tfe_mono_sub(when, clock_mono());
        p->fires = when;
        (void)timer_after(&p->timer, ms > LOOK_MS ? LOOK_MS : ms);
    }
}

/* --- nodes ------------------------------------------------------------------------------------ */

static struct pool_node *find_node(struct pool *p, const char *id)
{
    struct pool_node key;
    return id_set(&key.id, id) == 0 ? RB_FIND(pool_tree, &p->nodes, &key) : NULL;
}

static struct tfe_mono lease_end(const struct pool *p)
{
    const int64_t ttl = p->config.ttl_ms; /* on a clock that may run 5 % fast, design 5 */
    return tfe_mono_add(clock_mono(), ttl + ttl * 106 / 1000 + 50);
}

static void renew_lease(struct pool *p, struct pool_node *node)
{
    node->lease = lease_end(p);
    TAILQ_REMOVE(&p->leases, node, by_lease);
    TAILQ_INSERT_TAIL(&p->leases, node, by_lease);
}

static struct pool_node *node_new(struct pool *p, const char *id)
{
    struct pool_node *node = calloc(1, sizeof(*node));
    if (node) {
        (void)id_set(&node->id, id); /* was checked */
        node->rests = TFE_MONO_NEVER;
        node->since = clock_wall();
        node->lease = lease_end(p);
        RB_INSERT(pool_tree, &p->nodes, node);
        TAILQ_INSERT_TAIL(&p->leases, node, by_lease);
        pool_wake(p, node->lease);
    }
    return node;
}

/* It works for nothing. */
static void detach(struct pool_node *node)
{
    if (node->job) {
        TAILQ_REMOVE(&node->job->nodes, node, of_job);
        pool_job_touch(node->job);
    }
    node->job = NULL;
    node->assignment = 0;
    node->is_leaving = false;
    node->rests = TFE_MONO_NEVER;
    node->since = clock_wall();
}

static void attach(struct pool_node *node, struct pool_job *job, uint64_t assignment,
                   enum tfe_task task)
{
    detach(node);
    node->job = job;
    node->assignment = assignment;
    node->task = task;
    node->is_told = false;
    TAILQ_INSERT_TAIL(&job->nodes, node, of_job);
    pool_job_touch(job);
    node->version = job->version;
}

static void node_drop(struct pool *p, struct pool_node *node)
{
    detach(node);
    if (node->session) {
        node->session->pooled = NULL;
    }
    TAILQ_REMOVE(&p->leases, node, by_lease);
    RB_REMOVE(pool_tree, &p->nodes, node);
    free(node->row);
    free(node);
}

static const char *label_of(const struct pool_node *node)
{
    return node->row && node->row->name[0] != '\0' ? node->row->name : node->id.text;
}

/* What its session cannot take for want of memory it must not miss. */
static void say(struct pool_node *node, const struct tfe_msg *msg)
{
    struct session *s = node->session;
    if (s && s->phase == SESSION_OPEN && s->channel) {
        const int rc = channel_send(s->channel, msg);
        if (rc != 0 && !channel_ends_itself(rc)) {
            session_cut(s);
        }
    }
}

/* --- what placement has decided --------------------------------------------------------------- */

static void tell_assign(struct pool_node *node)
{
    struct pool_job *job = node->job;
    struct tfe_msg msg = {.type = MSG_ASSIGN,
                          .u.assign = {.assignment = node->assignment,
                                       .has_role = job->n_ps > 0 || job->chief || job->evaluator,
                                       .role = node->task,
                                       .run_key = job->run_key.text}};
    if (node->session && pool_job_spec(job, &msg.u.assign.spec) == 0) {
        node->is_told = true;
        say(node, &msg);
    }
}

/* Those of the job whose assignment is durable. */
static void tell_job(struct pool_job *job)
{
    struct pool_node *node;
    TAILQ_FOREACH(node, &job->nodes, of_job)
    {
        if (!node->is_told && !node->is_leaving && node->version <= job->written) {
            tell_assign(node);
        }
    }
}

static const char *why_released(enum placement_reason reason)
{
    switch (reason) {
    case PLACEMENT_NO_REASON:
        return "it was asked for before";
    case PLACEMENT_TOO_MANY:
        return "the job may have fewer nodes now";
    case PLACEMENT_TAKEN:
        return "another job needs it for its minimum";
    case PLACEMENT_SUSPENDED:
        return "the job is suspended";
    case PLACEMENT_OVER:
        return "the job is over";
    case PLACEMENT_TOO_FEW:
        return "the job lacks nodes, and others wait";
    case PLACEMENT_UNKNOWN:
        return "the server does not know what it works for";
    }
    return "";
}

/* One event a job, of however many nodes. */
static void tell_moves(struct pool *p)
{
    struct pool_job *job;
    TAILQ_FOREACH(job, &p->jobs, link)
    {
        const struct msg_event_row given = {.kind = "assigned", .job = job->name.text};
        const struct msg_event_row taken = {.kind = "released", .job = job->name.text};
        if (job->n_given > 0) {
            events_addf(p->config.events, &given, "the job gets %u %s of the pool",
                        (unsigned)job->n_given, job->n_given == 1 ? "node" : "nodes");
        }
        if (job->n_taken > 0) {
            events_addf(p->config.events, &taken, "%u %s of the job %s released: %s",
                        (unsigned)job->n_taken, job->n_taken == 1 ? "node" : "nodes",
                        job->n_taken == 1 ? "is" : "are", job->taken_for);
        }
        job->n_given = job->n_taken = 0;
    }
}

static void release(struct pool *p, struct pool_node *node, uint64_t assignment,
                    enum placement_reason reason)
{
    const struct tfe_msg msg = {.type = MSG_RELEASE,
                                .u.release = {.assignment = assignment,
                                              .within_ms = RELEASE_MS,
                                              .says = why_released(reason)}};
    /* It was not durable yet: an agent does not answer for what it never heard of. */
    const bool is_unheard = node->session && !node->is_told && assignment == node->assignment;
    if (assignment == node->assignment && !node->is_leaving) {
        node->is_leaving = true;
        node->since = clock_wall();
        if (node->job) {
            node->job->n_taken++;
            node->job->taken_for = why_released(reason);
        }
    }
    if (is_unheard || !tfe_mono_is_never(node->rests)) {
        node->rests = clock_mono(); /* nothing of it is left there */
        pool_wake(p, node->rests);
    } else {
        say(node, &msg);
    }
}

static void carry_out(struct pool *p, const struct placement_actions *actions)
{
    struct pool_job *job = NULL;
    for (size_t i = 0; i < actions->n; i++) {
        const struct placement_action *a = &actions->v[i];
        struct pool_node *node = find_node(p, a->node);
        if (!job || strcmp(job->name.text, a->job) != 0) { /* those of a job come together */
            job = pool_job_find(p, a->job);
        }
        if (!node) {
            continue;
        }
        if (a->type == PLACEMENT_RELEASE) {
            release(p, node, a->assignment, a->reason);
        } else if (job) {
            attach(node, job, a->assignment, a->task);
            job->n_given++;
        }
    }
    if (actions->n > 0) {
        tell_moves(p);
    }
}

static void on_written(void *ctx, int rc, struct row_list *page, const char *why);

static void write_all(struct pool *p)
{
    struct pool_job *job;
    TAILQ_FOREACH(job, &p->jobs, link)
    {
        pool_job_write(job, on_written);
        if (!job->ask && job->version != job->written && p->writer) {
            pool_wake(p, job->again);
        }
    }
}

int pool_step(struct pool *p, struct placement_event event)
{
    struct placement_actions actions;
    event.now = clock_mono();
    int rc = placement_step(p->placement, &event, &actions);
    if (rc == 0) {
        p->deadline = actions.deadline;
        carry_out(p, &actions);
        pool_wake(p, p->deadline);
    }
    if (!event.is_more_to_come) {
        write_all(p);
    }
    return rc;
}

/* Of a node: thousands may come or go in one turn of the loop, and the timer decides on all. */
static int take_in(struct pool *p, struct placement_event event)
{
    event.is_more_to_come = true;
    return pool_step(p, event);
}

/* --- jobs ------------------------------------------------------------------------------------- */

static uint8_t task_of(const char *text, size_t n)
{
#define TASK_OF(NAME, number, name)                                                                \
    if (n == strlen(name) && strncmp(text, name, n) == 0) {                                        \
        return 1u << (number);                                                                     \
    }
    TFE_TASKS(TASK_OF)
#undef TASK_OF
    return 0;
}

int pool_place(struct pool *p, struct pool_job *job)
{
    struct msg_spec spec;
    struct placement_label labels[2 * MSG_POOL_LABELS_MAX];
    struct placement_wish wish = {.priority = job->priority,
                                  .is_suspended = job->suspend,
                                  .labels = labels,
                                  .min = {[TASK_WORKER] = job->min_nodes,
                                          [TASK_CHIEF] = job->chief,
                                          [TASK_PS] = job->n_ps,
                                          [TASK_EVALUATOR] = job->evaluator}};
    int rc = pool_job_spec(job, &spec);
    if (rc != 0) {
        return rc;
    }
    memcpy(wish.max, wish.min, sizeof(wish.max));
    wish.max[TASK_WORKER] = job->max_nodes;
    wish.preempt = spec.preempt;
    for (size_t i = 0; i < spec.n_labels; i++) {
        labels[wish.n_labels++] = (struct placement_label){0xf, spec.labels[i]};
    }
    for (size_t i = 0; i < spec.n_role_labels; i++) {
        const char *text = spec.role_labels[i];
        size_t n = strcspn(text, ":");
        labels[wish.n_labels++] = (struct placement_label){task_of(text, n), text + n + 1};
    }
    rc = pool_step(p, (struct placement_event){.type = job->is_placed ? PLACEMENT_JOB_CHANGED
                                                                      : PLACEMENT_JOB_SUBMITTED,
                                               .job = job->name.text,
                                               .wish = &wish});
    job->is_placed = job->is_placed || rc == 0;
    job->is_stale = true;
    pool_wake(p, clock_mono());
    return rc;
}

static void set_end(struct pool_job *job)
{
    const struct pool_condition *c = &job->conditions[pool_job_state(job)];
    const struct tfe_wall since = job->is_over ? c->at : job->started;
    const uint32_t ms = !job->is_over
                            ? (since.ms > 0 && !job->suspend ? job->active_deadline_ms : 0)
                        : job->ttl_ms == MSG_UNSET ? 0
                                                   : job->ttl_ms + 1;
    const int64_t gone = clock_wall().ms - since.ms;
    job->ends = TFE_MONO_NEVER;
    if (ms > 0) {
        job->ends = tfe_mono_add(clock_mono(), gone < 0 ? ms : gone > ms ? 0 : ms - gone);
        pool_wake(job->pool, job->ends);
    }
}

void pool_end(struct pool *p, struct pool_job *job, enum pool_condition_name how,
              const char *reason, const char *says)
{
    pool_job_is(job, how, reason, says);
    job->is_over = true;
    set_end(job);
    (void)pool_step(p, (struct placement_event){.type = PLACEMENT_JOB_OVER, .job = job->name.text});
}

/* Ends what is there of it in the core. */
static void stop_in_core(const struct pool *p, const struct pool_job *job)
{
    if (pool_job_in_core(job)) {
        (void)p->config.ops->order(
            p->config.ops_ctx, &(struct rdzv_event){.type = RDZV_STOP_JOB, .job = job->name.text});
    }
}

/* By the server itself: its trainers end as by STOP_JOB. */
static void fail(struct pool *p, struct pool_job *job, const char *reason, const char *says)
{
    const struct msg_event_row row = {
        .kind = "finished", .level = EVENT_ERROR, .job = job->name.text};
    if (pool_job_in_core(job)) {
        (void)p->config.ops->order(
            p->config.ops_ctx, &(struct rdzv_event){.type = RDZV_STOP_JOB, .job = job->name.text});
    }
    events_addf(p->config.events, &row, "the job has failed: %s", says);
    pool_end(p, job, CONDITION_FAILED, reason, says);
}

/* What the core knows of it becomes its condition. */
static void refresh(struct pool *p, struct pool_job *job)
{
    const char *state = pool_job_in_core(job);
    struct placement_view view;
    job->is_stale = false;
    if (job->is_over || !job->is_placed) {
        return;
    }
    const enum pool_condition_name was = pool_job_state(job);
    if (state && strcmp(state, "succeeded") == 0) {
        pool_end(p, job, CONDITION_SUCCEEDED, "JobSucceeded", "the job has succeeded");
    } else if (state && (strcmp(state, "failed") == 0 || strcmp(state, "stopped") == 0)) {
        bool is_failed = state[0] == 'f';
        pool_end(p, job, CONDITION_FAILED, is_failed ? "JobFailed" : "JobStopped",
                 is_failed ? "the job has failed" : "the job was stopped by an operator");
    } else if (job->suspend) {
        pool_job_is(job, CONDITION_SUSPENDED, "JobSuspended",
                    "it has no nodes until it is resumed");
    } else if (state && strcmp(state, "running") == 0) {
        pool_job_is(job, CONDITION_RUNNING, "JobRunning", "an epoch runs");
        job->failures = 0;
        if (job->started.ms == 0) {
            job->started = clock_wall();
            pool_job_touch(job);
            set_end(job);
        }
    } else if (was == CONDITION_RUNNING && state && strcmp(state, "rebuilding") == 0) {
        /* After a restart of this server, until its agents are back: it runs meanwhile. */
    } else if (was == CONDITION_RUNNING) {
        pool_job_is(job, CONDITION_RESTARTING, "JobRestarting", "another epoch is about to begin");
    } else if (was == CONDITION_CREATED || was == CONDITION_SUSPENDED) {
        const struct msg_event_row row = {.kind = "queued", .job = job->name.text};
        pool_job_is(job, CONDITION_QUEUED, "WaitsForNodes", "it waits for its nodes");
        if (pool_job_view(job, &view) && view.state == PLACEMENT_JOB_QUEUED) {
            events_addf(p->config.events, &row, "the job waits for nodes of the pool");
        }
    }
    write_all(p);
}

void pool_trace(void *ctx, const struct rdzv_trace *trace)
{
    struct pool *p = ctx;
    if ((trace->kind == TRACE_JOB_STATE || trace->kind == TRACE_JOB_FINISHED) && trace->job) {
        struct pool_job *job = pool_job_find(p, trace->job);
        if (job) {
            job->is_stale = true; /* the core is not to be asked, nor stepped, from here */
            pool_wake(p, clock_mono());
        }
    }
}

/* The row of a job is durable, or is not. */
static void on_written(void *ctx, int rc, struct row_list *page, const char *why)
{
    struct pool_job *job = ctx;
    struct pool *p = job->pool;
    (void)page;
    job->ask = NULL;
    if (rc == 0) {
        job->written = job->writing;
        job->again.ms = 0;
    } else {
        log_error("job_not_written", LOG_S("job", job->name.text), LOG_S("why", why));
        job->again = tfe_mono_add(clock_mono(), LOOK_MS);
        if (!job->is_placed && !job->is_over) {
            pool_job_is(job, CONDITION_FAILED, "NotStored", "the database did not take it");
            job->is_over = true;
        }
    }
    pool_job_settle(job, rc, why);
    if (job->is_gone && (job->is_replaced || (rc == 0 && job->written == job->version))) {
        pool_job_free(job);
        return;
    }
    if (rc == 0 && !job->is_placed && !job->is_gone && !job->is_over) {
        const int fault = pool_place(p, job);
        if (fault != 0) {
            pool_end(p, job, CONDITION_FAILED, "NotPlaced", tfe_error_sentence(fault));
        }
    }
    tell_job(job);
    write_all(p);
}

int pool_forget(struct pool *p, const char *name)
{
    struct pool_job *job = pool_job_find(p, name);
    if (!job) {
        return TFE_ENOENT;
    }
    if (!job->is_over || !TAILQ_EMPTY(&job->nodes)) {
        return TFE_ESTATE;
    }
    (void)pool_step(
        p, (struct placement_event){.type = PLACEMENT_JOB_FORGOTTEN, .job = job->name.text});
    job->is_gone = true;
    job->ends = TFE_MONO_NEVER;
    pool_job_touch(job);
    write_all(p);
    return 0;
}

/* --- what nodes say --------------------------------------------------------------------------- */

static void turn_away(struct session *s, enum tfe_refusal code, const char *sentence)
{
    session_refuse(s, code, sentence);
    session_finish(s);
}

/* What it says of itself, in place of what it said. False: no memory. */
static bool keep_row(struct pool_node *node, const struct msg_pool_row *row)
{
    struct msg_pool_row *copy = row_copy(&kind_pool_node, row);
    if (copy) {
        free(node->row);
        node->row = copy;
    }
    return copy != NULL;
}

static bool keep_pool(struct pool_node *node, const struct msg_pool *msg)
{
    char labels[MSG_POOL_LABELS_MAX * (MSG_POOL_LABEL_MAX + 1)];
    struct text text;
    struct msg_pool_row row = {.node = node->id.text,
                               .name = msg->node_name,
                               .labels = labels,
                               .host = msg->host,
                               .state = "",
                               .job = ""};
    text_init(&text, labels, sizeof(labels));
    for (size_t i = 0; i < msg->n_labels; i++) {
        text_add(&text, i > 0 ? "," : "");
        text_add(&text, msg->labels[i]);
    }
    if (node->row) {
        row.facts = node->row->facts;
    }
    return keep_row(node, &row);
}

/* Its labels, and the jobs that its token is for. */
static int came(struct pool *p, struct pool_node *node, const struct session *s,
                const struct msg_pool *msg)
{
    const char *labels[MSG_POOL_LABELS_MAX + 1];
    char scope[sizeof(PLACEMENT_SCOPE) + MSG_SCOPE_MAX];
    size_t n = msg->n_labels;
    for (size_t i = 0; i < n; i++) {
        labels[i] = msg->labels[i];
    }
    if (strcmp(s->by->scope, PRINCIPAL_EVERY_JOB) != 0) {
        (void)snprintf(scope, sizeof(scope), PLACEMENT_SCOPE "%s", s->by->scope);
        labels[n++] = scope;
    }
    return take_in(p, (struct placement_event){.type = PLACEMENT_NODE_CAME,
                                               .node = node->id.text,
                                               .assignment = msg->assignment,
                                               .labels = labels,
                                               .n_labels = n});
}

static bool has_reserved_label(const struct msg_pool *msg)
{
    for (size_t i = 0; i < msg->n_labels; i++) {
        if (msg->labels[i][0] == '@') {
            return true;
        }
    }
    return false;
}

static void take_pool(struct pool *p, struct session *s, const struct msg_pool *msg)
{
    struct pool_node *node = find_node(p, msg->node);
    if (has_reserved_label(msg) || (s->pooled && s->pooled != node)) {
        turn_away(s, REFUSAL_BAD_REQUEST,
                  s->pooled ? "a session is one node's alone" : "no label begins with '@'");
        return;
    }
    bool is_new = !node;
    node = node ? node : node_new(p, msg->node);
    if (!node || !keep_pool(node, msg)) {
        if (node && is_new) {
            node_drop(p, node);
        }
        turn_away(s, REFUSAL_LIMIT_REACHED, "the server is out of memory; try again later");
        return;
    }
    if (node->session && node->session != s) {
        struct session *old = node->session;
        node->session = NULL;
        old->pooled = NULL;
        if (old->phase == SESSION_OPEN) {
            turn_away(old, REFUSAL_NODE_REPLACED, "a newer session of this node is there");
        }
    }
    node->session = s;
    node->is_lost = false;
    s->pooled = node;
    renew_lease(p, node);
    if (msg->assignment != node->assignment) {
        detach(node); /* an ASSIGN was lost, or a FREED; or a server that knew more */
        node->assignment = msg->assignment;
    }
    node->is_told = node->assignment != 0;
    const struct tfe_msg welcome = {.type = MSG_WELCOME,
                                    .u.welcome = {.node = node->id.text,
                                                  .incarnation = p->config.incarnation,
                                                  .run = 1,
                                                  .ttl_ms = p->config.ttl_ms,
                                                  .fence_ms = p->config.ttl_ms,
                                                  .renew_ms = p->config.ttl_ms / 3,
                                                  .spread_ms = p->config.ttl_ms / 10}};
    say(node, &welcome);
    if (s->pooled && came(p, node, s, msg) != 0) {
        /* It may have been here before: placement is to give nobody a node that is no more. */
        (void)take_in(p,
                      (struct placement_event){.type = PLACEMENT_NODE_GONE, .node = node->id.text});
        node_drop(p, node);
        turn_away(s, REFUSAL_LIMIT_REACHED,
                  "the pool has too many different sets of labels, or no memory");
    }
}

static void take_renew(struct pool *p, struct pool_node *node, const struct msg_renew *msg)
{
    const struct tfe_msg renewed = {.type = MSG_RENEWED,
                                    .u.renewed = {.number = msg->number,
                                                  .ttl_ms = p->config.ttl_ms,
                                                  .fence_ms = p->config.ttl_ms}};
    renew_lease(p, node);
    say(node, &renewed);
}

/* What an agent says of how it ended that never was one of the job: it could not be told to begin,
 * found no command, or was not let in. Its node rests. */
static bool is_failed_start(const struct pool_node *node, uint32_t code)
{
    return node->job && !node->job->is_over && !node->is_leaving && code != 0 && code != 130 &&
           code != 143;
}

static void freed(struct pool *p, struct pool_node *node)
{
    const uint64_t assignment = node->assignment;
    const struct pool_job *job = node->job;
    detach(node);
    if (job && job->is_over && TAILQ_EMPTY(&job->nodes)) {
        stop_in_core(p, job); /* one that was about to come in has opened it */
    }
    int rc = take_in(p, (struct placement_event){.type = PLACEMENT_NODE_FREED,
                                                 .node = node->id.text,
                                                 .assignment = assignment});
    if (rc == TFE_ENOMEM && node->session) {
        session_finish(node->session); /* it says so again on its next connection */
    }
}

static void take_freed(struct pool *p, struct pool_node *node, const struct msg_freed *msg)
{
    struct pool_job *job = node->job;
    char says[256];
    if (msg->assignment != node->assignment || !tfe_mono_is_never(node->rests)) {
        return;
    }
    log_info("pool_node_freed", LOG_S("node", node->id.text), LOG_U("code", msg->code),
             LOG_S("job", job ? job->name.text : NULL), LOG_S("says", msg->says));
    if (job && job->is_stale) {
        refresh(p, job);
    }
    if (!is_failed_start(node, msg->code)) {
        node->failures = 0;
        freed(p, node);
        return;
    }
    const uint32_t n = node->failures++;
    (void)snprintf(says, sizeof(says), "%.60s ended with code %u at once%s%.130s", label_of(node),
                   (unsigned)msg->code, msg->says[0] != '\0' ? ": " : "", msg->says);
    node->rests = tfe_mono_add(clock_mono(), n < 6 ? (int64_t)REST_MS << n : (int64_t)REST_MAX_MS);
    node->since = clock_wall();
    pool_wake(p, node->rests);
    if (job->started.ms == 0 && ++job->failures > job->limit) {
        fail(p, job, "BackoffLimitExceeded", says);
    }
}

static void take_facts(struct pool_node *node, const struct msg_facts *facts)
{
    struct msg_pool_row row = *node->row;
    row.facts = *facts;
    (void)keep_row(node, &row); /* what there is no memory for is not known */
}

void pool_take(struct pool *p, struct session *s, const struct tfe_msg *msg)
{
    struct pool_node *node = s->pooled;
    switch ((int)msg->type) {
    case MSG_POOL:
        take_pool(p, s, &msg->u.pool);
        return;
    case MSG_RENEW:
        take_renew(p, node, &msg->u.renew);
        return;
    case MSG_FREED:
        take_freed(p, node, &msg->u.freed);
        return;
    case MSG_FACTS:
        take_facts(node, &msg->u.facts);
        return;
    case MSG_VITALS:
        return;
    case MSG_GOODBYE:
        session_finish(s);
        node->lease.ms = 0;
        TAILQ_REMOVE(&p->leases, node, by_lease);
        TAILQ_INSERT_HEAD(&p->leases, node, by_lease);
        return;
    }
    turn_away(s, REFUSAL_BAD_REQUEST, "a node of the pool does not say this");
}

const char *pool_node_id(const struct pool_node *node)
{
    return node->id.text;
}

bool pool_holds(const struct pool *p, const char *name)
{
    const struct pool_job *job = pool_job_find(p, name);
    return job && (!job->is_over || !TAILQ_EMPTY(&job->nodes));
}

void pool_left(struct session *s)
{
    struct pool_node *node = s->pooled;
    s->pooled = NULL;
    if (!node) {
        return;
    }
    node->session = NULL;
    if (!s->all->stopping) {
        node->is_lost = true;
        node->since = clock_wall();
        pool_wake(s->all->pool, clock_mono());
    }
}

/* --- time ------------------------------------------------------------------------------------- */

/* Its connection is gone: a free one is no more, the others' leases run. */
static void lose_some(struct pool *p)
{
    for (struct pool_node *node = RB_MIN(pool_tree, &p->nodes), *next; node; node = next) {
        next = RB_NEXT(pool_tree, &p->nodes, node);
        if (node->is_lost) {
            node->is_lost = false;
            (void)take_in(
                p, (struct placement_event){.type = PLACEMENT_NODE_LOST, .node = node->id.text});
            if (node->assignment == 0) {
                node_drop(p, node);
            }
        } else if (!tfe_mono_before(clock_mono(), node->rests)) {
            freed(p, node);
        } else {
            pool_wake(p, node->rests);
        }
    }
}

static void end_leases(struct pool *p)
{
    struct pool_node *node;
    while ((node = TAILQ_FIRST(&p->leases)) && !tfe_mono_before(clock_mono(), node->lease)) {
        struct session *s = node->session;
        log_warn("pool_node_gone", LOG_S("node", node->id.text), LOG_S("name", label_of(node)));
        (void)take_in(p,
                      (struct placement_event){.type = PLACEMENT_NODE_GONE, .node = node->id.text});
        node_drop(p, node);
        if (s && s->phase == SESSION_OPEN) {
            session_finish(s);
        }
    }
    if (node) {
        pool_wake(p, node->lease);
    }
}

/* Its run is over there, and nothing that it ran may live; or it never came there. */
static bool core_forgets(const struct pool *p, const struct pool_job *job)
{
    return !pool_job_in_core(job) ||
           p->config.ops->order(p->config.ops_ctx,
                                &(struct rdzv_event){.type = RDZV_FORGET, .job = job->name.text}) ==
               0;
}

static void look_at_jobs(struct pool *p)
{
    for (struct pool_job *job = TAILQ_FIRST(&p->jobs), *next; job; job = next) {
        next = TAILQ_NEXT(job, link);
        if (job->is_stale) {
            refresh(p, job);
        }
        if (job->is_gone || tfe_mono_before(clock_mono(), job->ends)) {
            pool_wake(p, job->ends);
        } else if (!job->is_over) {
            fail(p, job, "DeadlineExceeded", "it was active longer than its active deadline");
        } else if (!TAILQ_EMPTY(&job->nodes) || !core_forgets(p, job) ||
                   pool_forget(p, job->name.text) != 0) {
            job->ends = tfe_mono_add(clock_mono(), LOOK_MS);
            pool_wake(p, job->ends);
        }
    }
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct pool *p = ctx;
    (void)fd;
    (void)what;
    p->fires = TFE_MONO_NEVER;
    lose_some(p);
    end_leases(p);
    look_at_jobs(p);
    if (!tfe_mono_before(clock_mono(), p->deadline)) {
        (void)pool_step(p, (struct placement_event){.type = PLACEMENT_TICK});
    }
    pool_wake(p, p->deadline);
    write_all(p);
}

/* --- its beginning and end -------------------------------------------------------------------- */

int pool_new(const struct pool_config *config, struct pool **ret)
{
    static const struct placement_config settings = {.gang_wait_ms = GANG_WAIT_MS};
    struct pool *p = calloc(1, sizeof(*p));
    if (!p) {
        return TFE_ENOMEM;
    }
    p->config = *config;
    p->fires = TFE_MONO_NEVER;
    p->deadline = TFE_MONO_NEVER;
    RB_INIT(&p->nodes);
    TAILQ_INIT(&p->leases);
    TAILQ_INIT(&p->jobs);
    p->placement =
        placement_new(&heap_mem, &settings, (uint64_t)clock_wall().ms * ASSIGNMENTS_EACH_MS);
    if (!p->placement || arena_init(&p->arena, ARENA_CAP) != 0 ||
        evtimer_assign(&p->timer, config->base, on_timer, p) != 0) {
        pool_free(p);
        return TFE_ENOMEM;
    }
    *ret = p;
    return 0;
}

void pool_free(struct pool *p)
{
    if (!p) {
        return;
    }
    while (!RB_EMPTY(&p->nodes)) {
        node_drop(p, RB_ROOT(&p->nodes));
    }
    while (!TAILQ_EMPTY(&p->jobs)) {
        pool_job_free(TAILQ_FIRST(&p->jobs));
    }
    if (event_initialized(&p->timer)) {
        (void)event_del(&p->timer);
    }
    placement_free(p->placement);
    arena_done(&p->arena);
    free(p);
}

/* A node that worked for it, which has its lease to come back in. */
static int restore_node(struct pool *p, struct pool_job *job, const char *id, uint64_t assignment,
                        enum tfe_task task)
{
    struct pool_node *node = id_is_valid(id) ? find_node(p, id) : NULL;
    if (!id_is_valid(id) || (node && node->assignment > assignment)) {
        return 0;
    }
    if (node) { /* the row of the job that it has left was not written any more */
        (void)pool_step(p, (struct placement_event){.type = PLACEMENT_NODE_GONE, .node = id});
        node_drop(p, node);
    }
    node = node_new(p, id);
    if (!node) {
        return TFE_ENOMEM;
    }
    int rc = pool_step(p, (struct placement_event){.type = PLACEMENT_RESTORED,
                                                   .node = id,
                                                   .job = job->name.text,
                                                   .assignment = assignment,
                                                   .task = task});
    if (rc != 0) {
        node_drop(p, node);
        return rc == TFE_ENOMEM ? rc : 0;
    }
    attach(node, job, assignment, task);
    node->is_told = true;
    return 0;
}

/* ctx is a struct pool. */
static int load_job(void *ctx, const struct store_submission *row)
{
    struct pool *p = ctx;
    struct pool_job *job;
    int rc = pool_job_load(p, row, &job);
    if (rc == TFE_EINVAL) {
        log_error("submission_set_aside", LOG_S("job", row->job));
        return 0;
    }
    rc = rc == 0 ? pool_place(p, job) : rc;
    if (rc != 0 && rc != TFE_ENOMEM) { /* a server that does not start helps nobody */
        log_error("submission_set_aside", LOG_S("job", row->job),
                  LOG_S("why", tfe_error_sentence(rc)));
        pool_job_free(job);
        return 0;
    }
    for (const char *line = row->nodes; rc == 0 && line; line = strchr(line, '\n')) {
        char id[TFE_ID_MAX + 1];
        char assignment[24];
        char task[4];
        line += *line == '\n';
        const char *rest = line;
        if (pool_job_word(&rest, id, sizeof(id)) &&
            pool_job_word(&rest, assignment, sizeof(assignment)) &&
            pool_job_word(&rest, task, sizeof(task))) {
            rc = restore_node(p, job, id, strtoull(assignment, NULL, 10),
                              (enum tfe_task)strtoul(task, NULL, 10));
        }
    }
    if (rc == 0 && job->is_over) {
        rc = pool_step(p,
                       (struct placement_event){.type = PLACEMENT_JOB_OVER, .job = job->name.text});
    }
    if (rc == 0) {
        job->written = job->version;
        set_end(job);
    }
    return rc;
}

int pool_load(struct pool *p, struct store *store, struct tfe_why *why)
{
    return store_read_submissions(store, load_job, p, why);
}

void pool_keep(struct pool *p, struct writer *writer)
{
    p->writer = writer;
    write_all(p);
}
