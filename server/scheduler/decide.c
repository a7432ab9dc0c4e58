/* server/scheduler/decide.c: decides assignments and releases by the rules of placement.h. */
#include <string.h>

#include "server/scheduler/match.h"
#include "server/scheduler/placement_state.h"

_Static_assert(MATCH_TASKS == PLACEMENT_TASKS, "tasks of a job");
_Static_assert(PLACEMENT_CLASSES_MAX <= 64, "classes fit a mask");

#define ALL_QUOTAS (UINT64_MAX >> (64 - PLACEMENT_QUOTAS_MAX))

/* Number of nodes by class to which no job served earlier in the step has a claim. */
struct supply {
    uint32_t free[PLACEMENT_CLASSES_MAX];
    /* like free, including nodes that are leaving their jobs and will be free */
    uint32_t all[PLACEMENT_CLASSES_MAX];
    uint32_t plan[PLACEMENT_TASKS][PLACEMENT_CLASSES_MAX];
};

static struct match match_of(const struct placement *p, const struct place_job *job,
                             const uint32_t nodes[])
{
    struct match m = {{0}, {0}};
    for (uint32_t c = 0; c < p->n_classes; c++) {
        m.nodes[job->kinds[c]] += nodes[c];
    }
    for (unsigned task = 0; task < PLACEMENT_TASKS; task++) {
        m.need[task] = job_needs(job, task);
    }
    return m;
}

/* Plans which class serves which task: chief and ps get non-preemptible machines first, the other
 * tasks last. Plans everything that is needed or, if nodes are lacking, what there is. */
static void plan(struct placement *p, const struct place_job *job, struct match m,
                 const uint32_t nodes[], struct supply *s)
{
    static const enum tfe_task order[] = {TASK_CHIEF, TASK_PS, TASK_EVALUATOR, TASK_WORKER};
    bool is_enough = match_lacking(&m) == 0;
    uint32_t left[PLACEMENT_CLASSES_MAX];
    memcpy(left, nodes, sizeof(left));
    memset(s->plan, 0, sizeof(s->plan));
    for (unsigned i = 0; i < PLACEMENT_TASKS * 2; i++) {
        enum tfe_task task = order[i / 2];
        bool wants_durable = (task == TASK_CHIEF || task == TASK_PS) == (i % 2 == 0);
        for (uint32_t c = 0; c < p->n_classes && m.need[task] > 0; c++) {
            uint8_t kind = job->kinds[c];
            if (left[c] == 0 || p->classes[c].is_durable != wants_durable ||
                !(kind & (1u << task))) {
                continue;
            }
            uint32_t n = is_enough ? match_max(&m, task, kind) : m.need[task];
            n = n < left[c] ? n : left[c];
            match_assign(&m, task, kind, n);
            left[c] -= n;
            s->plan[task][c] = n;
        }
    }
}

/* Takes the planned nodes out of the supply: jobs behind do not get them. */
static void hold(const struct placement *p, struct supply *s)
{
    for (uint32_t c = 0; c < p->n_classes; c++) {
        uint32_t n = 0;
        for (unsigned task = 0; task < PLACEMENT_TASKS; task++) {
            n += s->plan[task][c];
        }
        s->all[c] -= n;
        s->free[c] -= n < s->free[c] ? n : s->free[c];
    }
}

static void assign(struct placement *p, struct place_job *job, const struct supply *s)
{
    for (unsigned task = 0; task < PLACEMENT_TASKS; task++) {
        for (uint32_t c = 0; c < p->n_classes; c++) {
            for (uint32_t n = 0; n < s->plan[task][c]; n++) {
                act_assign(p, TAILQ_FIRST(&p->classes[c].free), job, (enum tfe_task)task);
            }
        }
    }
}

/* --- taking nodes from other jobs ------------------------------------------------------------- */

static void release_all(struct placement *p, struct place_job *job, enum placement_reason reason)
{
    struct place_node *node;
    TAILQ_FOREACH(node, &job->nodes, entry)
    {
        if (node->state == PLACE_ASSIGNED) {
            act_release(p, node, reason);
        }
    }
}

