/* tests/unit/rdzv/test_durable.c: durable before visible, rank 0 before the others, and a server
 * that comes back. */
#include "tests/unit/rdzv/world.h"

/* Two nodes are ready, the disk has not answered yet. */
static struct world *a_committing_world(void)
{
    struct world *w = a_world(1, 2);
    w->holds_writes = true;
    come(w, 2);
    assert_string_equal(job_state(w), "committing");
    return w;
}

TEST(commit, nobody_hears_of_an_epoch_before_it_is_durable)
{
    struct world *w = a_committing_world();
    assert_saw(w, "PERSIST job=j epoch=1 after=0 members=2\n");
    assert_not_saw(w, "TABLE");
    assert_not_saw(w, "START");
    pass(w, 5000);
    assert_not_saw(w, "START");
    forget(w);
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    assert_saw(w, "0:START epoch=1 rank=0");
    assert_saw(w, "1:START epoch=1 rank=1");
    assert_string_equal(job_state(w), "running");
    world_free(w);
}

TEST(commit, a_write_that_fails_is_tried_again_with_back_off)
{
    struct world *w = a_committing_world();
    for (int64_t wait = 1000; wait <= 64000; wait *= 2) {
        int64_t expected = wait < 60000 ? wait : 60000;
        forget(w);
        assert_int_equal(write_ends(w, RDZV_PERSIST_FAILED), 0);
        assert_saw(w, "~write_failed");
        pass(w, expected - 1);
        assert_not_saw(w, "PERSIST");
        pass(w, 1);
        assert_saw(w, "PERSIST job=j epoch=1");
    }
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    assert_string_equal(job_state(w), "running");
    exited(w, 1, 1, 1);
    ready(w, 0, 2);
    ready(w, 1, 2);
    pass(w, 1000);
    forget(w);
    assert_int_equal(write_ends(w, RDZV_PERSIST_FAILED), 0);
    pass(w, 1000); /* another record begins with the shortest wait */
    assert_saw(w, "PERSIST job=j epoch=2");
    world_free(w);
}

TEST(commit, a_store_that_another_server_writes_to_ends_this_one)
{
    struct world *w = a_committing_world();
    assert_int_equal(step(w, &(struct rdzv_event){.type = RDZV_PERSIST_FAILED,
                                                  .now = {w->now},
                                                  .job = "j",
                                                  .sequence = w->write,
                                                  .conflict = true}),
                     0);
    assert_saw(w, "EXIT another server writes to the same store");
    assert_not_saw(w, "START");
    world_free(w);
}

TEST(commit, a_record_that_is_asked_for_again_knows_where_its_members_are_by_now)
{
    /* Nodes that joined meanwhile had moved them. */
    struct world *w = a_world(1, 40);
    struct disk disk;
    w->disk = &disk;
    w->holds_writes = true;
    come(w, 2);
    pass(w, 3000);
    assert_saw(w, "PERSIST");
    assert_int_equal(write_ends(w, RDZV_PERSIST_FAILED), 0);
    char id[TFE_ID_MAX + 1];
    for (uint32_t i = 2; i < 32; i++) {
        snprintf(id, sizeof(id), "n%u", i);
        join(w, i, id);
    }
    memset(&disk, 0, sizeof(disk));
    pass(w, 1000);
    assert_saw(w, "PERSIST job=j epoch=1 after=0 members=2\n");
    assert_string_equal(disk.record.members[0].node, "a");
    assert_string_equal(disk.record.members[1].host, "b1");
    assert_int_equal(disk.record.members[1].ports[0], 1100);
    world_free(w);
}

TEST(commit, spares_of_an_epoch_that_is_given_up_are_asked_for_the_next_one)
{
    /* They had been READY for its number, and were forgotten. */
    struct world *w = a_world(1, 1);
    join(w, 0, "a");
    pass(w, 1);
    join(w, 1, "c");
    w->holds_writes = true;
    ready(w, 0, 1);
    pass(w, 3000);
    ready(w, 1, 1); /* a spare */
    goodbye(w, 0);
    forget(w);
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    assert_saw(w, "1:PREPARE epoch=2");
    w->holds_writes = false;
    ready(w, 1, 2);
    assert_saw(w, "1:START epoch=2");
    world_free(w);
}

