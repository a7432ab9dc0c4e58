/* tests/unit/rdzv/test_rebuild.c: a server that has lost its disk, and a job that trains on. */
#include "tests/unit/rdzv/operator.h"
#include "tests/unit/rdzv/plan.h"

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

TEST(lost_disk, a_notice_that_is_withdrawn_meanwhile_asks_no_member_for_another_epoch)
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

TEST(lost_disk, a_later_epoch_that_is_heard_of_does_not_prolong_the_wait)
{
    struct world *w = a_world(2, 4);
    reports(w, 1, 5, 3);
    pass(w, 9000);
    reports(w, 0, 6, 3);
    assert_string_equal(job_state(w), "rebuilding");
    pass(w, TTL_HELD_MS - 9000);
    assert_string_equal(job_state(w), "waiting");
    world_free(w);
}

TEST(lost_disk, a_job_whose_members_are_all_back_goes_on_and_nobody_is_restarted)
{
    struct world *w = a_world(2, 4);
    reports(w, 1, 5, 3);
    assert_saw(w, "1:WELCOME b run=3");
    assert_string_equal(job_state(w), "rebuilding");
    reports(w, 0, 5, 3);
    assert_not_saw(w, "PREPARE");
    reports(w, 2, 5, 3);
    assert_saw(w, "~rebuilt job=j node=- epoch=5 number=3");
    assert_saw(w, "PERSIST job=j epoch=5 after=0 members=3\n");
    assert_string_equal(job_state(w), "running");
    pass(w, 100000);
    assert_not_saw(w, "STOP");
    assert_not_saw(w, "PERSIST");
    join(w, 3, "d");
    assert_saw(w, "3:PREPARE epoch=6");
    ready(w, 3, 6);
    /* How much work its members have behind them nobody knows: it does not grow by itself. */
    assert_int_equal(order(w, RDZV_GROW, "j", NULL), 0);
    for (uint32_t i = 0; i < 3; i++) {
        stopped_and_ready(w, i, 5);
    }
    assert_saw(w, "0:START epoch=6 rank=0 world=4 nodes=4 cause=joined run=3");
    assert_saw(w, "2:START epoch=6 rank=2");
    world_free(w);
}

TEST(lost_disk, members_that_are_missing_after_a_lease_are_lost)
{
    struct world *w = a_world(1, 3);
    reports(w, 0, 5, 3);
    reports(w, 2, 5, 3);
    pass(w, TTL_HELD_MS - 1);
    assert_not_saw(w, "STOP");
    pass(w, 1);
    assert_saw(w, "~rebuilt job=j node=- epoch=5 number=2");
    assert_saw(w, "~switch job=j node=- epoch=5 number=0 server_lost");
    assert_saw(w, "2:STOP epoch=5");
    stopped_and_ready(w, 2, 5);
    stopped_and_ready(w, 0, 5);
    assert_saw(w, "PERSIST job=j epoch=6 after=0 members=2\n");
    assert_saw(w, "0:START epoch=6 rank=0 world=2");
    assert_saw(w, "2:START epoch=6 rank=1 world=2");
    world_free(w);
}

/* Its seats of members that nothing was heard of are all nobody's: no server could read that back.
 */
TEST(lost_disk, an_epoch_of_which_only_a_part_is_known_is_never_recorded)
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

TEST(lost_disk, a_minority_is_not_believed_and_waits_for_the_fences)
{
    /* The others may be in a later epoch by now. */
    struct world *w = a_world(1, 3);
    reports(w, 0, 5, 3);
    pass(w, TTL_HELD_MS);
    assert_saw(w, "0:STOP epoch=5\n0:PREPARE epoch=6");
    assert_string_equal(job_state(w), "waiting");
    stopped_and_ready(w, 0, 5);
    assert_saw(w, "~wait_fence");
    pass(w, FENCE_HELD_MS - TTL_HELD_MS - 1); /* from the server's start on */
    assert_not_saw(w, "START");
    pass(w, 1);
    assert_saw(w, "0:START epoch=6 rank=0 world=1");
    world_free(w);
}

TEST(lost_disk, a_member_that_is_not_believed_and_cannot_end_what_it_runs_is_waited_for)
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

TEST(lost_disk, a_member_that_is_not_believed_is_waited_for_after_its_last_word)
{
    struct world *w = a_world(1, 3);
    join(w, 3, "d");
    pass(w, FENCE_HELD_MS - 20000);
    int64_t said = w->now;
    reports(w, 0, 5, 3);
    pass(w, TTL_HELD_MS);
    cut(w, 0); /* it was given that long with its renewals, and nobody else can run anything */
    ready(w, 3, 6);
    pass_until(w, said + FENCE_ONE_HELD_MS - 1);
    assert_string_equal(job_state(w), "preparing");
    pass(w, TTL_HELD_MS);
    assert_string_equal(job_state(w), "running");
    world_free(w);
}

