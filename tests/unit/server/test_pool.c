/* tests/unit/server/test_pool.c: nodes of the pool and their jobs: messages to nodes, and recovery
 * when nodes fail, leave and return, or the server restarts. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/server/pool_bench.h"

#define FIXTURE bench_begin, bench_end

static void runs(struct msg_spec spec)
{
    bench_placed(spec);
    bench_core_is(spec.name, "running");
    bench_durable();
    assert_string_equal(bench_state(spec.name), "running");
    bench_quiet();
}

/* --- nodes ------------------------------------------------------------------------------------ */

TEST_IN(pool, a_node_is_welcomed_and_has_its_lease)
{
    bench_came(0, NULL, 0);
    bench_said_is("0:welcome n0 10000 10000 3333 1000; ");
    bench_renews(0);
    bench_said_is("0:renewed 5 10000 10000; ");
    bench_pass(BENCH_LEASE_MS - 1);
    assert_non_null(bench_node(0));
    bench_pass(1);
    assert_null(bench_node(0));
    assert_null(bench.sessions[0].pooled); /* the session no longer belongs to a node */
    bench_said_is("0:end; ");
    bench.sessions[0].phase = SESSION_OPEN;
    bench_came(0, NULL, 0);
    bench_pass(5000);
    bench_came(0, NULL, 0); /* the second message renews the lease */
    bench_pass(BENCH_LEASE_MS - 1);
    assert_non_null(bench_node(0));
}

TEST_IN(pool, who_does_not_come_back_has_a_successor)
{
    bench_placed(bench_spec("j", 1, 1));
    bench_came(1, NULL, 0);
    bench_left(0);
    bench_pass(5000);
    bench_renews(1);
    bench_quiet();
    bench_pass(BENCH_LEASE_MS - 5000 - 1);
    bench_durable();
    bench_said_is("");
    bench_pass(1);
    bench_durable();
    bench_said_is("1:assign 2 j any; ");
}

TEST_IN(pool, each_lease_ends_by_its_own_time)
{
    bench_came(0, NULL, 0);
    bench_came(1, NULL, 0);
    bench_came(2, NULL, 0);
    bench_pass(5000);
    bench_renews(0); /* node 0 would have expired first; now it expires last */
    bench_renews(2);
    bench_pass(BENCH_LEASE_MS - 5000);
    assert_non_null(bench_node(0));
    assert_null(bench_node(1));
    assert_non_null(bench_node(2));
    bench_pass(4999);
    assert_non_null(bench_node(0));
    bench_pass(1);
    assert_null(bench_node(0));
    assert_null(bench_node(2));
}

TEST_IN(pool, a_free_node_that_goes_away_is_none_but_one_that_is_back_at_once_is)
{
    bench_came(0, NULL, 0);
    bench_turn();
    bench_left(0);
    bench_came(0, NULL, 0); /* in the same pass */
    bench_turn();
    assert_non_null(bench_node(0));
    bench_left(0);
    bench_turn();
    assert_null(bench_node(0));
}

TEST_IN(pool, a_session_is_one_nodes_and_a_node_has_one_session)
{
    bench_came(0, NULL, 0);
    bench_quiet();
    bench.sessions[1].pooled = bench_node(0);
    bench_came(1, NULL, 0);
    bench_said_is("1:refused bad_request (a session is one node's alone); 1:end; ");
    assert_null(bench_node(1));
    bench.sessions[1].pooled = NULL;

    const struct tfe_msg again = {.type = MSG_POOL,
                                  .u.pool = {.node = "n0", .node_name = "host-0", .labels = NULL}};
    pool_handle_message(bench.p, &bench.sessions[4], &again);
    bench_said_is("0:refused node_replaced (a newer session of this node is there); 0:end; "
                  "4:welcome n0 10000 10000 3333 1000; ");
    assert_null(bench.sessions[0].pooled);
    pool_left(&bench.sessions[0]); /* the end of the older session has no effect */
    bench_turn();
    assert_non_null(bench_node(0));
    /* The repeated message is idempotent. */
    pool_handle_message(bench.p, &bench.sessions[4], &again);
    bench_said_is("4:welcome n0 10000 10000 3333 1000; ");
}

