/* tests/unit/rdzv/test_end.c: how a job ends, what the nodes are told, and what those are told who
 * come late. */
#include "tests/unit/rdzv/world.h"

/* Rank 0's trainer fails and everybody is in the next epoch. */
static void restart(struct world *w, uint32_t n, uint64_t epoch)
{
    exited(w, 0, epoch, 1);
    assert_saw(w, "~restarts");
    for (uint32_t i = 1; i < n; i++) {
        stopped_and_ready(w, i, epoch);
    }
    ready(w, 0, epoch + 1);
    assert_not_saw(w, "START"); /* not before the back-off is over */
    pass(w, 4000);
    assert_saw(w, "START");
}

TEST(failure, is_charged_once_an_epoch_and_the_job_fails_when_the_budget_is_used)
{
    struct world *w = a_running_world(1, 2, 2);
    exited(w, 0, 1, 1);
    assert_saw(w, "~restarts job=j node=a epoch=1 number=1");
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 trainer_failed");
    exited(w, 1, 1, 1); /* dies of it */
    assert_not_saw(w, "restarts");
    ready(w, 0, 2);
    ready(w, 1, 2);
    pass(w, 999);
    assert_not_saw(w, "START");
    pass(w, 1);
    assert_saw(w, "START");
    restart(w, 2, 2);
    restart(w, 2, 3);
    exited_as(w, 1, (struct msg_exited){.epoch = 4, .code = 3, .tail = "Traceback\nKeyError: 'x'"});
    pass(w, TTL_HELD_MS - 1);
    assert_not_saw(w, "FINISH"); /* a loss might still explain it */
    pass(w, 1);
    assert_saw(w, "~job_state job=j node=- epoch=4 number=0 failed");
    static const char *const sentence = "FINISH failed: job j failed: rank 1 on node b (b) exited "
                                        "with code 3 after 3 restarts; its "
                                        "last lines were:\nTraceback\nKeyError: 'x'\n";
    assert_saw(w, sentence);
    assert_int_equal(times_seen(w, "FINISH"), 2);
    assert_int_equal(times_seen(w, "CLOSE"), 2);
    world_free(w);
}

TEST(failure, tells_the_beginning_of_an_exception_with_a_tensor_in_it)
{
    struct world *w = a_world(1, 1);
    char tail[2000] =
        "Traceback (most recent call last):\n  File \"x.py\"\nValueError: no: \xc3\xa4";
    for (size_t n = strlen(tail); n + 2 < sizeof(tail); n += 2) {
        strcpy(tail + n, "\xc3\xa4");
    }
    w->join.spec.max_restarts = 0;
    join(w, 0, "a");
    ready(w, 0, 1);
    exited_as(w, 0, (struct msg_exited){.epoch = 1, .code = 1, .tail = tail});
    const char *told = strstr(w->log, "its last lines were:\nValueError: no: \xc3\xa4");
    assert_non_null(told);
    size_t n = strcspn(strchr(told, '\n') + 1, "\n");
    assert_in_range(n, 598, 600);
    assert_int_equal(n % 2, 0); /* whole characters */
    world_free(w);
}

TEST(failure, names_the_rank_of_the_trainer_that_failed_and_its_signal)
{
    struct world *w = a_world(1, 2);
    w->join.spec.nproc = 4;
    w->join.spec.max_restarts = 0;
    for (uint32_t i = 0; i < 2; i++) {
        join(w, i, name_of(i));
        ready(w, i, 1);
    }
    exited_as(w, 1, (struct msg_exited){.epoch = 1, .local_rank = 2, .signal = 11});
    pass(w, TTL_HELD_MS);
    assert_saw(w, "job j failed: rank 6 on node b (b) was ended by SIGSEGV after 0 restarts\n");
    world_free(w);
}

TEST(failure, a_long_tail_keeps_its_end_and_outlives_the_message)
{
    struct world *w = a_world(1, 1);
    w->join.spec.max_restarts = 0;
    join(w, 0, "a");
    ready(w, 0, 1);
    char *tail = malloc(MSG_TAIL_MAX + 1);
    assert_non_null(tail);
    memset(tail, 'x', MSG_TAIL_MAX);
    tail[MSG_TAIL_MAX] = '\0';
    memcpy(tail + MSG_TAIL_MAX - 9, "\nthe end.", 9);
    struct tfe_msg msg = {.type = MSG_EXITED, .u.exited = {.epoch = 1, .code = 1, .tail = tail}};
    struct rdzv_actions actions;
    assert_int_equal(
        rdzv_step(w->r, &(struct rdzv_event){.type = RDZV_MESSAGE, .now = {w->now}, .msg = &msg},
                  &actions),
        0);
    free(tail); /* borrowed for the call only */
    bool traced = false;
    for (size_t i = 0; i < actions.n; i++) {
        if (actions.v[i].type == RDZV_TRACE && actions.v[i].trace.kind == TRACE_NODE_EXITED) {
            traced = strlen(actions.v[i].trace.text) == MSG_TAIL_MAX;
        }
        if (actions.v[i].type == RDZV_SEND && actions.v[i].msg.type == MSG_FINISH) {
            const char *sentence = actions.v[i].msg.u.finish.sentence;
            assert_string_equal(sentence + strlen(sentence) - 8, "the end.");
        }
    }
    assert_true(traced);
    world_free(w);
}

