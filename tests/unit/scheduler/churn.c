/* tests/unit/scheduler/churn.c: simulated days of a pool. */
#include "tests/unit/scheduler/churn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/heap.h"
#include "common/base/rng.h"
#include "server/scheduler/placement.h"
#include "tests/unit/scheduler/oracle.h"
#include "tests/unit/test_runner.h"

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define GANG_WAIT_MS MINUTE
/* Time that a lease and its fence take for a machine that sends nothing more. */
#define FENCE_MS (21 * SECOND)
#define NEVER INT64_MAX
/* Number of steps after which the accounts are read once, for comparison. */
#define WALK_EACH 512
/* Time at the end in which nodes neither come nor go: every job that can be served is. */
#define QUIET_MS (120 * MINUTE)

/* State that the oracle does not need. */
static struct {
    struct rng rng;
    uint64_t last_age;
    int64_t tick;
    bool is_quiet;
    /* Heap of nodes, then jobs, by the time of their next event. */
    uint32_t heap[DAYS_NODES_MAX + DAYS_JOBS_MAX];
    uint32_t where[DAYS_NODES_MAX + DAYS_JOBS_MAX];
    uint32_t n_heap;
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

/* --- due events ------------------------------------------------------------------------------- */

static int64_t due_of(uint32_t who)
{
    return who < books.days.n_nodes ? books.nodes[who].due
                                    : books.jobs[who - books.days.n_nodes].due;
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
    if (who < books.days.n_nodes) {
        books.nodes[who].due = due;
    } else {
        books.jobs[who - books.days.n_nodes].due = due;
    }
    uint32_t at = w.where[who];
    for (; at > 0 && due_of(w.heap[at]) < due_of(w.heap[(at - 1) / 2]); at = (at - 1) / 2) {
        swap(at, (at - 1) / 2);
    }
    for (;;) {
        uint32_t min = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < w.n_heap; child++) {
            min = due_of(w.heap[child]) < due_of(w.heap[min]) ? child : min;
        }
        if (min == at) {
            return;
        }
        swap(at, min);
        at = min;
    }
}

/* --- steps ------------------------------------------------------------------------------------ */

/* Reads each node and each job once, in an order other than that of memory: the minimum cost of a
 * step. */
static void walk(void)
{
    static volatile uint64_t sum; /* read, so that the compiler does not remove the reads */
    const double began = cpu_us();
    uint64_t all = 0;
    uint32_t at = 0;
    for (uint32_t n = 0; n < books.days.n_nodes; n++) {
        at = (at + 7919) % books.days.n_nodes;
        all += books.nodes[at].assignment;
    }
    for (uint32_t j = 0; j < books.days.n_jobs; j++) {
        all += books.jobs[j].held[TASK_WORKER];
    }
    sum += all;
    books.told->walk_us[books.told->n_walks++] = cpu_us() - began;
}

/* The node was released from its job, and takes a while to leave it. */
static void leave(uint32_t n)
{
    const struct node *node = &books.nodes[n];
    const int64_t freed = books.now + about(20 * SECOND);
    set_due(n, node->is_here && freed < node->dies ? freed : node->due);
}

/* Returns true if nothing is due except external events. */
static bool is_at_rest(struct tfe_mono deadline)
{
    const uint32_t n_leaving = books.n_leaving[ANY] + books.n_leaving[GPU_A] +
                               books.n_leaving[GPU_B] + books.n_warned_leaving;
    return n_leaving == 0 && books.now < deadline.ms;
}

static void step(struct placement_event event)
{
    struct placement_actions actions;
    if (books.told->n_steps == w.cap) {
        w.cap = w.cap ? 2 * w.cap : 4096;
        books.told->step_us = realloc(books.told->step_us, w.cap * sizeof(double));
        books.told->walk_us = realloc(books.told->walk_us, w.cap * sizeof(double));
        assert_true(books.told->step_us && books.told->walk_us);
    }
    for (uint32_t j = 0; j < books.days.n_jobs; j++) {
        struct job *job = &books.jobs[j];
        job->was_given = job->was_taken = job->was_ended = job->gave_up = false;
        memset(job->given, 0, sizeof(job->given));
        memset(job->grown, 0, sizeof(job->grown));
    }
    event.now.ms = books.now;
    const double began = cpu_us();
    const int rc = placement_step(books.p, &event, &actions);
    books.told->step_us[books.told->n_steps] = cpu_us() - began;
    JUDGE(rc == 0, "event %d: %d", (int)event.type, rc);
    for (size_t i = 0; i < actions.n; i++) {
        if (actions.v[i].type == PLACEMENT_ASSIGN) {
            judge_assign(&actions.v[i]);
        } else if (actions.v[i].type != PLACEMENT_WAITS && judge_release(&actions.v[i])) {
            leave(number_of(actions.v[i].node));
        }
    }
    if (!event.is_more_to_come) {
        judge_step();
    }
    w.tick = tfe_mono_is_never(actions.deadline) ? NEVER : actions.deadline.ms;
    if (!event.is_more_to_come && is_at_rest(actions.deadline)) {
        const struct tfe_mono due = actions.deadline;
        event = (struct placement_event){.type = PLACEMENT_TICK, .now = event.now};
        assert_int_equal(placement_step(books.p, &event, &actions), 0);
        judge_rest(&actions, due);
    }
    if (books.told->n_steps++ % WALK_EACH == 0) {
        walk();
    }
}