TEST_IN(pool, a_node_says_only_what_nodes_say)
{
    bench_came(0, NULL, 0);
    bench_quiet();
    pool_handle_message(bench.p, &bench.sessions[0], &(struct tfe_msg){.type = MSG_POOL_NODES});
    bench_said_is("0:refused bad_request (a node of the pool does not say this); 0:end; ");
}

TEST_IN(pool, a_token_for_some_jobs_brings_nodes_for_these_alone)
{
    bench.sessions[0].by = &bench.someone;
    bench_came(0, NULL, 0);
    bench_quiet();
    assert_string_equal(bench_submit(bench_spec("b-1", 1, 1)), "done");
    bench_durable();
    bench_said_is("");
    assert_string_equal(bench_submit(bench_spec("a-1", 1, 1)), "done");
    bench_durable();
    bench_said_is("0:assign 1 a-1 any; ");
}

TEST_IN(pool, who_says_goodbye_is_gone_before_its_lease_is_over)
{
    runs(bench_spec("j", 2, 2));
    pool_handle_message(bench.p, &bench.sessions[1], &(struct tfe_msg){.type = MSG_GOODBYE});
    bench_said_is("1:end; ");
    bench_left(1);
    bench_turn();
    assert_null(bench_node(1));
    assert_non_null(bench_node(0));
    bench_durable();
    assert_string_equal(bench_nodes("j"), "n0=1 ");
}

TEST_IN(pool, what_a_node_says_of_itself_stays_when_it_says_more)
{
    bench_came(0, "gpu=a100", 0);
    const struct tfe_msg machine_info = {.type = MSG_MACHINE_INFO, .u.machine_info = {.cores = 3}};
    const struct tfe_msg machine_stats = {.type = MSG_MACHINE_STATS,
                                          .u.machine_stats.standby = WARMTH_WARM};
    pool_handle_message(bench.p, &bench.sessions[0], &machine_info);
    pool_handle_message(bench.p, &bench.sessions[0], &machine_stats);
    assert_string_equal(bench_node(0)->row->labels, "gpu=a100");
    assert_int_equal(bench_node(0)->row->machine_info.cores, 3);
    bench_came(0, "gpu=h100", 0);
    assert_string_equal(bench_node(0)->row->labels, "gpu=h100");
    assert_int_equal(bench_node(0)->row->machine_info.cores, 3);
    assert_string_equal(bench_node(0)->row->name, "host-0");
}

/* --- assignments ------------------------------------------------------------------------------ */

TEST_IN(pool, an_assignment_is_told_once_it_is_durable_and_once)
{
    bench_came(0, NULL, 0);
    bench_came(1, NULL, 0);
    bench_quiet();
    assert_string_equal(bench_submit(bench_spec("j", 2, 2)), "done");
    bench_said_is("0:assign 1 j any; 1:assign 2 j any; ");
    assert_string_equal(bench_events(), "j submitted: the job was submitted: 2 to 2 nodes, "
                                        "priority 500; j assigned: the job gets 2 nodes of the "
                                        "pool; ");
    bench_durable();
    bench_said_is("");
    assert_string_equal(bench_nodes("j"), "n0=1 n1=2 ");
}

TEST_IN(pool, an_assignment_that_is_not_durable_is_not_told)
{
    assert_string_equal(bench_submit(bench_spec("j", 1, 2)), "done");
    bench_durable();
    bench.disk = TFE_EDISK;
    bench_came(0, NULL, 0);
    bench_quiet();
    bench_durable();
    bench_said_is("");
    assert_false(bench_node(0)->is_told);
    bench.disk = 0;
    bench_pass(POOL_CHECK_MS); /* the pool retries the write */
    bench_durable();
    bench_said_is("0:assign 1 j any; ");
}

TEST_IN(pool, what_was_never_told_is_taken_back_without_a_word)
{
    bench_came(0, NULL, 0);
    assert_string_equal(bench_submit(bench_spec("j", 1, 2)), "done");
    bench_durable();
    bench.disk = TFE_EDISK;
    bench_came(1, NULL, 0);
    bench_durable(); /* node 1 has an assignment that it has not received */
    assert_false(bench_node(1)->is_told);
    assert_true(bench_node(1)->assignment != 0);
    bench_quiet();
    bench.disk = 0;
    const struct tfe_msg scale = {.type = MSG_SCALE, .u.scale = {"j", 1, 1, MSG_UNSET}};
    assert_string_equal(bench_order(&bench.admin, scale), "done");
    bench_durable();
    bench_said_is("");
    assert_true(bench_node(1)->assignment == 0);
    assert_false(bench_node(1)->is_leaving);
}

