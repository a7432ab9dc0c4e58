/* tests/unit/server/test_pool_orders.c: orders about submitted jobs, and what users see of these
 * jobs. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/server/pool_bench.h"

#define FIXTURE bench_begin, bench_end

/* Executes an order about a job as an admin of all jobs. */
static const char *order(enum tfe_msg_type type, const char *job)
{
    struct tfe_msg msg = {.type = type};
    switch ((int)type) {
    case MSG_SUSPEND:
        msg.u.suspend.job = job;
        break;
    case MSG_RESUME:
        msg.u.resume.job = job;
        break;
    case MSG_CANCEL:
        msg.u.cancel.job = job;
        break;
    case MSG_RERUN:
        msg.u.rerun.job = job;
        break;
    default:
        fail();
    }
    return bench_order(&bench.admin, msg);
}

static const char *scale(const char *job, uint32_t min, uint32_t max, uint32_t n_ps)
{
    return bench_order(&bench.admin,
                       (struct tfe_msg){.type = MSG_SCALE, .u.scale = {job, min, max, n_ps}});
}

static const char *submit_by(const struct principal *by, struct msg_spec spec)
{
    return bench_order(by, (struct tfe_msg){.type = MSG_SUBMIT, .u.submit.spec = spec});
}

static void begins_with(const char *text, const char *head)
{
    if (strncmp(text, head, strlen(head)) != 0) {
        fail_msg("%s: does not begin with %s", text, head);
    }
}

/* --- submission ------------------------------------------------------------------------------- */

TEST_IN(pool_orders, who_hands_in_some_jobs_pushes_nobody_aside)
{
    struct msg_spec spec = bench_spec("a-1", 1, 1);
    spec.preempt = true;
    begins_with(submit_by(&bench.someone, spec), "bad_request: preempt:");
    spec.preempt = false;
    spec.priority = MSG_PRIORITY_DEFAULT + 1;
    begins_with(submit_by(&bench.someone, spec), "bad_request: priority:");
    spec.priority = MSG_PRIORITY_DEFAULT;
    assert_string_equal(submit_by(&bench.someone, spec), "done");
    spec = bench_spec("a-2", 1, 1);
    spec.priority = MSG_UNSET;
    assert_string_equal(submit_by(&bench.someone, spec), "done");
    spec = bench_spec("b", 1, 1);
    spec.preempt = true;
    spec.priority = 1000;
    assert_string_equal(submit_by(&bench.admin, spec), "done");
}

TEST_IN(pool_orders, what_others_have_handed_in_takes_nobodys_place)
{
    assert_string_equal(bench_submit(bench_spec("b-1", 1, 1)), "done");
    assert_string_equal(bench_submit(bench_spec("b-2", 1, 1)), "done");
    assert_string_equal(submit_by(&bench.someone, bench_spec("a-1", 1, 1)), "done");
}

TEST_IN(pool_orders, a_name_is_one_jobs_until_that_is_over)
{
    assert_string_equal(bench_submit(bench_spec("j", 1, 1)), "done");
    begins_with(bench_submit(bench_spec("j", 1, 1)), "conflict: job \"j\" is not over");
    assert_string_equal(order(MSG_CANCEL, "j"), "done");
    assert_string_equal(bench_state("j"), "cancelled");
    begins_with(bench_row("j")->conditions, "Created 1 ");
    assert_non_null(strstr(bench_row("j")->conditions, " JobCancelled "));
    const struct tfe_id run_key = pool_job_find(bench.p, "j")->run_key;
    const uint64_t number = pool_job_find(bench.p, "j")->number;
    assert_string_equal(bench_submit(bench_spec("j", 2, 3)), "done");
    assert_string_not_equal(pool_job_find(bench.p, "j")->run_key.text, run_key.text);
    assert_int_equal(pool_job_find(bench.p, "j")->number, number + 1);
    assert_string_equal(
        bench_jobs(),
        "job j waiting p500 2:3 nodes 0 cmd python train.py waits waiting for 2 more nodes: the "
        "pool has too few that may work for it\n");
    assert_null(strstr(bench_row("j")->conditions, "Failed"));
    assert_int_equal(bench.p->n_jobs, 1);
}

