/* tests/unit/server_core/test_view.c: views for the I/O layer: the node of a session, since when a
 * job waits. */
#include "tests/unit/server_core/operator.h"
#include "tests/unit/server_core/plan.h"

TEST(view, session_shows_its_node_and_slot)
{
    struct world *w = a_running_world(1, 2, 2);
    struct rdzv_node place;
    assert_int_equal(rdzv_get_session_node(w->r, 1, &place), 0);
    assert_string_equal(place.job, "j");
    assert_string_equal(place.node, "b");
    assert_int_equal(place.epoch, 1);
    assert_true(place.has_rank);
    assert_int_equal(place.rank, 1);
    assert_int_equal(place.n_members, 2);
    assert_int_equal(rdzv_get_node(w->r, "j", "b", &place), 0);
    assert_true(place.is_member);
    assert_int_equal(place.session, 1);
    assert_int_equal(rdzv_get_node(w->r, "j", "c", &place), TFE_ENOENT);
    assert_int_equal(rdzv_get_node(w->r, "k", "b", &place), TFE_ENOENT);
    goodbye(w, 1);
    assert_int_equal(rdzv_get_session_node(w->r, 1, &place), TFE_ENOENT);
    assert_int_equal(rdzv_get_session_node(w->r, UINT32_MAX, &place), TFE_ENOENT);
    world_free(w);
}

static struct msg_status_job job_row(struct world *w, const char *after)
{
    assert_int_equal(order(w, RDZV_TICK, NULL, NULL), 0); /* as late as it is */
    struct msg_status_job row = {0};
    char room[MSG_SENTENCE_MAX];
    assert_int_equal(rdzv_view_job(w->r, after, &row), 0);
    rdzv_view_waits(w->r, &row, room);
    return row;
}

static void assert_state(struct world *w, enum tfe_job_state state, int64_t since_ms)
{
    struct msg_status_job row = job_row(w, NULL);
    assert_string_equal(msg_job_state_name(row.state), msg_job_state_name(state));
    assert_int_equal(row.since.ms, since_ms);
}

TEST(view, job_state_has_its_time)
{
    struct world *w = a_world(2, 3);
    w->wall = 1000;
    join(w, 0, "a");
    ready(w, 0, 1);
    w->wall = 2000;
    pass(w, 5000);
    assert_string_equal(job_state(w), "waiting");
    assert_state(w, STATE_WAITING, 1000);
    join(w, 1, "b");
    ready(w, 1, 1);
    w->wall = 3000;
    pass(w, 1000);
    assert_string_equal(job_state(w), "gathering");
    assert_state(w, STATE_STARTING, 2000);
    pass(w, 2000);
    assert_string_equal(job_state(w), "running");
    assert_state(w, STATE_RUNNING, 3000);
    w->wall = 4000;
    exited(w, 0, 1, 1);
    assert_state(w, STATE_RESTARTING, 4000);
    world_free(w);
}

TEST(view, job_whose_failure_is_final_unless_a_node_is_lost_does_not_restart)
{
    struct world *w = a_world(2, 2);
    char reason[MSG_SENTENCE_MAX];
    w->join.spec.max_restarts = 0;
    come(w, 2);
    pass(w, 3000);
    tells(w, 0, (struct msg_progress){.epoch = 1, .has_step = true, .step = 5});
    w->wall = 4000;
    exited(w, 1, 1, 1);
    struct msg_status_job row = job_row(w, NULL);
    rdzv_view_reason(w->r, &row, reason);
    assert_int_equal(row.state, STATE_RUNNING);
    assert_string_equal(row.reason, "exit code 1 (rank 1 on b)");
    assert_int_equal(row.retry_ms, 0);
    pass(w, 20000);
    assert_state(w, STATE_FAILED, 4000);
    world_free(w);

    w = a_world(2, 2); /* a lost node explains the failure: the job restarts */
    w->join.spec.max_restarts = 0;
    come(w, 2);
    pass(w, 3000);
    tells(w, 0, (struct msg_progress){.epoch = 1, .has_step = true, .step = 5});
    exited(w, 1, 1, 1);
    cut(w, 0);
    pass(w, 20000);
    assert_int_equal(job_row(w, NULL).state, STATE_RESTARTING);
    world_free(w);
}

