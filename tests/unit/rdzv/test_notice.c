/* tests/unit/rdzv/test_notice.c: machines that will go away leave by a plan (design 4.9). */
#include "tests/unit/rdzv/plan.h"

TEST(notice, without_a_deadline_leaves_after_2_s)
{
    struct world *w = a_running_world(1, 3, 3);
    noticed(w, 1, NOTICE_PREEMPT, MSG_UNSET);
    assert_saw(w, "~node_noticed job=j node=b epoch=1 number=0 preempt");
    assert_int_equal(role_of(w, "b"), ROLE_LEAVING);
    pass(w, 1999);
    assert_not_saw(w, "STOP");
    pass(w, 1);
    assert_saw(w, "0:STOP epoch=1 planned");
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 preempted");
    switch_over(w, 0, 3, 1);
    assert_saw(w, "0:START epoch=2 rank=0 world=2 nodes=2 cause=preempted");
    assert_not_saw(w, "1:START");
    assert_not_saw(w, "FINISH"); /* it stays, as nobody's member */
    assert_int_equal(role_of(w, "b"), ROLE_LEAVING);
    world_free(w);
}

TEST(notice, says_in_the_log_how_sure_it_is)
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

TEST(notice, with_a_deadline_leaves_as_soon_where_there_is_nothing_to_wait_for)
{
    struct world *w = a_running_world(1, 2, 2);
    noticed(w, 1, NOTICE_PREEMPT, 120000);
    pass(w, 2000);
    assert_saw(w, "0:STOP epoch=1 planned");
    world_free(w);
}

TEST(notice, several_within_2_s_are_one_change)
{
    struct world *w = a_running_world(1, 4, 4);
    noticed(w, 1, NOTICE_PREEMPT, 120000);
    pass(w, 1900);
    noticed(w, 2, NOTICE_MAINTENANCE, 900000);
    pass(w, 100);
    assert_saw(w, "STOP epoch=1 planned");
    switch_over(w, 0, 4, 1);
    assert_saw(w, "0:START epoch=2 rank=0 world=2");
    assert_saw(w, "3:START epoch=2 rank=1 world=2");
    world_free(w);
}

TEST(notice, asks_the_scripts_and_switches_at_the_checkpoint_that_answers)
{
    struct world *w = a_running_world(1, 3, 3);
    for (uint32_t session = 0; session < 3; session++) {
        listens(w, session, 1, 40);
    }
    noticed(w, 0, NOTICE_PREEMPT, 30000);
    assert_not_saw(w, "SAVE");
    pass(w, 2000);
    assert_int_equal(times_seen(w, "SAVE epoch=1 number=1 within="), 3);
    assert_not_saw(w, "STOP");
    saved(w, 1, 1, 41, 1, 0); /* begun before */
    assert_not_saw(w, "STOP");
    saved(w, 1, 1, 42, 2, 1);
    assert_saw(w, "STOP epoch=1 planned");
    switch_over(w, 0, 3, 1);
    assert_saw(w, "1:START epoch=2 rank=0 world=2"); /* index 0 has gone from the leaver */
    world_free(w);
}

TEST(notice, of_scripts_that_do_not_answer_switches_in_time_before_the_deadline)
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

TEST(notice, learns_from_saves_that_take_longer_than_the_stop_grace)
{
    struct world *w = a_running_world(1, 3, 3);
    tells(w, 0, (struct msg_progress){.epoch = 1, .has_step = true, .step = 1, .listens = true});
    noticed(w, 1, NOTICE_PREEMPT, 600000);
    pass(w, 2000);
    pass(w, 20000);
    saved(w, 0, 1, 2, 1, 1); /* took 20 s; the first start stood for 0 s, counted as 1 ms */
    switch_over(w, 0, 3, 1);
    listens(w, 0, 2, 3);
    noticed(w, 2, NOTICE_PREEMPT, 60000);
    pass(w, 39998);
    assert_not_saw(w, "STOP");
    pass(w, 2);
    assert_saw(w, "STOP epoch=2 planned");
    world_free(w);
}