/* Returns true if for_ may take nodes from `from`. Nodes that a job keeps after its end are never
 * taken. For a part of its quotas, a job also gives up workers of its own. */
static bool may_take(const struct place_job *for_, const struct place_job *from, bool for_share,
                     bool is_whole)
{
    if (from == for_) {
        return for_share && !is_whole;
    }
    return !from->is_over && (is_whole ? for_->preempt && from->priority < for_->priority
                                       : from->priority <= for_->priority);
}

/* Returns how many workers the job has above its minimum. */
static uint32_t above_minimum(const struct place_job *job)
{
    const uint32_t workers = job->held[TASK_WORKER];
    return workers > job->min[TASK_WORKER] ? workers - job->min[TASK_WORKER] : 0;
}

/* What a job lacks, while nodes of other jobs are searched for it. */
struct taking {
    struct match nodes;
    uint64_t short_of;                    /* bit set of the quotas of which it lacks a part */
    uint32_t share[PLACEMENT_QUOTAS_MAX]; /* how many nodes it lacks of each quota */
};

/* No task: any node of a job counts for its quota. */
#define ANY_TASK 0u

/* Returns how many nodes may be taken from a job that could have one of the tasks. */
static uint32_t takeable(const struct placement *p, const struct place_job *for_,
                         const struct place_job *from, uint8_t tasks)
{
    const bool is_whole = may_take(for_, from, false, true);
    const uint32_t limit = is_whole ? UINT32_MAX : above_minimum(from);
    uint32_t n = 0;
    for (uint32_t c = 0; c < p->n_classes && limit > 0; c++) {
        if (tasks == ANY_TASK || (for_->kinds[c] & tasks)) {
            n += from->workers_here[c] + (is_whole ? from->others_here[c] : 0);
        }
    }
    return n < limit ? n : limit;
}

/* Returns true if other jobs can give what is lacking (spare < 0): nodes for these tasks, or parts
 * of a quota. */
static bool can_give(const struct placement *p, const struct place_job *job, uint8_t tasks,
                     uint64_t quota, int64_t spare)
{
    for (size_t i = p->n_jobs; i-- > 0 && spare < 0;) {
        const struct place_job *from = p->jobs[i];
        if ((!quota || (from->quotas & quota)) &&
            (may_take(job, from, quota != 0, false) || may_take(job, from, quota != 0, true))) {
            spare += takeable(p, job, from, tasks);
        }
    }
    return spare >= 0;
}

/* Returns true if all nodes that other jobs may lose would be enough. Compares, for each set of
 * tasks, the job's need with what all jobs together can release. Nearly all negative answers are
 * found before any node is visited. */
static bool would_be_enough(const struct placement *p, const struct place_job *job,
                            const struct taking *t)
{
    uint8_t needed = 0;
    bool is_enough = true;
    for (unsigned task = 0; task < PLACEMENT_TASKS; task++) {
        needed |= (uint8_t)((t->nodes.need[task] > 0) << task);
    }
    for (uint8_t set = needed; set != 0 && is_enough; set = (uint8_t)((set - 1) & needed)) {
        is_enough = can_give(p, job, set, 0, match_spare(&t->nodes, set));
    }
    for (uint64_t set = t->short_of; set != 0 && is_enough; set &= set - 1) {
        const int64_t share = t->share[__builtin_ctzll(set)];
        is_enough = can_give(p, job, ANY_TASK, set & -set, -share);
    }
    return is_enough;
}

/* Passes in which nodes to release are chosen: first nodes that count for a lacking quota, from
 * jobs that use it, then nodes that are still lacking, from any job. Passes that end a job come
 * last. */
static const struct pass {
    bool for_share, for_nodes; /* what a chosen node contributes */
    bool is_whole;
} passes[] = {
    {.for_share = true, .for_nodes = true},
    {.for_share = true},
    {.for_share = true, .for_nodes = true, .is_whole = true},
    {.for_share = true, .is_whole = true},
    {.for_nodes = true},
    {.for_nodes = true, .is_whole = true},
};
#define PASSES (sizeof(passes) / sizeof(passes[0]))

