/* server/core/rank_assignment.c: rank assignment: which node gets which slot of an epoch. */
#include <string.h>

#include "server/core/job.h"
#include "server/core/layout.h"
#include "server/core/node.h"

/* How surely a node's machine stays: by its agent's declaration, else by the cloud's metadata,
 * which counts in jobs with a chief or ps (design 11). */
enum stability { STABILITY_SPOT, STABILITY_UNKNOWN, STABILITY_DURABLE };

static enum stability stability_of(const struct node *node)
{
    const struct job_spec *spec = &node->job->spec;
    bool has_spot_last = spec->chief || spec->n_ps > 0;
    return node->is_durable                 ? STABILITY_DURABLE
           : node->is_spot && has_spot_last ? STABILITY_SPOT
                                            : STABILITY_UNKNOWN;
}

/* design 4.5: slot 0 goes to a durable node, else to the one that has been in the job longest. */
static bool suits_before(const struct node *a, const struct node *b)
{
    if (stability_of(a) != stability_of(b)) {
        return stability_of(a) > stability_of(b);
    }
    if (a->join_order != b->join_order) {
        return a->join_order < b->join_order;
    }
    return id_compare(&a->id, &b->id) < 0;
}

/* Returns true if a has the better claim to slot 0. A node that may have to leave gets slot 0 only
 * if all nodes may; then the node with the latest deadline gets it. The current holder keeps slot 0
 * against nodes that are better only by seniority or memory; otherwise it goes to the node whose
 * memory keeps the newest state. */
static bool leads_before(const struct node *a, const struct node *b)
{
    const struct notice *x = &a->notice;
    const struct notice *y = &b->notice;
    if ((x->kind == 0) != (y->kind == 0)) {
        return x->kind == 0;
    }
    if (x->kind && x->deadline.ms != y->deadline.ms) {
        return tfe_mono_before(y->deadline, x->deadline);
    }
    bool is_alike = stability_of(a) == stability_of(b);
    if (is_alike && (a->slot.index == 0) != (b->slot.index == 0)) {
        return a->slot.index == 0;
    }
    /* compared by epoch, because members report a step at different moments and keep the same
     * one */
    if (is_alike && a->ready.memory.epoch != b->ready.memory.epoch) {
        return a->ready.memory.epoch > b->ready.memory.epoch;
    }
    return suits_before(a, b);
}

static bool sits_before(const struct node *a, const struct node *b)
{
    if ((a->notice.kind == 0) != (b->notice.kind == 0)) {
        return a->notice.kind == 0; /* nodes that stay come before those that may have to leave */
    }
    /* Members come before other nodes, members by their old slot, other nodes by their claim to
     * slot 0. */
    if (a->slot.index != b->slot.index) {
        return a->slot.index < b->slot.index;
    }
    return suits_before(a, b);
}

/* Shell's sort: no recursion, no allocation, and no qsort, which a pure core must not call. */
static void sort_by_claim(struct node **v, size_t n)
{
    for (size_t gap = n / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11) {
        for (size_t i = gap; i < n; i++) {
            struct node *node = v[i];
            size_t at = i;
            for (; at >= gap && sits_before(node, v[at - gap]); at -= gap) {
                v[at] = v[at - gap];
            }
            v[at] = node;
        }
    }
}

/* --- choice of members --- */

static bool may_be(const struct node *node, enum tfe_task task)
{
    return !node->has_role || node->role == task;
}

static bool was_ps(const struct node *node, uint32_t first_ps)
{
    return node_is_member(node) && node->slot.index >= first_ps;
}

/* Like leads_before, but among equal nodes one that was no ps comes first. */
static bool directs_before(const struct node *a, const struct node *b, uint32_t first_ps)
{
    bool is_alike =
        stability_of(a) == stability_of(b) && (a->notice.kind == 0) == (b->notice.kind == 0);
    bool was_a = was_ps(a, first_ps);
    return is_alike && was_a != was_ps(b, first_ps) ? !was_a : leads_before(a, b);
}

/* Orders nodes for a ps slot: those that stay, then those on durable machines, then those that were
 * ps before. */
static bool serves_before(const struct node *a, const struct node *b, uint32_t first_ps)
{
    bool was_a = was_ps(a, first_ps);
    bool was_b = was_ps(b, first_ps);
    if ((a->notice.kind == 0) != (b->notice.kind == 0)) {
        return a->notice.kind == 0;
    }
    if (stability_of(a) != stability_of(b)) {
        return stability_of(a) > stability_of(b);
    }
    return was_a != was_b ? was_a : suits_before(a, b);
}

/* Removes the best node for this role from the list of *n, keeping its order. In jobs with roles,
 * nodes that are pinned to the role come first. Precondition: there is one. */
static struct node *pick(struct node **v, uint32_t *n, enum tfe_task task, bool leads,
                         uint32_t first_ps)
{
    const bool has_roles = layout_has_roles(&v[0]->job->spec);
    uint32_t best = *n;
    for (uint32_t i = 0; i < *n; i++) {
        if (!may_be(v[i], task)) {
            continue;
        }
        const struct node *a = v[i];
        const struct node *b = best < *n ? v[best] : NULL;
        bool is_better = !b || (has_roles && a->has_role != b->has_role ? a->has_role
                                : leads ? directs_before(a, b, first_ps)
                                        : serves_before(a, b, first_ps));
        best = is_better ? i : best;
    }
    TFE_ASSERT(best < *n);
    struct node *node = v[best];
    memmove(&v[best], &v[best + 1], (*n - best - 1) * sizeof(struct node *));
    --*n;
    return node;
}