TEST_IN(pool, who_is_leaving_is_not_told_to_come)
{
    bench_placed(bench_spec("j", 1, 1));
    bench.disk = TFE_EDISK;
    const struct tfe_msg suspend = {.type = MSG_SUSPEND, .u.suspend.job = "j"};
    (void)bench_order(&bench.admin, suspend);
    bench_durable();
    bench_said_is("0:release 1 60000ms the job is suspended; ");
    bench_node(0)->is_told = false; /* as after a reconnect, before RELEASE has been sent again */
    bench.disk = 0;
    bench_pass(POOL_CHECK_MS);
    bench_durable();
    bench_said_is("");
}

TEST_IN(pool, a_node_that_is_free_again_gets_the_next_job)
{
    bench_placed(bench_spec("j", 1, 1));
    assert_string_equal(bench_submit(bench_spec("k", 1, 1)), "done");
    const struct tfe_msg cancel = {.type = MSG_CANCEL, .u.cancel.job = "j"};
    assert_string_equal(bench_order(&bench.admin, cancel), "done");
    bench_said_is("0:release 1 60000ms the job is over OVER; ");
    assert_true(bench_node(0)->is_leaving);
    bench_freed(0, 7, 143); /* ignored, since it names another assignment */
    bench_durable();
    assert_true(bench_node(0)->job != NULL);
    bench_freed(0, 1, 143);
    bench_durable();
    bench_said_is("0:assign 2 k any; ");
    assert_string_equal(bench_nodes("j"), ""); /* the job's row no longer has the node */
    assert_false(bench_node(0)->is_leaving);
    assert_string_equal(bench_nodes("k"), "n0=2 ");
}

TEST_IN(pool, roles_are_told_and_labels_of_roles_are_for_them)
{
    static const char *const labels[] = {"ps:disk=big", "worker:gpu=yes"};
    struct msg_spec spec = bench_spec("j", 1, 1);
    spec.n_ps = 1;
    spec.role_labels = labels;
    spec.n_role_labels = 2;
    bench_came(0, "disk=big", 0);
    bench_came(1, "gpu=yes", 0);
    bench_quiet();
    assert_string_equal(bench_submit(spec), "done");
    bench_durable();
    const char *said = bench_said();
    assert_non_null(strstr(said, "0:assign "));
    assert_non_null(strstr(said, " j ps; "));
    assert_non_null(strstr(said, " j worker; "));
    assert_int_equal(bench_node(0)->task, TASK_PS);
}

TEST_IN(pool, what_takes_a_node_is_said_with_its_reason)
{
    bench_placed(bench_spec("j", 1, 2));
    assert_string_equal(bench_submit(bench_spec("k", 1, 1)), "done");
    bench_said_is("1:release 2 60000ms another job needs it for its minimum; ");
    assert_non_null(strstr(bench_events(), "j released: 1 node of the job is released: another job "
                                           "needs it for its minimum; "));
    bench_freed(1, 2, 143);
    bench_durable();
    bench_said_is("1:assign 3 k any; ");
    assert_int_equal(bench.p->n_assigned, 3);
    assert_int_equal(bench.p->n_released, 1);
}

TEST_IN(pool, a_node_that_comes_back_with_what_it_had_keeps_it)
{
    bench_placed(bench_spec("j", 2, 2));
    bench_left(0);
    bench_turn();
    assert_non_null(bench_node(0)); /* the node's lease has not expired */
    bench_came(0, NULL, 1);
    bench_durable();
    bench_said_is("0:welcome n0 10000 10000 3333 1000; ");
    bench_left(1);
    bench_turn();
    bench_came(1, NULL, 0); /* its agent has ended in the meantime */
    bench_durable();
    bench_said_is("1:welcome n1 10000 10000 3333 1000; 1:assign 3 j any; ");
}

