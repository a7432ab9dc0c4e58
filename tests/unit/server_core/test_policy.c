/* tests/unit/server_core/test_policy.c: job options about endings: which success counts, which
 * trainers may linger after it, and which are restarted after which ending. */
#include "tests/unit/server_core/operator.h"
#include "tests/unit/server_core/served_fixture.h"

/* --- success of all workers ------------------------------------------------------------------- */

static struct world *all_of(uint32_t n)
{
    struct world *w = a_world(1, n);
    w->join.spec.all_workers = true;
    come(w, n);
    assert_string_equal(job_state(w), "running");
    return w;
}

TEST(all_workers, success_needs_all_workers_without_a_time_limit)
{
    struct world *w = all_of(3);
    char room[MSG_SENTENCE_MAX];
    struct msg_status_job row = {.job = "j"};
    exited(w, 0, 1, 0);
    exited(w, 2, 1, 0);
    pass(w, 7200000);
    assert_not_saw(w, "FINISH");
    assert_not_saw(w, "switch");
    rdzv_view_waits(w->r, &row, room);
    assert_string_equal(
        row.waits, "2 of 3 workers have ended with exit status 0, and the job needs all of them");
    exited(w, 1, 1, 0);
    assert_int_equal(times_seen(w, "FINISH succeeded: job j succeeded"), 3);
    world_free(w);
}

TEST(all_workers, success_of_one_worker_prevents_growth)
{
    struct world *w = a_world(1, 3);
    w->join.spec.all_workers = true;
    come(w, 2);
    pass(w, 3000);
    exited(w, 1, 1, 0);
    join(w, 2, "c");
    ready(w, 2, 2);
    pass(w, 60000);
    assert_not_saw(w, "~switch");
    world_free(w);
}

TEST(all_workers, served_worker_does_not_restart_after_success)
{
    struct world *w = a_world(2, 2);
    w->join.spec.all_workers = true;
    w->join.spec.n_ps = 1;
    w->join.spec.gather_ms = 100;
    come(w, 3);
    for (uint32_t i = 0; i < 3; i++) {
        trainer_listens(w, i, 1);
    }
    const uint32_t ps = strstr(w->log, "0:START epoch=1 rank=2") ? 0 : 1;
    exited(w, 2, 1, 0);
    pass(w, 600000);
    assert_not_saw(w, "RESTART");
    assert_not_saw(w, "FINISH");
    exited(w, 1 - ps, 1, 0);
    assert_int_equal(times_seen(w, "FINISH succeeded"), 3); /* the ps is waited for by nobody */
    world_free(w);
}

/* --- what is let run -------------------------------------------------------------------------- */

static struct world *a_lingering_job(void)
{
    struct world *w = a_world(1, 3);
    w->join.spec.linger = true;
    come(w, 3);
    exited(w, 0, 1, 0);
    assert_saw(w, "~lingers job=j node=a epoch=1");
    return w;
}

TEST(lingering, job_has_succeeded_and_ends_with_its_last_trainer)
{
    struct world *w = a_lingering_job();
    assert_true(rdzv_get_run(w->r, "j").lingers);
    pass(w, 24 * 3600000);
    exited(w, 1, 1, 5); /* no longer matters */
    assert_not_saw(w, "FINISH");
    assert_not_saw(w, "switch");
    exited(w, 2, 1, 0);
    assert_int_equal(times_seen(w, "FINISH succeeded"), 3);
    assert_false(rdzv_get_run(w->r, "j").lingers);
    world_free(w);
}

TEST(lingering, cancelled_lingering_job_has_succeeded)
{
    struct world *w = a_lingering_job();
    stop_job(w);
    assert_int_equal(times_seen(w, "FINISH succeeded"), 3);
    assert_string_equal(job_state(w), "succeeded");
    world_free(w);
}

/* --- who starts again ------------------------------------------------------------------------- */

static struct world *with_policy(uint32_t n, uint32_t policies)
{
    struct world *w = a_world(1, n);
    w->join.spec.restart_policies = policies;
    come(w, n);
    return w;
}

TEST(exit_code, code_65_fails_the_job_under_every_policy)
{
    struct world *w = with_policy(3, JOB_RESTART_ALL(RESTART_ALWAYS));
    exited(w, 1, 1, 65);
    assert_saw(w, "1:FINISH failed: job j failed: exit code 65 (rank 1 on b); not retried: this "
                  "exit code of the script forbids a restart\n");
    assert_saw(w, "unrecoverable");
    assert_false(rdzv_get_run(w->r, "j").is_used_up);
    world_free(w);
}

TEST(exit_code, code_65_counts_after_another_fault_of_the_epoch)
{
    struct world *w = with_policy(3, JOB_RESTART_ALL(RESTART_ON_FAILURE));
    exited(w, 0, 1, 1);
    assert_not_saw(w, "FINISH");
    exited(w, 1, 1, 65);
    assert_saw(w, "2:FINISH failed: job j failed: exit code 65");
    world_free(w);
}

