/* tests/unit/scheduler/test_quota.c: quotas of the jobs that match a pattern. */
#include <stdio.h>
#include <string.h>

#include "common/base/heap.h"
#include "server/scheduler/placement.h"
#include "tests/unit/test_runner.h"

#define MANY 32
#define GANG_WAIT_MS 60000

static struct {
    struct placement *p;
    struct placement_actions last;
    int64_t now;
    struct {
        char node[8], job[16];
        uint64_t assignment; /* 0: free */
        enum tfe_task task;
        bool is_leaving;
    } nodes[MANY];
    size_t n;
    char waits[64]; /* jobs that placement said have begun, or ceased, to wait for a share */
} w;

static int set_up(void **state __attribute__((unused)))
{
    memset(&w, 0, sizeof(w));
    w.p = placement_new(&heap_mem, &(struct placement_config){.gang_wait_ms = GANG_WAIT_MS}, 0);
    return w.p ? 0 : -1;
}

static int tear_down(void **state __attribute__((unused)))
{
    placement_free(w.p);
    return 0;
}

#define FIXTURE set_up, tear_down

static size_t find(const char *node)
{
    size_t i = 0;
    while (i < w.n && strcmp(w.nodes[i].node, node) != 0) {
        i++;
    }
    return i;
}

static int try(struct placement_event event)
{
    event.now.ms = w.now;
    int rc = placement_step(w.p, &event, &w.last);
    for (size_t i = 0; rc == 0 && i < w.last.n; i++) {
        const struct placement_action *a = &w.last.v[i];
        const size_t at = find(a->node);
        if (a->type == PLACEMENT_WAITS) {
            (void)snprintf(w.waits + strlen(w.waits), sizeof(w.waits) - strlen(w.waits), "%s ",
                           a->job);
        } else if (a->type == PLACEMENT_ASSIGN) {
            assert_int_equal(w.nodes[at].assignment, 0);
            (void)snprintf(w.nodes[at].job, sizeof(w.nodes[at].job), "%s", a->job);
            w.nodes[at].assignment = a->assignment;
            w.nodes[at].task = a->task;
            w.nodes[at].is_leaving = false;
        } else if (a->assignment == w.nodes[at].assignment) {
            w.nodes[at].is_leaving = true;
        }
    }
    return rc;
}

static void step(struct placement_event event)
{
    assert_int_equal(try(event), 0);
}

static void come(unsigned n, const char *label)
{
    for (unsigned i = 0; i < n; i++) {
        const size_t at = w.n++;
        assert_true(at < MANY);
        (void)snprintf(w.nodes[at].node, sizeof(w.nodes[at].node), "n%02zu", at);
        step((struct placement_event){.type = PLACEMENT_NODE_CONNECTED,
                                      .node = w.nodes[at].node,
                                      .labels = &label,
                                      .n_labels = label ? 1 : 0});
    }
}

static void quota(const char *pattern, uint32_t nodes)
{
    step((struct placement_event){.type = PLACEMENT_QUOTA, .pattern = pattern, .nodes = nodes});
}

static struct placement_options workers(uint32_t min, uint32_t max, uint32_t priority)
{
    return (struct placement_options){.priority = priority, .min = {min}, .max = {max}};
}

/* Ends others for its minimum. */
static struct placement_options strong(uint32_t min, uint32_t max)
{
    struct placement_options options = workers(min, max, 900);
    options.preempt = true;
    return options;
}

static const struct placement_label gpu_b = {0xf, "gpu=b"};
static const struct placement_label gpu_g = {0xf, "gpu=g"};

static struct placement_options on(const struct placement_label *label,
                                   struct placement_options options)
{
    options.labels = label;
    options.n_labels = 1;
    return options;
}

static void submit(const char *job, struct placement_options options)
{
    step(
        (struct placement_event){.type = PLACEMENT_JOB_SUBMITTED, .job = job, .options = &options});
}

static void change(const char *job, struct placement_options options)
{
    step((struct placement_event){.type = PLACEMENT_JOB_CHANGED, .job = job, .options = &options});
}

static void over(const char *job)
{
    step((struct placement_event){.type = PLACEMENT_JOB_OVER, .job = job});
}

