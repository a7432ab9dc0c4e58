/* tests/unit/rdzv/test_loss.c: members that fail, vanish, leave, or come back. */
#include "tests/unit/rdzv/plan.h"
#include "tests/unit/rdzv/world.h"

TEST(lease, one_that_is_renewed_does_not_end)
{
    struct world *w = a_running_world(1, 2, 2);
    pass(w, 10000000);
    assert_string_equal(w->log, "");
    world_free(w);
}

TEST(lease, ends_a_held_ttl_after_the_last_renewal)
{
    struct world *w = a_running_world(1, 2, 2);
    assert_int_equal(say(w, 1, &(struct tfe_msg){.type = MSG_RENEW, .u.renew.number = 5}), 0);
    w->renews[1] = false;
    pass(w, TTL_HELD_MS - 1);
    assert_string_equal(w->log, "");
    pass(w, 1);
    assert_saw(w, "~node_lost job=j node=b");
    assert_saw(w, "1:LEASE_ENDED epoch=1\n1:CLOSE\n");
    assert_saw(w, "0:STOP epoch=1\n0:PREPARE epoch=2\n");
    stopped_and_ready(w, 0, 1);
    assert_saw(w, "0:START epoch=2 rank=0 world=1 nodes=1 cause=node_lost");
    world_free(w);
}

TEST(lease, renewed_counts_back_and_names_the_fence_of_the_epochs_size)
{
    struct world *w = a_running_world(1, 4, 1);
    w->quiet = false;
    assert_int_equal(say(w, 0, &(struct tfe_msg){.type = MSG_RENEW, .u.renew.number = 77}), 0);
    assert_string_equal(w->log, "0:RENEWED 77 ttl=10000 fence=120000\n");
    join(w, 1, "b");
    ready(w, 1, 2);
    stopped_and_ready(w, 0, 1);
    assert_int_equal(say(w, 0, &(struct tfe_msg){.type = MSG_RENEW, .u.renew.number = 78}), 0);
    assert_string_equal(w->log, "0:RENEWED 78 ttl=10000 fence=300000\n");
    world_free(w);
}

TEST(lease, a_fence_is_never_below_three_ttl)
{
    struct rdzv_config config = usual_config();
    config.fence_ms = 1000;
    struct world *w = world_new(&config, 1, 2);
    join(w, 0, "a");
    assert_saw(w, "fence=30000");
    world_free(w);
}

TEST(loss, a_peers_failure_after_a_lost_connection_is_the_nodes_and_costs_nothing)
{
    struct world *w = a_running_world(1, 3, 3);
    cut(w, 2);
    assert_saw(w, "~node_suspect job=j node=c");
    assert_not_saw(w, "STOP");
    exited(w, 0, 1, 1);
    assert_saw(w, "0:NOTED epoch=1");
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 node_lost");
    assert_not_saw(w, "restarts");
    ready(w, 0, 2);
    stopped_and_ready(w, 1, 1);
    assert_not_saw(w, "START"); /* the suspect has a second */
    pass(w, 999);
    assert_not_saw(w, "START");
    pass(w, 1);
    assert_saw(w, "~node_lost job=j node=c");
    assert_saw(w, "world=2 nodes=2 cause=node_lost");
    world_free(w);
}

TEST(loss, a_suspect_that_is_back_within_the_second_takes_part)
{
    struct world *w = a_running_world(1, 3, 3);
    cut(w, 2);
    exited(w, 0, 1, 1);
    ready(w, 0, 2);
    stopped_and_ready(w, 1, 1);
    pass(w, 500);
    w->join.running_epoch = w->join.highest_epoch = 1;
    join(w, 3, "c");
    assert_saw(w, "3:WELCOME c");
    assert_saw(w, "3:STOP epoch=1\n3:PREPARE epoch=2\n");
    pass(w, 2000); /* it is here: its trainers get their time */
    assert_not_saw(w, "START");
    stopped_and_ready(w, 3, 1);
    assert_saw(w, "3:START epoch=2 rank=2 world=3");
    world_free(w);
}

