/* tests/unit/scheduler/oracle.c: oracle of churn.h. */
#include "tests/unit/scheduler/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const label_texts[LABELS] = {NULL, "gpu=a", "gpu=b"};
const char *const quota_patterns[QUOTAS] = {"j*", "*-t0*", "*-t1*", "*k0", "*k1"};

struct books books;

void name_job(char ret[16], uint32_t j)
{
    (void)snprintf(ret, 16, "j%u-t%uk%u", (unsigned)j, (unsigned)(j % 2), (unsigned)(j / 2 % 2));
}

void judge_broken(const char *rule, const char *what, ...)
{
    char text[200];
    va_list args;
    va_start(args, what);
    (void)vsnprintf(text, sizeof(text), what, args);
    va_end(args);
    (void)fprintf(stderr, "seed %llu, step %zu, at %lld ms: %s (%s)\n",
                  (unsigned long long)books.days.seed, books.told->n_steps, (long long)books.now,
                  text, rule);
    fail();
}

static void count(const struct node *n, uint32_t by)
{
    if (n->is_here) {
        books.n_here[n->label] += !n->is_warned ? by : 0;
        books.n_idle[n->label] += n->state == IDLE && !n->is_warned ? by : 0;
        books.n_leaving[n->label] += n->state == LEAVING && !n->is_warned ? by : 0;
        books.n_warned_leaving += n->state == LEAVING && n->is_warned ? by : 0;
    }
}

static bool is_of(uint32_t j, int q)
{
    return q == 0 || q == 1 + (int)(j % 2) || q == 3 + (int)(j / 2 % 2);
}

static void count_quotas(const struct node *n, uint32_t by)
{
    for (int q = 0; q < QUOTAS; q++) {
        const bool is_its = (n->state == BUSY || n->state == LEAVING) && is_of(n->job, q);
        const bool is_held = n->state == BUSY && !n->is_warned;
        books.quotas[q].used += is_its && (is_held || n->state == LEAVING) ? by : 0;
        books.quotas[q].busy += is_its && is_held ? by : 0;
    }
}

/* Adds the node to what its job counts on, or (by is -1 as unsigned) removes it. */
static void count_held(const struct node *n, uint32_t by)
{
    if (n->state == BUSY && !n->is_warned) {
        books.jobs[n->job].held[n->task] += by;
    }
}

void books_set(struct node *n, int state, bool is_here)
{
    count(n, UINT32_MAX);
    count_quotas(n, UINT32_MAX);
    count_held(n, UINT32_MAX);
    n->state = state;
    n->is_here = is_here;
    n->is_warned = n->is_warned && state != AWAY;
    n->assignment = state == BUSY || state == LEAVING ? n->assignment : 0;
    count_held(n, 1);
    count(n, 1);
    count_quotas(n, 1);
}

void books_warn(struct node *n, bool is_warned)
{
    count(n, UINT32_MAX);
    count_quotas(n, UINT32_MAX);
    count_held(n, UINT32_MAX);
    n->is_warned = is_warned;
    count_held(n, 1);
    count_quotas(n, 1);
    count(n, 1);
}

static uint32_t usable(const struct job *job, const uint32_t by_label[LABELS])
{
    return job->label != ANY ? by_label[job->label]
                             : by_label[ANY] + by_label[GPU_A] + by_label[GPU_B];
}

static uint32_t needs(const struct job *job)
{
    uint32_t n = 0;
    for (unsigned task = 0; task < PLACEMENT_TASKS; task++) {
        n += job->min[task] > job->held[task] ? job->min[task] - job->held[task] : 0;
    }
    return n;
}

bool waits(const struct job *job)
{
    return job->is_there && !job->is_over && !job->is_suspended && needs(job) > 0;
}

static uint32_t min(const struct job *job)
{
    return job->min[0] + job->min[1] + job->min[2] + job->min[3];
}

static bool is_too_large(const struct job *job)
{
    return usable(job, books.n_here) < min(job);
}

