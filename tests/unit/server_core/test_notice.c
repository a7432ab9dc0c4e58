/* tests/unit/server_core/test_notice.c: machines that will go away leave by a planned switch
 * (design 4.9). */
#include "tests/unit/server_core/plan.h"

TEST(notice, log_contains_the_kind_of_notice)
{
    struct world *w = a_running_world(1, 2, 2);
    noticed(w, 1, NOTICE_MAINTENANCE, 60000);
    assert_saw(w, "~node_noticed job=j node=b epoch=1 number=60000 maintenance\n");
    const struct tfe_msg msg = {
        .type = MSG_NOTICE,
        .u.notice = {.kind = NOTICE_PREEMPT, .deadline_ms = 15000, .uncertain = true}};
    assert_int_equal(say(w, 1, &msg), 0);
    assert_saw(w, "~node_noticed job=j node=b epoch=1 number=15000 preempt uncertain\n");
    world_free(w);
}

TEST(notice, release_by_the_pool_is_no_preemption)
{
    static const enum tfe_cause causes[] = {CAUSE_DRAINED, CAUSE_SUSPENDED, CAUSE_REASSIGNED,
                                            CAUSE_RESIZED};
    for (size_t i = 0; i < 4; i++) {
        struct world *w = a_running_world(1, 2, 2);
        char words[64];
        const struct tfe_msg msg = {
            .type = MSG_NOTICE,
            .u.notice = {.kind = NOTICE_SIGNAL, .deadline_ms = 30000, .released_for = causes[i]}};
        assert_int_equal(say(w, 1, &msg), 0);
        assert_not_saw(w, "~node_noticed");
        pass(w, 3000);
        (void)snprintf(words, sizeof(words), "~switch job=j node=- epoch=1 number=0 %s\n",
                       msg_cause_name(causes[i]));
        assert_saw(w, words);
        world_free(w);
    }
}

TEST(notice, unanswered_save_switches_before_the_deadline)
{
    /* The margin: the standstill measured (2 s from STOP until the first step), and the stop grace
     * (5 s). */
    struct world *w = a_running_world(1, 3, 2);
    noticed(w, 1, NOTICE_PREEMPT, MSG_UNSET);
    pass(w, 2000);
    switch_over(w, 0, 2, 1);
    w->shows_ledger = true;
    pass(w, 2000);
    saved(w, 0, 2, 4, 1, 0);
    listens(w, 0, 2, 5);
    join(w, 2, "c");
    ready(w, 2, 3);
    pass(w, 3000);
    noticed(w, 0, NOTICE_PREEMPT, 60000);
    pass(w, 60000 - 7000 - 1);
    assert_saw(w, "SAVE epoch=2");
    assert_not_saw(w, "STOP");
    listens(w, 0, 2, 9); /* it trains on as if nothing had been said: what that costs is told */
    pass(w, 1);
    assert_saw(w, "0:STOP epoch=2 planned");
    trainers_stop(w, 0, 2);
    assert_saw(w, " saved=4 lost=5 over\n");
    world_free(w);
}

TEST(notice, notices_to_all_holders_of_the_state_request_a_checkpoint)
{
    struct world *w = a_running_world(1, 3, 3);
    keeps(w, 0, 1, 40, 0);
    keeps(w, 1, 1, 40, 0);
    noticed(w, 0, NOTICE_PREEMPT, 60000);
    pass(w, 2000);
    assert_saw(w, "2:SAVE epoch=1 number=1 within=52999 in_memory\n");
    noticed(w, 1, NOTICE_PREEMPT, 60000);
    assert_int_equal(times_seen(w, "SAVE epoch=1 number=2 within=52999\n"), 3);
    keeps(w, 1, 1, 42, 1);
    keeps(w, 0, 1, 42, 1);
    assert_not_saw(w, "STOP");
    saved(w, 0, 1, 42, 1, 2);
    assert_int_equal(times_seen(w, "STOP epoch=1 planned\n"), 3);
    world_free(w);
}

