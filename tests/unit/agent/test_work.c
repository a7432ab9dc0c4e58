/* tests/unit/agent/test_work.c: epochs on a node: prepared, started, ended, accounted for; and the
 * way out. */
#include "common/base/rng.h"
#include "tests/unit/agent/bench.h"

TEST(ready, follows_the_ports)
{
    struct bench *b = a_joined_bench(2);
    hears(b, (struct tfe_msg){.type = MSG_PREPARE, .u.prepare = {.epoch = 3, .fresh_ports = true}});
    assert_string_equal(b->log, "HOLD 3 fresh\n");
    ports_held(b, 2); /* of an epoch that was asked for before */
    assert_string_equal(b->log, "");
    ports_held(b, 3);
    assert_string_equal(b->log, "READY epoch=3 me:7000:7001\n~ready epoch=3 number=0 -\n");
    prepare(b, 4);
    assert_string_equal(b->log, "HOLD 4\n");
    bench_free(b);
}

TEST(ready, is_said_again_when_it_is_asked_again)
{
    struct bench *b = a_joined_bench(1);
    prepare(b, 1);
    ports_held(b, 1);
    lost(b, AGENT_LINK_LOST);
    pass(b, 400);
    connected(b);
    welcome(b);
    assert_not_saw(b, "READY"); /* the server will say which epoch it is */
    prepare(b, 1);
    assert_saw(b, "READY epoch=1 me:7000");
    bench_free(b);
}

TEST(ready, ports_that_cannot_be_had_end_the_agent_with_a_goodbye_and_the_sentence)
{
    struct bench *b = a_joined_bench(1);
    prepare(b, 1);
    does(b, (struct agent_event){.type = AGENT_PORTS_FAILED, .why = "port 5555 is in use"});
    assert_saw(b, "GOODBYE");
    assert_saw(b, "DISCONNECT");
    lost(b, AGENT_LINK_LOST);
    assert_string_equal(b->log, "EXIT 1 port 5555 is in use\n");
    bench_free(b);
}

TEST(start, spawns_with_the_whole_table)
{
    struct bench *b = a_joined_bench(2);
    prepare(b, 1);
    ports_held(b, 1);
    table(b, 1);
    assert_string_equal(b->log, "");
    start(b, 1);
    assert_saw(b, "SPAWN epoch=1 run=1 rank=2 restarts=0 p:7000 p:7001 me:7000 me:7001\n");
    assert_saw(b, "~epoch epoch=1 number=2 start");
    does(b, (struct agent_event){.type = AGENT_SPAWNED, .process = {1, 9}});
    assert_saw(b, "PROCESSES guard=50 9\n");
    does(b, (struct agent_event){.type = AGENT_SPAWNED, .process = {0, 8}});
    assert_saw(b, "PROCESSES guard=50 8 9\n");
    does(b, (struct agent_event){.type = AGENT_LISTENING, .epoch = 1});
    assert_string_equal(b->log, "LISTENING epoch=1\n");
    bench_free(b);
}

TEST(start, follows_at_most_once)
{
    struct bench *b = a_running_bench(1);
    start(b, 1);
    assert_string_equal(b->log, ""); /* told twice, over a reconnect */
    trainer_exited(b, 0, 1, 0);
    swept(b);
    start(b, 1);
    assert_saw(b, "~void_start epoch=1 number=0 an epoch starts here at most once");
    assert_saw(b, "JOIN j/n highest=1 running=0 exited=1 local=0 code=1 signal=0 its tail\n");
    assert_not_saw(b, "SPAWN");
    bench_free(b);
}

TEST(start, of_a_stopped_epoch_is_void)
{
    struct bench *b = a_joined_bench(1);
    prepare(b, 4);
    ports_held(b, 4);
    table(b, 4);
    stop(b, 4);
    start(b, 4);
    assert_saw(b, "~void_start");
    assert_saw(b, "JOIN j/n highest=4 running=0\n");
    prepare(b, 4);
    assert_string_equal(b->log, ""); /* overtaken */
    bench_free(b);
}

