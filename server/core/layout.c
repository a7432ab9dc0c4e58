/* server/core/layout.c: layout of an epoch: its slots and replicas, what follows from each, and
 * whether the nodes suffice for them. */
#include "server/core/layout.h"

#include "common/text/text.h"
#include "server/core/job.h"
#include "server/core/job_progress.h"
#include "server/core/node.h"

/* --- slots and replicas ----------------------------------------------------------------------- */

/* Number of nodes of each role, in the order of their slots. */
struct shape {
    uint32_t n_chief, n_workers, n_ps;
    uint32_t nproc;
};

static struct shape shape_of(const struct job_spec *spec, uint32_t n_ps, uint32_t n_slots)
{
    uint32_t extra = (uint32_t)spec->chief + n_ps;
    return (struct shape){.n_chief = spec->chief,
                          .n_workers = n_slots > extra ? n_slots - extra : 0,
                          .n_ps = n_ps,
                          .nproc = spec->nproc};
}

/* Returns the shape of the current epoch; the next one may have another number of ps. */
static struct shape shape_now(const struct job *job)
{
    return shape_of(&job->spec, job->epoch.n_ps, job->epoch.n_slots);
}

static enum tfe_task task_of(const struct shape *shape, uint32_t slot)
{
    return slot < shape->n_chief                      ? TASK_CHIEF
           : slot < shape->n_chief + shape->n_workers ? TASK_WORKER
                                                      : TASK_PS;
}

static uint32_t rank_of(const struct shape *shape, uint32_t slot)
{
    uint32_t workers = slot > shape->n_chief ? slot - shape->n_chief : 0;
    uint32_t after = workers > shape->n_workers ? workers - shape->n_workers : 0;
    uint32_t first = slot < shape->n_chief ? slot : shape->n_chief;
    return first + (workers - after) * shape->nproc + after;
}

static uint32_t slot_of(const struct shape *shape, uint32_t rank)
{
    uint32_t n = shape->n_chief + shape->n_workers + shape->n_ps;
    uint32_t behind = shape->n_chief + shape->n_workers * shape->nproc; /* rank of the first ps */
    uint32_t slot = rank < shape->n_chief ? rank
                    : rank < behind       ? shape->n_chief + (rank - shape->n_chief) / shape->nproc
                                          : shape->n_chief + shape->n_workers + (rank - behind);
    return slot < n && rank_of(shape, slot) == rank ? slot : n;
}

uint32_t layout_extra(const struct job_spec *spec)
{
    return (uint32_t)spec->chief + spec->n_ps;
}

uint32_t layout_extra_now(const struct job *job)
{
    return (uint32_t)job->spec.chief + job->epoch.n_ps;
}

uint32_t layout_max_nodes(const struct job_spec *spec)
{
    return spec->max_nodes + layout_extra(spec) + (uint32_t)spec->evaluator;
}

uint32_t layout_world_of(const struct job_spec *spec, uint32_t n_slots)
{
    struct shape shape = shape_of(spec, spec->n_ps, n_slots);
    return rank_of(&shape, n_slots);
}

uint32_t layout_slot_of(const struct job_spec *spec, uint32_t n_slots, uint32_t rank)
{
    struct shape shape = shape_of(spec, spec->n_ps, n_slots);
    return slot_of(&shape, rank);
}

bool layout_has_ps(const struct job *job)
{
    return job->epoch.n_ps > 0;
}

uint32_t layout_rank(const struct job *job, uint32_t slot)
{
    struct shape shape = shape_now(job);
    return rank_of(&shape, slot);
}

uint32_t layout_trainers(const struct job *job, uint32_t slot)
{
    struct shape shape = shape_now(job);
    return task_of(&shape, slot) == TASK_WORKER ? shape.nproc : 1;
}

uint32_t layout_first_ps(const struct job *job)
{
    struct shape shape = shape_now(job);
    return shape.n_chief + shape.n_workers;
}

enum tfe_task layout_task(const struct job *job, uint32_t slot)
{
    struct shape shape = shape_now(job);
    return task_of(&shape, slot);
}

uint32_t layout_world(const struct job *job)
{
    return layout_rank(job, job->epoch.n_slots);
}

