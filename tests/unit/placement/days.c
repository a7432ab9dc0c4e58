/* tests/unit/placement/days.c: see days.h. */
#include "tests/unit/placement/days.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/rng.h"
#include "common/net/heap.h"
#include "server/placement/placement.h"
#include "tests/unit/story.h"

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define GANG_WAIT_MS MINUTE
/* What a lease and its fence take, for a machine that says nothing more. */
#define FENCE_MS (21 * SECOND)
#define NEVER INT64_MAX
/* Books are walked once in so many steps. */
#define WALK_EACH 512
/* Nobody comes or goes for so long at the end: who can be served is. */
#define QUIET_MS (120 * MINUTE)

enum { AWAY, IDLE, BUSY, LEAVING };
enum { ANY, GPU_A, GPU_B, LABELS };
static const char *const label_texts[LABELS] = {NULL, "gpu=a", "gpu=b"};

/* Of all jobs, two teams, two kinds; a job is of one of each. */
enum { QUOTAS = 5 };
static const char *const patterns[QUOTAS] = {"j*", "*-t0*", "*-t1*", "*k0", "*k1"};

struct node {
    int state;
    bool is_here;
    bool is_durable, is_told;
    uint8_t label; /* ANY: none */
    uint32_t job;
    enum tfe_task task;
    uint64_t assignment;
    int64_t due, dies;
};

struct job {
    bool is_there, is_over, is_suspended, preempt;
    uint8_t label; /* that its nodes must have */
    /* In this step. */
    bool was_given, was_taken, was_ended, gave_up;
    uint32_t given[LABELS], grown[LABELS]; /* nodes in all; those beyond its minimum */
    uint32_t priority, min[PLACEMENT_TASKS], max, held[PLACEMENT_TASKS];
    uint64_t age;
    int64_t due;
};

static struct world {
    struct days days;
    struct rng rng;
    struct placement *p;
    struct node nodes[DAYS_NODES_MAX];
    struct job jobs[DAYS_JOBS_MAX];
    struct {
        uint32_t nodes;      /* 0: there is none */
        uint32_t busy, used; /* with those that are leaving */
    } quotas[QUOTAS];
    /* In this step: jobs that got nodes; whether some were taken of others, or given up: who waited
     * for a quota before that is seen no more. */
    uint32_t given[DAYS_JOBS_MAX], n_given;
    bool is_one_taken;
    /* By label; ANY: those without one. */
    uint32_t n_here[LABELS], n_idle[LABELS], n_leaving[LABELS];
    uint64_t highest, last_age;
    int64_t now, tick;
    bool is_quiet;
    uint32_t
        heap[DAYS_NODES_MAX + DAYS_JOBS_MAX]; /* nodes, then jobs: what is due first is first */
    uint32_t where[DAYS_NODES_MAX + DAYS_JOBS_MAX];
    uint32_t n_heap;
    struct days_told *told;
    size_t cap;
} w;

static double cpu_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int64_t about(int64_t ms)
{
    return (int64_t)rng_between(&w.rng, 1, (uint64_t)(2 * ms));
}

static bool once_in(uint64_t n)
{
    return rng_between(&w.rng, 1, n) == 1;
}

/* --- what is due ------------------------------------------------------------------------------ */

static int64_t due_of(uint32_t who)
{
    return who < w.days.n_nodes ? w.nodes[who].due : w.jobs[who - w.days.n_nodes].due;
}

static void swap(uint32_t a, uint32_t b)
{
    const uint32_t one = w.heap[a];
    w.heap[a] = w.heap[b];
    w.heap[b] = one;
    w.where[w.heap[a]] = a;
    w.where[w.heap[b]] = b;
}

