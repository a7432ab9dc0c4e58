/* tests/unit/server_core/test_credibility.c: epoch and run numbers that one member reports are
 * accepted only if credible, and never make the job's record unreadable. */
#include "server/core/job.h"
#include "tests/unit/server_core/plan.h"

#define LEAP (UINT64_C(1) << 20)

/* JOIN of this node alone, which says that it runs this. */
static void claims_run(struct world *w, uint64_t epoch, uint32_t run)
{
    uint16_t port = 1000;
    struct msg_row row = {0, "a", port, TASK_WORKER, 0};
    struct msg_running running = {.run = run,
                                  .nodes = 1,
                                  .world = 1,
                                  .digest = table_digest(&row, 1),
                                  .host = "a",
                                  .ports = &port,
                                  .n_ports = 1,
                                  .cause = CAUSE_START};
    struct msg_join plain = w->join;
    w->join.running_epoch = w->join.highest_epoch = epoch;
    w->join.running = &running;
    join(w, 0, "a");
    w->join = plain;
}

/* … or that it has seen this epoch. */
static void claims_epoch(struct world *w, uint32_t session, const char *node, uint64_t epoch)
{
    w->join.highest_epoch = epoch;
    join(w, session, node);
    w->join.highest_epoch = 0;
}

static uint64_t epoch_of(const struct world *w)
{
    struct msg_status_job job;
    return rdzv_view_job(w->r, NULL, &job) ? 0 : job.epoch;
}

TEST(claims, claimed_highest_run_number_does_not_wrap_to_0)
{
    /* The number wrapped, and no server could read any record any more. */
    static const uint32_t runs[] = {1, 7, MSG_RUN_MAX - 1, MSG_RUN_MAX, UINT32_MAX};
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        struct disk disk;
        struct world *w = a_world(1, 1);
        w->disk = &disk;
        claims_run(w, 5, runs[i]);
        bool is_believed = runs[i] <= LEAP;
        if (!is_believed) {
            assert_saw(w, "0:STOP epoch=5");
            stopped_and_ready(w, 0, 5);
            pass(w, 3000);
        }
        exited(w, 0, epoch_of(w), 0);
        assert_string_equal(job_state(w), "succeeded");
        w->join.new_run = true;
        join(w, 1, "b");
        ready(w, 1, epoch_of(w) + 1);
        pass(w, 3000);
        struct world *next = a_world(1, 1);
        assert_int_equal(rdzv_restore(next->r, (struct tfe_mono){next->now}, &disk.record), 0);
        assert_int_equal(disk.record.run, is_believed ? runs[i] + 1 : 2);
        world_free(next);
        world_free(w);
    }
}

TEST(claims, one_member_cannot_raise_the_epoch_number_to_its_limit)
{
    static const uint64_t lies[] = {LEAP + 2, (UINT64_C(1) << 52) - 1};
    for (size_t i = 0; i < 2; i++) {
        struct world *w = a_running_world(1, 3, 1);
        claims_epoch(w, 1, "liar", lies[i]);
        assert_saw(w, "1:WELCOME liar");
        assert_saw(w, "~node_refused job=j node=liar");
        assert_not_saw(w, "PREPARE");
        join(w, 2, "honest");
        assert_saw(w, "2:PREPARE epoch=2");
        ready(w, 2, 2);
        pass(w, 3000);
        stopped_and_ready(w, 0, 1);
        assert_saw(w, "0:START epoch=2 rank=0 world=2");
        assert_int_equal(epoch_of(w), 2);
        world_free(w);
    }
}

TEST(claims, first_node_of_a_job_cannot_raise_the_epoch_number_to_its_limit)
{
    struct world *w = a_world(1, 2);
    claims_epoch(w, 0, "liar", LEAP + 1);
    join(w, 1, "honest");
    ready(w, 1, 1);
    pass(w, 30000); /* --gather-max: who is connected may still get READY */
    assert_saw(w, "1:START epoch=1 rank=0 world=1");
    world_free(w);
}

TEST(claims, credible_epoch_number_is_accepted)
{
    /* As of a node whose checkpoints are older than the server's disk. */
    struct world *w = a_world(1, 2);
    claims_epoch(w, 0, "a", 4711);
    assert_saw(w, "0:PREPARE epoch=4712");
    ready(w, 0, 4712);
    pass(w, 3000);
    assert_saw(w, "0:START epoch=4712");
    claims_epoch(w, 1, "b", 4712 + LEAP);
    assert_saw(w, "1:PREPARE epoch=1053289");
    world_free(w);
}

