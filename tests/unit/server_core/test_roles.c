/* tests/unit/server_core/test_roles.c: jobs with chief, ps and evaluator: rank assignment, what a
 * loss means, and what is restarted within an epoch. */
#include "tests/unit/server_core/operator.h"
#include "tests/unit/server_core/plan.h"
#include "tests/unit/server_core/served_fixture.h"

/* --- who sits where --------------------------------------------------------------------------- */

TEST(roles, table_lists_only_connected_nodes)
{
    struct world *w = a_served_job(1, 2);
    join(w, 0, "a");
    ready(w, 0, 1);
    join(w, 1, "b");
    ready(w, 1, 1);
    pass(w, 1000000);
    assert_string_equal(job_state(w), "waiting");
    join(w, 2, "c");
    ready(w, 2, 1);
    pass(w, 100);
    assert_saw(w, "START epoch=1 rank=1 world=3");
    world_free(w);
}

TEST(roles, node_pinned_to_evaluator_is_no_worker)
{
    struct world *w = a_served_job(1, 2);
    w->join.spec.evaluator = true;
    w->join.has_role = true;
    w->join.role = TASK_EVALUATOR;
    come(w, 2);
    w->join.has_role = false;
    join(w, 2, "c");
    ready(w, 2, 1);
    join(w, 3, "d");
    ready(w, 3, 1);
    pass(w, 1000);
    assert_string_equal(job_state(w), "waiting"); /* an evaluator alone is no job */
    join(w, 4, "e");
    ready(w, 4, 1);
    pass(w, 1000);
    assert_saw(w, "START epoch=1 rank=1 world=3");
    world_free(w);
}

TEST(roles, second_pinned_chief_is_a_spare)
{
    struct world *w = a_served_job(1, 2);
    w->join.has_role = true;
    w->join.role = TASK_CHIEF;
    join(w, 0, "a");
    ready(w, 0, 1);
    join(w, 1, "b");
    ready(w, 1, 1);
    w->join.has_role = false;
    join(w, 2, "c");
    ready(w, 2, 1);
    pass(w, 1000);
    assert_string_equal(job_state(w), "waiting"); /* a chief is no ps */
    join(w, 3, "d");
    ready(w, 3, 1);
    pass(w, 1000);
    assert_string_equal(job_state(w), "running");
    ready(w, 1, 2);
    assert_int_equal(role_of(w, "b"), ROLE_SPARE);
    world_free(w);
}

TEST(roles, agent_with_other_roles_is_refused_with_both)
{
    struct world *w = a_served_job(1, 1);
    come(w, 1);
    w->join.spec.n_ps = 2;
    join(w, 1, "b");
    assert_saw(w, "REFUSED size_mismatch: job j was opened with --nnodes=1:1 --nproc-per-node=1 "
                  "--ps=1 --chief, this node requests --nnodes=1:1 --nproc-per-node=1 --ps=2 "
                  "--chief\n");
    w->join.spec.n_ps = 1;
    w->join.has_role = true;
    w->join.role = TASK_EVALUATOR; /* the job has none */
    assert_int_equal(try_join(w, 2, "c"), TFE_EINVAL);
    world_free(w);
}

/* --- ps and chief ----------------------------------------------------------------------------- */

TEST(served, job_resized_to_no_ps_can_be_cancelled_before_its_next_epoch)
{
    struct disk disk;
    struct world *w = a_served_job(1, 1);
    w->disk = &disk;
    come(w, 3);
    for (uint32_t i = 3; i-- > 0;) {
        goodbye(w, i);
    }
    assert_string_equal(job_state(w), "waiting");
    w->join = usual_join(2, 2); /* the command was edited */
    join(w, 3, "d");
    assert_saw(w, "3:WELCOME");
    stop_job(w);
    pass(w, 60000);
    assert_not_saw(w, "~write_failed");
    assert_string_equal(job_state(w), "cancelled");
    assert_int_equal(disk.record.epoch_ps, 0);
    world_free(w);
}

/* Its agent goes on renewing while it cannot end its trainer, and its fence moved on with that. */
TEST(served, hanging_worker_does_not_delay_the_chief)
{
    struct world *w = a_serving_job(1, 2);
    cut(w, 0);
    pass(w, TTL_HELD_MS);
    assert_saw(w, "2:STOP epoch=1\n");
    stopped_and_ready(w, 1, 1);
    stopped_and_ready(w, 3, 1);
    join(w, 5, "f");
    ready(w, 5, 2);
    for (int n = 0; n < 100 && times_seen(w, "START epoch=2") == 0; n++) {
        pass(w, 5000);
    }
    assert_saw(w, "START epoch=2");
    world_free(w);
}

