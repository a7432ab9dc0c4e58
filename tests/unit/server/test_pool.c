/* tests/unit/server/test_pool.c: what depends on time and on the disk in the pool: leases of nodes,
 * rests after failed starts, deadlines of jobs, and writes that fail. tests/e2e/test_pool_server.py
 * has the rest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/server/pool_fixture.h"

#define FIXTURE pool_fixture_begin, pool_fixture_end

#define assert_has(text, part)                                                                     \
    do {                                                                                           \
        if (!strstr((text), (part))) {                                                             \
            fail_msg("no %s in: %s", (part), (text));                                              \
        }                                                                                          \
    } while (0)

/* --- nodes ------------------------------------------------------------------------------------ */

TEST_IN(pool, node_without_renewals_is_replaced_when_its_lease_ends)
{
    server_place(spec_of("j", 1, 1));
    node_comes(1, NULL, 0);
    node_leaves(0);
    server_pass(POOL_LEASE_MS - 1);
    assert_non_null(node_of(0));
    nodes_heard_is("");
    server_pass(1);
    assert_null(node_of(0));
    assert_non_null(node_of(1)); /* it has renewed its lease */
    nodes_heard_is("1:assign 2 j any; ");
    node_is_mute(1);
    server_pass(POOL_LEASE_MS);
    assert_null(node_of(1)); /* though its connection is there */
}

TEST_IN(pool, unexpected_message_ends_the_session)
{
    node_comes(0, NULL, 0);
    node_sends(0, (struct tfe_msg){.type = MSG_LISTENING, .u.listening.epoch = 1});
    nodes_heard_is("0:refused unexpected message from a pool node; ");
    assert_true(node_is_closed(0));
}

static void notices(unsigned i, enum tfe_notice kind, bool withdrawn)
{
    node_sends(i, (struct tfe_msg){.type = MSG_NOTICE,
                                   .u.notice = {.kind = kind, .withdrawn = withdrawn}});
}

TEST_IN(pool, node_under_notice_gets_no_job_until_the_notice_is_withdrawn)
{
    node_comes(0, NULL, 0);
    notices(0, NOTICE_REBALANCE, false); /* only a hint */
    assert_false(node_of(0)->is_warned);
    notices(0, NOTICE_PREEMPT, false);
    notices(0, NOTICE_MAINTENANCE, false); /* replaces the preemption notice */
    assert_string_equal(server_submit(spec_of("j", 1, 1)), "done");
    nodes_heard_is("");
    notices(0, NOTICE_MAINTENANCE, true);
    nodes_heard_is("0:assign 1 j any; ");
}

TEST_IN(pool, notice_of_a_node_at_work_outlives_its_connection)
{
    server_place(spec_of("j", 1, 1));
    notices(0, NOTICE_PREEMPT, false);
    node_leaves(0);
    node_comes(0, NULL, 1);
    assert_true(node_of(0)->is_warned);
    node_freed(0, 1, 0);
    nodes_heard_is("");
    notices(0, NOTICE_PREEMPT, true);
    nodes_heard_is("0:assign 2 j any; ");
}

static const char *drain(const char *node, uint32_t within_ms)
{
    return server_order(
        (struct tfe_msg){.type = MSG_DRAIN, .u.drain = {.node = node, .within_ms = within_ms}});
}

TEST_IN(pool, node_is_found_by_an_unambiguous_label)
{
    server_place(spec_of("j", 1, 1));
    assert_has(drain("host-7", MSG_UNSET), "no_such_node: ");
    assert_string_equal(drain("host-0", MSG_UNSET), "done");
    nodes_heard_is("0:release 1 60000ms an operator has drained it OUT; ");
    assert_string_equal(drain("host-0", 500), "done");
    nodes_heard_is("0:release 1 500ms an operator has drained it OUT; ");
    const struct tfe_msg evict = {.type = MSG_EVICT, .u.evict.node = "host-0"};
    assert_string_equal(server_order(evict), "done");
    nodes_heard_is("0:release 1 1ms an operator has evicted it OUT; ");
    node_freed(0, 1, 143);
    nodes_heard_is(""); /* an evicted node gets no assignment */
    node_leaves(0);
    node_comes(0, NULL, 0); /* it may have missed RELEASE, so that RELEASE is sent again */
    nodes_heard_is("0:release 0 0ms an operator has evicted it OUT; ");
}

/* --- failed starts ---------------------------------------------------------------------------- */

