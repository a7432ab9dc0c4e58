/* tests/unit/placement/test_churn.c: days of a large pool in which machines come and go: no rule of
 * placement.h is broken at any step. The judge keeps books of its own, from the actions alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/rng.h"
#include "server/placement/placement.h"
#include "tests/unit/story.h"

#define NODES 2000u
#define JOBS 100u
#define GANG_WAIT_MS 60000

static uint64_t rng_below(struct rng *rng, uint64_t n)
{
    return rng_between(rng, 0, n - 1);
}

enum { AWAY, IDLE, BUSY, LEAVING };

static struct {
    int state;
    bool is_here;
    bool is_durable;
    uint32_t job;
    enum tfe_task task;
    uint64_t assignment;
} nodes[NODES];

static struct {
    bool is_there, is_over, is_suspended;
    uint32_t priority, min[PLACEMENT_TASKS], max, held[PLACEMENT_TASKS];
    bool preempt;
} jobs[JOBS];

static uint64_t highest;
static int64_t now_ms;
static struct tfe_mono due;
static double worst_ms;
static uint64_t given;

static void *resize(void *ctx __attribute__((unused)), void *p, size_t n)
{
    if (n == 0) {
        free(p);
        return NULL;
    }
    return realloc(p, n);
}

static double cpu_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static uint32_t number_of(const char *name)
{
    return (uint32_t)strtoul(name + 1, NULL, 10);
}

static void judge_assign(const struct placement_action *a, bool has_room[JOBS])
{
    uint32_t n = number_of(a->node);
    uint32_t j = number_of(a->job);
    assert_int_equal(nodes[n].state, IDLE); /* nobody else's, and its fence is over */
    assert_true(nodes[n].is_here);
    assert_true(a->assignment > highest);
    assert_true(jobs[j].is_there && !jobs[j].is_over && !jobs[j].is_suspended);
    highest = a->assignment;
    nodes[n].state = BUSY;
    nodes[n].job = j;
    nodes[n].task = a->task;
    nodes[n].assignment = a->assignment;
    jobs[j].held[a->task]++;
    has_room[j] = true;
    given++;
}

static void judge_release(const struct placement_action *a)
{
    uint32_t n = number_of(a->node);
    assert_int_equal(nodes[n].assignment, a->assignment);
    if (nodes[n].state == BUSY) {
        uint32_t j = nodes[n].job;
        if (a->reason == PLACEMENT_TAKEN && !jobs[j].is_over) {
            assert_int_equal(number_of(a->job), j);
        }
        jobs[j].held[nodes[n].task]--;
        nodes[n].state = LEAVING;
    }
}

/* A job that was given a node has all its minimum, and not more than its maximum. */
static void judge_gangs(const bool was_given[JOBS])
{
    for (uint32_t j = 0; j < JOBS; j++) {
        for (unsigned task = 0; was_given[j] && task < PLACEMENT_TASKS; task++) {
            assert_true(jobs[j].held[task] >= jobs[j].min[task]);
            assert_true(jobs[j].held[task] <=
                        (task == TASK_WORKER ? jobs[j].max : jobs[j].min[task]));
        }
    }
}

static void step(struct placement *p, struct placement_event event)
{
    struct placement_actions actions;
    bool was_given[JOBS] = {false};
    event.now.ms = now_ms;
    double began = cpu_ms();
    assert_int_equal(placement_step(p, &event, &actions), 0);
    double took = cpu_ms() - began;
    worst_ms = took > worst_ms ? took : worst_ms;
    for (size_t i = 0; i < actions.n; i++) {
        if (actions.v[i].type == PLACEMENT_ASSIGN) {
            judge_assign(&actions.v[i], was_given);
        } else {
            judge_release(&actions.v[i]);
        }
    }
    judge_gangs(was_given);
    due = actions.deadline;
}

static void let_go(uint32_t n)
{
    if (nodes[n].state == BUSY) {
        jobs[nodes[n].job].held[nodes[n].task]--;
    }
    nodes[n].assignment = 0;
}