TEST_IN(pool_orders, agents_that_were_started_by_hand_keep_their_name)
{
    bench_core_is("j", "running")->run_key = "theirs";
    begins_with(bench_submit(bench_spec("j", 1, 1)),
                "conflict: agents that were started by hand work for a job \"j\"");
    static const char *const over[] = {"succeeded", "failed", "cancelled"};
    for (size_t i = 0; i < 3; i++) {
        bench_core_is("j", over[i]);
        assert_string_equal(bench_submit(bench_spec("j", 1, 1)), "done");
        assert_string_equal(order(MSG_CANCEL, "j"), "done");
    }
}

TEST_IN(pool_orders, what_cannot_be_honoured_is_refused_by_its_name)
{
    static const char *labels[MSG_POOL_LABELS_MAX + 1];
    static const char *role_labels[] = {"ps:a=b"};
    for (size_t i = 0; i <= MSG_POOL_LABELS_MAX; i++) {
        labels[i] = "a=b";
    }
    struct msg_spec spec = bench_spec("j", 1, 1);
    spec.labels = labels;
    spec.n_labels = MSG_POOL_LABELS_MAX;
    spec.role_labels = role_labels;
    spec.n_role_labels = 1;
    begins_with(bench_submit(spec), "bad_request: labels:");
    spec.n_role_labels = 0;
    assert_string_equal(bench_submit(spec), "done");

    spec = bench_spec("k", 1, 1);
    spec.source_kind = SOURCE_GIT;
    spec.source = "https://host/repository";
    begins_with(bench_submit(spec), "bad_request: source: git");
    spec.source_kind = SOURCE_BUNDLE;
    spec.source = "abc";
    begins_with(bench_submit(spec), "bad_request: source: a bundle");
    assert_string_equal(bench_state("k"), "gone");
}

TEST_IN(pool_orders, a_command_that_fits_no_record_is_refused)
{
    static char word[MSG_WORD_MAX];
    static const char *argv[5] = {word, word, word, word, word};
    memset(word, 'x', sizeof word - 1);
    struct msg_spec spec = bench_spec("j", 1, 1);
    spec.argv = argv;
    spec.n_argv = 3;
    begins_with(bench_submit(spec), "bad_request: the job needs more than 12288 bytes");
    spec.n_argv = 2;
    assert_string_equal(bench_submit(spec), "done");
}

TEST_IN(pool_orders, one_that_the_disk_does_not_take_is_refused_and_placed_nowhere)
{
    bench_came(0, NULL, 0);
    bench.disk = TFE_EDISK;
    assert_string_equal(bench_submit(bench_spec("j", 1, 1)), "store: the disk is full");
    assert_string_equal(bench_state("j"), "failed");
    assert_true(pool_job_find(bench.p, "j")->is_over);
    bench.disk = 0;
    bench_pass(POOL_CHECK_MS);
    bench_durable();
    assert_non_null(strstr(bench_row("j")->conditions, " NotStored "));
    assert_null(strstr(bench_said(), "assign"));
}

TEST_IN(pool_orders, what_the_disk_did_not_take_is_tried_again_though_nothing_else_happens)
{
    assert_string_equal(bench_submit(bench_spec("j", 1, 1)), "done");
    bench.disk = TFE_EDISK;
    assert_string_equal(order(MSG_SUSPEND, "j"), "store: the disk is full");
    assert_null(strstr(bench_row("j")->conditions, "Suspended"));
    bench.disk = 0;
    bench.takes_row = false; /* the writer has no memory either */
    bench_pass(POOL_CHECK_MS);
    bench_durable();
    bench.takes_row = true;
    bench_pass(POOL_CHECK_MS);
    bench_durable();
    assert_non_null(strstr(bench_row("j")->conditions, "Suspended 1 "));
    bench_pass(100000);
    assert_int_equal(bench.waiting, 0); /* a durable row is not written again */
}

