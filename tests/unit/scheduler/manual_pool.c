/* tests/unit/scheduler/manual_pool.c: a pool whose nodes and jobs a test controls. */
#include "tests/unit/scheduler/manual_pool.h"

#include <stdio.h>
#include <string.h>

struct pool pool;

int hand_pool_begin(void **state __attribute__((unused)))
{
    memset(&pool, 0, sizeof(pool));
    pool.mem = flaky_mem(&pool.flaky);
    pool.p = placement_new(&pool.mem, &(struct placement_config){.gang_wait_ms = 60000}, 0);
    return pool.p ? 0 : -1;
}

int hand_pool_end(void **state __attribute__((unused)))
{
    placement_free(pool.p);
    return pool.flaky.blocks == 0 ? 0 : -1;
}

size_t find(uint64_t assignment)
{
    size_t i = 0;
    while (i < pool.n_held && pool.held[i].assignment != assignment) {
        i++;
    }
    return i;
}

/* Checks that no node is assigned twice: it must belong to no job. */
static void take_in(const struct placement_action *a)
{
    if (a->type == PLACEMENT_WAITS) {
        const size_t n = strlen(pool.waits);
        (void)snprintf(pool.waits + n, sizeof(pool.waits) - n, "%s ", a->job);
    }
    if (a->type == PLACEMENT_LEAVE || a->type == PLACEMENT_WAITS) {
        return;
    }
    if (a->type == PLACEMENT_RELEASE) {
        size_t at = find(a->assignment);
        if (at < pool.n_held) {
            pool.held[at].is_leaving = true;
        }
        return;
    }
    for (size_t i = 0; i < pool.n_held; i++) {
        assert_string_not_equal(pool.held[i].node, a->node);
        assert_true(pool.held[i].assignment < a->assignment);
    }
    assert_true(pool.n_held < HAND_POOL_MANY);
    (void)snprintf(pool.held[pool.n_held].node, 16, "%s", a->node);
    (void)snprintf(pool.held[pool.n_held].job, 16, "%s", a->job);
    pool.held[pool.n_held].assignment = a->assignment;
    pool.held[pool.n_held].is_leaving = false;
    pool.held[pool.n_held++].task = a->task;
}

int step(struct placement_event event)
{
    event.now.ms = pool.now;
    int error = placement_step(pool.p, &event, &pool.last);
    for (size_t i = 0; !error && i < pool.last.n; i++) {
        take_in(&pool.last.v[i]);
    }
    return error;
}

void came(const char *node, const char *label)
{
    assert_int_equal(step((struct placement_event){.type = PLACEMENT_NODE_CONNECTED,
                                                   .node = node,
                                                   .labels = &label,
                                                   .n_labels = label ? 1 : 0}),
                     0);
}

void come(unsigned from, unsigned n)
{
    for (unsigned i = from; i < from + n; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "n%02u", i);
        came(name, NULL);
    }
}

void come_more(unsigned n, const char *label)
{
    for (unsigned i = 0; i < n; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "n%02u", pool.n_come++);
        came(name, label);
    }
}

void forget(size_t at)
{
    pool.n_held--;
    memmove(&pool.held[at], &pool.held[at + 1], (pool.n_held - at) * sizeof(pool.held[0]));
}

void freed(size_t at)
{
    char node[16];
    memcpy(node, pool.held[at].node, sizeof(node));
    uint64_t assignment = pool.held[at].assignment;
    forget(at);
    assert_int_equal(step((struct placement_event){
                         .type = PLACEMENT_NODE_FREED, .node = node, .assignment = assignment}),
                     0);
}

void free_released(void)
{
    for (size_t i = 0; i < pool.n_held;) {
        if (pool.held[i].is_leaving) {
            freed(i);
            i = 0;
        } else {
            i++;
        }
    }
}

void warned(const char *node, bool is_warned)
{
    assert_int_equal(step((struct placement_event){
                         .type = PLACEMENT_NODE_WARNED, .node = node, .is_warned = is_warned}),
                     0);
}

struct placement_options workers(uint32_t min, uint32_t max, uint32_t priority)
{
    return (struct placement_options){
        .priority = priority, .min = {[TASK_WORKER] = min}, .max = {[TASK_WORKER] = max}};
}

struct placement_options on(const char *label, struct placement_options w)
{
    static struct placement_label labels[4];
    static unsigned n;
    struct placement_label *all = &labels[n++ % 4];
    *all = (struct placement_label){0xf, label};
    w.labels = all;
    w.n_labels = 1;
    return w;
}

static void send_options(enum placement_event_type type, const char *job,
                         struct placement_options w)
{
    assert_int_equal(step((struct placement_event){.type = type, .job = job, .options = &w}), 0);
}

void submit(const char *job, struct placement_options w)
{
    send_options(PLACEMENT_JOB_SUBMITTED, job, w);
}

void change(const char *job, struct placement_options w)
{
    send_options(PLACEMENT_JOB_CHANGED, job, w);
}

void quota(const char *pattern, uint32_t nodes)
{
    assert_int_equal(
        step((struct placement_event){.type = PLACEMENT_QUOTA, .pattern = pattern, .nodes = nodes}),
        0);
}

void over(const char *job)
{
    about(PLACEMENT_JOB_OVER, NULL, job);
}

void about(enum placement_event_type type, const char *node, const char *job)
{
    assert_int_equal(step((struct placement_event){.type = type, .node = node, .job = job}), 0);
}

unsigned has(const char *job)
{
    unsigned n = 0;
    for (size_t i = 0; i < pool.n_held; i++) {
        n += strcmp(pool.held[i].job, job) == 0 && !pool.held[i].is_leaving;
    }
    return n;
}

bool is_of(const char *job, const char *node)
{
    for (size_t i = 0; i < pool.n_held; i++) {
        if (strcmp(pool.held[i].node, node) == 0) {
            return strcmp(pool.held[i].job, job) == 0;
        }
    }
    return false;
}

bool is_leaving(const char *node)
{
    for (size_t i = 0; i < pool.n_held; i++) {
        if (strcmp(pool.held[i].node, node) == 0) {
            return pool.held[i].is_leaving;
        }
    }
    return false;
}

unsigned leaving(void)
{
    unsigned n = 0;
    for (size_t i = 0; i < pool.n_held; i++) {
        n += pool.held[i].is_leaving;
    }
    return n;
}

struct placement_view view(const char *job)
{
    struct placement_view v = {.job = ""};
    for (size_t i = 0; i < placement_jobs(pool.p) && strcmp(v.job, job) != 0; i++) {
        placement_job_view(pool.p, i, &v);
    }
    assert_string_equal(v.job, job);
    return v;
}