/* Returns true if the spare could get the node's slot, as pick assigns it: for a chief or ps,
 * pinned nodes come first. */
static bool can_replace(const struct job *job, const struct node *node, const struct node *spare)
{
    enum tfe_task task = layout_task(job, node->slot.index);
    bool is_one_of_many = task == TASK_WORKER && !layout_is_chief(job, node);
    return may_be(spare, task) && (is_one_of_many || !node->has_role || spare->has_role);
}

/* Returns true if the node could move to another slot and leave its own to the spare. */
static bool can_move_for(const struct job *job, const struct node *node, const struct node *spare)
{
    return node->notice.kind == 0 && !node->has_role && can_replace(job, node, spare);
}

bool rank_assignment_can_relieve(const struct job *job, const struct node *spare)
{
    bool goes = false;     /* a member whose slot the spare could get may have to leave */
    bool can_move = false; /* a member that is pinned to no role may have to leave */
    bool can_swap = false;
    for (uint32_t i = 0; i < job->epoch.n_slots; i++) {
        const struct node *node = job->epoch.slots[i];
        if (!node_is_member(node) || node->is_gone) {
            continue;
        }
        bool may_go = node->notice.kind != 0;
        goes = goes || (may_go && can_replace(job, node, spare));
        can_move = can_move || (may_go && !node->has_role);
        can_swap = can_swap || can_move_for(job, node, spare);
    }
    return !layout_has_roles(&job->spec) || goes || (can_move && can_swap);
}

/* Assigns these slots to these nodes; a node that had one of the same number keeps it. */
static void assign_slots(struct node **slots, uint32_t n, struct node *const *v, uint32_t old_first)
{
    memset(slots, 0, n * sizeof(struct node *));
    for (int keep = 1; keep >= 0; keep--) {
        uint32_t gap = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t old = v[i]->slot.index - old_first;
            bool has_own = node_is_member(v[i]) && v[i]->slot.index >= old_first && old < n;
            if (keep && has_own && !slots[old]) {
                slots[old] = v[i];
            } else if (!keep && !(has_own && slots[old] == v[i])) {
                for (; slots[gap]; gap++) {
                }
                slots[gap] = v[i];
            }
        }
    }
}

/* Moves a node that may evaluate to the end of the list of workers, if one can be spared, and
 * returns the number of workers left. */
static uint32_t spare_evaluator(const struct job *job, struct node **v, uint32_t n)
{
    uint32_t last = n;
    for (uint32_t i = 0; i < n; i++) {
        last = v[i]->has_role ? last : i;
    }
    if (!layout_needs_evaluator(job) || n <= job->spec.min_nodes || last == n) {
        return n;
    }
    struct node *node = v[last];
    memmove(&v[last], &v[last + 1], (n - last - 1) * sizeof(struct node *));
    v[n - 1] = node;
    return n - 1;
}

uint32_t rank_assignment_fill(struct job *job, struct node **slots)
{
    const struct job_spec *spec = &job->spec;
    uint32_t old_ps = layout_first_ps(job);
    struct node **v = job->chosen;
    bool has_evaluator = false; /* a ready node is pinned to the evaluator's role */
    uint32_t n = 0;
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        bool evaluates = node->has_role && node->role == TASK_EVALUATOR;
        has_evaluator |= node_is_ready(node) && evaluates;
        if (node_is_ready(node) && !evaluates) {
            v[n++] = node;
        }
    }
    sort_by_claim(v, n);
    if (!layout_has_roles(spec) && n > spec->max_nodes) {
        n = spec->max_nodes; /* a node beyond max does not become rank 0 either */
    }
    slots[0] = pick(v, &n, spec->chief ? TASK_CHIEF : TASK_WORKER, true, old_ps);
    /* unused part of the array, behind all slots needed now */
    struct node **served = slots + job->cap_slots - spec->n_ps;
    for (uint32_t i = 0; i < spec->n_ps; i++) {
        served[i] = pick(v, &n, TASK_PS, false, old_ps);
    }
    uint32_t workers = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (may_be(v[i], TASK_WORKER)) {
            v[workers++] = v[i];
        }
    }
    uint32_t wanted = spec->max_nodes - (spec->chief ? 0 : 1);
    workers = has_evaluator ? workers : spare_evaluator(job, v, workers);
    workers = workers < wanted ? workers : wanted;
    /* overwrites nodes that are left over, whose old slots are not read any more */
    struct node **ps = v + workers;
    memcpy(ps, served, spec->n_ps * sizeof(struct node *));
    assign_slots(slots + 1, workers, v, 1);
    assign_slots(slots + 1 + workers, spec->n_ps, ps, old_ps);
    return 1 + workers + spec->n_ps;
}

/* Orders nodes for the evaluator: those that stay, then those pinned to the role, then those with
 * the weakest claim to a slot. */
static bool evaluates_before(const struct node *a, const struct node *b)
{
    if ((a->notice.kind == 0) != (b->notice.kind == 0)) {
        return a->notice.kind == 0;
    }
    return a->has_role != b->has_role ? a->has_role : suits_before(b, a);
}

struct node *rank_assignment_pick_evaluator(struct job *job)
{
    struct node *best = NULL;
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (node_is_ready(node) && may_be(node, TASK_EVALUATOR) &&
            (!best || evaluates_before(node, best))) {
            best = node;
        }
    }
    return best;
}