static void take_share(struct taking *t, uint64_t quotas)
{
    for (uint64_t set = quotas & t->short_of; set != 0; set &= set - 1) {
        const unsigned q = (unsigned)__builtin_ctzll(set);
        if (--t->share[q] == 0) {
            t->short_of &= ~((uint64_t)1 << q);
        }
    }
}

/* Chooses nodes of a job that help, the newest first. */
static void pick(struct placement *p, const struct place_job *for_, struct place_job *from,
                 const struct pass *pass, struct taking *t)
{
    /* the job has been chosen to be ended, so all its nodes are available */
    const bool is_whole = pass->is_whole || from->is_given_up;
    uint32_t limit = is_whole ? UINT32_MAX : above_minimum(from) - from->n_picked;
    struct place_node *node;
    uint8_t lacking = match_lacking(&t->nodes);
    if (takeable(p, for_, from, pass->for_nodes ? lacking : ANY_TASK) == 0) {
        return;
    }
    TAILQ_FOREACH_REVERSE(node, &from->nodes, place_list, entry)
    {
        if (limit == 0 || (pass->for_nodes && lacking == 0) ||
            (pass->for_share && !(from->quotas & t->short_of))) {
            break;
        }
        bool is_there = node_is_held(node) && node->is_here && !node->is_picked;
        uint8_t kind = is_there ? for_->kinds[node->class] : 0;
        if (is_there && (is_whole || node->task == TASK_WORKER) &&
            (!pass->for_nodes || (kind & lacking))) {
            node->is_picked = true;
            p->picked[p->n_picked++] = node;
            from->n_picked++;
            from->is_given_up = is_whole;
            t->nodes.nodes[kind]++;
            take_share(t, from->quotas);
            lacking = match_lacking(&t->nodes);
            limit--;
        }
    }
}

/* Takes what the job lacks from other jobs, or nothing. n: total number of nodes that it lacks. */
static bool take(struct placement *p, struct place_job *job, uint32_t n, struct supply *s)
{
    struct taking t = {.nodes = match_of(p, job, s->all), .short_of = job->short_of};
    for (uint64_t set = t.short_of; set != 0; set &= set - 1) {
        const unsigned q = (unsigned)__builtin_ctzll(set);
        t.share[q] = quota_lacks(&p->quotas[q], n, true);
    }
    p->n_picked = 0;
    if (!would_be_enough(p, job, &t)) {
        return false;
    }
    for (size_t pass = 0; pass < PASSES; pass++) {
        const bool for_share = passes[pass].for_share;
        for (size_t i = p->n_jobs; i-- > 0;) {
            struct place_job *from = p->jobs[i];
            if (for_share ? !t.short_of : match_lacking(&t.nodes) == 0) {
                break;
            }
            if (may_take(job, from, for_share, passes[pass].is_whole)) {
                pick(p, job, from, &passes[pass], &t);
            }
        }
    }
    bool is_enough = match_lacking(&t.nodes) == 0 && !t.short_of;
    for (size_t i = 0; i < p->n_picked; i++) {
        struct place_node *node = p->picked[i];
        node->is_picked = false;
        if (is_enough) {
            s->all[node->class]++;
            act_release(p, node, PLACEMENT_TAKEN);
        }
    }
    for (size_t i = 0; i < p->n_jobs; i++) {
        if (p->jobs[i]->is_given_up && is_enough) {
            release_all(p, p->jobs[i], PLACEMENT_TAKEN);
        }
        p->jobs[i]->is_given_up = false;
        p->jobs[i]->n_picked = 0;
    }
    return is_enough;
}

/* --- serving jobs in order -------------------------------------------------------------------- */

/* Releases the newest nodes first. A node that has not connected since the restart may be warned
 * and already replaced: no node is released because of it before it connects. */
