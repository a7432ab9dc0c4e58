/* tests/unit/server_core/test_wait.c: the text in RENEWED that says what a node waits for. */
#include "tests/unit/server_core/plan.h"

/* The sentence of the node's next RENEWED, "" none; *ret_ms: until when. */
static const char *waits(struct world *w, uint32_t session, uint32_t *ret_ms)
{
    static char words[MSG_SENTENCE_MAX];
    static uint64_t number;
    const struct tfe_msg renew = {.type = MSG_RENEW, .u.renew = {.number = ++number}};
    struct rdzv_actions actions;
    const struct rdzv_event event = {
        .type = RDZV_MESSAGE, .now = {w->now}, .session = session, .msg = &renew};
    assert_int_equal(rdzv_step(w->r, &event, &actions), 0);
    words[0] = '\0';
    *ret_ms = 0;
    for (size_t i = 0; i < actions.n; i++) {
        const struct rdzv_action *action = &actions.v[i];
        if (action->type == RDZV_SEND && action->session == session &&
            action->msg.type == MSG_RENEWED) {
            const struct msg_renewed *renewed = &action->msg.u.renewed;
            snprintf(words, sizeof(words), "%s", renewed->waits ? renewed->waits : "");
            *ret_ms = renewed->waits_ms;
        }
    }
    return words;
}

static void assert_waits(struct world *w, uint32_t session, const char *expected)
{
    uint32_t ms;
    assert_string_equal(waits(w, session, &ms), expected);
}

TEST(wait, for_nodes_counts_those_that_lack_and_is_told_anew_as_they_come)
{
    struct world *w = a_world(3, 4);
    join(w, 0, "a");
    assert_waits(w, 0, "waiting for 2 more nodes (1 of 3)");
    join(w, 1, "b");
    pass(w, 5000);
    assert_waits(w, 0, "waiting for 1 more node (2 of 3)");
    join(w, 2, "c");
    ready(w, 0, 1);
    pass(w, 5000);
    assert_waits(w, 0, "waiting for 2 more nodes to be ready (1 of 3)");
    ready(w, 1, 1);
    ready(w, 2, 1);
    /* The state is another one: the words of the last are no more, however fresh they were. */
    uint32_t ms;
    assert_null(strstr(waits(w, 0, &ms), "more node"));
    world_free(w);
}

TEST(wait, for_a_place_is_of_those_who_have_none)
{
    struct world *w = a_running_world(1, 2, 2);
    assert_waits(w, 0, "");
    join(w, 2, "c");
    assert_waits(w, 2, "getting ready, while 2 nodes train");
    ready(w, 2, 2);
    assert_waits(w, 2, "spare: 2 of 2 are training");
    assert_waits(w, 1, "");
    world_free(w);
}

/* Which goes down while the sentence stays as it is. */
TEST(wait, until_a_fence_has_the_time_that_is_left)
{
    struct world *w = a_running_world(1, 1, 1);
    uint32_t first, second;
    cut(w, 0);
    join(w, 1, "b");
    ready(w, 1, 2);
    w->renews[1] = true;
    pass(w, 30000); /* the lease is over, its trainers may not be */
    const char *words = waits(w, 1, &first);
    assert_non_null(strstr(words, "waiting until a's trainers must have ended (fence;"));
    assert_true(first > 1000);
    pass(w, 1000);
    assert_non_null(strstr(waits(w, 1, &second), "waiting until a's trainers must have ended"));
    assert_int_equal(first - second, 1000);
    world_free(w);
}
