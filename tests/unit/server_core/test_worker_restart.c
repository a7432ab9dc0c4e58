/* tests/unit/server_core/test_worker_restart.c: served workers: loss, notice and drain start no
 * epoch, and a newcomer fills the slot. */
#include "tests/unit/server_core/operator.h"
#include "tests/unit/server_core/plan.h"
#include "tests/unit/server_core/served_fixture.h"

/* Stopped for the first of two machines that it lacks, it would have stood still for the other. */
TEST(slot, empty_slot_is_filled_only_with_nodes_for_an_epoch)
{
    struct world *w = a_serving_job(3, 3);
    cut(w, 2);
    cut(w, 3);
    pass(w, TTL_HELD_MS);
    join(w, 6, "g");
    ready(w, 6, 2);
    pass(w, 5000);
    progress(w, 0, 1, 7);
    noticed(w, 4, NOTICE_REBALANCE, MSG_UNSET); /* the last one may have to go */
    pass(w, 600000);
    progress(w, 0, 1, 8);
    assert_not_saw(w, "STOP");
    assert_int_equal(step(w, &(struct rdzv_event){.type = RDZV_RESIZE, /* three have places */
                                                  .now = {w->now},
                                                  .job = "j",
                                                  .min_nodes = 2,
                                                  .max_nodes = 2,
                                                  .n_ps = MSG_UNSET}),
                     0);
    pass(w, 5000);
    progress(w, 0, 1, 9);
    assert_saw(w, "0:STOP epoch=1 planned\n");
    world_free(w);
}

/* The first was drained at its time, and then the other: nobody had saved. */
TEST(slot, last_remaining_worker_is_not_drained_with_the_others)
{
    struct world *w = a_serving_job(2, 2);
    noticed(w, 2, NOTICE_PREEMPT, 60000);
    noticed(w, 3, NOTICE_PREEMPT, 60000);
    pass(w, 5000);
    progress(w, 0, 1, 2);
    assert_saw(w, "0:STOP epoch=1 planned\n");
    world_free(w);
}

TEST(slot, lost_slot_is_filled_before_the_evaluator)
{
    struct world *w = a_served_job(2, 2);
    w->join.spec.evaluator = true;
    come(w, 4);
    pass(w, 100);
    all_listen(w, 4, 1);
    progress(w, 0, 1, 1);
    cut(w, 2);
    pass(w, TTL_HELD_MS);
    join(w, 5, "f");
    ready(w, 5, 2);
    pass(w, 5000);
    assert_not_saw(w, "evaluates");
    progress(w, 0, 1, 7);
    assert_saw(w, "0:STOP epoch=1 planned\n");
    world_free(w);
}

TEST(slot, lost_restart_is_sent_again)
{
    struct world *w = a_serving_job(1, 2);
    crashes(w, 2, 0);
    assert_saw(w, "2:RESTART epoch=1 number=1\n");
    cut(w, 2);
    w->join.highest_epoch = 1;
    w->join.exited = &(struct msg_exited){.epoch = 1, .signal = 9, .tail = ""};
    join(w, 7, "c");
    assert_saw(w, "7:RESTART epoch=1 number=1\n"); /* the same: it starts once for each */
    cut(w, 7);
    w->join.exited = NULL;
    w->join.running_epoch = 1;
    w->join.restart = 1;
    join(w, 8, "c");
    assert_not_saw(w, "RESTART");
    assert_not_saw(w, "STOP");
    world_free(w);
}

TEST(slot, slot_of_a_replaced_process_is_empty)
{
    struct world *w = a_serving_job(1, 2);
    cut(w, 2);
    w->join.pid = 5; /* an image with a baked id */
    join(w, 7, "c");
    assert_not_saw(w, "START");
    assert_saw(w, "~worker_missing");
    pass(w, 100000);
    assert_not_saw(w, "START"); /* the first one may run there until its fence */
    world_free(w);
}