TEST_IN(pool, a_node_that_works_for_what_nobody_knows_is_released)
{
    bench_came(0, NULL, 5);
    bench_turn();
    bench_said_is("0:welcome n0 10000 10000 3333 1000; "
                  "0:release 5 60000ms the server does not know what it works for; ");
    bench_freed(0, 5, 0);
    assert_string_equal(bench_submit(bench_spec("j", 1, 1)), "done");
    bench_durable();
    bench_said_is("0:assign 1 j any; ");
}

/* --- agents that fail ------------------------------------------------------------------------- */

TEST_IN(pool, a_node_whose_agent_failed_at_once_rests_twice_as_long_each_time)
{
    struct msg_spec spec = bench_spec("j", 1, 1);
    spec.backoff_limit = 100;
    bench_placed(spec);
    uint64_t assignment = 1;
    for (int64_t rest = 1000; rest <= 64000; rest *= 2) {
        bench_freed(0, assignment, 1);
        bench_freed(0, assignment, 1); /* a repeated report has no effect */
        bench_durable();
        bench_renews(0);
        bench_quiet();
        const uint64_t rests = bench_node(0)->assignment;
        int64_t left = rest > 60000 ? 60000 : rest;
        while (left > 5000) {
            bench_pass(5000);
            bench_renews(0);
            left -= 5000;
        }
        bench_pass(left - 1);
        assert_true(bench_node(0)->assignment == rests);
        bench_pass(1);
        assert_true(bench_node(0)->assignment != rests);
        bench_durable();
        assert_non_null(strstr(bench_said(), "0:assign "));
        assignment++;
    }
    bench_freed(0, assignment, 0); /* a success resets the back-off */
    bench_durable();
    bench_freed(0, assignment + 1, 1);
    bench_durable();
    bench_quiet();
    bench_pass(1000);
    bench_durable();
    assert_non_null(strstr(bench_said(), "0:assign "));
}

TEST_IN(pool, a_node_that_was_told_to_leave_or_left_in_order_does_not_rest)
{
    static const uint32_t codes[] = {0, 130, 143};
    bench_placed(bench_spec("j", 1, 1));
    for (uint64_t i = 0; i < 3; i++) {
        bench_freed(0, 1 + i, codes[i]);
        bench_durable();
        assert_non_null(strstr(bench_said(), "0:assign "));
    }
    bench_freed(0, 4, 69);
    bench_durable();
    bench_said_is("");
}

TEST_IN(pool, a_job_whose_agents_cannot_start_fails_after_its_limit)
{
    struct msg_spec spec = bench_spec("j", 1, 1);
    bench_placed(spec); /* backoff_limit is the server's default */
    for (uint64_t i = 1; i <= BENCH_RESTARTS; i++) {
        bench_freed(0, i, 1);
        bench_durable();
        bench_pass(4000);
        bench_durable();
        assert_non_null(strstr(bench_said(), "0:assign "));
        bench_renews(0);
    }
    assert_string_equal(bench_state("j"), "starting");
    bench_quiet();
    bench_freed(0, BENCH_RESTARTS + 1, 1);
    bench_durable();
    assert_string_equal(bench_state("j"), "failed");
    assert_non_null(strstr(bench_row("j")->conditions,
                           "BackoffLimitExceeded it said so (exit code 1 on host-0)"));
    assert_string_equal(bench_events(),
                        "j job_finished: the job has failed: it said so (exit code 1 "
                        "on host-0); j released: 1 node of the job is released: "
                        "the job is over; ");
}

static struct msg_status_job shown(const char *job)
{
    static struct pool_texts texts;
    struct msg_status_job row = {0};
    assert_true(pool_show_job(bench.p, job, false, &texts, &row));
    return row;
}

TEST_IN(pool, start_that_would_fail_again_fails_the_job_at_once)
{
    static const uint32_t codes[] = {2, 126, 127};
    for (size_t i = 0; i < 3; i++) {
        const char *const name = (const char *const[]){"a", "b", "c"}[i];
        if (i == 0) {
            bench_placed(bench_spec(name, 1, 1));
        } else {
            assert_string_equal(bench_submit(bench_spec(name, 1, 1)), "done");
            bench_durable();
        }
        bench_freed(0, i + 1, codes[i]);
        bench_durable();
        assert_string_equal(bench_state(name), "failed");
        assert_non_null(strstr(bench_row(name)->conditions, " CannotStart it said so (exit code "));
        assert_non_null(strstr(shown(name).reason, "it said so (exit code "));
        assert_int_equal(shown(name).retry_ms, 0);
    }
}