TEST(start, after_the_end_of_the_lease_is_void)
{
    struct bench *b = a_joined_bench(1);
    prepare(b, 1);
    ports_held(b, 1);
    table(b, 1);
    b->now += TTL_MS; /* a machine that slept: what it reads is old */
    start(b, 1);
    assert_saw(b, "~void_start epoch=1 number=0 it came after the end of the lease");
    assert_saw(b, "JOIN j/n highest=0 running=0\n");
    welcome(b);
    start(b, 1); /* the server tells it again */
    assert_saw(b, "SPAWN epoch=1");
    bench_free(b);
}

TEST(start, a_millisecond_before_the_end_of_the_lease_is_not)
{
    struct bench *b = a_joined_bench(1);
    prepare(b, 1);
    ports_held(b, 1);
    table(b, 1);
    b->now += TTL_MS - 1;
    start(b, 1);
    assert_saw(b, "SPAWN epoch=1");
    bench_free(b);
}

TEST(start, after_lease_ended_is_void)
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
    bench_free(b);
}

TEST(start, of_an_epoch_that_was_overtaken_by_a_prepare_is_void)
{
    struct bench *b = a_joined_bench(1);
    prepare(b, 3);
    ports_held(b, 3);
    table(b, 3);
    prepare(b, 4); /* its ports may be other ones */
    start(b, 3);
    assert_saw(b, "~void_start epoch=3");
    assert_not_saw(b, "SPAWN");
    bench_free(b);
}

TEST(start, without_being_ready_is_void)
{
    struct bench *b = a_joined_bench(1);
    table(b, 1);
    start(b, 1);
    assert_saw(b, "~void_start epoch=1 number=0 this node is not ready for it");
    welcome(b);
    prepare(b, 1); /* but not held */
    start(b, 1);
    assert_saw(b, "this node is not ready for it");
    bench_free(b);
}

TEST(start, whose_digest_does_not_match_is_answered_by_ready)
{
    struct bench *b = a_joined_bench(1);
    prepare(b, 1);
    ports_held(b, 1);
    start(b, 1);
    assert_saw(b, "~void_start epoch=1 number=0 its table is not whole");
    assert_saw(b, "READY epoch=1");
    assert_not_saw(b, "JOIN");
    struct msg_row rows[] = {{0, "other", 1, TASK_WORKER, 0}, {1, "me", 7000, TASK_WORKER, 0}};
    hears(b, (struct tfe_msg){.type = MSG_TABLE,
                              .u.table = {.epoch = 1, .world = 2, .rows = rows, .n_rows = 2}});
    start(b, 1);
    assert_saw(b, "READY epoch=1");
    table(b, 1);
    start(b, 1);
    assert_saw(b, "SPAWN");
    bench_free(b);
}

TEST(start, with_a_rank_outside_of_its_table_is_void)
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
    bench_free(b);
}

TEST(start, for_a_place_that_is_not_its_own_is_void)
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
        assert_saw(b, "~void_start epoch=1 number=0 its place is another process's");
        assert_saw(b, "JOIN");
        welcome(b);
    }
    bench_free(b);
}

TEST(table, comes_in_chunks_in_order_and_may_begin_anew)
{
    struct bench *b = a_joined_bench(2);
    prepare(b, 1);
    ports_held(b, 1);
    struct msg_row rows[8];
    size_t n = rows_of(b, rows);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < n; i++) {
            struct msg_table chunk = {.epoch = 1, .world = 4, .rows = rows + i, .n_rows = 1};
            hears(b, (struct tfe_msg){.type = MSG_TABLE, .u.table = chunk});
            if (round == 0 && i == 2) {
                break;
            }
        }
    }
    start(b, 1);
    assert_saw(b, "SPAWN epoch=1 run=1 rank=2 restarts=0 p:7000 p:7001 me:7000 me:7001\n");
    bench_free(b);
}