static void release_surplus(struct placement *p, struct place_job *job)
{
    uint32_t connected[PLACEMENT_TASKS] = {0};
    struct place_node *node;
    TAILQ_FOREACH(node, &job->nodes, entry)
    {
        connected[node->task] += node_is_held(node) && node->class != CLASS_NONE;
    }
    TAILQ_FOREACH_REVERSE(node, &job->nodes, place_list, entry)
    {
        if (node_is_held(node) && node->class != CLASS_NONE &&
            connected[node->task] > job->max[node->task]) {
            connected[node->task]--;
            act_release(p, node, PLACEMENT_TOO_MANY);
        }
    }
}

static void shrink(struct placement *p, struct place_job *job)
{
    if (job->is_over && job->keeps_nodes) {
        return;
    }
    if (!job_is_active(job)) {
        if (task_sum(job->held) + task_sum(job->warned) > 0) {
            release_all(p, job, job->is_over ? PLACEMENT_OVER : PLACEMENT_SUSPENDED);
        }
        return;
    }
    bool has_too_many = false;
    for (unsigned task = 0; task < PLACEMENT_TASKS; task++) {
        has_too_many = has_too_many || job->held[task] > job->max[task];
    }
    if (has_too_many) {
        release_surplus(p, job);
    }
}

static bool is_ever_enough(const struct placement *p, const struct place_job *job)
{
    uint32_t here[PLACEMENT_CLASSES_MAX];
    for (uint32_t c = 0; c < p->n_classes; c++) {
        here[c] = p->classes[c].n_here;
    }
    struct match m = match_of(p, job, here);
    memcpy(m.need, job->min, sizeof(m.need));
    return match_lacking(&m) == 0;
}

static void fill_minimum(struct placement *p, struct place_job *job, struct supply *s)
{
    const uint32_t n = job_lacks(job);
    if (n == 0) {
        return;
    }
    struct match now = match_of(p, job, s->free);
    if (match_lacking(&now) == 0 && !quotas_below(p, job->quotas, n, false)) {
        plan(p, job, now, s->free, s);
        hold(p, s);
        assign(p, job, s);
        return;
    }
    const struct place_quota *smallest = quota_smallest(p, job->quotas);
    job->is_above = smallest && smallest->nodes < task_sum(job->min);
    if (job->is_above) {
        return; /* its minimum can never be met, so it reserves nothing */
    }
    job->is_too_large = !is_ever_enough(p, job);
    struct match soon = match_of(p, job, s->all);
    job->short_of = quotas_below(p, job->quotas, n, true);
    if ((match_lacking(&soon) != 0 || job->short_of) && take(p, job, n, s)) {
        soon = match_of(p, job, s->all);
        job->short_of = 0;
    }
    job->lacks = match_lacks(&soon);
    const struct place_quota *q = quota_smallest(p, job->short_of);
    job->share = q ? quota_lacks(q, n, true) : 0;
    if (job->is_too_large && job->lacks > 0) {
        return;
    }
    /* Nodes are of no use to the job before it has its part of the quota. */
    if (!job->short_of) {
        plan(p, job, soon, s->all, s);
        hold(p, s);
    }
    quotas_keep(p, job->short_of ? job->short_of : job->quotas, n);
}

/* --- growth ----------------------------------------------------------------------------------- */

static bool may_grow(const struct place_job *job)
{
    return job_is_active(job) && job_lacks(job) == 0 &&
           job->held[TASK_WORKER] < job->max[TASK_WORKER];
}

/* One more worker beside n adds gain / n to the job's throughput. */
static bool helps_more(const struct place_job *a, const struct place_job *b)
{
    return (uint64_t)a->gain_milli * b->held[TASK_WORKER] >
           (uint64_t)b->gain_milli * a->held[TASK_WORKER];
}