TEST(claims, epoch_number_of_most_members_is_accepted_at_any_height)
{
    /* A lie has lifted the job before the disk was lost: those who run it come back all the
     * same. */
    struct world *w = a_world(2, 2);
    uint64_t epoch = (UINT64_C(1) << 52) - 2;
    struct msg_row rows[2] = {{0, "a", 1000, TASK_WORKER, 0}, {1, "b", 1100, TASK_WORKER, 0}};
    for (uint32_t i = 0; i < 2; i++) {
        struct msg_running running = {.run = 1,
                                      .rank = i,
                                      .nodes = 2,
                                      .world = 2,
                                      .digest = table_digest(rows, 2),
                                      .host = rows[i].host,
                                      .ports = &rows[i].port,
                                      .n_ports = 1,
                                      .cause = CAUSE_START};
        w->join.running_epoch = w->join.highest_epoch = epoch;
        w->join.running = &running;
        join(w, i, name_of(i));
    }
    assert_string_equal(job_state(w), "running");
    assert_int_equal(epoch_of(w), epoch);
    world_free(w);
}

TEST(claims, epoch_of_one_member_beyond_the_limit_is_not_continued)
{
    struct world *w = a_world(1, 1);
    claims_run(w, LEAP + 1, 1);
    assert_saw(w, "0:STOP epoch=1048577");
    assert_string_equal(job_state(w), "waiting");
    world_free(w);
}

TEST(claims, claims_that_rise_by_one_do_not_repeat_prepare_without_end)
{
    struct world *w = a_world(2, 3);
    join(w, 0, "a");
    int asked = 0;
    for (uint64_t lie = 1; lie <= 200; lie++) {
        struct msg_status_job job;
        assert_int_equal(rdzv_view_job(w->r, NULL, &job), 0);
        claims_epoch(w, 1, "liar", lie);
        asked += times_seen(w, "0:PREPARE");
    }
    assert_true(asked <= 12);
    for (uint64_t lie = 0; lie <= 22;
         lie++) { /* … and the most that is believed is the end of it */
        claims_epoch(w, 1, "liar", (UINT64_C(1) << lie) + 200);
        asked += times_seen(w, "0:PREPARE");
    }
    assert_true(asked <= 26);
    world_free(w);
}

TEST(claims, epoch_of_a_job_cancelled_before_its_first_epoch_is_not_credible)
{
    /* The server took them for what to rebuild the next run from, had made no room for that, and
     * crashed. */
    struct world *w = a_world(2, 3);
    join(w, 1, "b");
    assert_int_equal(
        step(w, &(struct rdzv_event){.type = RDZV_STOP_JOB, .now = {w->now}, .job = "j"}), 0);
    assert_string_equal(job_state(w), "cancelled");
    w->join.new_run = true;
    w->join.spec.min_nodes = 1;
    claims_run(w, 5, 1);
    assert_saw(w, "0:STOP epoch=5");
    assert_string_equal(job_state(w), "waiting");
    world_free(w);
}

TEST(claims, claimed_save_answers_leave_numbers_for_later_saves)
{
    /* The number of the next SAVE was 0, which no agent takes. */
    static const uint64_t lies[] = {(UINT64_C(1) << 52) - 1, UINT64_C(1) << 52, MSG_NUMBER_MAX,
                                    UINT64_MAX};
    for (size_t i = 0; i < 4; i++) {
        struct world *w = a_running_world(1, 3, 2);
        struct msg_progress progress = {.epoch = 1, .answers = lies[i], .listens = true};
        say(w, 1, &(struct tfe_msg){.type = MSG_PROGRESS, .u.progress = progress});
        progress.answers = 0;
        say(w, 0, &(struct tfe_msg){.type = MSG_PROGRESS, .u.progress = progress});
        noticed(w, 1, NOTICE_PREEMPT, 100000);
        pass(w, 2000);
        assert_saw(w,
                   i == 0 ? "0:SAVE epoch=1 number=4503599627370496" : "0:SAVE epoch=1 number=1");
        world_free(w);
    }
}

TEST(claims, invalid_claim_reaches_no_record)
{
    struct world *w = a_world(1, 1);
    join(w, 0, "a");
    job_find(w->r, "j")->run.number = 0;
    ready(w, 0, 1);
    pass(w, 3000);
    assert_saw(w, "~write_failed job=j node=- epoch=1 number=2000 the record is inconsistent");
    assert_not_saw(w, "PERSIST");
    assert_not_saw(w, "START");
    world_free(w);
}
