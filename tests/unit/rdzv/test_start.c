/* tests/unit/rdzv/test_start.c: how a job comes to its first epoch, who is in it, and how it grows.
 */
#include "tests/unit/rdzv/world.h"

TEST(start, waits_for_min_then_for_the_gather_window)
{
    struct world *w = a_world(2, 4);
    join(w, 0, "a");
    assert_saw(w, "0:WELCOME a run=1 ttl=10000 fence=120000 renew=3333 spread=100 grace=5000");
    assert_saw(w, "0:PREPARE epoch=1\n");
    ready(w, 0, 1);
    pass(w, 60000);
    assert_string_equal(job_state(w), "waiting");
    join(w, 1, "b");
    pass(w, 1000);
    ready(w, 1, 1);
    assert_string_equal(job_state(w), "gathering");
    pass(w, 1999); /* counted from the last JOIN */
    assert_string_equal(job_state(w), "gathering");
    pass(w, 1);
    assert_saw(w, "0:START epoch=1 rank=0 world=2 nodes=2 cause=start run=1");
    assert_saw(w, "1:START epoch=1 rank=1 world=2 nodes=2 cause=start run=1");
    world_free(w);
}

TEST(start, closes_at_once_at_max)
{
    struct world *w = a_world(1, 2);
    come(w, 2);
    assert_saw(w, "~epoch job=j node=- epoch=1 number=2 start");
    world_free(w);
}

TEST(start, a_newcomer_in_the_window_prolongs_it)
{
    struct world *w = a_world(1, 4);
    join(w, 0, "a");
    ready(w, 0, 1);
    pass(w, 2000);
    join(w, 1, "b");
    pass(w, 2000);
    ready(w, 1, 1);
    pass(w, 999);
    assert_string_equal(job_state(w), "gathering");
    pass(w, 1);
    assert_saw(w, "nodes=2");
    world_free(w);
}

TEST(start, one_who_is_never_ready_delays_for_gather_max_and_is_left_out)
{
    struct world *w = a_world(1, 4);
    join(w, 0, "a");
    ready(w, 0, 1);
    join(w, 1, "b");
    pass(w, 29999);
    assert_string_equal(job_state(w), "gathering");
    pass(w, 1);
    assert_saw(w, "0:START epoch=1 rank=0 world=1 nodes=1");
    assert_saw(w, "1:PREPARE epoch=2");
    world_free(w);
}

TEST(start, falling_below_min_in_the_window_waits_again)
{
    struct world *w = a_world(2, 4);
    come(w, 2);
    assert_string_equal(job_state(w), "gathering");
    cut(w, 1);
    assert_string_equal(job_state(w), "waiting");
    pass(w, 60000);
    assert_string_equal(job_state(w), "waiting");
    join(w, 2, "c");
    ready(w, 2, 1);
    pass(w, 3000);
    assert_saw(w, "0:START epoch=1 rank=0 world=2");
    world_free(w);
}

TEST(start, max_is_enforced_and_the_rest_are_spares)
{
    struct world *w = a_world(1, 2);
    for (uint32_t i = 0; i < 4; i++) {
        join(w, i, name_of(i));
    }
    for (uint32_t i = 4; i > 0; i--) {
        ready(w, i - 1, 1);
    }
    /* d and c were ready first, which was max. */
    assert_string_equal(job_state(w), "running");
    struct msg_status_node node;
    int members = 0;
    for (const char *after = NULL; !rdzv_view_node(w->r, "j", after, &node); after = node.node) {
        members += node.role == ROLE_MEMBER;
        assert_int_equal(node.has_rank, node.role == ROLE_MEMBER);
    }
    assert_int_equal(members, 2);
    ready(w, 0, 2);
    ready(w, 1, 2);
    pass(w, 100000);
    assert_not_saw(w, "switch");
    assert_int_equal(rdzv_view_node(w->r, "j", NULL, &node), 0);
    assert_int_equal(node.role, ROLE_SPARE);
    world_free(w);
}

TEST(start, every_member_sees_the_same_table)
{
    struct world *w = a_world(3, 3);
    w->join.spec.nproc = 2;
    for (uint32_t i = 0; i < 3; i++) {
        join(w, i, name_of(i));
        ready(w, i, 1);
    }
    struct msg_row rows[6];
    static const char *const hosts[] = {"a1", "b1", "c1"};
    for (uint32_t i = 0; i < 6; i++) {
        rows[i] = (struct msg_row){i, hosts[i / 2], (uint16_t)(1000 + 100 * (i / 2) + i % 2),
                                   TASK_WORKER, 0};
    }
    char digest[64];
    snprintf(digest, sizeof(digest), "digest=%llx\n", (unsigned long long)table_digest(rows, 6));
    assert_int_equal(times_seen(w, digest), 6);
    assert_int_equal(times_seen(w, "TABLE epoch=1 a1:1000 a1:1001 b1:1100 b1:1101 c1:1200 c1:1201"),
                     3);
    assert_saw(w, "0:START epoch=1 rank=0 world=6 nodes=3");
    assert_saw(w, "1:START epoch=1 rank=2 world=6 nodes=3");
    assert_saw(w, "2:START epoch=1 rank=4 world=6 nodes=3");
    world_free(w);
}

