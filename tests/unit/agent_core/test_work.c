/* tests/unit/agent_core/test_work.c: epochs on a node: preparation, start, end and exit codes;
 * and the end of the agent. */
#include "common/base/rng.h"
#include "tests/unit/agent_core/bench.h"

TEST_IN(ready, ready_is_sent_after_the_ports_are_reserved)
{
    struct bench *b = a_joined_bench(2);
    hears(b, (struct tfe_msg){.type = MSG_PREPARE, .u.prepare = {.epoch = 3, .fresh_ports = true}});
    assert_string_equal(b->log, "HOLD 3 fresh\n");
    ports_held(b, 2); /* stale: an earlier epoch was requested */
    assert_string_equal(b->log, "");
    ports_held(b, 3);
    assert_string_equal(b->log, "READY epoch=3 me:7000:7001\n~ready epoch=3 number=0 -\n");
    prepare(b, 4);
    assert_string_equal(b->log, "HOLD 4\n");
}

TEST_IN(start, start_at_the_end_of_the_lease_is_ignored)
{
    struct bench *b = a_joined_bench(1);
    prepare(b, 1);
    ports_held(b, 1);
    table(b, 1);
    b->now += TTL_MS - 1;
    start(b, 1);
    assert_saw(b, "SPAWN epoch=1");
}

TEST_IN(start, rank_outside_the_table_is_ignored)
{
    struct bench *b = a_joined_bench(1);
    prepare(b, 1);
    ports_held(b, 1);
    table(b, 1);
    struct msg_row rows[8];
    size_t n = rows_of(b, rows);
    struct msg_start far = {.epoch = 1, .rank = UINT32_MAX, .world = 2, .nodes = 2};
    far.table_digest = table_digest(rows, n);
    hears(b, (struct tfe_msg){.type = MSG_START, .u.start = far});
    assert_saw(b, "~void_start");
    assert_not_saw(b, "SPAWN");
}

TEST_IN(start, start_for_another_address_is_ignored)
{
    struct bench *b = a_joined_bench(1);
    prepare(b, 1);
    ports_held(b, 1);
    static const struct msg_row not_its_own[] = {{0, "me", 7001, TASK_WORKER, 0},
                                                 {0, "another", 7000, TASK_WORKER, 0}};
    for (size_t i = 0; i < 2; i++) {
        hears(b, (struct tfe_msg){
                     .type = MSG_TABLE,
                     .u.table = {.epoch = 1, .world = 1, .rows = &not_its_own[i], .n_rows = 1}});
        hears(b, (struct tfe_msg){.type = MSG_START,
                                  .u.start = {.epoch = 1,
                                              .world = 1,
                                              .nodes = 1,
                                              .cause = CAUSE_START,
                                              .table_digest = table_digest(&not_its_own[i], 1)}});
        assert_saw(b, "~void_start epoch=1 number=0 the address belongs to another process");
        assert_saw(b, "JOIN");
        welcome(b);
    }
}

TEST_IN(table, inconsistent_chunk_is_refused_without_effect)
{
    struct bench *b = a_joined_bench(2);
    prepare(b, 1);
    ports_held(b, 1);
    struct msg_row rows[8];
    size_t n = rows_of(b, rows);
    hears(b, (struct tfe_msg){.type = MSG_TABLE,
                              .u.table = {.epoch = 1, .world = 4, .rows = rows, .n_rows = 2}});
    const struct msg_table bad[] = {
        {.epoch = 1, .world = 4, .rows = rows + 3, .n_rows = 1}, /* a missing row */
        {.epoch = 1, .world = 4, .rows = rows + 1, .n_rows = 1}, /* the same epoch again */
        {.epoch = 2, .world = 4, .rows = rows + 2, .n_rows = 2}, /* table of another epoch */
        {.epoch = 1, .world = 5, .rows = rows + 2, .n_rows = 2}, /* another size */
        {.epoch = 1, .world = 3, .rows = rows, .n_rows = n},     /* too many rows */
        /* changes to an unknown table */
        {.epoch = 1, .world = 4, .base_digest = 1, .rows = rows + 2, .n_rows = 2},
        {.epoch = 1, .world = UINT32_MAX, .rows = rows, .n_rows = 1},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tfe_msg msg = {.type = MSG_TABLE, .u.table = bad[i]};
        assert_int_equal(act(b, (struct agent_event){.type = AGENT_MESSAGE, .msg = &msg}),
                         TFE_EINVAL);
    }
    hears(b, (struct tfe_msg){.type = MSG_TABLE,
                              .u.table = {.epoch = 1, .world = 4, .rows = rows + 2, .n_rows = 2}});
    start(b, 1);
    assert_saw(b, "SPAWN");
}