TEST(success, of_rank_0_gives_the_others_the_exit_grace)
{
    struct world *w = a_running_world(1, 3, 3);
    exited(w, 0, 1, 0);
    assert_saw(w, "0:NOTED epoch=1");
    assert_not_saw(w, "FINISH");
    exited(w, 1, 1, 1); /* no longer matters */
    assert_not_saw(w, "FINISH");
    assert_not_saw(w, "switch");
    pass(w, 59999);
    assert_not_saw(w, "FINISH");
    pass(w, 1);
    assert_int_equal(times_seen(w, "FINISH succeeded: job j succeeded"), 3);
    assert_string_equal(job_state(w), "succeeded");
    world_free(w);
}

TEST(success, comes_as_soon_as_all_have_ended)
{
    struct world *w = a_running_world(1, 3, 3);
    exited(w, 0, 1, 0);
    goodbye(w, 1);
    assert_not_saw(w, "FINISH");
    exited(w, 2, 1, 7);
    assert_int_equal(times_seen(w, "FINISH succeeded"), 2);
    world_free(w);
}

TEST(success, a_lost_member_does_not_undo_it)
{
    struct world *w = a_running_world(1, 2, 2);
    exited(w, 0, 1, 0);
    cut(w, 1);
    pass(w, TTL_HELD_MS);
    assert_not_saw(w, "switch");
    assert_saw(w, "0:FINISH succeeded");
    world_free(w);
}

TEST(success, of_another_rank_gives_rank_0_the_same_grace)
{
    struct world *w = a_running_world(1, 2, 2);
    exited(w, 1, 1, 0);
    assert_not_saw(w, "switch");
    pass(w, 59000);
    exited(w, 0, 1, 0);
    assert_int_equal(times_seen(w, "FINISH succeeded"), 2);
    world_free(w);
}

TEST(success, of_another_rank_while_rank_0_hangs_is_a_failure)
{
    struct world *w = a_running_world(1, 2, 2);
    exited(w, 1, 1, 0);
    pass(w, 60000);
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 trainer_failed");
    assert_saw(w, "0:STOP epoch=1");
    world_free(w);
}

TEST(success, of_another_rank_while_rank_0_is_out_of_sight_is_nobodys_fault)
{
    /* An agent was killed at the end of a training; the grace was shorter than its lease, and its
     * node was charged for a rank 0 that hangs. */
    struct world *w = a_running_world(1, 2, 2);
    exited(w, 1, 1, 0);
    pass(w, 55000);
    cut(w, 0);
    pass(w, 5000);
    assert_saw(w, "~end job=j node=a epoch=1 number=0 lost_node");
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 node_lost");
    assert_not_saw(w, "~restarts");
    world_free(w);
}

TEST(success, of_rank_0_that_crossed_the_stop_still_ends_the_job)
{
    /* TensorFlow has no barrier at its end: rank 0 leaves, its peers fail at once, and the word of
     * one of them may be here first. The finished job was trained to its end a second time. */
    struct world *w = a_running_world(1, 3, 3);
    exited(w, 1, 1, 1);
    assert_saw(w, "0:STOP epoch=1");
    exited(w, 0, 1, 0);
    assert_int_equal(times_seen(w, "FINISH succeeded"), 3);
    world_free(w);
}

TEST(success, that_crossed_the_stop_counts_also_while_the_job_waits)
{
    struct world *w = a_running_world(2, 2, 2);
    cut(w, 0);
    exited(w, 1, 1, 1);
    ready(w, 1, 2);
    pass(w, 1000);
    assert_string_equal(job_state(w), "waiting");
    struct msg_exited last = {.epoch = 1, .tail = ""};
    w->join.highest_epoch = 1;
    w->join.exited = &last;
    join(w, 2, "a");
    assert_saw(w, "2:NOTED epoch=1");
    assert_saw(w, "1:FINISH succeeded");
    assert_saw(w, "2:FINISH succeeded");
    world_free(w);
}

TEST(success, a_trainer_that_was_stopped_has_not_succeeded)
{
    struct world *w = a_running_world(1, 2, 2);
    exited_as(w, 0, (struct msg_exited){.epoch = 1, .stopped = true});
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 node_lost");
    assert_not_saw(w, "restarts");
    world_free(w);
}