TEST_IN(pool, start_that_failed_is_shown_with_the_time_of_the_next_try)
{
    bench_placed(bench_spec("j", 1, 1));
    assert_null(shown("j").reason);
    bench_freed(0, 1, 69);
    bench_durable();
    assert_string_equal(shown("j").reason, "it said so (exit code 69 on host-0)");
    assert_int_equal(shown("j").retry_ms, 1000);
    bench_pass(400);
    assert_int_equal(shown("j").retry_ms, 600);
    bench_pass(600);
    bench_durable();
    assert_int_equal(shown("j").retry_ms, 0);
    bench_core_is("j", "running");
    bench_durable();
    assert_null(shown("j").reason);
}

TEST_IN(pool, back_off_of_a_node_is_not_inherited_by_another_job)
{
    struct msg_spec spec = bench_spec("j", 1, 1);
    spec.backoff_limit = 2;
    bench_placed(spec);
    /* Back-off of 1 s and 2 s; the third failure ends the job. */
    for (uint64_t i = 1; i <= 3; i++) {
        bench_freed(0, i, 1);
        bench_durable();
        bench_pass(4000);
        bench_renews(0);
        bench_durable();
    }
    assert_string_equal(bench_state("j"), "failed");
    assert_string_equal(bench_submit(bench_spec("k", 1, 1)), "done");
    bench_durable();
    bench_freed(0, 4, 1);
    bench_durable();
    assert_int_equal(shown("k").retry_ms, 1000);
}

TEST_IN(pool, a_job_that_never_restarts_fails_by_its_first_agent_that_cannot_start)
{
    struct msg_spec spec = bench_spec("j", 1, 1);
    spec.restart_policy = RESTART_NEVER;
    spec.backoff_limit = 5;
    bench_placed(spec);
    bench_freed(0, 1, 127);
    bench_durable();
    assert_string_equal(bench_state("j"), "failed");
}

TEST_IN(pool, starts_that_failed_count_in_a_row_and_not_once_the_job_has_run)
{
    bench_placed(bench_spec("j", 1, 1));
    for (uint64_t i = 1; i <= 8; i++) {
        bench_freed(0, i, 1);
        bench_durable();
        if (i == 2) { /* the job runs after two failures */
            bench_core_is("j", "running");
            bench_durable();
            assert_int_equal(pool_job_find(bench.p, "j")->failures, 0);
        }
        for (int s = 0; s < 65 && bench_node(0)->rests.ms != TFE_MONO_NEVER.ms; s++) {
            bench_pass(1000);
            bench_renews(0);
        }
        bench_durable();
    }
    assert_string_equal(bench_state("j"), "running");
}

/* --- jobs ------------------------------------------------------------------------------------- */

TEST_IN(pool, what_becomes_of_a_job_is_its_conditions)
{
    struct msg_spec spec = bench_spec("j", 1, 1);
    assert_string_equal(bench_submit(spec), "done");
    bench_durable();
    assert_string_equal(bench_state("j"), "waiting");
    assert_non_null(strstr(bench_events(), "j waiting: the job waits for nodes of the pool; "));
    bench_came(0, NULL, 0);
    bench_durable();
    bench_core_is("j", "running");
    bench_durable();
    assert_string_equal(bench_state("j"), "running");
    const struct tfe_wall since = pool_job_find(bench.p, "j")->conditions[STATE_RUNNING].at;
    bench_pass(10);
    bench_core_is("j", "restarting");
    bench_durable();
    assert_string_equal(bench_state("j"), "restarting");
    bench_core_is("j", "running");
    bench_durable();
    assert_true(pool_job_find(bench.p, "j")->conditions[STATE_RUNNING].at.ms > since.ms);
    bench_core_is("j", "succeeded");
    bench_durable();
    assert_string_equal(bench_state("j"), "succeeded");
    assert_true(pool_job_find(bench.p, "j")->is_over);
    assert_string_equal(
        bench_described("j"),
        "job j succeeded p500 1:1 nodes 1 cmd python train.py waits -\nCreated 1 JobCreated\n"
        "Waiting 0 WaitsForNodes\nStarting 0 JobStarting\nRunning 0 JobRunning\n"
        "Restarting 0 JobRestarting\n"
        "Succeeded 1 JobSucceeded\nnode n0 host-0 [] leaving of j as any\n");
    /* A finished job stays finished, whatever run the core reports. */
    bench_core_is("j", "running");
    bench_durable();
    assert_string_equal(bench_state("j"), "succeeded");
}