static void set_due(uint32_t who, int64_t due)
{
    if (who < w.days.n_nodes) {
        w.nodes[who].due = due;
    } else {
        w.jobs[who - w.days.n_nodes].due = due;
    }
    uint32_t at = w.where[who];
    for (; at > 0 && due_of(w.heap[at]) < due_of(w.heap[(at - 1) / 2]); at = (at - 1) / 2) {
        swap(at, (at - 1) / 2);
    }
    for (;;) {
        uint32_t least = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < w.n_heap; child++) {
            least = due_of(w.heap[child]) < due_of(w.heap[least]) ? child : least;
        }
        if (least == at) {
            return;
        }
        swap(at, least);
        at = least;
    }
}

/* --- the judge -------------------------------------------------------------------------------- */

#define JUDGE(holds, ...)                                                                          \
    do {                                                                                           \
        if (!(holds)) {                                                                            \
            broken(#holds, __VA_ARGS__);                                                           \
        }                                                                                          \
    } while (0)

static void __attribute__((format(printf, 2, 3))) broken(const char *rule, const char *what, ...)
{
    char text[200];
    va_list args;
    va_start(args, what);
    (void)vsnprintf(text, sizeof(text), what, args);
    va_end(args);
    (void)fprintf(stderr, "seed %llu, step %zu, at %lld ms: %s (%s)\n",
                  (unsigned long long)w.days.seed, w.told->n_steps, (long long)w.now, text, rule);
    fail();
}

static void count(const struct node *n, uint32_t by)
{
    if (n->is_here) {
        w.n_here[n->label] += by;
        w.n_idle[n->label] += n->state == IDLE ? by : 0;
        w.n_leaving[n->label] += n->state == LEAVING ? by : 0;
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
        w.quotas[q].used += is_its ? by : 0;
        w.quotas[q].busy += is_its && n->state == BUSY ? by : 0;
    }
}

static void set(struct node *n, int state, bool is_here)
{
    count(n, UINT32_MAX);
    count_quotas(n, UINT32_MAX);
    if (n->state == BUSY && state != BUSY) {
        w.jobs[n->job].held[n->task]--;
    }
    n->state = state;
    n->is_here = is_here;
    n->assignment = state == BUSY || state == LEAVING ? n->assignment : 0;
    count(n, 1);
    count_quotas(n, 1);
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

static bool waits(const struct job *job)
{
    return job->is_there && !job->is_over && !job->is_suspended && needs(job) > 0;
}

static uint32_t least(const struct job *job)
{
    return job->min[0] + job->min[1] + job->min[2] + job->min[3];
}

static bool is_too_large(const struct job *job)
{
    return usable(job, w.n_here) < least(job);
}

/* Its quotas: bit 1 << quota. */
static unsigned quotas_of(const struct job *job)
{
    unsigned set = 0;
    for (int q = 0; q < QUOTAS; q++) {
        set |= (unsigned)(w.quotas[q].nodes > 0 && is_of((uint32_t)(job - w.jobs), q)) << q;
    }
    return set;
}

/* Whether a quota is less than its minimum, whoever has what. */
static bool is_above(const struct job *job)
{
    unsigned set = 0;
    for (int q = 0; q < QUOTAS; q++) {
        set |= (unsigned)(least(job) > w.quotas[q].nodes) << q;
    }
    return (set & quotas_of(job)) != 0;
}

/* Its quotas that have less left than it needs. */
static unsigned short_of(const struct job *job, bool soon)
{
    unsigned set = 0;
    for (int q = 0; q < QUOTAS; q++) {
        const uint32_t gone = soon ? w.quotas[q].busy : w.quotas[q].used;
        set |= (unsigned)(gone + needs(job) > w.quotas[q].nodes) << q;
    }
    return set & quotas_of(job);
}

static bool is_before(const struct job *a, const struct job *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->age < b->age;
}

static uint32_t number_of(const char *name)
{
    return (uint32_t)strtoul(name + 1, NULL, 10);
}

static void judge_assign(const struct placement_action *a)
{
    struct node *n = &w.nodes[number_of(a->node)];
    struct job *job = &w.jobs[number_of(a->job)];
    JUDGE(n->state == IDLE && n->is_here, "%s is not free for %s", a->node, a->job);
    JUDGE(a->assignment > w.highest, "assignment of %s", a->node);
    JUDGE(job->is_there && !job->is_over && !job->is_suspended, "%s is not active", a->job);
    JUDGE(job->label == ANY || job->label == n->label, "%s lacks a label of %s", a->node, a->job);
    w.highest = a->assignment;
    n->job = number_of(a->job);
    n->task = a->task;
    set(n, BUSY, true);
    for (int q = 0; q < QUOTAS; q++) {
        JUDGE(w.quotas[q].nodes == 0 || !is_of(n->job, q) || w.quotas[q].used <= w.quotas[q].nodes,
              "%s has a node above the quota of %s", a->job, patterns[q]);
    }
    n->assignment = a->assignment;
    job->grown[n->label] += job->held[a->task] >= job->min[a->task];
    job->held[a->task]++;
    job->was_given = true;
    job->given[n->label]++;
    w.told->assigned++;
}

static void judge_release(const struct placement_action *a)
{
    struct node *n = &w.nodes[number_of(a->node)];
    JUDGE(n->assignment == a->assignment, "release of %s", a->node);
    if (n->state != BUSY) {
        return; /* said again */
    }
    struct job *job = &w.jobs[n->job];
    JUDGE(a->job[0] == '\0' || number_of(a->job) == n->job, "%s is not of %s", a->node, a->job);
    set(n, LEAVING, n->is_here);
    const int64_t freed = w.now + about(20 * SECOND);
    set_due(number_of(a->node), n->is_here && freed < n->dies ? freed : n->due);
    job->was_taken = job->was_taken || a->reason == PLACEMENT_TAKEN;
    job->was_ended = job->was_ended || (a->reason == PLACEMENT_TAKEN && n->task != TASK_WORKER);
    job->gave_up = job->gave_up || a->reason == PLACEMENT_TOO_FEW || a->reason == PLACEMENT_ABOVE;
    w.told->taken += a->reason == PLACEMENT_TAKEN;
}

/* A job that was given nodes has all its minimum, and not more than its maximum. */
static void judge_gang(uint32_t j)
{
    const struct job *job = &w.jobs[j];
    for (unsigned task = 0; task < PLACEMENT_TASKS; task++) {
        JUDGE(job->held[task] >= job->min[task], "j%u has a part of its minimum", j);
        JUDGE(job->held[task] <= (task == TASK_WORKER ? job->max : job->min[task]),
              "j%u has more than its maximum", j);
    }
}

/* Taken is for a minimum that waits and then has enough, of its quotas, too: of the same priority
 * or below, down to the minimum; below that of a lower priority, by one with preempt. */
static void judge_taken(uint32_t from)
{
    const struct job *loser = &w.jobs[from];
    const bool is_below =
        (loser->was_ended || loser->held[TASK_WORKER] < loser->min[TASK_WORKER]) && !loser->gave_up;
    bool has_reason = false;
    for (uint32_t j = 0; j < w.days.n_jobs && !has_reason; j++) {
        const struct job *job = &w.jobs[j];
        const bool may = is_below ? job->preempt && job->priority > loser->priority
                                  : job->priority >= loser->priority;
        has_reason = (j != from || (!is_below && w.days.has_quotas)) && may && waits(job) &&
                     !short_of(job, true) &&
                     usable(job, w.n_idle) + usable(job, w.n_leaving) >= needs(job);
    }
    JUDGE(has_reason, "nodes of j%u are taken for nobody who may", from);
}

/* Of one job, what nobody that waits before it should have missed. */
static const uint32_t *got_before(const struct job *other, const struct job *job)
{
    return is_before(other, job) ? other->grown : other->given;
}

/* One before it waits, and may keep hold of a quota of both. */
static bool is_held_up(const struct job *job)
{
    const unsigned its = quotas_of(job);
    bool is_so = false;
    for (uint32_t j = 0; its != 0 && !is_so && j < w.days.n_jobs; j++) {
        const struct job *other = &w.jobs[j];
        is_so = waits(other) && is_before(other, job) && (quotas_of(other) & its) != 0;
    }
    return is_so;
}

/* Nobody who comes later, and no growth, gets of a quota that one waits for; nor so much of another
 * one that it would have to wait for that. */
static void judge_overtaken_in_quotas(const struct job *job)
{
    const unsigned after = short_of(job, true);
    unsigned before = 0; /* they got it */
    unsigned used = 0;   /* by them */
    for (int q = 0; q < QUOTAS; q++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < w.n_given; i++) {
            const uint32_t *got = got_before(&w.jobs[w.given[i]], job);
            n += is_of(w.given[i], q) ? got[ANY] + got[GPU_A] + got[GPU_B] : 0;
        }
        before |= (unsigned)(w.quotas[q].busy - n + needs(job) > w.quotas[q].nodes) << q;
        used |= (unsigned)(n > 0) << q;
    }
    before &= quotas_of(job);
    JUDGE(!(before & used), "j%u waits for quotas %x, %x of which are given",
          (unsigned)(job - w.jobs), after, used);
    JUDGE(before || !after || w.is_one_taken || is_held_up(job),
          "j%u has to wait for quotas %x now", (unsigned)(job - w.jobs), after);
}

/* Nobody who comes later, and no growth, gets what one that waits could use, unless enough of it
 * is left for that one; nor one that waits for a quota. */
static void judge_overtaken(uint32_t first)
{
    const struct job *job = &w.jobs[first];
    const uint32_t left = usable(job, w.n_idle) + usable(job, w.n_leaving);
    if (is_too_large(job) || is_above(job) || job->gave_up) {
        return;
    }
    if (w.days.has_quotas) {
        judge_overtaken_in_quotas(job);
    }
    if (left >= needs(job) || short_of(job, true) || is_held_up(job) ||
        (w.is_one_taken && quotas_of(job))) {
        return;
    }
    for (uint32_t i = 0; i < w.n_given; i++) {
        const struct job *other = &w.jobs[w.given[i]];
        JUDGE(usable(job, got_before(other, job)) == 0, "j%u overtakes j%u", (unsigned)w.given[i],
              first);
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
    for (uint32_t j = 0; j < w.days.n_jobs; j++) {
        if (waits(&w.jobs[j])) {
            ret[n++] = &w.jobs[j];
        }
    }
    qsort(ret, n, sizeof(ret[0]), in_order);
    return n;
}

/* The first that waits, but for those who wait for a quota, does not find what it needs: they hold
 * up nobody but jobs of that quota. */
static void judge_next(void)
{
    const struct job *waiting[DAYS_JOBS_MAX];
    const uint32_t n = gather_waiting(waiting);
    unsigned held_up = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct job *job = waiting[i];
        const unsigned lacking = short_of(job, true);
        if (is_above(job) || (is_too_large(job) && usable(job, w.n_idle) < needs(job))) {
            continue;
        }
        if (!lacking) {
            JUDGE((quotas_of(job) & held_up) || usable(job, w.n_idle) < needs(job) ||
                      short_of(job, false) || job->gave_up,
                  "j%u waits, and what it needs is idle", (unsigned)(job - w.jobs));
            return;
        }
        held_up |= lacking;
    }
}

static void judge(void)
{
    w.is_one_taken = false;
    w.n_given = 0;
    for (uint32_t j = 0; j < w.days.n_jobs; j++) {
        const struct job *job = &w.jobs[j];
        w.is_one_taken = w.is_one_taken || job->was_taken || job->gave_up;
        if (job->was_given) {
            w.given[w.n_given++] = j;
            judge_gang(j);
        }
        if (job->was_taken) {
            judge_taken(j);
        }
    }
    if (!w.days.has_quotas || !w.is_one_taken) {
        judge_next();
    }
    for (uint32_t j = 0; j < w.days.n_jobs; j++) {
        if (w.n_given > 0 && waits(&w.jobs[j])) {
            judge_overtaken(j);
        }
    }
}

/* --- steps ------------------------------------------------------------------------------------ */

/* The floor: what reading each node and each job once costs, in an order that is not memory's. */
static void walk(void)
{
    static volatile uint64_t sum; /* read, so that the compiler reads all */
    const double began = cpu_us();
    uint64_t all = 0;
    uint32_t at = 0;
    for (uint32_t n = 0; n < w.days.n_nodes; n++) {
        at = (at + 7919) % w.days.n_nodes;
        all += w.nodes[at].assignment;
    }
    for (uint32_t j = 0; j < w.days.n_jobs; j++) {
        all += w.jobs[j].held[TASK_WORKER];
    }
    sum += all;
    w.told->walk_us[w.told->n_walks++] = cpu_us() - began;
}

static void step(struct placement_event event)
{
    struct placement_actions actions;
    if (w.told->n_steps == w.cap) {
        w.cap = w.cap ? 2 * w.cap : 4096;
        w.told->step_us = realloc(w.told->step_us, w.cap * sizeof(double));
        w.told->walk_us = realloc(w.told->walk_us, w.cap * sizeof(double));
        assert_true(w.told->step_us && w.told->walk_us);
    }
    for (uint32_t j = 0; j < w.days.n_jobs; j++) {
        struct job *job = &w.jobs[j];
        job->was_given = job->was_taken = job->was_ended = job->gave_up = false;
        memset(job->given, 0, sizeof(job->given));
        memset(job->grown, 0, sizeof(job->grown));
    }
    event.now.ms = w.now;
    const double began = cpu_us();
    const int rc = placement_step(w.p, &event, &actions);
    w.told->step_us[w.told->n_steps] = cpu_us() - began;
    JUDGE(rc == 0, "event %d: %d", (int)event.type, rc);
    for (size_t i = 0; i < actions.n; i++) {
        if (actions.v[i].type == PLACEMENT_ASSIGN) {
            judge_assign(&actions.v[i]);
        } else if (actions.v[i].type != PLACEMENT_WAITS) {
            judge_release(&actions.v[i]);
        }
    }
    if (!event.is_more_to_come) {
        judge();
    }
    w.tick = tfe_mono_is_never(actions.deadline) ? NEVER : actions.deadline.ms;
    if (w.told->n_steps++ % WALK_EACH == 0) {
        walk();
    }
}

/* --- machines --------------------------------------------------------------------------------- */

static void come(uint32_t n, uint64_t assignment)
{
    char name[16];
    struct node *node = &w.nodes[n];
    const char *labels[2] = {node->is_durable ? "spot=false" : "spot=true",
                             label_texts[node->label]};
    (void)snprintf(name, sizeof(name), "n%05u", n);
    set(node, node->state == AWAY ? IDLE : node->state, true);
    const bool is_told = node->is_told; /* its cloud says it, once it is there */
    step((struct placement_event){.type = PLACEMENT_NODE_CAME,
                                  .node = name,
                                  .labels = labels + is_told,
                                  .n_labels = (node->label == ANY ? 1u : 2u) - is_told,
                                  .assignment = assignment,
                                  .is_more_to_come = is_told && once_in(2)});
    if (is_told) {
        step((struct placement_event){
            .type = PLACEMENT_NODE_TOLD, .node = name, .labels = labels, .n_labels = 1});
    }
}

static void hear_of(enum placement_event_type type, uint32_t n, uint64_t assignment)
{
    char name[16];
    (void)snprintf(name, sizeof(name), "n%05u", n);
    step((struct placement_event){.type = type, .node = name, .assignment = assignment});
}

static void machine(uint32_t n)
{
    struct node *node = &w.nodes[n];
    const bool has_work = node->state == BUSY || node->state == LEAVING;
    if (node->state == AWAY) {
        const int64_t life = about(node->is_durable ? 20 * w.days.life_ms : w.days.life_ms);
        node->dies = w.is_quiet ? NEVER : w.now + life;
        set_due(n, node->dies);
        come(n, 0);
        return;
    }
    if (!node->is_here) {
        if (w.now < node->dies && !once_in(8)) { /* its connection was cut, no more */
            set_due(n, node->state == LEAVING ? w.now + about(20 * SECOND) : node->dies);
            come(n, node->assignment);
            return;
        }
        set(node, AWAY, false);
        set_due(n, w.now + (w.is_quiet ? SECOND : about(w.days.life_ms / 20)));
        hear_of(PLACEMENT_NODE_GONE, n, 0);
        return;
    }
    if (node->state == LEAVING && w.now < node->dies) {
        const uint64_t assignment = node->assignment;
        set(node, IDLE, true);
        set_due(n, node->dies);
        hear_of(PLACEMENT_NODE_FREED, n, assignment);
        return;
    }
    if (w.is_quiet) {
        set_due(n, NEVER);
        return;
    }
    /* It dies, or its connection is cut for a while. */
    const bool is_cut = once_in(6);
    node->dies = is_cut ? w.now + about(w.days.life_ms) : w.now;
    set(node, has_work ? node->state : AWAY, false);
    set_due(n, has_work ? w.now + (is_cut ? about(FENCE_MS / 2) : FENCE_MS)
                        : w.now + about(w.days.life_ms / 20));
    hear_of(PLACEMENT_NODE_LOST, n, 0);
}

/* --- jobs ------------------------------------------------------------------------------------- */

static void name_job(char ret[16], uint32_t j)
{
    (void)snprintf(ret, 16, "j%u-t%uk%u", (unsigned)j, (unsigned)(j % 2), (unsigned)(j / 2 % 2));
}

static void change_quota(void)
{
    const int q = (int)rng_between(&w.rng, 0, QUOTAS - 1);
    w.quotas[q].nodes = once_in(4) ? 0 : (uint32_t)rng_between(&w.rng, 1, w.days.n_nodes);
    step((struct placement_event){
        .type = PLACEMENT_QUOTA, .pattern = patterns[q], .nodes = w.quotas[q].nodes});
}

/* The cloud has another word of a machine, whatever that does at the moment: its job and its quotas
 * count it as before. */
static void change_cloud(void)
{
    char name[16];
    const uint32_t n = (uint32_t)rng_between(&w.rng, 0, w.days.n_nodes - 1);
    struct node *node = &w.nodes[n];
    if (node->state == AWAY) {
        return;
    }
    node->is_durable = !node->is_durable;
    const char *label = node->is_durable ? "spot=false" : "spot=true";
    (void)snprintf(name, sizeof(name), "n%05u", n);
    step((struct placement_event){
        .type = PLACEMENT_NODE_TOLD, .node = name, .labels = &label, .n_labels = 1});
}

static void wish_for(uint32_t j, bool is_new)
{
    char name[16];
    struct job *job = &w.jobs[j];
    const struct placement_label label = {0xf, label_texts[job->label]};
    const uint32_t size = once_in(20) ? 5 * w.days.largest : w.days.largest;
    const uint32_t workers = 1 + (uint32_t)rng_between(&w.rng, 0, size);
    name_job(name, j);
    if (is_new) {
        memset(job->min, 0, sizeof(job->min));
        job->min[TASK_CHIEF] = once_in(3);
        job->min[TASK_PS] = once_in(4) ? (uint32_t)rng_between(&w.rng, 1, 3) : 0;
        job->min[TASK_EVALUATOR] = once_in(8);
        job->age = ++w.last_age;
        job->is_there = true;
        job->is_over = false;
    }
    job->is_suspended = once_in(12);
    job->priority = 100 * (uint32_t)rng_between(&w.rng, 0, 3);
    job->preempt = once_in(4);
    job->min[TASK_WORKER] = workers;
    job->max = workers + (uint32_t)rng_between(&w.rng, 0, 2 * size);
    struct placement_wish wish = {.priority = job->priority,
                                  .preempt = job->preempt,
                                  .is_suspended = job->is_suspended,
                                  .labels = &label,
                                  .n_labels = job->label != ANY};
    memcpy(wish.min, job->min, sizeof(wish.min));
    memcpy(wish.max, job->min, sizeof(wish.max));
    wish.max[TASK_WORKER] = job->max;
    step((struct placement_event){.type = is_new ? PLACEMENT_JOB_SUBMITTED : PLACEMENT_JOB_CHANGED,
                                  .job = name,
                                  .wish = &wish});
}

static void work(uint32_t j)
{
    char name[16];
    struct job *job = &w.jobs[j];
    name_job(name, j);
    set_due(w.days.n_nodes + j, w.now + about(40 * MINUTE));
    if (w.days.has_quotas && once_in(6)) {
        change_quota();
    }
    for (int i = 0; w.days.has_quotas && i < 3; i++) {
        change_cloud();
    }
    if (!job->is_there || job->is_over) {
        wish_for(j, true);
    } else if (once_in(4)) {
        wish_for(j, false); /* scaled, suspended or resumed, of another priority */
    } else if (!waits(job) && !job->is_suspended && once_in(3)) {
        step((struct placement_event){.type = PLACEMENT_JOB_TOLD,
                                      .job = name,
                                      .gain_milli = (uint32_t)rng_between(&w.rng, 0, 1000)});
    } else if (!waits(job)) {
        job->is_over = true;
        w.told->ended++;
        step((struct placement_event){.type = PLACEMENT_JOB_OVER, .job = name});
    }
}

/* --- days ------------------------------------------------------------------------------------- */

/* What a job keeps, whoever of its priority needs nodes. */
static uint32_t firm_of(const struct job *job)
{
    return least(job) - needs(job);
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
        for (uint32_t j = 0; j < w.days.n_jobs; j++) {
            const struct job *job = &w.jobs[j];
            gone += !is_of(j, q) || is_whole_for(next, job) ? 0
                    : job->priority <= next->priority       ? firm_of(job)
                                                            : held_of(job);
        }
        set |= (unsigned)(gone + needs(next) > w.quotas[q].nodes) << q;
    }
    return set & quotas_of(next);
}