/* A full disk, and a node that could come in. */
static struct world *a_full_disk(void)
{
    struct world *w = a_running_world(1, 2, 1);
    w->holds_writes = true;
    join(w, 1, "b");
    ready(w, 1, 2);
    assert_saw(w, "PERSIST job=j epoch=1 after=1 members=1\n"); /* does it take anything? */
    assert_not_saw(w, "STOP");
    assert_int_equal(write_ends(w, RDZV_PERSIST_FAILED), 0);
    assert_saw(w, "~write_failed");
    return w;
}

TEST(full_disk, stops_no_trainer_for_growth_and_growth_comes_when_there_is_space)
{
    struct world *w = a_full_disk();
    pass(w, 1000);
    assert_saw(w, "PERSIST job=j epoch=1 after=1 members=1\n");
    assert_not_saw(w, "STOP");
    forget(w);
    w->holds_writes = false;
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 joined");
    stopped_and_ready(w, 0, 1);
    assert_saw(w, "START epoch=2 rank=1");
    world_free(w);
}

TEST(full_disk, growth_that_waits_for_space_is_off_once_a_trainer_has_begun_to_exit_0)
{
    struct world *w = a_full_disk();
    struct msg_progress progress = {.epoch = 1, .ends = true};
    assert_int_equal(say(w, 0, &(struct tfe_msg){.type = MSG_PROGRESS, .u.progress = progress}), 0);
    w->holds_writes = false;
    pass(w, 100000);
    assert_not_saw(w, "STOP");
    world_free(w);
}

TEST(full_disk, does_not_delay_what_has_to_be)
{
    struct world *w = a_full_disk();
    exited(w, 0, 1, 1);
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 trainer_failed");
    world_free(w);

    w = a_full_disk();
    goodbye(w, 1); /* nobody is left to come in */
    w->holds_writes = false;
    pass(w, 100000);
    assert_not_saw(w, "STOP");
    world_free(w);
}

TEST(commit, an_answer_for_an_older_record_says_nothing)
{
    struct world *w = a_committing_world();
    w->write--;
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    assert_string_equal(job_state(w), "committing");
    assert_int_equal(
        step(w, &(struct rdzv_event){.type = RDZV_PERSISTED, .job = "other", .sequence = 1}),
        TFE_EINVAL);
    world_free(w);
}

TEST(commit, an_epoch_that_loses_a_member_before_it_is_durable_is_over_before_it_began)
{
    struct world *w = a_committing_world();
    goodbye(w, 1);
    w->holds_writes = false;
    forget(w);
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    assert_not_saw(w, "START");
    assert_saw(w, "0:STOP epoch=1\n");
    assert_saw(w, "0:PREPARE epoch=2\n");
    ready(w, 0, 2);
    assert_saw(
        w, "0:START epoch=2 rank=0 world=1 nodes=1 cause=drained"); /* no fence was waited for */
    world_free(w);
}

TEST(commit, a_member_that_reconnects_meanwhile_is_told_with_the_rest)
{
    struct world *w = a_committing_world();
    cut(w, 1);
    join(w, 2, "b");
    assert_saw(w, "2:WELCOME");
    assert_not_saw(w, "PREPARE");
    assert_not_saw(w, "START");
    forget(w);
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    assert_saw(w, "2:START epoch=1 rank=1");
    world_free(w);
}

TEST(commit, the_end_of_a_job_is_durable_before_it_is_told)
{
    struct world *w = a_running_world(1, 1, 1);
    w->holds_writes = true;
    exited(w, 0, 1, 0);
    assert_saw(w, "PERSIST job=j epoch=1 after=1 members=0 over\n");
    assert_not_saw(w, "FINISH");
    forget(w);
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    assert_saw(w, "0:FINISH succeeded: job j succeeded");
    world_free(w);
}