TEST_IN(pool, reason_of_the_core_is_one_line_of_the_row)
{
    runs(bench_spec("j", 1, 1));
    struct bench_core *core = bench_core_is("j", "failed");
    core->reason = "rank 0 failed:\nby itself";
    bench_durable();
    assert_string_equal(bench_state("j"), "failed");
    assert_non_null(strstr(bench_row("j")->conditions, " JobFailed rank 0 failed: by itself\n"));
    bench_said_is("0:release 1 60000ms the job is over OVER; ");
    bench_freed(0, 1, 1);
    bench_said_is("core:stop j; "); /* an agent that was still joining has started the job again */
    bench_durable();
}

TEST_IN(pool, a_job_that_has_used_its_restarts_up_says_so)
{
    runs(bench_spec("j", 1, 1));
    struct bench_core *core = bench_core_is("j", "failed");
    core->outcome.is_used_up = true;
    core->reason = "rank 0 failed";
    bench_durable();
    assert_non_null(strstr(bench_row("j")->conditions, " BackoffLimitExceeded rank 0 failed\n"));
}

TEST_IN(pool, another_run_of_its_name_in_the_core_is_not_the_job)
{
    bench_placed(bench_spec("j", 1, 1));
    bench_core_is("j", "succeeded")->run_key = "of-somebody-else";
    bench_durable();
    assert_string_equal(bench_state("j"), "starting");
}

TEST_IN(pool, an_active_deadline_ends_a_job_by_the_time_that_it_ran)
{
    struct msg_spec spec = bench_spec("j", 1, 1);
    spec.active_deadline_ms = 5000;
    bench_placed(spec);
    bench_pass(6000); /* waiting does not count towards active_deadline */
    bench_renews(0);
    bench_core_is("j", "running");
    bench_durable();
    bench_pass(4999);
    assert_string_equal(bench_state("j"), "running");
    bench_quiet();
    bench_pass(1);
    assert_string_equal(bench_state("j"), "failed");
    assert_string_equal(bench_said(), "core:stop j; 0:release 1 60000ms the job is over OVER; ");
    bench_durable();
    assert_non_null(strstr(bench_row("j")->conditions, " DeadlineExceeded "));
}

TEST_IN(pool, an_active_deadline_is_of_no_job_that_is_over)
{
    struct msg_spec spec = bench_spec("j", 1, 1);
    spec.active_deadline_ms = 5000;
    runs(spec);
    bench_core_is("j", "succeeded");
    bench_durable();
    bench_freed(0, 1, 0);
    bench_pass(20000);
    assert_string_equal(bench_state("j"), "succeeded");
}

TEST_IN(pool, a_suspended_job_has_no_deadline_and_begins_anew)
{
    struct msg_spec spec = bench_spec("j", 1, 1);
    spec.active_deadline_ms = 5000;
    runs(spec);
    bench_pass(3000);
    const struct tfe_msg suspend = {.type = MSG_SUSPEND, .u.suspend.job = "j"};
    const struct tfe_msg resume = {.type = MSG_RESUME, .u.resume.job = "j"};
    assert_string_equal(bench_order(&bench.admin, suspend), "done");
    assert_string_equal(bench_state("j"), "suspended");
    assert_non_null(strstr(bench_events(), "j suspended: the job is suspended: its nodes go back "
                                           "to the pool; "));
    bench_freed(0, 1, 1); /* the exit code does not count, since the agent was told to end */
    assert_null(bench_node(0)->job);
    bench_core_is("j", "running"); /* the core still has the run for a while */
    bench_durable();
    bench_pass(6000);
    assert_string_equal(bench_state("j"), "suspended");
    bench_core_is("j", "waiting");
    assert_string_equal(bench_order(&bench.admin, resume), "done");
    assert_string_equal(bench_state("j"), "starting");
    bench_renews(0);
    bench_core_is("j", "running");
    bench_durable();
    bench_pass(4999);
    /* The active_deadline starts again after a resume. */
    assert_string_equal(bench_state("j"), "running");
    bench_pass(1);
    assert_string_equal(bench_state("j"), "failed");
}

