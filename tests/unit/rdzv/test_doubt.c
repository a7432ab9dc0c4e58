/* tests/unit/rdzv/test_doubt.c: silence that is more likely the server's own fault. */
#include "tests/unit/rdzv/world.h"

static int tick(struct world *w)
{
    forget(w);
    return step(w, &(struct rdzv_event){.type = RDZV_TICK, .now = {w->now}});
}

TEST(late, a_turn_of_the_loop_gives_every_lease_a_whole_ttl_once)
{
    struct world *w = a_running_world(1, 2, 2);
    w->renews[0] = false;
    w->renews[1] = false;
    w->now += TTL_HELD_MS + 501; /* the renewals of all that time lie unread */
    assert_int_equal(tick(w), 0);
    assert_not_saw(w, "node_lost");
    pass(w, TTL_HELD_MS - 1);
    assert_not_saw(w, "node_lost");
    pass(w, 1);
    assert_saw(w, "node_lost");
    world_free(w);
}

TEST(late, a_loop_that_is_late_for_ever_loses_the_dead_all_the_same)
{
    struct world *w = a_running_world(1, 2, 2);
    w->renews[1] = false;
    bool lost = false;
    for (int i = 0; i < 5; i++) {
        w->now += TTL_HELD_MS + 600;
        assert_int_equal(tick(w), 0);
        if (!lost) {
            assert_not_saw(w, "node_lost job=j node=a"); /* it has renewed, and has its turn anew */
        }
        lost = lost || strstr(w->log, "node_lost job=j node=b");
        struct tfe_msg renew = {.type = MSG_RENEW, .u.renew.number = 1};
        if (!lost) {
            assert_int_equal(say(w, 0, &renew), 0);
        }
    }
    assert_true(lost);
    world_free(w);
}

TEST(late, half_a_second_is_on_time)
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

TEST(mass_loss, holds_every_decision_for_another_lease_and_alarms)
{
    struct world *w = a_mass_loss(5, 3);
    assert_saw(w, "~mass_loss job=j");
    assert_not_saw(w, "node_lost");
    assert_int_equal(times_seen(w, "~mass_loss"), 1);
    pass(w, TTL_HELD_MS - 1);
    assert_not_saw(w, "node_lost");
    pass(w, 1);
    assert_int_equal(times_seen(w, "~node_lost"), 3);
    assert_saw(w, "3:STOP epoch=1");
    assert_not_saw(w, "~mass_loss"); /* it does not arm itself again */
    world_free(w);
}

TEST(mass_loss, whoever_is_back_meanwhile_was_never_lost)
{
    struct world *w = a_mass_loss(4, 4);
    for (uint32_t i = 0; i < 4; i++) {
        w->renews[i] = true;
        w->renew_at[i] = w->now + 1000;
    }
    pass(w, 3 * TTL_HELD_MS);
    assert_not_saw(w, "node_lost");
    assert_not_saw(w, "STOP");
    world_free(w);
}

TEST(mass_loss, a_survivors_exit_ends_the_wait)
{
    struct world *w = a_mass_loss(5, 3);
    exited(w, 4, 1, 1);
    assert_saw(w, "~switch");
    pass(w, 0);
    pass(w, 1);
    assert_int_equal(times_seen(w, "~mass_loss"), 0);
    struct msg_status_node node;
    const char *after = NULL;
    int n = 0;
    while (rdzv_view_node(w->r, "j", after, &node) == 0) {
        n++;
        after = node.node;
    }
    assert_int_equal(n, 2); /* the silent ones are gone */
    world_free(w);
}

TEST(mass_loss, that_is_over_holds_up_nobody_in_the_next_epoch)
{
    struct world *w = a_mass_loss(5, 3);
    int64_t until = w->now + TTL_HELD_MS; /* so long they would have waited */
    w->renews[3] = false;
    exited(w, 4, 1, 1);
    stopped_and_ready(w, 3, 1);
    ready(w, 4, 2);
    pass(w, 1500);
    assert_saw(w, "START epoch=2");
    pass_until(w, until - 1);
    assert_saw(w, "node_lost job=j node=d");
    world_free(w);
}

TEST(mass_loss, a_survivors_exit_does_not_end_the_leases_that_were_renewed_in_that_moment)
{
    /* They were told from the held ones by their time alone. */
    struct world *w = a_mass_loss(4, 3);
    for (uint32_t i = 0; i < 3; i++) {
        struct tfe_msg msg = {.type = MSG_RENEW, .u.renew.number = ++w->renewals};
        assert_int_equal(say(w, i, &msg), 0);
    }
    exited(w, 3, 1, 3);
    pass(w, TTL_HELD_MS - 1);
    assert_not_saw(w, "node_lost");
    world_free(w);
}

TEST(mass_loss, of_half_or_of_two_is_a_loss)
{
    struct world *w = a_mass_loss(6, 3);
    assert_saw(w, "node_lost");
    assert_not_saw(w, "mass_loss");
    world_free(w);
    w = a_mass_loss(2, 2);
    assert_saw(w, "node_lost");
    world_free(w);
}
