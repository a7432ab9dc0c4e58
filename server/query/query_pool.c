/* server/query/query_pool.c: shows the nodes of the pool and submitted jobs to operators. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "server/jobs/pool_private.h"
#include "server/query/mask_secrets.h"

/* --- jobs --- */

bool pool_shows_arguments(const struct pool *p, const struct principal *by)
{
    return by->role != PRINCIPAL_OBSERVER || p->config.shows_arguments;
}

const char *pool_next_job(const struct pool *p, const char *after)
{
    const struct pool_job *job;
    const char *found = NULL;
    TAILQ_FOREACH(job, &p->jobs, link)
    {
        const char *name = job->name.text;
        if (!job->is_gone && (!after || strcmp(name, after) > 0) &&
            (!found || strcmp(name, found) < 0)) {
            found = name;
        }
    }
    return found;
}

static uint32_t n_nodes(const struct pool_job *job)
{
    uint32_t n = 0;
    const struct pool_node *node;
    TAILQ_FOREACH(node, &job->nodes, of_job)
    {
        n++;
    }
    return n;
}

/* Adds the job's text without its secrets to the row. */
static void show_spec(struct pool_job *job, bool shows_arguments, struct msg_status_job *row)
{
    struct pool *p = job->pool;
    json_t *spec = pool_job_spec(job);
    free(p->shown);
    p->shown = spec && mask_job(spec, shows_arguments) == 0 ? job_file_format(spec) : NULL;
    row->spec = p->shown; /* NULL if out of memory: the other fields are shown */
    json_decref(spec);
}

/* Returns true if the core's job of this name is a later run than the submitted one. */
static bool is_later(const struct pool_job *job, const struct msg_status_job *row)
{
    return job->is_over &&
           (!msg_job_is_over(row->state) || row->ended.ms > pool_job_condition(job)->at.ms);
}

bool pool_show_job(struct pool *p, const char *name, bool is_in_core, struct pool_texts *texts,
                   struct msg_status_job *row)
{
    struct pool_job *job = pool_job_find(p, name);
    if (!job) {
        return false;
    }
    const bool is_its_run =
        is_in_core && strcmp(rdzv_get_run(p->config.core, name).key, job->run_key.text) == 0;
    if (is_in_core && !is_its_run && is_later(job, row)) {
        return false;
    }
    if (!is_its_run) {
        *row = (struct msg_status_job){.job = job->name.text,
                                       .phase = "",
                                       .run = is_in_core ? row->run + 1 : 1,
                                       .epoch = is_in_core ? row->epoch : 0,
                                       .nproc = 1};
    }
    const struct pool_condition *is = pool_job_condition(job);
    row->state = pool_job_state(job);
    row->since = is->at;
    row->min_nodes = job->needs.min_nodes;
    row->max_nodes = job->needs.max_nodes;
    row->n_ps = job->needs.n_ps;
    row->chief = job->needs.chief;
    row->evaluator = job->needs.evaluator;
    row->is_submitted = true;
    row->priority = job->needs.priority;
    row->nproc = job->needs.nproc;
    row->n_assigned = n_nodes(job);
    row->created = job->conditions[CONDITION_CREATED].at;
    row->lingers = job->lingers;
    row->waits = pool_job_waits(job, texts->waits);
    if (row->state == STATE_WAITING || row->state == STATE_SUSPENDED) {
        const int64_t ms = clock_wall().ms - is->at.ms;
        row->waits_since_ms = ms < 0                     ? 0
                              : ms > MSG_DURATION_MAX_MS ? MSG_DURATION_MAX_MS
                                                         : (uint32_t)ms;
    }
    row->ended.ms = job->is_over ? is->at.ms : 0;
    if (row->state == STATE_FAILED || row->state == STATE_CANCELLED) {
        row->reason = is->message;
    } else if (job->start_error[0] != '\0') {
        row->reason = job->start_error;
        row->retry_ms = pool_job_retry_ms(job);
    }
    show_spec(job, texts->shows_arguments, row);
    return true;
}

bool pool_show_condition(const struct pool *p, const char *name, unsigned *at, char buf[16],
                         struct msg_condition_row *ret)
{
    const struct pool_job *job = pool_job_find(p, name);
    while (job && *at < CONDITION__COUNT && job->conditions[*at].at.ms == 0) {
        ++*at;
    }
    if (!job || *at == CONDITION__COUNT) {
        return false;
    }
    const struct pool_condition *c = &job->conditions[*at];
    *ret = (struct msg_condition_row){.name = pool_condition_name(*at, buf),
                                      .status = *at == CONDITION_CREATED || *at == job->condition,
                                      .reason = c->reason,
                                      .at = c->at,
                                      .message = c->message};
    ++*at;
    return true;
}