static void free_released(void)
{
    for (size_t i = 0; i < w.n; i++) {
        const uint64_t assignment = w.nodes[i].assignment;
        if (w.nodes[i].is_leaving) {
            w.nodes[i].is_leaving = false;
            w.nodes[i].assignment = 0;
            step((struct placement_event){
                .type = PLACEMENT_NODE_FREED, .node = w.nodes[i].node, .assignment = assignment});
        }
    }
}

/* The newest node of a job dies. */
static void kill_one_of(const char *job)
{
    size_t found = w.n;
    for (size_t i = 0; i < w.n; i++) {
        found = w.nodes[i].assignment && strcmp(w.nodes[i].job, job) == 0 ? i : found;
    }
    assert_true(found < w.n);
    step((struct placement_event){.type = PLACEMENT_NODE_GONE, .node = w.nodes[found].node});
    w.nodes[found].assignment = 0;
    w.nodes[found].node[0] = '-';
}

static void wait_for(int64_t ms)
{
    w.now += ms;
    step((struct placement_event){.type = PLACEMENT_TICK});
}

static unsigned has(const char *job)
{
    unsigned n = 0;
    for (size_t i = 0; i < w.n; i++) {
        n += w.nodes[i].assignment && !w.nodes[i].is_leaving && strcmp(w.nodes[i].job, job) == 0;
    }
    return n;
}

static unsigned leaving(void)
{
    unsigned n = 0;
    for (size_t i = 0; i < w.n; i++) {
        n += w.nodes[i].is_leaving;
    }
    return n;
}

static struct placement_view view(const char *job)
{
    struct placement_view v = {.job = ""};
    for (size_t i = 0; i < placement_jobs(w.p) && strcmp(v.job, job) != 0; i++) {
        placement_job_view(w.p, i, &v);
    }
    assert_string_equal(v.job, job);
    return v;
}

/* What it wants of nodes, where all of them are alike; its minimum. */
static struct placement_demand demand(const char *job)
{
    struct placement_demand rows[PLACEMENT_TASKS];
    for (size_t i = 0; i < placement_jobs(w.p); i++) {
        if (placement_demand(w.p, i, rows) == 1 && strcmp(rows[0].job, job) == 0) {
            return rows[0];
        }
    }
    return (struct placement_demand){.max = UINT32_MAX};
}

/* What a quota was lowered by is lacking, too. */
TEST_IN(quota, a_minimum_takes_as_much_as_it_takes_to_be_within_a_lowered_one)
{
    quota("a*", 6);
    come(6, NULL);
    submit("a1", workers(1, 6, 0));
    quota("a*", 4);
    assert_int_equal(has("a1"), 6);
    submit("a2", workers(1, 1, 0));
    assert_int_equal(has("a1"), 3);
    free_released();
    assert_int_equal(has("a2"), 1);
    assert_int_equal(has("a1"), 3);
}

/* A job that was ended for the share lost two nodes, and kept the third one. */
TEST_IN(quota, a_job_that_is_ended_for_a_share_keeps_nothing)
{
    quota("a*", 5);
    come(1, NULL);
    come(2, "gpu=g");
    submit("a1", workers(3, 3, 0));
    come(1, "gpu=g");
    submit("a2", on(&gpu_g, strong(3, 3)));
    assert_int_equal(has("a1"), 0);
    free_released();
    assert_int_equal(has("a2"), 3);
}

/* Its own node was of use for what it lacked, and it would have ended itself. */
TEST_IN(quota, who_ends_others_for_a_share_goes_on_itself)
{
    struct placement_options options = on(&gpu_g, strong(1, 2));
    quota("a*", 3);
    come(1, NULL);
    submit("a1", workers(1, 1, 0));
    come(2, "gpu=g");
    submit("a2", options);
    come(2, "gpu=g");
    submit("b", workers(1, 2, 0));
    assert_int_equal(has("b"), 2);
    options.min[TASK_PS] = options.max[TASK_PS] = 2;
    change("a2", options);
    assert_int_equal(has("a1"), 0);
    assert_int_equal(has("a2"), 1);
    assert_int_equal(has("b"), 1);
    free_released();
    assert_int_equal(has("a2"), 3);
}