TEST(served, ps_run_until_the_saving_chief_has_ended)
{
    struct world *w = a_serving_job(1, 3);
    drain(w, "b"); /* the ps */
    pass(w, 2000);
    assert_saw(w, "0:STOP epoch=1 planned\n");
    assert_not_saw(w, "1:STOP");
    exited_as(w, 0, (struct msg_exited){.epoch = 1, .stopped = true});
    assert_saw(w, "1:STOP epoch=1 planned\n");
    assert_saw(w, "2:STOP epoch=1 planned\n");
    world_free(w);
}

/* It was told at once, and the chief lost the variables that it was saving. */
TEST(served, reconnected_ps_continues_while_the_chief_saves)
{
    struct world *w = a_serving_job(1, 2);
    drain(w, "a");
    pass(w, 2000);
    assert_saw(w, "0:STOP epoch=1 planned");
    cut(w, 1);
    w->join.highest_epoch = w->join.running_epoch = 1;
    join(w, 7, "b");
    assert_not_saw(w, "7:STOP");
    exited_as(w, 0, (struct msg_exited){.epoch = 1, .stopped = true});
    assert_saw(w, "7:STOP epoch=1");
    world_free(w);
}

/* It was told to stop at once, and its agent ended it in the middle of what it saved; its ps had
 * been told when its connection broke. */
TEST(served, chief_that_loses_its_connection_continues_to_save)
{
    struct world *w = a_serving_job(1, 2);
    drain(w, "b");
    pass(w, 2000);
    assert_saw(w, "0:STOP epoch=1 planned\n");
    cut(w, 0);
    assert_not_saw(w, "1:STOP");
    w->join.highest_epoch = w->join.running_epoch = 1;
    join(w, 7, "a");
    assert_saw(w, "7:STOP epoch=1 planned\n");
    assert_not_saw(w, "1:STOP");
    exited_as(w, 7, (struct msg_exited){.epoch = 1, .stopped = true});
    assert_saw(w, "1:STOP epoch=1 planned\n");
    world_free(w);
}

TEST(served, restarted_server_adopts_an_epoch_with_an_empty_slot)
{
    struct disk disk = {0};
    struct world *w = a_served_job(1, 2);
    w->disk = &disk;
    come(w, 4);
    all_listen(w, 4, 1);
    struct world *later = a_served_job(1, 2);
    assert_int_equal(rdzv_restore(later->r, (struct tfe_mono){later->now}, &disk.record), 0);
    assert_int_equal(disk.record.spec.n_ps, 1);
    assert_true(disk.record.spec.chief);
    later->join.running_epoch = later->join.highest_epoch = 1;
    join(later, 0, "a");
    join(later, 1, "b");
    later->join.restart = 4;
    join(later, 3, "d");
    progress(later, 0, 1, 5);
    pass(later, 2 * TTL_HELD_MS);
    assert_saw(later, "~worker_missing job=j node=c");
    assert_not_saw(later, "STOP");
    assert_string_equal(job_state(later), "running");
    world_free(later);
    world_free(w);
}

/* The node of this session is back at a server that has lost its disk. */
static void reports(struct world *w, uint32_t session, uint32_t rank,
                    const struct msg_exited *exited)
{
    const struct msg_row rows[] = {{0, "a", 1000, TASK_CHIEF, 0},
                                   {1, "c", 1200, TASK_WORKER, 1},
                                   {2, "d", 1300, TASK_WORKER, 1},
                                   {3, "b", 1100, TASK_PS, 3}};
    struct msg_running running = {.run = 1,
                                  .rank = rank,
                                  .nodes = 4,
                                  .world = 4,
                                  .digest = table_digest(rows, 4),
                                  .host = rows[rank].host,
                                  .ports = &rows[rank].port,
                                  .n_ports = 1,
                                  .cause = CAUSE_START};
    struct msg_join plain = w->join;
    w->join.running_epoch = exited ? 0 : 5;
    w->join.highest_epoch = 5;
    w->join.running = &running;
    w->join.exited = exited;
    join(w, session, rows[rank].host);
    w->join = plain;
}