TEST(notice, waits_for_no_disk_where_a_member_that_stays_keeps_the_state)
{
    struct world *w = a_running_world(1, 3, 3);
    keeps(w, 0, 1, 40, 0);
    keeps(w, 1, 1, 40, 0);
    noticed(w, 0, NOTICE_PREEMPT, 60000);
    pass(w, 2000);
    assert_int_equal(times_seen(w, "SAVE epoch=1 number=1 within=52999 in_memory\n"), 3);
    keeps(w, 1, 1, 41, 0); /* not for this */
    keeps(w, 0, 1, 42, 1); /* that goes with it */
    assert_not_saw(w, "STOP");
    pass(w, 20000);
    keeps(w, 1, 1, 42, 1);
    assert_saw(w, "~saved job=j node=- epoch=1 number=20000");
    assert_int_equal(times_seen(w, "STOP epoch=1 planned in_memory\n"), 3);
    /* How long the disk takes is as little known as before: the stop grace has to do. */
    switch_over(w, 0, 3, 1);
    listens(w, 1, 2, 43);
    noticed(w, 1, NOTICE_PREEMPT, 60000);
    pass(w, 2000);
    assert_saw(w, "1:SAVE epoch=2 number=2 within=");
    pass(w, 60000 - 2000 - 5001 - 1);
    assert_not_saw(w, "STOP");
    pass(w, 1);
    assert_saw(w, "STOP epoch=2 planned");
    world_free(w);
}

TEST(notice, takes_the_disk_s_answer_too_from_a_script_that_could_not_keep_its_state)
{
    struct world *w = a_running_world(1, 3, 3);
    keeps(w, 1, 1, 40, 0);
    noticed(w, 0, NOTICE_PREEMPT, 60000);
    pass(w, 2000);
    assert_saw(w, "0:SAVE epoch=1 number=1 within=52999 in_memory\n");
    saved(w, 0, 1, 41, 1, 1);
    assert_saw(w, "STOP epoch=1 planned");
    world_free(w);
}

TEST(notice, waits_for_the_disk_where_only_who_leaves_keeps_the_state)
{
    struct world *w = a_running_world(1, 3, 3);
    keeps(w, 0, 1, 40, 0);
    listens(w, 1, 1, 40);
    tells(w, 2, /* of an epoch before this one */
          (struct msg_progress){
              .epoch = 1, .listens = true, .memory = {.bytes = 1, .has_kept = true, .step = 40}});
    noticed(w, 0, NOTICE_PREEMPT, 60000);
    pass(w, 2000);
    assert_int_equal(times_seen(w, "SAVE epoch=1 number=1 within=52999\n"), 3);
    keeps(w, 1, 1, 41, 1); /* nobody has said that this is enough */
    assert_not_saw(w, "STOP");
    saved(w, 0, 1, 41, 1, 1);
    assert_saw(w, "STOP epoch=1 planned");
    world_free(w);
}

TEST(notice, waits_for_the_disk_where_the_job_does_not_go_on_at_once)
{
    struct world *w = a_running_world(2, 3, 2);
    keeps(w, 0, 1, 40, 0);
    keeps(w, 1, 1, 40, 0);
    noticed(w, 0, NOTICE_PREEMPT, 60000);
    pass(w, 2000);
    assert_int_equal(times_seen(w, "SAVE epoch=1 number=1 within=52999\n"), 2);
    world_free(w);

    w = a_running_world(2, 2, 2); /* but somebody takes its place */
    keeps(w, 0, 1, 40, 0);
    keeps(w, 1, 1, 40, 0);
    join(w, 2, "c");
    ready(w, 2, 2);
    noticed(w, 0, NOTICE_PREEMPT, 60000);
    pass(w, 2000);
    assert_int_equal(times_seen(w, "SAVE epoch=1 number=1 within=52999 in_memory\n"), 2);
    world_free(w);
}

TEST(notice, to_all_that_keep_the_state_asks_for_the_disk_after_all)
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

TEST(notice, with_no_time_to_ask_says_with_the_stop_that_memory_is_enough)
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

TEST(stop, that_was_not_planned_says_nothing_of_memory)
{
    struct world *w = a_running_world(1, 3, 3);
    keeps(w, 1, 1, 40, 0);
    exited(w, 0, 1, 1);
    assert_saw(w, "1:STOP epoch=1\n");
    world_free(w);
}

TEST(notice, to_who_has_answered_from_memory_waits_for_another_one_that_keeps)
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

TEST(notice, waits_for_a_checkpoint_that_can_only_be_seen)
{
    struct world *w = a_running_world(1, 2, 2);
    saved(w, 0, 1, 10, 1, 0);
    noticed(w, 1, NOTICE_PREEMPT, 120000);
    pass(w, 2000);
    assert_int_equal(times_seen(w, "SAVE epoch=1 number=1 within="),
                     2); /* the preempt file may be watched */
    pass(w, 28000);
    assert_not_saw(w, "STOP");
    saved(w, 0, 1, 20, 2, 0);
    assert_saw(w, "STOP epoch=1 planned");
    world_free(w);
}

