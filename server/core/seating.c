/* server/core/seating.c: who has which of an epoch's places. */
#include "server/core/seating.h"

#include <string.h>

#include "server/core/job.h"

/* How surely a node's machine stays: by its agent's own word, else by the cloud's, which counts
 * where there are a chief or ps to be lost (design 11). */
enum hold { HOLD_SPOT, HOLD_UNKNOWN, HOLD_DURABLE };

static enum hold hold_of(const struct node *node)
{
    const struct job_spec *spec = &node->job->spec;
    bool has_spot_last = spec->chief || spec->n_ps > 0;
    return node->is_durable                 ? HOLD_DURABLE
           : node->is_spot && has_spot_last ? HOLD_SPOT
                                            : HOLD_UNKNOWN;
}

/* design 4.5: index 0 belongs on a durable node, else on the one longest in the job. */
static bool suits_before(const struct node *a, const struct node *b)
{
    if (hold_of(a) != hold_of(b)) {
        return hold_of(a) > hold_of(b);
    }
    if (a->join_order != b->join_order) {
        return a->join_order < b->join_order;
    }
    return id_compare(&a->id, &b->id) < 0;
}

/* Whether one has the better claim to index 0, which is never a node's that may have to go if there
 * is another; among those, who stays longest has it. It stays where nobody suits it better but by
 * age or memory alone, and else goes to one whose memory keeps the newest state. */
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
    bool is_alike = hold_of(a) == hold_of(b);
    if (is_alike && (a->seat.index == 0) != (b->seat.index == 0)) {
        return a->seat.index == 0;
    }
    /* By epochs: members tell of a step at different moments, and keep the same one. */
    if (is_alike && a->ready.memory.epoch != b->ready.memory.epoch) {
        return a->ready.memory.epoch > b->ready.memory.epoch;
    }
    return suits_before(a, b);
}

static bool sits_before(const struct node *a, const struct node *b)
{
    if ((a->notice.kind == 0) != (b->notice.kind == 0)) {
        return a->notice.kind == 0; /* before those that may have to go */
    }
    /* Members before others, members by their old seat, others by how they suit index 0. */
    if (a->seat.index != b->seat.index) {
        return a->seat.index < b->seat.index;
    }
    return suits_before(a, b);
}

/* Shell's sort: no recursion, no allocation, and libc's qsort is not for a core. */
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

/* The ready nodes with the best claims, at most max, into job->chosen. */
static uint32_t choose(struct job *job)
{
    uint32_t n = 0;
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (node_is_ready(node)) {
            job->chosen[n++] = node;
        }
    }
    sort_by_claim(job->chosen, n);
    return n < job->spec.max_nodes ? n : job->spec.max_nodes;
}

/* Index 0 by leads_before; survivors keep theirs where the range allows; the rest fills the gaps in
 * order of claim. */
static uint32_t fill_with_workers(struct job *job, struct node **seats)
{
    uint32_t n = choose(job);
    memset(seats, 0, n * sizeof(struct node *));
    struct node *first = job->chosen[0];
    for (uint32_t i = 1; i < n; i++) {
        first = leads_before(job->chosen[i], first) ? job->chosen[i] : first;
    }
    seats[0] = first;
    for (uint32_t i = 0; i < n; i++) {
        struct node *node = job->chosen[i];
        if (node != first && node->seat.index < n && !seats[node->seat.index]) {
            seats[node->seat.index] = node;
        }
    }
    uint32_t gap = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct node *node = job->chosen[i];
        if (node == first || (node->seat.index < n && seats[node->seat.index] == node)) {
            continue;
        }
        while (seats[gap]) {
            gap++;
        }
        seats[gap] = node;
    }
    return n;
}

/* --- the same, where there are roles ---------------------------------------------------------- */

static bool may_be(const struct node *node, enum tfe_task task)
{
    return !node->has_role || node->role == task;
}

static bool was_ps(const struct node *node, uint32_t first_ps)
{
    return node_is_member(node) && node->seat.index >= first_ps;
}

/* As leads_before; but of those alike no ps, which is one already. */
static bool directs_before(const struct node *a, const struct node *b, uint32_t first_ps)
{
    bool is_alike = hold_of(a) == hold_of(b) && (a->notice.kind == 0) == (b->notice.kind == 0);
    bool was_a = was_ps(a, first_ps);
    return is_alike && was_a != was_ps(b, first_ps) ? !was_a : leads_before(a, b);
}

/* Who can be nothing else, then who stays, on a machine that does, where it was before. */
static bool serves_before(const struct node *a, const struct node *b, uint32_t first_ps)
{
    bool was_a = was_ps(a, first_ps);
    bool was_b = was_ps(b, first_ps);
    if ((a->notice.kind == 0) != (b->notice.kind == 0)) {
        return a->notice.kind == 0;
    }
    if (hold_of(a) != hold_of(b)) {
        return hold_of(a) > hold_of(b);
    }
    return was_a != was_b ? was_a : suits_before(a, b);
}