TEST(loss, a_member_that_reconnects_keeps_the_epoch)
{
    struct world *w = a_running_world(1, 2, 2);
    cut(w, 1);
    pass(w, 9000);
    w->join.running_epoch = w->join.highest_epoch = 1;
    join(w, 2, "b");
    assert_string_equal(w->log, "~node_back job=j node=b epoch=1 number=0 b\n"
                                "2:WELCOME b run=1 ttl=10000 fence=300000 renew=3333 spread=100 "
                                "grace=5000\n");
    pass(w, 1000000);
    assert_string_equal(w->log, "");
    world_free(w);
}

TEST(loss, a_member_whose_lease_ended_may_come_back_into_the_switch)
{
    struct world *w = a_running_world(1, 2, 2);
    cut(w, 1);
    pass(w, TTL_HELD_MS);
    assert_saw(w, "0:STOP epoch=1");
    w->join.running_epoch = w->join.highest_epoch = 1;
    join(w, 2, "b");
    assert_saw(w, "2:STOP epoch=1\n2:PREPARE epoch=2\n");
    stopped_and_ready(w, 0, 1);
    assert_not_saw(w, "START");
    stopped_and_ready(w, 2, 1);
    assert_saw(w, "2:START epoch=2 rank=1 world=2");
    world_free(w);
}

TEST(loss, a_lost_start_is_told_again)
{
    struct world *w = a_running_world(1, 2, 2);
    cut(w, 1);
    join(w, 2, "b"); /* has never heard of epoch 1 */
    assert_saw(w, "2:TABLE epoch=1 a1:1000 b1:1100");
    assert_saw(w, "2:START epoch=1 rank=1 world=2 nodes=2 cause=start");
    assert_not_saw(w, "PREPARE");
    world_free(w);
}

TEST(loss, a_start_that_is_lost_with_each_connection_is_not_held_against_its_node)
{
    struct world *w = a_running_world(1, 2, 2);
    for (uint32_t session = 1; session < 6; session++) {
        cut(w, session);
        join(w, session + 1, "b");
        assert_saw(w, "START epoch=1 rank=1 world=2 nodes=2 cause=start");
        assert_not_saw(w, "switch");
    }
    world_free(w);
}

TEST(loss, a_start_whose_table_did_not_match_is_told_again)
{
    struct world *w = a_running_world(1, 2, 2);
    ready(w, 1, 1);
    assert_saw(w, "1:TABLE epoch=1");
    assert_saw(w, "1:START epoch=1 rank=1");
    assert_not_saw(w, "0:");
    world_free(w);
}

TEST(loss, a_member_that_lost_its_trainers_says_so_by_its_join)
{
    struct world *w = a_running_world(1, 2, 2);
    cut(w, 1);
    w->join.highest_epoch = 1;
    join(w, 2, "b");
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 node_lost");
    assert_saw(w, "0:STOP epoch=1");
    world_free(w);
}

TEST(loss, an_exited_that_comes_with_the_join_counts)
{
    struct world *w = a_running_world(1, 2, 2);
    cut(w, 1);
    struct msg_exited last = {.epoch = 1, .code = 3, .tail = "boom"};
    w->join.highest_epoch = 1;
    w->join.exited = &last;
    join(w, 2, "b");
    assert_saw(w, "2:NOTED epoch=1");
    assert_saw(w, "~node_exited job=j node=b epoch=1 number=3 boom");
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 trainer_failed");
    world_free(w);
}

TEST(loss, an_exited_of_an_older_epoch_does_not_hide_that_nothing_runs)
{
    /* The JOIN named an old EXITED that had never been NOTED: the member was neither taken as
     * running nor as accounted for, and its peers waited for ever. */
    struct world *w = a_running_world(1, 2, 2);
    exited(w, 1, 1, 1);
    ready(w, 1, 2);
    stopped_and_ready(w, 0, 1);
    pass(w, 1000);
    assert_saw(w, "START epoch=2");
    cut(w, 1);
    struct msg_exited last = {.epoch = 1, .code = 1, .tail = ""};
    w->join.highest_epoch = 2;
    w->join.exited = &last;
    join(w, 2, "b");
    assert_saw(w, "2:NOTED epoch=1");
    assert_saw(w, "~switch job=j node=- epoch=2 number=0 node_lost");
    world_free(w);
}

TEST(loss, goodbye_is_a_drain_and_needs_no_wait)
{
    struct world *w = a_running_world(1, 2, 2);
    goodbye(w, 1);
    assert_saw(w, "~node_left job=j node=b");
    assert_saw(w, "1:CLOSE");
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 drained");
    stopped_and_ready(w, 0, 1);
    assert_saw(w, "0:START epoch=2 rank=0 world=1 nodes=1 cause=drained");
    world_free(w);
}