TEST(notice, notice_without_time_sends_stop_with_in_memory)
{
    struct world *w = a_running_world(1, 3, 3);
    keeps(w, 1, 1, 40, 0);
    noticed(w, 0, NOTICE_PREEMPT, 3000);
    assert_not_saw(w, "SAVE");
    assert_int_equal(times_seen(w, "STOP epoch=1 planned in_memory\n"), 3);
    world_free(w);

    w = a_running_world(1, 3, 3);
    keeps(w, 0, 1, 40, 0);
    noticed(w, 0, NOTICE_PREEMPT, 3000);
    assert_int_equal(times_seen(w, "STOP epoch=1 planned\n"), 3);
    world_free(w);
}

TEST(stop, unplanned_stop_has_no_in_memory)
{
    struct world *w = a_running_world(1, 3, 3);
    keeps(w, 1, 1, 40, 0);
    exited(w, 0, 1, 1);
    assert_saw(w, "1:STOP epoch=1\n");
    world_free(w);
}

TEST(notice, notice_to_the_node_with_the_snapshot_waits_for_another_snapshot)
{
    struct world *w = a_running_world(1, 4, 3);
    pass(w, 10000);
    keeps(w, 1, 1, 10, 0);
    keeps(w, 2, 1, 10, 0);
    pass(w, 10000);
    listens(w, 0, 1, 20);
    join(w, 3, "d");
    ready(w, 3, 2);
    assert_saw(w, "0:SAVE epoch=1 number=1 in_memory\n"); /* to grow */
    noticed(w, 0, NOTICE_PREEMPT, 60000);
    pass(w, 1000);
    keeps(w, 1, 1, 21, 1);
    noticed(w, 1, NOTICE_PREEMPT, 60000);
    pass(w, 1000);
    assert_not_saw(w, "STOP");
    keeps(w, 2, 1, 21, 1);
    assert_saw(w, "STOP epoch=1 planned in_memory\n");
    world_free(w);

    w = a_running_world(1, 2, 2);
    keeps(w, 1, 1, 10, 0);
    noticed(w, 0, NOTICE_PREEMPT, 60000);
    pass(w, 2000);
    assert_saw(w, "SAVE epoch=1 number=1 within=52999 in_memory\n");
    keeps(w, 1, 1, 10, MSG_NUMBER_MAX); /* that nobody has asked for */
    assert_not_saw(w, "STOP");
    world_free(w);
}

TEST(notice, save_of_a_script_that_did_not_listen_gives_no_duration)
{
    /* Its own next checkpoint came 20 s after the question: that is not what saving takes. */
    struct world *w = a_running_world(1, 3, 3);
    saved(w, 0, 1, 10, 1, 0);
    noticed(w, 1, NOTICE_PREEMPT, 120000);
    pass(w, 22000);
    saved(w, 0, 1, 20, 2, 1);
    assert_saw(w, "STOP epoch=1 planned");
    switch_over(w, 0, 3, 1);
    saved(w, 0, 2, 30, 1, 0);
    noticed(w, 2, NOTICE_PREEMPT, 20000);
    pass(w, 5000);
    assert_not_saw(w, "STOP");
    world_free(w);
}

TEST(notice, withdrawn_notice_with_a_remaining_hint_restores_the_node)
{
    /* A machine had said that it may have to go, then that it will, then that it will not: what its
     * agent tells last is the hint that still stands, and the node was left out for good. */
    struct world *w = a_running_world(1, 2, 2);
    noticed(w, 1, NOTICE_REBALANCE, MSG_UNSET);
    noticed(w, 1, NOTICE_SIGNAL, 30000);
    pass(w, 2000);
    switch_over(w, 0, 2, 1);
    noticed(w, 1, NOTICE_REBALANCE, MSG_UNSET);
    assert_saw(w, "~node_stays job=j node=b");
    assert_saw(w, "1:PREPARE epoch=3");
    ready(w, 1, 3);
    assert_int_equal(role_of(w, "b"), ROLE_SPARE);
    assert_saw(w, "0:STOP epoch=2 planned");
    world_free(w);
}

