/* server/placement/decide.c: what follows from all that is known: the rules of placement.h. */
#include <string.h>

#include "server/placement/match.h"
#include "server/placement/part.h"

_Static_assert(MATCH_TASKS == PLACEMENT_TASKS, "tasks of a job");
_Static_assert(PLACEMENT_CLASSES_MAX <= 64, "classes fit a mask");

/* Nodes by class that nobody before has a claim to. */
struct supply {
    uint32_t free[PLACEMENT_CLASSES_MAX];
    uint32_t all[PLACEMENT_CLASSES_MAX]; /* … with those that are leaving and will be free */
    uint32_t plan[PLACEMENT_TASKS][PLACEMENT_CLASSES_MAX];
};

static bool is_active(const struct place_job *job)
{
    return !job->is_over && !job->is_suspended;
}

static uint32_t sum_of(const uint32_t n[PLACEMENT_TASKS])
{
    return n[TASK_WORKER] + n[TASK_CHIEF] + n[TASK_PS] + n[TASK_EVALUATOR];
}

static uint32_t needs(const struct place_job *job, unsigned task)
{
    return job->min[task] > job->held[task] ? job->min[task] - job->held[task] : 0;
}

static bool lacks_some(const struct place_job *job)
{
    return needs(job, TASK_WORKER) + needs(job, TASK_CHIEF) + needs(job, TASK_PS) +
               needs(job, TASK_EVALUATOR) >
           0;
}

static struct match match_of(const struct placement *p, const struct place_job *job,
                             const uint32_t nodes[])
{
    struct match m = {{0}, {0}};
    for (uint32_t c = 0; c < p->n_classes; c++) {
        m.nodes[job->kinds[c]] += nodes[c];
    }
    for (unsigned task = 0; task < PLACEMENT_TASKS; task++) {
        m.need[task] = needs(job, task);
    }
    return m;
}

/* Which node has which task: machines that last go to chief and ps first, to the others last. All
 * that is needed, or, where that cannot be had, what there is. */
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
            uint32_t n = is_enough ? match_most(&m, task, kind) : m.need[task];
            n = n < left[c] ? n : left[c];
            match_take(&m, task, kind, n);
            left[c] -= n;
            s->plan[task][c] = n;
        }
    }
}

/* Nobody behind the job gets what is planned for it. */
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

/* --- taking ----------------------------------------------------------------------------------- */

static void release_all(struct placement *p, struct place_job *job, enum placement_reason reason)
{
    struct place_node *node;
    TAILQ_FOREACH(node, &job->nodes, beside)
    {
        if (node->state == PLACE_ASSIGNED) {
            act_release(p, node, reason);
        }
    }
}

/* What a job that is over has kept is its own. */
static bool may_take(const struct place_job *for_, const struct place_job *from, bool is_whole)
{
    return from != for_ && !from->is_over &&
           (is_whole ? for_->preempt && from->priority < for_->priority
                     : from->priority <= for_->priority);
}

/* Workers that the job can do without. */
static uint32_t above_minimum(const struct place_job *job)
{
    const uint32_t workers = job->held[TASK_WORKER];
    return workers > job->min[TASK_WORKER] ? workers - job->min[TASK_WORKER] : 0;
}

/* Adds to m what may be taken of a job's nodes, counted as far as they have one of the tasks. */
static uint32_t takeable(const struct placement *p, const struct place_job *for_,
                         const struct place_job *from, uint8_t tasks)
{
    const bool is_whole = may_take(for_, from, true);
    const uint32_t most = is_whole ? UINT32_MAX : above_minimum(from);
    uint32_t n = 0;
    for (uint32_t c = 0; c < p->n_classes && most > 0; c++) {
        if (for_->kinds[c] & tasks) {
            n += from->workers_here[c] + (is_whole ? from->others_here[c] : 0);
        }
    }
    return n < most ? n : most;
}

/* Whether all that may be taken would be enough. A cut between the jobs that give and the tasks:
 * each set of tasks needs as many as the jobs together can give it. Nearly always this says no
 * before a node is looked at. */
static bool would_be_enough(const struct placement *p, const struct place_job *job,
                            const struct match *m)
{
    uint8_t needed = 0;
    for (unsigned task = 0; task < PLACEMENT_TASKS; task++) {
        needed |= (uint8_t)((m->need[task] > 0) << task);
    }
    for (uint8_t set = needed; set != 0; set = (uint8_t)((set - 1) & needed)) {
        int64_t spare = match_spare(m, set);
        for (size_t i = p->n_jobs; i-- > 0 && spare < 0;) {
            if (may_take(job, p->jobs[i], false) || may_take(job, p->jobs[i], true)) {
                spare += takeable(p, job, p->jobs[i], set);
            }
        }
        if (spare < 0) {
            return false;
        }
    }
    return true;
}

