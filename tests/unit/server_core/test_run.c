/* tests/unit/server_core/test_run.c: named runs, and nodes that come late to them. */
#include "tests/unit/server_core/server_fixture.h"

/* Run `key` of the job has ended well: node `node` was alone in it. */
static void a_run(struct world *w, const char *key, const char *node, uint64_t epoch)
{
    w->join.run_key = key;
    join(w, 0, node);
    ready(w, 0, epoch);
    pass(w, w->join.spec.max_nodes > 1 ? 3000 : 0);
    assert_string_equal(job_state(w), "running");
    exited(w, 0, epoch, 0);
    assert_saw(w, "0:FINISH succeeded");
}

/* The only member of epoch 3 of this run, which trains there; others of run 2 were in it, or
 * not. */
static void runs_in(struct world *w, uint32_t session, const char *node, uint32_t run)
{
    uint16_t port = 1000;
    struct msg_running running = {.run = run,
                                  .nodes = 2,
                                  .world = 2,
                                  .digest = 1,
                                  .host = node,
                                  .ports = &port,
                                  .n_ports = 1,
                                  .cause = CAUSE_START};
    struct msg_join plain = w->join;
    w->join.running_epoch = w->join.highest_epoch = 3;
    w->join.running = &running;
    join(w, session, node);
    w->join = plain;
}

/* A server has come back to a record that says that run 1 is over. */
static struct world *a_rolled_back_world(void)
{
    struct disk disk;
    struct world *w = a_world(1, 2);
    w->disk = &disk;
    w->wall = 86400000;
    a_run(w, NULL, "a", 1);
    struct world *next = a_world(1, 2);
    assert_int_equal(rdzv_restore(next->r, (struct tfe_mono){next->now}, &disk.record), 0);
    next->deadline = next->now;
    world_free(w);
    return next;
}

/* They were told that it is over, and who opened another run trained beside those that were not
 * heard of. */
TEST(run, run_unknown_to_an_older_database_is_continued_by_its_members)
{
    struct world *w = a_rolled_back_world();
    runs_in(w, 0, "b", 1);
    assert_saw(w, "0:FINISH succeeded"); /* nothing that it does not know */
    runs_in(w, 0, "b", 4);
    assert_saw(w, "0:WELCOME b run=4");
    assert_saw(w, "0:STOP epoch=3");
    cut(w, 0);
    join(w, 1, "c");
    assert_saw(w, "1:WELCOME c run=4");
    ready(w, 1, 4); /* its gather window has been */
    assert_string_equal(job_state(w), "preparing");
    pass(w, FENCE_HELD_MS - 1);
    assert_not_saw(w, "START");
    pass(w, 1);
    assert_saw(w, "1:START epoch=4");
    world_free(w);
}

TEST(run, impossible_later_run_is_not_continued)
{
    struct world *w = a_rolled_back_world();
    runs_in(w, 0, "b", MSG_RUN_MAX);
    assert_saw(w, "0:FINISH succeeded");
    world_free(w);
}

TEST(run_key, next_run_starts_only_after_the_end_of_the_present_one)
{
    struct world *w = a_world(1, 2);
    a_run(w, "k1", "a", 1);
    w->join.run_key = "k2";
    join(w, 1, "b");
    ready(w, 1, 2);
    w->join.run_key = "k1";
    join(w, 2, "old");
    assert_saw(w, "2:FINISH succeeded: job j run 1 ended succeeded"); /* though run 2 is on */
    w->join.run_key = "k3";
    join(w, 3, "early");
    assert_saw(w, "3:REFUSED limit_reached: job j is in run 2, k2: run k3 can begin after that "
                  "run has ended\n");
    w->join.run_key = NULL;
    join(w, 4, "any");
    assert_saw(w, "4:WELCOME any run=2");
    world_free(w);
}

TEST(run_key, restarted_server_knows_the_run_key)
{
    struct disk disk;
    struct world *w = a_world(1, 1);
    w->disk = &disk;
    w->wall = 86400000;
    a_run(w, "k1", "a", 1);
    a_run(w, "k2", "b", 2);
    struct world *next = a_world(1, 1);
    assert_int_equal(rdzv_restore(next->r, (struct tfe_mono){next->now}, &disk.record), 0);
    next->join.run_key = "k1";
    join(next, 0, "x");
    assert_saw(next,
               "0:FINISH succeeded: job j run 1 ended succeeded at 1970-01-02 00:00:00 UTC\n");
    next->join.run_key = "k2";
    join(next, 0, "x");
    assert_saw(next, "0:FINISH succeeded: job j run 2 ended succeeded at 1970-01-02");
    next->join.run_key = "k3";
    join(next, 0, "x");
    assert_saw(next, "run=3");
    world_free(next);
    assert_int_equal(disk.record.n_past, 1);
    assert_int_equal(disk.record.past[0].run, 1);
    assert_string_equal(disk.record.past[0].key.text, "k1");
    assert_int_equal(disk.record.past[0].at.ms, 86400000);
    static const struct rdzv_run_end bad[] = {
        {2, {"k1"}, RESULT_SUCCEEDED, {1}}, {0, {"k1"}, RESULT_SUCCEEDED, {1}},
        {1, {"k1"}, RESULT_DRAINED, {1}},   {1, {"k/1"}, RESULT_FAILED, {1}},
        {1, {""}, RESULT_FAILED, {1}},      {1, {"k1"}, RESULT_FAILED, {-1}}};
    for (size_t i = 0; i <= sizeof(bad) / sizeof(bad[0]); i++) {
        struct rdzv_record record = disk.record;
        next = a_world(1, 1);
        if (i < sizeof(bad) / sizeof(bad[0])) {
            record.past[0] = bad[i];
        } else {
            record.n_past = RDZV_RUNS_MAX + 1;
        }
        assert_int_equal(rdzv_restore(next->r, (struct tfe_mono){next->now}, &record), TFE_EINVAL);
        world_free(next);
    }
    world_free(w);
}

TEST(run_key, number_of_remembered_runs_is_limited)
{
    struct world *w = a_world(1, 1);
    char key[16];
    for (uint32_t i = 1; i <= 18; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        a_run(w, key, "a", i);
    }
    for (uint32_t i = 2; i <= 18; i++) {
        char told[64];
        snprintf(key, sizeof(key), "k%u", i);
        snprintf(told, sizeof(told), "0:FINISH succeeded: job j run %u ended", i);
        w->join.run_key = key;
        join(w, 0, "x");
        assert_saw(w, told);
    }
    w->join.run_key = "k1";
    join(w, 0, "x");
    assert_saw(w, "0:WELCOME x run=19");
    world_free(w);
}