TEST(leader, starts_first_and_the_others_when_it_listens)
{
    struct world *w = a_world(3, 3);
    w->holds_leader = true;
    for (uint32_t i = 0; i < 3; i++) {
        join(w, i, name_of(i));
        ready(w, i, 1);
    }
    assert_saw(w, "0:START epoch=1 rank=0");
    assert_saw(w, "1:TABLE");
    assert_saw(w, "2:TABLE");
    assert_not_saw(w, "1:START");
    struct tfe_msg listening = {.type = MSG_LISTENING, .u.listening.epoch = 1};
    assert_int_equal(say(w, 1, &listening), 0); /* not rank 0 */
    assert_not_saw(w, ":START");
    assert_int_equal(say(w, 0, &listening), 0);
    assert_saw(w, "1:START epoch=1 rank=1");
    assert_saw(w, "2:START epoch=1 rank=2");
    assert_not_saw(w, "0:START");
    pass(w, 1000);
    assert_not_saw(w, ":START"); /* once is enough */
    world_free(w);
}

TEST(leader, that_does_not_listen_is_waited_for_300_ms)
{
    struct world *w = a_world(2, 2);
    w->holds_leader = true;
    come(w, 2);
    pass(w, 299);
    assert_not_saw(w, "1:START");
    pass(w, 1);
    assert_saw(w, "1:START epoch=1 rank=1");
    world_free(w);
}

TEST(leader, that_fails_before_it_listens_takes_nobody_with_it)
{
    struct world *w = a_world(2, 2);
    w->holds_leader = true;
    come(w, 2);
    exited(w, 0, 1, 1);
    assert_saw(w, "1:STOP epoch=1\n");
    assert_not_saw(w, "1:START");
    ready(w, 1, 2);
    ready(w, 0, 2);
    pass(w, 1000);
    assert_saw(w, "0:START epoch=2 rank=0 world=2 nodes=2 cause=trainer_failed");
    world_free(w);
}

TEST(leader, a_member_that_lost_the_connection_before_its_turn_is_told_when_it_is_back)
{
    struct world *w = a_world(2, 2);
    w->holds_leader = true;
    come(w, 2);
    cut(w, 1);
    pass(w, 300);
    join(w, 2, "b");
    assert_saw(w, "2:TABLE epoch=1");
    assert_saw(w, "2:START epoch=1 rank=1");
    world_free(w);
}

/* The server was away; a new one reads what the old one wrote. */
static struct world *restored(struct world *old, struct disk *disk)
{
    struct world *w = a_world(old->join.spec.min_nodes, old->join.spec.max_nodes);
    w->disk = disk;
    w->now = old->now + 5000;
    world_free(old);
    assert_int_equal(rdzv_restore(w->r, (struct tfe_mono){w->now}, &disk->record), 0);
    assert_int_equal(rdzv_restore(w->r, (struct tfe_mono){w->now}, &disk->record), TFE_EEXIST);
    return w;
}

static struct world *a_running_world_on(struct disk *disk, uint32_t max)
{
    struct world *w = a_world(1, max);
    w->disk = disk;
    for (uint32_t i = 0; i < max; i++) {
        join(w, i, name_of(i));
        ready(w, i, 1);
    }
    return w;
}

static void join_back(struct world *w, uint32_t session, const char *node, uint64_t running)
{
    w->join.running_epoch = running;
    w->join.highest_epoch = running;
    join(w, session, node);
    w->join.running_epoch = 0;
    w->join.highest_epoch = 0;
}

TEST(restart, adopts_a_running_epoch_without_a_word)
{
    struct disk disk;
    struct world *w = restored(a_running_world_on(&disk, 3), &disk);
    assert_string_equal(job_state(w), "running");
    for (uint32_t i = 0; i < 3; i++) {
        join_back(w, i, name_of(i), 1);
        assert_saw(w, ":WELCOME");
        assert_not_saw(w, ":STOP");
        assert_not_saw(w, ":PREPARE");
        assert_not_saw(w, ":START");
    }
    pass(w, 60000);
    assert_not_saw(w, ":STOP");
    /* What comes next is numbered above it. */
    exited(w, 1, 1, 1);
    assert_saw(w, "0:PREPARE epoch=2\n");
    world_free(w);
}