/* It had followed RESTART 1 of the last server, and took that of the next one for the same. */
TEST(served, restart_number_exceeds_those_before_the_lost_database)
{
    struct msg_exited ended = {.epoch = 5, .code = 1, .restart = 1, .tail = ""};
    struct world *w = a_served_job(1, 2);
    reports(w, 0, 0, NULL);
    reports(w, 1, 3, NULL);
    reports(w, 2, 1, &ended);
    reports(w, 3, 2, NULL);
    assert_string_equal(job_state(w), "running");
    assert_saw(w, "2:NOTED epoch=5");
    assert_saw(w, "2:RESTART epoch=5 number=2\n");
    assert_not_saw(w, "STOP");
    world_free(w);
}

/* --- the evaluator ---------------------------------------------------------------------------- */

/* It was taken for a spare, and the epoch ended for it: the next one had as many workers. */
TEST(evaluator, starting_evaluator_causes_no_growth)
{
    struct world *w = a_served_job(1, 2);
    w->join.spec.evaluator = true;
    w->join.spec.grow_now = true;
    w->join.spec.gather_ms = 0;
    come(w, 4); /* a chief, b ps, c worker, d evaluator */
    ready(w, 3, 2);
    assert_saw(w, "3:START epoch=2");
    all_listen(w, 3, 1);
    progress(w, 0, 1, 1);
    join(w, 5, "f");
    goodbye(w, 3);
    ready(w, 5, 3); /* the evaluator was there for less than a second: the next one waits */
    assert_not_saw(w, "STOP");
    pass(w, 1000);
    assert_saw(w, "5:START epoch=3 rank=3 world=3");
    assert_not_saw(w, "STOP");
    world_free(w);
}

/* One was kept back for it in each epoch, and planned in again. */
TEST(evaluator, finished_evaluator_does_not_reserve_a_spare)
{
    struct world *w = a_served_job(1, 2);
    w->join.spec.evaluator = true;
    come(w, 4);
    pass(w, 30000); /* a chief, b ps, c worker; d evaluates */
    ready(w, 3, 2);
    assert_saw(w, " evaluates\n");
    all_listen(w, 3, 1);
    progress(w, 0, 1, 1);
    exited_as(w, 3, (struct msg_exited){.epoch = 2});
    ready(w, 3, 3);
    pass(w, 30000);
    progress(w, 0, 1, 2);
    for (uint32_t s = 0; s < 3; s++) {
        exited_as(w, s, (struct msg_exited){.epoch = 1, .stopped = true});
        ready(w, s, 3);
    }
    assert_saw(w, "START epoch=3 rank=2 world=4");
    world_free(w);
}

/* Each took a number, and all spares were asked again for the next one. */
TEST(evaluator, failing_evaluator_uses_one_number_per_second)
{
    struct world *w = an_evaluated_job();
    w->join.highest_epoch = 1;
    join(w, 3, "d"); /* it came after the end of the lease */
    ready(w, 3, 3);
    assert_not_saw(w, "START epoch=3");
    pass(w, 1000);
    assert_saw(w, "3:START epoch=3");
    world_free(w);
}

TEST(evaluator, exit_grace_follows_the_success_of_the_chief)
{
    struct world *w = an_evaluated_job();
    exited(w, 0, 1, 0);
    assert_not_saw(w, "FINISH");
    assert_saw(w, "3:STOP epoch=2 planned\n");
    pass(w, 59999);
    assert_not_saw(w, "FINISH");
    pass(w, 1);
    assert_saw(w, "3:FINISH succeeded");
    world_free(w);
}

TEST(evaluator, restarted_server_adopts_the_running_evaluator)
{
    struct disk disk = {0};
    struct world *w = a_served_job(1, 1);
    w->join.spec.evaluator = true;
    w->disk = &disk;
    come(w, 4);
    struct world *later = a_served_job(1, 1);
    later->join.spec.evaluator = true;
    assert_int_equal(rdzv_restore(later->r, (struct tfe_mono){later->now}, &disk.record), 0);
    later->join.running_epoch = later->join.highest_epoch = 2;
    later->join.evaluates = true;
    join(later, 3, "d");
    assert_saw(later, "~evaluator job=j node=d epoch=1 number=0 has reconnected");
    assert_not_saw(later, "STOP");
    assert_not_saw(later, "PREPARE");
    later->join.evaluates = false;
    later->join.running_epoch = 1;
    join(later, 0, "a");
    assert_not_saw(later, "~wait_fence");
    world_free(later);
    world_free(w);
}