TEST(start, index_0_goes_to_the_node_longest_in_the_job_whatever_the_order_of_messages)
{
    struct world *w = a_world(3, 3);
    join(w, 5, "z");
    pass(w, 1);
    join(w, 3, "m");
    pass(w, 1);
    join(w, 4, "a");
    ready(w, 4, 1);
    ready(w, 3, 1);
    ready(w, 5, 1);
    assert_saw(w, "5:START epoch=1 rank=0");
    assert_saw(w, "3:START epoch=1 rank=1");
    assert_saw(w, "4:START epoch=1 rank=2");
    world_free(w);
}

TEST(growth, comes_soon_and_survivors_keep_their_ranks)
{
    struct world *w = a_running_world(1, 4, 2);
    join(w, 2, "c");
    assert_saw(w, "2:PREPARE epoch=2");
    assert_not_saw(w, "STOP"); /* ready first: the old epoch trains on meanwhile */
    ready(w, 2, 2);
    assert_not_saw(w, "STOP"); /* others may come as well */
    pass(w, 3000);
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 joined");
    assert_saw(
        w, "0:STOP epoch=1 planned\n0:PREPARE epoch=2\n1:STOP epoch=1 planned\n1:PREPARE epoch=2");
    stopped_and_ready(w, 1, 1);
    assert_not_saw(w, "START");
    stopped_and_ready(w, 0, 1);
    assert_saw(w, "0:START epoch=2 rank=0 world=3 nodes=3 cause=joined");
    assert_saw(w, "1:START epoch=2 rank=1");
    assert_saw(w, "2:START epoch=2 rank=2");
    world_free(w);
}

TEST(growth, takes_in_all_who_are_ready_by_then_up_to_max)
{
    struct world *w = a_running_world(1, 3, 1);
    join(w, 1, "b");
    join(w, 2, "c");
    join(w, 3, "d");
    ready(w, 1, 2);
    ready(w, 3, 2);
    ready(w, 2, 2);
    stopped_and_ready(w, 0, 1);
    assert_saw(w, "nodes=3 cause=joined");
    assert_saw(w, "1:START epoch=2 rank=1");
    assert_saw(w, "2:START epoch=2 rank=2");
    assert_saw(w, "3:PREPARE epoch=3");
    world_free(w);
}

TEST(growth, never_comes_where_the_job_was_opened_so)
{
    struct world *w = a_world(1, 2);
    w->join.spec.no_grow = true;
    join(w, 0, "a");
    ready(w, 0, 1);
    pass(w, 3000);
    assert_saw(w, "0:START epoch=1");
    w->join.spec.no_grow = false;
    join(w, 1, "b");
    ready(w, 1, 2);
    pass(w, 3600000);
    assert_not_saw(w, "~switch");
    exited(w, 0, 1, 1);
    ready(w, 0, 2);
    assert_saw(w, "START epoch=2 rank=1 world=2"); /* a switch that comes anyway takes all in */
    world_free(w);
}

TEST(growth, does_not_come_when_a_rank_has_ended_well_already)
{
    /* The newcomer would have made the job do its last part again. */
    struct world *w = a_running_world(1, 4, 2);
    exited(w, 1, 1, 0);
    join(w, 2, "c");
    ready(w, 2, 2);
    assert_not_saw(w, "switch");
    exited(w, 0, 1, 0);
    assert_saw(w, "0:FINISH succeeded: job j succeeded");
    assert_saw(w, "2:FINISH succeeded: job j succeeded");
    world_free(w);
}

TEST(ranks, the_gap_of_a_lost_member_is_filled_by_the_spare)
{
    struct world *w = a_running_world(2, 3, 3);
    join(w, 3, "d");
    ready(w, 3, 2);
    goodbye(w, 1);
    stopped_and_ready(w, 0, 1);
    stopped_and_ready(w, 2, 1);
    assert_saw(w, "0:START epoch=2 rank=0");
    assert_saw(w, "3:START epoch=2 rank=1");
    assert_saw(w, "2:START epoch=2 rank=2");
    world_free(w);
}