/* Returns the job's quotas as a bit set (1 << quota). */
static unsigned quotas_of(const struct job *job)
{
    unsigned set = 0;
    for (int q = 0; q < QUOTAS; q++) {
        set |= (unsigned)(books.quotas[q].nodes > 0 && is_of((uint32_t)(job - books.jobs), q)) << q;
    }
    return set;
}

/* Returns true if a quota is less than the job's minimum, whichever jobs have nodes now. */
static bool is_above(const struct job *job)
{
    unsigned set = 0;
    for (int q = 0; q < QUOTAS; q++) {
        set |= (unsigned)(min(job) > books.quotas[q].nodes) << q;
    }
    return (set & quotas_of(job)) != 0;
}

/* Returns the job's quotas that have less left than it needs. */
static unsigned short_of(const struct job *job, bool soon)
{
    unsigned set = 0;
    for (int q = 0; q < QUOTAS; q++) {
        const uint32_t gone = soon ? books.quotas[q].busy : books.quotas[q].used;
        set |= (unsigned)(gone + needs(job) > books.quotas[q].nodes) << q;
    }
    return set & quotas_of(job);
}

static bool is_before(const struct job *a, const struct job *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->age < b->age;
}

uint32_t number_of(const char *name)
{
    return (uint32_t)strtoul(name + 1, NULL, 10);
}

void judge_assign(const struct placement_action *a)
{
    struct node *n = &books.nodes[number_of(a->node)];
    struct job *job = &books.jobs[number_of(a->job)];
    JUDGE(n->state == IDLE && n->is_here, "%s is not free for %s", a->node, a->job);
    JUDGE(!n->is_warned, "%s is warned, and is given to %s", a->node, a->job);
    JUDGE(a->assignment > books.highest, "assignment of %s", a->node);
    JUDGE(job->is_there && !job->is_over && !job->is_suspended, "%s is not active", a->job);
    JUDGE(job->label == ANY || job->label == n->label, "%s lacks a label of %s", a->node, a->job);
    books.highest = a->assignment;
    n->job = number_of(a->job);
    n->task = a->task;
    books_set(n, BUSY, true);
    for (int q = 0; q < QUOTAS; q++) {
        JUDGE(books.quotas[q].nodes == 0 || !is_of(n->job, q) ||
                  books.quotas[q].used <= books.quotas[q].nodes,
              "%s has a node above the quota of %s", a->job, quota_patterns[q]);
    }
    n->assignment = a->assignment;
    job->grown[n->label] += job->held[a->task] > job->min[a->task];
    job->was_given = true;
    job->given[n->label]++;
    books.told->assigned++;
}

bool judge_release(const struct placement_action *a)
{
    struct node *n = &books.nodes[number_of(a->node)];
    JUDGE(n->assignment == a->assignment, "release of %s", a->node);
    if (n->state != BUSY) {
        return false; /* the same release again */
    }
    struct job *job = &books.jobs[n->job];
    JUDGE(a->job[0] == '\0' || number_of(a->job) == n->job, "%s is not of %s", a->node, a->job);
    JUDGE(!n->is_warned || a->reason != PLACEMENT_TOO_MANY, "%s is warned, and is one too many",
          a->node);
    books_set(n, LEAVING, n->is_here);
    job->was_taken = job->was_taken || a->reason == PLACEMENT_TAKEN;
    job->was_ended = job->was_ended ||
                     (a->reason == PLACEMENT_TAKEN && (n->task != TASK_WORKER || n->is_warned));
    job->gave_up =
        job->gave_up || a->reason == PLACEMENT_TOO_FEW || a->reason == PLACEMENT_ABOVE_QUOTA;
    books.told->taken += a->reason == PLACEMENT_TAKEN;
    return true;
}

