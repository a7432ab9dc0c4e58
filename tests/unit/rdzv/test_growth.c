/* tests/unit/rdzv/test_growth.c: newcomers are taken in when it is worth it (design 4.8). */
#include "tests/unit/rdzv/operator.h"
#include "tests/unit/rdzv/plan.h"

static void newcomer(struct world *w, uint32_t session, uint64_t epoch)
{
    join(w, session, name_of(session));
    ready(w, session, epoch);
}

TEST(growth, gives_others_the_time_to_come_along)
{
    struct world *w = a_running_world(1, 6, 1);
    newcomer(w, 1, 2);
    pass(w, 2000);
    newcomer(w, 2, 2);
    pass(w, 999);
    assert_not_saw(w, "STOP");
    pass(w, 1); /* 3 s after the first */
    assert_saw(w, "0:STOP epoch=1 planned");
    stopped_and_ready(w, 0, 1);
    assert_saw(w, "nodes=3 cause=joined");
    world_free(w);
}

TEST(growth, waits_for_nobody_once_the_job_is_full)
{
    struct world *w = a_running_world(1, 3, 1);
    newcomer(w, 1, 2);
    assert_not_saw(w, "STOP");
    newcomer(w, 2, 2);
    assert_saw(w, "0:STOP epoch=1 planned");
    world_free(w);
}

TEST(growth, that_has_gone_again_stops_nothing)
{
    struct world *w = a_running_world(1, 3, 1);
    newcomer(w, 1, 2);
    pass(w, 2000);
    goodbye(w, 1);
    pass(w, 60000);
    assert_not_saw(w, "STOP");
    newcomer(w, 2, 2);
    pass(w, 2999);
    assert_not_saw(w, "STOP"); /* a window of its own */
    pass(w, 1);
    assert_saw(w, "STOP");
    world_free(w);
}

static void listening(struct world *w, uint32_t session, uint64_t epoch)
{
    assert_int_equal(
        say(w, session, &(struct tfe_msg){.type = MSG_LISTENING, .u.listening.epoch = epoch}), 0);
}

TEST(growth, keeps_ten_standstills_from_the_last)
{
    /* Stopped for 2 s until all listen: the next growth comes 20 s after that STOP. */
    struct world *w = a_running_world(1, 6, 1);
    newcomer(w, 1, 2);
    pass(w, 3000);
    int64_t stop = w->now;
    pass(w, 2000);
    stopped_and_ready(w, 0, 1);
    listening(w, 1, 2);
    newcomer(w, 2, 3);
    pass_until(w, stop + 19999);
    assert_not_saw(w, "STOP");
    pass(w, 1);
    assert_saw(w, "STOP epoch=2 planned");
    world_free(w);
}

TEST(growth, measures_its_standstill_until_the_first_step_where_one_is_told)
{
    struct world *w = a_running_world(1, 6, 1);
    newcomer(w, 1, 2);
    pass(w, 3000);
    int64_t stop = w->now;
    stopped_and_ready(w, 0, 1);
    listening(w, 1, 2);
    pass(w, 4000);
    tells(w, 0, (struct msg_progress){.epoch = 2, .has_step = true, .step = 1});
    newcomer(w, 2, 3);
    pass_until(w, stop + 39999);
    assert_not_saw(w, "STOP");
    pass(w, 1);
    assert_saw(w, "STOP epoch=2 planned");
    world_free(w);
}

TEST(growth, asks_scripts_that_listen_and_comes_with_the_checkpoint_that_answers)
{
    struct world *w = a_running_world(1, 3, 2);
    listens(w, 0, 1, 10);
    listens(w, 1, 1, 10);
    newcomer(w, 2, 2);
    assert_saw(w, "0:SAVE epoch=1 number=1\n1:SAVE epoch=1 number=1\n");
    assert_not_saw(w, "STOP");
    saved(w, 0, 1, 11, 1, 0); /* begun before it was asked for */
    assert_not_saw(w, "STOP");
    pass(w, 5000);
    saved(w, 0, 1, 12, 2, 1);
    assert_saw(w, "~saved job=j node=- epoch=1 number=5000");
    assert_saw(w, "STOP epoch=1 planned");
    world_free(w);
}