TEST_IN(pool, back_off_doubles_after_each_failed_start)
{
    struct submitted spec = spec_of("j", 1, 1);
    spec.fields = "'backoff_limit': 100";
    server_place(spec);
    uint64_t assignment = 1;
    for (int64_t rest = 1000; rest <= 64000; rest *= 2) {
        const int64_t ms = rest > 60000 ? 60000 : rest;
        node_freed(0, assignment, 1);
        node_freed(0, assignment, 1); /* a repeated report has no effect */
        assert_int_equal(row_of("j").retry_ms, ms);
        assert_string_equal(row_of("j").reason, "it said so (exit code 1 on host-0)");
        server_pass(ms - 1);
        nodes_heard_is("");
        server_pass(1);
        assert_has(nodes_heard(), "0:assign ");
        assignment++;
    }
    node_freed(0, assignment, 0); /* a success resets the back-off */
    node_freed(0, assignment + 1, 1);
    assert_int_equal(row_of("j").retry_ms, 1000);
}

TEST_IN(pool, back_off_is_per_job_and_not_caused_by_an_orderly_end)
{
    static const uint32_t orderly[] = {0, 130, 143};
    server_place(spec_of("j", 1, 1));
    for (uint64_t i = 0; i < 3; i++) {
        node_freed(0, 1 + i, orderly[i]);
        assert_has(nodes_heard(), "0:assign ");
    }
    for (uint64_t i = 4; i <= 6; i++) { /* the server's limit of two restarts */
        node_freed(0, i, 69);
        server_pass(4000);
    }
    assert_string_equal(state_of("j"), "failed");
    assert_string_equal(condition_of("j"),
                        "BackoffLimitExceeded it said so (exit code 69 on host-0)");
    assert_string_equal(server_submit(spec_of("k", 1, 1)), "done");
    node_freed(0, 7, 1);
    assert_int_equal(row_of("k").retry_ms, 1000);
}

TEST_IN(pool, start_that_would_fail_again_fails_the_job_at_once)
{
    static const uint32_t codes[] = {2, 126, 127};
    static const char *const names[] = {"a", "b", "c"};
    node_comes(0, NULL, 0);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(server_submit(spec_of(names[i], 1, 1)), "done");
        node_freed(0, i + 1, codes[i]);
        assert_string_equal(state_of(names[i]), "failed");
        assert_has(condition_of(names[i]), "CannotStart it said so (exit code ");
        assert_int_equal(row_of(names[i]).retry_ms, 0);
    }
    struct submitted spec = spec_of("d", 1, 1);
    spec.fields = "'restart_policy': 'Never', 'backoff_limit': 5";
    assert_string_equal(server_submit(spec), "done");
    node_freed(0, 4, 1);
    assert_string_equal(state_of("d"), "failed");
    assert_string_equal(server_order_about(MSG_RERUN, "d"), "done");
    assert_int_equal(job_of("d")->failures, 0);
    assert_string_equal(state_of("d"), "starting");
}

TEST_IN(pool, failed_starts_do_not_count_once_the_job_has_run)
{
    server_place(spec_of("j", 1, 1));
    for (uint64_t i = 1; i <= 2; i++) {
        node_freed(0, i, 1);
        server_pass(4000);
    }
    assert_int_equal(job_of("j")->failures, 2);
    agents_run("j", 1);
    assert_int_equal(job_of("j")->failures, 0);
    assert_null(row_of("j").reason);
}

/* --- jobs ------------------------------------------------------------------------------------- */

TEST_IN(pool, conditions_of_a_job_follow_the_core)
{
    node_comes(0, NULL, 0);
    struct submitted spec = spec_of("j", 1, 1);
    assert_string_equal(server_submit(spec), "done");
    assert_string_equal(state_of("j"), "starting");
    agents_run("j", 1);
    const struct tfe_wall since = job_of("j")->conditions[STATE_RUNNING].at;
    assert_int_equal(job_of("j")->condition, STATE_RUNNING);
    rank_exits(0, 1);
    assert_string_equal(state_of("j"), "restarting");
    agents_run("j", 1);
    assert_true(job_of("j")->conditions[STATE_RUNNING].at.ms > since.ms);
    rank_exits(0, 0);
    assert_string_equal(state_of("j"), "succeeded");
    assert_string_equal(condition_of("j"), "JobSucceeded the job has succeeded");
    assert_has(nodes_heard(), "0:release 1 60000ms the job has ended OVER; ");
}