void layout_set_role(const struct job *job, uint32_t rank, struct msg_row *ret)
{
    struct shape shape = shape_now(job);
    uint32_t ps = rank_of(&shape, shape.n_chief + shape.n_workers);
    ret->role = rank < shape.n_chief ? TASK_CHIEF : rank < ps ? TASK_WORKER : TASK_PS;
    ret->first = rank < shape.n_chief ? 0 : rank < ps ? shape.n_chief : ps;
}

uint32_t layout_replicas_of(const struct job_spec *spec, enum tfe_task task)
{
    switch (task) {
    case TASK_CHIEF:
        return spec->chief;
    case TASK_PS:
        return spec->n_ps;
    case TASK_EVALUATOR:
        return spec->evaluator;
    case TASK_WORKER:
        break;
    }
    return spec->max_nodes;
}

bool layout_has_roles(const struct job_spec *spec)
{
    return spec->chief || spec->n_ps > 0 || spec->evaluator;
}

/* --- properties of a slot --- */

/* Which trainers start first, by strategy (design 4.3, docs/tensorflow.md). In a synchronous
 * cluster it is the first task, where TensorFlow's coordination service runs. Served workers and ps
 * wait for no other task, and their chief connects to all of them. */
static const struct {
    bool chief_begins;
    uint32_t head_start_ms;
} orders[] = {{true, 300}, {false, 1000}};

bool layout_starts_first(const struct job *job, const struct node *node)
{
    return layout_is_chief(job, node) == orders[layout_has_ps(job)].chief_begins;
}

bool layout_may_start_rest(const struct job *job)
{
    if (orders[layout_has_ps(job)].chief_begins) {
        return layout_chief(job)->slot.is_listening;
    }
    /* all except the chief, which has not been started yet */
    return job->epoch.n_listening + 1 >= job->epoch.n_slots;
}

uint32_t layout_head_start_ms(const struct job *job)
{
    return orders[layout_has_ps(job)].head_start_ms;
}

/* In a job without a chief the first worker does the chief's work. */
struct node *layout_chief(const struct job *job)
{
    return job->epoch.n_slots > 0 ? job->epoch.slots[0] : NULL;
}

bool layout_is_chief(const struct job *job, const struct node *node)
{
    return node->slot.index == 0;
}

bool layout_counts_for_success(const struct job *job, const struct node *node)
{
    return job_needs_all_workers(&job->spec) ? layout_task(job, node->slot.index) == TASK_WORKER
                                             : layout_is_chief(job, node);
}

uint32_t layout_needed_successes(const struct job *job)
{
    return job_needs_all_workers(&job->spec) ? shape_now(job).n_workers : 1;
}

bool layout_is_awaited(const struct job *job, const struct node *node)
{
    return job->spec.linger || !layout_has_ps(job) || layout_is_chief(job, node);
}

bool layout_can_lose(const struct job *job, const struct node *node)
{
    return layout_has_ps(job) && !job_needs_all_workers(&job->spec) && node_is_member(node) &&
           !layout_is_chief(job, node) && layout_task(job, node->slot.index) == TASK_WORKER;
}

static bool may_meet_next_epoch(const struct job *job)
{
    const struct epoch *epoch = &job->epoch;
    return epoch->has_fixed_ports && !epoch->has_progressed &&
           !progress_was_reported(&job->progress);
}

bool layout_is_stopped(const struct job *job)
{
    const struct epoch *epoch = &job->epoch;
    bool may_meet_next = may_meet_next_epoch(job);
    if (!epoch->is_open) {
        return true;
    }
    if (layout_has_ps(job) && !may_meet_next) {
        return epoch->n_slots > 0 && epoch->slots[0]->slot.is_accounted;
    }
    return epoch->n_accounted >= (may_meet_next ? epoch->n_slots : 1);
}

bool layout_needs_fence(const struct job *job, uint32_t slot)
{
    return slot == 0 || !layout_has_ps(job) || may_meet_next_epoch(job);
}

bool layout_needs_evaluator(const struct job *job)
{
    bool has_one = job->evaluator.node && !evaluator_is_leaving(job);
    return job->spec.evaluator && !has_one && !job->evaluator.is_done;
}

