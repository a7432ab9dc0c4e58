/* server/core/job.c: a job from its first JOIN to its end: its memory and its runs. States are in
 * states.c. */
#include "server/core/job.h"

#include <string.h>

#include "common/text/text.h"
#include "server/core/epoch.h"
#include "server/core/evaluator.h"
#include "server/core/job_progress.h"
#include "server/core/layout.h"
#include "server/core/lease.h"
#include "server/core/ledger.h"
#include "server/core/node.h"
#include "server/core/persist.h"
#include "server/core/plan.h"
#include "server/core/states.h"
#include "server/core/table.h"
#include "server/core/verdict.h"

int job_compare(const struct job *a, const struct job *b)
{
    return id_compare(&a->name, &b->name);
}

RB_GENERATE(job_tree, job, by_name, job_compare)

struct job *job_find(const struct rdzv *r, const char *name)
{
    struct job *job = name ? RB_ROOT(&r->jobs) : NULL;
    while (job) { /* RB_FIND needs a whole job as its key */
        int order = strcmp(name, job->name.text);
        if (order == 0) {
            break;
        }
        job = order < 0 ? RB_LEFT(job, by_name) : RB_RIGHT(job, by_name);
    }
    return job;
}

void job_insert(struct rdzv *r, struct job *job)
{
    RB_INSERT(job_tree, &r->jobs, job);
    r->n_jobs++;
}

struct rdzv_run_end run_last(const struct job *job)
{
    const struct run *run = &job->run;
    return (struct rdzv_run_end){
        .run = run->number, .key = run->key, .result = job_result(job), .at = run->ended};
}

static void remember(struct run *run, const struct rdzv_run_end *end)
{
    if (end->key.text[0] == '\0') {
        return;
    }
    if (run->n_past == RDZV_RUNS_MAX) {
        memmove(&run->past[0], &run->past[1], (RDZV_RUNS_MAX - 1) * sizeof(run->past[0]));
        run->n_past--;
    }
    run->past[run->n_past++] = *end;
}

/* Starts the job's next run with this name (NULL: none). The first run follows run 0. */
static void run_begin(struct job *job, const char *key)
{
    struct run *run = &job->run;
    if (run->number > 0) {
        struct rdzv_run_end last = run_last(job);
        remember(run, &last);
    }
    run->number += run->number < MSG_RUN_MAX ? 1 : 0;
    run->is_new = true;
    run->key.text[0] = '\0';
    if (key) {
        (void)id_set(&run->key, key); /* cannot fail: the codec has checked the key */
    }
}

void job_begin_run(struct rdzv *r, struct job *job, const struct job_spec *spec,
                   const char *run_key)
{
    tables_forget(job);
    run_begin(job, run_key); /* records how the previous run ended, from the job's state */
    job->spec = *spec;
    epoch_begin_run(job);
    evaluator_begin_run(job);
    job->is_resized = false;
    job->is_ps_resized = false;
    job_spec_fill(&job->spec, &r->config.defaults);
    job->state = JOB_WAITING;
    job->phase.waiting_since = r->now;
    job->phase.serve_until = TFE_MONO_NEVER;
    job_update_visible_state(r, job, r->wall);
    plan_begin_run(job);
    ledger_begin_run(job);
    verdict_begin_run(job, (struct budget){.used = 0});
    success_clear(job);
    switch_clear(job);
    persist_begin_run(&job->persist);
}

struct job *job_new(struct rdzv *r, const char *name, const struct job_spec *spec,
                    const char *run_key)
{
    struct job *job = mem_new(r->mem, 1, sizeof(*job));
    if (!job) {
        return NULL;
    }
    if (id_set(&job->name, name)) {
        mem_free(r->mem, job);
        return NULL;
    }
    job->timer.kind = TIMER_JOB;
    RB_INIT(&job->nodes);
    RB_INIT(&job->probes);
    RB_INIT(&job->answering);
    job_begin_run(r, job, spec, run_key);
    fence_set_unknown(&job->fence, lease_longest_fence_end(r, r->began, 0));
    return job;
}

static size_t half_more(size_t has, size_t needs)
{
    size_t grown = has + has / 2;
    return grown < needs ? needs : grown;
}

int job_reserve(struct rdzv *r, struct job *job, size_t nodes, const struct job_spec *spec)
{
    size_t slots =
        nodes < layout_max_nodes(spec) || job->is_resized ? nodes : layout_max_nodes(spec);
    size_t rows = slots * spec->nproc;
    if (nodes > job->cap_nodes && mem_reserve(r->mem, &job->chosen, &job->cap_nodes,
                                              nodes + nodes / 2, sizeof(struct node *))) {
        return TFE_ENOMEM;
    }
    if (rows <= job->cap_rows && slots <= job->cap_slots) {
        return 0;
    }
    /* Several arrays share one capacity, which is raised once all have grown. */
    rows = half_more(job->cap_rows, rows);
    slots = half_more(job->cap_slots, slots);
    int rc = epoch_reserve(r, &job->epoch, slots);
    if (rc == 0) {
        rc = tables_reserve(r, job, rows, slots);
    }
    if (rc == 0) {
        rc = persist_reserve(r, &job->persist, rows, slots);
    }
    if (rc == 0) {
        job->cap_rows = rows;
        job->cap_slots = slots;
    }
    return rc;
}