/* Takes the best for this role out of the list of *n, and keeps its order. There is one. */
static struct node *pick(struct node **v, uint32_t *n, enum tfe_task task, bool leads,
                         uint32_t first_ps)
{
    uint32_t best = *n;
    for (uint32_t i = 0; i < *n; i++) {
        if (!may_be(v[i], task)) {
            continue;
        }
        const struct node *a = v[i];
        const struct node *b = best < *n ? v[best] : NULL;
        bool is_better = !b || (a->has_role != b->has_role ? a->has_role
                                : leads                    ? directs_before(a, b, first_ps)
                                                           : serves_before(a, b, first_ps));
        best = is_better ? i : best;
    }
    TFE_ASSERT(best < *n);
    struct node *node = v[best];
    memmove(&v[best], &v[best + 1], (*n - best - 1) * sizeof(struct node *));
    --*n;
    return node;
}

/* Whether its place could be the spare's, as pick has it: for whoever can be nothing else goes
 * first where there is one chief, or so many ps. */
static bool can_replace(const struct job *job, const struct node *node, const struct node *spare)
{
    enum tfe_task task = roster_task(job, node->seat.index);
    bool is_one_of_many = task == TASK_WORKER && !roster_is_chief(job, node);
    return may_be(spare, task) && (is_one_of_many || !node->has_role || spare->has_role);
}

/* Whether somebody could go elsewhere in the cluster whose place is the spare's then. */
static bool makes_room(const struct job *job, const struct node *node, const struct node *spare)
{
    return node->notice.kind == 0 && !node->has_role && can_replace(job, node, spare);
}

bool seating_can_relieve(const struct job *job, const struct node *spare)
{
    bool goes = false;        /* a member may have to … */
    bool goes_freely = false; /* … that is pinned to nothing */
    bool has_room = false;
    for (uint32_t i = 0; i < job->epoch.n_seats; i++) {
        const struct node *node = job->epoch.seats[i];
        if (!node_is_member(node) || node->is_gone) {
            continue;
        }
        bool may_go = node->notice.kind != 0;
        goes = goes || (may_go && can_replace(job, node, spare));
        goes_freely = goes_freely || (may_go && !node->has_role);
        has_room = has_room || makes_room(job, node, spare);
    }
    return !roster_is_named(&job->spec) || goes || (goes_freely && has_room);
}

/* These seats to these nodes: who has had one of the same number keeps it. */
static void settle_in(struct node **seats, uint32_t n, struct node *const *v, uint32_t old_first)
{
    memset(seats, 0, n * sizeof(struct node *));
    for (int keep = 1; keep >= 0; keep--) {
        uint32_t gap = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t old = v[i]->seat.index - old_first;
            bool has_own = node_is_member(v[i]) && v[i]->seat.index >= old_first && old < n;
            if (keep && has_own && !seats[old]) {
                seats[old] = v[i];
            } else if (!keep && !(has_own && seats[old] == v[i])) {
                for (; seats[gap]; gap++) {
                }
                seats[gap] = v[i];
            }
        }
    }
}

/* Leaves one that may evaluate at the end of the list of workers, if one can be spared. */
static uint32_t spare_evaluator(const struct job *job, struct node **v, uint32_t n)
{
    uint32_t last = n;
    for (uint32_t i = 0; i < n; i++) {
        last = v[i]->has_role ? last : i;
    }
    if (!roster_wants_evaluator(job) || n <= job->spec.min_nodes || last == n) {
        return n;
    }
    struct node *node = v[last];
    memmove(&v[last], &v[last + 1], (n - last - 1) * sizeof(struct node *));
    v[n - 1] = node;
    return n - 1;
}

static uint32_t fill_with_roles(struct job *job, struct node **seats)
{
    const struct job_spec *spec = &job->spec;
    uint32_t old_ps = roster_first_ps(job);
    struct node **v = job->chosen;
    bool has_evaluator = false; /* one that can be nothing else */
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
    seats[0] = pick(v, &n, spec->chief ? TASK_CHIEF : TASK_WORKER, true, old_ps);
    struct node **served = seats + job->cap_seats - spec->n_ps; /* behind all that is needed now */
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
    struct node **ps = v + workers; /* who is left over has no seat any more to be read */
    memcpy(ps, served, spec->n_ps * sizeof(struct node *));
    settle_in(seats + 1, workers, v, 1);
    settle_in(seats + 1 + workers, spec->n_ps, ps, old_ps);
    return 1 + workers + spec->n_ps;
}

uint32_t seating_fill(struct job *job, struct node **seats)
{
    return roster_is_named(&job->spec) ? fill_with_roles(job, seats)
                                       : fill_with_workers(job, seats);
}

/* Who stays, then who can be nothing else, then who suits a place in the cluster least. */
static bool evaluates_before(const struct node *a, const struct node *b)
{
    if ((a->notice.kind == 0) != (b->notice.kind == 0)) {
        return a->notice.kind == 0;
    }
    return a->has_role != b->has_role ? a->has_role : suits_before(b, a);
}

struct node *seating_evaluator(struct job *job)
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
