/* tests/unit/server_core/test_growth.c: newcomers are added when it is worth its cost (design
 * 4.8). */
#include "tests/unit/server_core/operator.h"
#include "tests/unit/server_core/plan.h"

static void newcomer(struct world *w, uint32_t session, uint64_t epoch)
{
    join(w, session, name_of(session));
    ready(w, session, epoch);
}

/* All members' memory keeps the state after this step; so many are done. */
static void kept(struct world *w, uint64_t epoch, uint64_t snapshot_step, uint64_t step)
{
    tells(w, 0,
          (struct msg_progress){
              .epoch = epoch,
              .has_step = true,
              .step = step,
              .listens = true,
              .memory = {.bytes = 1, .has_snapshot = true, .epoch = epoch, .step = snapshot_step}});
}

TEST(growth, unsaved_work_counts_from_the_newest_safe_step)
{
    /* 10 s of it after 20 s: too much. A checkpoint is asked for, and the next snapshot will do. */
    struct world *w = a_running_world(1, 2, 1);
    pass(w, 10000);
    kept(w, 1, 10, 10);
    pass(w, 10000);
    kept(w, 1, 10, 20);
    newcomer(w, 1, 2);
    assert_saw(w, "SAVE");
    pass(w, 1000);
    kept(w, 1, 10, 21);
    assert_not_saw(w, "STOP");
    kept(w, 1, 21, 21);
    assert_saw(w, "STOP epoch=1 planned");
    world_free(w);
}

TEST(growth, snapshot_for_the_save_starts_the_switch_without_a_checkpoint)
{
    struct world *w = a_running_world(1, 2, 1);
    pass(w, 10000);
    kept(w, 1, 10, 10);
    pass(w, 10000);
    kept(w, 1, 10, 20);
    newcomer(w, 1, 2);
    assert_saw(w, "0:SAVE epoch=1 number=1 in_memory\n");
    keeps(w, 0, 1, 21, 1);
    assert_saw(w, "STOP epoch=1 planned in_memory\n");
    world_free(w);
}

TEST(growth, ordered_growth_sends_stop_with_in_memory)
{
    struct world *w = a_running_world(1, 2, 1);
    pass(w, 10000);
    kept(w, 1, 10, 10);
    pass(w, 10000);
    kept(w, 1, 10, 20);
    newcomer(w, 1, 2);
    assert_saw(w, "SAVE");
    assert_int_equal(order(w, RDZV_GROW, "j", NULL), 0);
    assert_saw(w, "STOP epoch=1 planned in_memory\n");
    world_free(w);
}

TEST(growth, snapshot_of_a_node_with_a_hint_does_not_count)
{
    struct world *w = a_running_world(1, 2, 2);
    kept(w, 1, 10, 10);
    noticed(w, 0, NOTICE_REBALANCE, MSG_UNSET);
    newcomer(w, 2, 2);
    assert_saw(w, "SAVE epoch=1 number=1\n");
    keeps(w, 0, 1, 11, 1);
    assert_not_saw(w, "STOP");
    saved(w, 0, 1, 11, 1, 1);
    assert_saw(w, "STOP epoch=1 planned");
    world_free(w);
}

/* It was the run's age that counted: newcomers waited while "0 s of work would be done again". */
TEST(growth, epoch_after_a_loss_has_its_own_first_five_minutes)
{
    struct world *w = a_running_world(1, 3, 2);
    pass(w, 3600000);
    goodbye(w, 1);
    stopped_and_ready(w, 0, 1);
    pass(w, 299999 - 3000);
    newcomer(w, 2, 3);
    pass(w, 3000);
    assert_not_saw(w, "growth_waits");
    assert_saw(w, "0:STOP epoch=2 planned");
    stopped_and_ready(w, 0, 2);
    pass(w, 300000);
    newcomer(w, 3, 4);
    assert_saw(
        w, "waits: this training has not reported a checkpoint: 5 min of work would be repeated");
    world_free(w);
}

TEST(growth, restarted_server_ignores_answers_to_earlier_saves)
{
    struct world *w = an_adopted_world(2);
    saved(w, 0, 4, 100, 7, 3); /* for the server before this one */
    newcomer(w, 1, 5);
    assert_saw(w, "0:SAVE epoch=4 number=4");
    assert_not_saw(w, "STOP");
    saved(w, 0, 4, 110, 8, 3);
    assert_not_saw(w, "STOP");
    saved(w, 0, 4, 111, 9, 4);
    assert_saw(w, "0:STOP epoch=4 planned");
    world_free(w);

    w = an_adopted_world(2);
    pass(w, 10000);
    keeps(w, 0, 4, 100, 3); /* answered from memory alone */
    pass(w, 10000);
    tells(w, 0, (struct msg_progress){.epoch = 4, .has_step = true, .step = 120});
    newcomer(w, 1, 5);
    assert_saw(w, "0:SAVE epoch=4 number=4");
    assert_not_saw(w, "STOP");
    world_free(w);
}

TEST(progress, ten_minutes_of_reported_progress_refill_the_budget)
{
    for (int told = 0; told < 2; told++) {
        struct world *w = a_running_world(1, 1, 1);
        exited(w, 0, 1, 1);
        ready(w, 0, 2);
        pass(w, 1000);
        tells(w, 0, (struct msg_progress){.epoch = 2, .has_step = true, .step = 1});
        pass(w, 300000);
        pass(w, 300000);
        assert_not_saw(w, "~restarts"); /* nothing says that it did anything since */
        if (told) {
            tells(w, 0, (struct msg_progress){.epoch = 2, .has_step = true, .step = 2});
            assert_saw(w, "~restarts job=j node=- epoch=2 number=0");
        }
        world_free(w);
    }
}

TEST(growth, answer_with_a_higher_number_repeats_save)
{
    /* A server before this one has asked more often: what answers it is not what was asked here. */
    struct world *w = an_adopted_world(2);
    listens(w, 0, 4, 10);
    newcomer(w, 1, 5);
    assert_saw(w, "0:SAVE epoch=4 number=1\n");
    saved(w, 0, 4, 100, 1, 5);
    assert_saw(w, "0:SAVE epoch=4 number=6\n");
    assert_not_saw(w, "STOP");
    saved(w, 0, 4, 110, 2, 6);
    assert_saw(w, "0:STOP epoch=4 planned");
    world_free(w);
}

TEST(growth, switch_without_checkpoint_is_allowed_below_a_twentieth_of_the_time)
{
    /* 30 s of work would be done again: worth it 600 s after the START. */
    struct world *w = a_running_world(1, 2, 1);
    int64_t start = w->now;
    saved(w, 0, 1, 10, 1, 0); /* the standstill of this start was 0 s, which counts as 1 ms */
    pass(w, 30000);
    tells(w, 0, (struct msg_progress){.epoch = 1, .has_step = true, .step = 40, .saves = 1});
    newcomer(w, 1, 2);
    pass_until(w, start + 600019);
    assert_not_saw(w, "STOP");
    pass_until(w, start + 600020);
    assert_saw(w, "STOP epoch=1 planned");
    world_free(w);
}

TEST(growth, success_of_a_rank_prevents_growth)
{
    /* The newcomer would have made the job do its last part again. */
    struct world *w = a_running_world(1, 4, 2);
    exited(w, 1, 1, 0);
    join(w, 2, "c");
    ready(w, 2, 2);
    assert_not_saw(w, "switch");
    exited(w, 0, 1, 0);
    assert_saw(w, "0:FINISH succeeded: job j succeeded");
    assert_saw(w, "2:FINISH succeeded: job j succeeded");
    world_free(w);
}