TEST(growth, asks_all_whether_they_listen_or_not_and_those_who_come_back)
{
    struct world *w = a_running_world(1, 3, 2);
    listens(w, 0, 1, 10);
    newcomer(w, 2, 2);
    assert_saw(w, "0:SAVE epoch=1 number=1\n1:SAVE epoch=1 number=1\n");
    listens(w, 1, 1, 10); /* its agent passes on what it was told before */
    listens(w, 1, 1, 11);
    assert_not_saw(w, "SAVE");
    cut(w, 0);
    w->join.running_epoch = w->join.highest_epoch = 1;
    join(w, 4, "a");
    listens(w, 4, 1, 12);
    assert_saw(w, "4:SAVE epoch=1 number=1"); /* the first may have been lost with the connection */
    world_free(w);
}

TEST(growth, takes_the_second_checkpoint_of_scripts_that_hear_nothing)
{
    struct world *w = a_running_world(1, 2, 1);
    listens(w, 0, 1, 10);
    newcomer(w, 1, 2);
    assert_saw(w, "SAVE");
    tells(w, 0, (struct msg_progress){.epoch = 1, .saves = 1, .listens = true});
    assert_not_saw(w, "STOP");
    tells(w, 0, (struct msg_progress){.epoch = 1, .saves = 2, .listens = true});
    assert_saw(w, "STOP epoch=1 planned");
    world_free(w);
}

TEST(growth, comes_with_the_next_checkpoint_that_is_seen_where_nobody_listens)
{
    struct world *w = a_running_world(1, 2, 1);
    saved(w, 0, 1, 10, 1, 0);
    newcomer(w, 1, 2);
    assert_saw(w, "0:SAVE epoch=1 number=1"); /* somebody may watch the preempt file */
    pass(w, 10000);
    assert_not_saw(w, "STOP");
    saved(w, 0, 1, 20, 2, 0);
    assert_saw(w, "STOP epoch=1 planned");
    world_free(w);
}

TEST(growth, comes_without_a_checkpoint_once_that_costs_less_than_a_twentieth)
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

TEST(growth, of_scripts_that_were_asked_and_never_saved_waits_for_grow_wait_alone)
{
    struct world *w = a_running_world(1, 2, 1);
    listens(w, 0, 1, 10);
    newcomer(w, 1, 2);
    pass(w, 59999);
    assert_not_saw(w, "STOP");
    pass(w, 1);
    assert_saw(w, "STOP epoch=1 planned");
    world_free(w);
}

/* All members' memory keeps the state after this step; so many are done. */
static void kept(struct world *w, uint64_t epoch, uint64_t kept_step, uint64_t step)
{
    tells(w, 0,
          (struct msg_progress){
              .epoch = epoch,
              .has_step = true,
              .step = step,
              .listens = true,
              .memory = {.bytes = 1, .has_kept = true, .epoch = epoch, .step = kept_step}});
}

TEST(growth, waits_for_no_checkpoint_where_memory_keeps_the_work)
{
    struct world *w = a_running_world(1, 2, 1);
    pass(w, 3600000); /* no checkpoint was ever seen */
    kept(w, 1, 40, 40);
    newcomer(w, 1, 2);
    assert_not_saw(w, "SAVE");
    assert_saw(w, "STOP epoch=1 planned");
    world_free(w);
}

TEST(growth, counts_the_work_since_the_newest_safe_step)
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

TEST(growth, comes_with_the_snapshot_that_answers_and_stops_nobody_for_the_disk)
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

TEST(growth, that_is_ordered_says_with_the_stop_that_memory_is_enough)
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

TEST(growth, comes_without_a_word_once_the_work_since_a_snapshot_is_a_twentieth)
{
    struct world *w = a_running_world(1, 2, 1);
    int64_t start = w->now;
    kept(w, 1, 10, 10);
    pass(w, 5000);
    kept(w, 1, 10, 15);
    newcomer(w, 1, 2);
    pass_until(w, start + 99999);
    assert_not_saw(w, "STOP");
    pass_until(w, start + 100000);
    assert_saw(w, "STOP epoch=1 planned");
    world_free(w);
}