/* --- nodes --- */

enum node_state {
    NODE_FREE,
    NODE_ASSIGNED,
    NODE_LEAVING,
    NODE_AWAY,
    NODE_RESTING,
    NODE_WARNED, /* warned and without work; a working node shows its notice in the status of its
                    job */
    NODE__COUNT
};
_Static_assert(NODE__COUNT == POOL_NODE_STATES, "each has a count");
static const char *const node_states[NODE__COUNT] = {
    [NODE_FREE] = "free", [NODE_ASSIGNED] = "assigned", [NODE_LEAVING] = "leaving",
    [NODE_AWAY] = "away", [NODE_RESTING] = "resting",   [NODE_WARNED] = "warned",
};

static enum node_state state_of(const struct pool_node *node)
{
    return !tfe_mono_is_never(node->rests) ? NODE_RESTING
           : !node->session                ? NODE_AWAY
           : node->is_leaving || node->out ? NODE_LEAVING
           : node->assignment != 0         ? NODE_ASSIGNED
           : node->is_warned               ? NODE_WARNED
                                           : NODE_FREE;
}

bool pool_show_node(struct pool *p, const char *job, struct tfe_id *after, struct msg_pool_row *ret)
{
    const struct pool_job *of = job ? pool_job_find(p, job) : NULL;
    struct pool_node key = {.id = *after};
    struct pool_node *node = RB_NFIND(pool_tree, &p->nodes, &key);
    if (job && !of) {
        return false;
    }
    while (node && ((of && node->job != of) || id_compare(&node->id, after) == 0)) {
        node = RB_NEXT(pool_tree, &p->nodes, node);
    }
    if (!node) {
        return false;
    }
    *after = node->id;
    if (node->row) {
        *ret = *node->row;
    } else { /* no message from the node since the server started */
        *ret = (struct msg_pool_row){.name = "", .labels = ""};
    }
    ret->node = node->id.text;
    ret->state = node_states[state_of(node)];
    ret->since = node->since;
    ret->assignment = node->assignment;
    ret->job = node->job ? node->job->name.text : "";
    ret->has_role = node->job && pool_job_has_roles(node->job);
    ret->role = node->task;
    return true;
}

struct pool_rows {
    struct rows rows;
    struct pool *p;
    struct tfe_id node; /* last node listed; "" before the first */
};

static int pool_next(struct rows *rows, struct tfe_msg *ret)
{
    struct pool_rows *r = (struct pool_rows *)rows;
    *ret = (struct tfe_msg){.type = MSG_POOL_ROW};
    if (!pool_show_node(r->p, NULL, &r->node, &ret->u.pool_row)) {
        *ret = (struct tfe_msg){.type = MSG_STATUS_END};
    }
    return 0;
}

int rows_pool(struct pool *p, struct rows **ret)
{
    static const struct rows_ops ops = {.next = pool_next};
    struct pool_rows *r = rows_new(&ops, sizeof(*r), ret);
    if (!r) {
        return TFE_ENOMEM;
    }
    r->p = p;
    return 0;
}

/* --- metrics --- */

void pool_count(struct pool *p, struct pool_counts *ret)
{
    const int64_t now = clock_wall().ms;
    const struct pool_job *job;
    struct pool_node *node;
    *ret = (struct pool_counts){.assigned = p->n_assigned, .released = p->n_released};
    for (unsigned i = 0; i < NODE__COUNT; i++) {
        ret->nodes[i].state = node_states[i];
    }
    for (unsigned i = STATE_WAITING; i <= STATE_CANCELLED; i++) {
        ret->jobs[i - STATE_WAITING].state = msg_job_state_name((enum tfe_job_state)i);
    }
    RB_FOREACH(node, pool_tree, &p->nodes)
    {
        ret->nodes[state_of(node)].n++;
    }
    TAILQ_FOREACH(job, &p->jobs, link)
    {
        if (job->is_gone) {
            continue;
        }
        const enum tfe_job_state state = pool_job_state(job);
        ret->jobs[state - STATE_WAITING].n++;
        if (state == STATE_WAITING) {
            const int64_t ms = now - pool_job_condition(job)->at.ms;
            ret->oldest_ms = ms > ret->oldest_ms ? ms : ret->oldest_ms;
        }
    }
}

uint32_t pool_count_unjoined(const struct pool *p)
{
    const struct pool_job *job;
    struct msg_status_job row;
    uint32_t n = 0;
    TAILQ_FOREACH(job, &p->jobs, link)
    {
        n += !job->is_gone && rdzv_find_job(p->config.core, job->name.text, &row) != 0;
    }
    return n;
}
