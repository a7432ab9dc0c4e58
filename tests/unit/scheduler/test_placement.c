/* tests/unit/scheduler/test_placement.c: which job gets which node, and which one is released. */
#include <stdio.h>

#include "server/scheduler/placement_state.h"
#include "tests/unit/scheduler/manual_pool.h"

/* --- labels and tasks ------------------------------------------------------------------------- */

TEST_IN(placement, chief_and_ps_prefer_durable_machines)
{
    came("s1", "spot=true");
    came("d1", "spot=false");
    came("s2", "spot=true");
    came("d2", "spot=false");
    struct placement_options w = {.priority = 500,
                                  .min = {[TASK_WORKER] = 2, [TASK_CHIEF] = 1, [TASK_PS] = 1},
                                  .max = {[TASK_WORKER] = 2, [TASK_CHIEF] = 1, [TASK_PS] = 1}};
    submit("a", w);
    assert_int_equal(has("a"), 4);
    for (size_t i = 0; i < 4; i++) {
        bool is_server = pool.held[i].task == TASK_CHIEF || pool.held[i].task == TASK_PS;
        assert_int_equal(pool.held[i].node[0], is_server ? 'd' : 's');
    }
}

TEST_IN(placement, amount_of_a_resource_is_compared_as_a_quantity)
{
    static const struct placement_label wanted[] = {{1u << TASK_WORKER, "cpu=0.5"},
                                                    {1u << TASK_WORKER, "memory=1000000000"}};
    struct placement_options w = workers(1, 1, 500);
    w.labels = wanted;
    w.n_labels = 2;
    submit("a", w);
    const char *const other[] = {"cpu=500m", "memory=1Gi"};
    const char *const same[] = {"cpu=500m", "memory=1G"};
    assert_int_equal(
        step((struct placement_event){
            .type = PLACEMENT_NODE_CONNECTED, .node = "o", .labels = other, .n_labels = 2}),
        0);
    assert_int_equal(has("a"), 0);
    assert_int_equal(
        step((struct placement_event){
            .type = PLACEMENT_NODE_CONNECTED, .node = "s", .labels = same, .n_labels = 2}),
        0);
    assert_int_equal(has("a"), 1);
}

/* --- growth ----------------------------------------------------------------------------------- */

TEST_IN(placement, node_is_assigned_where_it_helps_most)
{
    submit("a", workers(2, 9, 500));
    submit("b", workers(2, 9, 500));
    come(0, 4);
    assert_int_equal(
        step((struct placement_event){.type = PLACEMENT_JOB_GAIN, .job = "a", .gain_milli = 100}),
        0);
    come(4, 3);
    assert_int_equal(has("a"), 2);
    assert_int_equal(has("b"), 5);
}

TEST_IN(placement, useless_worker_still_counts_more_in_a_small_job)
{
    submit("a", workers(2, 9, 500));
    submit("b", workers(1, 9, 500));
    come(0, 3);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(step((struct placement_event){.type = PLACEMENT_JOB_GAIN,
                                                       .job = i == 0 ? "a" : "b",
                                                       .gain_milli = 0}),
                         0);
    }
    come(3, 1);
    assert_int_equal(has("b"), 2);
}

/* --- taking ----------------------------------------------------------------------------------- */

/* What ran on after its job's success lost what was above a minimum that it needed no more. */
TEST_IN(placement, lingering_job_keeps_its_nodes)
{
    come(0, 3);
    submit("low", workers(1, 3, 100));
    assert_int_equal(step((struct placement_event){
                         .type = PLACEMENT_JOB_OVER, .job = "low", .keeps_nodes = true}),
                     0);
    struct placement_options w = workers(1, 1, 900);
    submit("high", w);
    assert_int_equal(has("low"), 3);
    w.preempt = true;
    change("high", w);
    assert_int_equal(has("low"), 3);
    assert_int_equal(view("high").lacks, 1);
    over("low");
    free_released();
    assert_int_equal(has("high"), 1);
}

/* --- orders ----------------------------------------------------------------------------------- */