TEST(restart, a_member_that_does_not_come_back_is_lost_after_a_whole_lease)
{
    struct disk disk;
    struct world *w = restored(a_running_world_on(&disk, 2), &disk);
    join_back(w, 0, "a", 1);
    pass(w, TTL_HELD_MS - 1);
    assert_not_saw(w, ":STOP");
    pass(w, 1);
    assert_saw(w, "~node_lost job=j node=b");
    assert_saw(w, "0:STOP epoch=1\n");
    world_free(w);
}

TEST(restart, a_member_that_had_not_heard_of_the_epoch_is_told_now)
{
    struct disk disk;
    struct world *w = restored(a_running_world_on(&disk, 2), &disk);
    join_back(w, 0, "a", 1);
    join(w, 1, "b");
    assert_saw(w, "1:TABLE epoch=1 a1:1000 b1:1100");
    assert_saw(w, "1:START epoch=1 rank=1 world=2");
    world_free(w);
}

TEST(restart, a_switch_that_was_under_way_is_gone_through_again)
{
    struct disk disk;
    struct world *w = restored(a_running_world_on(&disk, 2), &disk);
    w->join.highest_epoch = 1; /* stopped it, and nothing runs */
    join(w, 0, "a");
    assert_saw(w, "~switch job=j node=- epoch=1");
    assert_saw(w, "0:PREPARE epoch=2\n");
    world_free(w);
}

TEST(restart, newcomers_do_not_take_the_places_of_members_that_are_not_back_yet)
{
    struct disk disk;
    struct world *old = a_running_world_on(&disk, 2);
    struct rdzv_config config = usual_config();
    config.max_nodes = 2;
    struct world *w = world_new(&config, 1, 2);
    w->now = old->now + 5000;
    world_free(old);
    assert_int_equal(rdzv_restore(w->r, (struct tfe_mono){w->now}, &disk.record), 0);
    for (uint32_t i = 0; i < 2; i++) {
        join(w, 5, "z");
        assert_saw(w, "5:REFUSED limit_reached: the server has no room for more agents than 2;");
        assert_saw(w, "5:CLOSE");
        join_back(w, i, name_of(i), 1);
        assert_saw(w, ":WELCOME");
    }
    cut(w, 1);
    pass(w, TTL_HELD_MS - 1);
    join(w, 5, "z");
    assert_saw(w, "5:REFUSED limit_reached");
    pass(w, 1);
    assert_saw(w, "~node_lost job=j node=b");
    join(w, 5, "z");
    assert_saw(w, "5:WELCOME");
    world_free(w);
}

TEST(restart, a_lost_epoch_of_one_waits_for_its_fence)
{
    struct disk disk;
    struct world *w = restored(a_running_world_on(&disk, 1), &disk);
    join(w, 5, "z");
    ready(w, 5, 2);
    pass(w, TTL_HELD_MS);
    assert_saw(w, "~wait_fence");
    assert_not_saw(w, ":START");
    pass(w, FENCE_HELD_MS - TTL_HELD_MS - 1);
    assert_not_saw(w, ":START");
    pass(w, 1);
    assert_saw(w, "5:START epoch=2 rank=0 world=1");
    world_free(w);
}

