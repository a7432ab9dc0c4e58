/* tests/unit/server_core/test_evaluator.c: which node replaces an evaluator whose machine will go
 * away, or may, and when. */
#include "tests/unit/server_core/operator.h"
#include "tests/unit/server_core/plan.h"
#include "tests/unit/server_core/served_fixture.h"

static void comes(struct world *w, uint32_t session, const char *node, uint64_t epoch)
{
    join(w, session, node);
    ready(w, session, epoch);
}

static void evaluator_stops(struct world *w)
{
    exited_as(w, 3, (struct msg_exited){.epoch = 2, .stopped = true});
}

/* … and one that comes later does so, and works nowhere else. */
TEST(evaluator, notice_waits_for_an_idle_spare)
{
    struct world *w = a_served_job(1, 2);
    w->join.spec.evaluator = true;
    w->join.spec.grow_now = true;
    w->join.spec.gather_ms = 0;
    come(w, 4);
    ready(w, 3, 2);
    all_listen(w, 3, 1);
    progress(w, 0, 1, 1);
    noticed(w, 3, NOTICE_PREEMPT, 120000);
    assert_not_saw(w, "STOP");
    pass(w, 1000);
    comes(w, 4, "e", 3);
    assert_saw(w, "3:STOP epoch=2 planned\n");
    assert_not_saw(w, "~switch");
    evaluator_stops(w);
    assert_saw(w, "4:START epoch=3 rank=3 world=3");
    world_free(w);
}

TEST(evaluator, notice_without_spare_stops_it_at_the_time_of_a_worker)
{
    struct world *w = an_evaluated_job();
    noticed(w, 3, NOTICE_PREEMPT, 60000);
    pass(w, 60000 - 5000 - 2000 - 1); /* the stop grace, and a margin */
    assert_not_saw(w, "STOP");
    pass(w, 1);
    assert_saw(w, "3:STOP epoch=2 planned\n");
    evaluator_stops(w);
    assert_not_saw(w, "RESTART");
    pass(w, 10000);
    assert_not_saw(w, "START");
    notice_withdrawn(w, 3, NOTICE_PREEMPT);
    ready(w, 3, 3);
    assert_saw(w, "3:START epoch=3 rank=3 world=3"); /* it lives */
    world_free(w);
}

/* It was begun again under the notice. */
TEST(evaluator, end_under_notice_does_not_restart_it_there)
{
    struct world *w = an_evaluated_job();
    noticed(w, 3, NOTICE_PREEMPT, 120000);
    exited_as(w, 3, (struct msg_exited){.epoch = 2, .code = 1});
    pass(w, 60000);
    assert_not_saw(w, "START");
    comes(w, 4, "e", 3);
    assert_saw(w, "4:START epoch=3 rank=3 world=3");
    world_free(w);

    w = an_evaluated_job();
    exited_as(w, 3, (struct msg_exited){.epoch = 2, .code = 1});
    noticed(w, 3, NOTICE_PREEMPT, 120000); /* before its pause is over */
    pass(w, 60000);
    assert_not_saw(w, "START");
    world_free(w);
}

/* They took turns, for ever. */
TEST(evaluator, spare_with_a_hint_does_not_replace_it)
{
    struct world *w = an_evaluated_job();
    comes(w, 4, "e", 3);
    noticed(w, 4, NOTICE_REBALANCE, MSG_UNSET);
    noticed(w, 3, NOTICE_REBALANCE, MSG_UNSET);
    pass(w, 60000);
    assert_not_saw(w, "STOP");
    comes(w, 5, "f", 3);
    assert_saw(w, "3:STOP epoch=2 planned\n");
    evaluator_stops(w);
    assert_saw(w, "5:START epoch=3 rank=3 world=3"); /* not e */
    world_free(w);
}

/* The chief's and the ps's next places are on who is longest there. */
TEST(evaluator, newest_spare_replaces_it)
{
    struct world *w = an_evaluated_job();
    comes(w, 4, "e", 3);
    pass(w, 1000);
    comes(w, 5, "f", 3);
    noticed(w, 3, NOTICE_PREEMPT, 120000);
    evaluator_stops(w);
    assert_saw(w, "5:START epoch=3 rank=3 world=3");
    world_free(w);
}

TEST(evaluator, stop_is_resent_after_reconnect)
{
    struct world *w = an_evaluated_job();
    drain(w, "d");
    assert_saw(w, "3:STOP epoch=2 planned\n");
    cut(w, 3);
    w->join.running_epoch = w->join.highest_epoch = 2;
    w->join.evaluates = true;
    join(w, 3, "d");
    assert_saw(w, "3:STOP epoch=2 planned\n");
    assert_not_saw(w, "3:FINISH");
    evaluator_stops(w);
    assert_saw(w, "3:FINISH drained");
    world_free(w);
}

/* Nothing is said to who is not there; and what has never begun there does not any more. */
TEST(evaluator, stop_while_disconnected_is_sent_after_reconnect)
{
    struct world *w = an_evaluated_job();
    noticed(w, 3, NOTICE_PREEMPT, 9000);
    cut(w, 3);
    pass(w, 5000);
    assert_not_saw(w, "STOP");
    progress(w, 0, 1, 2);
    assert_not_saw(w, "~evaluator");
    w->join.running_epoch = w->join.highest_epoch = 2;
    w->join.evaluates = true;
    join(w, 3, "d");
    assert_saw(w, "3:STOP epoch=2 planned\n");
    world_free(w);

    w = an_evaluated_job();
    noticed(w, 3, NOTICE_PREEMPT, 60000);
    cut(w, 3);
    w->join.highest_epoch = 1;
    join(w, 3, "d"); /* it was not told of its START */
    assert_not_saw(w, "START");
    assert_saw(w, "3:PREPARE");
    world_free(w);
}

TEST(evaluator, notice_after_start_sends_one_stop)
{
    struct world *w = an_evaluated_job();
    noticed(w, 3, NOTICE_PREEMPT, 60000);
    exited(w, 0, 1, 0);
    assert_saw(w, "3:STOP epoch=2 planned\n");
    pass(w, 59999);
    assert_not_saw(w, "STOP");
    progress(w, 0, 1, 2);
    assert_not_saw(w, "STOP");
    world_free(w);
}

TEST(evaluator, success_makes_its_node_available_for_an_epoch)
{
    struct world *w = an_evaluated_job();
    exited_as(w, 3, (struct msg_exited){.epoch = 2});
    assert_saw(w, "3:PREPARE epoch=3");
    world_free(w);
}
