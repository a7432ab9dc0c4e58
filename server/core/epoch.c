/* server/core/epoch.c: who is in the next cluster, with which rank; its table; its start. */
#include <string.h>

#include "server/core/core.h"

/* DESIGN 4.3: a script may load data for minutes before rank 0 listens. */
#define LEADER_WAIT_MS 300

/* DESIGN 4.5: rank 0 belongs on a durable node, else on the one longest in the job. */
static bool suits_before(const struct node *a, const struct node *b)
{
    if (a->durable != b->durable) {
        return a->durable;
    }
    if (a->join_order != b->join_order) {
        return a->join_order < b->join_order;
    }
    return id_compare(&a->id, &b->id) < 0;
}

/* Whether one has the better claim to index 0, which is never a node's that may have to go if there
 * is another; among those, who stays longest has it. It stays where nobody suits it better but by
 * age alone. */
static bool leads_before(const struct node *a, const struct node *b)
{
    if ((a->notice == 0) != (b->notice == 0)) {
        return a->notice == 0;
    }
    if (a->notice && a->notice_deadline.ms != b->notice_deadline.ms) {
        return tfe_mono_before(b->notice_deadline, a->notice_deadline);
    }
    if (a->durable == b->durable && (a->seat == 0) != (b->seat == 0)) {
        return a->seat == 0;
    }
    return suits_before(a, b);
}

static bool sits_before(const struct node *a, const struct node *b)
{
    if ((a->notice == 0) != (b->notice == 0)) {
        return a->notice == 0; /* before those that may have to go */
    }
    /* Members before others, members by their old seat, others by how they suit rank 0. */
    if ((a->seat == NO_SEAT) != (b->seat == NO_SEAT)) {
        return a->seat != NO_SEAT;
    }
    if (a->seat != b->seat) {
        return a->seat < b->seat;
    }
    return suits_before(a, b);
}

/* Heapsort: no recursion, no allocation, and libc's qsort is not for a core. */
static void sift(struct node **v, size_t i, size_t n)
{
    for (;;) {
        size_t top = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < n; child++) {
            if (sits_before(v[top], v[child])) {
                top = child;
            }
        }
        if (top == i) {
            return;
        }
        struct node *swap = v[i];
        v[i] = v[top];
        v[top] = swap;
        i = top;
    }
}

static void sort_by_claim(struct node **v, size_t n)
{
    for (size_t i = n / 2; i > 0; i--) {
        sift(v, i - 1, n);
    }
    for (size_t end = n; end > 1; end--) {
        struct node *swap = v[0];
        v[0] = v[end - 1];
        v[end - 1] = swap;
        sift(v, 0, end - 1);
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
    uint32_t max = job->max_nodes + TFE_BUG(max_off_by_one);
    return n < max ? n : max;
}

/* Seats of the chosen: index 0 by leads_before; survivors keep theirs
 * where the range allows; the rest fills the gaps in order of claim. Old seats are read from
 * node->seat, the new ones are in epoch.seats. */
static void assign_seats(struct job *job, uint32_t n)
{
    struct node **seats = job->epoch.seats;
    memset(seats, 0, n * sizeof(struct node *));
    struct node *first = job->chosen[0];
    for (uint32_t i = 1; i < n; i++) {
        first = leads_before(job->chosen[i], first) ? job->chosen[i] : first;
    }
    seats[0] = first;
    for (uint32_t i = 0; i < n; i++) {
        struct node *node = job->chosen[i];
        if (node != first && node->seat < n && !seats[node->seat]) {
            seats[node->seat] = node;
        }
    }
    uint32_t gap = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct node *node = job->chosen[i];
        if (node == first || (node->seat < n && seats[node->seat] == node)) {
            continue;
        }
        while (seats[gap]) {
            gap++;
        }
        seats[gap] = node;
    }
}

/* Takes leave of the old epoch: its members' seats, and those of them that are gone altogether. */
static void dissolve(struct rdzv *r, struct job *job)
{
    struct node *node;
    struct node *next;
    RB_FOREACH_SAFE(node, node_tree, &job->nodes, next)
    {
        if (node->seat != NO_SEAT && !node->accounted && job->epoch.opened) {
            node->haunts = job->epoch.number;
        }
        node->seat = NO_SEAT;
        node->accounted = false;
        node->started = false;
        node->listening = false;
        node->is_dead = false;
        node->progress = (struct msg_progress){.epoch = 0};
        node->is_other = false;
        node->n_void = 0;
        node->save_told = 0;
        if (node->gone) {
            node_remove(r, node);
        }
    }
}