TEST_IN(pool, active_deadline_counts_running_time)
{
    struct submitted spec = spec_of("j", 1, 1);
    spec.fields = "'active_deadline_s': 20";
    server_place(spec);
    server_pass(30000); /* waiting does not count */
    agents_run("j", 1);
    server_pass(10000);
    assert_string_equal(server_order_about(MSG_SUSPEND, "j"), "done");
    nodes_heard_is("0:release 1 60000ms the job is suspended; ");
    assert_string_equal(server_order_about(MSG_SUSPEND, "j"), "done"); /* has no effect */
    agent_leaves(0);
    node_freed(0, 1, 1); /* the exit code does not count, since the server had released the node */
    server_pass(60000);
    assert_string_equal(state_of("j"), "suspended");
    assert_string_equal(server_order_about(MSG_RESUME, "j"), "done");
    nodes_heard_is("0:assign 2 j any; ");
    agents_run("j", 1);
    server_pass(14000);
    assert_string_equal(state_of("j"), "running"); /* the deadline starts again after a resume */
    server_pass(8000);
    assert_string_equal(state_of("j"), "failed");
    assert_has(condition_of("j"), "DeadlineExceeded ");
    nodes_heard_is("0:release 2 60000ms the job has ended OVER; ");
}

TEST_IN(pool, next_run_of_a_job_inherits_neither_error_nor_start_nor_suspension)
{
    server_place(spec_of("j", 1, 1));
    node_freed(0, 1, 1);
    server_pass(1000);
    assert_non_null(row_of("j").reason);
    assert_string_equal(server_order_about(MSG_CANCEL, "j"), "done");
    node_freed(0, 2, 143);
    assert_string_equal(server_order_about(MSG_RERUN, "j"), "done");
    assert_null(row_of("j").reason);
    for (uint64_t assignment = 3; assignment <= 4; assignment++) {
        agents_run("j", 1);
        if (assignment == 4) {
            assert_string_equal(server_order_about(MSG_SUSPEND, "j"), "done");
        }
        assert_string_equal(server_order_about(MSG_CANCEL, "j"), "done");
        agent_leaves(0);
        node_freed(0, assignment, 143);
        assert_string_equal(server_order_about(MSG_RERUN, "j"), "done");
        assert_string_equal(state_of("j"), "starting"); /* neither restarting nor suspended */
    }
}

TEST_IN(pool, job_is_forgotten_its_ttl_after_its_end_once_its_nodes_are_free)
{
    struct submitted spec = spec_of("j", 1, 1);
    spec.fields = "'ttl_after_finished_s': 2";
    server_place(spec);
    node_freed(0, 1, 127);
    assert_string_equal(state_of("j"), "failed");
    assert_string_equal(server_order_about(MSG_RERUN, "j"), "done");
    server_pass(6000); /* the time to live of the earlier run no longer applies */
    assert_string_equal(state_of("j"), "starting");
    node_freed(0, 2, 127);
    server_pass(1999);
    assert_string_equal(state_of("j"), "failed");
    server_pass(1001);
    assert_string_equal(state_of("j"), "gone");

    spec.fields = "'ttl_after_finished_s': 0";
    assert_string_equal(server_submit(spec), "done");
    assert_string_equal(server_submit(spec_of("k", 1, 1)), "done"); /* has no time to live */
    assert_string_equal(server_order_about(MSG_CANCEL, "j"), "done");
    assert_string_equal(server_order_about(MSG_CANCEL, "k"), "done");
    node_freed(0, 3, 143);
    server_pass(1000);
    assert_string_equal(state_of("j"), "gone");
    server_pass(1000000);
    assert_string_equal(state_of("k"), "cancelled");
}

TEST_IN(pool, lingering_job_runs_until_its_ttl)
{
    struct submitted spec = spec_of("j", 2, 2);
    spec.fields = "'clean_policy': 'None', 'ttl_after_finished_s': 30";
    server_place(spec);
    agents_run("j", 2);
    rank_exits(0, 0);
    assert_string_equal(state_of("j"), "succeeded");
    nodes_heard_is(""); /* no node is released */
    assert_has(server_order_about(MSG_RERUN, "j"), "conflict: job \"j\" has not ended");
    node_freed(0, 1, 1); /* not counted as a failed start, and not replaced */
    nodes_heard_is("");
    server_pass(28000);
    nodes_heard_is("");
    server_pass(2001);
    nodes_heard_is("1:release 2 60000ms the job has ended OVER; ");
}