TEST(growth, counts_on_no_memory_of_a_machine_that_may_have_to_go)
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

TEST(growth, takes_what_an_older_epoch_kept_for_no_work_of_this_one)
{
    struct world *w = an_adopted_world(2);
    pass(w, 400000);
    tells(w, 0,
          (struct msg_progress){.epoch = 4,
                                .has_step = true,
                                .step = 40,
                                .memory = {.bytes = 1, .has_kept = true, .epoch = 3, .step = 40}});
    newcomer(w, 1, 5);
    assert_saw(w, "SAVE");
    assert_not_saw(w, "STOP");
    world_free(w);
}

/* Growth once ended a training that had run for hours without a checkpoint, and began it again. */
TEST(growth, of_a_run_of_which_no_checkpoint_was_seen_comes_in_its_first_five_minutes_alone)
{
    struct world *w = a_running_world(1, 3, 1);
    pass(w, 299999);
    newcomer(w, 1, 2);
    goodbye(w, 1);
    pass(w, 1);
    newcomer(w, 2, 2);
    pass(w, 3000);
    assert_saw(w, "0:SAVE epoch=1 number=1"); /* somebody may watch the preempt file */
    assert_saw(
        w, "~growth_waits job=j node=- epoch=1 number=0 waits: no checkpoint of this training was "
           "seen, 5 min of work would be done again; `tfe-ctl grow j` does it now");
    pass(w, 3600000);
    assert_not_saw(w, "STOP");
    assert_not_saw(w, "growth_waits");
    tells(w, 0, (struct msg_progress){.epoch = 1, .saves = 1});
    assert_saw(w, "STOP epoch=1 planned");
    world_free(w);
}

/* It was the run's age that counted: newcomers waited while "0 s of work would be done again". */
TEST(growth, of_an_epoch_that_began_after_a_loss_has_its_own_five_minutes)
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
    assert_saw(w, "waits: no checkpoint of this training was seen, 5 min of work would be done");
    world_free(w);
}

TEST(growth, of_a_run_that_a_restarted_server_adopts_throws_no_work_away)
{
    struct world *w = an_adopted_world(2); /* how old it is nobody knows */
    newcomer(w, 1, 5);
    pass(w, 600000);
    assert_not_saw(w, "STOP");
    world_free(w);
}

TEST(growth, comes_at_once_where_the_job_was_opened_so)
{
    struct world *w = a_world(1, 2);
    w->join.spec.grow_now = true;
    join(w, 0, "a");
    ready(w, 0, 1);
    pass(w, 3000);
    saved(w, 0, 1, 10, 1, 0);
    pass(w, 3600000);
    newcomer(w, 1, 2);
    assert_saw(w, "0:STOP epoch=1 planned");
    world_free(w);
}

TEST(growth, that_an_operator_orders_comes_now_whatever_it_costs)
{
    struct world *w = a_running_world(1, 3, 1);
    assert_int_equal(order(w, RDZV_GROW, "j", NULL), TFE_ESTATE); /* nobody waits */
    pass(w, 3600000);
    newcomer(w, 1, 2);
    pass(w, 3600000);
    assert_not_saw(w, "STOP");
    assert_int_equal(order(w, RDZV_GROW, "j", NULL), 0);
    assert_saw(w, "0:STOP epoch=1 planned");
    assert_int_equal(order(w, RDZV_GROW, "k", NULL), TFE_ENOENT);
    world_free(w);
}

/* The work was done again for the sake of a newcomer that came while TensorFlow was taken down. */
TEST(growth, never_ends_an_epoch_in_which_a_trainer_has_begun_to_exit_0)
{
    struct world *w = a_world(1, 3);
    w->join.spec.grow_now = true;
    join(w, 0, "a");
    ready(w, 0, 1);
    pass(w, 3000);
    newcomer(w, 1, 2);
    tells(w, 0, (struct msg_progress){.epoch = 1, .ends = true});
    pass(w, 600000);
    assert_not_saw(w, "STOP");
    assert_int_equal(order(w, RDZV_GROW, "j", NULL), TFE_ESTATE);
    tells(w, 0, (struct msg_progress){.epoch = 1, .saves = 1}); /* said once, it stays */
    pass(w, 600000);
    assert_not_saw(w, "STOP");
    exited(w, 0, 1, 1); /* it failed on its way out */
    ready(w, 0, 2);
    assert_saw(w, "nodes=2 cause=trainer_failed");
    newcomer(w, 2, 3);
    assert_saw(w, "STOP epoch=2 planned"); /* of the new epoch nothing was said */
    world_free(w);
}

