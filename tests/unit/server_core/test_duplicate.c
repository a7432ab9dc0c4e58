/* tests/unit/server_core/test_duplicate.c: two processes with one node id, and STARTs that no node
 * can follow. */
#include "tests/unit/server_core/server_fixture.h"

/* A process with node b's id, which has never heard of an epoch, comes on session 5. */
static void impostor_joins(struct world *w, uint32_t pid)
{
    uint32_t own = w->join.pid;
    w->join.pid = pid;
    join(w, 5, "b");
    w->join.pid = own;
    assert_saw(w, "1:REFUSED node_replaced");
    assert_saw(w, "5:WELCOME b");
}

TEST(duplicate, end_of_the_older_process_is_not_charged_to_peers)
{
    /* Told that it was replaced, it stops its trainers; a peer's collective fails of that, while
     * the switch still waits for the disk. */
    struct world *w = a_running_world(1, 3, 2);
    w->holds_writes = true;
    join(w, 2, "c");
    ready(w, 2, 2);
    assert_saw(w, "PERSIST");
    impostor_joins(w, 4712);
    assert_not_saw(w, "~switch");
    exited(w, 0, 1, 1);
    assert_not_saw(w, "~restarts");
    assert_saw(w, "~verdict job=j node=a epoch=1 number=0 lost_node");
    world_free(w);
}

TEST(void_start, repeated_join_after_start_resends_once_then_drops_the_node)
{
    struct world *w = a_running_world(1, 2, 2);
    join(w, 1, "b"); /* it was past its lease */
    assert_saw(w, "1:START epoch=1 rank=1");
    join(w, 1, "b");
    assert_not_saw(w, "START");
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 node_lost");
    stopped_and_ready(w, 0, 1);
    ready(w, 1, 2);
    assert_saw(w, "1:START epoch=2 rank=1");
    join(w, 1, "b"); /* counted anew */
    assert_saw(w, "1:START epoch=2 rank=1");
    world_free(w);
}