TEST(table, chunks_that_do_not_fit_are_refused_and_change_nothing)
{
    struct bench *b = a_joined_bench(2);
    prepare(b, 1);
    ports_held(b, 1);
    struct msg_row rows[8];
    size_t n = rows_of(b, rows);
    hears(b, (struct tfe_msg){.type = MSG_TABLE,
                              .u.table = {.epoch = 1, .world = 4, .rows = rows, .n_rows = 2}});
    const struct msg_table bad[] = {
        {.epoch = 1, .world = 4, .rows = rows + 3, .n_rows = 1}, /* a hole */
        {.epoch = 1, .world = 4, .rows = rows + 1, .n_rows = 1}, /* again */
        {.epoch = 2, .world = 4, .rows = rows + 2, .n_rows = 2}, /* another's */
        {.epoch = 1, .world = 5, .rows = rows + 2, .n_rows = 2}, /* another size */
        {.epoch = 1, .world = 3, .rows = rows, .n_rows = n},     /* too many */
        {.epoch = 1, .world = 4, .base_digest = 1, .rows = rows + 2, .n_rows = 2}, /* a diff */
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
    bench_free(b);
}

TEST(stop, sweeps_then_accounts_then_gets_ready)
{
    struct bench *b = a_running_bench(1);
    stop(b, 1);
    assert_saw(b, "SWEEP");
    prepare(b, 2);
    assert_string_equal(b->log, ""); /* something still runs */
    trainer_exited(b, 0, 0, 15);
    assert_not_saw(b, "EXITED");
    swept(b);
    assert_saw(b, "EXITED 1 local=0 code=0 signal=0 stopped \n");
    assert_saw(b, "HOLD 2\n");
    ports_held(b, 2);
    assert_saw(b, "READY epoch=2");
    table(b, 2);
    start(b, 2);
    assert_saw(b, "restarts=1");
    bench_free(b);
}

TEST(stop, of_an_older_epoch_does_not_touch_the_running_one)
{
    struct bench *b = a_joined_bench(1);
    run_epoch(b, 5);
    stop(b, 4);
    assert_string_equal(b->log, "");
    stop(b, 9);
    assert_saw(b, "SWEEP");
    bench_free(b);
}

TEST(exited, is_repeated_on_every_connection_until_another_epoch_starts)
{
    struct bench *b = a_running_bench(1);
    lost(b, AGENT_LINK_LOST);
    trainer_exited(b, 0, 3, 0);
    assert_saw(b, "~trainer_exited epoch=1 number=3");
    assert_saw(b, "SWEEP");
    swept(b);
    assert_saw(b, "~exited epoch=1 number=3");
    assert_not_saw(b, "EXITED 1");
    for (int i = 0; i < 4; i++) {
        pass(b, 3500);
        connected(b);
        assert_saw(b, "JOIN j/n highest=1 running=0 exited=1 local=0 code=3 signal=0 its tail\n");
        welcome(b);
        assert_not_saw(b, "EXITED"); /* the JOIN had it */
        if (i == 1) {
            noted(b, 7); /* another one's */
        }
        if (i == 2) {
            noted(b, 1); /* the next server may not know of it */
        }
        lost(b, AGENT_LINK_LOST);
    }
    pass(b, 3500);
    connected(b);
    welcome(b);
    run_epoch(b, 2);
    lost(b, AGENT_LINK_LOST);
    pass(b, 3500);
    connected(b);
    assert_string_equal(b->log, "JOIN j/n highest=2 running=2\n");
    bench_free(b);
}

TEST(exited, that_came_up_between_join_and_welcome_is_said_then)
{
    /* It was in neither: the server waited for a trainer that had ended, until the next reconnect.
     */
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
    bench_free(b);
}

/* A server that has been started again knows nothing of it, and without it none of its probes prove
 * that the node's trainers are dead. */
TEST(exited, listening_is_said_with_every_welcome)
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
    assert_not_saw(b, "LISTENING"); /* they are being ended */
    bench_free(b);
}

TEST(exited, of_an_epoch_that_is_over_is_not_mixed_up_with_the_running_one)
{
    /* An EXITED that was never NOTED stayed pending over the next START. When that epoch was being
     * swept, a JOIN carried its end already, and the server took it for reaped. */
    struct bench *b = a_running_bench(1);
    trainer_exited(b, 0, 3, 0);
    swept(b);
    run_epoch(b, 2);
    lost(b, AGENT_LINK_LOST);
    pass(b, 400);
    trainer_exited(b, 0, 4, 0);
    assert_saw(b, "SWEEP");
    connected(b);
    assert_string_equal(b->log, "JOIN j/n highest=2 running=2\n");
    bench_free(b);
}