TEST_IN(placement, smaller_maximum_releases_the_newest_node)
{
    come(0, 4);
    submit("a", workers(1, 4, 500));
    uint64_t oldest = pool.held[0].assignment;
    change("a", workers(1, 1, 500));
    assert_int_equal(has("a"), 1);
    assert_false(pool.held[find(oldest)].is_leaving);
}

TEST_IN(placement, finished_job_is_forgotten_without_nodes)
{
    come(0, 1);
    submit("a", workers(1, 1, 500));
    struct placement_event forgotten = {.type = PLACEMENT_JOB_FORGOTTEN, .job = "a"};
    assert_int_equal(step(forgotten), TFE_ESTATE);
    over("a");
    assert_int_equal(step(forgotten), TFE_ESTATE);
    free_released();
    assert_int_equal(step(forgotten), 0);
    assert_int_equal(placement_jobs(pool.p), 0);
}

TEST_IN(placement, finished_job_can_be_submitted_again)
{
    come(0, 1);
    submit("a", workers(1, 1, 500));
    struct placement_options w = workers(1, 1, 500);
    struct placement_event again = {.type = PLACEMENT_JOB_SUBMITTED, .job = "a", .options = &w};
    assert_int_equal(step(again), TFE_EEXIST);
    over("a");
    free_released();
    assert_int_equal(step(again), 0);
    assert_int_equal(has("a"), 1);
}

/* --- losses ----------------------------------------------------------------------------------- */

TEST_IN(placement, disconnected_node_is_reassigned_only_after_its_fence)
{
    come(0, 1);
    submit("a", workers(1, 1, 500));
    submit("b", workers(1, 1, 500));
    about(PLACEMENT_NODE_LOST, "n00", NULL);
    over("a");
    assert_int_equal(has("b"), 0);
    /* It is back, and its job is over: it is told so once more. */
    assert_int_equal(step((struct placement_event){
                         .type = PLACEMENT_NODE_CONNECTED, .node = "n00", .assignment = 1}),
                     0);
    assert_int_equal(pool.last.n, 1);
    assert_int_equal(pool.last.v[0].type, PLACEMENT_RELEASE);
    freed(0);
    assert_int_equal(has("b"), 1);
}

TEST_IN(placement, lost_assignment_is_repeated)
{
    come(0, 1);
    submit("a", workers(1, 1, 500));
    about(PLACEMENT_NODE_LOST, "n00", NULL);
    forget(0); /* it never heard of it */
    about(PLACEMENT_NODE_CONNECTED, "n00", NULL);
    assert_int_equal(has("a"), 1);
    assert_int_equal(pool.held[0].assignment, 2);
}

TEST_IN(placement, freed_of_an_earlier_assignment_is_ignored)
{
    come(0, 1);
    submit("a", workers(1, 1, 500));
    over("a");
    free_released();
    submit("b", workers(1, 1, 500));
    assert_int_equal(step((struct placement_event){
                         .type = PLACEMENT_NODE_FREED, .node = "n00", .assignment = 1}),
                     TFE_ENOENT);
    assert_int_equal(has("b"), 1);
}

TEST_IN(placement, two_partial_jobs_do_not_deadlock)
{
    come(0, 10);
    submit("a", workers(6, 6, 500));
    submit("b", workers(4, 4, 500));
    forget(find(1));
    about(PLACEMENT_NODE_GONE, "n00", NULL);
    forget(find(10));
    about(PLACEMENT_NODE_GONE, "n09", NULL);
    assert_int_equal(view("a").state, PLACEMENT_JOB_SHORT);
    assert_int_equal(view("b").state, PLACEMENT_JOB_SHORT);
    assert_int_equal(pool.last.deadline.ms, 60000);
    pool.now = 60000;
    about(PLACEMENT_TICK, NULL, NULL);
    assert_int_equal(leaving(), 3);
    free_released();
    assert_int_equal(has("a"), 6);
    assert_int_equal(view("b").state, PLACEMENT_JOB_QUEUED);
    assert_int_equal(view("b").lacks, 2);
}

/* --- a restart of the server ------------------------------------------------------------------ */

