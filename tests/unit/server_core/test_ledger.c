/* tests/unit/server_core/test_ledger.c: each epoch's row says why it began and what it cost. */
#include "tests/unit/server_core/plan.h"

TEST(ledger, planned_switch_records_each_phase_and_the_loss)
{
    struct world *w = a_world(1, 3);
    w->shows_ledger = true;
    join(w, 0, "a");
    ready(w, 0, 1);
    pass(w, 3000);
    assert_saw(
        w,
        "LEDGER j/1 epoch=1 start blamed= members=1 gathered=3000 committed=3000 started=3000\n");
    assert_saw(w, "ROW started\n");
    pass(w, 1000);
    listens(w, 0, 1, 5);
    assert_saw(w, "progressed=4000\n");
    assert_saw(w, "ROW progressed\n");
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
    assert_int_equal(times_seen(w, "ROW closed\n"), 1);
    assert_saw(
        w, "LEDGER j/1 epoch=1 start blamed= members=1 gathered=3000 committed=3000 started=3000 "
           "progressed=4000 ended=7000 saved=12 lost=1 over\n");
    assert_saw(w, "LEDGER j/1 epoch=2 joined planned blamed= members=2 detected=4000 stopped=7000 "
                  "gathered=7500 committed=7500 started=7500\n");
    world_free(w);
}

static void kept(struct world *w, uint32_t session, uint64_t step, uint64_t snapshot_step)
{
    w->memory[session] =
        (struct msg_memory){.bytes = 1, .has_snapshot = true, .epoch = 1, .step = snapshot_step};
    tells(w, session,
          (struct msg_progress){.epoch = 1,
                                .has_step = true,
                                .step = step,
                                .has_saved = true,
                                .saved_step = 10,
                                .saves = 1,
                                .memory = w->memory[session]});
}

TEST(ledger, repeated_steps_of_the_next_epoch_are_counted)
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
    assert_not_saw(w, "ROW"); /* the epoch counts in the metrics once */
    tells(w, 1, (struct msg_progress){.epoch = 2, .has_from = true, .from_step = 28});
    assert_not_saw(w, "LEDGER"); /* the first word counts */
    world_free(w);
}

TEST(ledger, all_steps_are_lost_without_a_safe_step)
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

TEST(ledger, epoch_that_never_started_counts_nothing_twice)
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
