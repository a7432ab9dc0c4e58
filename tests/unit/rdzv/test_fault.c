/* tests/unit/rdzv/test_fault.c: who pays for the end of an epoch, and when it is enough. */
#include "tests/unit/rdzv/world.h"

/* The members end as told and all are ready again; what the back-off asks for passes. */
static void all_ready(struct world *w, uint32_t n, uint64_t epoch, int64_t wait)
{
    for (uint32_t i = 0; i < n; i++) {
        stopped_and_ready(w, i, epoch);
    }
    pass(w, wait);
    assert_saw(w, "START");
}

TEST(verdict, a_loss_that_turns_up_later_explains_the_failure)
{
    /* A machine vanishes: its peer's collective fails first, its lease is over afterwards. */
    NO_FIXTURE;
    struct world *w = a_running_world(1, 2, 2);
    w->renews[1] = false;
    pass(w, 5000);
    exited(w, 0, 1, 1);
    assert_saw(w, "~restarts job=j node=a epoch=1 number=1");
    ready(w, 0, 2);
    pass(w, TTL_HELD_MS);
    assert_saw(w, "~node_lost job=j node=b");
    assert_saw(w, "~restarts job=j node=- epoch=1 number=0");
    assert_saw(w, "0:START epoch=2");
    world_free(w);
}

TEST(verdict, a_loss_after_it_explains_nothing)
{
    NO_FIXTURE;
    struct world *w = a_running_world(1, 3, 3);
    exited(w, 0, 1, 1);
    all_ready(w, 3, 1, 1000);
    pass(w, 20000);
    w->renews[2] = false;
    pass(w, TTL_HELD_MS);
    assert_saw(w, "~node_lost job=j node=c");
    assert_not_saw(w, "~restarts");
    world_free(w);
}

TEST(verdict, a_collectives_last_words_are_no_fault_and_the_one_they_died_of_may_report_last)
{
    NO_FIXTURE;
    struct world *w = a_running_world(1, 3, 3);
    exited_as(w, 1,
              (struct msg_exited){.epoch = 1,
                                  .code = 1,
                                  .tail = "UnavailableError: Collective ops is aborted by: x"});
    assert_saw(w, "~end job=j node=b epoch=1 number=1 peer_caused");
    assert_not_saw(w, "~restarts");
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 trainer_failed");
    exited_as(w, 2, (struct msg_exited){.epoch = 1, .code = 1, .tail = "ValueError: bad shape"});
    assert_saw(w, "~end job=j node=c epoch=1 number=1 own_fault");
    assert_saw(w, "~restarts job=j node=c epoch=1 number=1");
    exited_as(w, 0, (struct msg_exited){.epoch = 1, .code = 1, .tail = "killed"});
    assert_not_saw(w, "~restarts"); /* one fault an epoch */
    world_free(w);
}

static bool is_charged(const char *tail)
{
    struct world *w = a_running_world(1, 2, 2);
    exited_as(w, 1, (struct msg_exited){.epoch = 1, .code = 1, .tail = tail});
    bool charged = strstr(w->log, "~restarts") != NULL;
    assert_int_equal(strstr(w->log, "own_fault") != NULL, charged);
    world_free(w);
    return charged;
}

TEST(verdict, an_exception_of_the_scripts_own_is_its_fault_whatever_tensorflow_says_afterwards)
{
    /* A worker that ends with an exception finds its peers gone in the shutdown barrier and says so. */
    NO_FIXTURE;
    assert_true(
        is_charged("Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n"
                   "    raise ValueError(\"x\")\nValueError: x\n"
                   "E0000 Shutdown barrier in coordination service has failed: ABORTED\n"));
    assert_false(is_charged("Traceback (most recent call last):\n  File \"x.py\", line 1\n"
                            "tensorflow.python.framework.errors_impl.UnavailableError: {{node x}}\n"
                            "Collective ops is aborted by: Connection refused\n"));
    /* The head of a long traceback does not travel. */
    assert_false(
        is_charged("  File \"x.py\", line 1\nerrors_impl.UnavailableError: Collective ops is "
                   "aborted by: Connection reset\n"));
    assert_true(is_charged("Traceback (most recent call last):\n  File \"x.py\", line 1\n"
                           "errors_impl.InvalidArgumentError: shapes\n"));
    assert_true(is_charged("Traceback (most recent call last):\n"));
    assert_true(is_charged("Traceback (most recent call last):"));
    assert_true(is_charged(""));
}

TEST(verdict, preemptions_and_the_agents_own_stops_are_free)
{
    NO_FIXTURE;
    struct world *w = a_running_world(1, 1, 1);
    exited(w, 0, 1, 42);
    assert_saw(w, "preempted");
    assert_not_saw(w, "~restarts");
    ready(w, 0, 2);
    assert_saw(w, "START epoch=2 rank=0 world=1 nodes=1 cause=preempted"); /* no back-off */
    exited_as(w, 0, (struct msg_exited){.epoch = 2, .stopped = true});
    assert_saw(w, "stopped");
    assert_not_saw(w, "~restarts");
    ready(w, 0, 3);
    assert_saw(w, "START epoch=3 rank=0 world=1 nodes=1 cause=node_lost");
    world_free(w);
}

