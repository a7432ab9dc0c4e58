/* tests/unit/server_core/test_end.c: how a job ends, what its nodes are told, and what nodes are
 * told that come late. */
#include "tests/unit/server_core/server_fixture.h"

TEST(failure, exception_with_a_tensor_is_reported_by_its_first_line)
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

TEST(failure, long_tail_is_copied_from_its_end)
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

TEST(late, late_node_with_another_script_is_refused_with_the_reason)
{
    struct world *w = a_world(1, 1);
    w->join.spec.max_restarts = 0;
    join(w, 0, "a");
    ready(w, 0, 1);
    exited(w, 0, 1, 2);
    w->join.spec.script_digest++;
    join(w, 1, "b");
    assert_saw(
        w, "1:REFUSED job_finished: job j run 1 ended failed; this node has a different script");
    assert_saw(w, "1:CLOSE");
    assert_not_saw(w, "FINISH");
    world_free(w);
}

TEST(sizes, different_sizes_are_refused_with_both_values)
{
    struct world *w = a_running_world(1, 4, 1);
    w->join.spec.max_nodes = 3;
    w->join.spec.nproc = 2;
    join(w, 1, "b");
    assert_saw(w, "1:REFUSED size_mismatch: job j was opened with --nnodes=1:4 --nproc-per-node=1, "
                  "this node requests --nnodes=1:3 --nproc-per-node=2\n");
    assert_saw(w, "1:CLOSE");
    assert_not_saw(w, "0:");
    cut(w, 1);
    assert_string_equal(w->log, "");
    world_free(w);
}

TEST(commit, different_commit_is_refused_with_both_named)
{
    struct world *w = a_world(1, 4);
    w->join.spec.commit = 0x0123456789abcdef;
    join(w, 0, "a");
    w->join.spec.commit = 0xfedcba9876543210;
    join(w, 1, "b");
    assert_saw(w,
               "1:REFUSED commit_mismatch: job j runs git commit 0123456789abcdef, this node has "
               "git commit fedcba9876543210 (start its agent with --git and that commit as REF, "
               "or use another --job name) commit=0123456789abcdef\n");
    assert_saw(w, "1:CLOSE");
    assert_not_saw(w, "0:");
    w->join.spec.commit = 0;
    join(w, 2, "c");
    assert_saw(w, "this node has no git commit");
    w->join.spec.nproc = 2; /* sizes first: with them the commit cannot be tried */
    join(w, 3, "d");
    assert_saw(w, "3:REFUSED size_mismatch");
    w->join.spec.nproc = 1;
    w->join.spec.commit = 0x0123456789abcdef;
    join(w, 4, "e");
    assert_saw(w, "4:WELCOME");
    world_free(w);
}

TEST(sizes, member_with_changed_sizes_loses_only_its_connection)
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
