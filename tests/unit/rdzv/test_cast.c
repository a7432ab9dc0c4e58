/* tests/unit/rdzv/test_cast.c: who gets which place where several could have it. */
#include "tests/unit/rdzv/operator.h"
#include "tests/unit/rdzv/plan.h"

static struct world *a_served_job(uint32_t min, uint32_t max)
{
    struct world *w = a_world(min, max);
    w->join.spec.n_ps = 1;
    w->join.spec.chief = true;
    w->join.spec.gather_ms = 100;
    return w;
}

static void comes(struct world *w, uint32_t session, const char *node, bool durable)
{
    w->join.durable = durable;
    join(w, session, node);
    ready(w, session, 1);
}

TEST(ps, is_on_a_durable_machine_where_two_are)
{
    struct world *w = a_served_job(2, 2);
    comes(w, 0, "a", false);
    comes(w, 1, "b", false);
    comes(w, 2, "c", true);
    comes(w, 3, "d", true);
    assert_saw(w, "3:START epoch=1 rank=3 world=4"); /* the ps; c is the chief */
    world_free(w);
}

TEST(ps, is_on_a_machine_that_stays)
{
    struct world *w = a_served_job(2, 2);
    comes(w, 0, "a", false);
    comes(w, 1, "b", false);
    noticed(w, 1, NOTICE_REBALANCE, MSG_UNSET);
    comes(w, 2, "c", false);
    comes(w, 3, "d", false);
    assert_saw(w, "2:START epoch=1 rank=3 world=4"); /* else it were b */
    world_free(w);
}

TEST(evaluator, is_of_several_who_is_pinned_to_it)
{
    struct world *w = a_served_job(1, 1);
    w->join.spec.evaluator = true;
    come(w, 4);
    ready(w, 3, 2); /* d evaluates */
    join(w, 4, "e");
    ready(w, 4, 3);
    w->join.has_role = true;
    w->join.role = TASK_EVALUATOR;
    join(w, 5, "f");
    ready(w, 5, 3);
    w->join.has_role = false;
    join(w, 6, "g");
    ready(w, 6, 3);
    goodbye(w, 3);
    pass(w, 1000); /* one a second */
    assert_saw(w, "5:START epoch=");
    assert_saw(w, " evaluates\n");
    world_free(w);
}

TEST(served, a_worker_that_cannot_be_missed_ends_the_epoch_when_it_starts_in_vain)
{
    struct world *w = a_served_job(2, 2);
    w->join.spec.max_restarts = 100;
    come(w, 4);
    for (uint32_t i = 1; i < 4; i++) {
        trainer_listens(w, i, 1);
    }
    tells(w, 0, (struct msg_progress){.epoch = 1, .has_step = true, .step = 1});
    for (uint64_t n = 0; n < 3; n++) {
        exited_as(w, 2, (struct msg_exited){.epoch = 1, .signal = 9, .restart = n});
        assert_saw(w, "2:RESTART");
    }
    exited_as(w, 2, (struct msg_exited){.epoch = 1, .signal = 9, .restart = 3});
    assert_not_saw(w, "RESTART");
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 trainer_failed");
    world_free(w);
}
