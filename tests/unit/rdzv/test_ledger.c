/* tests/unit/rdzv/test_ledger.c: each epoch's row says why it began and what it cost. */
#include "tests/unit/rdzv/plan.h"

TEST(ledger, of_a_planned_switch_tells_each_phase_and_what_was_lost)
{
    struct world *w = a_world(1, 3);
    w->shows_ledger = true;
    join(w, 0, "a");
    ready(w, 0, 1);
    pass(w, 3000);
    assert_saw(
        w,
        "LEDGER j/1 epoch=1 start blamed= members=1 gathered=3000 committed=3000 started=3000\n");
    pass(w, 1000);
    listens(w, 0, 1, 5);
    assert_saw(w, "progressed=4000\n");
    saved(w, 0, 1, 8, 1, 0);
    listens(w, 0, 1, 10);
    join(w, 1, "b");
    ready(w, 1, 2);
    pass(w, 3000);
    saved(w, 0, 1, 12, 2, 1);
    listens(w, 0, 1, 13);
    assert_not_saw(w, "LEDGER"); /* a row a phase, not a row a step */
    pass(w, 500);
    stopped_and_ready(w, 0, 1);
    assert_saw(
        w, "LEDGER j/1 epoch=1 start blamed= members=1 gathered=3000 committed=3000 started=3000 "
           "progressed=4000 ended=7000 saved=12 lost=1 over\n");
    assert_saw(w, "LEDGER j/1 epoch=2 joined planned blamed= members=2 detected=4000 stopped=7000 "
                  "gathered=7500 committed=7500 started=7500\n");
    world_free(w);
}

static void kept(struct world *w, uint32_t session, uint64_t step, uint64_t kept_step)
{
    w->memory[session] =
        (struct msg_memory){.bytes = 1, .has_kept = true, .epoch = 1, .step = kept_step};
    tells(w, session,
          (struct msg_progress){.epoch = 1,
                                .has_step = true,
                                .step = step,
                                .has_saved = true,
                                .saved_step = 10,
                                .saves = 1,
                                .memory = w->memory[session]});
}

TEST(ledger, counts_what_the_next_epoch_does_again)
{
    /* As far as can be said: what those who stay keep. Then the next epoch tells. */
    struct world *w = a_running_world(1, 3, 3);
    w->shows_ledger = true;
    kept(w, 0, 30, 27);
    kept(w, 1, 30, 28);
    kept(w, 2, 30, 29);
    goodbye(w, 2);
    switch_over(w, 0, 2, 1);
    assert_saw(w, " saved=10 lost=2 over\n");
    tells(w, 0, (struct msg_progress){.epoch = 2, .has_from = true, .from_step = 10});
    assert_saw(w, "LEDGER j/1 epoch=1 start ");
    assert_saw(w, " saved=10 lost=20 over\n");
    tells(w, 1, (struct msg_progress){.epoch = 2, .has_from = true, .from_step = 28});
    assert_not_saw(w, "LEDGER"); /* the first word counts */
    world_free(w);
}

TEST(ledger, knows_what_is_lost_where_nothing_was_safe)
{
    struct world *w = a_running_world(1, 2, 2);
    w->shows_ledger = true;
    tells(w, 0, (struct msg_progress){.epoch = 1, .has_step = true, .step = 6});
    goodbye(w, 1);
    stopped_and_ready(w, 0, 1);
    assert_not_saw(w, "lost=");
    tells(w, 0, (struct msg_progress){.epoch = 2, .has_from = true, .from_step = 0});
    assert_saw(w, " lost=6 over\n");
    world_free(w);
}

TEST(ledger, of_an_epoch_that_never_began_counts_nothing_twice)
{
    struct world *w = a_running_world(1, 3, 3);
    w->shows_ledger = true;
    saved(w, 0, 1, 10, 1, 0);
    listens(w, 0, 1, 15);
    goodbye(w, 2);
    w->holds_writes = true;
    switch_over(w, 0, 2, 1);
    assert_saw(w, " saved=10 lost=5 over\n");
    goodbye(w, 1); /* epoch 2 is on its way to the disk */
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    ready(w, 0, 3);
    assert_saw(w, "LEDGER j/1 epoch=2");
    assert_not_saw(w, "lost=");
    world_free(w);
}

TEST(ledger, of_a_loss_blames_the_node)
{
    struct world *w = a_running_world(1, 2, 2);
    w->shows_ledger = true;
    int64_t since = w->now - WORLD_BEGINS;
    pass(w, 10000);
    exited(w, 1, 1, 1);
    stopped_and_ready(w, 0, 1);
    ready(w, 1, 2);
    pass(w, 1000);
    char row[128];
    snprintf(row, sizeof(row),
             "LEDGER j/1 epoch=2 trainer_failed blamed=b members=2 detected=%lld stopped=%lld",
             (long long)since + 10000, (long long)since + 10000);
    assert_saw(w, row);
    world_free(w);
}

TEST(ledger, of_two_losses_blames_both)
{
    struct world *w = a_running_world(1, 3, 3);
    w->shows_ledger = true;
    cut(w, 1);
    cut(w, 2);
    exited(w, 0, 1, 1);
    ready(w, 0, 2);
    pass(w, 1000);
    assert_saw(w, "LEDGER j/1 epoch=2 node_lost blamed=b, c members=1");
    world_free(w);
}

TEST(ledger, of_an_adopted_epoch_tells_the_first_step_that_is_known)
{
    struct world *w = an_adopted_world(1);
    w->shows_ledger = true;
    pass(w, 5000);
    listens(w, 0, 4, 100);
    assert_saw(w, "LEDGER j/1 epoch=4 joined blamed= members=1 progressed=5000\n");
    world_free(w);
}

TEST(ledger, of_a_notice_begins_with_it)
{
    struct world *w = a_running_world(1, 2, 2);
    w->shows_ledger = true;
    noticed(w, 1, NOTICE_PREEMPT, MSG_UNSET);
    pass(w, 2000);
    stopped_and_ready(w, 0, 1);
    trainers_stop(w, 1, 1);
    assert_saw(w, "epoch=2 preempted planned blamed=b members=1 detected=0 stopped=2000");
    world_free(w);
}

TEST(ledger, the_end_of_an_adopted_job_is_no_new_epoch)
{
    struct world *w = an_adopted_world(1);
    w->shows_ledger = true;
    pass(w, 5000);
    exited(w, 0, 4, 0);
    assert_saw(w, "LEDGER j/1 epoch=4 joined blamed= members=1 ended=5000 over\n");
    assert_int_equal(times_seen(w, "LEDGER"), 1);
    world_free(w);
}
