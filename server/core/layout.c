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

static struct shape shape_of(const struct job_spec *spec, uint32_t n_ps, uint32_t n_seats)
{
    uint32_t extra = (uint32_t)spec->chief + n_ps;
    return (struct shape){.n_chief = spec->chief,
                          .n_workers = n_seats > extra ? n_seats - extra : 0,
                          .n_ps = n_ps,
                          .nproc = spec->nproc};
}

/* Returns the shape of the current epoch; the next one may have another number of ps. */
static struct shape shape_now(const struct job *job)
{
    return shape_of(&job->spec, job->epoch.n_ps, job->epoch.n_seats);
}

static enum tfe_task task_of(const struct shape *shape, uint32_t seat)
{
    return seat < shape->n_chief                      ? TASK_CHIEF
           : seat < shape->n_chief + shape->n_workers ? TASK_WORKER
                                                      : TASK_PS;
}

static uint32_t rank_of(const struct shape *shape, uint32_t seat)
{
    uint32_t workers = seat > shape->n_chief ? seat - shape->n_chief : 0;
    uint32_t after = workers > shape->n_workers ? workers - shape->n_workers : 0;
    uint32_t first = seat < shape->n_chief ? seat : shape->n_chief;
    return first + (workers - after) * shape->nproc + after;
}

static uint32_t seat_of(const struct shape *shape, uint32_t rank)
{
    uint32_t n = shape->n_chief + shape->n_workers + shape->n_ps;
    uint32_t behind = shape->n_chief + shape->n_workers * shape->nproc; /* rank of the first ps */
    uint32_t seat = rank < shape->n_chief ? rank
                    : rank < behind       ? shape->n_chief + (rank - shape->n_chief) / shape->nproc
                                          : shape->n_chief + shape->n_workers + (rank - behind);
    return seat < n && rank_of(shape, seat) == rank ? seat : n;
}

uint32_t roster_extra(const struct job_spec *spec)
{
    return (uint32_t)spec->chief + spec->n_ps;
}

uint32_t roster_extra_now(const struct job *job)
{
    return (uint32_t)job->spec.chief + job->epoch.n_ps;
}

uint32_t roster_most(const struct job_spec *spec)
{
    return spec->max_nodes + roster_extra(spec) + (uint32_t)spec->evaluator;
}

uint32_t roster_world_of(const struct job_spec *spec, uint32_t n_seats)
{
    struct shape shape = shape_of(spec, spec->n_ps, n_seats);
    return rank_of(&shape, n_seats);
}

uint32_t roster_seat_of(const struct job_spec *spec, uint32_t n_seats, uint32_t rank)
{
    struct shape shape = shape_of(spec, spec->n_ps, n_seats);
    return seat_of(&shape, rank);
}

bool roster_has_servers(const struct job *job)
{
    return job->epoch.n_ps > 0;
}

uint32_t roster_rank(const struct job *job, uint32_t seat)
{
    struct shape shape = shape_now(job);
    return rank_of(&shape, seat);
}

uint32_t roster_trainers(const struct job *job, uint32_t seat)
{
    struct shape shape = shape_now(job);
    return task_of(&shape, seat) == TASK_WORKER ? shape.nproc : 1;
}

uint32_t roster_first_ps(const struct job *job)
{
    struct shape shape = shape_now(job);
    return shape.n_chief + shape.n_workers;
}

enum tfe_task roster_task(const struct job *job, uint32_t seat)
{
    struct shape shape = shape_now(job);
    return task_of(&shape, seat);
}

uint32_t roster_world(const struct job *job)
{
    return roster_rank(job, job->epoch.n_seats);
}

void roster_name(const struct job *job, uint32_t rank, struct msg_row *ret)
{
    struct shape shape = shape_now(job);
    uint32_t ps = rank_of(&shape, shape.n_chief + shape.n_workers);
    ret->role = rank < shape.n_chief ? TASK_CHIEF : rank < ps ? TASK_WORKER : TASK_PS;
    ret->first = rank < shape.n_chief ? 0 : rank < ps ? shape.n_chief : ps;
}

uint32_t roster_places_of(const struct job_spec *spec, enum tfe_task task)
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

bool roster_is_named(const struct job_spec *spec)
{
    return spec->chief || spec->n_ps > 0 || spec->evaluator;
}

/* --- what follows from a slot ----------------------------------------------------------------- */

/* Which trainers start first, by strategy (design 4.3, docs/tensorflow.md). In a synchronous
 * cluster it is the first task, where TensorFlow's coordination service runs. Served workers and ps
 * wait for no other task, and their chief connects to all of them. */
static const struct {
    bool chief_begins;
    uint32_t head_start_ms;
} orders[] = {{true, 300}, {false, 1000}};

bool roster_begins(const struct job *job, const struct node *node)
{
    return roster_is_chief(job, node) == orders[roster_has_servers(job)].chief_begins;
}

bool roster_may_follow(const struct job *job)
{
    if (orders[roster_has_servers(job)].chief_begins) {
        return roster_chief(job)->seat.is_listening;
    }
    /* all except the chief, which has not been started yet */
    return job->epoch.n_listening + 1 >= job->epoch.n_seats;
}

uint32_t roster_head_start_ms(const struct job *job)
{
    return orders[roster_has_servers(job)].head_start_ms;
}

/* In a job without a chief the first worker does the chief's work. */
struct node *roster_chief(const struct job *job)
{
    return job->epoch.n_seats > 0 ? job->epoch.seats[0] : NULL;
}

