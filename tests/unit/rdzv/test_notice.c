/* tests/unit/rdzv/test_notice.c: machines that will go away leave by a plan (DESIGN 4.9). */
#include "tests/unit/rdzv/plan.h"

TEST(notice, without_a_deadline_leaves_after_2_s)
{
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
    struct world *w = a_running_world(1, 2, 2);
    noticed(w, 1, NOTICE_PREEMPT, 120000);
    pass(w, 2000);
    assert_saw(w, "0:STOP epoch=1 planned");
    world_free(w);
}

TEST(notice, several_within_2_s_are_one_change)
{
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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

TEST(notice, waits_for_a_checkpoint_that_can_only_be_seen)
{
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
    struct world *w = a_running_world(1, 2, 2);
    noticed(w, 1, NOTICE_PREEMPT, 1000);
    assert_saw(w, "STOP epoch=1 planned");
    world_free(w);
}

TEST(notice, that_is_withdrawn_changes_nothing)
{
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
    struct world *w = a_running_world(1, 2, 2);
    noticed(w, 1, NOTICE_SIGNAL, 30000);
    goodbye(w, 1);
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 preempted");
    world_free(w);
}

TEST(notice, of_a_spare_is_no_reason_to_switch_and_keeps_it_out)
{
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    assert_int_equal(role_of(w, "a"), ROLE_JOINING);
    world_free(w);
}

TEST(hint, that_is_withdrawn_keeps_its_place)
{
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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

int main(void)
{
    const struct CMUnitTest stories[] = {
        STORY(notice, without_a_deadline_leaves_after_2_s),
        STORY(notice, says_in_the_log_how_sure_it_is),
        STORY(notice, with_a_deadline_leaves_as_soon_where_there_is_nothing_to_wait_for),
        STORY(notice, several_within_2_s_are_one_change),
        STORY(notice, asks_the_scripts_and_switches_at_the_checkpoint_that_answers),
        STORY(notice, of_scripts_that_do_not_answer_switches_in_time_before_the_deadline),
        STORY(notice, learns_from_saves_that_take_longer_than_the_stop_grace),
        STORY(notice, waits_for_a_checkpoint_that_can_only_be_seen),
        STORY(notice, learns_nothing_from_saves_of_scripts_that_may_not_have_heard),
        STORY(notice, with_less_time_than_a_switch_takes_does_not_wait_for_others),
        STORY(notice, that_is_withdrawn_changes_nothing),
        STORY(notice, that_is_withdrawn_after_the_switch_brings_the_node_back),
        STORY(notice, of_which_a_hint_is_left_brings_the_node_back),
        STORY(notice, below_min_saves_and_then_waits_without_trainers),
        STORY(notice, of_all_nodes_saves_and_then_waits),
        STORY(notice, costs_no_budget_even_if_the_trainers_go_first),
        STORY(notice, goes_with_a_loss_that_comes_while_it_is_pending),
        STORY(notice, a_goodbye_needs_no_plan),
        STORY(notice, of_a_spare_is_no_reason_to_switch_and_keeps_it_out),
        STORY(notice, is_followed_by_a_server_that_comes_in_between),
        STORY(hint, moves_nobody_without_a_spare_and_is_no_leaving),
        STORY(hint, gives_its_place_to_a_spare),
        STORY(hint, that_is_withdrawn_keeps_its_place),
        STORY(hint, index_0_goes_to_who_stays_longest_if_all_have_one),
        STORY(drain, of_scripts_that_listen_waits_30_s_for_the_checkpoint),
        STORY(drain, with_a_time_of_its_own_waits_for_that),
        STORY(drain, is_let_go_when_the_epoch_ends_for_another_reason),
    };
    return cmocka_run_group_tests(stories, NULL, NULL);
}