TEST(loss, below_min_the_job_waits_and_goes_on_without_a_gather_window)
{
    struct world *w = a_running_world(2, 3, 2);
    goodbye(w, 1);
    stopped_and_ready(w, 0, 1);
    assert_string_equal(job_state(w), "waiting");
    pass(w, 1000000);
    assert_string_equal(job_state(w), "waiting");
    join(w, 2, "c");
    ready(w, 2, 2);
    assert_saw(w, "0:START epoch=2 rank=0 world=2 nodes=2 cause=drained");
    world_free(w);
}

TEST(loss, a_spare_takes_the_place_in_the_same_switch)
{
    struct world *w = a_running_world(2, 2, 2);
    join(w, 2, "c");
    ready(w, 2, 2);
    exited(w, 1, 1, 9);
    goodbye(w, 1);
    stopped_and_ready(w, 0, 1);
    assert_saw(w, "2:START epoch=2 rank=1 world=2");
    world_free(w);
}

TEST(fence, a_one_node_epoch_of_which_nothing_is_known_is_waited_for)
{
    struct world *w = a_running_world(1, 1, 1);
    join(w, 1, "b");
    ready(w, 1, 2);
    int64_t joined =
        w->now; /* max is 1: the epoch began with a's JOIN, which is its last renewal */
    cut(w, 0);
    pass(w, TTL_HELD_MS);
    assert_saw(w, "~wait_fence");
    assert_not_saw(w, "START");
    pass_until(w, joined + FENCE_ONE_HELD_MS - 1);
    assert_not_saw(w, "START");
    pass(w, 1);
    assert_saw(w, "1:START epoch=2 rank=0 world=1 nodes=1 cause=node_lost");
    world_free(w);
}

TEST(fence, ends_with_the_word_of_the_node_that_comes_back)
{
    struct world *w = a_running_world(1, 1, 1);
    join(w, 1, "b");
    ready(w, 1, 2);
    cut(w, 0);
    pass(w, TTL_HELD_MS);
    assert_saw(w, "~wait_fence");
    w->join.running_epoch = w->join.highest_epoch = 1;
    join(w, 2, "a");
    assert_saw(w, "2:STOP epoch=1");
    assert_not_saw(w, "START");
    exited_as(w, 2, (struct msg_exited){.epoch = 1, .stopped = true});
    assert_not_saw(w, "START"); /* but for its READY, which is moments away */
    ready(w, 2, 2);
    assert_saw(w, "2:START epoch=2 rank=0");
    world_free(w);
}

TEST(fence, one_accounted_member_of_several_is_enough)
{
    struct world *w = a_running_world(1, 3, 3);
    cut(w, 1);
    cut(w, 2);
    pass(w, TTL_HELD_MS);
    stopped_and_ready(w, 0, 1);
    assert_not_saw(w, "wait_fence");
    assert_saw(w, "0:START epoch=2 rank=0 world=1");
    world_free(w);
}

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

TEST(fixed_ports, of_an_epoch_that_never_trained_are_free_when_all_members_are_accounted_for)
{
    struct world *w = a_world_of_fixed_ports(NULL);
    cut(w, 1);
    cut(w, 2);
    pass(w, TTL_HELD_MS);
    stopped_and_ready(w, 0, 1);
    assert_saw(w, "~wait_fence");
    pass(w, FENCE_HELD_MS - TTL_HELD_MS - 5000);
    assert_string_equal(job_state(w), "preparing");
    pass(w, 5000);
    assert_string_equal(job_state(w), "running");
    world_free(w);

    w = a_world_of_fixed_ports(NULL);
    goodbye(w, 1);
    cut(w, 2);
    pass(w, TTL_HELD_MS);
    stopped_and_ready(w, 0, 1);
    assert_saw(w, "~wait_fence"); /* two of three are not all */
    w->join.highest_epoch = 1;
    join(w, 3, "c"); /* … but its word that nothing runs is enough */
    ready(w, 3, 2);
    assert_string_equal(job_state(w), "running");
    world_free(w);
}

