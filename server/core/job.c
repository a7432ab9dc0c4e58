/* server/core/job.c: a job from its first JOIN to its end: its sizes and wishes, its memory, how it
 * ends. What moves it from state to state is in states.c. */
#include <string.h>

#include "common/base/text.h"
#include "server/core/core.h"

int job_compare(const struct job *a, const struct job *b)
{
    return id_compare(&a->name, &b->name);
}

RB_GENERATE(job_tree, job, by_name, job_compare)

struct job *job_find(struct rdzv *r, const char *name)
{
    struct job key;
    if (id_set(&key.name, name)) {
        return NULL;
    }
    return RB_FIND(job_tree, &r->jobs, &key);
}

static uint32_t wish(uint32_t asked, uint32_t fallback)
{
    return asked == MSG_UNSET ? fallback : asked;
}

static void take_wishes(struct rdzv *r, struct job *job, const struct msg_join *join)
{
    job->min_nodes = join->min_nodes;
    job->max_nodes = join->max_nodes;
    job->nproc = join->nproc;
    job->max_restarts = wish(join->max_restarts, r->config.max_restarts);
    job->gather_ms = wish(join->gather_ms, r->config.gather_ms);
    job->grow_wait_ms = wish(join->grow_wait_ms, r->config.grow_wait_ms);
    job->stop_grace_ms = wish(join->stop_grace_ms, r->config.stop_grace_ms);
    job->script_digest = join->script_digest;
    job->elastic_timeout_ms = wish(join->elastic_timeout_ms, r->config.elastic_timeout_ms);
    job->chief_grace_ms = wish(join->chief_grace_ms, 0);
    job->no_grow = join->no_grow;
    job->run_key.text[0] = '\0';
    if (join->run_key) {
        (void)id_set(&job->run_key, join->run_key); /* was checked */
    }
}

struct job *job_new(struct rdzv *r, const struct msg_join *join)
{
    struct job *job = mem_new(r->mem, 1, sizeof(*job));
    if (!job) {
        return NULL;
    }
    if (id_set(&job->name, join->job)) {
        mem_free(r->mem, job);
        return NULL;
    }
    take_wishes(r, job, join);
    job->run = 1;
    job->is_first_epoch = true;
    job->state = JOB_WAITING;
    job->waiting_since = r->now;
    job->timer.kind = TIMER_JOB;
    job->exit_deadline = TFE_MONO_NEVER;
    job->epoch.leader_until = TFE_MONO_NEVER;
    job->write.again = TFE_MONO_NEVER;
    plan_begin_run(job);
    ledger_begin_run(job);
    RB_INIT(&job->nodes);
    RB_INIT(&job->probes);
    RB_INIT(&job->answering);
    return job;
}

void job_begin_run(struct rdzv *r, struct job *job, const struct msg_join *join)
{
    late_remember(job);
    tables_forget(job);
    take_wishes(r, job, join);
    job->run++;
    job->restarts = 0;
    job->fault = (struct fault){.epoch = 0};
    plan_begin_run(job);
    ledger_begin_run(job);
    job->write.is_over = false;
    job->epoch.opened = false; /* nothing of the last run needs to be waited for */
    job->has_cause = false;
    job->rank0_finished = false;
    job->has_progressed = false;
    job->exit_deadline = TFE_MONO_NEVER;
    job->state = JOB_WAITING;
    job->waiting_since = r->now;
    job->is_first_epoch = true;
}

