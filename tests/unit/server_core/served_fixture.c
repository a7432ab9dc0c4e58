/* tests/unit/server_core/served_fixture.c: fixtures of jobs with chief and ps. */
#include "tests/unit/server_core/served_fixture.h"

struct world *a_served_job(uint32_t min, uint32_t max)
{
    struct world *w = a_world(min, max);
    w->join.spec.n_ps = 1;
    w->join.spec.chief = true;
    w->join.spec.gather_ms = 100;
    return w;
}

void all_stop(struct world *w, uint32_t n)
{
    exited_as(w, 0, (struct msg_exited){.epoch = 1, .stopped = true});
    ready(w, 0, 2);
    for (uint32_t i = 1; i < n; i++) {
        stopped_and_ready(w, i, 1);
    }
}

void progress(struct world *w, uint32_t session, uint64_t epoch, uint64_t step_)
{
    assert_int_equal(say(w, session,
                         &(struct tfe_msg){.type = MSG_PROGRESS,
                                           .u.progress = {.epoch = epoch,
                                                          .has_step = true,
                                                          .step = step_,
                                                          .saves = (uint32_t)step_,
                                                          .has_saved = true,
                                                          .saved_step = step_}}),
                     0);
}

void all_listen(struct world *w, uint32_t n, uint64_t epoch)
{
    for (uint32_t i = 1; i < n; i++) {
        trainer_listens(w, i, epoch);
    }
}

struct world *a_serving_job(uint32_t min, uint32_t max)
{
    struct world *w = a_served_job(min, max);
    come(w, max + 2);
    all_listen(w, max + 2, 1);
    progress(w, 0, 1, 1);
    assert_string_equal(job_state(w), "running");
    return w;
}

void crashes(struct world *w, uint32_t session, uint64_t restart)
{
    exited_as(w, session, (struct msg_exited){.epoch = 1, .signal = 9, .restart = restart});
}

struct world *an_evaluated_job(void)
{
    struct world *w = a_served_job(1, 1);
    w->join.spec.evaluator = true;
    come(w, 4); /* chief a, ps b, worker c */
    ready(w, 3, 2);
    assert_saw(w, "3:START epoch=2 rank=3 world=3 nodes=3 cause=start run=1 fence=0");
    assert_saw(w, " evaluates\n");
    all_listen(w, 3, 1);
    progress(w, 0, 1, 1);
    return w;
}