static void tell_start(struct rdzv *r, const struct job *job, struct node *node)
{
    node->started = true;
    if (node->session == NO_SESSION) {
        return; /* it will hear of it when it comes back */
    }
    node->told_visit = node->visit;
    const struct epoch *epoch = &job->epoch;
    struct msg_start *start = &send_to(r, node->session, MSG_START)->u.start;
    start->epoch = epoch->number;
    start->run = job->run;
    start->rank = TFE_BUG(seat_twice) ? 0 : node->seat * job->nproc;
    start->world = epoch->n_seats * job->nproc;
    start->nodes = epoch->n_seats;
    start->cause = epoch->cause;
    start->table_digest = epoch->digest;
    start->fence_ms = lease_fence_of_start(r, node);
}

void epoch_tell_again(struct rdzv *r, struct job *job, struct node *node)
{
    table_tell(r, job, node);
    if (node->started) {
        tell_start(r, job, node);
    }
}

void epoch_tell_rest(struct rdzv *r, struct job *job)
{
    job->epoch.leader_until = TFE_MONO_NEVER;
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        struct node *node = job->epoch.seats[seat];
        if (!node->started && !node->gone) {
            tell_start(r, job, node);
        }
    }
}

void epoch_prepare_spares(struct rdzv *r, struct job *job)
{
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        /* One that came while the epoch was written has been asked, and may have said READY. */
        if (node->seat == NO_SEAT && node->session != NO_SESSION && !node_is_ready(node) &&
            !TFE_BUG(spare_forgotten)) {
            node_prepare(r, node);
        }
    }
}

void epoch_open(struct rdzv *r, struct job *job)
{
    struct epoch *epoch = &job->epoch;
    epoch->opened = true;
    epoch->started = r->now;
    plan_begin_epoch(r, job);
    ledger_open(r, job);
    send_trace(r, TRACE_EPOCH, job, NULL, epoch->n_seats, msg_cause_name(epoch->cause));
    for (uint32_t seat = 0; seat < epoch->n_seats; seat++) {
        if (epoch->seats[seat]->session != NO_SESSION) {
            table_tell(r, job, epoch->seats[seat]);
        }
    }
    tell_start(r, job, epoch->seats[0]);
    epoch->leader_until =
        epoch->n_seats > 1 ? tfe_mono_add(r->now, LEADER_WAIT_MS) : TFE_MONO_NEVER;
    epoch_prepare_spares(r, job);
}

void epoch_form(struct rdzv *r, struct job *job)
{
    uint64_t number = job_next_epoch(job) - (TFE_BUG(epoch_repeats) && job->epoch.number != 0);
    uint32_t n = choose(job);
    /* The set of ports that the old epoch used may be spoken to until its last member that nothing
     * is known of is past its fence. */
    struct tfe_mono *spoken_until = &job->ports_spoken_until[job->epoch.number & 1];
    *spoken_until = tfe_mono_max(*spoken_until, epoch_fence_end(job));
    assign_seats(job, n);
    ledger_close(r, job);
    dissolve(r, job);

    struct epoch *epoch = &job->epoch;
    epoch->number = number;
    epoch->n_seats = n;
    fault_take_in(job);
    epoch->n_accounted = 0;
    epoch->cause = job->has_cause ? job->next_cause : CAUSE_START;
    epoch->opened = false;
    epoch->adopted = false;
    epoch->leader_until = TFE_MONO_NEVER;
    job->highest_epoch = number;
    job->has_cause = false;
    job->is_first_epoch = false;
    job->rank0_finished = false;
    job->exit_deadline = TFE_MONO_NEVER;
    job->n_ready = 0; /* nobody is ready for the epoch after this one */
    for (uint32_t seat = 0; seat < n; seat++) {
        epoch->seats[seat]->seat = seat;
    }
    epoch_make_table(job);
    ledger_form(r, job);
}

static struct tfe_mono fence_end(const struct node *node)
{
    return node->is_other ? node->other_fence_end : node->lease.fence_end;
}

struct tfe_mono epoch_chief_fence_end(const struct job *job)
{
    const struct node *chief = job->epoch.n_seats ? job->epoch.seats[0] : NULL;
    return chief && !chief->accounted ? fence_end(chief) : (struct tfe_mono){0};
}

bool epoch_is_whole(const struct job *job)
{
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        if (job->epoch.seats[seat]->gone || job->epoch.seats[seat]->is_other) {
            return false;
        }
    }
    return job->epoch.n_accounted == 0;
}

struct tfe_mono epoch_fence_end(const struct job *job)
{
    struct tfe_mono end = {0};
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        const struct node *node = job->epoch.seats[seat];
        if (!node->accounted) {
            end = tfe_mono_max(end, fence_end(node));
        }
    }
    return end;
}