TEST_IN(stop, stop_of_an_older_epoch_is_ignored)
{
    struct bench *b = a_joined_bench(1);
    run_epoch(b, 5);
    stop(b, 4);
    assert_string_equal(b->log, "");
    stop(b, 9);
    assert_saw(b, "SWEEP");
}

TEST_IN(exited, exit_between_join_and_welcome_is_sent_after_welcome)
{
    /* Bug: the exit was in neither message, so the server waited for the trainer until
     * the next reconnect. */
    struct bench *b = a_running_bench(1);
    lost(b, AGENT_LINK_LOST);
    pass(b, 400);
    connected(b);
    assert_saw(b, "running=1\n");
    does(b, (struct agent_event){.type = AGENT_LISTENING, .epoch = 1});
    trainer_exited(b, 0, 3, 0);
    swept(b);
    assert_not_saw(b, "EXITED 1");
    noted(b, 9); /* of another epoch */
    welcome(b);
    assert_saw(b, "EXITED 1 local=0 code=3 signal=0 its tail\n");
    noted(b, 1);
    lost(b, AGENT_LINK_LOST);
}

/* A restarted server does not know it, and without it cannot prove by probes that the node's
 * trainers are dead. */
TEST_IN(exited, listening_is_sent_after_every_welcome)
{
    struct bench *b = a_running_bench(1);
    lost(b, AGENT_LINK_LOST);
    does(b, (struct agent_event){.type = AGENT_LISTENING, .epoch = 1});
    assert_string_equal(b->log, "");
    pass(b, 400);
    connected(b);
    welcome(b);
    assert_saw(b, "LISTENING epoch=1\n");
    lost(b, AGENT_LINK_LOST);
    pass(b, 400);
    connected(b);
    welcome(b);
    assert_saw(b, "LISTENING epoch=1\n");
    stop(b, 1);
    lost(b, AGENT_LINK_LOST);
    pass(b, 400);
    connected(b);
    welcome(b);
    assert_not_saw(b, "LISTENING"); /* the trainers are being killed */
}

TEST_IN(nproc, success_of_all_trainers_is_a_success)
{
    struct bench *b = a_running_bench(3);
    trainer_exited(b, 1, 0, 0);
    trainer_exited(b, 2, 0, 0);
    assert_not_saw(b, "SWEEP");
    trainer_exited(b, 0, 0, 0);
    assert_saw(b, "SWEEP");
    swept(b);
    assert_saw(b, "EXITED 1 local=0 code=0 signal=0 \n");
}

/* Bug: a data share that took a minute longer was cut off, and counted as complete. */
TEST_IN(nproc, after_the_first_success_others_have_no_limit_and_their_codes_are_ignored)
{
    struct bench *b = a_running_bench(3);
    trainer_exited(b, 0, 0, 0);
    pass_answered(b, 30000);
    trainer_exited(b, 1, 1, 0);
    pass_answered(b, 3600000);
    assert_not_saw(b, "SWEEP"); /* the third trainer still runs */
    trainer_exited(b, 2, 0, 9);
    assert_saw(b, "SWEEP");
    swept(b);
    assert_saw(b, "EXITED 1 local=0 code=0 signal=0 \n");
}

TEST_IN(start, start_after_lease_ended_is_ignored)
{
    struct bench *b = a_running_bench(1);
    hears(b, (struct tfe_msg){.type = MSG_LEASE_ENDED, .u.lease_ended.epoch = 1});
    assert_saw(b, "~stopping epoch=1 number=0 the lease has ended");
    assert_saw(b, "SWEEP");
    swept(b);
    prepare(b, 2);
    ports_held(b, 2);
    table(b, 2);
    start(b, 2);
    assert_saw(b, "~void_start");
}