TEST_IN(pool_orders, an_order_is_answered_once_all_of_it_is_durable)
{
    struct tfe_msg msg = {.type = MSG_SUBMIT, .u.submit.spec = bench_spec("j", 1, 1)};
    struct rows *first;
    struct rows *second;
    assert_int_equal(rows_pool_order(bench.p, &bench.admin, &msg, &first), 0);
    bool woken[2] = {false, false};
    rows_on_wake(first, bench_on_wake, &woken[0]);
    bench_turn(); /* the write has been started */
    assert_int_equal(bench.waiting, 1);
    msg = (struct tfe_msg){.type = MSG_SUSPEND, .u.suspend.job = "j"};
    assert_int_equal(rows_pool_order(bench.p, &bench.admin, &msg, &second), 0);
    rows_on_wake(second, bench_on_wake, &woken[1]);
    bench_durable_once();
    assert_true(woken[0]);
    assert_false(woken[1]); /* the finished write does not contain the second order */
    assert_int_equal(rows_next(second, &msg), TFE_EMORE);
    bench_durable();
    assert_true(woken[1]);
    rows_free(first);
    rows_free(second);
}

TEST_IN(pool_orders, who_has_gone_is_answered_no_more)
{
    struct tfe_msg msg = {.type = MSG_SUBMIT, .u.submit.spec = bench_spec("j", 1, 1)};
    struct rows *rows;
    assert_int_equal(rows_pool_order(bench.p, &bench.admin, &msg, &rows), 0);
    bool woken = false;
    rows_on_wake(rows, bench_on_wake, &woken);
    rows_free(rows);
    bench_durable();
    assert_false(woken);
    assert_string_equal(bench_state("j"), "waiting");
}

TEST_IN(pool_orders, what_is_no_order_about_such_jobs_is_none_of_these)
{
    const struct tfe_msg drain = {.type = MSG_DRAIN, .u.drain.node = "n0"};
    struct rows *rows;
    assert_int_equal(rows_pool_order(bench.p, &bench.admin, &drain, &rows), 0);
    assert_null(rows);
    const struct tfe_msg cancel = {.type = MSG_CANCEL, .u.cancel.job = "j"};
    assert_int_equal(rows_pool_order(bench.p, &bench.admin, &cancel, &rows), 0);
    assert_null(rows);
}

TEST_IN(pool_orders, the_row_of_one_that_was_forgotten_is_its_successors)
{
    assert_string_equal(bench_submit(bench_spec("j", 1, 1)), "done");
    assert_int_equal(pool_forget(bench.p, "j"), TFE_ESTATE);
    assert_int_equal(pool_forget(bench.p, "k"), TFE_ENOENT);
    assert_true(pool_holds(bench.p, "j"));
    assert_string_equal(order(MSG_CANCEL, "j"), "done");
    assert_false(pool_holds(bench.p, "j"));
    assert_int_equal(pool_forget(bench.p, "j"), 0); /* the job's row is about to be removed */
    assert_string_equal(bench_state("j"), "gone");
    /* The removal is cancelled, because the job is submitted again. */
    assert_string_equal(bench_submit(bench_spec("j", 2, 2)), "done");
    bench_durable();
    assert_non_null(bench_row("j"));
    assert_int_equal(bench.p->n_jobs, 1);
    bench_restart();
    assert_string_equal(bench_state("j"), "waiting");
}

TEST_IN(pool_orders, the_row_of_a_successor_is_not_removed_by_one_that_the_disk_refused_to_forget)
{
    struct tfe_msg msg = {.type = MSG_SUBMIT, .u.submit.spec = bench_spec("j", 2, 2)};
    struct rows *rows;
    bool woken = false;
    assert_string_equal(bench_submit(bench_spec("j", 1, 1)), "done");
    assert_string_equal(order(MSG_CANCEL, "j"), "done");
    assert_int_equal(pool_forget(bench.p, "j"), 0);
    bench_turn();
    assert_int_equal(bench.waiting, 1); /* the write is in progress */
    assert_int_equal(rows_pool_order(bench.p, &bench.admin, &msg, &rows), 0);
    rows_on_wake(rows, bench_on_wake, &woken);
    bench.disk = TFE_EDISK;
    bench_durable_once();
    bench.disk = 0;
    bench_durable();
    assert_true(woken);
    bench_pass(2L * POOL_CHECK_MS);
    bench_durable();
    assert_non_null(bench_row("j"));
    assert_int_equal(bench.p->n_jobs, 1);
    rows_free(rows);
}