/* Checks that a job that was assigned nodes has its whole minimum, and at most its maximum. */
static void judge_gang(uint32_t j)
{
    const struct job *job = &books.jobs[j];
    for (unsigned task = 0; task < PLACEMENT_TASKS; task++) {
        JUDGE(job->held[task] >= job->min[task], "j%u has a part of its minimum", j);
        JUDGE(job->held[task] <= (task == TASK_WORKER ? job->max : job->min[task]),
              "j%u has more than its maximum", j);
    }
}

/* Checks that nodes are taken only for a minimum that waits and is then met, quotas included: from
 * jobs of the same priority or below, down to their minimum; below that only from jobs of a lower
 * priority, by one with preempt. */
static void judge_taken(uint32_t from)
{
    const struct job *loser = &books.jobs[from];
    const bool is_below =
        (loser->was_ended || loser->held[TASK_WORKER] < loser->min[TASK_WORKER]) && !loser->gave_up;
    bool has_reason = false;
    for (uint32_t j = 0; j < books.days.n_jobs && !has_reason; j++) {
        const struct job *job = &books.jobs[j];
        const bool may = is_below ? job->preempt && job->priority > loser->priority
                                  : job->priority >= loser->priority;
        has_reason = (j != from || (!is_below && books.days.has_quotas)) && may && waits(job) &&
                     !short_of(job, true) &&
                     usable(job, books.n_idle) + usable(job, books.n_leaving) >= needs(job);
    }
    JUDGE(has_reason, "nodes of j%u are taken for nobody who may", from);
}

/* Returns what another job got that no job waiting before it should have missed. */
static const uint32_t *got_before(const struct job *other, const struct job *job)
{
    return is_before(other, job) ? other->grown : other->given;
}

/* Returns true if a job before it waits and may reserve a quota of both. */
static bool is_held_up(const struct job *job)
{
    const unsigned its = quotas_of(job);
    bool is_so = false;
    for (uint32_t j = 0; its != 0 && !is_so && j < books.days.n_jobs; j++) {
        const struct job *other = &books.jobs[j];
        is_so = waits(other) && is_before(other, job) && (quotas_of(other) & its) != 0;
    }
    return is_so;
}

/* Checks that no later job, and no growth, gets a part of a quota for which a job waits, nor so
 * much of another quota that the job would have to wait for that one. */
static void judge_overtaken_in_quotas(const struct job *job)
{
    const unsigned after = short_of(job, true);
    unsigned before = 0; /* the later jobs got it */
    unsigned used = 0;   /* used by the later jobs */
    for (int q = 0; q < QUOTAS; q++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < books.n_given; i++) {
            const uint32_t *got = got_before(&books.jobs[books.given[i]], job);
            n += is_of(books.given[i], q) ? got[ANY] + got[GPU_A] + got[GPU_B] : 0;
        }
        before |= (unsigned)(books.quotas[q].busy - n + needs(job) > books.quotas[q].nodes) << q;
        used |= (unsigned)(n > 0) << q;
    }
    before &= quotas_of(job);
    JUDGE(!(before & used), "j%u waits for quotas %x, %x of which are given",
          (unsigned)(job - books.jobs), after, used);
    JUDGE(before || !after || books.is_one_taken || is_held_up(job),
          "j%u has to wait for quotas %x now", (unsigned)(job - books.jobs), after);
}

/* Checks that no later job, and no growth, gets nodes that a waiting job could use, unless enough
 * of them are left for it or it waits for a quota. */
static void judge_overtaken(uint32_t first)
{
    const struct job *job = &books.jobs[first];
    const uint32_t left = usable(job, books.n_idle) + usable(job, books.n_leaving);
    if (is_too_large(job) || is_above(job) || job->gave_up) {
        return;
    }
    if (books.days.has_quotas) {
        judge_overtaken_in_quotas(job);
    }
    if (left >= needs(job) || short_of(job, true) || is_held_up(job) ||
        (books.is_one_taken && quotas_of(job))) {
        return;
    }
    for (uint32_t i = 0; i < books.n_given; i++) {
        const struct job *other = &books.jobs[books.given[i]];
        JUDGE(usable(job, got_before(other, job)) == 0, "j%u overtakes j%u",
              (unsigned)books.given[i], first);
    }
}