TEST_IN(quota, what_is_lacking_of_nodes_alone_is_not_taken_of_its_own)
{
    struct placement_options options = {.min = {1, 0, 1, 0}, .max = {3, 0, 1, 0}};
    quota("a*", 9);
    come(4, NULL);
    submit("a1", options);
    options.min[TASK_PS] = options.max[TASK_PS] = 2;
    change("a1", options);
    assert_int_equal(leaving(), 0);
    assert_int_equal(view("a1").lacks, 1);
}

TEST_IN(quota, who_waits_for_another_quota_than_before_is_told)
{
    submit("a1", workers(4, 4, 0));
    quota("a*", 3);
    assert_string_equal(w.waits, "a1 ");
    quota("*1", 2);
    assert_string_equal(view("a1").quota, "*1");
    assert_string_equal(w.waits, "a1 a1 ");
    quota("*1", 1); /* it is the same one */
    assert_string_equal(w.waits, "a1 a1 ");
    quota("*1", 0);
    assert_string_equal(view("a1").quota, "a*");
    assert_string_equal(w.waits, "a1 a1 a1 ");
}

TEST_IN(quota, who_can_never_have_its_minimum_keeps_no_share)
{
    quota("a*", 4);
    come(2, NULL);
    submit("a1", workers(4, 4, 900)); /* more than the pool */
    submit("a2", workers(1, 2, 0));
    assert_int_equal(has("a2"), 2);
    submit("a3", workers(5, 5, 900)); /* more than the quota */
    assert_string_equal(view("a3").quota, "a*");
    assert_int_equal(view("a3").quota_lacks, 0);
    submit("a4", workers(3, 3, 0)); /* lacks of both */
    assert_int_equal(view("a4").quota_lacks, 1);
    assert_true(view("a4").is_too_large);
    over("a1");
    over("a4");
    come(4, NULL);
    change("a2", workers(1, 4, 0));
    assert_int_equal(has("a2"), 4);
}

TEST_IN(quota, a_job_counts_against_each_pattern_that_is_its)
{
    quota("a*", 5);
    quota("*x", 3);
    come(12, NULL);
    submit("ax", workers(1, 9, 0));
    assert_int_equal(has("ax"), 3);
    submit("a", workers(1, 9, 0));
    assert_int_equal(has("a"), 2);
    submit("bx", workers(1, 9, 0)); /* of *x: ax gives one up */
    free_released();
    assert_int_equal(has("bx"), 1);
    assert_int_equal(has("ax"), 2);
    assert_int_equal(has("a"), 3);
    quota("*x", 0);
    assert_int_equal(has("bx"), 7);
    assert_int_equal(has("ax") + has("a"), 5);
}

/* Its nodes were its own for ever, and it never ran. */
TEST_IN(quota, who_lacks_some_of_a_minimum_above_it_gives_the_rest_up)
{
    quota("a*", 4);
    come(5, NULL);
    submit("a1", workers(4, 4, 0));
    quota("a*", 3);
    assert_int_equal(has("a1"), 4);
    kill_one_of("a1");
    assert_int_equal(has("a1"), 3);
    assert_string_equal(w.waits, "a1 ");
    assert_int_equal(view("a1").state, PLACEMENT_JOB_SHORT);
    wait_for(GANG_WAIT_MS - 1);
    assert_int_equal(has("a1"), 3);
    wait_for(1);
    assert_int_equal(has("a1"), 0);
    assert_int_equal(w.last.v[0].reason, PLACEMENT_ABOVE_QUOTA);
    free_released();
    quota("a*", 4);
    assert_int_equal(has("a1"), 4);
    assert_string_equal(w.waits, "a1 a1 ");
}

