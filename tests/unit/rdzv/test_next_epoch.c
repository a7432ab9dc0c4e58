/* tests/unit/rdzv/test_next_epoch.c: what an epoch does not inherit from the one before it. */
#include "tests/unit/rdzv/plan.h"

/* All members of epoch 1 fail with the one on the session and are in the next. */
static void switch_to_2(struct world *w, uint32_t failed, uint32_t n)
{
    exited(w, failed, 1, 1);
    for (uint32_t i = 0; i < n; i++) {
        ready(w, i, 2);
    }
    pass(w, 1000); /* of back-off */
    assert_string_equal(job_state(w), "running");
}

TEST(next_epoch, is_not_ended_by_the_grace_of_one_that_had_ended_well_before)
{
    struct world *w = a_running_world(1, 3, 3);
    exited(w, 1, 1, 0);
    switch_to_2(w, 2, 3);
    pass(w, 120000);
    assert_not_saw(w, "switch");
    assert_not_saw(w, "~end");
    assert_string_equal(job_state(w), "running");
    world_free(w);
}

TEST(next_epoch, believes_who_has_seen_higher_ones_as_the_first_did)
{
    struct world *w = a_world(6, 7);
    for (uint32_t i = 0; i < 6; i++) {
        w->join.highest_epoch = 10 * (i + 1); /* the sixth is answered with more than it has seen */
        join(w, i, name_of(i));
    }
    const char *at = strstr(w->log, "5:PREPARE epoch=");
    assert_non_null(at);
    uint64_t epoch = strtoull(at + strlen("5:PREPARE epoch="), NULL, 10);
    assert_true(epoch > 61);
    for (uint32_t i = 0; i < 6; i++) {
        ready(w, i, epoch);
    }
    pass(w, 3000);
    assert_string_equal(job_state(w), "running");
    w->join.highest_epoch = epoch + 7;
    join(w, 6, "g");
    char expected[64];
    snprintf(expected, sizeof(expected), "6:PREPARE epoch=%llu ", (unsigned long long)epoch + 8);
    assert_saw(w, expected);
    world_free(w);
}

TEST(next_epoch, is_told_to_nobody_before_it_is_durable_whatever_rank_0_says)
{
    struct world *w = a_world(2, 2);
    w->holds_leader = true;
    come(w, 2); /* rank 0 has not said that it listens, and 300 ms have not passed */
    w->holds_writes = true;
    exited(w, 0, 1, 1);
    ready(w, 0, 2);
    ready(w, 1, 2);
    pass(w, 1000); /* of back-off */
    assert_string_equal(job_state(w), "committing");
    struct tfe_msg listening = {.type = MSG_LISTENING, .u.listening.epoch = 2};
    (void)say(w, 0, &listening);
    assert_not_saw(w, ":START");
    world_free(w);
}

TEST(next_epoch, has_a_row_of_its_own_in_the_ledger)
{
    struct world *w = a_running_world(1, 4, 3);
    w->shows_ledger = true;
    listens(w, 0, 1, 5);
    exited(w, 1, 1, 1);
    for (uint32_t i = 0; i < 3; i++) {
        ready(w, i, 2);
    }
    assert_saw(w, "epoch=2 trainer_failed blamed=b ");
    assert_saw(w, " over\n");
    assert_not_saw(w, "lost="); /* nobody knows from which step on */
    join(w, 3, "d");
    ready(w, 3, 3);
    for (int i = 0; i < 1000 && !strstr(w->log, "~switch"); i++) {
        pass(w, 1000);
    }
    for (uint32_t i = 0; i < 3; i++) {
        stopped_and_ready(w, i, 2);
    }
    assert_saw(w, "epoch=3 joined planned blamed= ");
    world_free(w);
}

static const char peer_is_gone[] = "Collective ops is aborted by: UNAVAILABLE: its peer closed";

