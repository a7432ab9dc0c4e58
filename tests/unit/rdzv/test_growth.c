/* tests/unit/rdzv/test_growth.c: newcomers are taken in when it is worth it (DESIGN 4.8). */
#include "tests/unit/rdzv/plan.h"

static void newcomer(struct world *w, uint32_t session, uint64_t epoch)
{
    join(w, session, name_of(session));
    ready(w, session, epoch);
}

TEST(growth, gives_others_the_time_to_come_along)
{
    NO_FIXTURE;
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
    NO_FIXTURE;
    struct world *w = a_running_world(1, 3, 1);
    newcomer(w, 1, 2);
    assert_not_saw(w, "STOP");
    newcomer(w, 2, 2);
    assert_saw(w, "0:STOP epoch=1 planned");
    world_free(w);
}

TEST(growth, that_has_gone_again_stops_nothing)
{
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
    struct world *w = a_running_world(1, 2, 1);
    listens(w, 0, 1, 10);
    newcomer(w, 1, 2);
    pass(w, 59999);
    assert_not_saw(w, "STOP");
    pass(w, 1);
    assert_saw(w, "STOP epoch=1 planned");
    world_free(w);
}

TEST(growth, a_restarted_server_does_not_take_old_answers_for_new_ones)
{
    NO_FIXTURE;
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
}

TEST(growth, a_restarted_server_takes_no_answer_to_what_it_did_not_ask)
{
    /* The server before this one had asked, and died before the answer: SAVE 1 of the next was
     * taken for answered before it was asked, and the switch lost all steps since. */
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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
    NO_FIXTURE;
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

int main(void)
{
    const struct CMUnitTest stories[] = {
        STORY(growth, gives_others_the_time_to_come_along),
        STORY(growth, waits_for_nobody_once_the_job_is_full),
        STORY(growth, that_has_gone_again_stops_nothing),
        STORY(growth, keeps_ten_standstills_from_the_last),
        STORY(growth, measures_its_standstill_until_the_first_step_where_one_is_told),
        STORY(growth, asks_scripts_that_listen_and_comes_with_the_checkpoint_that_answers),
        STORY(growth, asks_all_whether_they_listen_or_not_and_those_who_come_back),
        STORY(growth, takes_the_second_checkpoint_of_scripts_that_hear_nothing),
        STORY(growth, comes_with_the_next_checkpoint_that_is_seen_where_nobody_listens),
        STORY(growth, comes_without_a_checkpoint_once_that_costs_less_than_a_twentieth),
        STORY(growth, of_scripts_that_were_asked_and_never_saved_waits_for_grow_wait_alone),
        STORY(growth, a_restarted_server_does_not_take_old_answers_for_new_ones),
        STORY(growth, a_restarted_server_takes_no_answer_to_what_it_did_not_ask),
        STORY(growth, takes_no_checkpoint_that_was_asked_for_a_leave_that_is_off),
        STORY(growth, makes_room_for_a_loss_that_comes_first),
        STORY(progress, told_counts_where_an_epoch_was_short),
        STORY(progress, told_for_ten_minutes_fills_the_budget_and_silence_does_not),
    };
    return cmocka_run_group_tests(stories, NULL, NULL);
}
