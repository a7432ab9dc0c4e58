/* tests/unit/rdzv/test_death.c: death certificates: who looks for them, and what one proves. */
#include "tests/unit/rdzv/world.h"

#define GUARD_PORT 777
/* Of nodes a, b … */
static const char *const hashes[] = {"da", "db", "dc"};

static int brings(struct world *w, uint32_t session, const char *hash)
{
    return say(w, session, &(struct tfe_msg){.type = MSG_DEATH, .u.death.certificate = hash});
}

static void comes(struct world *w, uint32_t session, const char *hash)
{
    w->join.death_hash = hash;
    w->join.guard_port = hash ? GUARD_PORT : 0;
    join(w, session, name_of(session));
    w->join.death_hash = NULL;
    w->join.guard_port = 0;
}

/* Of `members` in epoch 1, whose trainers do not listen, and spares up to n; each has a hash. */
static struct world *a_world_of(uint32_t members, uint32_t n)
{
    struct world *w = a_world(1, members);
    for (uint32_t i = 0; i < n; i++) {
        comes(w, i, hashes[i]);
        ready(w, i, i < members ? 1 : 2);
    }
    pass(w, 3000);
    assert_string_equal(job_state(w), "running");
    forget(w);
    return w;
}

TEST(death, of_an_epoch_of_one_node_is_looked_for_by_a_spare_and_the_switch_is_at_once)
{
    struct world *w = a_world_of(1, 2);
    cut(w, 0);
    assert_saw(w, "1:PROBE suspect a a1:1000 guard:777");
    probed(w, 1, PROBE_REFUSED); /* proves nothing here */
    assert_string_equal(job_state(w), "running");
    pass(w, 50);
    assert_saw(w, "1:PROBE suspect a a1:1000 guard:777");
    assert_int_equal(brings(w, 1, "da"), 0);
    assert_saw(w, "~node_dead job=j node=a");
    assert_saw(w, "1:START epoch=2 rank=0 world=1");
    assert_not_saw(w, "wait_fence");
    world_free(w);
}

TEST(death, of_trainers_that_never_listen_is_enough_for_the_others)
{
    struct world *w = a_world_of(2, 2);
    cut(w, 1);
    assert_saw(w, "0:PROBE suspect b b1:1100 guard:777");
    assert_int_equal(brings(w, 0, "db"), 0);
    assert_saw(w, "~node_dead job=j node=b");
    stopped_and_ready(w, 0, 1);
    assert_saw(w, "0:START epoch=2 rank=0 world=1");
    world_free(w);
}

TEST(death, of_nobody_or_of_oneself_changes_nothing)
{
    struct world *w = a_world_of(1, 2);
    assert_int_equal(brings(w, 1, "dz"), 0);
    assert_int_equal(brings(w, 1, "db"), 0);
    assert_int_equal(brings(w, 1, "d/"), TFE_EINVAL);
    assert_string_equal(w->log, "");
    assert_string_equal(job_state(w), "running");
    world_free(w);
}

/* The end of its connection was not seen yet, or is of one that leads nowhere. */
TEST(death, is_believed_of_a_node_that_seems_to_be_here)
{
    struct world *w = a_world_of(1, 2);
    assert_int_equal(brings(w, 1, "da"), 0);
    assert_saw(w, "0:CLOSE");
    assert_saw(w, "1:START epoch=2 rank=0 world=1");
    world_free(w);
}

TEST(death, is_looked_for_after_the_lease_too_and_ends_the_wait_for_the_fence)
{
    struct world *w = a_world_of(1, 2);
    cut(w, 0);
    const struct tfe_msg renew = {.type = MSG_RENEW, .u.renew.number = 1};
    for (int i = 0; i < 60 && !strstr(w->log, "wait_fence"); i++) {
        assert_int_equal(say(w, 1, &renew), 0);
        pass(w, 1000);
        assert_int_equal(
            say(w, 1,
                &(struct tfe_msg){.type = MSG_PROBED, .u.probed = {w->probe[1], PROBE_NO_ANSWER}}),
            0);
    }
    assert_string_equal(job_state(w), "preparing");
    forget(w);
    pass(w, 7000);
    assert_saw(w, "1:PROBE suspect a a1:1000 guard:777");
    assert_int_equal(brings(w, 1, "da"), 0);
    assert_saw(w, "1:START epoch=2 rank=0 world=1");
    world_free(w);
}

/* Two processes of one id: what proves the second dead says nothing of the first. */
TEST(death, of_a_process_that_took_over_does_not_account_for_the_one_before)
{
    struct world *w = a_world_of(1, 2);
    w->join.death_hash = "dA";
    w->join.highest_epoch = w->join.running_epoch = 1;
    join(w, 5, "a"); /* of the same epochs and no other process id: but of another guard */
    w->join.death_hash = NULL;
    w->join.highest_epoch = w->join.running_epoch = 0;
    forget(w);
    assert_int_equal(brings(w, 1, "da"), 0); /* nobody knows that hash any more */
    assert_not_saw(w, "node_dead");
    assert_int_equal(brings(w, 1, "dA"), 0);
    assert_not_saw(w, "node_dead"); /* the member may live */
    ready(w, 1, 2);
    pass(w, 5000);
    assert_not_saw(w, "START"); /* the first one's fence */
    assert_string_equal(job_state(w), "preparing");
    world_free(w);
}

/* Its guard is another one, which has none. */
TEST(death, that_a_later_join_does_not_say_is_void)
{
    struct world *w = a_world_of(1, 2);
    w->join.highest_epoch = w->join.running_epoch = 1;
    comes(w, 0, NULL);
    w->join.highest_epoch = w->join.running_epoch = 0;
    cut(w, 0);
    assert_not_saw(w, "PROBE");
    forget(w);
    assert_int_equal(brings(w, 1, "da"), 0);
    assert_string_equal(w->log, "");
    world_free(w);
}