TEST_IN(pool, a_job_is_forgotten_its_ttl_after_its_end_once_the_core_may_forget_it)
{
    struct msg_spec spec = bench_spec("j", 1, 1);
    spec.ttl_after_finished_ms = 2000;
    runs(spec);
    bench_core_is("j", "succeeded");
    bench_durable();
    bench_quiet();
    bench_pass(3000);
    assert_string_equal(bench_state("j"), "succeeded"); /* its node has not left the job */
    bench_said_is("");
    bench_freed(0, 1, 0);
    bench_quiet();
    bench.core_steps = TFE_ESTATE; /* the core still has agents of the job */
    bench_pass(1000);
    bench_said_is("core:forget j; ");
    assert_string_equal(bench_state("j"), "succeeded");
    bench.core_steps = 0;
    bench_pass(1000);
    assert_string_equal(bench_state("j"), "gone");
    bench_durable();
    assert_null(bench_row("j"));
    assert_int_equal(bench.p->n_jobs, 0);
}

TEST_IN(pool, a_ttl_of_zero_forgets_at_once_and_none_never)
{
    struct msg_spec spec = bench_spec("j", 1, 1);
    spec.ttl_after_finished_ms = 0;
    assert_string_equal(bench_submit(spec), "done");
    assert_string_equal(bench_submit(bench_spec("k", 1, 1)), "done");
    const struct tfe_msg j = {.type = MSG_CANCEL, .u.cancel.job = "j"};
    const struct tfe_msg k = {.type = MSG_CANCEL, .u.cancel.job = "k"};
    assert_string_equal(bench_order(&bench.admin, j), "done");
    assert_string_equal(bench_order(&bench.admin, k), "done");
    bench_pass(1);
    assert_string_equal(bench_state("j"), "gone");
    bench_pass(100000000);
    assert_string_equal(bench_state("k"), "cancelled");
}

TEST_IN(pool, what_lingers_goes_on_until_its_ttl_is_over)
{
    struct msg_spec spec = bench_spec("j", 2, 2);
    spec.clean_policy = CLEAN_NONE;
    spec.ttl_after_finished_ms = 3000;
    runs(spec);
    bench_core_is("j", "running")->outcome.lingers = true;
    bench_durable();
    assert_string_equal(bench_state("j"), "succeeded");
    bench_said_is(""); /* no node is released */
    bench_freed(0, 1, 1);
    assert_null(bench_node(0)->job); /* a node that ends is not counted as a failed start */
    bench_durable();
    assert_null(strstr(bench_said(), "assign")); /* the node gets no new assignment of the job */
    bench_pass(3001);
    bench_said_is("core:stop j; 1:release 2 60000ms the job is over OVER; ");
}

TEST_IN(pool, what_lingers_is_over_when_it_has_ended)
{
    struct msg_spec spec = bench_spec("j", 1, 1);
    spec.clean_policy = CLEAN_NONE;
    runs(spec);
    bench_core_is("j", "running")->outcome.lingers = true;
    bench_durable();
    bench_said_is("");
    bench_core_is("j", "succeeded");
    bench_durable();
    bench_said_is("core:stop j; 0:release 1 60000ms the job is over OVER; ");
}

TEST_IN(pool, who_may_grow_gets_what_is_left_by_what_a_node_brings)
{
    runs(bench_spec("j", 1, 3));
    struct bench_core *core = bench_core_is("j", "running");
    core->members = 1;
    core->steps_per_s = 10;
    bench_pass(2000);
    core->members = 3;
    core->steps_per_s = 4; /* three workers do 12 steps/s instead of 10 */
    for (int i = 0; i < 30; i++) {
        bench_pass(2000);
        for (unsigned n = 0; n < 3; n++) {
            bench_renews(n);
        }
    }
    assert_in_range(pool_job_find(bench.p, "j")->gain_told, 1, 300);
    assert_false(pool_job_find(bench.p, "j")->by_samples);
}