bool roster_is_chief(const struct job *job, const struct node *node)
{
    return node->seat.index == 0;
}

bool roster_counts(const struct job *job, const struct node *node)
{
    return job_takes_all(&job->spec) ? roster_task(job, node->seat.index) == TASK_WORKER
                                     : roster_is_chief(job, node);
}

uint32_t roster_needed(const struct job *job)
{
    return job_takes_all(&job->spec) ? shape_now(job).n_workers : 1;
}

bool roster_follows(const struct job *job, const struct node *node)
{
    return job->spec.linger || !roster_has_servers(job) || roster_is_chief(job, node);
}

bool roster_can_miss(const struct job *job, const struct node *node)
{
    return roster_has_servers(job) && !job_takes_all(&job->spec) && node_is_member(node) &&
           !roster_is_chief(job, node) && roster_task(job, node->seat.index) == TASK_WORKER;
}

static bool meets_next(const struct job *job)
{
    const struct epoch *epoch = &job->epoch;
    return epoch->has_fixed_ports && !epoch->has_progressed && !told_any(&job->told);
}

bool roster_is_stopped(const struct job *job)
{
    const struct epoch *epoch = &job->epoch;
    bool may_meet_next = meets_next(job);
    if (!epoch->is_open) {
        return true;
    }
    if (roster_has_servers(job) && !may_meet_next) {
        return epoch->n_seats > 0 && epoch->seats[0]->seat.is_accounted;
    }
    return epoch->n_accounted >= (may_meet_next ? epoch->n_seats : 1);
}

bool roster_is_fenced(const struct job *job, uint32_t seat)
{
    return seat == 0 || !roster_has_servers(job) || meets_next(job);
}

bool roster_wants_evaluator(const struct job *job)
{
    bool has_one = job->evaluator.node && !evaluator_is_leaving(job);
    return job->spec.evaluator && !has_one && !job->evaluator.is_done;
}

/* --- whether there are enough nodes ----------------------------------------------------------- */

/* Number of nodes by the roles that they can have. */
struct stock {
    uint32_t pinned[TASK_EVALUATOR + 1];
    uint32_t any;
};

/* Returns true if the member will be READY once it is asked, as things stand. */
static bool stays(const struct node *node)
{
    return node_is_member(node) && !node->is_gone && !node->seat.is_taken_over &&
           !node->notice.is_leaving;
}

static struct stock take_stock(const struct job *job, bool with_members)
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
static uint32_t draw(struct stock *stock, enum tfe_task task, uint32_t wanted)
{
    uint32_t pinned = stock->pinned[task] < wanted ? stock->pinned[task] : wanted;
    uint32_t others = stock->any < wanted - pinned ? stock->any : wanted - pinned;
    stock->any -= others;
    return wanted - pinned - others;
}

static bool is_served_with(const struct job *job, uint32_t workers, bool evaluator)
{
    const struct job_spec *spec = &job->spec;
    if (!roster_is_named(spec)) {
        return job->n_ready >= workers;
    }
    struct stock stock = take_stock(job, false);
    return draw(&stock, TASK_CHIEF, spec->chief) + draw(&stock, TASK_PS, spec->n_ps) +
               draw(&stock, TASK_WORKER, workers) +
               draw(&stock, TASK_EVALUATOR, evaluator ? 1 : 0) ==
           0;
}

bool roster_is_enough(const struct job *job)
{
    return is_served_with(job, job->spec.min_nodes, false);
}

bool roster_would_do(const struct job *job, uint32_t min, uint32_t n_ps)
{
    struct stock stock = take_stock(job, true);
    return draw(&stock, TASK_CHIEF, job->spec.chief) + draw(&stock, TASK_PS, n_ps) +
               draw(&stock, TASK_WORKER, min) ==
           0;
}

uint32_t roster_lacking(const struct job *job)
{
    struct stock stock = take_stock(job, false);
    return draw(&stock, TASK_CHIEF, job->spec.chief) + draw(&stock, TASK_PS, job->spec.n_ps) +
           draw(&stock, TASK_WORKER, job->spec.min_nodes);
}

bool roster_is_full(const struct job *job)
{
    return is_served_with(job, job->spec.max_nodes, roster_wants_evaluator(job));
}

uint32_t roster_spares(const struct job *job, bool may_evaluate)
{
    if (!roster_is_named(&job->spec)) {
        return job->n_ready;
    }
    struct stock stock = take_stock(job, false);
    /* A node that is about to evaluate is left out of the next epoch (rank_assignment.c:
     * spare_evaluator). */
    bool evaluates = may_evaluate && roster_wants_evaluator(job) &&
                     stock.pinned[TASK_EVALUATOR] == 0 && stock.any > 0;
    return stock.pinned[TASK_WORKER] + stock.any - evaluates;
}

void roster_lacks(const struct job *job, struct text *text)
{
    static const struct {
        enum tfe_task task;
        const char *one, *more;
    } kinds[] = {
        {TASK_CHIEF, "chief", "chiefs"}, {TASK_PS, "ps", "ps"}, {TASK_WORKER, "worker", "workers"}};
    const uint32_t wanted[] = {job->spec.chief, job->spec.n_ps, job->spec.min_nodes};
    struct stock stock = take_stock(job, false);
    bool is_first = true;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        uint32_t n = draw(&stock, kinds[i].task, wanted[i]);
        if (n > 0) {
            text_addf(text, "%s%u %s", is_first ? "" : ", ", n,
                      n == 1 ? kinds[i].one : kinds[i].more);
            is_first = false;
        }
    }
}
