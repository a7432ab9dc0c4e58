/* tests/unit/server_core/test_rebuild.c: a server that has lost its disk, and a job that trains on.
 */
#include "tests/unit/server_core/operator.h"
#include "tests/unit/server_core/plan.h"

/* The digest of epoch tables of so many nodes a, b, …, each on the session of its rank. */
static uint64_t digest_of(uint32_t n)
{
    struct msg_row rows[8];
    for (uint32_t i = 0; i < n; i++) {
        rows[i] = (struct msg_row){i, name_of(i), (uint16_t)(1000 + 100 * i), TASK_WORKER, 0};
    }
    return table_digest(rows, n);
}

/* The node of this rank comes back, and its trainers run, or have come to this end. */
static void reports_end(struct world *w, uint32_t rank, uint64_t epoch, uint32_t nodes,
                        const struct msg_exited *exited)
{
    uint16_t port = (uint16_t)(1000 + 100 * rank);
    struct msg_running running = {.run = 3,
                                  .rank = rank,
                                  .nodes = nodes,
                                  .world = nodes,
                                  .digest = digest_of(nodes),
                                  .host = name_of(rank),
                                  .ports = &port,
                                  .n_ports = 1,
                                  .cause = CAUSE_JOINED};
    struct msg_join plain = w->join;
    w->join.running_epoch = exited ? 0 : epoch;
    w->join.highest_epoch = epoch;
    w->join.running = &running;
    w->join.exited = exited;
    join(w, rank, name_of(rank));
    w->join = plain;
}

static void reports(struct world *w, uint32_t rank, uint64_t epoch, uint32_t nodes)
{
    reports_end(w, rank, epoch, nodes, NULL);
}

TEST(lost_disk, withdrawn_notice_during_rebuild_sends_no_prepare_to_members)
{
    /* It runs one, which the job is about to go on with: its READY for the next one counted from
     * then on, while it still answered probes on those ports. */
    struct world *w = a_world(2, 4);
    reports(w, 1, 5, 2);
    noticed(w, 1, NOTICE_PREEMPT, 100000);
    notice_withdrawn(w, 1, NOTICE_PREEMPT);
    assert_saw(w, "~node_stays");
    assert_not_saw(w, "PREPARE");
    reports(w, 0, 5, 2);
    assert_string_equal(job_state(w), "running");
    world_free(w);
}

/* Its seats of members that nothing was heard of are all nobody's: no server could read that back.
 */
TEST(lost_disk, partly_known_epoch_is_not_recorded)
{
    struct world *w = a_world(1, 3);
    reports(w, 0, 5, 3);
    reports(w, 2, 5, 3);
    pass(w, TTL_HELD_MS);
    assert_string_equal(job_state(w), "preparing");
    assert_int_equal(
        step(w, &(struct rdzv_event){.type = RDZV_DRAIN, .now = {w->now}, .job = "j", .node = "c"}),
        0);
    assert_saw(w, "~node_draining");
    assert_not_saw(w, "PERSIST");
    world_free(w);
}

TEST(lost_disk, member_with_a_rejected_report_is_waited_for)
{
    struct world *w = a_world(1, 3);
    reports(w, 0, 5, 3);
    pass(w, TTL_HELD_MS);
    join(w, 3, "d");
    ready(w, 3, 6);
    pass(w, 2 * FENCE_HELD_MS); /* a renews its lease all the time, and so its fence */
    assert_string_equal(job_state(w), "preparing");
    reports(w, 1, 5,
            3); /* nobody else can run it any more: the job does not begin anew with this */
    assert_string_equal(job_state(w), "preparing");
    assert_saw(w, "1:STOP epoch=5");
    goodbye(w, 1);
    ready(w, 0, 6);
    pass(w, FENCE_HELD_MS);
    assert_saw(w, "START epoch=6");
    world_free(w);
}

TEST(lost_disk, highest_reported_epoch_wins_and_older_ones_are_stopped)
{
    struct world *w = a_world(1, 3);
    reports(w, 2, 4, 3);
    reports(w, 0, 5, 2);
    assert_saw(w, "2:STOP epoch=4");
    assert_saw(w, "2:PREPARE epoch=6");
    reports(w, 1, 5, 2);
    assert_string_equal(job_state(w), "running");
    assert_not_saw(w, "STOP");
    world_free(w);

    w = a_world(1, 3);
    reports(w, 0, 5, 2);
    reports(w, 2, 4, 3);
    assert_saw(w, "2:STOP epoch=4");
    assert_saw(w, "2:PREPARE epoch=6");
    world_free(w);
}

TEST(lost_disk, contradicting_reports_are_rejected)
{
    struct world *w = a_world(1, 3);
    reports(w, 0, 5, 2);
    reports(w, 1, 5, 3); /* the same epoch, of another size */
    assert_saw(w, "1:STOP epoch=5");
    pass(w, TTL_HELD_MS);
    assert_string_equal(job_state(w), "waiting"); /* half of two is no majority */
    world_free(w);

    w = a_world(1, 3);
    uint16_t port = 7;
    reports(w, 0, 5, 2);
    struct msg_running running = {.run = 3,
                                  .rank = 1,
                                  .nodes = 2,
                                  .world = 2,
                                  .digest = digest_of(2),
                                  .host = "elsewhere",
                                  .ports = &port,
                                  .n_ports = 1,
                                  .cause = CAUSE_JOINED};
    w->join.running_epoch = w->join.highest_epoch = 5;
    w->join.running = &running;
    join(w, 1, "b"); /* not what the table's digest says */
    assert_saw(w, "0:STOP epoch=5");
    assert_saw(w, "1:STOP epoch=5");
    assert_string_equal(job_state(w), "waiting");
    running.rank = 0;
    join(w, 1, "b");
    w->join.running = NULL;
    world_free(w);
}

TEST(lost_disk, second_report_of_a_rank_is_rejected)
{
    struct world *w = a_world(1, 3);
    reports(w, 0, 5, 3);
    w->join.pid = 4712;
    uint16_t port = 1000;
    struct msg_running running = {.run = 3,
                                  .nodes = 3,
                                  .world = 3,
                                  .digest = digest_of(3),
                                  .host = "a",
                                  .ports = &port,
                                  .n_ports = 1,
                                  .cause = CAUSE_JOINED};
    w->join.running_epoch = w->join.highest_epoch = 5;
    w->join.running = &running;
    join(w, 9, "x");
    assert_saw(w, "9:STOP epoch=5");
    w->join.running = NULL;
    world_free(w);
}

TEST(lost_disk, reported_successes_of_all_end_the_job)
{
    struct msg_exited well = {.epoch = 5};
    struct world *w = a_world(1, 2);
    reports_end(w, 1, 5, 2, &well);
    reports_end(w, 0, 5, 2, &well);
    assert_saw(w, "0:FINISH succeeded");
    assert_saw(w, "1:FINISH succeeded");
    world_free(w);
}

TEST(lost_disk, report_of_a_leaving_node_does_not_count)
{
    struct world *w = a_world(1, 3);
    reports(w, 0, 5, 3);
    reports(w, 1, 5, 3);
    goodbye(w, 1);
    cut(w, 0);
    reports(w, 0, 5, 3); /* twice is once */
    pass(w, TTL_HELD_MS);
    assert_string_equal(job_state(w), "waiting");
    world_free(w);
}