TEST_IN(pool_orders, a_job_that_has_nodes_is_not_forgotten)
{
    bench_came(0, NULL, 0);
    assert_string_equal(bench_submit(bench_spec("j", 1, 1)), "done");
    bench_durable();
    assert_string_equal(order(MSG_CANCEL, "j"), "done");
    assert_true(pool_holds(bench.p, "j"));
    assert_int_equal(pool_forget(bench.p, "j"), TFE_ESTATE);
    bench_freed(0, 1, 143);
    assert_false(pool_holds(bench.p, "j"));
    assert_int_equal(placement_jobs(bench.p->placement), 1);
    assert_int_equal(pool_forget(bench.p, "j"), 0);
    assert_false(pool_holds(bench.p, "j"));
    assert_int_equal(placement_jobs(bench.p->placement), 0);
}

/* --- changes ---------------------------------------------------------------------------------- */

TEST_IN(pool_orders, a_suspended_job_is_resumed_and_the_same_twice_is_done)
{
    struct msg_spec spec = bench_spec("j", 1, 1);
    bench_came(0, NULL, 0);
    assert_string_equal(bench_submit(spec), "done");
    bench_quiet();
    assert_string_equal(order(MSG_SUSPEND, "j"), "done");
    assert_string_equal(order(MSG_SUSPEND, "j"), "done");
    bench_freed(0, 1, 143);
    bench_durable();
    bench_said_is("0:release 1 60000ms the job is suspended; ");
    assert_string_equal(bench_jobs(),
                        "job j suspended p500 1:1 nodes 0 cmd python train.py waits waiting to be "
                        "resumed (tfe-ctl resume)\n");
    assert_string_equal(order(MSG_RESUME, "j"), "done");
    bench_durable();
    bench_said_is("0:assign 2 j any; ");
    assert_string_equal(bench_events(),
                        "j suspended: the job is suspended: its nodes go back to the pool; "
                        "j released: 1 node of the job is released: the job is suspended; "
                        "j resumed: the job is resumed, and waits for nodes; "
                        "j assigned: the job gets 1 node of the pool; ");
}

TEST_IN(pool_orders, one_that_begins_anew_has_nothing_of_its_run_before)
{
    struct msg_spec spec = bench_spec("j", 1, 1);
    spec.suspend = true;
    bench_came(0, NULL, 0);
    assert_string_equal(bench_submit(spec), "done");
    assert_string_equal(bench_state("j"), "suspended");
    begins_with(order(MSG_RERUN, "j"), "conflict: job \"j\" is not over: cancel it first");
    assert_string_equal(order(MSG_RESUME, "j"), "done");
    bench_core_is("j", "running");
    bench_durable();
    assert_true(bench_row("j")->started.ms != 0);
    assert_string_equal(order(MSG_SUSPEND, "j"), "done");
    assert_string_equal(order(MSG_CANCEL, "j"), "done");
    begins_with(order(MSG_RERUN, "j"), "conflict: job \"j\" has not ended yet");
    bench_core_is("j", "cancelled");
    bench_durable();
    begins_with(order(MSG_SUSPEND, "j"), "conflict: job \"j\" is over");
    begins_with(scale("j", 1, 1, MSG_UNSET), "conflict: job \"j\" is over");
    bench_core_is("j", NULL);
    bench_freed(0, 1, 143);
    (void)bench_said();
    assert_string_equal(order(MSG_RERUN, "j"), "done");
    bench_durable();
    bench_said_is("0:assign 2 j any; "); /* the new run is not suspended */
    assert_string_equal(bench_state("j"), "starting");
    assert_true(bench_row("j")->started.ms == 0);
    assert_false(pool_job_find(bench.p, "j")->is_over);
    assert_null(strstr(bench_row("j")->conditions, "Failed"));
}

TEST_IN(pool_orders, one_that_has_succeeded_begins_anew_as_one_that_never_ran)
{
    bench_came(0, NULL, 0);
    assert_string_equal(bench_submit(bench_spec("j", 1, 1)), "done");
    bench_core_is("j", "running");
    bench_durable();
    bench_core_is("j", "succeeded");
    bench_durable();
    bench_freed(0, 1, 0);
    assert_true(bench_row("j")->started.ms != 0);
    bench_core_is("j", "succeeded")->run_key = "of-that-run";
    assert_string_equal(order(MSG_RERUN, "j"), "done");
    assert_true(bench_row("j")->started.ms == 0);
    assert_string_equal(bench_state("j"), "starting");
}