TEST(notice, learns_nothing_from_saves_of_scripts_that_may_not_have_heard)
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

TEST(notice, with_less_time_than_a_switch_takes_does_not_wait_for_others)
{
    struct world *w = a_running_world(1, 2, 2);
    noticed(w, 1, NOTICE_PREEMPT, 1000);
    assert_saw(w, "STOP epoch=1 planned");
    world_free(w);
}

TEST(notice, that_is_withdrawn_changes_nothing)
{
    struct world *w = a_running_world(1, 2, 2);
    noticed(w, 1, NOTICE_PREEMPT, 120000);
    pass(w, 1000);
    notice_withdrawn(w, 1, NOTICE_PREEMPT);
    assert_saw(w, "~node_stays job=j node=b");
    assert_int_equal(role_of(w, "b"), ROLE_MEMBER);
    pass(w, 200000);
    assert_string_equal(w->log, "");
    world_free(w);
}

TEST(notice, that_is_withdrawn_after_the_switch_brings_the_node_back)
{
    struct world *w = a_running_world(1, 2, 2);
    noticed(w, 1, NOTICE_PREEMPT, MSG_UNSET);
    pass(w, 2000);
    switch_over(w, 0, 2, 1);
    pass(w, 60000);
    notice_withdrawn(w, 1, NOTICE_PREEMPT);
    assert_saw(w, "1:PREPARE epoch=3");
    ready(w, 1, 3);
    assert_saw(w, "0:STOP epoch=2 planned");
    world_free(w);
}

TEST(notice, of_which_a_hint_is_left_brings_the_node_back)
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

TEST(notice, below_min_saves_and_then_waits_without_trainers)
{
    struct world *w = a_running_world(2, 2, 2);
    listens(w, 0, 1, 10);
    noticed(w, 1, NOTICE_PREEMPT, 120000);
    pass(w, 2000);
    assert_saw(w, "0:SAVE epoch=1 number=1");
    saved(w, 0, 1, 11, 1, 1);
    assert_saw(w, "STOP epoch=1 planned");
    switch_over(w, 0, 2, 1);
    assert_string_equal(job_state(w), "waiting");
    join(w, 2, "c");
    ready(w, 2, 2);
    assert_saw(w, "0:START epoch=2 rank=0 world=2");
    world_free(w);
}

TEST(notice, of_all_nodes_saves_and_then_waits)
{
    struct world *w = a_running_world(1, 2, 2);
    listens(w, 0, 1, 10);
    noticed(w, 0, NOTICE_PREEMPT, 30000);
    noticed(w, 1, NOTICE_PREEMPT, 30000);
    pass(w, 2000);
    saved(w, 0, 1, 11, 1, 1);
    switch_over(w, 0, 2, 1);
    assert_string_equal(job_state(w), "waiting");
    world_free(w);
}

TEST(notice, costs_no_budget_even_if_the_trainers_go_first)
{
    struct world *w = a_running_world(1, 2, 2);
    noticed(w, 1, NOTICE_PREEMPT, 30000);
    exited(w, 0, 1, 1); /* a survivor, whose collective broke */
    assert_saw(w, "~end job=j node=a epoch=1 number=0 preempted");
    assert_not_saw(w, "~restarts");
    exited(w, 1, 1, 1);
    assert_not_saw(w, "~restarts");
    ready(w, 0, 2);
    assert_saw(w, "0:START epoch=2 rank=0 world=1 nodes=1 cause=preempted");
    world_free(w);
}

TEST(notice, goes_with_a_loss_that_comes_while_it_is_pending)
{
    struct world *w = a_running_world(1, 4, 4);
    listens(w, 0, 1, 10);
    noticed(w, 1, NOTICE_PREEMPT, 120000);
    pass(w, 2000);
    goodbye(w, 3);
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 drained");
    assert_saw(w, "0:STOP epoch=1\n"); /* broken: no grace for anybody */
    stopped_and_ready(w, 0, 1);
    stopped_and_ready(w, 1, 1);
    stopped_and_ready(w, 2, 1);
    assert_saw(w, "0:START epoch=2 rank=0 world=2");
    assert_not_saw(w, "1:START");
    world_free(w);
}

TEST(notice, a_goodbye_needs_no_plan)
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
TEST(notice, of_a_person_at_a_terminal_is_an_interruption)
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

TEST(notice, of_a_machine_goes_before_that_of_a_person)
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