TEST(verdict, a_failure_that_crosses_a_planned_switch_is_nobodys_fault)
{
    NO_FIXTURE;
    struct world *w = a_running_world(1, 3, 2);
    join(w, 2, "c");
    ready(w, 2, 2);
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 joined");
    exited(w, 1, 1, 1); /* its peer was stopped first */
    assert_not_saw(w, "~restarts");
    assert_not_saw(w, "~end");
    world_free(w);
}

TEST(verdict, alone_it_is_known_at_once)
{
    NO_FIXTURE;
    struct world *w = a_world(1, 1);
    w->join.max_restarts = 0;
    join(w, 0, "a");
    ready(w, 0, 1);
    exited(w, 0, 1, 7);
    assert_saw(w, "0:FINISH failed: job j failed: rank 0 on node a (a) exited with code 7");
    world_free(w);
}

TEST(budget, backs_off_from_one_second_to_sixty)
{
    NO_FIXTURE;
    struct world *w = a_world(1, 1);
    w->join.max_restarts = 100;
    join(w, 0, "a");
    ready(w, 0, 1);
    for (uint64_t epoch = 1; epoch <= 4; epoch++) {
        int64_t wait = INT64_C(1000) << (epoch - 1);
        exited(w, 0, epoch, 1);
        ready(w, 0, epoch + 1);
        pass(w, wait - 1);
        assert_not_saw(w, "START");
        pass(w, 1);
        assert_saw(w, "START");
    }
    world_free(w);
}

TEST(budget, comes_back_with_ten_minutes_of_progress)
{
    NO_FIXTURE;
    struct world *w = a_running_world(1, 1, 1);
    exited(w, 0, 1, 1);
    ready(w, 0, 2);
    pass(w, 1000);
    pass(w, 599999);
    assert_not_saw(w, "~restarts");
    pass(w, 1);
    assert_saw(w, "~restarts job=j node=- epoch=2 number=0 ten minutes of progress");
    exited(w, 0, 2, 1);
    ready(w, 0, 3);
    pass(w, 1000); /* the back-off begins anew as well */
    assert_saw(w, "START epoch=3");
    world_free(w);
}

TEST(budget, five_fruitless_epochs_in_a_row_fail_the_job_whoever_is_to_blame)
{
    NO_FIXTURE;
    struct world *w = a_running_world(1, 1, 1);
    static const int64_t waits[] = {0, 1000, 2000, 4000};
    for (uint64_t epoch = 1; epoch <= 4; epoch++) {
        exited(w, 0, epoch, 143);
        assert_not_saw(w, "FINISH");
        ready(w, 0, epoch + 1);
        if (waits[epoch - 1]) {
            assert_not_saw(w, "START");
            pass(w, waits[epoch - 1]);
        }
        assert_saw(w, "START");
    }
    exited(w, 0, 5, 143);
    assert_saw(w,
               "0:FINISH failed: job j failed: 5 epochs in a row came to nothing, in the last one "
               "rank 0 on node a (a) exited with code 143");
    world_free(w);
}

TEST(budget, an_epoch_with_progress_breaks_the_row)
{
    NO_FIXTURE;
    struct world *w = a_running_world(1, 1, 1);
    for (uint64_t epoch = 1; epoch <= 12; epoch++) {
        if (epoch % 4 == 0) {
            pass(w, 60000);
        }
        exited(w, 0, epoch, 143);
        assert_not_saw(w, "FINISH");
        ready(w, 0, epoch + 1);
        pass(w, 4000);
    }
    world_free(w);
}

TEST(budget, a_rank_0_that_never_ends_is_charged)
{
    NO_FIXTURE;
    struct world *w = a_running_world(1, 2, 2);
    exited(w, 1, 1, 0);
    pass(w, 60000);
    assert_saw(w, "~restarts job=j node=a epoch=1 number=1");
    assert_saw(w, "0:STOP epoch=1");
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(verdict, a_loss_that_turns_up_later_explains_the_failure),
        STORY(verdict, a_loss_after_it_explains_nothing),
        STORY(verdict,
              a_collectives_last_words_are_no_fault_and_the_one_they_died_of_may_report_last),
        STORY(verdict,
              an_exception_of_the_scripts_own_is_its_fault_whatever_tensorflow_says_afterwards),
        STORY(verdict, preemptions_and_the_agents_own_stops_are_free),
        STORY(verdict, a_failure_that_crosses_a_planned_switch_is_nobodys_fault),
        STORY(verdict, alone_it_is_known_at_once),
        STORY(budget, backs_off_from_one_second_to_sixty),
        STORY(budget, comes_back_with_ten_minutes_of_progress),
        STORY(budget, five_fruitless_epochs_in_a_row_fail_the_job_whoever_is_to_blame),
        STORY(budget, an_epoch_with_progress_breaks_the_row),
        STORY(budget, a_rank_0_that_never_ends_is_charged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