static uint32_t n_to_have(const struct job *next)
{
    uint32_t to_have = usable(next, w.n_idle);
    for (uint32_t j = 0; j < w.days.n_jobs; j++) {
        const struct job *job = &w.jobs[j];
        const bool is_whole = is_whole_for(next, job);
        uint32_t n = 0;
        for (uint32_t i = 0; job != next && i < w.days.n_nodes; i++) {
            const struct node *node = &w.nodes[i];
            n += node->state == BUSY && node->job == j && (is_whole || node->task == TASK_WORKER) &&
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
    name_job(name, (uint32_t)(job - w.jobs));
    for (size_t at = 0; at < placement_jobs(w.p); at++) {
        const size_t n_rows = placement_demand(w.p, at, rows);
        for (size_t i = 0; i < n_rows && strcmp(rows[i].job, name) == 0; i++) {
            n += rows[i].max;
        }
    }
    return n;
}

/* The first job that waits, and has its share, does so because what is idle, and what may be taken
 * for it, is too little; then it may be ordered. One that cannot run has nothing. */
static void judge_served(void)
{
    const struct job *waiting[DAYS_JOBS_MAX];
    const uint32_t n = gather_waiting(waiting);
    unsigned held_up = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct job *job = waiting[i];
        const unsigned j = (unsigned)(job - w.jobs);
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
        JUDGE(demand_of(job) >= least(job), "j%u hides what it wants", j);
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
    for (uint32_t j = 0; j < w.days.n_jobs; j++) {
        is_so = is_so || (waits(&w.jobs[j]) && is_whole_for(&w.jobs[j], job));
    }
    return is_so;
}

/* What is ordered for jobs of a quota is not more than it, but for what they take from each other
 * then. */
static void judge_orders(void)
{
    for (int q = 0; q < QUOTAS; q++) {
        uint32_t n = 0;
        uint32_t above = 0;
        for (uint32_t j = 0; j < w.days.n_jobs; j++) {
            const struct job *job = &w.jobs[j];
            if (is_of(j, q) && job->is_there && !job->is_over && !job->is_suspended) {
                n += demand_of(job);
                above += is_below_one(job) ? held_of(job) : held_of(job) - firm_of(job);
            }
        }
        const uint32_t most =
            w.quotas[q].busy > w.quotas[q].nodes ? w.quotas[q].busy : w.quotas[q].nodes;
        JUDGE(w.quotas[q].nodes == 0 || n <= most + above, "%u ordered for %s, of %u", n,
              patterns[q], most);
    }
}

static void go_on(int64_t until)
{
    for (;;) {
        const uint32_t who = w.heap[0];
        const int64_t due = due_of(who);
        if (w.tick <= until && w.tick <= due) {
            w.now = w.tick > w.now ? w.tick : w.now;
            step((struct placement_event){.type = PLACEMENT_TICK});
        } else if (due > until) {
            w.now = until;
            return;
        } else {
            w.now = due > w.now ? due : w.now;
            if (who < w.days.n_nodes) {
                machine(who);
            } else if (w.is_quiet) {
                set_due(who, NEVER);
            } else {
                work(who - w.days.n_nodes);
            }
        }
    }
}

static int compare(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

void days_run(const struct days *days, struct days_told *ret)
{
    memset(&w, 0, sizeof(w));
    memset(ret, 0, sizeof(*ret));
    w.days = *days;
    w.told = ret;
    w.tick = NEVER;
    rng_init(&w.rng, days->seed);
    w.p = placement_new(&heap_mem, &(struct placement_config){.gang_wait_ms = GANG_WAIT_MS}, 0);
    assert_non_null(w.p);
    w.n_heap = days->n_nodes + days->n_jobs;
    for (uint32_t i = 0; i < w.n_heap; i++) {
        w.heap[i] = w.where[i] = i;
    }
    for (uint32_t n = 0; n < days->n_nodes; n++) {
        w.nodes[n].is_durable = once_in(5);
        w.nodes[n].is_told = once_in(2);
        w.nodes[n].label = (uint8_t)(once_in(2) ? ANY : rng_between(&w.rng, GPU_A, GPU_B));
    }
    for (uint32_t j = 0; j < days->n_jobs; j++) {
        w.jobs[j].label = (uint8_t)(once_in(2) ? ANY : rng_between(&w.rng, GPU_A, GPU_B));
    }
    for (uint32_t i = 0; i < w.n_heap; i++) {
        set_due(i, about(5 * MINUTE));
    }
    go_on(days->ms);
    /* Then nobody dies any more: who has to wait does so because others have what he needs. */
    w.is_quiet = true;
    for (uint32_t n = 0; n < days->n_nodes; n++) {
        w.nodes[n].dies = NEVER;
        set_due(n, w.now + (int64_t)(n % 1000));
    }
    go_on(w.now + QUIET_MS);
    for (uint32_t n = 0; n < days->n_nodes; n++) {
        JUDGE(w.nodes[n].state == IDLE || w.nodes[n].state == BUSY, "n%05u is not back", n);
    }
    judge_served();
    judge_orders();
    placement_free(w.p);
    qsort(ret->step_us, ret->n_steps, sizeof(double), compare);
    qsort(ret->walk_us, ret->n_walks, sizeof(double), compare);
}