TEST_IN(placement, node_with_an_unknown_assignment_is_released)
{
    submit("a", workers(1, 1, 500));
    assert_int_equal(step((struct placement_event){
                         .type = PLACEMENT_NODE_CONNECTED, .node = "n00", .assignment = 7}),
                     0);
    assert_int_equal(pool.last.n, 1);
    assert_int_equal(pool.last.v[0].reason, PLACEMENT_UNKNOWN);
    assert_int_equal(pool.last.v[0].assignment, 7);
    assert_int_equal(has("a"), 0);
    assert_int_equal(step((struct placement_event){
                         .type = PLACEMENT_NODE_FREED, .node = "n00", .assignment = 7}),
                     0);
    assert_int_equal(has("a"), 1);
}

/* --- values and memory ------------------------------------------------------------------------ */

TEST_IN(placement, invalid_event_is_refused)
{
    struct placement_options w = workers(2, 1, 500);
    struct placement_event event = {.type = PLACEMENT_JOB_SUBMITTED, .job = "a", .options = &w};
    assert_int_equal(step(event), TFE_EINVAL);
    w = workers(0, 4, 500); /* nothing is nobody's minimum */
    assert_int_equal(step(event), TFE_EINVAL);
    w = workers(1, 1, PLACEMENT_PRIORITY_MAX + 1);
    assert_int_equal(step(event), TFE_EINVAL);
    w = workers(1, 1, 500);
    w.min[TASK_PS] = 1;
    w.max[TASK_PS] = 2;
    assert_int_equal(step(event), TFE_EINVAL);
    static const char *const bad[] = {"=v", "k", "", "k=v w"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(
            step((struct placement_event){
                .type = PLACEMENT_NODE_CONNECTED, .node = "n00", .labels = &bad[i], .n_labels = 1}),
            TFE_EINVAL);
    }
    assert_int_equal(placement_jobs(pool.p) + pool.p->n_nodes, 0);
}

TEST_IN(placement, classes_above_the_limit_are_refused_until_one_is_free)
{
    char node[16];
    char label[16];
    const char *one = label;
    for (unsigned i = 0; i <= PLACEMENT_CLASSES_MAX; i++) {
        (void)snprintf(node, sizeof(node), "n%u", i);
        (void)snprintf(label, sizeof(label), "k=%u", i);
        assert_int_equal(
            step((struct placement_event){
                .type = PLACEMENT_NODE_CONNECTED, .node = node, .labels = &one, .n_labels = 1}),
            i < PLACEMENT_CLASSES_MAX ? 0 : TFE_EFULL);
    }
    assert_int_equal(pool.p->n_nodes, PLACEMENT_CLASSES_MAX);
    about(PLACEMENT_NODE_GONE, "n3", NULL);
    came(node, label);
}

TEST_IN(placement, one_token_cannot_use_all_classes)
{
    char node[16];
    char label[16];
    const char *labels[] = {label, PLACEMENT_SCOPE "team-a-*"};
    for (unsigned i = 0; i <= PLACEMENT_CLASSES_OF_SCOPE; i++) {
        (void)snprintf(node, sizeof(node), "n%u", i);
        (void)snprintf(label, sizeof(label), "k=%u", i);
        assert_int_equal(
            step((struct placement_event){
                .type = PLACEMENT_NODE_CONNECTED, .node = node, .labels = labels, .n_labels = 2}),
            i < PLACEMENT_CLASSES_OF_SCOPE ? 0 : TFE_EFULL);
    }
    labels[1] = PLACEMENT_SCOPE "team-b-*";
    assert_int_equal(
        step((struct placement_event){
            .type = PLACEMENT_NODE_CONNECTED, .node = node, .labels = labels, .n_labels = 2}),
        0);
    (void)snprintf(label, sizeof(label), "k=0"); /* what is there already takes no more of them */
    labels[1] = PLACEMENT_SCOPE "team-a-*";
    assert_int_equal(
        step((struct placement_event){
            .type = PLACEMENT_NODE_CONNECTED, .node = "again", .labels = labels, .n_labels = 2}),
        0);
}

