/* tests/unit/server_core/test_loss.c: members that fail, vanish, leave, or come back. */
#include "tests/unit/server_core/plan.h"
#include "tests/unit/server_core/server_fixture.h"

/* Three members with the same ports in every epoch, or (the others) only the last of them. */
static struct world *a_world_of_fixed_ports(struct disk *disk)
{
    struct world *w = a_world(1, 3);
    w->disk = disk;
    for (uint32_t session = 0; session < 3; session++) {
        w->join.fixed_ports = session == 2 || !disk;
        join(w, session, name_of(session));
        ready(w, session, 1);
    }
    assert_string_equal(job_state(w), "running");
    return w;
}

TEST(fixed_ports, restarted_server_knows_the_fixed_ports_of_a_member)
{
    struct disk disk;
    struct world *w = a_world_of_fixed_ports(&disk);
    struct world *next = a_world(1, 3);
    assert_int_equal(rdzv_restore(next->r, (struct tfe_mono){next->now}, &disk.record), 0);
    next->deadline = next->now;
    next->join.highest_epoch = next->join.running_epoch = 1;
    join(next, 0, "a"); /* which has none itself; c, which has, does not come back */
    pass(next, TTL_HELD_MS);
    stopped_and_ready(next, 0, 1);
    assert_saw(next, "~wait_fence");
    assert_string_equal(job_state(next), "preparing");
    world_free(next);
    world_free(w);
}

TEST(ports, new_ports_are_used_while_stale_peers_may_connect)
{
    struct world *w = a_running_world(1, 3, 3);
    cut(w, 2);
    pass(w, TTL_HELD_MS);
    stopped_and_ready(w, 0, 1);
    stopped_and_ready(w, 1, 1);
    assert_saw(w, "START epoch=2");
    assert_not_saw(w, "fresh");
    /* c of epoch 1 may still call the odd set; the even one is nobody's. */
    join(w, 3, "d");
    assert_saw(w, "3:PREPARE epoch=3 fresh");
    ready(w, 3, 3);
    assert_saw(w, "0:PREPARE epoch=3 fresh");
    stopped_and_ready(w, 0, 2);
    stopped_and_ready(w, 1, 2);
    assert_saw(w, "START epoch=3");
    pass(w, 2 * FENCE_HELD_MS);
    goodbye(w, 3);
    assert_saw(w, "0:PREPARE epoch=4\n");
    stopped_and_ready(w, 0, 3);
    stopped_and_ready(w, 1, 3);
    goodbye(w, 1);
    assert_saw(w, "0:PREPARE epoch=5\n");
    world_free(w);
}

TEST(epoch, number_is_above_any_number_that_a_joiner_has_seen)
{
    struct world *w = a_world(2, 3);
    join(w, 0, "a");
    ready(w, 0, 1);
    w->join.highest_epoch = 41;
    join(w, 1, "b");
    assert_saw(w, "0:PREPARE epoch=42");
    assert_saw(w, "1:PREPARE epoch=42");
    ready(w, 1, 42);
    pass(w, 10000);
    assert_string_equal(job_state(w), "waiting"); /* a was ready for another number */
    ready(w, 0, 42);
    assert_saw(w, "0:START epoch=42 rank=0");
    world_free(w);
}

TEST(epoch, raised_number_gives_ready_nodes_a_second)
{
    /* The one member said READY first, and was stopped to go on alone. */
    for (int is_late = 0; is_late < 2; is_late++) {
        struct world *w = a_running_world(1, 4, 1);
        join(w, 1, "b");
        ready(w, 1, 2);
        pass(w, 3000);
        assert_saw(w, "0:STOP epoch=1 planned");
        w->join.highest_epoch = 9;
        join(w, 2, "c");
        assert_saw(w, "1:PREPARE epoch=10");
        exited_as(w, 0, (struct msg_exited){.epoch = 1, .stopped = true});
        ready(w, 0, 10);
        assert_string_equal(job_state(w), "preparing");
        if (is_late) {
            pass(w, 1000);
            assert_saw(w, "~epoch job=j node=- epoch=10 number=1 joined");
        } else {
            ready(w, 1, 10);
            assert_saw(w, "~epoch job=j node=- epoch=10 number=2 joined");
        }
        world_free(w);
    }
}

TEST(epoch, false_reports_cannot_exhaust_the_numbers)
{
    /* 2^53 - 1 was believed, and then every honest JOIN that reported the epoch after it was
     * refused. */
    struct world *w = a_world(1, 1);
    w->join.highest_epoch = (UINT64_C(1) << 52);
    assert_int_equal(try_join(w, 0, "a"), TFE_EINVAL);
    w->join.highest_epoch = MSG_LEAP;
    join(w, 0, "a");
    ready(w, 0, MSG_LEAP + 1);
    assert_saw(w, "START epoch=1048577 rank=0");
    cut(w, 0);
    w->join.highest_epoch = w->join.running_epoch = MSG_LEAP + 1;
    join(w, 1, "a");
    assert_saw(w, "1:WELCOME a");
    world_free(w);
}