TEST_IN(pool_orders, one_that_begins_anew_has_its_starts_and_its_time_again)
{
    struct msg_spec spec = bench_spec("j", 1, 1);
    spec.backoff_limit = 0;
    spec.ttl_after_finished_ms = 5000;
    bench_came(0, NULL, 0);
    assert_string_equal(bench_submit(spec), "done");
    bench_durable();
    bench_freed(0, 1, 127);
    bench_durable();
    assert_string_equal(bench_state("j"), "failed");
    bench_pass(1000);
    assert_string_equal(order(MSG_RERUN, "j"), "done");
    assert_int_equal(pool_job_find(bench.p, "j")->failures, 0);
    bench_pass(6000); /* the time to live of the earlier run no longer applies */
    assert_string_equal(bench_state("j"), "starting");
}

TEST_IN(pool_orders, what_has_become_of_a_job_is_so_since_it_became_so)
{
    assert_string_equal(bench_submit(bench_spec("j", 1, 1)), "done");
    struct pool_job *job = pool_job_find(bench.p, "j");
    const struct pool_condition *c = &job->conditions[STATE_FAILED];
    pool_job_is(job, STATE_FAILED, "First", "it failed");
    const int64_t at = c->at.ms;
    bench_pass(10);
    pool_job_is(job, STATE_FAILED, "Second", "it is known why");
    assert_int_equal(c->at.ms, at);
    assert_string_equal(c->reason, "Second");
    const uint64_t version = job->version;
    pool_job_is(job, STATE_FAILED, "Second", "once more");
    assert_int_equal(job->version, version); /* nothing to write */
    assert_string_equal(c->says, "it is known why");
}

TEST_IN(pool_orders, cancelled_what_lingers_is_let_go)
{
    struct msg_spec spec = bench_spec("j", 1, 1);
    spec.clean_policy = CLEAN_NONE;
    bench_came(0, NULL, 0);
    assert_string_equal(bench_submit(spec), "done");
    bench_durable();
    bench_core_is("j", "running")->outcome.lingers = true;
    bench_durable();
    begins_with(order(MSG_RERUN, "j"), "conflict: job \"j\" is not over: cancel it first");
    begins_with(bench_submit(spec), "conflict: job \"j\" is not over");
    (void)bench_said();
    assert_string_equal(order(MSG_CANCEL, "j"), "done");
    bench_said_is("core:stop j; 0:release 1 60000ms the job is over OVER; ");
    assert_string_equal(bench_state("j"), "succeeded");
    assert_string_equal(order(MSG_CANCEL, "j"), "done"); /* a finished job is unchanged */
    assert_string_equal(bench_state("j"), "succeeded");
}

TEST_IN(pool_orders, one_that_the_core_has_is_cancelled_and_scaled_there)
{
    assert_string_equal(bench_submit(bench_spec("j", 1, 1)), "done");
    bench_core_is("j", "running");
    bench_durable();
    (void)bench_said();
    assert_string_equal(scale("j", 2, 3, MSG_UNSET), "done");
    bench_said_is("core:SCALE j 2:3 ps -1; ");
    bench.core_refuses = true;
    assert_string_equal(scale("j", 1, 1, MSG_UNSET), "bad_request: the core does not");
    assert_string_equal(order(MSG_CANCEL, "j"), "bad_request: the core does not");
    assert_string_equal(bench_state("j"), "running");
    assert_int_equal(pool_job_find(bench.p, "j")->max_nodes, 3);
    bench.core_refuses = false;
    (void)bench_said();
    assert_string_equal(order(MSG_CANCEL, "j"), "done");
    bench_said_is("core:CANCEL j; ");
}