/* --- number of nodes --- */

/* Number of nodes by the roles that they can have. */
struct stock {
    uint32_t pinned[TASK_EVALUATOR + 1];
    uint32_t any;
};

/* Returns true if the member will be READY once it is asked, as things stand. */
static bool stays(const struct node *node)
{
    return node_is_member(node) && !node->is_gone && !node->slot.is_taken_over &&
           !node->notice.is_leaving;
}

static struct stock count_stock(const struct job *job, bool with_members)
{
    struct stock stock = {.any = 0};
    /* tree.h has no const variants */
    struct node_tree *tree = (struct node_tree *)(uintptr_t)&job->nodes;
    struct node *node;
    RB_FOREACH(node, node_tree, tree)
    {
        if (node_is_ready(node) || (with_members && stays(node))) {
            (*(node->has_role ? &stock.pinned[node->role] : &stock.any))++;
        }
    }
    return stock;
}

/* Takes nodes for this role out of the stock and returns how many are lacking. */
static uint32_t take_nodes(struct stock *stock, enum tfe_task task, uint32_t wanted)
{
    uint32_t pinned = stock->pinned[task] < wanted ? stock->pinned[task] : wanted;
    uint32_t others = stock->any < wanted - pinned ? stock->any : wanted - pinned;
    stock->any -= others;
    return wanted - pinned - others;
}

/* Returns how many nodes of the stock an epoch of this size lacks. */
static uint32_t lacking(struct stock stock, const struct job_spec *spec, uint32_t n_workers,
                        uint32_t n_ps, uint32_t n_evaluators)
{
    return take_nodes(&stock, TASK_CHIEF, spec->chief) + take_nodes(&stock, TASK_PS, n_ps) +
           take_nodes(&stock, TASK_WORKER, n_workers) +
           take_nodes(&stock, TASK_EVALUATOR, n_evaluators);
}

static bool suffices_for(const struct job *job, uint32_t workers, bool evaluator)
{
    const struct job_spec *spec = &job->spec;
    if (!layout_has_roles(spec)) {
        return job->n_ready >= workers;
    }
    return lacking(count_stock(job, false), spec, workers, spec->n_ps, evaluator) == 0;
}

bool layout_is_enough(const struct job *job)
{
    return suffices_for(job, job->spec.min_nodes, false);
}

bool layout_would_suffice(const struct job *job, uint32_t min, uint32_t n_ps)
{
    return lacking(count_stock(job, true), &job->spec, min, n_ps, 0) == 0;
}

uint32_t layout_lacking(const struct job *job)
{
    return lacking(count_stock(job, false), &job->spec, job->spec.min_nodes, job->spec.n_ps, 0);
}

bool layout_is_full(const struct job *job)
{
    return suffices_for(job, job->spec.max_nodes, layout_needs_evaluator(job));
}

uint32_t layout_spares(const struct job *job, bool may_evaluate)
{
    if (!layout_has_roles(&job->spec)) {
        return job->n_ready;
    }
    struct stock stock = count_stock(job, false);
    /* A node that is about to evaluate is left out of the next epoch (rank_assignment.c:
     * spare_evaluator). */
    bool evaluates = may_evaluate && layout_needs_evaluator(job) &&
                     stock.pinned[TASK_EVALUATOR] == 0 && stock.any > 0;
    return stock.pinned[TASK_WORKER] + stock.any - evaluates;
}

void layout_describe_lacking(const struct job *job, struct text *text)
{
    static const struct {
        enum tfe_task task;
        const char *one, *more;
    } kinds[] = {
        {TASK_CHIEF, "chief", "chiefs"}, {TASK_PS, "ps", "ps"}, {TASK_WORKER, "worker", "workers"}};
    const uint32_t wanted[] = {job->spec.chief, job->spec.n_ps, job->spec.min_nodes};
    struct stock stock = count_stock(job, false);
    bool is_first = true;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        uint32_t n = take_nodes(&stock, kinds[i].task, wanted[i]);
        if (n > 0) {
            text_addf(text, "%s%u %s", is_first ? "" : ", ", n,
                      n == 1 ? kinds[i].one : kinds[i].more);
            is_first = false;
        }
    }
}