TEST_IN(pool, lingering_job_ends_with_its_last_trainer_or_by_cancel)
{
    for (int i = 0; i < 2; i++) {
        const char *const name = i == 0 ? "j" : "k";
        struct submitted spec = spec_of(name, 2, 2);
        spec.fields = "'clean_policy': 'None'";
        server_place(spec);
        agents_run(name, 2);
        rank_exits(0, 0);
        nodes_heard_is("");
        if (i == 0) {
            rank_exits(1, 0);
        } else {
            assert_string_equal(server_order_about(MSG_CANCEL, name), "done");
        }
        assert_has(nodes_heard(), " 60000ms the job has ended OVER; ");
        assert_string_equal(state_of(name), "succeeded");
        agent_leaves(0);
        agent_leaves(1);
        node_freed(0, 1, 0);
        node_freed(1, 2, 0);
    }
}

TEST_IN(pool, ps_number_is_changed_only_for_a_job_with_ps)
{
    struct submitted spec = spec_of("j", 1, 2);
    spec.fields = "'ps': 1";
    assert_string_equal(server_submit(spec), "done");
    assert_string_equal(server_submit(spec_of("k", 1, 2)), "done");
    struct tfe_msg scale = {.type = MSG_SCALE, .u.scale = {"k", 1, 2, 1}};
    assert_has(server_order(scale), "bad_request: job \"k\" has no ps");
    scale.u.scale = (struct msg_scale){"j", 4, 5, 3};
    assert_string_equal(server_order(scale), "done");
    scale.u.scale.n_ps = MSG_UNSET; /* unchanged */
    assert_string_equal(server_order(scale), "done");
    server_restart();
    assert_int_equal(job_of("j")->needs.n_ps, 3);
    assert_int_equal(job_of("j")->needs.min_nodes, 4);
    assert_int_equal(job_of("j")->needs.max_nodes, 5);
}

/* Returns the counts that are not 0, as "free=1 assigned=1 ". */
static const char *text_of(const struct pool_count *counts, size_t n)
{
    static char text[256];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        if (counts[i].n > 0) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s=%u ", counts[i].state,
                                     (unsigned)counts[i].n);
        }
    }
    return text;
}

TEST_IN(pool, nodes_and_jobs_are_counted_by_state)
{
    server_place(spec_of("j", 1, 1));
    node_comes(1, NULL, 0);
    node_comes(2, NULL, 0);
    notices(2, NOTICE_PREEMPT, false);
    agents_run("j", 1);
    assert_string_equal(server_submit(spec_of("k", 3, 3)), "done");
    server_pass(700);
    assert_string_equal(server_submit(spec_of("l", 3, 3)), "done");
    server_pass(300);
    struct pool_counts counts;
    pool_count(server.pool, &counts);
    assert_string_equal(text_of(counts.nodes, POOL_NODE_STATES), "free=1 assigned=1 warned=1 ");
    assert_string_equal(text_of(counts.jobs, sizeof(counts.jobs) / sizeof(counts.jobs[0])),
                        "waiting=2 running=1 ");
    assert_int_equal(counts.oldest_ms, 1000);
    assert_int_equal(counts.assigned, 1);
    assert_int_equal(counts.released, 0);
}

/* --- restart of the server -------------------------------------------------------------------- */

/* Returns the value of a metric without labels, as GAUGES reports it. */
static double gauge_of(const char *name)
{
    struct rows *rows;
    struct tfe_msg msg;
    double value = -1;
    assert_int_equal(rows_gauges(server.all, &rows), 0);
    while (rows_next(rows, &msg) == 0 && msg.type == MSG_GAUGE) {
        value = strcmp(msg.u.gauge.name, name) == 0 ? msg.u.gauge.value : value;
    }
    assert_int_equal(msg.type, MSG_STATUS_END);
    rows_free(rows);
    return value;
}

TEST_IN(pool, gauges_count_each_job_once_without_reading_its_text)
{
    server_place(spec_of("a", 1, 1));
    assert_string_equal(server_submit(spec_of("b", 1, 1)), "done"); /* unknown to the core */
    agents_run("a", 1);
    free(server.pool->shown);
    server.pool->shown = NULL;
    assert_int_equal((int)gauge_of("tfe_jobs"), 2);
    assert_int_equal((int)gauge_of("tfe_leases"), 1);
    assert_int_equal((int)gauge_of("tfe_nodes_connected"), 1);
    assert_null(server.pool->shown);
}