int job_reserve(struct rdzv *r, struct job *job, size_t nodes, uint32_t max_nodes, uint32_t nproc)
{
    size_t max = (size_t)max_nodes + TFE_BUG(max_off_by_one);
    size_t seats = nodes < max ? nodes : max;
    size_t cap = job->cap_nodes;
    if (nodes > cap) {
        size_t want = nodes + nodes / 2;
        void *v = job->chosen;
        if (mem_reserve(r->mem, &v, &cap, want, sizeof(struct node *))) {
            return TFE_ENOMEM;
        }
        job->chosen = v;
        job->cap_nodes = cap;
    }
    size_t rows = seats * nproc;
    if (rows <= job->cap_rows && seats <= job->cap_seats) {
        return 0;
    }
    /* Several arrays, one capacity: it counts only once all have grown. */
    size_t grown = job->cap_rows + job->cap_rows / 2;
    grown = grown < rows ? rows : grown;
    size_t grown_seats = job->cap_seats + job->cap_seats / 2;
    grown_seats = grown_seats < seats ? seats : grown_seats;
    if (tables_reserve(r, job, grown, grown_seats)) {
        return TFE_ENOMEM;
    }
    cap = 0;
    void *v = job->epoch.seats;
    if (mem_reserve(r->mem, &v, &cap, grown_seats, sizeof(struct node *))) {
        return TFE_ENOMEM;
    }
    job->epoch.seats = v;
    cap = 0;
    v = job->write.members;
    if (mem_reserve(r->mem, &v, &cap, grown_seats, sizeof(*job->write.members))) {
        return TFE_ENOMEM;
    }
    job->write.members = v;
    cap = 0;
    v = job->write.ports;
    if (mem_reserve(r->mem, &v, &cap, grown, sizeof(*job->write.ports))) {
        return TFE_ENOMEM;
    }
    job->write.ports = v;
    job->cap_rows = grown;
    job->cap_seats = grown_seats;
    return 0;
}

void job_free(struct rdzv *r, struct job *job)
{
    struct node *node;
    struct node *next;
    RB_FOREACH_SAFE(node, node_tree, &job->nodes, next)
    {
        RB_REMOVE(node_tree, &job->nodes, node);
        mem_free(r->mem, node);
    }
    mem_free(r->mem, job->nobody);
    mem_free(r->mem, job->chosen);
    tables_done(r, job);
    mem_free(r->mem, job->epoch.seats);
    mem_free(r->mem, job->write.members);
    mem_free(r->mem, job->write.ports);
    mem_free(r->mem, job);
}

void job_drop_if_unused(struct rdzv *r, struct job *job)
{
    if (job->n_nodes > 0 || job->epoch.number != 0 || job->rebuild.epoch != 0 ||
        tfe_mono_before(r->now, job->fenced_until) || job_is_over(job) || job->write.is_over) {
        return;
    }
    wheel_cancel(&r->wheel, &job->timer.wheel);
    RB_REMOVE(job_tree, &r->jobs, job);
    r->n_jobs--;
    job->next_dead = r->dead_jobs;
    r->dead_jobs = job;
}

bool job_engages(const struct job *job, const struct node *node)
{
    return node->seat != NO_SEAT && (job->state == JOB_RUNNING || job->state == JOB_COMMITTING);
}

bool job_is_over(const struct job *job)
{
    return job->state == JOB_SUCCEEDED || job->state == JOB_FAILED || job->state == JOB_STOPPED;
}

enum tfe_result job_result_of(enum job_state state)
{
    return state == JOB_SUCCEEDED ? RESULT_SUCCEEDED
           : state == JOB_FAILED  ? RESULT_FAILED
                                  : RESULT_STOPPED;
}

enum tfe_result job_result(const struct job *job)
{
    return job_result_of(job->state);
}

uint64_t job_next_epoch(const struct job *job)
{
    return job->highest_epoch + 1;
}

void job_want_switch(struct job *job, enum tfe_cause cause)
{
    /* A switch that waits for the disk alone is one for growth, which another reason overtakes. */
    if (!job->has_cause || (job->state == JOB_RUNNING && job->is_planned)) {
        job->has_cause = true;
        job->next_cause = cause;
    }
    job->is_planned = false; /* also where it was: something of the epoch is broken now */
}

void job_plan_switch(struct job *job, enum tfe_cause cause)
{
    if (!job->has_cause) {
        job_want_switch(job, cause);
        job->is_planned = true;
    }
}

/* --- the end ---------------------------------------------------------------------------------- */

void job_tell_finish(struct rdzv *r, struct job *job, uint32_t session)
{
    struct msg_finish *finish = &send_to(r, session, MSG_FINISH)->u.finish;
    finish->result = job_result(job);
    finish->run = job->run;
    finish->sentence = job->sentence;
    send_close(r, session);
}

void job_succeed(struct rdzv *r, struct job *job)
{
    if (job->write.is_over) {
        return; /* how it ends has been decided, and may be on the disk already */
    }
    struct text text;
    text_init(&text, job->sentence, sizeof(job->sentence));
    text_add(&text, "job ");
    text_add(&text, job->name.text);
    text_add(&text, " succeeded");
    job_finish(r, job, JOB_SUCCEEDED);
}