TEST(notice, goodbye_ends_the_planned_switch)
{
    struct world *w = a_running_world(1, 2, 2);
    noticed(w, 1, NOTICE_SIGNAL, 30000);
    goodbye(w, 1);
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 preempted");
    world_free(w);
}

static void interrupted(struct world *w, uint32_t session)
{
    const struct tfe_msg notice = {
        .type = MSG_NOTICE,
        .u.notice = {.kind = NOTICE_SIGNAL, .deadline_ms = 30000, .interrupted = true}};
    assert_int_equal(say(w, session, &notice), 0);
}

/* Ctrl-C is no preemption: not where it is planned for, not where it is said with the GOODBYE, not
 * where a peer's collective breaks by it. */
TEST(notice, signal_from_a_terminal_is_interrupted)
{
    struct world *w = a_running_world(1, 2, 2);
    interrupted(w, 1);
    pass(w, 2000);
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 interrupted");
    stopped_and_ready(w, 0, 1);
    trainers_stop(w, 1, 1);
    assert_saw(w, "0:START epoch=2 rank=0 world=1 nodes=1 cause=interrupted");
    world_free(w);

    w = a_running_world(1, 2, 2);
    const struct tfe_msg leave = {.type = MSG_GOODBYE, .u.goodbye.interrupted = true};
    assert_int_equal(say(w, 1, &leave), 0);
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 interrupted");
    world_free(w);

    w = a_running_world(1, 2, 2);
    interrupted(w, 1);
    exited(w, 0, 1, 1);
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 interrupted");
    world_free(w);
}

TEST(notice, cause_of_a_machine_precedes_that_of_a_terminal)
{
    for (uint32_t first = 1; first <= 2; first++) {
        struct world *w = a_running_world(1, 3, 3);
        if (first == 1) {
            interrupted(w, 1);
            noticed(w, 2, NOTICE_PREEMPT, 30000);
        } else {
            noticed(w, 2, NOTICE_PREEMPT, 30000);
            interrupted(w, 1);
        }
        pass(w, 2000);
        assert_saw(w, "~switch job=j node=- epoch=1 number=0 preempted");
        world_free(w);
    }
}

TEST(notice, restarted_server_obeys_an_earlier_notice)
{
    /* The agent repeats its notice to a server that knows nothing of it. */
    struct world *w = a_running_world(1, 2, 2);
    noticed(w, 1, NOTICE_PREEMPT, 30000);
    cut(w, 1);
    w->join.running_epoch = w->join.highest_epoch = 1;
    join(w, 3, "b");
    noticed(w, 3, NOTICE_PREEMPT, 29000);
    assert_not_saw(w, "~node_noticed"); /* nothing new */
    pass(w, 2000);
    assert_saw(w, "STOP epoch=1 planned");
    world_free(w);
}

TEST(hint, rank_0_goes_to_the_latest_deadline_if_all_have_hints)
{
    struct world *w = a_running_world(1, 3, 3);
    noticed(w, 0, NOTICE_REBALANCE, 100000);
    noticed(w, 1, NOTICE_REBALANCE, 900000);
    goodbye(w, 2);
    switch_over(w, 0, 2, 1);
    assert_saw(w, "1:START epoch=2 rank=0 world=2");
    assert_saw(w, "0:START epoch=2 rank=1 world=2");
    world_free(w);
}

TEST(notice, unknown_kind_is_refused)
{
    struct world *w = a_running_world(1, 2, 2);
    struct tfe_msg msg = {.type = MSG_NOTICE, .u.notice = {.deadline_ms = 1000}};
    assert_int_equal(say(w, 1, &msg), TFE_EINVAL);
    msg.u.notice.kind = NOTICE_OPERATOR + 1;
    assert_int_equal(say(w, 1, &msg), TFE_EINVAL);
    assert_int_equal(role_of(w, "b"), ROLE_MEMBER);
    world_free(w);
}