TEST(next_epoch, of_a_peers_fault_gives_back_no_restart_of_the_last)
{
    struct world *w = a_running_world(1, 2, 2);
    switch_to_2(w, 0, 2); /* charged */
    exited_as(w, 1, (struct msg_exited){.epoch = 2, .code = 1, .tail = peer_is_gone});
    assert_saw(w, "peer_caused");
    ready(w, 1, 3);
    cut(w, 0);
    pass(w, 2000);
    assert_saw(w, "left out");
    assert_not_saw(w, "~restarts");
    world_free(w);
}

TEST(next_epoch, that_loses_a_node_gives_back_no_restart_of_the_last)
{
    struct world *w = a_running_world(1, 3, 3);
    switch_to_2(w, 0, 3);
    cut(w, 1);
    goodbye(w, 2);
    stopped_and_ready(w, 0, 2);
    pass(w, 2000);
    assert_saw(w, "left out");
    assert_not_saw(w, "~restarts");
    world_free(w);
}

TEST(next_run, begins_with_a_row_that_is_neither_planned_nor_blamed)
{
    /* A switch was planned, and had no end: there were too few for another epoch. */
    struct world *w = a_running_world(2, 2, 2);
    w->shows_ledger = true;
    noticed(w, 1, NOTICE_PREEMPT, MSG_UNSET);
    pass(w, 2000);
    stopped_and_ready(w, 0, 1);
    trainers_stop(w, 1, 1);
    assert_string_equal(job_state(w), "waiting");
    assert_saw(w, "LEDGER j/1 epoch=1 start");
    assert_saw(w, " over\n"); /* now, and not when there are enough again */
    stop_job(w);
    assert_string_equal(job_state(w), "stopped");
    w->join.new_run = true;
    join(w, 2, "x");
    join(w, 3, "y");
    ready(w, 2, 2);
    ready(w, 3, 2);
    assert_saw(w, "LEDGER j/2 epoch=2 start blamed= members=2 gathered=");
    world_free(w);
}

TEST(next_epoch, hears_nothing_of_the_progress_of_the_last)
{
    struct world *w = a_running_world(1, 2, 2);
    w->shows_ledger = true;
    switch_to_2(w, 1, 2);
    listens(w, 0, 1, 50);
    assert_not_saw(w, "progressed");
    listens(w, 0, 2, 51);
    assert_saw(w, "progressed");
    world_free(w);
}

TEST(next_epoch, asks_nobody_to_save_for_what_the_last_had_planned)
{
    struct world *w = a_running_world(1, 3, 2);
    listens(w, 0, 1, 5);
    join(w, 2, "c");
    ready(w, 2, 2);
    assert_saw(w, "0:SAVE epoch=1 number=1");
    exited(w, 1, 1, 1);
    for (uint32_t i = 0; i < 3; i++) {
        ready(w, i, 2);
    }
    pass(w, 1000);
    assert_string_equal(job_state(w), "running"); /* c is in it: there is nobody to wait for */
    listens(w, 0, 2, 6);
    assert_not_saw(w, "SAVE");
    world_free(w);
}

TEST(next_run, goes_on_with_the_numbers_of_what_scripts_are_asked_to_save)
{
    /* An answer of the last run's that comes late is no answer to this one's. */
    struct world *w = a_running_world(1, 3, 2);
    listens(w, 0, 1, 5);
    join(w, 2, "c");
    ready(w, 2, 2);
    assert_saw(w, "0:SAVE epoch=1 number=1");
    stop_job(w);
    trainers_stop(w, 0, 1);
    assert_string_equal(job_state(w), "stopped");
    w->join.new_run = true;
    for (uint32_t i = 3; i < 5; i++) {
        join(w, i, name_of(i));
        ready(w, i, 2);
    }
    pass(w, 3000);
    assert_string_equal(job_state(w), "running");
    listens(w, 3, 2, 5);
    join(w, 5, "f");
    ready(w, 5, 3);
    for (int i = 0; i < 100 && !strstr(w->log, "SAVE"); i++) {
        pass(w, 1000);
    }
    assert_saw(w, "3:SAVE epoch=2 number=2");
    world_free(w);
}