TEST(fixed_ports, of_an_epoch_that_has_trained_wait_for_nobody)
{
    for (int i = 0; i < 3; i++) {
        struct world *w = a_world_of_fixed_ports(NULL);
        switch (i) {
        case 0:
            tells(w, 0, (struct msg_progress){.epoch = 1, .has_step = true, .step = 1});
            break;
        case 1:
            tells(w, 0, (struct msg_progress){.epoch = 1, .saves = 1});
            break;
        default:
            pass(w, 60000); /* of a script that tells nothing */
        }
        cut(w, 1);
        cut(w, 2);
        pass(w, TTL_HELD_MS);
        stopped_and_ready(w, 0, 1);
        assert_not_saw(w, "wait_fence");
        assert_saw(w, "START epoch=2");
        world_free(w);
    }
}

TEST(fixed_ports, that_one_member_has_are_known_to_a_restarted_server)
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

TEST(fence, all_members_lost_is_waited_for_until_the_last_fence)
{
    struct world *w = a_running_world(1, 2, 2);
    join(w, 2, "c");
    ready(w, 2, 2);
    /* Both have been told the long fence by then. */
    pass_until(w, 1000000 + 4000);
    int64_t renewed = w->renew_at[1] - TTL_MS / 3;
    cut(w, 0);
    cut(w, 1);
    pass_until(w, renewed + FENCE_HELD_MS - 1);
    assert_saw(w, "~wait_fence");
    assert_not_saw(w, "START");
    pass(w, 1);
    assert_saw(w, "2:START epoch=2 rank=0");
    world_free(w);
}

TEST(fence, a_shorter_one_counts_only_once_the_longer_has_passed)
{
    /* When an epoch shrank to one node, the renewal that told it the short fence was believed to be
     * known at once. Its answer may be lost, and then the agent still keeps to the long one. */
    struct world *w = a_running_world(1, 2, 2);
    pass(w, 4000); /* a has been told 300 s */
    int64_t renewed = w->renew_at[0] - TTL_MS / 3;
    goodbye(w, 1);
    stopped_and_ready(w, 0, 1);
    assert_saw(w, "0:START epoch=2 rank=0 world=1");
    pass(w, 4000); /* and now 120 s */
    cut(w, 0);
    join(w, 2, "c");
    ready(w, 2, 3);
    pass_until(w, renewed + FENCE_HELD_MS - 1);
    assert_not_saw(w, "START");
    pass(w, 1);
    assert_saw(w, "2:START epoch=3 rank=0");
    world_free(w);
}

TEST(ports, are_fresh_while_stale_peers_may_still_speak_to_them)
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

TEST(ports, of_the_running_epoch_are_not_taken_for_one_of_the_same_parity)
{
    /* A joiner that had seen epoch 4 made 5 the next: odd, as the running 1. */
    struct world *w = a_running_world(1, 3, 1);
    w->join.highest_epoch = 4;
    join(w, 1, "b");
    assert_saw(w, "1:PREPARE epoch=5 fresh");
    ready(w, 1, 5);
    pass(w, 3000);
    assert_saw(w, "0:STOP epoch=1 planned\n0:PREPARE epoch=5 fresh");
    world_free(w);
}

TEST(epoch, numbers_rise_above_what_any_joiner_has_seen)
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

TEST(epoch, a_number_that_is_raised_in_a_switch_gives_who_was_ready_a_second)
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

TEST(epoch, a_ready_for_an_overtaken_number_is_ignored)
{
    struct world *w = a_world(1, 1);
    w->join.highest_epoch = 5;
    join(w, 0, "a");
    ready(w, 0, 1);
    assert_string_equal(w->log, "");
    ready(w, 0, 6);
    assert_saw(w, "START epoch=6");
    world_free(w);
}

TEST(epoch, a_liar_cannot_use_up_the_numbers)
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

TEST(prepare, a_member_that_does_not_get_ready_is_left_out_and_named)
{
    struct world *w = a_running_world(1, 3, 3);
    exited(w, 0, 1, 1);
    int64_t began = w->now;
    ready(w, 0, 2);
    stopped_and_ready(w, 1, 1);
    pass_until(w, began + 34999); /* stop-grace and 30 s */
    assert_not_saw(w, "START");
    pass(w, 1);
    assert_saw(w, "~node_lost job=j node=c epoch=1 number=0 not ready for the switch in time, left "
                  "out");
    assert_saw(w, "world=2 nodes=2 cause=trainer_failed");
    assert_saw(w, "2:PREPARE epoch=3");
    /* Should it get over it, it is a newcomer. */
    stopped_and_ready(w, 2, 1);
    assert_not_saw(w, "START"); /* READY for 2 is late */
    ready(w, 2, 3);
    assert_saw(w, "~switch job=j node=- epoch=2 number=0 joined");
    world_free(w);
}

