/* tests/unit/server_core/test_rank.c: which node has rank 0, and how long it is waited for. */
#include "tests/unit/server_core/server_fixture.h"

TEST(rank, lost_rank_0_goes_to_the_node_with_the_newest_snapshot)
{
    struct world *w = a_world(1, 4);
    come(w, 4);
    goodbye(w, 0);
    w->memory[2] = (struct msg_memory){.has_snapshot = true, .epoch = 1, .step = 5};
    w->memory[3] = (struct msg_memory){.has_snapshot = true, .epoch = 2}; /* which cannot be */
    for (uint32_t i = 1; i < 4; i++) {
        stopped_and_ready(w, i, 1);
    }
    assert_saw(w, "2:START epoch=2 rank=0");
    world_free(w);
}

TEST(rank, ranks_of_simultaneous_joins_do_not_depend_on_message_order)
{
    static const uint32_t orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
    for (int i = 0; i < 3; i++) {
        struct world *w = a_world(3, 3);
        for (int k = 0; k < 3; k++) {
            join(w, orders[i][k], name_of(orders[i][k]));
        }
        for (int k = 0; k < 3; k++) {
            ready(w, orders[2 - i][k], 1);
        }
        assert_saw(w, "0:START epoch=1 rank=0");
        assert_saw(w, "1:START epoch=1 rank=1");
        assert_saw(w, "2:START epoch=1 rank=2");
        world_free(w);
    }
}

/* a has rank 0 of two, c is ready to replace whom is lost; rank 0 is to be waited for. */
static struct world *a_chief_world(uint32_t grace_ms)
{
    struct world *w = a_world(1, 2);
    w->join.spec.chief_grace_ms = grace_ms;
    join(w, 0, "a");
    pass(w, 1);
    join(w, 1, "b");
    ready(w, 0, 1);
    ready(w, 1, 1);
    assert_saw(w, "0:START epoch=1 rank=0");
    join(w, 2, "c");
    ready(w, 2, 2);
    pass(w, 400000); /* the fences of their first leases have passed */
    return w;
}

TEST(chief_grace, ended_chief_and_other_ranks_are_not_waited_for)
{
    struct world *w = a_chief_world(20000);
    exited_as(w, 0, (struct msg_exited){.epoch = 1, .stopped = true});
    ready(w, 0, 2);
    stopped_and_ready(w, 1, 1);
    assert_saw(w, "START epoch=2");
    world_free(w);

    w = a_chief_world(20000);
    cut(w, 1);
    pass(w, TTL_HELD_MS);
    stopped_and_ready(w, 0, 1);
    assert_saw(w, "0:START epoch=2");
    world_free(w);
}

static void join_as(struct world *w, uint32_t session, const char *node, bool durable)
{
    w->join.durable = durable;
    join(w, session, node);
    w->join.durable = false;
    pass(w, 1);
}

TEST(durable, durable_node_gets_rank_0_at_the_next_switch_with_minimal_moves)
{
    struct world *w = a_running_world(1, 3, 2);
    join_as(w, 2, "c", true);
    ready(w, 2, 2);
    stopped_and_ready(w, 0, 1);
    stopped_and_ready(w, 1, 1);
    assert_saw(w, "2:START epoch=2 rank=0");
    assert_saw(w, "1:START epoch=2 rank=1");
    assert_saw(w, "0:START epoch=2 rank=2");
    world_free(w);
}