/* Its word went with its lease: the next epoch began at once, and both trained. */
TEST(lost_disk, a_member_that_is_lost_before_the_others_are_back_has_been_heard)
{
    struct world *w = a_world(1, 3);
    reports(w, 0, 5, 3);
    cut(w, 0); /* deaf, say: it trains on */
    join(w, 3, "d");
    pass(w, TTL_HELD_MS);
    assert_saw(w, "~node_lost job=j node=a");
    ready(w, 3, 6);
    pass(w, FENCE_HELD_MS - TTL_HELD_MS - 1);
    assert_not_saw(w, "START");
    pass(w, 1);
    assert_saw(w, "3:START epoch=6");
    world_free(w);
}

/* … it was stopped, and nobody could come in while it renewed its lease. */
TEST(lost_disk, a_member_that_is_not_believed_at_first_is_one_like_the_others)
{
    struct world *w = a_world(1, 3);
    w->join.spec.grow_now = true;
    reports(w, 0, 5, 2);
    pass(w, TTL_HELD_MS);
    assert_saw(w, "0:STOP epoch=5");
    reports(w, 0, 5, 2); /* deaf to it, and here again */
    reports(w, 1, 5, 2);
    assert_string_equal(job_state(w), "running");
    join(w, 2, "c");
    ready(w, 2, 6);
    pass(w, FENCE_HELD_MS + 1000);
    assert_saw(w, "STOP epoch=5");
    world_free(w);
}

/* They came a moment late, and trained on beside the first epoch of others. */
TEST(lost_disk, members_that_are_back_while_the_first_epoch_is_prepared_speak_for_theirs)
{
    struct world *w = a_world(1, 4);
    w->answers = true;
    join(w, 3, "d");
    ready(w, 3, 1);
    pass(w, 3000);
    assert_string_equal(job_state(w), "preparing"); /* until d has let go */
    reports(w, 0, 5, 2);
    assert_string_equal(job_state(w), "rebuilding");
    reports(w, 1, 5, 2);
    assert_string_equal(job_state(w), "running");
    assert_not_saw(w, "STOP");
    world_free(w);
}

/* What is being written is not opened beside one that still may run. */
TEST(lost_disk, a_first_epoch_that_is_written_is_not_begun_beside_one_that_somebody_runs)
{
    struct world *w = a_world(1, 4);
    w->holds_writes = true;
    join(w, 3, "d");
    ready(w, 3, 1);
    pass(w, 3000);
    assert_string_equal(job_state(w), "committing");
    reports(w, 0, 5, 2);
    assert_saw(w, "0:STOP epoch=5");
    cut(w, 0);
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    assert_not_saw(w, "START");
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 server_lost");
    w->holds_writes = false;
    ready(w, 3, 6);
    pass(w, FENCE_HELD_MS - 3000 - 1);
    assert_not_saw(w, "START");
    pass(w, 1);
    assert_saw(w, "3:START epoch=6");
    world_free(w);
}

TEST(lost_disk, the_only_member_of_an_epoch_is_all_of_it)
{
    struct world *w = a_world(1, 2);
    reports(w, 0, 9, 1);
    assert_string_equal(job_state(w), "running");
    assert_not_saw(w, "STOP");
    exited(w, 0, 9, 0);
    assert_saw(w, "0:FINISH succeeded");
    world_free(w);
}

TEST(lost_disk, the_highest_epoch_counts_and_who_runs_an_older_one_is_stopped)
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

TEST(lost_disk, nodes_that_contradict_each_other_are_not_believed)
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

TEST(lost_disk, one_rank_has_one_node)
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

TEST(lost_disk, an_exit_meanwhile_ends_the_epoch_once_it_is_known)
{
    struct world *w = a_world(1, 2);
    reports(w, 0, 5, 2);
    exited(w, 0, 5, 1);
    assert_not_saw(w, "NOTED"); /* it would not be said again, and is not judged yet */
    reports(w, 1, 5, 2);
    assert_saw(w, "0:NOTED epoch=5");
    assert_saw(w, "~switch job=j node=- epoch=5 number=0 server_lost");
    stopped_and_ready(w, 1, 5);
    ready(w, 0, 6);
    /* It would say the same if the others had gone on without it. */
    assert_saw(w, "~wait_fence");
    assert_not_saw(w, "START");
    pass(w, FENCE_HELD_MS - 1);
    assert_not_saw(w, "START");
    pass(w, 1);
    assert_saw(w, "0:START epoch=6");
    world_free(w);
}

/* Who had ended while the server was away was no member any more for the new one: of two nodes the
 * other alone was too few, it was stopped, and the next epoch waited for its fence. */