TEST(view, job_that_an_operator_cancels_has_the_same_times_and_one_reason)
{
    struct world *w = a_running_world(1, 1, 1);
    char reason[MSG_SENTENCE_MAX];
    w->wall = 5000;
    w->holds_writes = true;
    stop_job(w);
    noticed(w, 0, NOTICE_SIGNAL, 30000); /* the pool ends the job's agents */
    assert_not_saw(w, "~node_noticed");
    trainers_stop(w, 0, 1);
    w->wall = 6000;
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    struct msg_status_job row = job_row(w, NULL);
    rdzv_view_reason(w->r, &row, reason);
    assert_int_equal(row.state, STATE_CANCELLED);
    assert_string_equal(row.reason, "it was cancelled by an operator");
    assert_int_equal(row.ended.ms, 5000);
    assert_int_equal(row.since.ms, 5000);
    world_free(w);
}

TEST(view, set_aside_jobs_are_listed_by_name)
{
    struct world *w = a_running_world(1, 1, 1);
    assert_int_equal(rdzv_set_aside(w->r, "no name!"), TFE_EINVAL);
    static const char *const bad[] = {"z", "a", "k"};
    w->flaky.fail_at = w->flaky.asked + 1;
    assert_int_equal(rdzv_set_aside(w->r, bad[0]), TFE_ENOMEM);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rdzv_set_aside(w->r, bad[i]), 0);
    }
    static const char *const all[] = {"a", "j", "k", "z"};
    const char *after = NULL;
    for (int i = 0; i < 4; i++) {
        after = job_row(w, after).job;
        assert_string_equal(after, all[i]);
    }
    struct msg_status_job row;
    assert_int_equal(rdzv_view_job(w->r, after, &row), TFE_ENOENT);
    assert_int_equal(rdzv_view_job(w->r, "no name!", &row), TFE_ENOENT);
    assert_int_equal(order(w, RDZV_FORGET, "k", NULL), 0); /* neither the first nor the last */
    assert_string_equal(job_row(w, "j").job, "z");
    world_free(w);
}

TEST(view, wait_for_growth_has_its_start_time)
{
    struct world *w = an_adopted_world(2);
    join(w, 1, "b");
    ready(w, 1, 5);
    pass(w, 60000);
    assert_true(job_row(w, NULL).waits_since_ms >= 60000);
    world_free(w);
}

TEST(view, memory_of_a_job_is_the_sum_of_its_agents)
{
    struct world *w = a_world(2, 3);
    for (unsigned i = 0; i < 3; i++) {
        w->memory[i].bytes = 1000 << i;
        join(w, i, (const char[][2]){"a", "b", "c"}[i]);
    }
    assert_int_equal(job_row(w, NULL).memory_bytes, 0);
    for (unsigned i = 0; i < 3; i++) {
        ready(w, i, 1);
    }
    pass(w, 1000);
    assert_string_equal(job_state(w), "running");
    assert_int_equal(job_row(w, NULL).memory_bytes, 7000);
    assert_int_equal(say(w, 1,
                         &(struct tfe_msg){.type = MSG_PROGRESS,
                                           .u.progress = {.epoch = 1, .memory = {.bytes = 500}}}),
                     0);
    assert_int_equal(job_row(w, NULL).memory_bytes, 5500);
    cut(w, 1); /* it may have kept it, and come back */
    assert_int_equal(job_row(w, NULL).memory_bytes, 5500);
    goodbye(w, 2);
    assert_int_equal(job_row(w, NULL).memory_bytes, 1500);
    world_free(w);
}

TEST(view, nodes_outside_their_cluster_are_counted)
{
    struct world *w = a_running_world(1, 2, 2);
    for (int i = 0; i < 2; i++) {
        const struct tfe_msg progress = {.type = MSG_PROGRESS,
                                         .u.progress = {.epoch = 1, .alone = true}};
        assert_int_equal(say(w, 1, &progress), 0);
        assert_int_equal(strstr(w->log, "~node_alone") != NULL, i == 0); /* reported once */
        assert_int_equal(job_row(w, NULL).alone, 1);
    }
    world_free(w);
}

TEST(view, server_lateness_is_reported)
{
    struct world *w = a_running_world(1, 2, 2);
    assert_int_equal(rdzv_view_late(w->r).ms, 0);
    w->now += 60000; /* its loop stood still */
    assert_int_equal(order(w, RDZV_TICK, NULL, NULL), 0);
    assert_int_equal(rdzv_view_late(w->r).ms, w->now);
    world_free(w);
}

TEST(view, node_of_a_job_outside_the_scope_is_not_found)
{
    struct world *w = a_running_world(1, 1, 1);
    const struct principal others = {.role = PRINCIPAL_ADMIN, .scope = "k*"};
    const struct principal all = {.role = PRINCIPAL_ADMIN, .scope = "*"};
    struct rdzv_found found;
    assert_int_equal(rdzv_find_node(w->r, &others, "a", &found), TFE_ENOENT);
    assert_int_equal(rdzv_find_node(w->r, &all, "a", &found), 0);
    world_free(w);
}