static bool grow(struct placement *p, struct supply *s)
{
    uint64_t idle = 0; /* bit set of classes with free nodes, like for_workers */
    uint64_t durable = 0;
    for (uint32_t c = 0; c < p->n_classes; c++) {
        idle |= (uint64_t)(s->free[c] > 0) << c;
        durable |= (uint64_t)p->classes[c].is_durable << c;
    }
    uint64_t full = quotas_below(p, ALL_QUOTAS, 1, false);
    for (unsigned n = 0; n < PLACEMENT_GROWTH_MAX && idle != 0; n++) {
        struct place_job *best = NULL;
        for (size_t i = 0; i < p->n_jobs; i++) {
            struct place_job *job = p->jobs[i];
            if ((job->for_workers & idle) && !(job->quotas & full) && may_grow(job) &&
                (!best || helps_more(job, best))) {
                best = job;
            }
        }
        if (!best) {
            return false;
        }
        const uint64_t fits = best->for_workers & idle;
        const uint64_t first = fits & ~durable ? fits & ~durable : fits;
        const uint32_t class = (uint32_t)__builtin_ctzll(first);
        if (--s->free[class] == 0) {
            idle &= ~((uint64_t)1 << class);
        }
        act_assign(p, TAILQ_FIRST(&p->classes[class].free), best, TASK_WORKER);
        full |= quotas_below(p, best->quotas, 1, false);
    }
    return idle != 0;
}

/* --- resulting state of each job -------------------------------------------------------------- */

static void settle(struct placement *p, struct place_job *job)
{
    enum placement_job_state state = job->is_over              ? PLACEMENT_JOB_IS_OVER
                                     : job->is_suspended       ? PLACEMENT_JOB_PAUSED
                                     : job_can_run(job)        ? PLACEMENT_JOB_PLACED
                                     : task_sum(job->held) > 0 ? PLACEMENT_JOB_SHORT
                                                               : PLACEMENT_JOB_QUEUED;
    if (state != job->state) {
        job->state = state;
        job->since = p->now;
    }
    const struct place_quota *q = quota_of_wait(p, job);
    const uint8_t is = q ? (uint8_t)(2 * (q - p->quotas) + 1 + job->is_above) : 0;
    if (job->reported_wait != is) {
        job->reported_wait = is;
        act_waits(p, job);
    }
}

static bool waits(const struct place_job *job)
{
    return job->lacks > 0 || job->short_of;
}

static bool waits_for_nodes(const struct place_job *job)
{
    return job->lacks > 0 && !job->short_of;
}

/* Returns true if another job waits for what the job has: for nodes, as n_waiting jobs do, or for a
 * part of a quota. */
static bool is_in_the_way(struct placement *p, const struct place_job *job, size_t n_waiting)
{
    size_t others = n_waiting - waits_for_nodes(job);
    for (uint64_t set = job->quotas; set != 0; set &= set - 1) {
        const unsigned q = (unsigned)__builtin_ctzll(set);
        others += p->quotas[q].n_short - (job->short_of >> q & 1);
    }
    return others > 0;
}

/* Two jobs that each hold a part of what one of them needs would both wait for ever: the last in
 * order gives its nodes up after gang_wait_ms. */
static struct tfe_mono give_up(struct placement *p)
{
    struct tfe_mono next = TFE_MONO_NEVER;
    struct place_job *last = NULL;
    size_t n_waiting = 0;
    for (size_t i = 0; i < p->n_jobs; i++) {
        uint64_t set = p->jobs[i]->short_of;
        struct place_quota *q;
        n_waiting += waits_for_nodes(p->jobs[i]);
        while ((q = quota_next(p, &set)) != NULL) {
            q->n_short++;
        }
    }
    for (size_t i = 0; i < p->n_jobs; i++) {
        struct place_job *job = p->jobs[i];
        const bool blocks = waits(job) && is_in_the_way(p, job, n_waiting);
        if (job->state == PLACEMENT_JOB_SHORT && (blocks || job->is_above)) {
            struct tfe_mono until = tfe_mono_add(job->since, p->config.gang_wait_ms);
            last = tfe_mono_before(p->now, until) ? last : job;
            next = tfe_mono_before(p->now, until) ? tfe_mono_min(next, until) : next;
        }
    }
    if (last) {
        release_all(p, last, last->is_above ? PLACEMENT_ABOVE_QUOTA : PLACEMENT_TOO_FEW);
        settle(p, last);
        return p->now; /* a waiting job gets them in the next step */
    }
    return next;
}