TEST(lost_disk, who_ended_well_meanwhile_is_a_member_still)
{
    struct msg_exited well = {.epoch = 5};
    for (uint32_t first = 0; first < 2; first++) {
        struct world *w = a_world(1, 2);
        reports_end(w, first, 5, 2, &well);
        assert_string_equal(job_state(w), "rebuilding");
        assert_not_saw(w, "NOTED");
        reports(w, 1 - first, 5, 2);
        assert_string_equal(job_state(w), "running");
        assert_saw(w, "NOTED epoch=5");
        assert_not_saw(w, "STOP");
        exited(w, 1 - first, 5, 0);
        assert_saw(w, "FINISH succeeded");
        world_free(w);
    }
}

TEST(lost_disk, all_that_ended_well_are_a_job_that_succeeded)
{
    struct msg_exited well = {.epoch = 5};
    struct world *w = a_world(1, 2);
    reports_end(w, 1, 5, 2, &well);
    reports_end(w, 0, 5, 2, &well);
    assert_saw(w, "0:FINISH succeeded");
    assert_saw(w, "1:FINISH succeeded");
    world_free(w);
}

/* What it died of is not kept for so long: it may have been the loss of a peer. */
TEST(lost_disk, a_bad_end_meanwhile_ends_the_epoch_and_is_charged_to_nobody)
{
    struct msg_exited badly = {.epoch = 5, .code = 1};
    struct world *w = a_world(1, 2);
    reports(w, 0, 5, 2);
    reports_end(w, 1, 5, 2, &badly);
    assert_saw(w, "1:NOTED epoch=5");
    assert_saw(w, "~node_exited job=j node=b epoch=5 number=1");
    assert_saw(w, "~switch job=j node=- epoch=5 number=0 server_lost");
    assert_not_saw(w, "~restarts");
    world_free(w);
}

/* Nothing runs of it, and the others may have gone on without it. */
TEST(lost_disk, a_minority_that_has_ended_waits_for_the_fence)
{
    struct msg_exited stopped = {.epoch = 5, .stopped = true};
    struct world *w = a_world(1, 3);
    reports_end(w, 0, 5, 3, &stopped);
    pass(w, TTL_HELD_MS);
    assert_saw(w, "0:PREPARE epoch=6");
    forget(w);
    ready(w, 0, 6);
    assert_saw(w, "~wait_fence");
    pass(w, FENCE_HELD_MS - TTL_HELD_MS - 1);
    assert_not_saw(w, "START");
    pass(w, 1);
    assert_saw(w, "0:START epoch=6 rank=0 world=1");
    world_free(w);
}

/* It was passed over: an epoch of one node is fenced sooner than what may have come after it. */
TEST(lost_disk, a_single_node_that_has_ended_waits_for_the_fence_of_many)
{
    struct msg_exited stopped = {.epoch = 5, .stopped = true};
    struct world *w = a_world(1, 1);
    reports_end(w, 0, 5, 1, &stopped);
    ready(w, 0, 6);
    pass(w, FENCE_HELD_MS - 1);
    assert_not_saw(w, "START");
    pass(w, 1);
    assert_saw(w, "0:START epoch=6 rank=0 world=1");
    world_free(w);
}

/* There may have been more leases, which are longer then, and their fences with them. */
TEST(lost_disk, a_minority_waits_for_the_longest_fence_that_the_server_may_grant)
{
    struct rdzv_config config = usual_config();
    config.fence_ms = 30000;
    config.renew_rate = 1;
    config.max_nodes = 8; /* leases of 25 s */
    struct world *w = world_new(&config, 1, 3);
    reports(w, 0, 5, 3);
    pass(w, TTL_HELD_MS);
    stopped_and_ready(w, 0, 5);
    pass(w, 83000 - TTL_HELD_MS - 1); /* 75 s on its clock */
    assert_not_saw(w, "START");
    pass(w, 1);
    assert_saw(w, "0:START epoch=6 rank=0 world=1");
    world_free(w);
}

TEST(lost_disk, who_listened_can_be_proven_dead_later)
{
    struct world *w = a_world(1, 2);
    reports(w, 0, 5, 2);
    struct tfe_msg msg = {.type = MSG_LISTENING, .u.listening.epoch = 5};
    assert_int_equal(say(w, 0, &msg), 0);
    reports(w, 1, 5, 2);
    assert_string_equal(job_state(w), "running");
    assert_int_equal(say(w, 1, &msg), 0);
    assert_saw(w, "~node_listening job=j node=b");
    assert_int_equal(say(w, 0, &msg), 0);
    assert_not_saw(w, "~node_listening"); /* it has not been forgotten */
    world_free(w);
}

TEST(lost_disk, a_reporter_that_leaves_does_not_count)
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

TEST(lost_disk, a_job_that_is_known_is_not_rebuilt)
{
    struct world *w = a_running_world(1, 3, 2);
    reports(w, 2, 5, 3);
    assert_saw(w, "2:STOP epoch=5");
    assert_string_equal(job_state(w), "running");
    world_free(w);
}