TEST(exited, keeps_the_end_of_a_long_tail)
{
    struct bench *b = a_running_bench(1);
    char tail[MSG_TAIL_MAX + 101];
    memset(tail, 'x', sizeof(tail));
    memcpy(tail + sizeof(tail) - 10, "\nthe end.", 10);
    does(b, (struct agent_event){.type = AGENT_TRAINER_EXITED, .end = {.code = 1, .tail = tail}});
    swept(b);
    assert_saw(b, "EXITED 1 local=0 code=1 signal=0 the end.\n");
    bench_free(b);
}

TEST(exited, says_what_the_agent_knows_of_the_end)
{
    struct bench *b = a_running_bench(1);
    does(b, (struct agent_event){.type = AGENT_TRAINER_EXITED,
                                 .end = {.signal = 9, .end = ENDING_OUT_OF_MEMORY, .tail = "big"}});
    swept(b);
    assert_saw(b, "EXITED 1 local=0 code=0 signal=9 out_of_memory big\n");
    bench_free(b);
}

TEST(running, a_server_without_its_disk_is_told_of_the_last_epoch_here)
{
    struct bench *b = a_running_bench(2);
    b->shows_running = true;
    struct msg_row rows[8];
    size_t n = rows_of(b, rows);
    char expected[300];
    snprintf(expected, sizeof(expected),
             "JOIN j/n highest=1 running=1 run=1 rank=2 nodes=2 world=4 digest=%llx cause=start "
             "%s:%u:%u\n",
             (unsigned long long)table_digest(rows, n), rows[2].host, rows[2].port, rows[3].port);
    lost(b, AGENT_LINK_LOST);
    pass(b, 400);
    does(b, (struct agent_event){.type = AGENT_CONNECTED, .host = "another.host"});
    assert_string_equal(b->log, expected); /* as the table has it, whatever its address is now */
    welcome(b);
    stop(b, 1);
    lost(b, AGENT_LINK_LOST);
    pass(b, 400);
    connected(b);
    assert_string_equal(b->log, expected); /* what is being ended runs */
    swept(b);
    lost(b, AGENT_LINK_LOST);
    pass(b, 400);
    connected(b);
    assert_saw(b, "JOIN j/n highest=1 running=0 exited=1");
    assert_saw(b, "run=1 rank=2 nodes=2");
    bench_free(b);
}

TEST(nproc, the_first_failure_decides_and_the_others_are_swept)
{
    struct bench *b = a_running_bench(3);
    trainer_exited(b, 2, 0, 11);
    assert_saw(b, "SWEEP");
    assert_saw(b, "PROCESSES guard=50 100 101\n");
    trainer_exited(b, 0, 1, 0);
    assert_not_saw(b, "SWEEP");
    trainer_exited(b, 1, 1, 0);
    swept(b);
    assert_saw(b, "EXITED 1 local=2 code=0 signal=11 its tail\n");
    bench_free(b);
}

TEST(nproc, all_that_end_well_are_a_success)
{
    struct bench *b = a_running_bench(3);
    trainer_exited(b, 1, 0, 0);
    trainer_exited(b, 2, 0, 0);
    assert_not_saw(b, "SWEEP");
    trainer_exited(b, 0, 0, 0);
    assert_saw(b, "SWEEP");
    swept(b);
    assert_saw(b, "EXITED 1 local=0 code=0 signal=0 \n");
    bench_free(b);
}

TEST(nproc, after_the_first_ended_well_the_others_have_their_grace_and_their_codes_do_not_matter)
{
    struct bench *b = a_running_bench(3);
    trainer_exited(b, 0, 0, 0);
    pass_answered(b, 30000);
    trainer_exited(b, 1, 1, 0);
    assert_not_saw(b, "SWEEP"); /* the third is still at it */
    pass_answered(b, 29999);
    assert_not_saw(b, "SWEEP");
    pass_until(b, b->now + 1);
    assert_saw(b, "SWEEP");
    trainer_exited(b, 2, 0, 9);
    swept(b);
    assert_saw(b, "EXITED 1 local=0 code=0 signal=0 \n");
    bench_free(b);
}

