/* server/core/roster.c: which places an epoch has, who has them, and what follows from each. */
#include "server/core/roster.h"

#include <string.h>

#include "server/core/job.h"

uint32_t roster_rank(const struct job *job, uint32_t seat)
{
    return seat * job->spec.nproc;
}

uint32_t roster_seat(const struct job *job, uint32_t rank)
{
    return rank / job->spec.nproc;
}

uint32_t roster_world(const struct job *job, uint32_t n_seats)
{
    return n_seats * job->spec.nproc;
}

void roster_name(const struct job *job, uint32_t rank, struct msg_row *ret)
{
    ret->role = TASK_WORKER;
    ret->first = 0;
}

struct node *roster_leader(const struct job *job)
{
    return job->epoch.n_seats > 0 ? job->epoch.seats[0] : NULL;
}

bool roster_is_leader(const struct job *job, const struct node *node)
{
    return node->seat.index == 0;
}

struct node *roster_chief(const struct job *job)
{
    return roster_leader(job);
}

bool roster_is_chief(const struct job *job, const struct node *node)
{
    return roster_is_leader(job, node);
}

bool roster_is_stopped(const struct job *job)
{
    const struct epoch *epoch = &job->epoch;
    bool may_meet_next = epoch->has_fixed_ports && !epoch->has_progressed && !told_any(&job->told);
    return !epoch->is_open || epoch->n_accounted >= (may_meet_next ? epoch->n_seats : 1);
}

/* --- who has which place ---------------------------------------------------------------------- */

/* design 4.5: index 0 belongs on a durable node, else on the one longest in the job. */
static bool suits_before(const struct node *a, const struct node *b)
{
    if (a->is_durable != b->is_durable) {
        return a->is_durable;
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
    if (a->is_durable == b->is_durable && (a->seat.index == 0) != (b->seat.index == 0)) {
        return a->seat.index == 0;
    }
    /* By epochs: members tell of a step at different moments, and keep the same one. */
    if (a->is_durable == b->is_durable && a->ready.memory.epoch != b->ready.memory.epoch) {
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
uint32_t roster_fill(struct job *job, struct node **seats)
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