TEST(next_epoch, of_a_restarted_server_has_its_ports_and_its_oldest_node)
{
    struct world *w = an_adopted_world(3);
    join(w, 1, "b");
    assert_saw(w, "1:PREPARE epoch=5 fresh"); /* of epoch 3 it knows no end */
    struct disk disk;
    world_free(w);
    w = a_world(1, 3);
    w->disk = &disk;
    come(w, 2);
    pass(w, 3000);
    struct world *next = a_world(1, 3);
    assert_int_equal(rdzv_restore(next->r, (struct tfe_mono){next->now}, &disk.record), 0);
    next->deadline = next->now;
    next->join.highest_epoch = next->join.running_epoch = 1;
    join(next, 0, "a");
    join(next, 1, "b");
    next->join.highest_epoch = next->join.running_epoch = 0;
    next->join.node_name = "c";
    join(next, 2, "0c"); /* its id is the lowest, and it came last */
    ready(next, 2, 2);
    goodbye(next, 0);
    stopped_and_ready(next, 1, 1);
    assert_saw(next, "1:START epoch=2 rank=0");
    world_free(next);
    world_free(w);
}

TEST(next_epoch, waits_for_its_fence_and_says_so_each_time)
{
    struct world *w = a_running_world(1, 1, 1);
    for (uint32_t session = 0; session < 2; session++) {
        join(w, session + 1, name_of(session + 1));
        ready(w, session + 1, session + 2);
        cut(w, session);
        pass(w, TTL_HELD_MS);
        assert_saw(w, "~wait_fence");
        pass(w, FENCE_ONE_HELD_MS);
        assert_string_equal(job_state(w), "running");
    }
    world_free(w);
}

TEST(next_epoch, of_a_restarted_server_keeps_the_longer_times_that_its_agents_were_promised)
{
    struct world *w = a_world(1, 2);
    struct disk disk;
    w->disk = &disk;
    come(w, 2);
    disk.record.ttl_ms = 60000;
    disk.record.fence_ms = 900000;
    struct world *next = a_world(1, 2);
    struct disk again;
    next->disk = &again;
    assert_int_equal(rdzv_restore(next->r, (struct tfe_mono){next->now}, &disk.record), 0);
    next->deadline = next->now;
    next->join.highest_epoch = next->join.running_epoch = 1;
    join(next, 0, "a");
    join(next, 1, "b");
    switch_to_2(next, 1, 2);
    assert_int_equal(again.record.epoch, 2);
    assert_int_equal(again.record.ttl_ms, 60000);
    assert_int_equal(again.record.fence_ms, 900000);
    assert_true(again.record.sequence > disk.record.sequence);
    world_free(next);
    world_free(w);
}

/* A server has come back to a record of epoch 1, which a and b were in, and c is ready. The record
 * says that fences may be so long; 0: as they were. */
static struct world *a_rolled_back_world_of(const struct rdzv_config *config, uint32_t fence_ms)
{
    struct disk disk;
    struct world *w = world_new(config, 1, 3);
    w->disk = &disk;
    come(w, 2);
    pass(w, 3000);
    disk.record.fence_ms = fence_ms ? fence_ms : disk.record.fence_ms;
    struct world *next = world_new(config, 1, 3);
    assert_int_equal(rdzv_restore(next->r, (struct tfe_mono){next->now}, &disk.record), 0);
    world_free(w);
    next->deadline = next->now;
    join(next, 2, "c");
    ready(next, 2, 2);
    return next;
}

static struct world *a_rolled_back_world(void)
{
    struct rdzv_config config = usual_config();
    return a_rolled_back_world_of(&config, 0);
}

/* The node says that it runs this epoch. */
static void runs(struct world *w, uint32_t session, const char *node, uint64_t epoch)
{
    w->join.highest_epoch = w->join.running_epoch = epoch;
    join(w, session, node);
    w->join.highest_epoch = w->join.running_epoch = 0;
}

TEST(next_epoch, of_a_server_with_an_older_disk_waits_for_what_its_record_does_not_know)
{
    struct world *w = a_rolled_back_world();
    struct msg_exited exited = {.epoch = 4, .tail = ""};
    w->join.highest_epoch = 4;
    w->join.exited = &exited;
    join(w, 0, "a");
    ready(w, 2, 5);
    ready(w, 0, 5); /* a has ended that, and others may be in what came after */
    pass(w, FENCE_HELD_MS - 1);
    assert_saw(w, "wait_fence");
    assert_not_saw(w, "START");
    pass(w, 1);
    assert_saw(w, "START epoch=5");
    world_free(w);
}