TEST_IN(placement, failed_allocation_refuses_the_event_without_effect)
{
    struct placement_options w = workers(1, 2, 500);
    const char *label = "k=v";
    struct placement_event events[] = {
        {.type = PLACEMENT_JOB_SUBMITTED, .job = "a", .options = &w},
        {.type = PLACEMENT_NODE_CONNECTED, .node = "n00", .labels = &label, .n_labels = 1},
        {.type = PLACEMENT_JOB_CHANGED, .job = "a", .options = &w},
    };
    for (size_t i = 0; i < 3; i++) {
        int error = TFE_ENOMEM;
        for (unsigned at = 1; error == TFE_ENOMEM; at++) {
            size_t jobs = placement_jobs(pool.p);
            size_t nodes = pool.p->n_nodes;
            pool.flaky.fail_at = pool.flaky.asked + at;
            error = step(events[i]);
            assert_true(error == TFE_ENOMEM ||
                        (error == 0 &&
                         pool.flaky.asked < pool.flaky.fail_at)); /* none was asked for in vain */
            if (error) {
                assert_int_equal(placement_jobs(pool.p), jobs);
                assert_int_equal(pool.p->n_nodes, nodes);
            }
        }
        pool.flaky.fail_at = 0;
    }
    assert_int_equal(has("a"), 1);
}

static void idle(const char *node, int64_t exit_ms, uint32_t floor)
{
    assert_int_equal(step((struct placement_event){.type = PLACEMENT_NODE_CONNECTED,
                                                   .node = node,
                                                   .idle_exit_ms = exit_ms,
                                                   .floor = floor}),
                     0);
}

static void pass(int64_t ms)
{
    pool.now += ms;
    assert_int_equal(step((struct placement_event){.type = PLACEMENT_TICK}), 0);
}

static unsigned n_left(void)
{
    unsigned n = 0;
    for (size_t i = 0; i < pool.last.n; i++) {
        n += pool.last.v[i].type == PLACEMENT_LEAVE;
    }
    return n;
}

TEST_IN(placement, longest_idle_node_leaves_first_and_not_below_the_floor)
{
    idle("a", 1000, 2);
    pass(100);
    idle("b", 1000, 2);
    idle("c", 1000, 2);
    assert_int_equal(pool.last.deadline.ms, 1000);
    pass(899);
    assert_int_equal(n_left(), 0);
    pass(1);
    assert_int_equal(n_left(), 1);
    assert_string_equal(pool.last.v[0].node, "a");
    /* Two that are due at once do not both go. */
    pass(5000);
    assert_int_equal(n_left(), 0);
    assert_true(tfe_mono_is_never(pool.last.deadline));
    idle("d", 0, 0);
    assert_int_equal(n_left(), 1);
    assert_string_equal(pool.last.v[0].node, "b");
    /* Who leaves gets nothing any more, whatever it says of itself. */
    submit("job", workers(1, 8, 500));
    idle("a", 1000, 2);
    assert_int_equal(has("job"), 2);
}

TEST_IN(placement, assigned_or_reserved_node_is_not_idle)
{
    idle("a", 1000, 0);
    idle("b", 1000, 0);
    submit("one", workers(1, 1, 500));
    submit("two", workers(2, 2, 500));
    pass(60000);
    assert_int_equal(n_left(), 0);
    over("one");
    free_released();
    assert_int_equal(has("two"), 2);
    over("two");
    free_released();
    pass(999);
    assert_int_equal(n_left(), 0);
    pass(1);
    assert_int_equal(n_left(), 2);
}

TEST_IN(placement, removed_node_leaves_its_job_and_gets_no_other)
{
    come(0, 2);
    submit("job", workers(1, 2, 500));
    about(PLACEMENT_NODE_REMOVED, "n00", NULL);
    assert_int_equal(pool.last.n, 1);
    assert_int_equal(pool.last.v[0].type, PLACEMENT_RELEASE);
    assert_int_equal(pool.last.v[0].reason, PLACEMENT_REMOVED);
    free_released();
    assert_int_equal(has("job"), 1);
    /* Its connection comes and goes meanwhile. */
    about(PLACEMENT_NODE_LOST, "n00", NULL);
    about(PLACEMENT_NODE_CONNECTED, "n00", NULL);
    assert_int_equal(has("job"), 1);
    about(PLACEMENT_NODE_GONE, "n00", NULL);
    come(2, 1);
    assert_int_equal(has("job"), 2);
}