TEST(ranks, a_lost_index_0_goes_to_the_longest_among_the_members)
{
    struct world *w = a_running_world(2, 3, 3);
    goodbye(w, 0);
    stopped_and_ready(w, 2, 1);
    stopped_and_ready(w, 1, 1);
    assert_saw(w, "1:START epoch=2 rank=0 world=2 nodes=2 cause=drained");
    assert_saw(w, "2:START epoch=2 rank=1");
    world_free(w);
}

TEST(ranks, a_member_stays_one_before_a_spare_that_joined_earlier)
{
    struct world *w = a_world(1, 1);
    join(w, 0, "a");
    join(w, 1, "b");
    ready(w, 1, 1);
    assert_saw(w, "1:START epoch=1 rank=0");
    ready(w, 0, 2);
    exited(w, 1, 1, 1);
    ready(w, 1, 2);
    pass(w, 1000);
    assert_saw(w, "1:START epoch=2 rank=0 world=1");
    assert_not_saw(w, "0:START");
    world_free(w);
}

TEST(ranks, an_index_out_of_range_moves_down)
{
    struct world *w = a_running_world(1, 4, 4);
    goodbye(w, 1);
    goodbye(w, 2);
    stopped_and_ready(w, 3, 1);
    stopped_and_ready(w, 0, 1);
    assert_saw(w, "0:START epoch=2 rank=0 world=2");
    assert_saw(w, "3:START epoch=2 rank=1 world=2");
    world_free(w);
}

TEST(jobs, two_on_one_server_do_not_touch_each_other)
{
    struct world *w = a_running_world(1, 1, 1);
    w->join.job = "other";
    w->join.spec.nproc = 2;
    join(w, 1, "b");
    ready(w, 1, 1);
    assert_saw(w, "1:START epoch=1 rank=0 world=2 nodes=1");
    assert_not_saw(w, "0:");
    exited(w, 1, 1, 0);
    assert_saw(w, "1:FINISH succeeded: job other succeeded");
    assert_not_saw(w, "0:");
    struct msg_status_job job;
    assert_int_equal(rdzv_view_job(w->r, NULL, &job), 0);
    assert_string_equal(job.job, "j");
    assert_string_equal(job.state, "running");
    assert_int_equal(rdzv_view_job(w->r, "j", &job), 0);
    assert_string_equal(job.job, "other");
    assert_string_equal(job.state, "succeeded");
    assert_int_equal(rdzv_view_job(w->r, "other", &job), TFE_ENOENT);
    assert_int_equal(rdzv_view_job(w->r, "k", &job), 0);
    assert_string_equal(job.job, "other");
    assert_int_equal(rdzv_find_job(w->r, "j", &job), 0);
    assert_string_equal(job.job, "j");
    assert_string_equal(job.state, "running");
    assert_int_equal(rdzv_find_job(w->r, "k", &job), TFE_ENOENT);
    assert_int_equal(rdzv_find_job(w->r, "no/id", &job), TFE_ENOENT);
    world_free(w);
}

TEST(jobs, the_same_node_id_may_be_in_two)
{
    struct world *w = a_running_world(1, 1, 1);
    w->join.job = "other";
    join(w, 1, "a");
    assert_saw(w, "1:WELCOME a");
    assert_not_saw(w, "0:");
    world_free(w);
}

TEST(jobs, one_that_nobody_has_started_is_forgotten_with_its_last_node)
{
    struct world *w = a_world(2, 4);
    join(w, 0, "a");
    goodbye(w, 0);
    assert_string_equal(job_state(w), "none");
    join(w, 0, "a");
    cut(w, 0);
    assert_string_equal(job_state(w), "waiting");
    pass(w, TTL_HELD_MS);
    assert_string_equal(job_state(w), "none");
    w->join.spec.max_nodes = 7; /* so the name is free for other sizes */
    join(w, 0, "a");
    world_free(w);
}

TEST(jobs, keep_the_wishes_of_the_join_that_opened_them)
{
    struct world *w = a_world(1, 4);
    w->join.spec.gather_ms = 500;
    w->join.spec.stop_grace_ms = 1234;
    join(w, 0, "a");
    assert_saw(w, "grace=1234");
    ready(w, 0, 1);
    w->join.spec.gather_ms = 20000;
    w->join.spec.stop_grace_ms = 1;
    pass(w, 499);
    assert_string_equal(job_state(w), "gathering");
    pass(w, 1);
    assert_string_equal(job_state(w), "running");
    join(w, 1, "b");
    assert_saw(w, "grace=1234");
    world_free(w);
}