TEST_IN(quota, no_more_is_ordered_than_it_lets_jobs_have)
{
    struct placement_supply supply;
    quota("a*", 5);
    submit("a1", workers(2, 9, 500));
    assert_int_equal(demand("a1").min, 2);
    assert_int_equal(demand("a1").max, 5);
    submit("a2", workers(2, 9, 500));
    assert_int_equal(demand("a1").max, 3);
    assert_int_equal(demand("a2").max, 2);
    submit("a3", workers(2, 2, 400)); /* nothing is left for it */
    assert_int_equal(demand("a3").min, 0);
    assert_int_equal(demand("a3").max, 0);
    assert_int_equal(demand("a1").max, 2); /* nor is it given to those before it */
    over("a3");
    come(5, NULL);
    assert_int_equal(has("a1") + has("a2"), 5);
    come(1, NULL);
    assert_true(placement_supply(w.p, 0, &supply));
    assert_int_equal(supply.idle, 1);
    assert_int_equal(demand("a1").max + demand("a2").max, 5);
    quota("a*", 6);
    assert_int_equal(has("a1") + has("a2"), 6);
    come(1, NULL);
    over("a1");
    assert_int_equal(demand("a2").max, 6);
}

/* It hid what it wanted as long as others had all of it, though they would have had to give it up:
 * the machines that it needed were never ordered. */
TEST_IN(quota, what_others_would_give_up_may_be_ordered)
{
    struct placement_options picky = on(&gpu_b, workers(2, 2, 500));
    quota("a*", 4);
    come(4, NULL);
    submit("a1", workers(2, 9, 500));
    submit("a2", picky);
    assert_int_equal(demand("a2").max, 2);
    assert_int_equal(demand("a1").max, 4);
    change("a1", workers(2, 9, 501)); /* of a higher priority: it gives nothing up */
    assert_int_equal(demand("a2").max, 0);
    change("a1", workers(3, 9, 500));
    assert_int_equal(demand("a2").max, 0);
    change("a1", workers(3, 9, 499));
    assert_int_equal(demand("a2").max, 0);
    picky.preempt = true;
    change("a2", picky);
    assert_int_equal(demand("a2").max, 2);
    picky.min[0] = 5; /* above the quota */
    picky.max[0] = 9;
    change("a2", picky);
    assert_int_equal(demand("a2").max, 0);
    assert_int_equal(demand("a1").max, 4);
    over("a1");
    assert_int_equal(demand("a2").max, 0);
}

TEST_IN(quota, the_smallest_of_a_name_is_told)
{
    quota("a*", 5);
    quota("*b", 3);
    assert_string_equal(placement_quota(w.p, "ab").pattern, "*b");
    assert_int_equal(placement_quota(w.p, "ab").nodes, 3);
    assert_string_equal(placement_quota(w.p, "a").pattern, "a*");
    assert_null(placement_quota(w.p, "c").pattern);
}

TEST_IN(quota, there_are_so_many_and_what_is_none_is_refused)
{
    char pattern[MSG_SCOPE_MAX + 2];
    struct placement_event event = {.type = PLACEMENT_QUOTA, .pattern = pattern, .nodes = 1};
    memset(pattern, 'x', sizeof(pattern));
    pattern[MSG_SCOPE_MAX + 1] = '\0';
    assert_int_equal(try(event), TFE_EINVAL);
    pattern[MSG_SCOPE_MAX] = '\0';
    assert_int_equal(try(event), 0);
    pattern[0] = '\0';
    assert_int_equal(try(event), TFE_EINVAL);
    event.pattern = NULL;
    assert_int_equal(try(event), TFE_EINVAL);
    event.pattern = pattern;
    for (unsigned i = 1; i < PLACEMENT_QUOTAS_MAX; i++) {
        (void)snprintf(pattern, sizeof(pattern), "%u*", i);
        assert_int_equal(try(event), 0);
    }
    (void)snprintf(pattern, sizeof(pattern), "more*");
    assert_int_equal(try(event), TFE_EFULL);
    event.nodes = 0;
    assert_int_equal(try(event), 0); /* there is none to end */
    (void)snprintf(pattern, sizeof(pattern), "7*");
    assert_int_equal(try(event), 0);
    event.nodes = 1;
    (void)snprintf(pattern, sizeof(pattern), "more*");
    assert_int_equal(try(event), 0);
    come(3, NULL);
    submit("63-a", workers(1, 3, 0));
    submit("more", workers(1, 3, 0));
    submit("7", workers(1, 1, 0));
    assert_int_equal(has("63-a") + has("more") + has("7"), 3);
}