void job_free(struct rdzv *r, struct job *job)
{
    struct node *node;
    struct node *next;
    RB_FOREACH_SAFE(node, node_tree, &job->nodes, next)
    {
        RB_REMOVE(node_tree, &job->nodes, node);
        node_free(r, node);
    }
    node_free(r, job->rebuild.placeholder);
    mem_free(r->mem, job->chosen);
    mem_free(r->mem, job->epoch.slots);
    tables_done(r, job);
    persist_free(r, &job->persist);
    mem_free(r->mem, job);
}

/* Returns true if the job has nodes, not counting those that are gone and only keep their slots. */
static bool has_nodes(struct job *job)
{
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (!node->is_gone) {
            return true;
        }
    }
    return false;
}

bool job_is_idle(const struct rdzv *r, struct job *job)
{
    return (job_is_over(job) || job->state == JOB_WAITING) && !has_nodes(job) &&
           is_past(r, fence_end(job)) && !job->persist.is_open && !job->persist.is_due &&
           !tfe_mono_before(r->now, job->fence.run_until);
}

void job_clear(struct rdzv *r, struct job *job)
{
    struct node *node;
    struct node *next;
    RB_FOREACH_SAFE(node, node_tree, &job->nodes, next)
    {
        slot_clear(node);
        node_remove(r, node);
    }
    epoch_leave(job);
}

bool job_is_open_to(const struct rdzv *r, struct job *job, const struct job_spec *spec)
{
    bool has_epoch = job->state != JOB_WAITING && job->state != JOB_PREPARING;
    return !has_epoch && !job->persist.is_gone && !has_nodes(job) &&
           (spec->nproc == job->spec.nproc || job_is_idle(r, job));
}

void job_change(struct rdzv *r, struct job *job, const struct job_spec *spec)
{
    struct job_spec old = job->spec;
    if (job_is_idle(r, job)) { /* the last epoch's members were kept for its fence only */
        job_clear(r, job);
        tables_forget(job);
    }
    job->spec = *spec;
    job_spec_fill(&job->spec, &r->config.defaults);
    if (job->is_resized) {
        job->spec.min_nodes = old.min_nodes;
        job->spec.max_nodes = old.max_nodes;
    }
    if (job->is_ps_resized) {
        job->spec.n_ps = old.n_ps;
    }
}

void job_drop_if_unused(struct rdzv *r, struct job *job)
{
    bool is_gone = job->persist.is_gone && !job->persist.is_open;
    if (!is_gone && (job->n_nodes > 0 || job->epoch.number != 0 || job->rebuild.epoch != 0 ||
                     tfe_mono_before(r->now, job->fence.run_until) || job_is_over(job) ||
                     job->persist.is_over || job->persist.is_gone)) {
        return;
    }
    wheel_cancel(&r->wheel, &job->timer.wheel);
    RB_REMOVE(job_tree, &r->jobs, job);
    r->n_jobs--;
    job->next_dead = r->dead_jobs;
    r->dead_jobs = job;
}

/* --- runs ------------------------------------------------------------------------------------- */

void run_go_on(struct job *job, uint32_t number)
{
    job->run.number = number;
    job->run.is_new = false;
}

void run_restore(struct job *job, uint32_t number, const char *sentence, struct tfe_wall ended)
{
    job->run.number = number;
    job->run.is_new = false;
    run_end_as(job, ended, sentence);
}

void run_begun(struct job *job)
{
    job->run.is_new = false;
}

const struct rdzv_run_end *run_find(const struct job *job, const char *key)
{
    for (uint32_t i = 0; i < job->run.n_past; i++) {
        if (strcmp(job->run.past[i].key.text, key) == 0) {
            return &job->run.past[i];
        }
    }
    return NULL;
}

void run_describe(struct text *text, const struct job *job, const struct rdzv_run_end *run)
{
    text_addf(text, "job %s run %u ended %s", job->name.text, run->run,
              msg_result_name(run->result));
    if (run->at.ms > 0) {
        text_add(text, " at ");
        text_add_wall(text, run->at);
    }
}

void run_send_end(struct rdzv *r, const struct job *job, const struct rdzv_run_end *run,
                  uint32_t session)
{
    struct text text;
    text_init(&text, r->sentence, sizeof(r->sentence));
    run_describe(&text, job, run);
    send_finish(r, session, run->result, run->run, r->sentence);
}

void run_end_as(struct job *job, struct tfe_wall when, const char *sentence)
{
    job->run.ended = when;
    if (sentence) {
        memcpy(job->run.sentence, sentence, strlen(sentence) + 1);
    }
}