/* --- machines --------------------------------------------------------------------------------- */

static void come(uint32_t n, uint64_t assignment)
{
    char name[16];
    struct node *node = &books.nodes[n];
    const char *labels[2] = {node->is_durable ? "spot=false" : "spot=true",
                             label_texts[node->label]};
    (void)snprintf(name, sizeof(name), "n%05u", n);
    books_set(node, node->state == AWAY ? IDLE : node->state, true);
    const bool is_told = node->is_told; /* its cloud reports it, once the machine is there */
    step((struct placement_event){.type = PLACEMENT_NODE_CONNECTED,
                                  .node = name,
                                  .labels = labels + is_told,
                                  .n_labels = (node->label == ANY ? 1u : 2u) - is_told,
                                  .assignment = assignment,
                                  .is_more_to_come = is_told && once_in(2)});
    if (is_told) {
        step((struct placement_event){
            .type = PLACEMENT_NODE_LABELS, .node = name, .labels = labels, .n_labels = 1});
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
    struct node *node = &books.nodes[n];
    const bool has_work = node->state == BUSY || node->state == LEAVING;
    if (node->state == AWAY) {
        const int64_t life = about(node->is_durable ? 20 * books.days.life_ms : books.days.life_ms);
        node->dies = w.is_quiet ? NEVER : books.now + life;
        set_due(n, node->dies);
        come(n, 0);
        return;
    }
    if (!node->is_here) {
        if (books.now < node->dies && !once_in(8)) { /* only its connection was cut */
            set_due(n, node->state == LEAVING ? books.now + about(20 * SECOND) : node->dies);
            come(n, node->assignment);
            return;
        }
        books_set(node, AWAY, false);
        set_due(n, books.now + (w.is_quiet ? SECOND : about(books.days.life_ms / 20)));
        hear_of(PLACEMENT_NODE_GONE, n, 0);
        return;
    }
    if (node->state == LEAVING && books.now < node->dies) {
        const uint64_t assignment = node->assignment;
        books_set(node, IDLE, true);
        set_due(n, node->dies);
        hear_of(PLACEMENT_NODE_FREED, n, assignment);
        return;
    }
    if (w.is_quiet) {
        set_due(n, NEVER);
        return;
    }
    /* The machine dies, or its connection is cut for a while. */
    const bool is_cut = once_in(6);
    node->dies = is_cut ? books.now + about(books.days.life_ms) : books.now;
    books_set(node, has_work ? node->state : AWAY, false);
    set_due(n, has_work ? books.now + (is_cut ? about(FENCE_MS / 2) : FENCE_MS)
                        : books.now + about(books.days.life_ms / 20));
    hear_of(PLACEMENT_NODE_LOST, n, 0);
}

/* --- jobs ------------------------------------------------------------------------------------- */

static void change_quota(void)
{
    const int q = (int)rng_between(&w.rng, 0, QUOTAS - 1);
    books.quotas[q].nodes = once_in(4) ? 0 : (uint32_t)rng_between(&w.rng, 1, books.days.n_nodes);
    step((struct placement_event){
        .type = PLACEMENT_QUOTA, .pattern = quota_patterns[q], .nodes = books.quotas[q].nodes});
}

/* The cloud changes its report of a machine, whatever the machine does at the moment: its job and
 * its quotas count it as before. */
static void change_cloud(void)
{
    char name[16];
    const uint32_t n = (uint32_t)rng_between(&w.rng, 0, books.days.n_nodes - 1);
    struct node *node = &books.nodes[n];
    if (node->state == AWAY) {
        return;
    }
    node->is_durable = !node->is_durable;
    const char *label = node->is_durable ? "spot=false" : "spot=true";
    (void)snprintf(name, sizeof(name), "n%05u", n);
    step((struct placement_event){
        .type = PLACEMENT_NODE_LABELS, .node = name, .labels = &label, .n_labels = 1});
}

static void warn(uint32_t n, bool is_warned)
{
    char name[16];
    (void)snprintf(name, sizeof(name), "n%05u", n);
    books_warn(&books.nodes[n], is_warned);
    step((struct placement_event){.type = PLACEMENT_NODE_WARNED,
                                  .node = name,
                                  .is_warned = is_warned,
                                  .is_more_to_come = !w.is_quiet && once_in(2)});
}

/* A machine is warned, or its warning is withdrawn, whatever it does at the moment. */
static void change_warning(void)
{
    const uint32_t n = (uint32_t)rng_between(&w.rng, 0, books.days.n_nodes - 1);
    if (books.nodes[n].is_here) {
        warn(n, !books.nodes[n].is_warned && once_in(2));
    }
}

static void send_options(uint32_t j, bool is_new)
{
    char name[16];
    struct job *job = &books.jobs[j];
    const struct placement_label label = {0xf, label_texts[job->label]};
    const uint32_t size = once_in(20) ? 5 * books.days.largest : books.days.largest;
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
    struct placement_options options = {.priority = job->priority,
                                        .preempt = job->preempt,
                                        .is_suspended = job->is_suspended,
                                        .labels = &label,
                                        .n_labels = job->label != ANY};
    memcpy(options.min, job->min, sizeof(options.min));
    memcpy(options.max, job->min, sizeof(options.max));
    options.max[TASK_WORKER] = job->max;
    step((struct placement_event){.type = is_new ? PLACEMENT_JOB_SUBMITTED : PLACEMENT_JOB_CHANGED,
                                  .job = name,
                                  .options = &options});
}

static void work(uint32_t j)
{
    char name[16];
    struct job *job = &books.jobs[j];
    name_job(name, j);
    set_due(books.days.n_nodes + j, books.now + about(40 * MINUTE));
    if (books.days.has_quotas && once_in(6)) {
        change_quota();
    }
    for (int i = 0; books.days.has_quotas && i < 3; i++) {
        change_cloud();
    }
    for (int i = 0; books.days.has_warnings && i < 6; i++) {
        change_warning();
    }
    if (!job->is_there || job->is_over) {
        send_options(j, true);
    } else if (once_in(4)) {
        send_options(j, false); /* scaled, suspended or resumed, of another priority */
    } else if (!waits(job) && !job->is_suspended && once_in(3)) {
        step((struct placement_event){.type = PLACEMENT_JOB_GAIN,
                                      .job = name,
                                      .gain_milli = (uint32_t)rng_between(&w.rng, 0, 1000)});
    } else if (!waits(job)) {
        job->is_over = true;
        books.told->ended++;
        step((struct placement_event){.type = PLACEMENT_JOB_OVER, .job = name});
    }
}

/* --- days ------------------------------------------------------------------------------------- */

static void go_on(int64_t until)
{
    for (;;) {
        const uint32_t who = w.heap[0];
        const int64_t due = due_of(who);
        if (w.tick <= until && w.tick <= due) {
            books.now = w.tick > books.now ? w.tick : books.now;
            step((struct placement_event){.type = PLACEMENT_TICK});
        } else if (due > until) {
            books.now = until;
            return;
        } else {
            books.now = due > books.now ? due : books.now;
            if (who < books.days.n_nodes) {
                machine(who);
            } else if (w.is_quiet) {
                set_due(who, NEVER);
            } else {
                work(who - books.days.n_nodes);
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
    memset(&books, 0, sizeof(books));
    memset(ret, 0, sizeof(*ret));
    books.days = *days;
    books.told = ret;
    w.tick = NEVER;
    rng_init(&w.rng, days->seed);
    books.p = placement_new(&heap_mem, &(struct placement_config){.gang_wait_ms = GANG_WAIT_MS}, 0);
    assert_non_null(books.p);
    w.n_heap = days->n_nodes + days->n_jobs;
    for (uint32_t i = 0; i < w.n_heap; i++) {
        w.heap[i] = w.where[i] = i;
    }
    for (uint32_t n = 0; n < days->n_nodes; n++) {
        books.nodes[n].is_durable = once_in(5);
        books.nodes[n].is_told = once_in(2);
        books.nodes[n].label = (uint8_t)(once_in(2) ? ANY : rng_between(&w.rng, GPU_A, GPU_B));
    }
    for (uint32_t j = 0; j < days->n_jobs; j++) {
        books.jobs[j].label = (uint8_t)(once_in(2) ? ANY : rng_between(&w.rng, GPU_A, GPU_B));
    }
    for (uint32_t i = 0; i < w.n_heap; i++) {
        set_due(i, about(5 * MINUTE));
    }
    go_on(days->ms);
    /* From now on no machine dies: a job that has to wait does so because others have what it
     * needs. */
    w.is_quiet = true;
    for (uint32_t n = 0; n < days->n_nodes; n++) {
        books.nodes[n].dies = NEVER;
        if (books.nodes[n].is_warned) {
            warn(n, false);
        }
        set_due(n, books.now + (int64_t)(n % 1000));
    }
    go_on(books.now + QUIET_MS);
    for (uint32_t n = 0; n < days->n_nodes; n++) {
        JUDGE(books.nodes[n].state == IDLE || books.nodes[n].state == BUSY, "n%05u is not back", n);
    }
    judge_served();
    judge_orders();
    placement_free(books.p);
    qsort(ret->step_us, ret->n_steps, sizeof(double), compare);
    qsort(ret->walk_us, ret->n_walks, sizeof(double), compare);
}