TEST(growth, that_an_operator_orders_is_not_done_again_in_the_next_epoch)
{
    struct world *w = a_running_world(1, 3, 1);
    pass(w, 3600000);
    newcomer(w, 1, 2);
    assert_int_equal(order(w, RDZV_GROW, "j", NULL), 0);
    stopped_and_ready(w, 0, 1);
    assert_saw(w, "nodes=2 cause=joined");
    pass(w, 600000);
    newcomer(w, 2, 3);
    pass(w, 600000);
    assert_not_saw(w, "STOP");
    world_free(w);
}

TEST(growth, a_restarted_server_does_not_take_old_answers_for_new_ones)
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

TEST(growth, a_restarted_server_takes_no_answer_to_what_it_did_not_ask)
{
    /* The server before this one had asked, and died before the answer: SAVE 1 of the next was
     * taken for answered before it was asked, and the switch lost all steps since. */
    struct world *w = an_adopted_world(2);
    listens(w, 0, 4, 100);
    saved(w, 0, 4, 110, 1, 3);
    newcomer(w, 1, 5);
    assert_saw(w, "0:SAVE epoch=4 number=4");
    assert_not_saw(w, "STOP");
    saved(w, 0, 4, 120, 2, 4);
    assert_saw(w, "0:STOP epoch=4 planned");
    world_free(w);
}

TEST(growth, takes_no_checkpoint_that_was_asked_for_a_leave_that_is_off)
{
    /* It is as old as the wait for growth has been long. */
    struct world *w = a_running_world(1, 4, 2);
    listens(w, 0, 1, 10);
    noticed(w, 1, NOTICE_PREEMPT, 120000);
    pass(w, 2000);
    assert_saw(w, "0:SAVE epoch=1 number=1");
    newcomer(w, 2, 2);
    notice_withdrawn(w, 1, NOTICE_PREEMPT);
    saved(w, 0, 1, 11, 1, 1);
    assert_not_saw(w, "STOP");
    pass(w, 3000);
    assert_saw(w, "0:SAVE epoch=1 number=2");
    assert_not_saw(w, "STOP");
    saved(w, 0, 1, 12, 2, 2);
    assert_saw(w, "0:STOP epoch=1 planned");
    world_free(w);
}

TEST(growth, makes_room_for_a_loss_that_comes_first)
{
    struct world *w = a_running_world(1, 3, 2);
    listens(w, 0, 1, 10);
    newcomer(w, 2, 2);
    goodbye(w, 1);
    assert_saw(w, "0:STOP epoch=1\n"); /* not planned: nobody could save any more */
    stopped_and_ready(w, 0, 1);
    assert_saw(w, "2:START epoch=2 rank=1 world=2"); /* any switch takes in all who are ready */
    world_free(w);
}

TEST(progress, told_counts_where_an_epoch_was_short)
{
    /* Five epochs in a row that come to nothing fail a job; these do a step each. */
    for (int told = 0; told < 2; told++) {
        struct world *w = a_running_world(1, 1, 1);
        for (uint64_t epoch = 1; epoch <= 6 && strcmp(job_state(w), "running") == 0; epoch++) {
            if (told) {
                tells(w, 0, (struct msg_progress){.epoch = epoch, .has_step = true, .step = epoch});
            }
            exited(w, 0, epoch, 42); /* preempted: free */
            if (strcmp(job_state(w), "failed") != 0) {
                ready(w, 0, epoch + 1);
                pass(w, 20000); /* the back-off */
            }
        }
        assert_string_equal(job_state(w), told ? "running" : "failed");
        world_free(w);
    }
}

TEST(progress, told_for_ten_minutes_fills_the_budget_and_silence_does_not)
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

TEST(growth, asks_anew_where_an_answer_to_a_later_question_is_heard)
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