/* Something happens to a machine: it comes, is freed, loses its connection, or is gone. */
static void move_node(struct placement *p, struct rng *rng, uint32_t n)
{
    char name[16];
    (void)snprintf(name, sizeof(name), "n%05u", n);
    const char *label = nodes[n].is_durable ? "spot=false" : "spot=true";
    struct placement_event event = {.node = name, .labels = &label, .n_labels = 1};
    if (nodes[n].state == LEAVING && nodes[n].is_here && rng_below(rng, 4) > 0) {
        event.type = PLACEMENT_NODE_FREED;
        event.assignment = nodes[n].assignment;
        let_go(n);
        nodes[n].state = IDLE;
    } else if (nodes[n].state == AWAY) {
        event.type = PLACEMENT_NODE_CAME;
        nodes[n].state = IDLE;
        nodes[n].is_here = true;
    } else if (!nodes[n].is_here && rng_below(rng, 2) > 0) {
        event.type = PLACEMENT_NODE_CAME;
        event.assignment = nodes[n].assignment;
        nodes[n].is_here = true;
    } else if (!nodes[n].is_here || rng_below(rng, 8) == 0) {
        event.type = PLACEMENT_NODE_GONE;
        let_go(n);
        nodes[n].state = AWAY;
        nodes[n].is_here = false;
    } else if (rng_below(rng, 4) == 0) {
        event.type = PLACEMENT_NODE_LOST;
        nodes[n].is_here = false;
        nodes[n].state = nodes[n].state == IDLE ? AWAY : nodes[n].state;
    } else {
        return;
    }
    step(p, event);
}

/* … to a job: it is submitted, changed, or over. */
static void move_job(struct placement *p, struct rng *rng, uint32_t j, uint32_t nodes_most)
{
    char name[16];
    (void)snprintf(name, sizeof(name), "j%u", j);
    struct placement_event event = {.job = name};
    if (jobs[j].is_there && !jobs[j].is_over && rng_below(rng, 3) == 0) {
        event.type = PLACEMENT_JOB_OVER;
        jobs[j].is_over = true;
        step(p, event);
        return;
    }
    bool is_new = !jobs[j].is_there || jobs[j].is_over;
    struct placement_wish wish = {.priority = (uint32_t)rng_below(rng, 4) * 100,
                                  .preempt = rng_below(rng, 4) == 0,
                                  .is_suspended = rng_below(rng, 6) == 0};
    uint32_t least = 1 + (uint32_t)rng_below(rng, nodes_most);
    wish.min[TASK_WORKER] = least;
    wish.max[TASK_WORKER] = least + (uint32_t)rng_below(rng, nodes_most);
    wish.min[TASK_CHIEF] = wish.max[TASK_CHIEF] = (uint32_t)rng_below(rng, 2);
    wish.min[TASK_PS] = wish.max[TASK_PS] = (uint32_t)rng_below(rng, 3);
    jobs[j].is_there = true;
    jobs[j].is_over = false;
    jobs[j].is_suspended = wish.is_suspended;
    memcpy(jobs[j].min, wish.min, sizeof(wish.min));
    jobs[j].max = wish.max[TASK_WORKER];
    jobs[j].priority = wish.priority;
    event.type = is_new ? PLACEMENT_JOB_SUBMITTED : PLACEMENT_JOB_CHANGED;
    event.wish = &wish;
    step(p, event);
}

/* The first job that waits does so because what is idle, and what may be taken for it, is too
 * little. Jobs of this test want no labels: any node will do, so that counting is enough. */