/* Maximum number of nodes that leave in one step; the rest follows in the next step, at once. */
#define LEAVE_MAX 64u

/* --- leaving ---------------------------------------------------------------------------------- */

/* Returns the unreserved node that leaves first and is allowed to, or NULL. */
static struct place_node *idlest(struct placement *p, const struct supply *s, uint32_t n_nodes)
{
    struct place_node *found = NULL;
    struct tfe_mono when = TFE_MONO_NEVER;
    for (uint32_t c = 0; c < p->n_classes; c++) {
        struct place_node *node = NULL;
        TAILQ_FOREACH(node, &p->classes[c].free, entry)
        {
            struct tfe_mono at = tfe_mono_add(node->idle_since, node->idle_exit_ms);
            if (s->free[c] > 0 && node->idle_exit_ms > 0 && n_nodes > node->floor &&
                (!found || tfe_mono_before(at, when))) {
                found = node;
                when = at;
            }
        }
    }
    return found;
}

/* Nodes leave one after the other, because each one changes what the next one's floor allows.
 * Returns when the next one is due. */
static struct tfe_mono leave_idle(struct placement *p, struct supply *s)
{
    uint32_t n_nodes = 0;
    for (uint32_t c = 0; c < p->n_classes; c++) {
        n_nodes += p->classes[c].n_here;
    }
    const uint32_t limit = n_nodes;
    for (struct place_node *node; p->n_idle_exit > 0 && (node = idlest(p, s, n_nodes)); n_nodes--) {
        struct tfe_mono at = tfe_mono_add(node->idle_since, node->idle_exit_ms);
        if (tfe_mono_before(p->now, at)) {
            return at;
        }
        if (limit - n_nodes == LEAVE_MAX) {
            return p->now;
        }
        s->free[node->class]--;
        act_leave(p, node);
    }
    return TFE_MONO_NEVER;
}

/* Returns true if a step that assigned nodes may have changed the situation of a job served before:
 * with one worker more a job can do without another, and a minimum uses up part of a quota. */
static bool may_change_for_one(const struct placement *p, uint64_t last_assignment)
{
    bool may = false;
    for (size_t i = 0; i < p->n_jobs && p->last_assignment != last_assignment && !may; i++) {
        may = waits(p->jobs[i]);
    }
    return may;
}

struct tfe_mono decide(struct placement *p)
{
    struct supply s = {.plan = {{0}}};
    const uint64_t last = p->last_assignment;
    for (unsigned q = 0; q < PLACEMENT_QUOTAS_MAX; q++) {
        p->quotas[q].kept = p->quotas[q].n_short = 0;
    }
    for (size_t i = 0; i < p->n_jobs; i++) {
        p->jobs[i]->lacks = 0;
        p->jobs[i]->short_of = 0;
        p->jobs[i]->is_too_large = p->jobs[i]->is_above = false;
        shrink(p, p->jobs[i]);
    }
    for (uint32_t c = 0; c < p->n_classes; c++) {
        s.free[c] = p->classes[c].n_free;
        s.all[c] = p->classes[c].n_free + p->classes[c].n_coming;
    }
    for (size_t i = 0; i < p->n_jobs; i++) {
        if (job_is_active(p->jobs[i])) {
            fill_minimum(p, p->jobs[i], &s);
        }
    }
    for (size_t i = 0; i < p->n_jobs; i++) {
        settle(p, p->jobs[i]);
    }
    /* Every step that requests a further step has assigned a free node, so the sequence of steps
     * ends. */
    bool has_more = grow(p, &s) || may_change_for_one(p, last);
    struct tfe_mono next = give_up(p);
    quotas_share_out(p);
    return has_more ? p->now : tfe_mono_min(next, leave_idle(p, &s));
}
