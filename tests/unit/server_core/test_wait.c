/* tests/unit/server_core/test_wait.c: the text in RENEWED that says what a node waits for. */
#include "tests/unit/server_core/plan.h"

/* Sends RENEW and returns the text of its RENEWED, or NULL if there is none. *ret_ms: until when.
 */
static const char *news(struct world *w, uint32_t session, uint32_t *ret_ms)
{
    static char text[MSG_SENTENCE_MAX];
    static uint64_t number;
    const struct tfe_msg renew = {.type = MSG_RENEW, .u.renew = {.number = ++number}};
    struct rdzv_actions actions;
    const struct rdzv_event event = {
        .type = RDZV_MESSAGE, .now = {w->now}, .session = session, .msg = &renew};
    assert_int_equal(rdzv_step(w->r, &event, &actions), 0);
    *ret_ms = 0;
    for (size_t i = 0; i < actions.n; i++) {
        const struct rdzv_action *action = &actions.v[i];
        if (action->type == RDZV_SEND && action->session == session &&
            action->msg.type == MSG_RENEWED) {
            const struct msg_renewed *renewed = &action->msg.u.renewed;
            snprintf(text, sizeof(text), "%s", renewed->waits ? renewed->waits : "");
            *ret_ms = renewed->waits_ms;
            return renewed->waits || renewed->no_wait ? text : NULL;
        }
    }
    return NULL;
}

static void assert_no_news(struct world *w, uint32_t session)
{
    uint32_t ms;
    assert_null(news(w, session, &ms));
}

static void assert_waits(struct world *w, uint32_t session, const char *expected)
{
    uint32_t ms;
    assert_string_equal(news(w, session, &ms), expected);
}

TEST(wait, missing_nodes_are_counted_and_updated)
{
    struct world *w = a_world(3, 4);
    join(w, 0, "a");
    assert_waits(w, 0, "waiting for 2 more nodes (1 of 3)");
    assert_no_news(w, 0);
    join(w, 1, "b");
    assert_waits(w, 0, "waiting for 1 more node (2 of 3)");
    join(w, 2, "c");
    ready(w, 0, 1);
    assert_waits(w, 0, "waiting for 2 more nodes to be ready (1 of 3)");
    ready(w, 1, 1);
    ready(w, 2, 1);
    assert_waits(w, 0, "starting soon: 3 of at most 4 nodes are ready");
    world_free(w);
}

TEST(wait, wait_for_a_slot_is_sent_to_nodes_without_one)
{
    struct world *w = a_running_world(1, 2, 2);
    assert_no_news(w, 0);
    join(w, 2, "c");
    assert_waits(w, 2, "getting ready while 2 nodes train");
    ready(w, 2, 2);
    assert_waits(w, 2, "spare: 2 of 2 are training");
    assert_no_news(w, 1);
    assert_no_news(w, 2);
    world_free(w);
}

TEST(wait, end_of_a_wait_is_sent_once)
{
    struct world *w = a_running_world(1, 2, 2);
    join(w, 2, "c");
    assert_waits(w, 2, "getting ready while 2 nodes train");
    goodbye(w, 0);
    goodbye(w, 1);
    ready(w, 2, 2); /* its epoch is being written */
    assert_waits(w, 2, "");
    assert_no_news(w, 2);
    world_free(w);
}

TEST(wait, reason_is_sent_again_after_another_join)
{
    struct world *w = a_world(2, 2);
    join(w, 0, "a");
    assert_waits(w, 0, "waiting for 1 more node (1 of 2)");
    join(w, 0, "a");
    assert_waits(w, 0, "waiting for 1 more node (1 of 2)");
    cut(w, 0);
    join(w, 1, "a");
    assert_waits(w, 1, "waiting for 1 more node (1 of 2)");
    world_free(w);
}

TEST(wait, wait_for_a_fence_has_the_remaining_time)
{
    struct world *w = a_running_world(1, 1, 1);
    uint32_t first, second;
    cut(w, 0);
    join(w, 1, "b");
    ready(w, 1, 2);
    w->renews[1] = true;
    pass(w, 30000); /* the lease is over, its trainers may not be */
    join(w, 1, "b");
    assert_non_null(
        strstr(news(w, 1, &first), "waiting until a's trainers must have ended (fence;"));
    assert_true(first > 1000);
    pass(w, 1000);
    join(w, 1, "b");
    assert_non_null(strstr(news(w, 1, &second), "waiting until a's trainers must have ended"));
    assert_int_equal(first - second, 1000);
    world_free(w);
}
