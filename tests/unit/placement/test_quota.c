/* tests/unit/placement/test_quota.c: jobs of a pattern that may have so many nodes together. */
#include <stdio.h>
#include <string.h>

#include "common/net/heap.h"
#include "server/placement/placement.h"
#include "tests/unit/story.h"

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
        step((struct placement_event){.type = PLACEMENT_NODE_CAME,
                                      .node = w.nodes[at].node,
                                      .labels = &label,
                                      .n_labels = label ? 1 : 0});
    }
}

static void quota(const char *pattern, uint32_t nodes)
{
    step((struct placement_event){.type = PLACEMENT_QUOTA, .pattern = pattern, .nodes = nodes});
}

static struct placement_wish workers(uint32_t min, uint32_t max, uint32_t priority)
{
    return (struct placement_wish){.priority = priority, .min = {min}, .max = {max}};
}

/* Ends others for its minimum. */
static struct placement_wish strong(uint32_t min, uint32_t max)
{
    struct placement_wish wish = workers(min, max, 900);
    wish.preempt = true;
    return wish;
}

static const struct placement_label gpu_b = {0xf, "gpu=b"};
static const struct placement_label gpu_g = {0xf, "gpu=g"};

static struct placement_wish on(const struct placement_label *label, struct placement_wish wish)
{
    wish.labels = label;
    wish.n_labels = 1;
    return wish;
}

static void submit(const char *job, struct placement_wish wish)
{
    step((struct placement_event){.type = PLACEMENT_JOB_SUBMITTED, .job = job, .wish = &wish});
}