static int in_order(const void *a, const void *b)
{
    const struct job *const *x = a;
    const struct job *const *y = b;
    return is_before(*x, *y) ? -1 : 1;
}

static uint32_t gather_waiting(const struct job *ret[DAYS_JOBS_MAX])
{
    uint32_t n = 0;
    for (uint32_t j = 0; j < books.days.n_jobs; j++) {
        if (waits(&books.jobs[j])) {
            ret[n++] = &books.jobs[j];
        }
    }
    qsort(ret, n, sizeof(ret[0]), in_order);
    return n;
}

/* Checks that the first waiting job does not find what it needs; jobs that wait for a quota delay
 * only jobs of that quota. */
static void judge_next(void)
{
    const struct job *waiting[DAYS_JOBS_MAX];
    const uint32_t n = gather_waiting(waiting);
    unsigned held_up = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct job *job = waiting[i];
        const unsigned lacking = short_of(job, true);
        /* the nodes that it has count, even disconnected ones */
        const uint32_t soon = usable(job, books.n_idle) + usable(job, books.n_leaving);
        if (is_above(job) || (is_too_large(job) && soon < needs(job))) {
            continue;
        }
        if (!lacking) {
            JUDGE((quotas_of(job) & held_up) || usable(job, books.n_idle) < needs(job) ||
                      short_of(job, false) || job->gave_up,
                  "j%u waits, and what it needs is idle", (unsigned)(job - books.jobs));
            return;
        }
        held_up |= lacking;
    }
}

void judge_step(void)
{
    books.is_one_taken = false;
    books.n_given = 0;
    for (uint32_t j = 0; j < books.days.n_jobs; j++) {
        const struct job *job = &books.jobs[j];
        books.is_one_taken = books.is_one_taken || job->was_taken || job->gave_up;
        if (job->was_given) {
            books.given[books.n_given++] = j;
            judge_gang(j);
        }
        if (job->was_taken) {
            judge_taken(j);
        }
    }
    if (!books.days.has_quotas || !books.is_one_taken) {
        judge_next();
    }
    for (uint32_t j = 0; j < books.days.n_jobs; j++) {
        if (books.n_given > 0 && waits(&books.jobs[j])) {
            judge_overtaken(j);
        }
    }
}

void judge_rest(const struct placement_actions *again, struct tfe_mono due)
{
    const char *job = again->n > 0 ? again->v[0].job : "nobody";
    JUDGE(again->n == 0, "%s was to be served, or told, one turn before", job);
    JUDGE(again->deadline.ms == due.ms, "looks again at %lld ms, not at %lld",
          (long long)again->deadline.ms, (long long)due.ms);
}

/* --- at the end ------------------------------------------------------------------------------- */

/* Returns how many nodes the job keeps, whichever job of its priority needs nodes. */
static uint32_t firm_of(const struct job *job)
{
    return min(job) - needs(job);
}

static uint32_t held_of(const struct job *job)
{
    return job->held[0] + job->held[1] + job->held[2] + job->held[3];
}

static bool is_whole_for(const struct job *next, const struct job *job)
{
    return next->preempt && job->priority < next->priority;
}

/* Its quotas that would be too little for it even if it took all that it may. */
static unsigned short_for_good(const struct job *next)
{
    unsigned set = 0;
    for (int q = 0; q < QUOTAS; q++) {
        uint32_t gone = 0;
        for (uint32_t j = 0; j < books.days.n_jobs; j++) {
            const struct job *job = &books.jobs[j];
            gone += !is_of(j, q) || is_whole_for(next, job) ? 0
                    : job->priority <= next->priority       ? firm_of(job)
                                                            : held_of(job);
        }
        set |= (unsigned)(gone + needs(next) > books.quotas[q].nodes) << q;
    }
    return set & quotas_of(next);
}

