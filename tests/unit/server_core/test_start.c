/* tests/unit/server_core/test_start.c: how a job gets to its first epoch, which nodes are in it,
 * and how it grows. */
#include "tests/unit/server_core/server_fixture.h"

TEST(growth, does_not_come_when_a_rank_has_ended_well_already)
{
    /* The newcomer would have made the job do its last part again. */
    struct world *w = a_running_world(1, 4, 2);
    exited(w, 1, 1, 0);
    join(w, 2, "c");
    ready(w, 2, 2);
    assert_not_saw(w, "switch");
    exited(w, 0, 1, 0);
    assert_saw(w, "0:FINISH succeeded: job j succeeded");
    assert_saw(w, "2:FINISH succeeded: job j succeeded");
    world_free(w);
}
