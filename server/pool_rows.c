/* server/pool_rows.c: the pool and its jobs as people see them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "common/net/clock.h"
#include "server/masked.h"
#include "server/pool_private.h"

enum pool_part { PART_JOBS, PART_CONDITIONS, PART_NODES, PART_END, PART_NO_SUCH_JOB };

struct pool_rows {
    struct rows rows;
    struct pool *p;
    const struct principal *by;
    enum pool_part part;
    struct tfe_id job; /* of DESCRIBE; "" all … */
    bool has_last;     /* … of which the one told last had this … */
    uint32_t priority; /* … priority and number */
    uint64_t number;
    int condition;               /* the next one */
    struct tfe_id node;          /* told last; "" none yet */
    char room[MSG_SENTENCE_MAX]; /* of what is told now */
    char command[MSG_SENTENCE_MAX];
    char source[MSG_WORD_MAX + 1];
};

/* Higher priorities first, then who was handed in first; as they get nodes. */
static bool is_behind(const struct pool_job *job, uint32_t priority, uint64_t number)
{
    return job->priority != priority ? job->priority < priority : job->number > number;
}

static struct pool_job *next_job(const struct pool_rows *r)
{
    struct pool_job *job;
    struct pool_job *found = NULL;
    TAILQ_FOREACH(job, &r->p->jobs, link)
    {
        if (!job->is_gone && (!r->has_last || is_behind(job, r->priority, r->number)) &&
            (!found || is_behind(found, job->priority, job->number)) &&
            !principal_fault(r->by, MSG_JOBS, job->name.text)) {
            found = job;
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

static const char *const states[] = {
#define CONDITION_STATE(NAME, name, state) state,
    POOL_CONDITIONS(CONDITION_STATE)
#undef CONDITION_STATE
};

/* What it is for people: one that was handed in waits. */
static enum pool_condition_name shown_as(const struct pool_job *job)
{
    const enum pool_condition_name state = pool_job_state(job);
    return state == CONDITION_CREATED ? CONDITION_QUEUED : state;
}

static int show_job(struct pool_rows *r, struct pool_job *job, struct tfe_msg *ret)
{
    struct msg_spec spec;
    struct text command;
    const enum pool_condition_name state = pool_job_state(job);
    int rc = pool_job_spec(job, &spec);
    text_init(&command, r->command, sizeof(r->command));
    for (size_t i = 0; rc == 0 && i < spec.n_argv; i++) {
        text_add(&command, i > 0 ? " " : "");
        text_add(&command, spec.argv[i]);
    }
    if (r->by->role == PRINCIPAL_OBSERVER && !r->p->config.shows_arguments) {
        masked_command(r->command, sizeof(r->command));
    }
    masked_source(r->source, sizeof(r->source), rc == 0 ? spec.source : "");
    *ret = (struct tfe_msg){.type = MSG_JOB_ROW,
                            .u.job_row = {.job = job->name.text,
                                          .state = states[shown_as(job)],
                                          .priority = job->priority,
                                          .min_nodes = job->min_nodes,
                                          .max_nodes = job->max_nodes,
                                          .n_ps = job->n_ps,
                                          .chief = job->chief,
                                          .evaluator = job->evaluator,
                                          .nodes = n_nodes(job),
                                          .created = job->conditions[CONDITION_CREATED].at,
                                          .since = job->conditions[state].at,
                                          .waits = pool_job_waits(job, r->room),
                                          .source = r->source,
                                          .command = r->command,
                                          .lingers = job->lingers}};
    return rc;
}

static bool show_condition(struct pool_rows *r, const struct pool_job *job, struct tfe_msg *ret)
{
    while (r->condition < CONDITION__COUNT && job->conditions[r->condition].at.ms == 0) {
        r->condition++;
    }
    if (r->condition == CONDITION__COUNT) {
        return false;
    }
    const struct pool_condition *c = &job->conditions[r->condition];
    *ret = (struct tfe_msg){.type = MSG_CONDITION_ROW,
                            .u.condition_row = {.name = pool_condition_names[r->condition++],
                                                .status = c->status,
                                                .reason = c->reason,
                                                .at = c->at,
                                                .says = c->says}};
    return true;
}

enum node_state {
    NODE_FREE,
    NODE_ASSIGNED,
    NODE_LEAVING,
    NODE_AWAY,
    NODE_RESTING,
    NODE_WARNED, /* without work; one that has some shows its warning in the status of its job */
    NODE__COUNT
};
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

static bool show_node(struct pool_rows *r, const struct pool_job *of, struct tfe_msg *ret)
{
    struct pool_node key = {.id = r->node};
    struct pool_node *node = RB_NFIND(pool_tree, &r->p->nodes, &key);
    while (node && ((of && node->job != of) || id_compare(&node->id, &r->node) == 0)) {
        node = RB_NEXT(pool_tree, &r->p->nodes, node);
    }
    if (!node) {
        return false;
    }
    r->node = node->id;
    *ret = (struct tfe_msg){.type = MSG_POOL_ROW};
    struct msg_pool_row *row = &ret->u.pool_row;
    if (node->row) {
        *row = *node->row;
    } else { /* not heard since the server's start */
        row->name = row->labels = "";
    }
    row->node = node->id.text;
    row->state = node_states[state_of(node)];
    row->since = node->since;
    row->assignment = node->assignment;
    row->job = node->job ? node->job->name.text : "";
    row->has_role = node->job && pool_job_has_roles(node->job);
    row->role = node->task;
    return true;
}

/* One job was asked for: its row, its conditions, its nodes. */
static int describe_next(struct pool_rows *r, struct tfe_msg *ret)
{
    struct pool_job *job = pool_job_find(r->p, r->job.text);
    if (!job) {
        r->part = r->part == PART_JOBS ? PART_NO_SUCH_JOB : PART_END;
        return TFE_ENOENT;
    }
    if (r->part == PART_JOBS) {
        r->part = PART_CONDITIONS;
        return show_job(r, job, ret);
    }
    if (r->part == PART_CONDITIONS && show_condition(r, job, ret)) {
        return 0;
    }
    r->part = PART_NODES;
    if (show_node(r, job, ret)) {
        return 0;
    }
    r->part = PART_END;
    return TFE_ENOENT;
}

static int list_next(struct pool_rows *r, struct tfe_msg *ret)
{
    struct pool_job *job = r->part == PART_JOBS ? next_job(r) : NULL;
    if (job) {
        r->has_last = true;
        r->priority = job->priority;
        r->number = job->number;
        return show_job(r, job, ret);
    }
    if (r->part == PART_NODES && show_node(r, NULL, ret)) {
        return 0;
    }
    r->part = PART_END;
    return TFE_ENOENT;
}

static int pool_next(struct rows *rows, struct tfe_msg *ret)
{
    struct pool_rows *r = (struct pool_rows *)rows;
    int rc = TFE_ENOENT;
    if (r->part != PART_END && r->part != PART_NO_SUCH_JOB) {
        rc = r->job.text[0] != '\0' ? describe_next(r, ret) : list_next(r, ret);
    }
    if (rc != TFE_ENOENT) {
        return rc;
    }
    *ret = (struct tfe_msg){.type = MSG_STATUS_END};
    if (r->part == PART_NO_SUCH_JOB) {
        (void)snprintf(r->room, sizeof(r->room), "no job \"%s\" was handed in to this server",
                       r->job.text);
        *ret = (struct tfe_msg){.type = MSG_REFUSED, .u.refused = {REFUSAL_NO_SUCH_JOB, r->room}};
    }
    return 0;
}

static void pool_rows_free(struct rows *rows)
{
    free(rows);
}

int rows_pool(struct pool *p, const struct principal *by, const struct tfe_msg *asked,
              struct rows **ret)
{
    static const struct rows_ops ops = {.next = pool_next, .free = pool_rows_free};
    struct pool_rows *r = calloc(1, sizeof(*r));
    if (!r) {
        return TFE_ENOMEM;
    }
    r->rows.ops = &ops;
    r->p = p;
    r->by = by;
    r->part = asked->type == MSG_POOL_NODES ? PART_NODES : PART_JOBS;
    if (asked->type == MSG_DESCRIBE) {
        (void)id_set(&r->job, asked->u.describe.job); /* the codec has checked it */
    }
    *ret = &r->rows;
    return 0;
}

/* --- in numbers ------------------------------------------------------------------------------- */

void pool_count(struct pool *p, pool_gauge_fn *add, void *ctx)
{
    const int64_t now = clock_wall().ms;
    uint64_t nodes[NODE__COUNT] = {0};
    uint64_t jobs[CONDITION__COUNT] = {0};
    int64_t oldest_ms = 0;
    const struct pool_job *job;
    struct pool_node *node;
    RB_FOREACH(node, pool_tree, &p->nodes)
    {
        nodes[state_of(node)]++;
    }
    TAILQ_FOREACH(job, &p->jobs, link)
    {
        if (job->is_gone) {
            continue;
        }
        const enum pool_condition_name state = shown_as(job);
        jobs[state]++;
        if (state == CONDITION_QUEUED) {
            const int64_t ms = now - job->conditions[pool_job_state(job)].at.ms;
            oldest_ms = ms > oldest_ms ? ms : oldest_ms;
        }
    }
    for (int i = 0; i < NODE__COUNT; i++) {
        add(ctx, "pool_nodes", "state", node_states[i], nodes[i]);
    }
    for (int i = CONDITION_QUEUED; i < CONDITION__COUNT; i++) {
        add(ctx, "pool_jobs", "state", states[i], jobs[i]);
    }
    add(ctx, "pool_queue_oldest_ms", NULL, NULL, (uint64_t)oldest_ms);
    add(ctx, "pool_assigned_total", NULL, NULL, p->n_assigned);
    add(ctx, "pool_released_total", NULL, NULL, p->n_released);
}