/* It waited for the fence of its record, and what the lost ones had granted, to more leases, was
 * longer. */
TEST(next_epoch, of_a_server_with_an_older_disk_waits_for_the_longest_fence_that_it_may_grant)
{
    struct rdzv_config config = usual_config();
    config.fence_ms = 30000;
    config.renew_rate = 1;
    config.max_nodes = 8; /* leases of 25 s */
    struct world *w = a_rolled_back_world_of(&config, 0);
    runs(w, 0, "a", 4);
    cut(w, 0);
    ready(w, 2, 5);
    pass(w, 83000 - 1); /* 75 s on its clock */
    assert_not_saw(w, "START");
    pass(w, 1);
    assert_saw(w, "2:START epoch=5");
    world_free(w);
}

TEST(next_epoch, of_a_server_with_an_older_disk_waits_for_a_fence_that_only_its_record_has)
{
    struct rdzv_config config = usual_config();
    struct world *w = a_rolled_back_world_of(&config, 2 * 300000); /* the setting was longer */
    w->join.highest_epoch = 1;
    join(w, 1, "b"); /* nothing of the record's epoch runs there */
    goodbye(w, 1);
    runs(w, 0, "d", 4);
    cut(w, 0);
    ready(w, 2, 5);
    pass(w, 663650 - 1);
    assert_not_saw(w, "START");
    pass(w, 1);
    assert_saw(w, "2:START epoch=5");
    world_free(w);
}

TEST(next_epoch, of_a_server_with_an_older_disk_waits_for_who_says_what_it_runs)
{
    struct world *w = a_rolled_back_world();
    pass(w, 5000);
    runs(w, 0, "a", 4);
    assert_saw(w, "0:STOP epoch=4");
    cut(w, 0); /* it may have read how long it may go on, and not that it is to stop */
    ready(w, 2, 5);
    pass(w, FENCE_HELD_MS - 1);
    assert_not_saw(w, "START");
    pass(w, 1);
    assert_saw(w, "2:START epoch=5");
    world_free(w);
}

TEST(next_epoch, of_a_server_with_an_older_disk_waits_for_who_cannot_end_it)
{
    struct world *w = a_rolled_back_world();
    runs(w, 0, "a", 4);
    ready(w, 2, 5);
    pass(w, 2 * FENCE_HELD_MS); /* a renews its lease all the time, and so its fence */
    assert_not_saw(w, "START");
    ready(w, 0, 5);
    pass(w, FENCE_HELD_MS);
    assert_saw(w, "START epoch=5");
    world_free(w);
}

TEST(next_epoch, of_a_server_with_an_older_disk_waits_for_another_one_of_its_number)
{
    struct world *w = a_rolled_back_world();
    w->join.highest_epoch = 1;
    join(w, 0, "a");
    ready(w, 0, 2);
    pass(w, 1000);
    assert_saw(w, "START epoch=2"); /* nobody has said anything */
    runs(w, 1, "d", 2);
    assert_saw(w, "1:STOP epoch=2");
    goodbye(w, 0);
    stopped_and_ready(w, 2, 2);
    pass(w, 2 * FENCE_HELD_MS);
    assert_not_saw(w, "START");
    ready(w, 1, 3);
    pass(w, FENCE_HELD_MS);
    assert_saw(w, "START epoch=3");
    world_free(w);
}

static const char *waits_for(struct world *w, char room[MSG_SENTENCE_MAX])
{
    struct msg_status_job job;
    assert_int_equal(rdzv_view_job(w->r, NULL, &job), 0);
    rdzv_view_waits(w->r, &job, room);
    return job.waits ? job.waits : "";
}