/* --- server restart --------------------------------------------------------------------------- */

TEST_IN(pool, a_server_that_starts_again_knows_its_jobs_and_their_nodes)
{
    struct msg_spec spec = bench_spec("j", 2, 3);
    spec.priority = 600;
    runs(spec);
    const struct tfe_id run_key = pool_job_find(bench.p, "j")->run_key;
    bench_restart();
    assert_string_equal(pool_job_find(bench.p, "j")->run_key.text, run_key.text);
    assert_string_equal(bench_jobs(),
                        "job j running p600 2:3 nodes 3 cmd python train.py waits -\n");
    assert_string_equal(bench_all_nodes(),
                        "node n0  [] away of j as any\nnode n1  [] away of j as any\n"
                        "node n2  [] away of j as any\n");
    bench_turn();
    assert_int_equal(bench.waiting, 0); /* the stored row is unchanged */
    for (unsigned i = 0; i < 3; i++) {
        bench_came(i, NULL, 1 + i);
        assert_non_null(bench_node(i)->job);
    }
    bench_durable();
    assert_null(strstr(bench_said(), "assign"));
    spec = bench_spec("k", 1, 1);
    spec.priority = 600;
    assert_string_equal(bench_submit(spec), "done");
    assert_true(pool_job_find(bench.p, "k")->number > pool_job_find(bench.p, "j")->number);
    bench_durable();
    assert_non_null(strstr(bench_said(), "release "));
}

TEST_IN(pool, a_node_of_two_rows_works_for_what_it_was_given_last)
{
    assert_string_equal(bench_submit(bench_spec("j", 1, 1)), "done");
    assert_string_equal(bench_submit(bench_spec("k", 1, 1)), "done");
    bench_durable();
    (void)snprintf(bench_row("j")->nodes, sizeof bench.rows[0].nodes, "n0 9 0\nn1 3 0\n");
    (void)snprintf(bench_row("k")->nodes, sizeof bench.rows[0].nodes,
                   "n0 5 0\nn1 4 0\nnot/an/id 5 0\n");
    bench_restart();
    assert_string_equal(bench_node(0)->job->name.text, "j");
    assert_int_equal(bench_node(0)->assignment, 9);
    assert_string_equal(bench_node(1)->job->name.text, "k");
    assert_int_equal(bench_node(1)->assignment, 4);
    bench_pass(BENCH_LEASE_MS - 1);
    assert_non_null(bench_node(0));
    bench_pass(1);
    assert_null(bench_node(0)); /* the node has not returned within its lease */
}

TEST_IN(pool, a_job_that_was_over_is_over_and_its_ttl_goes_on)
{
    struct msg_spec spec = bench_spec("j", 1, 1);
    spec.ttl_after_finished_ms = 5000;
    runs(spec);
    bench_core_is("j", "failed");
    bench_durable();
    bench_freed(0, 1, 1);
    bench_durable();
    bench_core_is("j", NULL);
    bench_pass(2000);
    bench_quiet();
    bench_restart();
    assert_true(pool_job_find(bench.p, "j")->is_over);
    bench_came(0, NULL, 0);
    bench_durable();
    bench_said_is("0:welcome n0 10000 10000 3333 1000; ");
    bench_pass(2990);
    assert_string_equal(bench_state("j"), "failed");
    bench_pass(11);
    assert_string_equal(bench_state("j"), "gone");
}

TEST_IN(pool, a_row_that_makes_no_sense_is_set_aside)
{
    assert_string_equal(bench_submit(bench_spec("j", 1, 1)), "done");
    assert_string_equal(bench_submit(bench_spec("k", 1, 1)), "done");
    bench_durable();
    (void)strcpy(bench_row("j")->job, "other"); /* differs from the name in its specification */
    bench_restart();
    assert_string_equal(bench_state("other"), "gone");
    assert_string_equal(bench_state("k"), "waiting");
    assert_int_equal(bench.p->n_jobs, 1);
}
