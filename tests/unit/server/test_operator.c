/* tests/unit/server/test_operator.c: whom an order means, what the core is told, and the answer.
 * The core finds what a story says (__wrap_rdzv_find_node), and answers what it says. */
#include <stdio.h>
#include <string.h>

#include "server/operator.h"
#include "tests/unit/story.h"

static struct rdzv_found here;

int __wrap_rdzv_find_node(const struct rdzv *r, const struct principal *by, const char *name,
                          struct rdzv_found *ret_found);
int __wrap_rdzv_find_node(const struct rdzv *r, const struct principal *by, const char *name,
                          struct rdzv_found *ret_found)
{
    *ret_found = here;
    return here.n > 0 ? 0 : TFE_ENOENT;
}

static struct rdzv_event told;
static int steps;
static int answers;
static char told_job[TFE_ID_MAX + 1], told_node[TFE_ID_MAX + 1];

static int step(void *ctx, const struct rdzv_event *event)
{
    steps++;
    told = *event;
    snprintf(told_job, sizeof told_job, "%s", event->job);
    snprintf(told_node, sizeof told_node, "%s", event->node ? event->node : "");
    return answers;
}

static struct operator_answer obey(const struct tfe_msg *order)
{
    static const struct principal by = {.role = PRINCIPAL_ADMIN, .scope = PRINCIPAL_EVERY_JOB};
    struct operator_answer a;
    steps = 0;
    operator_obey(NULL, step, NULL, &by, order, &a);
    return a;
}

static void find(uint32_t n)
{
    static const char *const ids[] = {"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"};
    here = (struct rdzv_found){.n = n};
    for (uint32_t i = 0; i < n && i < RDZV_FOUND_MAX; i++) {
        here.v[i].job = "j";
        here.v[i].node = ids[i];
        here.v[i].name = "host";
    }
}

static const struct tfe_msg drain = {.type = MSG_DRAIN,
                                     .u.drain = {.node = "host", .within_ms = MSG_UNSET}};

TEST(operator, drains_whom_the_name_means_within_the_time_that_was_said)
{
    find(1);
    answers = 0;
    struct operator_answer a = obey(&drain);
    assert_int_equal(a.msg.type, MSG_DONE);
    assert_int_equal(told.type, RDZV_DRAIN);
    assert_false(told.has_within);
    assert_string_equal(told_job, "j");
    assert_string_equal(told_node, "n0");
    struct tfe_msg soon = drain;
    soon.u.drain.within_ms = 0;
    obey(&soon);
    assert_true(told.has_within);
    assert_int_equal(told.within_ms, 0);
    const struct tfe_msg evict = {.type = MSG_EVICT, .u.evict = {.node = "host"}};
    obey(&evict);
    assert_int_equal(told.type, RDZV_EVICT);
    assert_false(told.has_within);
}

TEST(operator, orders_nothing_where_several_may_be_meant)
{
    for (uint32_t n = 0; n <= RDZV_FOUND_MAX + 1; n++) {
        find(n);
        struct operator_answer a = obey(&drain);
        assert_int_equal(steps, n == 1);
        assert_int_equal(a.msg.type, n == 1 ? MSG_DONE : MSG_REFUSED);
        if (n > 1) {
            assert_int_equal(a.msg.u.refused.code, REFUSAL_BAD_REQUEST);
            assert_non_null(strstr(a.sentence, "n0 (job j), n1 (job j)"));
            assert_int_equal(strstr(a.sentence, " and others") != NULL, n > RDZV_FOUND_MAX);
        } else if (n == 0) {
            assert_int_equal(a.msg.u.refused.code, REFUSAL_NO_SUCH_NODE);
        }
    }
}

TEST(operator, says_what_the_core_would_not_do)
{
    static const struct tfe_msg orders[] = {
        {.type = MSG_GROW, .u.grow = {.job = "j"}},
        {.type = MSG_FORGET, .u.forget = {.job = "j"}},
        {.type = MSG_RESIZE,
         .u.resize = {.job = "j", .min_nodes = 1, .max_nodes = 2, .n_ps = MSG_UNSET}},
        {.type = MSG_STOP_JOB, .u.stop_job = {.job = "j"}},
    };
    static const int faults[] = {TFE_ENOENT, TFE_ESTATE, TFE_ENOMEM};
    static const enum tfe_refusal codes[] = {REFUSAL_NO_SUCH_JOB, REFUSAL_BAD_REQUEST,
                                             REFUSAL_LIMIT_REACHED};
    for (size_t i = 0; i < 4; i++) {
        for (size_t f = 0; f < 3; f++) {
            answers = faults[f];
            struct operator_answer a = obey(&orders[i]);
            assert_int_equal(a.msg.type, MSG_REFUSED);
            assert_true(strlen(a.sentence) > 20);
            if (i < 3 || f != 1) { /* a stop is never out of place */
                assert_int_equal(a.msg.u.refused.code, codes[f]);
            }
        }
        answers = 0;
        assert_int_equal(obey(&orders[i]).msg.type, MSG_DONE);
    }
}