static void change(const char *job, struct placement_wish wish)
{
    step((struct placement_event){.type = PLACEMENT_JOB_CHANGED, .job = job, .wish = &wish});
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

TEST_IN(quota, jobs_of_a_pattern_grow_to_it_together_and_others_beyond)
{
    quota("a*", 5);
    come(12, NULL);
    submit("a1", workers(1, 9, 0));
    assert_int_equal(has("a1"), 5);
    change("a1", workers(1, 3, 0));
    free_released();
    submit("a2", workers(1, 9, 0));
    assert_int_equal(has("a1") + has("a2"), 5);
    submit("b", workers(1, 9, 0));
    assert_int_equal(has("b"), 7);
    assert_int_equal(demand("b").max, 9);
}

TEST_IN(quota, a_node_counts_until_it_has_left_its_job)
{
    quota("a*", 2);
    come(4, NULL);
    submit("a1", workers(2, 2, 0));
    submit("a2", workers(1, 2, 0));
    over("a1");
    assert_int_equal(leaving(), 2);
    assert_int_equal(has("a2"), 0); /* two idle ones are there, and none may be its own */
    assert_null(view("a2").quota);  /* its share is on its way */
    free_released();
    assert_int_equal(has("a2"), 2);
}

TEST_IN(quota, a_new_one_counts_what_jobs_have_and_what_leaves_them)
{
    come(6, NULL);
    submit("a1", workers(2, 2, 0));
    submit("a2", workers(2, 2, 0));
    over("a1");
    quota("a*", 4);
    submit("a3", workers(2, 2, 0));
    assert_int_equal(has("a3"), 0);
    assert_null(view("a3").quota); /* it is on its way */
    free_released();
    assert_int_equal(has("a3"), 2);
}

TEST_IN(quota, what_a_job_that_is_over_has_kept_is_a_part_of_it)
{
    quota("a*", 4);
    come(6, NULL);
    submit("a1", workers(2, 4, 0));
    step((struct placement_event){.type = PLACEMENT_JOB_OVER, .job = "a1", .lets_run = true});
    submit("a2", workers(1, 1, 900));
    assert_int_equal(has("a1"), 4);
    assert_int_equal(view("a2").quota_lacks, 1);
    assert_int_equal(demand("a2").max, 0);
    over("a1");
    free_released();
    assert_int_equal(has("a2"), 1);
}

TEST_IN(quota, a_minimum_takes_its_share_of_its_pattern_and_no_node_of_others)
{
    quota("a*", 4);
    come(9, NULL);
    submit("a1", workers(2, 9, 0));
    submit("b", workers(1, 4, 0));
    assert_int_equal(has("a1"), 4);
    assert_int_equal(has("b"), 4);
    submit("a2", workers(2, 2, 0));
    assert_int_equal(has("a1"), 2);
    assert_int_equal(has("b"), 4);
    free_released();
    assert_int_equal(has("a2"), 2);
    submit("a3", workers(1, 1, 900)); /* each has no more than its minimum */
    assert_int_equal(leaving(), 0);
    assert_string_equal(view("a3").quota, "a*");
    assert_int_equal(view("a3").quota_nodes, 4);
    assert_int_equal(view("a3").quota_lacks, 1);
    assert_int_equal(view("a3").lacks, 0);
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

TEST_IN(quota, who_has_preempt_ends_jobs_of_its_pattern_only_for_its_share)
{
    quota("a*", 3);
    come(5, NULL);
    submit("b", workers(2, 2, 0));
    submit("a1", workers(3, 3, 0));
    submit("a2", strong(2, 2));
    assert_int_equal(has("b"), 2);
    assert_int_equal(has("a1"), 0);
    free_released();
    assert_int_equal(has("a2"), 2);
    assert_int_equal(has("a1"), 0);
    assert_string_equal(view("a1").quota, "a*");
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
    struct placement_wish wish = on(&gpu_g, strong(1, 2));
    quota("a*", 3);
    come(1, NULL);
    submit("a1", workers(1, 1, 0));
    come(2, "gpu=g");
    submit("a2", wish);
    come(2, "gpu=g");
    submit("b", workers(1, 2, 0));
    assert_int_equal(has("b"), 2);
    wish.min[TASK_PS] = wish.max[TASK_PS] = 2;
    change("a2", wish);
    assert_int_equal(has("a1"), 0);
    assert_int_equal(has("a2"), 1);
    assert_int_equal(has("b"), 1);
    free_released();
    assert_int_equal(has("a2"), 3);
}

TEST_IN(quota, growth_is_given_up_before_a_job_is_ended)
{
    quota("a*", 4);
    come(4, NULL);
    submit("a1", workers(1, 2, 0));
    submit("a2", workers(1, 2, 0));
    submit("a3", strong(2, 2));
    assert_int_equal(has("a1"), 1);
    assert_int_equal(has("a2"), 1);
}

TEST_IN(quota, who_has_its_share_takes_nodes_of_anybody)
{
    quota("a*", 3);
    come(4, NULL);
    submit("a1", workers(1, 2, 0));
    submit("b", workers(1, 2, 0));
    assert_int_equal(has("a1") + has("b"), 4);
    submit("a2", workers(2, 2, 0)); /* one is lacking of the quota, two of the nodes */
    assert_int_equal(has("a1"), 1);
    assert_int_equal(has("b"), 1);
    free_released();
    assert_int_equal(has("a2"), 2);
}

TEST_IN(quota, nothing_is_taken_where_it_would_not_be_enough)
{
    quota("a*", 3);
    come(4, NULL);
    submit("b", workers(1, 1, 0));
    submit("a1", workers(2, 3, 0));
    assert_int_equal(has("a1"), 3);
    submit("a2", workers(2, 2, 0));
    assert_int_equal(has("a1"), 3);
    assert_int_equal(has("b"), 1);
    assert_int_equal(view("a2").quota_lacks, 2);
    change("a2", workers(1, 1, 0));
    assert_int_equal(has("a1"), 2);
}

/* Nodes that it cannot use were kept, though the share was all that it wanted of them. */
TEST_IN(quota, a_share_is_taken_by_nodes_that_are_no_use_themselves)
{
    quota("a*", 3);
    come(3, "gpu=a");
    submit("a1", workers(1, 3, 0));
    assert_int_equal(has("a1"), 3);
    /* No such node is there: nothing is taken, but it may be ordered. */
    submit("a2", on(&gpu_b, workers(1, 1, 0)));
    assert_int_equal(has("a1"), 3);
    assert_int_equal(demand("a2").max, 1);
    come(1, "gpu=b");
    assert_int_equal(has("a1"), 2);
    free_released();
    assert_int_equal(has("a2"), 1);
}

TEST_IN(quota, a_job_makes_room_for_its_own_ps)
{
    struct placement_wish wish = {.min = {1, 0, 1, 0}, .max = {3, 0, 1, 0}};
    quota("a*", 4);
    come(5, NULL);
    submit("a1", wish);
    assert_int_equal(has("a1"), 4);
    wish.min[TASK_PS] = wish.max[TASK_PS] = 2;
    change("a1", wish);
    assert_int_equal(leaving(), 1);
    free_released();
    assert_int_equal(view("a1").state, PLACEMENT_JOB_PLACED);
    assert_int_equal(view("a1").held[TASK_PS], 2);
    assert_int_equal(view("a1").held[TASK_WORKER], 2);
}

TEST_IN(quota, what_is_lacking_of_nodes_alone_is_not_taken_of_its_own)
{
    struct placement_wish wish = {.min = {1, 0, 1, 0}, .max = {3, 0, 1, 0}};
    quota("a*", 9);
    come(4, NULL);
    submit("a1", wish);
    wish.min[TASK_PS] = wish.max[TASK_PS] = 2;
    change("a1", wish);
    assert_int_equal(leaving(), 0);
    assert_int_equal(view("a1").lacks, 1);
}

TEST_IN(quota, shares_are_taken_one_after_the_other)
{
    quota("a*", 3);
    come(3, NULL);
    submit("a1", workers(1, 3, 0));
    submit("a2", workers(1, 1, 0));
    free_released();
    submit("a3", workers(1, 1, 0));
    free_released();
    assert_int_equal(has("a1"), 1);
    assert_int_equal(has("a2"), 1);
    assert_int_equal(has("a3"), 1);
}

TEST_IN(quota, who_has_its_share_at_once_waits_for_none_any_more)
{
    quota("a*", 2);
    come(4, NULL);
    submit("a1", workers(2, 2, 0));
    submit("a2", workers(2, 2, 0));
    assert_string_equal(view("a2").quota, "a*");
    quota("a*", 4);
    assert_int_equal(has("a2"), 2);
    assert_null(view("a2").quota);
    assert_string_equal(w.waits, "a2 a2 ");
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

TEST_IN(quota, who_waits_for_a_share_holds_up_nobody_else)
{
    quota("a*", 2);
    come(4, NULL);
    submit("a1", workers(2, 2, 0));
    submit("a2", workers(2, 2, 900));
    assert_string_equal(w.waits, "a2 ");
    submit("b", workers(2, 2, 0));
    assert_int_equal(has("b"), 2);
    assert_string_equal(w.waits, "a2 "); /* said once */
    over("b");
    over("a1");
    assert_string_equal(w.waits, "a2 a2 "); /* it is on its way */
    submit("c", workers(3, 3, 0));
    free_released();
    assert_int_equal(has("a2"), 2);
}

TEST_IN(quota, nobody_of_the_pattern_overtakes_who_waits)
{
    quota("a*", 4);
    come(9, NULL);
    submit("a1", workers(2, 2, 0));
    submit("a2", workers(3, 3, 0));
    submit("a3", workers(1, 4, 0)); /* two are left, which are for a2 */
    assert_int_equal(has("a3"), 0);
    assert_int_equal(view("a3").quota_lacks, 2);
    change("a1", workers(2, 4, 0));
    assert_int_equal(has("a1"), 2);
    over("a2");
    assert_int_equal(has("a3"), 2);
    assert_int_equal(has("a1"), 2);
}

TEST_IN(quota, who_waits_for_nodes_keeps_its_share)
{
    quota("a*", 4);
    come(4, NULL);
    submit("b", workers(1, 1, 900));
    submit("a1", workers(4, 4, 500)); /* three are idle */
    submit("a2", workers(1, 1, 400));
    assert_int_equal(has("a2"), 0);
    assert_string_equal(view("a2").quota, "a*");
    assert_null(view("a1").quota);
    come(1, NULL);
    assert_int_equal(has("a1"), 4);
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

TEST_IN(quota, a_lowered_one_takes_nothing_and_a_raised_one_gives_at_once)
{
    come(6, NULL);
    submit("a1", workers(2, 6, 0));
    quota("a*", 3);
    assert_int_equal(has("a1"), 6);
    kill_one_of("a1");
    come(1, NULL);
    assert_int_equal(has("a1"), 5);
    wait_for(10 * GANG_WAIT_MS);
    assert_int_equal(has("a1"), 5);
    quota("a*", 6);
    assert_int_equal(has("a1"), 6);
    over("a1");
    quota("a*", 0);
    free_released();
    submit("a2", workers(7, 7, 0)); /* nothing is left of it */
    assert_null(view("a2").quota);
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
    assert_int_equal(w.last.v[0].reason, PLACEMENT_ABOVE);
    free_released();
    quota("a*", 4);
    assert_int_equal(has("a1"), 4);
    assert_string_equal(w.waits, "a1 a1 ");
}

TEST_IN(quota, two_that_each_have_a_part_of_it_do_not_wait_for_ever)
{
    quota("a*", 6);
    come(6, NULL);
    submit("a1", workers(3, 3, 0));
    submit("a2", workers(3, 3, 0));
    kill_one_of("a1");
    kill_one_of("a2");
    quota("a*", 4); /* which is enough for one of them */
    come(4, NULL);
    wait_for(GANG_WAIT_MS);
    free_released();
    assert_int_equal(has("a1"), 3);
    assert_int_equal(has("a2"), 0);
}

TEST_IN(quota, who_alone_waits_for_a_share_keeps_what_it_has)
{
    quota("a*", 6);
    come(6, NULL);
    submit("a1", workers(3, 3, 0));
    submit("a2", workers(3, 3, 0));
    kill_one_of("a1");
    quota("a*", 5);
    wait_for(10 * GANG_WAIT_MS);
    assert_int_equal(has("a1"), 2);
    assert_string_equal(view("a1").quota, "a*");
    submit("a3", workers(1, 1, 0)); /* now there is another one */
    wait_for(10 * GANG_WAIT_MS);
    free_released();
    assert_int_equal(has("a1"), 0);
}

TEST_IN(quota, who_is_short_gives_nothing_up_for_a_share_of_somebody_else)
{
    quota("b*", 1);
    come(4, NULL);
    submit("a", workers(3, 3, 0));
    submit("b1", workers(1, 1, 0));
    submit("b2", workers(1, 1, 0)); /* waits for its quota */
    kill_one_of("a");
    wait_for(10 * GANG_WAIT_MS);
    assert_int_equal(has("a"), 2);
    submit("c", workers(1, 1, 0)); /* waits for a node */
    wait_for(10 * GANG_WAIT_MS);
    assert_int_equal(has("a"), 0);
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
    struct placement_wish picky = on(&gpu_b, workers(2, 2, 500));
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

TEST_IN(quota, the_largest_minimum_is_what_others_do_not_keep)
{
    quota("a*", 6);
    quota("*1", 5);
    come(9, NULL);
    submit("a1", workers(1, 9, 500));
    assert_int_equal(view("a1").most, 5);
    submit("a2", workers(2, 9, 500));
    free_released();
    assert_int_equal(view("a1").most, 4);
    assert_int_equal(view("a2").most, 5);
    submit("b", workers(1, 1, 0));
    assert_int_equal(view("b").most, UINT32_MAX);
    submit("a3", workers(5, 5, 900)); /* 3 are kept: it waits, and those behind it may not grow */
    assert_int_equal(view("a3").quota_lacks > 0, true);
    assert_true(view("a1").most <= 1);
    change("a2", workers(2, 2, 950));
    assert_int_equal(view("a2").most, 5); /* who is before it has not to care */
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