TEST_IN(pool_orders, a_job_is_scaled_in_what_it_has)
{
    struct msg_spec spec = bench_spec("j", 1, 2);
    spec.n_ps = 1;
    assert_string_equal(bench_submit(spec), "done");
    assert_string_equal(bench_submit(bench_spec("k", 1, 2)), "done");
    begins_with(scale("k", 1, 2, 1), "bad_request: job \"k\" has no ps");
    assert_string_equal(scale("j", 1, 2, 3), "done");
    const struct pool_job *job = pool_job_find(bench.p, "j");
    assert_int_equal(job->n_ps, 3);
    assert_int_equal(job->min_nodes, 1);
    assert_int_equal(job->max_nodes, 2);
    assert_string_equal(scale("j", 4, 5, MSG_UNSET), "done");
    assert_int_equal(job->n_ps, 3);
    assert_int_equal(job->min_nodes, 4);
    assert_int_equal(job->max_nodes, 5);
    (void)bench_said();
    bench_core_is("j", "running");
    assert_string_equal(scale("j", 4, 5, 2), "done");
    bench_said_is("core:SCALE j 4:5 ps 2; ");
    bench_restart(); /* restart with the stored row */
    assert_int_equal(pool_job_find(bench.p, "j")->n_ps, 2);
    assert_int_equal(pool_job_find(bench.p, "j")->min_nodes, 4);
}

/* --- queries ---------------------------------------------------------------------------------- */

TEST_IN(pool_orders, jobs_are_listed_by_name_with_what_they_wait_for)
{
    struct msg_spec spec = bench_spec("b", 1, 1);
    assert_string_equal(bench_submit(bench_spec("a-1", 1, 1)), "done");
    spec.priority = 700;
    assert_string_equal(bench_submit(spec), "done");
    assert_string_equal(bench_submit(bench_spec("a-2", 2, 2)), "done");
    bench_came(0, NULL, 0);
    bench_came(1, NULL, 0);
    bench_durable();
    assert_string_equal(
        bench_jobs(),
        "job a-1 starting p500 1:1 nodes 1 cmd python train.py waits waiting for its nodes to join "
        "and be "
        "ready\n"
        "job a-2 waiting p500 2:2 nodes 0 cmd python train.py waits waiting for 2 more nodes: "
        "other jobs have them, or nobody\n"
        "job b starting p700 1:1 nodes 1 cmd python train.py waits waiting for its nodes to join "
        "and be "
        "ready\n");
}

TEST_IN(pool_orders, waiting_job_says_how_many_nodes_have_its_labels)
{
    static const char *const wanted[] = {"gpu=a100", "zone=b"};
    static const char *const of_ps[] = {"ps:disk=ssd"};
    struct msg_spec spec = bench_spec("j", 1, 1);
    spec.labels = wanted;
    spec.n_labels = 1;
    bench_came(0, NULL, 0);
    bench_came(1, NULL, 0);
    bench_came(2, NULL, 0);
    assert_string_equal(bench_submit(spec), "done");
    bench_durable();
    assert_non_null(strstr(bench_jobs(), "; 0 of 3 nodes have gpu=a100\n"));
    spec = bench_spec("k", 1, 1);
    spec.labels = wanted;
    spec.n_labels = 2;
    spec.role_labels = of_ps;
    spec.n_role_labels = 1;
    spec.n_ps = 1;
    bench_came(3, "gpu=a100", 0);
    bench_durable();
    assert_string_equal(bench_submit(spec), "done");
    bench_durable();
    assert_non_null(strstr(bench_jobs(), "; 0 of 4 nodes have gpu=a100 and zone=b; 0 of 4 nodes "
                                         "have gpu=a100 and zone=b and disk=ssd (for its ps)\n"));
}

TEST_IN(pool_orders, job_of_agents_is_not_shown_as_submitted)
{
    assert_string_equal(bench_described("j"), "not the pool's\n");
    /* A job whose later run was started by agents alone belongs to the agents. */
    assert_string_equal(bench_submit(bench_spec("j", 1, 1)), "done");
    assert_string_equal(order(MSG_CANCEL, "j"), "done");
    begins_with(bench_described("j"), "job j cancelled ");
    bench_core_is("j", "running")->run_key = "theirs";
    begins_with(bench_described("j"), "not the pool's\n");
    begins_with(order(MSG_SUSPEND, "j"), "conflict: job \"j\" was opened by agents");
    begins_with(order(MSG_RERUN, "j"), "conflict: job \"j\" was opened by agents");
}

TEST_IN(pool_orders, order_about_an_unknown_job_is_refused)
{
    begins_with(order(MSG_SUSPEND, "j"), "no_such_job: there is no job \"j\"");
    begins_with(order(MSG_RERUN, "j"), "no_such_job: there is no job \"j\"");
}

