/* tests/unit/agent_core/test_changes.c: cluster tables received as changes to a table
 * that the node has. */
#include "tests/unit/agent_core/bench.h"

/* Returns a node that ran in epochs 1 and 2, and is ready for 3 with the table of epoch 2. */
static struct bench *a_bench_between_tables(uint64_t *ret_digest)
{
    struct bench *b = a_running_bench(1);
    struct msg_row rows[8];
    *ret_digest = table_digest(rows, rows_of(b, rows));
    for (uint64_t epoch = 1; epoch <= 2; epoch++) {
        stop(b, epoch);
        trainer_exited(b, 0, 0, 15);
        swept(b);
        if (epoch == 1) {
            run_epoch(b, 2);
        }
    }
    prepare(b, 3);
    return b;
}

static struct bench *a_bench_with_tables(uint64_t *ret_digest)
{
    struct bench *b = a_bench_between_tables(ret_digest);
    ports_held(b, 3);
    return b;
}

static int hears_table(struct bench *b, const struct msg_table *table)
{
    struct tfe_msg msg = {.type = MSG_TABLE, .u.table = *table};
    return act(b, (struct agent_event){.type = AGENT_MESSAGE, .msg = &msg});
}

static int hears_changes(struct bench *b, uint64_t base, uint32_t world, const struct msg_row *rows,
                         size_t n)
{
    return hears_table(
        b, &(struct msg_table){
               .epoch = 3, .world = world, .base_digest = base, .rows = rows, .n_rows = n});
}

static void start_3(struct bench *b, uint32_t world, const struct msg_row *rows)
{
    hears(b, (struct tfe_msg){.type = MSG_START,
                              .u.start = {.epoch = 3,
                                          .run = 1,
                                          .rank = 1,
                                          .world = world,
                                          .nodes = world,
                                          .cause = CAUSE_START,
                                          .table_digest = table_digest(rows, world)}});
}

TEST_IN(changes, changes_apply_to_the_table_named_in_ready)
{
    uint64_t held;
    struct bench *b = a_bench_with_tables(&held);
    assert_int_equal(b->ready_digest, held);
    const struct msg_row now[] = {{0, "somewhere-with-a-longer-name", 7007, TASK_WORKER, 0},
                                  {1, "me", 7000, TASK_WORKER, 0},
                                  {2, "new", 7001, TASK_WORKER, 0}};
    assert_int_equal(hears_changes(b, held, 3, now, 1), 0);
    assert_int_equal(hears_changes(b, held, 3, now + 2, 1), 0);
    start_3(b, 3, now);
    assert_saw(b, "SPAWN epoch=3 run=1 rank=1 restarts=2 somewhere-with-a-longer-name:7007 me:7000 "
                  "new:7001\n");
}

TEST_IN(changes, changes_to_a_missing_table_are_refused)
{
    uint64_t held;
    struct bench *b = a_bench_with_tables(&held);
    const struct msg_row row = {0, "p", 7007, TASK_WORKER, 0};
    const struct msg_row twice[] = {{1, "p", 1, TASK_WORKER, 0}, {1, "p", 2, TASK_WORKER, 0}};
    const struct msg_row outside = {3, "p", 7007, TASK_WORKER, 0};
    assert_int_equal(hears_changes(b, held + 1, 2, &row, 1), TFE_EINVAL);
    assert_int_equal(hears_changes(b, held, 2, twice, 2), TFE_EINVAL);
    assert_int_equal(hears_changes(b, held, 3, &outside, 1), TFE_EINVAL);
    /* no state was changed by the rejected ones */
    assert_int_equal(hears_changes(b, held, 2, &row, 1), 0);
}

TEST_IN(changes, digest_mismatch_with_start_sends_ready_without_digest)
{
    uint64_t held;
    struct bench *b = a_bench_with_tables(&held);
    const struct msg_row wrong = {0, "p", 7008, TASK_WORKER, 0};
    const struct msg_row now[] = {{0, "p", 7009, TASK_WORKER, 0}, {1, "me", 7000, TASK_WORKER, 0}};
    assert_int_equal(hears_changes(b, held, 2, &wrong, 1), 0);
    start_3(b, 2, now);
    assert_saw(b, "~void_start epoch=3 number=0 the table of addresses is incomplete");
    assert_saw(b, "READY");
    assert_int_equal(b->ready_digest, 0);
}

TEST_IN(changes, repeated_changes_of_the_running_table_are_ignored)
{
    uint64_t held;
    struct bench *b = a_bench_with_tables(&held);
    const struct msg_row now[] = {{0, "p", 7005, TASK_WORKER, 0}, {1, "me", 7000, TASK_WORKER, 0}};
    assert_int_equal(hears_changes(b, held, 2, now, 1), 0);
    start_3(b, 2, now);
    assert_saw(b, "SPAWN epoch=3");
    assert_int_equal(hears_changes(b, held, 2, now, 1), 0);
    stop(b, 3);
    trainer_exited(b, 0, 0, 15);
    swept(b);
    prepare(b, 4);
    ports_held(b, 4);
    assert_int_equal(b->ready_digest, table_digest(now, 2));
}