static void judge_served(const struct placement *p, uint32_t n_nodes)
{
    uint32_t to_have = 0;
    for (uint32_t n = 0; n < n_nodes; n++) {
        assert_true(nodes[n].state == IDLE || nodes[n].state == BUSY);
        to_have += nodes[n].state == IDLE;
    }
    for (size_t i = 0; i < placement_jobs(p); i++) {
        struct placement_view v;
        placement_job_view(p, i, &v);
        uint32_t w = number_of(v.job);
        if ((v.state != PLACEMENT_JOB_QUEUED && v.state != PLACEMENT_JOB_SHORT) || v.is_too_large) {
            continue;
        }
        uint32_t need = 0;
        for (unsigned task = 0; task < PLACEMENT_TASKS; task++) {
            uint32_t held = jobs[w].held[task];
            need += jobs[w].min[task] > held ? jobs[w].min[task] - held : 0;
        }
        for (uint32_t j = 0; j < JOBS; j++) {
            bool is_whole = jobs[w].preempt && jobs[j].priority < jobs[w].priority;
            uint32_t workers = jobs[j].held[TASK_WORKER];
            uint32_t above =
                workers > jobs[j].min[TASK_WORKER] ? workers - jobs[j].min[TASK_WORKER] : 0;
            bool may = j != w && jobs[j].is_there && jobs[j].priority <= jobs[w].priority;
            to_have += !may       ? 0
                       : is_whole ? workers + jobs[j].held[TASK_CHIEF] + jobs[j].held[TASK_PS]
                                  : above;
        }
        assert_true(to_have < need);
        return;
    }
}

/* Then nothing happens to machines any more: whoever can be served is. */
static void judge_quiet(struct placement *p, uint32_t n_nodes)
{
    for (unsigned round = 0; round < 200; round++) {
        for (uint32_t n = 0; n < n_nodes; n++) {
            char name[16];
            (void)snprintf(name, sizeof(name), "n%05u", n);
            const char *label = nodes[n].is_durable ? "spot=false" : "spot=true";
            struct placement_event event = {.type = PLACEMENT_NODE_CAME,
                                            .node = name,
                                            .labels = &label,
                                            .n_labels = 1,
                                            .assignment = nodes[n].assignment};
            if (!nodes[n].is_here) {
                nodes[n].is_here = true;
                nodes[n].state = nodes[n].state == AWAY ? IDLE : nodes[n].state;
                step(p, event);
            } else if (nodes[n].state == LEAVING) {
                event.type = PLACEMENT_NODE_FREED;
                let_go(n);
                nodes[n].state = IDLE;
                step(p, event);
            }
        }
        now_ms += GANG_WAIT_MS;
        step(p, (struct placement_event){.type = PLACEMENT_TICK});
    }
    judge_served(p, n_nodes);
}

static void churn(uint64_t seed, uint32_t n_nodes, uint32_t n_jobs, unsigned events)
{
    struct rng rng;
    struct tfe_mem mem = {.resize = resize};
    memset(nodes, 0, sizeof(nodes));
    memset(jobs, 0, sizeof(jobs));
    highest = 0;
    now_ms = 0;
    rng_init(&rng, seed);
    struct placement *p =
        placement_new(&mem, &(struct placement_config){.gang_wait_ms = GANG_WAIT_MS}, 0);
    assert_non_null(p);
    for (uint32_t n = 0; n < n_nodes; n++) {
        nodes[n].is_durable = rng_below(&rng, 5) == 0;
    }
    for (unsigned i = 0; i < events; i++) {
        now_ms += (int64_t)rng_below(&rng, 2000);
        if (rng_below(&rng, 20) == 0) {
            move_job(p, &rng, (uint32_t)rng_below(&rng, n_jobs), 1 + n_nodes * 2 / n_jobs);
        } else {
            move_node(p, &rng, (uint32_t)rng_below(&rng, n_nodes));
        }
        if (!tfe_mono_is_never(due) && due.ms <= now_ms) {
            step(p, (struct placement_event){.type = PLACEMENT_TICK});
        }
    }
    judge_quiet(p, n_nodes);
    placement_free(p);
}

TEST(churn, no_rule_is_broken_in_small_pools)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        churn(seed, 12, 5, 1500);
    }
    assert_true(given > 1000);
}

TEST(churn, no_rule_is_broken_in_a_large_pool)
{
    worst_ms = 0;
    churn(7, NODES, JOBS, 20000);
    print_message("%u nodes, %u jobs: slowest step %.2f ms\n", NODES, JOBS, worst_ms);
}