TEST_IN(pool_orders, nodes_are_listed_with_what_they_do)
{
    struct msg_spec spec = bench_spec("j", 1, 1);
    spec.chief = true;
    bench_came(0, "gpu=a100", 0);
    bench_came(1, NULL, 0);
    bench_came(2, NULL, 0);
    bench_came(3, NULL, 0);
    assert_string_equal(bench_submit(spec), "done");
    assert_string_equal(bench_submit(bench_spec("k", 1, 1)), "done");
    bench_durable();
    unsigned of_k = 0;
    while (!bench_node(of_k)->job || strcmp(bench_node(of_k)->job->name.text, "k") != 0) {
        of_k++;
    }
    bench_freed(of_k, 3, 1);
    bench_left(0);
    bench_turn();
    const char *text = bench_all_nodes();
    assert_non_null(strstr(text, " host-0 [gpu=a100] away of j as "));
    assert_non_null(strstr(text, " resting of k as any\n"));
    assert_non_null(strstr(text, " assigned of j as "));
    assert_non_null(strstr(text, "host-3 [] free of  as any\n"));
    assert_non_null(strstr(text, " as chief\n"));
    assert_non_null(strstr(text, " as worker\n"));
    assert_string_equal(order(MSG_CANCEL, "j"), "done");
    assert_non_null(strstr(bench_all_nodes(), " leaving of j as "));
    text = bench_described("j");
    assert_null(strstr(text, "host-3"));
    assert_non_null(strstr(text, "host-0"));
    assert_non_null(strstr(text, "nodes 2 cmd"));
}

static struct {
    char text[1024];
    uint64_t oldest_ms;
} counted;

static void count(void *ctx, const char *name, const char *key, const char *of, uint64_t value)
{
    const size_t n = strlen(counted.text);
    if (strcmp(name, "pool_queue_oldest_ms") == 0) {
        counted.oldest_ms = value;
    } else if (value > 0) {
        (void)snprintf(counted.text + n, sizeof counted.text - n, "%s{%s}=%u ", name, of ? of : "",
                       (unsigned)value);
    }
}

TEST_IN(pool_orders, nodes_that_are_warned_are_listed_so_where_they_have_no_work)
{
    const struct tfe_msg warned = {.type = MSG_NOTICE, .u.notice.kind = NOTICE_PREEMPT};
    bench_came(0, NULL, 0);
    bench_came(1, NULL, 0);
    assert_string_equal(bench_submit(bench_spec("j", 1, 1)), "done");
    bench_durable();
    bench_pass(5000);
    pool_handle_message(bench.p, &bench.sessions[0], &warned);
    pool_handle_message(bench.p, &bench.sessions[1], &warned);
    assert_int_equal(bench_node(1)->since.ms - bench_node(0)->since.ms, 5000);
    const char *text = bench_all_nodes();
    assert_non_null(strstr(text, "host-0 [] assigned of j as "));
    assert_non_null(strstr(text, "host-1 [] warned of  as any\n"));
    memset(&counted, 0, sizeof counted);
    pool_count(bench.p, count, NULL);
    assert_non_null(strstr(counted.text, "pool_nodes{assigned}=1 pool_nodes{warned}=1 "));
}

TEST_IN(pool_orders, the_pool_is_counted_as_it_is)
{
    bench_came(0, NULL, 0);
    bench_came(1, NULL, 0);
    assert_string_equal(bench_submit(bench_spec("j", 1, 1)), "done");
    bench_durable();
    bench_core_is("j", "running");
    bench_durable();
    assert_string_equal(bench_submit(bench_spec("k", 3, 3)), "done");
    bench_pass(700);
    assert_string_equal(bench_submit(bench_spec("l", 3, 3)), "done");
    bench_pass(300);
    memset(&counted, 0, sizeof counted);
    pool_count(bench.p, count, NULL);
    assert_string_equal(counted.text, "pool_nodes{free}=1 pool_nodes{assigned}=1 "
                                      "pool_jobs{waiting}=2 pool_jobs{running}=1 "
                                      "pool_assigned_total{}=1 ");
    assert_int_equal(counted.oldest_ms, 1000);
    assert_string_equal(order(MSG_CANCEL, "l"), "done");
    assert_int_equal(pool_forget(bench.p, "l"), 0);
    assert_null(strstr(bench_jobs(), "job l "));
    memset(&counted, 0, sizeof counted);
    pool_count(bench.p, count, NULL);
    assert_null(strstr(counted.text, "failed"));
}