static uint32_t n_to_have(const struct job *next)
{
    uint32_t to_have = usable(next, books.n_idle);
    for (uint32_t j = 0; j < books.days.n_jobs; j++) {
        const struct job *job = &books.jobs[j];
        const bool is_whole = is_whole_for(next, job);
        uint32_t n = 0;
        for (uint32_t i = 0; job != next && i < books.days.n_nodes; i++) {
            const struct node *node = &books.nodes[i];
            n += node->state == BUSY && !node->is_warned && node->job == j &&
                 (is_whole || node->task == TASK_WORKER) &&
                 (next->label == ANY || node->label == next->label);
        }
        const uint32_t workers = job->held[TASK_WORKER];
        const uint32_t min = job->min[TASK_WORKER];
        const uint32_t above = workers > min ? workers - min : 0;
        n = is_whole || n < above ? n : above;
        to_have += job->priority <= next->priority ? n : 0;
    }
    return to_have;
}

/* How many nodes may be ordered for it, with those that it has. */
static uint32_t demand_of(const struct job *job)
{
    char name[16];
    struct placement_demand rows[PLACEMENT_TASKS];
    uint32_t n = 0;
    name_job(name, (uint32_t)(job - books.jobs));
    for (size_t at = 0; at < placement_jobs(books.p); at++) {
        const size_t n_rows = placement_demand(books.p, at, rows);
        for (size_t i = 0; i < n_rows && strcmp(rows[i].job, name) == 0; i++) {
            n += rows[i].max;
        }
    }
    return n;
}

/* The first job that waits, and has its share, does so because what is idle, and what may be taken
 * for it, is too little; then it may be ordered. One that cannot run has nothing. */
void judge_served(void)
{
    const struct job *waiting[DAYS_JOBS_MAX];
    const uint32_t n = gather_waiting(waiting);
    unsigned held_up = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct job *job = waiting[i];
        const unsigned j = (unsigned)(job - books.jobs);
        if (is_above(job)) {
            JUDGE(held_of(job) == 0, "j%u keeps nodes, and can never run", j);
            continue;
        }
        const unsigned lacking = short_for_good(job);
        const bool is_held_up = (quotas_of(job) & held_up) != 0;
        held_up |= lacking ? lacking | short_of(job, true) : quotas_of(job);
        if (lacking || is_held_up) {
            continue;
        }
        JUDGE(demand_of(job) >= min(job), "j%u hides what it wants", j);
        if (!is_too_large(job)) {
            JUDGE(n_to_have(job) < needs(job), "j%u waits for ever", j);
            return;
        }
    }
}

/* Whether somebody waits who may take all of it. */
static bool is_below_one(const struct job *job)
{
    bool is_so = false;
    for (uint32_t j = 0; j < books.days.n_jobs; j++) {
        is_so = is_so || (waits(&books.jobs[j]) && is_whole_for(&books.jobs[j], job));
    }
    return is_so;
}

/* What is ordered for jobs of a quota is not more than it, but for what they take from each other
 * then. */
void judge_orders(void)
{
    for (int q = 0; q < QUOTAS; q++) {
        uint32_t n = 0;
        uint32_t above = 0;
        for (uint32_t j = 0; j < books.days.n_jobs; j++) {
            const struct job *job = &books.jobs[j];
            if (is_of(j, q) && job->is_there && !job->is_over && !job->is_suspended) {
                n += demand_of(job);
                above += is_below_one(job) ? held_of(job) : held_of(job) - firm_of(job);
            }
        }
        const uint32_t max = books.quotas[q].busy > books.quotas[q].nodes ? books.quotas[q].busy
                                                                          : books.quotas[q].nodes;
        JUDGE(books.quotas[q].nodes == 0 || n <= max + above, "%u ordered for %s, of %u", n,
              quota_patterns[q], max);
    }
}