/* Of the members of its record the one with the longest fence was named, whose it was not. */
TEST(next_epoch, of_a_server_with_an_older_disk_says_what_it_waits_for)
{
    char room[MSG_SENTENCE_MAX];
    struct world *w = a_rolled_back_world();
    runs(w, 0, "a", 4);
    cut(w, 0);
    ready(w, 2, 5);
    pass(w, 20000);
    assert_non_null(strstr(waits_for(w, room), "trainers of which this server has no record"));
    world_free(w);

    struct rdzv_config config = usual_config();
    w = a_rolled_back_world_of(&config, 2 * 300000); /* the record's own is longer */
    ready(w, 2, 2);
    pass(w, 20000);
    assert_non_null(strstr(waits_for(w, room), "until a's trainers"));
    world_free(w);
}

/* It was stopped for a newcomer, and stood then until the fence of what nobody knew. */
TEST(next_epoch, of_a_server_with_an_older_disk_stops_nobody_before_it_may_begin)
{
    char room[MSG_SENTENCE_MAX];
    struct world *w = a_rolled_back_world();
    w->join.highest_epoch = 1;
    w->join.spec.grow_now = true;
    join(w, 0, "a");
    ready(w, 0, 2);
    pass(w, 1000);
    assert_saw(w, "START epoch=2");
    runs(w, 1, "d", 3);
    stopped_and_ready(w, 1, 3);
    ready(w, 1, 4);
    assert_int_equal(order(w, RDZV_GROW, "j", NULL), 0);
    pass(w, FENCE_HELD_MS - 1000 - 1);
    assert_not_saw(w, "STOP");
    struct msg_status_node node = {.node = "d"};
    rdzv_view_node_waits(w->r, "j", &node, room);
    assert_non_null(strstr(node.waits, "the job grows once earlier trainers must have ended"));
    pass(w, 1);
    assert_saw(w, "STOP epoch=2");
    world_free(w);
}

/* a and c are in epoch 2, and d has been in one that nobody knew of. */
static struct world *a_world_that_is_told_late(void)
{
    struct world *w = a_rolled_back_world();
    w->join.highest_epoch = 1;
    join(w, 0, "a");
    ready(w, 0, 2);
    pass(w, 1000);
    assert_saw(w, "START epoch=2 rank=1");
    runs(w, 1, "d", 3);
    stopped_and_ready(w, 1, 3);
    return w;
}

TEST(next_epoch, of_a_server_with_an_older_disk_makes_a_job_no_smaller_before_it_may_begin)
{
    struct world *w = a_world_that_is_told_late();
    struct rdzv_event fewer = {.type = RDZV_RESIZE,
                               .now = {w->now},
                               .job = "j",
                               .min_nodes = 1,
                               .max_nodes = 1,
                               .n_ps = MSG_UNSET};
    assert_int_equal(step(w, &fewer), 0);
    pass(w, FENCE_HELD_MS - 1000 - 1);
    assert_not_saw(w, "STOP");
    pass(w, 1);
    assert_saw(w, "STOP epoch=2");
    world_free(w);
}

TEST(next_epoch, of_a_server_with_an_older_disk_is_put_off_while_growth_waits_for_the_disk)
{
    struct world *w = a_rolled_back_world();
    w->join.highest_epoch = 1;
    join(w, 0, "a");
    ready(w, 0, 2);
    pass(w, 1000);
    w->holds_writes = true;
    join(w, 3, "e");
    ready(w, 3, 3);
    assert_saw(w, "PERSIST");
    runs(w, 1, "d", 3);
    ready(w, 3, 4);
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    assert_not_saw(w, "STOP epoch=2");
    world_free(w);
}

TEST(next_epoch, of_a_server_with_an_older_disk_waits_for_nothing_past_the_fences)
{
    struct world *w = a_rolled_back_world();
    pass(w, FENCE_HELD_MS);
    runs(w, 0, "a", 4);
    cut(w, 0);
    assert_string_equal(job_state(w), "running"); /* c alone: all before it have ended by then */
    goodbye(w, 2);
    join(w, 1, "d");
    pass(w, 1000);
    ready(w, 1, 5);
    assert_saw(w, "1:START epoch=5");
    world_free(w);
}