/* It stayed empty, with a node there that could have worked. */
TEST(slot, replacing_process_gets_the_slot_at_the_next_checkpoint)
{
    struct world *w = a_serving_job(1, 2);
    w->join.pid = 5;
    join(w, 7, "c");
    assert_saw(w, "2:REFUSED node_replaced");
    assert_saw(w, "~worker_missing");
    assert_not_saw(w, "STOP");
    pass(w, 5000);
    progress(w, 0, 1, 2);
    assert_saw(w, "0:STOP epoch=1 planned\n");
    stopped_and_ready(w, 0, 1); /* the chief first */
    stopped_and_ready(w, 1, 1);
    stopped_and_ready(w, 3, 1);
    ready(w, 7, 2);
    assert_saw(w, "7:TABLE epoch=2"); /* nobody waits for what the first one may still run */
    world_free(w);
}

/* The first process's place waited for its restart: the other one was told it, could follow neither
 * that nor a START, and the epoch was over. */
TEST(slot, waiting_restart_is_not_sent_to_a_replacing_process)
{
    struct world *w = a_serving_job(1, 2);
    exited_as(w, 2, (struct msg_exited){.epoch = 1, .code = 143});
    assert_saw(w, "2:RESTART epoch=1 number=1\n");
    exited_as(w, 2, (struct msg_exited){.epoch = 1, .code = 143, .restart = 1}); /* it waits */
    w->join.pid = 5;
    join(w, 7, "c");
    assert_saw(w, "~worker_missing job=j node=c");
    pass(w, 5000);
    assert_not_saw(w, "START"); /* nor RESTART */
    assert_not_saw(w, "STOP");
    assert_string_equal(job_state(w), "running");
    world_free(w);
}

TEST(slot, waiting_slot_of_a_dead_machine_is_lost)
{
    struct world *w = a_served_job(1, 1);
    for (uint32_t i = 0; i < 3; i++) {
        w->join.proof_hash = i == 2 ? "dc" : NULL;
        join(w, i, name_of(i));
        ready(w, i, 1);
    }
    pass(w, 100);
    all_listen(w, 3, 1);
    exited_as(w, 2, (struct msg_exited){.epoch = 1, .code = 143});
    assert_saw(w, "2:RESTART epoch=1 number=1\n");
    exited_as(w, 2, (struct msg_exited){.epoch = 1, .code = 143, .restart = 1}); /* it waits */
    cut(w, 2);
    assert_not_saw(w, "0:STOP");
    assert_int_equal(say(w, 0, &(struct tfe_msg){.type = MSG_DEATH, .u.death.certificate = "dc"}),
                     0);
    assert_saw(w, "0:STOP epoch=1\n");
    world_free(w);
}

/* Always alone starts it again: for ever, and ever later. */
TEST(slot, repeated_restarts_wait_longer_each_time)
{
    static const int64_t pauses[] = {0, 1000, 2000, 4000, 8000, 16000};
    struct world *w = a_served_job(1, 2);
    w->join.spec.restart_policies = job_restart_set(0, TASK_WORKER, RESTART_ALWAYS);
    come(w, 4);
    all_listen(w, 4, 1);
    progress(w, 0, 1, 1);
    for (uint64_t n = 0; n < 6; n++) {
        exited_as(w, 2, (struct msg_exited){.epoch = 1, .restart = n});
        if (pauses[n] > 0) {
            pass(w, pauses[n] - 1);
            assert_not_saw(w, "RESTART");
            pass(w, 1);
        }
        assert_saw(w, "2:RESTART epoch=1");
        assert_not_saw(w, "worker_done");
    }
    pass(w, 60000); /* it has run for a minute */
    exited_as(w, 2, (struct msg_exited){.epoch = 1, .restart = 6});
    assert_saw(w, "2:RESTART epoch=1 number=7\n");
    world_free(w);
}

/* A worker with its share of the data was started three times, and then all of the job, for
 * ever. */
TEST(slot, success_of_a_worker_completes_its_slot)
{
    static const enum tfe_restart_policy policies[] = {RESTART_ON_FAILURE, RESTART_NEVER,
                                                       RESTART_EXIT_CODE};
    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        struct world *w = a_served_job(1, 2);
        w->join.spec.restart_policies = JOB_RESTART_ALL(policies[i]);
        come(w, 4);
        all_listen(w, 4, 1);
        progress(w, 0, 1, 1);
        exited_as(w, 2, (struct msg_exited){.epoch = 1});
        assert_saw(w, "2:NOTED epoch=1\n");
        assert_saw(w, "~worker_done job=j node=c epoch=1 number=1 -");
        pass(w, 600000);
        progress(w, 0, 1, 2);
        pass(w, 600000);
        assert_not_saw(w, "RESTART");
        assert_not_saw(w, "STOP");
        assert_not_saw(w, "~restarts");
        exited_as(w, 0, (struct msg_exited){.epoch = 1});
        assert_saw(w, "2:FINISH succeeded");
        world_free(w);
    }
}

