/* tests/unit/server_core/test_durable.c: durable before visible, rank 0 before the others, and a
 * restarted server. */
#include "tests/unit/server_core/server_fixture.h"

/* Two nodes are ready, the disk has not answered yet. */
static struct world *a_committing_world(void)
{
    struct world *w = a_world(1, 2);
    w->holds_writes = true;
    come(w, 2);
    assert_string_equal(job_state(w), "committing");
    return w;
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

TEST(full_disk, growth_waiting_for_space_is_cancelled_by_a_success)
{
    struct world *w = a_full_disk();
    struct msg_progress progress = {.epoch = 1, .ends = true};
    assert_int_equal(say(w, 0, &(struct tfe_msg){.type = MSG_PROGRESS, .u.progress = progress}), 0);
    w->holds_writes = false;
    pass(w, 100000);
    assert_not_saw(w, "STOP");
    world_free(w);
}

TEST(commit, result_of_an_older_record_is_ignored)
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

TEST(restart, running_epoch_is_adopted_without_messages)
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

TEST(restart, newcomers_do_not_get_slots_of_disconnected_members)
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
        assert_saw(w, "5:REFUSED limit_reached: too many agents: the server accepts at most 2 (");
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

TEST(restart, inconsistent_record_is_refused)
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