/* Picks of the nodes of a job those that help, the newest first. */
static void pick(struct placement *p, const struct place_job *for_, struct place_job *from,
                 bool is_whole, struct match *m)
{
    uint32_t most = is_whole ? UINT32_MAX : above_minimum(from);
    struct place_node *node;
    uint8_t lacking = match_lacking(m);
    if (takeable(p, for_, from, lacking) == 0) {
        return;
    }
    TAILQ_FOREACH_REVERSE(node, &from->nodes, place_list, beside)
    {
        if (most == 0 || lacking == 0) {
            break;
        }
        bool is_there = node->state == PLACE_ASSIGNED && node->is_here && !node->is_picked;
        uint8_t kind = is_there ? for_->kinds[node->class] : 0;
        if ((is_whole || node->task == TASK_WORKER) && (kind & lacking)) {
            node->is_picked = true;
            p->picked[p->n_picked++] = node;
            from->is_given_up = is_whole;
            m->nodes[kind]++;
            lacking = match_lacking(m);
            most--;
        }
    }
}

/* Takes what the job lacks from others, or nothing. */
static bool take(struct placement *p, const struct place_job *job, struct supply *s)
{
    struct match m = match_of(p, job, s->all);
    p->n_picked = 0;
    if (!would_be_enough(p, job, &m)) {
        return false;
    }
    for (unsigned whole = 0; whole < 2; whole++) {
        for (size_t i = p->n_jobs; i-- > 0 && match_lacking(&m) != 0;) {
            if (may_take(job, p->jobs[i], whole == 1)) {
                pick(p, job, p->jobs[i], whole == 1, &m);
            }
        }
    }
    bool is_enough = match_lacking(&m) == 0;
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
    }
    return is_enough;
}

/* --- the turns -------------------------------------------------------------------------------- */

