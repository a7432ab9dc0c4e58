/* tests/unit/server/test_operator.c: which node or job an order means, the event for the core, and
 * the response. The core is real and its nodes have joined; the test sets the core's result for
 * the order. */
#include <stdio.h>
#include <string.h>

#include "server/query/operator.h"
#include "tests/unit/server_core/server_fixture.h"

static struct rdzv_event told;
static int steps;
static int answers;
static char told_job[TFE_ID_MAX + 1], told_node[TFE_ID_MAX + 1];

static int on_step(void *ctx, const struct rdzv_event *event)
{
    steps++;
    told = *event;
    snprintf(told_job, sizeof told_job, "%s", event->job);
    snprintf(told_node, sizeof told_node, "%s", event->node ? event->node : "");
    return answers;
}

static struct operator_response execute_order(const struct world *w, const struct tfe_msg *order)
{
    static const struct principal by = {.role = PRINCIPAL_ADMIN, .scope = PRINCIPAL_EVERY_JOB};
    struct operator_response a;
    steps = 0;
    operator_execute(w->r, on_step, NULL, &by, order, &a);
    return a;
}

/* Returns a world with a job of n nodes that all have the same name. */
static struct world *nodes_named_host(uint32_t n)
{
    static const char *const ids[] = {"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"};
    struct world *w = a_world(10, 10);
    w->join.node_name = "host";
    for (uint32_t i = 0; i < n; i++) {
        join(w, i, ids[i]);
    }
    return w;
}

static const struct tfe_msg drain = {.type = MSG_DRAIN,
                                     .u.drain = {.node = "host", .within_ms = MSG_UNSET}};

TEST(operator, drain_applies_to_the_named_node_with_the_given_time)
{
    struct world *w = nodes_named_host(1);
    answers = 0;
    struct operator_response a = execute_order(w, &drain);
    assert_int_equal(a.msg.type, MSG_DONE);
    assert_int_equal(told.type, RDZV_DRAIN);
    assert_false(told.has_within);
    assert_string_equal(told_job, "j");
    assert_string_equal(told_node, "n0");
    struct tfe_msg soon = drain;
    soon.u.drain.within_ms = 0;
    execute_order(w, &soon);
    assert_true(told.has_within);
    assert_int_equal(told.within_ms, 0);
    const struct tfe_msg evict = {.type = MSG_EVICT, .u.evict = {.node = "host"}};
    execute_order(w, &evict);
    assert_int_equal(told.type, RDZV_EVICT);
    assert_false(told.has_within);
    world_free(w);
}

TEST(operator, ambiguous_name_changes_nothing)
{
    for (uint32_t n = 0; n <= RDZV_FOUND_MAX + 1; n++) {
        struct world *w = nodes_named_host(n);
        struct operator_response a = execute_order(w, &drain);
        assert_int_equal(steps, n == 1);
        assert_int_equal(a.msg.type, n == 1 ? MSG_DONE : MSG_REFUSED);
        if (n > 1) {
            assert_int_equal(a.msg.u.refused.code, REFUSAL_BAD_REQUEST);
            assert_non_null(strstr(a.sentence, "n0 (job j), n1 (job j)"));
            assert_int_equal(strstr(a.sentence, " and others") != NULL, n > RDZV_FOUND_MAX);
        } else if (n == 0) {
            assert_int_equal(a.msg.u.refused.code, REFUSAL_NO_SUCH_NODE);
        }
        world_free(w);
    }
}

TEST(operator, refusal_of_the_core_is_reported)
{
    static const struct tfe_msg orders[] = {
        {.type = MSG_GROW, .u.grow = {.job = "j"}},
        {.type = MSG_FORGET, .u.forget = {.job = "j"}},
        {.type = MSG_SCALE,
         .u.scale = {.job = "j", .min_nodes = 1, .max_nodes = 2, .n_ps = MSG_UNSET}},
        {.type = MSG_CANCEL, .u.cancel = {.job = "j"}},
    };
    static const int faults[] = {TFE_ENOENT, TFE_ESTATE, TFE_ENOMEM};
    static const enum tfe_refusal codes[] = {REFUSAL_NO_SUCH_JOB, REFUSAL_CONFLICT,
                                             REFUSAL_LIMIT_REACHED};
    struct world *w = nodes_named_host(1);
    for (size_t i = 0; i < 4; i++) {
        for (size_t f = 0; f < 3; f++) {
            answers = faults[f];
            struct operator_response a = execute_order(w, &orders[i]);
            assert_int_equal(a.msg.type, MSG_REFUSED);
            assert_true(strlen(a.sentence) > 20);
            if (i < 3 || f != 1) { /* a stop is valid in every phase */
                assert_int_equal(a.msg.u.refused.code, codes[f]);
            }
        }
        answers = 0;
        assert_int_equal(execute_order(w, &orders[i]).msg.type, MSG_DONE);
    }
    world_free(w);
}