/* --- node orders ------------------------------------------------------------------------------ */

TEST_IN(pool_orders, an_operator_means_a_node_by_its_id_or_a_label_that_is_one_nodes)
{
    bool is_unclear;
    bench_came(0, NULL, 0);
    bench_came(1, NULL, 0);
    assert_ptr_equal(pool_find_target(bench.p, &bench.admin, "n1", &is_unclear), bench_node(1));
    assert_false(is_unclear);
    assert_ptr_equal(pool_find_target(bench.p, &bench.admin, "host-0", &is_unclear), bench_node(0));
    /* Someone may not see the pool. */
    assert_null(pool_find_target(bench.p, &bench.someone, "n1", &is_unclear));
    assert_null(pool_find_target(bench.p, &bench.admin, "host-7", &is_unclear));
    assert_false(is_unclear);
    const struct tfe_msg same = {.type = MSG_POOL,
                                 .u.pool = {.node = "n2", .node_name = "host-0", .labels = NULL}};
    pool_handle_message(bench.p, &bench.sessions[2], &same);
    assert_null(pool_find_target(bench.p, &bench.admin, "host-0", &is_unclear));
    assert_true(is_unclear);
}

TEST_IN(pool_orders, an_operator_means_a_node_by_the_agent_below_it)
{
    bool is_unclear;
    bench_came(0, NULL, 0);
    assert_string_equal(bench_submit(bench_spec("j", 1, 1)), "done");
    bench_durable();
    bench.find = 0;
    bench.found.n = 1;
    bench.found.v[0].job = "j";
    bench.found.v[0].name = "host-0";
    assert_ptr_equal(pool_find_target(bench.p, &bench.admin, "agent-id", &is_unclear),
                     bench_node(0));
    assert_ptr_equal(pool_find_target(bench.p, &bench.admin, "host-0", &is_unclear), bench_node(0));
    assert_false(is_unclear);
    bench.found.v[0].job = "other"; /* an agent of another job has the same label */
    assert_null(pool_find_target(bench.p, &bench.admin, "host-0", &is_unclear));
    assert_true(is_unclear);
    assert_null(pool_find_target(bench.p, &bench.admin, "agent-id", &is_unclear));
}

TEST_IN(pool_orders, a_drained_node_leaves_in_its_time_an_evicted_one_at_once)
{
    static const struct {
        uint32_t within;
        const char *says;
    } drains[] = {
        {MSG_UNSET, "0:release 1 60000ms an operator has drained it OUT; "},
        {500, "0:release 1 500ms an operator has drained it OUT; "},
    };
    struct operator_response answer = {.sentence = ""};
    bench_came(0, NULL, 0);
    assert_string_equal(bench_submit(bench_spec("j", 1, 1)), "done");
    bench_durable();
    for (size_t i = 0; i < 2; i++) {
        const struct tfe_msg drain = {.type = MSG_DRAIN,
                                      .u.drain = {.node = "n0", .within_ms = drains[i].within}};
        (void)bench_said();
        pool_execute_order(bench.p, bench_node(0), &drain, &answer);
        bench_said_is(drains[i].says);
    }
    assert_string_equal(answer.job.text, "j");
    assert_string_equal(answer.node.text, "n0");
    assert_string_equal(answer.name, "host-0");
    const struct tfe_msg evict = {.type = MSG_EVICT, .u.evict.node = "n0"};
    pool_execute_order(bench.p, bench_node(0), &evict, &answer);
    bench_said_is("0:release 1 1ms an operator has evicted it OUT; ");
    bench_freed(0, 1, 143);
    bench_durable();
    bench_said_is(""); /* an evicted node gets no assignment */
    assert_non_null(strstr(bench_all_nodes(), " leaving of  as any"));
    bench_left(0);
    bench_came(0, NULL, 0); /* the node may have missed RELEASE, so that it is sent again */
    bench_said_is("0:welcome n0 10000 10000 3333 1000; "
                  "0:release 0 0ms an operator has evicted it OUT; ");
}