TEST(nproc, a_first_that_outlasts_the_others_grace_hangs)
{
    struct bench *b = a_running_bench(2);
    trainer_exited(b, 1, 0, 0);
    pass_answered(b, 59999);
    pass_until(b, b->now + 1);
    assert_saw(b, "SWEEP");
    trainer_exited(b, 0, 0, 9);
    swept(b);
    assert_saw(b, "EXITED 1 local=0 code=1 signal=0 others of this node ended");
    bench_free(b);
}

TEST(nproc, that_the_first_ended_well_in_one_epoch_excuses_nobody_in_the_next)
{
    struct bench *b = a_running_bench(2);
    trainer_exited(b, 0, 0, 0);
    stop(b, 1);
    trainer_exited(b, 1, 0, 9);
    swept(b);
    run_epoch(b, 2);
    trainer_exited(b, 1, 3, 0);
    assert_saw(b, "SWEEP");
    swept(b);
    assert_saw(b, "EXITED 2 local=1 code=3 signal=0 its tail\n");
    bench_free(b);
}

TEST(nproc, the_grace_of_one_epoch_does_not_run_out_in_the_next)
{
    struct bench *b = a_running_bench(2);
    trainer_exited(b, 1, 0, 0);
    stop(b, 1);
    trainer_exited(b, 0, 0, 9);
    swept(b);
    run_epoch(b, 2);
    pass_answered(b, 120000);
    trainer_exited(b, 0, 3, 0); /* it still ran */
    swept(b);
    assert_saw(b, "EXITED 2 local=0 code=3 signal=0 its tail\n");
    bench_free(b);
}

TEST(nproc, a_spawn_that_fails_is_an_exit_with_its_code)
{
    struct bench *b = a_running_bench(2);
    does(b, (struct agent_event){.type = AGENT_SPAWN_FAILED,
                                 .end = {.local_rank = 1, .code = 127, .tail = "not found"}});
    assert_saw(b, "SWEEP");
    swept(b);
    assert_saw(b, "EXITED 1 local=1 code=127 signal=0 not found\n");
    bench_free(b);
}

TEST(guard, its_loss_ends_the_epoch_without_a_sweep)
{
    struct bench *b = a_running_bench(1);
    does(b, (struct agent_event){.type = AGENT_GUARD_LOST});
    assert_saw(b, "~guard_lost");
    assert_saw(b, "EXITED 1 local=0 code=0 signal=0 stopped \n");
    assert_not_saw(b, "SWEEP");
    does(b, (struct agent_event){.type = AGENT_GUARD, .guard_pid = 51});
    assert_saw(b, "PROCESSES guard=51\n");
    run_epoch(b, 2);
    bench_free(b);
}

TEST(guard, nothing_is_ready_until_there_is_a_new_one)
{
    struct bench *b = a_running_bench(1);
    does(b, (struct agent_event){.type = AGENT_GUARD_LOST});
    hears(b, (struct tfe_msg){.type = MSG_PREPARE, .u.prepare = {.epoch = 2}});
    assert_not_saw(b, "HOLD ");
    does(b, (struct agent_event){.type = AGENT_GUARD, .guard_pid = 51});
    assert_saw(b, "HOLD ");
    bench_free(b);
}

TEST(guard, its_loss_during_a_sweep_keeps_what_was_decided)
{
    struct bench *b = a_running_bench(1);
    trainer_exited(b, 0, 6, 0);
    does(b, (struct agent_event){.type = AGENT_GUARD_LOST});
    assert_saw(b, "EXITED 1 local=0 code=6");
    swept(b); /* of the lost guard, late */
    assert_string_equal(b->log, "");
    bench_free(b);
}

TEST(guard, fenced_counts_as_stopped)
{
    struct bench *b = a_running_bench(1);
    does(b, (struct agent_event){.type = AGENT_FENCED});
    assert_saw(b, "~fenced epoch=1");
    assert_saw(b, "SWEEP");
    trainer_exited(b, 0, 0, 9);
    swept(b);
    assert_saw(b, "EXITED 1 local=0 code=0 signal=0 stopped \n");
    does(b, (struct agent_event){.type = AGENT_FENCED});
    assert_string_equal(b->log, "");
    bench_free(b);
}
