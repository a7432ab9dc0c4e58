/* tests/unit/server_core/test_reconnect.c: served workers and evaluators whose connection breaks
 * while something happens to them. */
#include "tests/unit/server_core/operator.h"
#include "tests/unit/server_core/plan.h"

/* a chief, b ps, c and d workers; the chief has told a step. */
static struct world *a_serving_job(void)
{
    struct world *w = a_world(1, 2);
    w->join.spec.n_ps = 1;
    w->join.spec.chief = true;
    w->join.spec.gather_ms = 100;
    w->join.spec.max_restarts = 100;
    come(w, 4);
    for (uint32_t i = 1; i < 4; i++) {
        trainer_listens(w, i, 1);
    }
    return w;
}

static void steps(struct world *w)
{
    tells(w, 0, (struct msg_progress){.epoch = 1, .has_step = true, .step = 1});
}

static void crashes(struct world *w, uint32_t session, uint64_t epoch, uint64_t restart)
{
    exited_as(w, session, (struct msg_exited){.epoch = epoch, .signal = 9, .restart = restart});
}

/* … on a new connection, with what its last trainer's end was. */
static void comes_back(struct world *w, uint32_t session, const char *node, uint64_t epoch,
                       uint64_t restart)
{
    struct msg_exited last = {.epoch = epoch, .signal = 9, .restart = restart, .tail = ""};
    w->join.highest_epoch = epoch;
    w->join.exited = &last;
    join(w, session, node);
    w->join.exited = NULL;
    w->join.highest_epoch = 0;
}

TEST(reconnect, waiting_restart_continues_to_wait)
{
    struct world *w = a_serving_job(); /* without a step: it pauses */
    crashes(w, 2, 1, 0);
    assert_saw(w, "~restarts job=j node=c epoch=1 number=1");
    cut(w, 2);
    comes_back(w, 7, "c", 1, 0);
    assert_saw(w, "7:NOTED epoch=1\n");
    assert_not_saw(w, "~restarts"); /* the same end */
    assert_not_saw(w, "RESTART");
    pass(w, 1000);
    assert_saw(w, "7:RESTART epoch=1 number=1\n");
    world_free(w);
}

TEST(reconnect, abandoned_slot_stays_empty)
{
    struct world *w = a_serving_job();
    steps(w);
    for (uint64_t n = 0; n <= 3; n++) {
        crashes(w, 2, 1, n);
    }
    assert_saw(w, "~worker_missing job=j node=c epoch=1 number=1 repeated restarts failed");
    noticed(w, 2, NOTICE_PREEMPT, 60000);
    assert_not_saw(w, "STOP"); /* nothing runs there */
    cut(w, 2);
    comes_back(w, 7, "c", 1, 3);
    assert_saw(w, "7:NOTED epoch=1\n");
    assert_not_saw(w, "RESTART");
    assert_not_saw(w, "STOP");
    assert_string_equal(job_state(w), "running");
    world_free(w);
}

TEST(reconnect, impossible_restart_leaves_the_slot_empty)
{
    struct world *w = a_serving_job();
    steps(w);
    crashes(w, 2, 1, 0);
    cut(w, 2);
    comes_back(w, 7, "c", 1, 0);
    int told = 0;
    for (; strstr(w->log, "7:RESTART epoch=1 number=1\n"); told++) {
        comes_back(w, 7, "c", 1, 0); /* as it was */
    }
    assert_in_range(told, 2, 10);
    assert_saw(w, "~worker_missing job=j node=c epoch=1 number=1 node_lost");
    world_free(w);
}

/* --- the evaluator ---------------------------------------------------------------------------- */

/* a chief, b ps, c worker, d evaluator in epoch 2. */
static struct world *an_evaluated_job(void)
{
    struct world *w = a_world(1, 1);
    w->join.spec.n_ps = 1;
    w->join.spec.chief = true;
    w->join.spec.gather_ms = 100;
    w->join.spec.evaluator = true;
    come(w, 4);
    ready(w, 3, 2);
    assert_saw(w, "3:START epoch=2 rank=3 world=3 nodes=3 cause=start run=1 fence=0");
    w->join.evaluates = true;
    return w;
}

TEST(reconnect, evaluator_without_start_gets_it_again)
{
    struct world *w = an_evaluated_job();
    cut(w, 3);
    w->join.evaluates = false; /* it knows of none */
    w->join.highest_epoch = 1;
    join(w, 7, "d");
    assert_saw(w, "7:START epoch=2 rank=3 world=3 nodes=3 cause=start run=1 fence=0");
    assert_saw(w, " evaluates\n");
    w->join.highest_epoch = 2; /* it has had it, and gave it up */
    cut(w, 7);
    join(w, 8, "d");
    assert_not_saw(w, "START");
    assert_not_saw(w, "STOP");
    world_free(w);
}

TEST(reconnect, repeated_exit_of_an_evaluator_counts_once)
{
    struct world *w = an_evaluated_job();
    cut(w, 3);
    comes_back(w, 7, "d", 2, 0);
    assert_saw(w, "7:NOTED epoch=2\n");
    assert_saw(w, "~evaluator job=j node=d epoch=1 number=137 ended");
    crashes(w, 7, 2, 0);
    assert_not_saw(w, "~evaluator");
    pass(w, 1000);
    assert_saw(w, "7:RESTART epoch=2 number=1\n");
    cut(w, 7); /* which was lost */
    comes_back(w, 8, "d", 2, 0);
    assert_not_saw(w, "~evaluator job=j node=d epoch=1 number=137 ended");
    assert_saw(w, "8:RESTART epoch=2 number=1\n");
    world_free(w);
}

TEST(reconnect, new_process_does_not_inherit_the_evaluator)
{
    struct world *w = an_evaluated_job();
    cut(w, 3);
    w->join.evaluates = false;
    w->join.pid = 99; /* an image with a baked id */
    join(w, 7, "d");
    assert_not_saw(w, "7:START epoch=2");
    assert_not_saw(w, "~fence");
    world_free(w);
}