TEST(notice, of_a_spare_is_no_reason_to_switch_and_keeps_it_out)
{
    struct world *w = a_running_world(1, 2, 2);
    join(w, 2, "c");
    ready(w, 2, 2);
    noticed(w, 2, NOTICE_PREEMPT, 120000);
    pass(w, 10000);
    assert_not_saw(w, "STOP");
    goodbye(w, 1);
    stopped_and_ready(w, 0, 1);
    assert_saw(w, "0:START epoch=2 rank=0 world=1");
    world_free(w);
}

TEST(notice, is_followed_by_a_server_that_comes_in_between)
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

TEST(hint, moves_nobody_without_a_spare_and_is_no_leaving)
{
    struct world *w = a_running_world(1, 2, 2);
    noticed(w, 0, NOTICE_REBALANCE, MSG_UNSET);
    assert_int_equal(role_of(w, "a"), ROLE_MEMBER);
    pass(w, 100000);
    assert_not_saw(w, "STOP");
    goodbye(w, 1);
    stopped_and_ready(w, 0, 1);
    assert_saw(w, "0:START epoch=2 rank=0 world=1");
    world_free(w);
}

TEST(hint, gives_its_place_to_a_spare)
{
    struct world *w = a_running_world(2, 2, 2);
    join(w, 2, "c");
    ready(w, 2, 2);
    assert_not_saw(w, "STOP"); /* the job is full */
    noticed(w, 0, NOTICE_REBALANCE, MSG_UNSET);
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 preempted");
    switch_over(w, 0, 2, 1);
    assert_saw(w, "1:START epoch=2 rank=0 world=2");
    assert_saw(w, "2:START epoch=2 rank=1 world=2");
    assert_not_saw(w, "0:START");
    assert_int_equal(role_of(w, "a"), ROLE_PREPARING);
    world_free(w);
}

TEST(hint, that_is_withdrawn_keeps_its_place)
{
    struct world *w = a_running_world(2, 2, 2);
    noticed(w, 0, NOTICE_REBALANCE, MSG_UNSET);
    notice_withdrawn(w, 0, NOTICE_REBALANCE);
    join(w, 2, "c");
    ready(w, 2, 2);
    pass(w, 10000);
    assert_not_saw(w, "STOP");
    world_free(w);
}

TEST(hint, index_0_goes_to_who_stays_longest_if_all_have_one)
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

TEST(drain, of_scripts_that_listen_waits_30_s_for_the_checkpoint)
{
    struct world *w = a_running_world(1, 2, 2);
    listens(w, 0, 1, 10);
    drain(w, "b");
    pass(w, 29999);
    assert_saw(w, "0:SAVE epoch=1 number=1 within=28000");
    assert_not_saw(w, "STOP");
    pass(w, 1);
    assert_saw(w, "0:STOP epoch=1 planned");
    world_free(w);
}

TEST(drain, with_a_time_of_its_own_waits_for_that)
{
    struct world *w = a_running_world(1, 2, 2);
    listens(w, 0, 1, 10);
    assert_int_equal(step(w, &(struct rdzv_event){.type = RDZV_DRAIN,
                                                  .now = {w->now},
                                                  .job = "j",
                                                  .node = "b",
                                                  .has_within = true,
                                                  .within_ms = 120000}),
                     0);
    pass(w, 110000);
    assert_not_saw(w, "STOP");
    pass(w, 10000);
    assert_saw(w, "0:STOP epoch=1 planned");
    stopped_and_ready(w, 0, 1);
    trainers_stop(w, 1, 1);
    assert_saw(w, "cause=drained");
    world_free(w);
}

TEST(drain, is_let_go_when_the_epoch_ends_for_another_reason)
{
    struct world *w = a_running_world(1, 3, 3);
    listens(w, 0, 1, 10);
    drain(w, "b");
    exited(w, 2, 1, 1);
    assert_saw(w, "STOP epoch=1\n");
    switch_over(w, 0, 2, 1);
    ready(w, 2, 2);
    assert_saw(w, "1:FINISH drained");
    world_free(w);
}

TEST(notice, of_no_kind_is_a_mistake)
{
    struct world *w = a_running_world(1, 2, 2);
    struct tfe_msg msg = {.type = MSG_NOTICE, .u.notice = {.deadline_ms = 1000}};
    assert_int_equal(say(w, 1, &msg), TFE_EINVAL);
    msg.u.notice.kind = NOTICE_OPERATOR + 1;
    assert_int_equal(say(w, 1, &msg), TFE_EINVAL);
    assert_int_equal(role_of(w, "b"), ROLE_MEMBER);
    world_free(w);
}