TEST(restart, of_a_record_that_later_leases_are_missing_in_waits_for_the_longest_fence)
{
    /* The disk lost the last record of the epoch, which was written for longer leases: the member
     * trained until the fence that it was told then, and the next epoch had begun before. */
    struct disk disk;
    struct rdzv_config config = usual_config();
    config.fence_ms = 30000;
    config.renew_rate = 1;
    config.max_nodes = 8; /* leases of 25 s */
    struct world *old = a_running_world_on(&disk, 1);
    struct world *w = world_new(&config, 1, 1);
    disk.record.fence_ms = config.fence_ms;
    w->disk = &disk;
    w->now = old->now + 5000;
    world_free(old);
    assert_int_equal(rdzv_restore(w->r, (struct tfe_mono){w->now}, &disk.record), 0);
    join(w, 5, "z");
    ready(w, 5, 2);
    pass(w, 83000 - 1); /* 75 s on its clock */
    assert_not_saw(w, ":START");
    pass(w, 1);
    assert_saw(w, "5:START epoch=2");
    world_free(w);
}

TEST(restart, of_an_epoch_recorded_once_more_in_a_switch_knows_its_own_ports)
{
    /* A drain is recorded at once. Members that were READY for the next epoch by then had others'
     * ports in the record, and who had not heard of the running one was told another table than its
     * peers. */
    struct disk disk;
    struct world *w = a_running_world_on(&disk, 3);
    exited(w, 0, 1, 1);
    uint16_t other_ports[] = {7777};
    assert_int_equal(
        say(w, 0,
            &(struct tfe_msg){
                .type = MSG_READY,
                .u.ready = {.epoch = 2, .host = "a0", .ports = other_ports, .n_ports = 1}}),
        0);
    assert_int_equal(
        step(w, &(struct rdzv_event){.type = RDZV_DRAIN, .now = {w->now}, .job = "j", .node = "c"}),
        0);
    assert_saw(w, "PERSIST job=j epoch=1");
    assert_true(disk.record.members[2].drained);
    assert_int_equal(disk.record.members[0].ports[0], 1000);
    world_free(w);
}

TEST(restart, goes_on_with_a_drain)
{
    struct disk disk;
    struct world *old = a_running_world_on(&disk, 3);
    assert_int_equal(step(old, &(struct rdzv_event){.type = RDZV_DRAIN,
                                                    .now = {old->now},
                                                    .job = "j",
                                                    .node = "b",
                                                    .has_within = true,
                                                    .within_ms = 600000}),
                     0);
    assert_saw(old, "PERSIST job=j epoch=1 after=1 members=3\n");
    struct world *w = restored(old, &disk);
    for (uint32_t i = 0; i < 3; i++) {
        join_back(w, i, name_of(i), 1);
        assert_not_saw(w, ":STOP");
    }
    pass(w, 2000);
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 drained");
    stopped_and_ready(w, 0, 1);
    stopped_and_ready(w, 1, 1);
    stopped_and_ready(w, 2, 1);
    assert_saw(w, "1:FINISH drained");
    assert_saw(w, "0:START epoch=2 rank=0 world=2 nodes=2 cause=drained");
    assert_false(disk.record.members[0].drained || disk.record.members[1].drained);
    world_free(w);
}

/* Three epochs have come to nothing, and the fourth runs. */
static struct world *a_hopeless_world_on(struct disk *disk)
{
    struct world *w = a_running_world_on(disk, 1);
    for (uint64_t epoch = 1; epoch <= 3; epoch++) {
        exited(w, 0, epoch, 143);
        ready(w, 0, epoch + 1);
        pass(w, 2000); /* the last back-off */
    }
    assert_string_equal(job_state(w), "running");
    assert_int_equal(disk->record.epoch, 4);
    assert_int_equal(disk->record.fruitless, 3);
    return w;
}

TEST(restart, does_not_begin_to_count_fruitless_epochs_anew)
{
    /* A hopeless script went on for ever where the server was started again now and then. */
    struct disk disk;
    struct world *w = restored(a_hopeless_world_on(&disk), &disk);
    join_back(w, 0, "a", 4);
    exited(w, 0, 4, 143);
    assert_saw(w, "~end job=j node=a epoch=4 number=3 preempted"); /* who knows how long it ran */
    ready(w, 0, 5);
    exited(w, 0, 5, 143);
    assert_saw(w, "~end job=j node=a epoch=5 number=4 preempted");
    ready(w, 0, 6);
    pass(w, 3999); /* twice the last */
    assert_not_saw(w, "START");
    pass(w, 1);
    assert_saw(w, "0:START epoch=6");
    exited(w, 0, 6, 143);
    assert_saw(w, "0:FINISH failed: job j failed: 5 epochs in a row came to nothing");
    world_free(w);
}