TEST(prepare, nobody_else_may_hold_up_a_switch)
{
    struct world *w = a_running_world(1, 4, 2);
    join(w, 2, "c"); /* never gets ready */
    exited(w, 0, 1, 1);
    stopped_and_ready(w, 1, 1);
    ready(w, 0, 2);
    pass(w, 1000);
    assert_saw(w, "START epoch=2 rank=1");
    world_free(w);
}

TEST(session, a_newer_one_replaces_the_older_whose_end_is_no_evidence)
{
    struct world *w = a_running_world(1, 2, 2);
    w->join.running_epoch = w->join.highest_epoch = 1;
    join(w, 2, "b");
    assert_saw(w, "1:REFUSED node_replaced");
    assert_saw(w, "1:CLOSE");
    assert_not_saw(w, "0:");
    cut(w, 1);
    assert_string_equal(w->log, "");
    assert_int_equal(say(w, 1, &(struct tfe_msg){.type = MSG_GOODBYE}), TFE_ESTATE);
    pass(w, 100000);
    assert_string_equal(w->log, "");
    world_free(w);
}

TEST(session, a_join_said_twice_changes_nothing)
{
    struct world *w = a_world(1, 2);
    join(w, 0, "a");
    join(w, 0, "a");
    assert_saw(w, "0:WELCOME a");
    assert_saw(w, "0:PREPARE epoch=1");
    ready(w, 0, 1);
    pass(w, 3000);
    assert_saw(w, "0:START epoch=1 rank=0 world=1");
    w->join.running_epoch = w->join.highest_epoch = 1;
    join(w, 0, "a");
    assert_int_equal(times_seen(w, "\n"), 1);
    assert_saw(w, "0:WELCOME a");
    world_free(w);
}

TEST(session, who_joins_once_more_is_ready_once_it_says_so_once_more)
{
    struct world *w = a_world(2, 2);
    join(w, 0, "a");
    ready(w, 0, 1);
    join(w, 0, "a"); /* what it held then it may have let go */
    join(w, 1, "b");
    ready(w, 1, 1);
    assert_not_saw(w, "START");
    ready(w, 0, 1);
    assert_saw(w, "START epoch=1 rank=0");
    world_free(w);
}

TEST(session, a_newcomer_that_still_runs_something_is_told_to_stop)
{
    struct world *w = a_running_world(1, 4, 1);
    struct msg_exited last = {.epoch = 2, .tail = ""};
    w->join.running_epoch = w->join.highest_epoch = 3;
    w->join.exited = &last;
    join(w, 1, "b");
    assert_saw(w, "1:STOP epoch=3\n1:NOTED epoch=2\n");
    assert_saw(w, "1:PREPARE epoch=4");
    world_free(w);
}

TEST(ports, that_stuck_trainers_may_speak_to_are_not_used_while_their_agent_renews)
{
    /* Their fence moves on with its renewals, long after they were left out. */
    struct world *w = a_running_world(1, 4, 3);
    exited(w, 0, 1, 1);
    ready(w, 0, 2);
    stopped_and_ready(w, 1, 1);
    pass(w, 36000); /* c is never ready, and left out */
    assert_saw(w, "START epoch=2");
    pass(w, 2 * FENCE_HELD_MS);
    exited(w, 1, 2, 1);
    assert_saw(w, "0:PREPARE epoch=3 fresh");
    ready(w, 2, 3); /* now it has ended them */
    ready(w, 1, 3);
    stopped_and_ready(w, 0, 2);
    pass(w, 2 * FENCE_HELD_MS);
    exited(w, 1, 3, 1);
    assert_not_saw(w, "fresh");
    ready(w, 1, 4);
    ready(w, 2, 4);
    stopped_and_ready(w, 0, 3);
    pass(w, 2 * FENCE_HELD_MS);
    exited(w, 1, 4, 1);
    assert_saw(w, "0:PREPARE epoch=5");
    assert_not_saw(w, "fresh"); /* nor is the set that its trainers had used */
    world_free(w);
}