TEST(exit_code, code_below_128_ends_the_job_at_once)
{
    struct world *w = with_policy(1, JOB_RESTART_ALL(RESTART_EXIT_CODE));
    exited(w, 0, 1, 127);
    assert_saw(
        w, "0:FINISH failed: job j failed: exit code 127 (rank 0 on a); not retried: a worker of "
           "this job has restart policy ExitCode\n");
    assert_false(rdzv_get_run(w->r, "j").is_used_up);
    world_free(w);
}

static void goes_on_after(struct msg_exited exited_, uint32_t policy)
{
    struct world *w = with_policy(1, JOB_RESTART_ALL(policy));
    exited_.epoch = 1;
    exited_as(w, 0, exited_);
    assert_not_saw(w, "FINISH");
    ready(w, 0, 2);
    pass(w, 1000);
    assert_string_equal(job_state(w), "running");
    world_free(w);
}

TEST(exit_code, code_from_128_or_a_signal_charges_a_restart)
{
    goes_on_after((struct msg_exited){.code = 128}, RESTART_EXIT_CODE);
    goes_on_after((struct msg_exited){.code = 255}, RESTART_EXIT_CODE);
    goes_on_after((struct msg_exited){.signal = 11}, RESTART_EXIT_CODE);
    /* It was ended, and did not exit so. */
    goes_on_after((struct msg_exited){.code = 1, .end = ENDING_PROGRESS_TIMEOUT},
                  RESTART_EXIT_CODE);
}

TEST(exit_code, code_explained_by_a_loss_is_not_charged)
{
    struct world *w = with_policy(2, JOB_RESTART_ALL(RESTART_EXIT_CODE));
    w->renews[1] = false; /* its machine has gone */
    pass(w, 5000);
    exited(w, 0, 1, 1);
    ready(w, 0, 2);
    pass(w, TTL_HELD_MS);
    assert_saw(w, "a lost node explains it");
    assert_not_saw(w, "FINISH");
    pass(w, FENCE_HELD_MS);
    assert_string_equal(job_state(w), "running");
    world_free(w);
}

TEST(exit_code, code_of_a_served_worker_ends_the_job)
{
    struct world *w = a_served_job(1, 2);
    w->join.spec.restart_policies =
        job_restart_set(JOB_RESTART_ALL(RESTART_ON_FAILURE), TASK_WORKER, RESTART_EXIT_CODE);
    come(w, 4);
    all_listen(w, 4, 1);
    progress(w, 0, 1, 1);
    crashes(w, 3, 0);
    assert_saw(w, "RESTART epoch=1");
    exited_as(w, 3, (struct msg_exited){.epoch = 1, .code = 9, .restart = 1});
    assert_int_equal(times_seen(w, "FINISH failed"), 4);
    assert_saw(w,
               "exit code 9 (worker-1 on d); not retried: a worker of this job has restart policy");
    world_free(w);
}

TEST(always, consecutive_failed_epochs_end_the_job)
{
    struct world *w = with_policy(1, JOB_RESTART_ALL(RESTART_ALWAYS));
    for (uint64_t epoch = 1; epoch <= 4; epoch++) {
        exited(w, 0, epoch, 0);
        ready(w, 0, epoch + 1);
        pass(w, 8000);
        assert_string_equal(job_state(w), "running");
    }
    exited(w, 0, 5, 0);
    assert_saw(w,
               "FINISH failed: job j failed: 5 consecutive epochs made no progress; the last one: "
               "exit code 0 (rank 0 on a)");
    world_free(w);
}

TEST(always, success_that_crosses_a_stop_restarts_the_job)
{
    struct world *w = with_policy(2, JOB_RESTART_ALL(RESTART_ALWAYS));
    exited(w, 1, 1, 9);
    exited(w, 0, 1, 0);
    assert_not_saw(w, "FINISH");
    world_free(w);
}

TEST(always, policy_of_the_evaluator_restarts_it_or_not)
{
    static const struct {
        uint32_t policy, code;
        bool again;
    } ends[] = {{RESTART_ALWAYS, 0, true},     {RESTART_ON_FAILURE, 0, false},
                {RESTART_ON_FAILURE, 1, true}, {RESTART_NEVER, 1, false},
                {RESTART_EXIT_CODE, 3, false}, {RESTART_EXIT_CODE, 130, true},
                {RESTART_NEVER, 42, true}};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct world *w = a_world(1, 1);
        w->join.spec.evaluator = true;
        w->join.spec.restart_policies = job_restart_set(0, TASK_EVALUATOR, ends[i].policy);
        come(w, 2);
        ready(w, 1, 2);
        assert_saw(w, " evaluates\n"); /* b does, in an epoch of its own */
        exited(w, 1, 2, ends[i].code);
        pass(w, 5000);
        if ((strstr(w->log, "RESTART epoch=2") != NULL) != ends[i].again) {
            fail_msg("row %zu, but:\n%s", i, w->log);
        }
        assert_string_equal(job_state(w), "running");
        world_free(w);
    }
}