TEST(slot, slot_completes_before_the_chief_and_as_the_last_worker)
{
    struct world *w = a_served_job(2, 2);
    come(w, 4);
    all_listen(w, 4, 1);
    exited_as(w, 2, (struct msg_exited){.epoch = 1}); /* it tells no steps */
    exited_as(w, 3, (struct msg_exited){.epoch = 1});
    assert_saw(w, "~worker_done job=j node=d epoch=1 number=0 -");
    pass(w, 600000);
    assert_not_saw(w, "START");
    assert_not_saw(w, "STOP");
    assert_string_equal(job_state(w), "running");
    world_free(w);
}

/* The other one's share was missing, with a place that was taken for an empty one. */
TEST(slot, completed_slot_does_not_prevent_restarts_of_others)
{
    struct world *w = a_serving_job(1, 2);
    exited_as(w, 2, (struct msg_exited){.epoch = 1});
    crashes(w, 3, 0);
    assert_saw(w, "3:RESTART epoch=1 number=1\n");
    world_free(w);
}

TEST(slot, completed_slot_survives_reconnect_and_gets_no_spare)
{
    struct world *w = a_serving_job(1, 2);
    exited_as(w, 2, (struct msg_exited){.epoch = 1});
    cut(w, 2);
    w->join.highest_epoch = 1;
    w->join.exited = &(struct msg_exited){.epoch = 1, .tail = ""};
    join(w, 7, "c");
    assert_saw(w, "7:NOTED epoch=1");
    w->join.highest_epoch = 0;
    w->join.exited = NULL;
    join(w, 5, "f");
    ready(w, 5, 2);
    pass(w, 5000);
    progress(w, 0, 1, 7); /* a checkpoint */
    pass(w, 600000);
    assert_not_saw(w, "RESTART");
    assert_not_saw(w, "STOP");
    cut(w, 7); /* nor is its machine needed any more */
    pass(w, TTL_HELD_MS);
    assert_not_saw(w, "~worker_missing");
    assert_not_saw(w, "STOP");
    world_free(w);
}

TEST(slot, completed_slot_counts_as_working_when_another_is_lost)
{
    struct world *w = a_serving_job(1, 2);
    exited_as(w, 2, (struct msg_exited){.epoch = 1});
    cut(w, 3);
    pass(w, TTL_HELD_MS);
    assert_saw(w, "~worker_missing job=j node=d epoch=1 number=0 node_lost");
    assert_not_saw(w, "STOP");
    world_free(w);
}

/* A chief that is lost takes all of them into the next epoch, from the last checkpoint. */
TEST(slot, completed_slot_starts_again_in_the_next_epoch)
{
    struct world *w = a_serving_job(2, 2);
    exited_as(w, 2, (struct msg_exited){.epoch = 1});
    exited(w, 0, 1, 1);
    ready(w, 0, 2);
    ready(w, 2, 2);
    stopped_and_ready(w, 1, 1);
    stopped_and_ready(w, 3, 1);
    assert_saw(w, "2:START epoch=2");
    world_free(w);
}

/* The steps that the others made since were taken for its own when it came back. */
TEST(slot, failed_restarts_count_across_reconnects)
{
    struct world *w = a_served_job(1, 2);
    w->join.spec.max_restarts = 100;
    come(w, 4);
    all_listen(w, 4, 1);
    progress(w, 0, 1, 1);
    for (uint64_t n = 0; n < 3; n++) {
        crashes(w, 2, n);
    }
    trainer_listens(w, 2, 1);
    crashes(w, 2, 3);
    assert_saw(w, "repeated restarts failed");
    progress(w, 0, 1, 9);
    cut(w, 2);
    w->join.highest_epoch = 1;
    w->join.exited = &(struct msg_exited){.epoch = 1, .signal = 9, .restart = 3, .tail = ""};
    join(w, 7, "c");
    assert_saw(w, "7:NOTED epoch=1");
    pass(w, 1000);
    assert_not_saw(w, "RESTART");
    assert_not_saw(w, "STOP");
    world_free(w);
}

