/* tests/unit/server_core/test_next_epoch.c: state that an epoch does not inherit from the previous
 * one. */
#include "tests/unit/server_core/plan.h"

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

TEST(next_epoch, progress_of_the_last_epoch_is_ignored)
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

TEST(next_epoch, rolled_back_server_waits_for_the_fence_of_its_record)
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

TEST(next_epoch, rolled_back_server_waits_for_members_that_report_an_epoch)
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

static const char *waits_for(struct world *w, char room[MSG_SENTENCE_MAX])
{
    struct msg_status_job job;
    assert_int_equal(rdzv_view_job(w->r, NULL, &job), 0);
    rdzv_view_waits(w->r, &job, room);
    return job.waits ? job.waits : "";
}

/* Of the members of its record the one with the longest fence was named, whose it was not. */
TEST(next_epoch, rolled_back_server_reports_what_it_waits_for)
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
TEST(next_epoch, rolled_back_server_stops_no_member_before_the_epoch_may_start)
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

TEST(next_epoch, rolled_back_server_removes_no_member_before_the_epoch_may_start)
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