static void shrink(struct placement *p, struct place_job *job)
{
    if (job->is_over && job->lets_run) {
        return;
    }
    if (!is_active(job)) {
        if (sum_of(job->held) > 0) {
            release_all(p, job, job->is_over ? PLACEMENT_OVER : PLACEMENT_SUSPENDED);
        }
        return;
    }
    bool has_too_many = false;
    for (unsigned task = 0; task < PLACEMENT_TASKS; task++) {
        has_too_many = has_too_many || job->held[task] > job->max[task];
    }
    if (!has_too_many) {
        return;
    }
    struct place_node *node;
    TAILQ_FOREACH_REVERSE(node, &job->nodes, place_list, beside)
    {
        if (node->state == PLACE_ASSIGNED && job->held[node->task] > job->max[node->task]) {
            act_release(p, node, PLACEMENT_TOO_MANY);
        }
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
    if (!lacks_some(job)) {
        return;
    }
    struct match now = match_of(p, job, s->free);
    if (match_lacking(&now) == 0) {
        plan(p, job, now, s->free, s);
        hold(p, s);
        assign(p, job, s);
        return;
    }
    job->is_too_large = !is_ever_enough(p, job);
    struct match soon = match_of(p, job, s->all);
    if (match_lacking(&soon) != 0 && take(p, job, s)) {
        soon = match_of(p, job, s->all);
    }
    job->lacks = match_lacks(&soon);
    if (!job->is_too_large || job->lacks == 0) {
        plan(p, job, soon, s->all, s);
        hold(p, s);
    }
}

/* --- growth ----------------------------------------------------------------------------------- */

static bool may_grow(const struct place_job *job)
{
    return job->state == PLACEMENT_JOB_PLACED && job->held[TASK_WORKER] < job->max[TASK_WORKER];
}

/* One more worker of n adds a share of gain / n to what the job does. */
static bool helps_more(const struct place_job *a, const struct place_job *b)
{
    return (uint64_t)a->gain_milli * b->held[TASK_WORKER] >
           (uint64_t)b->gain_milli * a->held[TASK_WORKER];
}

static bool grow(struct placement *p, struct supply *s)
{
    uint64_t idle = 0; /* bit 1 << class, as in for_workers */
    uint64_t durable = 0;
    for (uint32_t c = 0; c < p->n_classes; c++) {
        idle |= (uint64_t)(s->free[c] > 0) << c;
        durable |= (uint64_t)p->classes[c].is_durable << c;
    }
    for (unsigned n = 0; n < PLACEMENT_GROWTH_MAX && idle != 0; n++) {
        struct place_job *best = NULL;
        for (size_t i = 0; i < p->n_jobs; i++) {
            struct place_job *job = p->jobs[i];
            if ((job->for_workers & idle) && may_grow(job) && (!best || helps_more(job, best))) {
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
    }
    return idle != 0;
}

/* --- what each is then ------------------------------------------------------------------------ */

static void settle(struct placement *p, struct place_job *job)
{
    enum placement_job_state state = job->is_over            ? PLACEMENT_JOB_IS_OVER
                                     : job->is_suspended     ? PLACEMENT_JOB_PAUSED
                                     : !lacks_some(job)      ? PLACEMENT_JOB_PLACED
                                     : sum_of(job->held) > 0 ? PLACEMENT_JOB_SHORT
                                                             : PLACEMENT_JOB_QUEUED;
    if (state != job->state) {
        job->state = state;
        job->since = p->now;
    }
    job->lacks = state == PLACEMENT_JOB_SHORT || state == PLACEMENT_JOB_QUEUED ? job->lacks : 0;
}

/* Two jobs that each hold a part of what one of them needs would both wait for ever. */
static struct tfe_mono give_up(struct placement *p)
{
    struct tfe_mono next = TFE_MONO_NEVER;
    struct place_job *last = NULL;
    size_t n_lacking = 0;
    for (size_t i = 0; i < p->n_jobs; i++) {
        struct place_job *job = p->jobs[i];
        n_lacking += job->lacks > 0;
        if (job->state == PLACEMENT_JOB_SHORT && job->lacks > 0) {
            struct tfe_mono until = tfe_mono_add(job->since, p->config.gang_wait_ms);
            last = tfe_mono_before(p->now, until) ? last : job;
            next = tfe_mono_before(p->now, until) ? tfe_mono_min(next, until) : next;
        }
    }
    if (n_lacking < 2) {
        return TFE_MONO_NEVER;
    }
    if (last) {
        release_all(p, last, PLACEMENT_TOO_FEW);
        settle(p, last);
        return p->now; /* who waits finds them */
    }
    return next;
}

/* Nodes that leave in one step; the rest comes with the next, at once. */
#define LEAVE_MAX 64u

/* --- leaving ---------------------------------------------------------------------------------- */

/* Of those that nobody has a claim to, the one that is to leave first, and may. */
static struct place_node *idlest(struct placement *p, const struct supply *s, uint32_t n_nodes)
{
    struct place_node *found = NULL;
    struct tfe_mono when = TFE_MONO_NEVER;
    for (uint32_t c = 0; c < p->n_classes; c++) {
        struct place_node *node = NULL;
        TAILQ_FOREACH(node, &p->classes[c].free, beside)
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

/* One after the other, so that the floor of the next is seen. Returns when another one is due. */
static struct tfe_mono let_go(struct placement *p, struct supply *s)
{
    uint32_t n_nodes = 0;
    for (uint32_t c = 0; c < p->n_classes; c++) {
        n_nodes += p->classes[c].n_here;
    }
    const uint32_t most = n_nodes;
    for (struct place_node *node; p->n_idle_exit > 0 && (node = idlest(p, s, n_nodes)); n_nodes--) {
        struct tfe_mono at = tfe_mono_add(node->idle_since, node->idle_exit_ms);
        if (tfe_mono_before(p->now, at)) {
            return at;
        }
        if (most - n_nodes == LEAVE_MAX) {
            return p->now;
        }
        s->free[node->class]--;
        act_leave(p, node);
    }
    return TFE_MONO_NEVER;
}

struct tfe_mono decide(struct placement *p)
{
    struct supply s = {.plan = {{0}}};
    for (size_t i = 0; i < p->n_jobs; i++) {
        p->jobs[i]->lacks = 0;
        p->jobs[i]->is_too_large = false;
        shrink(p, p->jobs[i]);
    }
    for (uint32_t c = 0; c < p->n_classes; c++) {
        s.free[c] = p->classes[c].n_free;
        s.all[c] = p->classes[c].n_free + p->classes[c].n_coming;
    }
    for (size_t i = 0; i < p->n_jobs; i++) {
        if (is_active(p->jobs[i])) {
            fill_minimum(p, p->jobs[i], &s);
        }
    }
    for (size_t i = 0; i < p->n_jobs; i++) {
        settle(p, p->jobs[i]);
    }
    bool has_more = grow(p, &s);
    struct tfe_mono next = give_up(p);
    return has_more ? p->now : tfe_mono_min(next, let_go(p, &s));
}