TEST(restart, does_not_hold_against_a_job_what_it_has_made_up_for)
{
    struct disk disk;
    struct world *w = a_hopeless_world_on(&disk);
    pass(w, 59999);
    assert_int_equal(disk.record.fruitless, 3);
    pass(w, 1);
    assert_int_equal(disk.record.fruitless, 0);
    assert_int_equal(disk.record.backoff_ms, 0);
    exited(w, 0, 4, 1);
    ready(w, 0, 5);
    assert_int_equal(disk.record.restarts, 1);
    pass(w, 600000);
    assert_int_equal(disk.record.restarts, 0);
    world_free(w);
}

TEST(restart, knows_that_the_job_has_made_progress_without_a_newcomer)
{
    struct disk disk;
    struct world *w = a_world(1, 2);
    w->disk = &disk;
    come(w, 1);
    pass(w, 3000 + 60000);
    join(w, 1, "b");
    ready(w, 1, 2);
    stopped_and_ready(w, 0, 1);
    w = restored(w, &disk);
    join_back(w, 0, "a", 2);
    join_back(w, 1, "b", 2);
    goodbye(w, 1);
    stopped_and_ready(w, 0, 2);
    assert_saw(w, "0:START epoch=3");
    join(w, 2, "c");
    ready(w, 2, 4);
    pass(w, 4000);
    stopped_and_ready(w, 0, 3);
    assert_saw(w, "2:START epoch=4");
    exited(w, 2, 4, 1);
    assert_saw(w, "~node_quarantined job=j node=c");
    world_free(w);
}

TEST(restart, a_finished_job_stays_finished)
{
    struct disk disk;
    struct world *w = a_running_world_on(&disk, 1);
    exited(w, 0, 1, 0);
    w = restored(w, &disk);
    assert_string_equal(job_state(w), "succeeded");
    join(w, 0, "late");
    assert_saw(w, "0:FINISH succeeded: job j run 1 ended succeeded");
    world_free(w);
}

TEST(restart, refuses_records_that_contradict_themselves)
{
    struct disk disk;
    struct world *old = a_running_world_on(&disk, 2);
    struct world *w = a_world(1, 2);
    struct rdzv_record bad[9];
    struct rdzv_member wrong[3][2] = {{disk.members[0], disk.members[1]},
                                      {disk.members[0], disk.members[1]},
                                      {disk.members[0], disk.members[1]}};
    for (size_t i = 0; i < 9; i++) {
        bad[i] = disk.record;
    }
    bad[0].job = "no/name";
    bad[1].spec.min_nodes = 3;
    bad[2].n_members = 0;
    bad[3].spec.nproc = MSG_NPROC_MAX + 1;
    bad[4].run = 0;
    bad[5].n_members = 3;
    wrong[0][0].n_known_to = RDZV_KNOWN_TO_MAX + 1;
    bad[6].members = wrong[0];
    wrong[1][0].known_to = &(struct tfe_id){.text = "no/id"};
    wrong[1][0].n_known_to = 1;
    bad[7].members = wrong[1];
    wrong[2][1].ports = &(uint16_t){0};
    bad[8].members = wrong[2];
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(rdzv_restore(w->r, (struct tfe_mono){w->now}, &bad[i]), TFE_EINVAL);
    }
    disk.members[1].node = disk.members[0].node; /* one node in two seats */
    assert_int_equal(rdzv_restore(w->r, (struct tfe_mono){w->now}, &disk.record), TFE_EINVAL);
    struct msg_status_job job;
    assert_int_equal(rdzv_view_job(w->r, NULL, &job), TFE_ENOENT);
    world_free(old);
    world_free(w);
}