TEST_IN(pool, restarted_server_restores_jobs_nodes_and_remaining_ttl)
{
    struct submitted spec = spec_of("j", 2, 2);
    spec.fields = "'priority': 600";
    server_place(spec);
    spec = spec_of("k", 1, 1);
    spec.fields = "'ttl_after_finished_s': 5";
    assert_string_equal(server_submit(spec), "done");
    assert_string_equal(server_order_about(MSG_CANCEL, "k"), "done");
    const struct tfe_id run_key = job_of("j")->run_key;
    const uint64_t number = job_of("k")->number;
    server_pass(2000);
    server_restart();
    assert_string_equal(job_of("j")->run_key.text, run_key.text);
    assert_int_equal(row_of("j").priority, 600);
    assert_string_equal(state_of("j"), "starting");
    node_comes(0, NULL, 1);
    node_comes(1, NULL, 2);
    nodes_heard_is("");
    assert_string_equal(server_submit(spec_of("l", 1, 1)), "done");
    assert_int_equal(job_of("l")->number, number + 1);
    server_pass(2000);
    assert_string_equal(state_of("k"), "cancelled");
    server_pass(2000);
    assert_string_equal(state_of("k"), "gone");
    server_restart();
    server_pass(POOL_LEASE_MS); /* its nodes do not come back */
    assert_null(node_of(0));
}

/* --- disk ------------------------------------------------------------------------------------- */

TEST_IN(pool, job_that_cannot_be_stored_is_refused_and_not_placed)
{
    node_comes(0, NULL, 0);
    disk_refuses(true);
    assert_has(server_submit(spec_of("j", 1, 1)), "store: ");
    assert_string_equal(state_of("j"), "failed");
    disk_refuses(false);
    server_pass(6000);
    assert_has(condition_of("j"), "NotStored ");
    nodes_heard_is("");
}

TEST_IN(pool, assignment_is_sent_once_it_is_durable)
{
    assert_string_equal(server_submit(spec_of("j", 1, 2)), "done");
    disk_refuses(true);
    node_comes(0, NULL, 0);
    node_comes(1, NULL, 0);
    nodes_heard_is("");
    disk_refuses(false);
    const struct tfe_msg scale = {.type = MSG_SCALE, .u.scale = {"j", 1, 1, MSG_UNSET}};
    const char *answer = server_order(scale);
    server_pass(2000); /* the write is tried again */
    assert_string_equal(answer, "done");
    const char *heard = nodes_heard();
    assert_has(heard, ":assign ");
    assert_null(strstr(heard, ":release")); /* an assignment that was never sent just ends */
    assert_true((node_of(0)->assignment == 0) != (node_of(1)->assignment == 0));
}

TEST_IN(pool, order_that_failed_on_disk_is_written_later)
{
    assert_string_equal(server_submit(spec_of("j", 1, 1)), "done");
    disk_refuses(true);
    assert_has(server_order_about(MSG_SUSPEND, "j"), "store: ");
    disk_refuses(false);
    server_pass(6000);
    assert_int_equal(job_of("j")->written, job_of("j")->version);
    server_restart();
    assert_string_equal(state_of("j"), "suspended");
}

TEST_IN(pool, order_is_answered_once_it_is_durable)
{
    disk_hangs(true);
    const char *first = server_submit(spec_of("j", 1, 1));
    disk_hangs(true); /* after the write of SUBMIT, before that of SUSPEND */
    const char *second = server_order_about(MSG_SUSPEND, "j");
    assert_string_equal(first, "");
    disk_hangs(false);
    for (int i = 0; i < 10000 && strcmp(first, "done") != 0; i++) {
        server_settle();
        (void)sched_yield();
    }
    assert_string_equal(first, "done");
    assert_string_equal(second, "");
    disk_hangs(false);
    assert_string_equal(second, "done");
}

TEST_IN(pool, successor_takes_over_the_row_of_a_forgotten_job)
{
    assert_string_equal(server_submit(spec_of("j", 1, 1)), "done");
    assert_has(server_order_about(MSG_FORGET, "j"), "conflict: ");
    assert_string_equal(server_order_about(MSG_CANCEL, "j"), "done");
    disk_refuses(true);
    (void)server_order_about(MSG_FORGET, "j");
    const char *answer = server_submit(spec_of("j", 2, 2));
    disk_refuses(false);
    server_pass(6000);
    if (strcmp(answer, "done") != 0) {
        assert_string_equal(server_submit(spec_of("j", 2, 2)), "done");
    }
    server_restart();
    assert_string_equal(state_of("j"), "waiting");
    assert_int_equal(row_of("j").min_nodes, 2);
}

