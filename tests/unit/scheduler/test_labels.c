/* tests/unit/scheduler/test_labels.c: labels that become known after a node has connected. */
#include <stdio.h>
#include <string.h>

#include "server/scheduler/placement_state.h"
#include "tests/unit/scheduler/manual_pool.h"

static int set_label(const char *node, const char *label)
{
    return step((struct placement_event){
        .type = PLACEMENT_NODE_LABELS, .node = node, .labels = &label, .n_labels = 1});
}

static struct placement_options with_label(const struct placement_label *label)
{
    struct placement_options w = workers(1, 1, 500);
    w.labels = label;
    w.n_labels = 1;
    return w;
}

TEST_IN(labels, added_label_counts_like_the_nodes_own)
{
    static const struct placement_label lasts = {1u << TASK_WORKER, "spot=false"};
    static const struct placement_label is_spot = {1u << TASK_WORKER, "spot=true"};
    static const struct placement_label others[] = {{1u << TASK_WORKER, "gpu=a100"},
                                                    {1u << TASK_WORKER, "spots=many"}};
    came("n1", NULL);
    came("n2", "gpu=a100");
    submit("a", with_label(&lasts));
    assert_int_equal(set_label("n2", "spots=many"), 0);
    assert_int_equal(set_label("n2", "spot=true"), 0);
    assert_int_equal(has("a"), 0);
    assert_int_equal(set_label("n2", "spot=false"), 0); /* in place of the word before … */
    assert_true(is_of("a", "n2"));
    over("a");
    free_released();
    submit("b", with_label(&is_spot));
    assert_int_equal(has("b"), 0);
    struct placement_options w = with_label(others); /* … and with all others */
    w.n_labels = 2;
    submit("c", w);
    assert_true(is_of("c", "n2"));
}

static void comes_idle(const char *node, int64_t now)
{
    pool.now = now;
    assert_int_equal(step((struct placement_event){
                         .type = PLACEMENT_NODE_CONNECTED, .node = node, .idle_exit_ms = 1000}),
                     0);
}

TEST_IN(labels, added_label_keeps_the_idle_time)
{
    struct placement_supply supply;
    comes_idle("n1", 100);
    comes_idle("n2", 200);
    comes_idle("n3", 700);
    assert_int_equal(set_label("n3", "spot=true"), 0);
    assert_int_equal(set_label("n1", "spot=true"), 0);
    assert_int_equal(set_label("n2", "spot=true"), 0); /* between the two */
    for (uint32_t class = 0; placement_supply(pool.p, class, &supply); class ++) {
        const uint32_t n = supply.n_bytes > 0 ? 3 : 0;
        assert_int_equal(supply.here, n);
        assert_int_equal(supply.idle, n);
    }
    assert_int_equal(pool.last.deadline.ms, 1100);
    pool.now = 1100;
    about(PLACEMENT_TICK, NULL, NULL);
    assert_int_equal(pool.last.n, 1);
    assert_string_equal(pool.last.v[0].node, "n1");
    assert_int_equal(pool.last.deadline.ms, 1200);
    submit("a", workers(1, 1, 500));
    assert_true(is_of("a", "n2")); /* the one that is idle for the longest */
}

TEST_IN(labels, invalid_label_is_refused)
{
    came("n1", NULL);
    assert_int_equal(set_label("n1", "spot"), TFE_EINVAL);
    assert_int_equal(set_label("n2", "spot=true"), TFE_ENOENT);
    for (unsigned i = 1; i < PLACEMENT_CLASSES_MAX; i++) {
        char node[16];
        char label[16];
        (void)snprintf(node, sizeof(node), "m%u", i);
        (void)snprintf(label, sizeof(label), "set=%u", i);
        came(node, label);
    }
    assert_int_equal(set_label("n1", "spot=true"), TFE_EFULL);
    submit("a", workers(64, 64, 500));
    assert_int_equal(has("a"), 64);
    assert_int_equal(step((struct placement_event){
                         .type = PLACEMENT_RESTORED, .node = "r1", .job = "a", .assignment = 100}),
                     0);
    assert_int_equal(set_label("r1", "spot=true"),
                     TFE_ENOENT); /* its own labels are not known yet */
}

TEST_IN(labels, added_label_frees_the_former_class)
{
    came("n1", NULL);
    for (unsigned i = 2; i < PLACEMENT_CLASSES_MAX; i++) {
        char node[16];
        char label[16];
        (void)snprintf(node, sizeof(node), "m%u", i);
        (void)snprintf(label, sizeof(label), "set=%u", i);
        came(node, label);
    }
    assert_int_equal(set_label("n1", "spot=true"), 0); /* the last set there is */
    came("n2", "set=1");                               /* in place of none */
    const char *label = "set=0";
    assert_int_equal(
        step((struct placement_event){
            .type = PLACEMENT_NODE_CONNECTED, .node = "n3", .labels = &label, .n_labels = 1}),
        TFE_EFULL);
}

static void assert_there(uint32_t here, uint32_t idle)
{
    struct placement_supply supply;
    uint32_t n_here = 0;
    uint32_t n_idle = 0;
    for (uint32_t class = 0; placement_supply(pool.p, class, &supply); class ++) {
        n_here += supply.here;
        n_idle += supply.idle;
    }
    assert_int_equal(n_here, here);
    assert_int_equal(n_idle, idle);
}

TEST_IN(labels, warned_node_can_be_labelled_removed_or_lost)
{
    const char *label = "gpu=b";
    came("n1", NULL);
    came("n2", NULL);
    came("n3", NULL);
    warned("n1", true);
    warned("n2", true);
    warned("n3", true);
    assert_int_equal(set_label("n1", "gpu=a"), 0);
    assert_there(0, 0);
    assert_int_equal(
        step((struct placement_event){
            .type = PLACEMENT_NODE_CONNECTED, .node = "n1", .labels = &label, .n_labels = 1}),
        0); /* a connection that was there once more */
    about(PLACEMENT_NODE_REMOVED, "n2", NULL);
    about(PLACEMENT_NODE_LOST, "n3", NULL);
    assert_int_equal(pool.p->n_nodes, 2); /* idle, and gone */
    submit("a", workers(1, 3, 500));
    assert_int_equal(has("a"), 0);
    warned("n2", false);
    assert_int_equal(has("a"), 0);
    came("n3", NULL); /* another one, of which nothing is known */
    assert_true(is_of("a", "n3"));
    warned("n1", false);
    assert_true(is_of("a", "n1"));
    assert_int_equal(step((struct placement_event){.type = PLACEMENT_NODE_WARNED, .node = "n9"}),
                     TFE_ENOENT);
}