/* The STOP was lost with its connection, and nobody told it again: an operator's drain never came
 * to its end. */
TEST(slot, lost_drain_is_sent_again)
{
    struct world *w = a_serving_job(1, 2);
    drain(w, "c");
    assert_saw(w, "2:STOP epoch=1 planned\n");
    cut(w, 2);
    w->join.running_epoch = w->join.highest_epoch = 1;
    join(w, 7, "c");
    assert_saw(w, "7:STOP epoch=1 planned\n");
    trainers_stop(w, 7, 1);
    assert_saw(w, "7:FINISH drained");
    assert_not_saw(w, "0:STOP");
    world_free(w);
}

/* It was started again on a machine that goes away, and nothing drained it then. */
TEST(slot, waiting_slot_of_a_leaving_machine_stays_empty)
{
    struct world *w = a_served_job(1, 2);
    come(w, 4);
    all_listen(w, 4, 1);
    crashes(w, 2, 0); /* before any progress: it waits a second */
    progress(w, 0, 1, 1);
    noticed(w, 2, NOTICE_PREEMPT, 60000);
    assert_saw(w, "~worker_missing job=j node=c epoch=1 number=1 its node is leaving");
    pass(w, 50000);
    assert_not_saw(w, "RESTART");
    assert_not_saw(w, "STOP");
    assert_string_equal(job_state(w), "running");
    world_free(w);
}

/* Let go at once, it left the job with fewer than --min-running. */
TEST(slot, indispensable_waiting_slot_is_not_released)
{
    struct world *w = a_served_job(2, 2);
    w->join.spec.min_running = 2;
    come(w, 4);
    all_listen(w, 4, 1);
    crashes(w, 2, 0);
    progress(w, 0, 1, 1);
    drain(w, "c");
    assert_not_saw(w, "FINISH");
    pass(w, 2000);
    assert_saw(w, "0:STOP epoch=1 planned\n");
    world_free(w);
}

/* The job began anew for it without end. */
TEST(slot, hinted_slot_is_kept_if_the_spare_cannot_fill_it)
{
    struct world *w = a_served_job(2, 2);
    w->join.spec.evaluator = true;
    come(w, 4);
    pass(w, 100);
    all_listen(w, 4, 1);
    progress(w, 0, 1, 1);
    w->join.has_role = true;
    w->join.role = TASK_EVALUATOR;
    join(w, 5, "f");
    ready(w, 5, 2);
    assert_saw(w, " evaluates\n");
    join(w, 6, "g");
    ready(w, 6, 3);
    noticed(w, 2, NOTICE_REBALANCE, MSG_UNSET); /* a worker */
    progress(w, 0, 1, 2);
    pass(w, 200000);
    assert_not_saw(w, "STOP");
    w->join.has_role = false;
    join(w, 7, "h");
    ready(w, 7, 3);
    pass(w, 2000);
    progress(w, 0, 1, 3);
    assert_saw(w, "0:STOP epoch=1 planned\n");
    world_free(w);
}

TEST(slot, hinted_slot_is_left_if_a_spare_frees_another_node)
{
    struct world *w = a_served_job(2, 2);
    come(w, 4);
    all_listen(w, 4, 1);
    progress(w, 0, 1, 1);
    w->join.has_role = true;
    w->join.role = TASK_PS;
    join(w, 5, "f");
    ready(w, 5, 2);
    noticed(w, 2, NOTICE_REBALANCE, MSG_UNSET); /* a worker, which the ps can be, too */
    pass(w, 2000);
    progress(w, 0, 1, 2);
    exited_as(w, 0, (struct msg_exited){.epoch = 1, .stopped = true});
    for (uint32_t s = 0; s < 4; s++) {
        stopped_and_ready(w, s, 1);
    }
    assert_saw(w, "1:START epoch=2 rank=");
    assert_saw(w, "5:START epoch=2 rank=3");
    assert_not_saw(w, "2:START");
    world_free(w);
}