TEST(late, the_same_script_is_told_how_the_job_ended)
{
    struct world *w = a_running_world(1, 1, 1);
    exited(w, 0, 1, 0);
    assert_saw(w, "0:FINISH succeeded");
    cut(w, 0);
    join(w, 1, "b");
    assert_string_equal(w->log, "1:FINISH succeeded: job j run 1 ended succeeded\n1:CLOSE\n");
    join(w, 0, "a");
    assert_string_equal(w->log, "0:FINISH succeeded: job j run 1 ended succeeded\n0:CLOSE\n");
    world_free(w);
}

TEST(late, another_script_is_refused_with_the_sentence)
{
    struct world *w = a_world(1, 1);
    w->join.spec.max_restarts = 0;
    join(w, 0, "a");
    ready(w, 0, 1);
    exited(w, 0, 1, 2);
    w->join.spec.script_digest++;
    join(w, 1, "b");
    assert_saw(w, "1:REFUSED job_finished: job j run 1 ended failed; it takes no other script");
    assert_saw(w, "1:CLOSE");
    assert_not_saw(w, "FINISH");
    world_free(w);
}

TEST(sizes, that_differ_are_refused_with_both_named)
{
    struct world *w = a_running_world(1, 4, 1);
    w->join.spec.max_nodes = 3;
    w->join.spec.nproc = 2;
    join(w, 1, "b");
    assert_saw(w, "1:REFUSED size_mismatch: job j was opened with --nnodes=1:4 --nproc-per-node=1, "
                  "this node asks for --nnodes=1:3 --nproc-per-node=2\n");
    assert_saw(w, "1:CLOSE");
    assert_not_saw(w, "0:");
    cut(w, 1);
    assert_string_equal(w->log, "");
    world_free(w);
}

TEST(sizes, a_member_that_changes_its_mind_loses_its_connection_only)
{
    struct world *w = a_running_world(1, 4, 2);
    w->join.spec.max_nodes = 3;
    join(w, 1, "b");
    assert_saw(w, "1:REFUSED size_mismatch");
    cut(w, 1);
    pass(w, TTL_HELD_MS);
    assert_saw(w, "0:STOP epoch=1");
    world_free(w);
}

TEST(run, a_new_one_begins_when_the_job_is_over_with_other_sizes_and_epochs_go_on)
{
    struct world *w = a_running_world(1, 2, 2);
    exited(w, 0, 1, 0);
    exited(w, 1, 1, 0);
    assert_string_equal(job_state(w), "succeeded");
    w->join.new_run = true;
    w->join.spec.script_digest++;
    w->join.spec.min_nodes = 3;
    w->join.spec.max_nodes = 3;
    w->join.spec.nproc = 3;
    static const char *const names[] = {"x", "y", "z"};
    for (uint32_t i = 0; i < 3; i++) {
        join(w, i, names[i]);
        assert_saw(w, "run=2");
        assert_saw(w, ":PREPARE epoch=2");
        ready(w, i, 2);
    }
    assert_saw(w, "START epoch=2 rank=0 world=9 nodes=3 cause=start run=2");
    /* While it is active the wish means nothing. */
    join(w, 3, "late");
    assert_saw(w, "run=2");
    assert_string_equal(job_state(w), "running");
    world_free(w);
}

TEST(run, the_budget_is_each_runs_own)
{
    struct world *w = a_world(1, 1);
    w->join.spec.max_restarts = 0;
    w->join.new_run = true;
    for (uint64_t epoch = 1; epoch <= 3; epoch++) {
        join(w, 0, name_of((uint32_t)epoch));
        ready(w, 0, epoch);
        exited(w, 0, epoch, 1);
        assert_saw(w, "FINISH failed");
    }
    world_free(w);
}

TEST(waiting, gives_up_after_the_elastic_timeout)
{
    struct world *w = a_world(2, 2);
    w->join.spec.elastic_timeout_ms = 20000;
    join(w, 0, "a");
    ready(w, 0, 1);
    pass(w, 19999);
    assert_not_saw(w, "FINISH");
    pass(w, 1);
    assert_saw(w, "0:FINISH failed: job j gave up: fewer than 2 nodes were ready for 20 s");
    world_free(w);
}

TEST(waiting, counts_from_the_begin_of_each_wait)
{
    struct world *w = a_world(2, 2);
    w->join.spec.elastic_timeout_ms = 20000;
    join(w, 0, "a");
    ready(w, 0, 1);
    pass(w, 15000);
    join(w, 1, "b");
    ready(w, 1, 1);
    pass(w, 60000);
    goodbye(w, 1);
    stopped_and_ready(w, 0, 1);
    assert_string_equal(job_state(w), "waiting");
    pass(w, 19000);
    assert_string_equal(job_state(w), "waiting");
    pass(w, 2000);
    assert_string_equal(job_state(w), "failed");
    world_free(w);
}
