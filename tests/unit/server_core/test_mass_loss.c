/* tests/unit/server_core/test_mass_loss.c: mass loss: silence that is more likely the server's own
 * fault. */
#include "tests/unit/server_core/server_fixture.h"

static int tick(struct world *w)
{
    forget(w);
    return step(w, &(struct rdzv_event){.type = RDZV_TICK, .now = {w->now}});
}

TEST(late, loop_delay_of_half_a_second_is_on_time)
{
    struct world *w = a_running_world(1, 1, 1);
    w->renews[0] = false;
    pass(w, TTL_HELD_MS - 1);
    w->now += 500;
    assert_int_equal(tick(w), 0);
    assert_saw(w, "node_lost");
    world_free(w);
}

static struct world *a_mass_loss(uint32_t n, uint32_t silent)
{
    struct world *w = a_running_world(1, n, n);
    for (uint32_t i = 0; i < silent; i++) {
        w->renews[i] = false;
    }
    pass(w, TTL_HELD_MS);
    return w;
}

TEST(mass_loss, half_or_two_silent_members_are_no_mass_loss)
{
    struct world *w = a_mass_loss(6, 3);
    assert_saw(w, "node_lost");
    assert_not_saw(w, "mass_loss");
    world_free(w);
    w = a_mass_loss(2, 2);
    assert_saw(w, "node_lost");
    world_free(w);
}