TEST_IN(pool, failed_deletion_is_not_retried_once_the_job_has_a_successor)
{
    assert_string_equal(server_submit(spec_of("j", 1, 1)), "done");
    assert_string_equal(server_order_about(MSG_CANCEL, "j"), "done");
    disk_hangs(true);
    (void)server_order_about(MSG_FORGET, "j");
    const char *answer = server_submit(spec_of("j", 2, 2));
    assert_int_equal(server.pool->n_jobs, 2);
    disk_refuses(true);
    disk_hangs(false);
    assert_has(answer, "store: ");
    assert_int_equal(server.pool->n_jobs, 1);
    disk_refuses(false);
}

/* Submits the job j, suspended, with a variable of n bytes in four. */
static const char *submit_large(size_t n)
{
    static char spec[2 * MSG_SPEC_MAX];
    size_t at = (size_t)snprintf(spec, sizeof spec,
                                 "{\"name\": \"j\", \"suspend\": true, \"env\": {\"X\": \"\"");
    for (unsigned i = 0; i < 4; i++) {
        const size_t part = n / 4 + (i < n % 4);
        at += (size_t)snprintf(spec + at, sizeof spec - at, ", \"V%u\": \"%0*d\"", i, (int)part, 0);
    }
    (void)snprintf(spec + at, sizeof spec - at, "}}");
    return server_order(
        (struct tfe_msg){.type = MSG_SUBMIT, .u.submit = {.job = "j", .spec = spec}});
}

TEST_IN(pool, largest_job_can_be_scaled_and_resumed)
{
    size_t n = MSG_SPEC_MAX;
    while (strcmp(submit_large(n), "done") != 0) {
        assert_in_range(--n, MSG_SPEC_MAX / 2, MSG_SPEC_MAX);
    }
    const struct tfe_msg scale = {.type = MSG_SCALE,
                                  .u.scale = {"j", MSG_NODES_MAX, MSG_NODES_MAX, MSG_UNSET}};
    assert_string_equal(server_order(scale), "done");
    assert_string_equal(server_order_about(MSG_RESUME, "j"), "done");
    server_restart();
    assert_string_equal(state_of("j"), "waiting");
    assert_int_equal(row_of("j").max_nodes, MSG_NODES_MAX);
}

TEST_IN(pool, invalid_or_misnamed_job_file_is_refused)
{
    static const struct {
        const char *spec, *sentence;
    } cases[] = {
        {"{]", "bad_request: the job is not valid JSON"},
        {"[]", "bad_request: expected a mapping of fields"},
        {"{\"command\": [\"a\"]}", "bad_request: name: missing"},
        {"{\"name\": \"other\"}", "bad_request: name: the job's name differs"},
        {"{\"name\": \"j\", \"name\": \"j\"}", "bad_request: the job is not valid JSON: duplicate"},
        {"{\"name\": \"j\", \"x\": \"\\u0000\"}", "bad_request: the job is not valid JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_has(server_order((struct tfe_msg){.type = MSG_SUBMIT,
                                                 .u.submit = {.job = "j", .spec = cases[i].spec}}),
                   cases[i].sentence);
    }
    struct submitted spec = spec_of("j", 1, 1);
    spec.fields = "'source': {'bundle': 'abc'}";
    assert_has(server_submit(spec), "bad_request: source: bundle: expected a digest");
    spec.fields = "'source': {'git': 'https://host/repository', 'ref': 'main'}";
    assert_has(server_submit(spec), "bad_request: source: ref: expected a full commit ID");
    spec.fields = "'options': {'trainer-user': 'root'}";
    assert_has(server_submit(spec), "bad_request: options: trainer-user: not an option");
    assert_string_equal(state_of("j"), "gone");
}

TEST_IN(pool, row_of_a_job_has_its_text_with_defaults_and_without_secrets)
{
    struct submitted spec = spec_of("j", 1, 1);
    spec.fields = "'env': {'A': 's3cr3t'}, 'source': {'path': '/code'}";
    assert_string_equal(server_submit(spec), "done");
    assert_has(job_of("j")->spec, "\"env\":{\"A\":\"s3cr3t\"}");
    assert_string_equal(server_order_about(MSG_SUSPEND, "j"), "done");
    server_restart();
    const char *shown = row_of("j").spec;
    assert_has(shown, "\"env\":[\"A\"]");
    assert_has(shown, "\"source\":{\"path\":\"/code\"}");
    assert_has(shown, "\"restart_policy\":\"OnFailure\"");
    assert_has(shown, "\"suspend\":true");
    assert_null(strstr(shown, "s3cr3t"));
}
