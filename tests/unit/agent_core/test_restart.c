/* tests/unit/agent_core/test_restart.c: trainers restarted within their epoch, and evaluators,
 * which belong to no epoch. */
#include "tests/unit/agent_core/bench.h"

static void restart(struct bench *b, uint64_t epoch, uint64_t number)
{
    hears(b, (struct tfe_msg){.type = MSG_RESTART, .u.restart = {epoch, number}});
}

static void ends(struct bench *b, uint32_t signal)
{
    for (uint32_t i = 0; i < b->config.spec.nproc; i++) {
        trainer_exited(b, i, 0, signal);
    }
    swept(b);
}

TEST_IN(restart, each_restart_number_is_obeyed_once)
{
    struct bench *b = a_running_bench(1);
    restart(b, 1, 1); /* no trainer has ended */
    assert_not_saw(b, "SPAWN");
    ends(b, 9);
    restart(b, 1, 2);
    assert_saw(b, "SPAWN epoch=1");
    restart(b, 1, 2); /* repeated after a reconnect */
    assert_string_equal(b->log, "");
    ends(b, 9);
    restart(b, 1, 2);
    assert_string_equal(b->log, "");
    restart(b, 1, 1);
    assert_string_equal(b->log, "");
    restart(b, 1, 3);
    assert_saw(b, "SPAWN epoch=1");
}

TEST_IN(restart, restart_of_an_ended_epoch_is_ignored_and_answered_with_the_state)
{
    struct bench *b = a_running_bench(1);
    ends(b, 9);
    stop(b, 2); /* a later epoch was announced */
    restart(b, 1, 1);
    assert_not_saw(b, "SPAWN");
    assert_saw(b, "~void_start epoch=1");
    assert_saw(b, "JOIN");
}

TEST_IN(restart, restart_after_the_lease_is_ignored)
{
    struct bench *b = a_running_bench(1);
    ends(b, 9);
    pass(b, TTL_MS);
    restart(b, 1, 1);
    assert_not_saw(b, "SPAWN");
}

/* The table's last rank is 1. */
static void start_evaluator(struct bench *b)
{
    struct msg_row rows[8];
    size_t n = rows_of(b, rows);
    prepare(b, 4);
    ports_held(b, 4);
    table(b, 4);
    hears(b, (struct tfe_msg){.type = MSG_START,
                              .u.start = {.epoch = 4,
                                          .run = 1,
                                          .rank = (uint32_t)n,
                                          .world = (uint32_t)n,
                                          .nodes = 2,
                                          .cause = CAUSE_START,
                                          .table_digest = table_digest(rows, n),
                                          .evaluates = true}});
    assert_saw(b, "SPAWN epoch=4 run=1 rank=2 restarts=0");
}

TEST_IN(evaluator, evaluator_is_not_reported_as_a_member_to_a_rebuilding_server)
{
    struct bench *b = a_joined_bench(1);
    b->shows_running = true;
    start_evaluator(b);
    lost(b, AGENT_LINK_LOST);
    pass(b, 400);
    connected(b);
    assert_saw(b, "running=4");
    assert_saw(b, " evaluates");
    assert_not_saw(b, "run=");
}

/* Returns the first node of a job with a ps: it runs the chief, or worker 0 and its neighbours. */
static struct bench *a_served_bench(uint32_t nproc, bool all_workers)
{
    struct bench *b = bench_new(nproc, 1);
    b->config.spec.n_ps = 1;
    b->config.spec.all_workers = all_workers;
    begin(b);
    connected(b);
    welcome(b);
    prepare(b, 1);
    ports_held(b, 1);
    struct msg_row rows[] = {{.rank = 0, .host = "me", .port = 7000},
                             {.rank = 1, .host = "me", .port = 7001},
                             {.rank = 1, .host = "p", .port = 1, .role = TASK_PS, .first = nproc}};
    rows[nproc] = rows[2];
    rows[nproc].rank = nproc;
    uint32_t world = nproc + 1;
    hears(b,
          (struct tfe_msg){.type = MSG_TABLE,
                           .u.table = {.epoch = 1, .world = world, .rows = rows, .n_rows = world}});
    hears(b, (struct tfe_msg){.type = MSG_START,
                              .u.start = {.epoch = 1,
                                          .run = 1,
                                          .rank = 0,
                                          .world = world,
                                          .nodes = 2,
                                          .cause = CAUSE_START,
                                          .table_digest = table_digest(rows, world)}});
    assert_saw(b, "SPAWN epoch=1");
    return b;
}

static void comes_to_its_end(struct bench *b, uint32_t local)
{
    does(b, (struct agent_event){.type = AGENT_PROGRESS,
                                 .progress = {local, {.epoch = 1, .ends = true}}});
}

/* The chief's script may wait for a missing worker in its destructor, or one of its threads may
 * still write the last checkpoint. It may use the whole exit grace. */
TEST_IN(chief, chief_hanging_after_its_end_counts_as_success)
{
    struct bench *b = a_served_bench(1, false);
    comes_to_its_end(b, 0);
    pass_answered(b, 59999);
    assert_not_saw(b, "SWEEP");
    pass_until(b, b->now + 1);
    assert_saw(b, "SWEEP");
    swept(b);
    assert_saw(b, "EXITED 1 local=0 code=0 signal=0");
    assert_saw(b, "~exited epoch=1 number=0");
}

/* Bug: a chief that was killed while it wrote the last checkpoint was counted as successful. */
TEST_IN(chief, chief_that_fails_at_exit_has_failed)
{
    struct bench *b = a_served_bench(1, false);
    comes_to_its_end(b, 0);
    trainer_exited(b, 0, 0, 9);
    swept(b);
    assert_saw(b, "signal=9");
}

/* Bug: the job ended as successful when the script of a worker on the chief's node did. */
TEST_IN(chief, worker_on_the_same_node_is_not_the_chief)
{
    struct bench *b = a_served_bench(2, false);
    comes_to_its_end(b, 1);
    trainer_exited(b, 1, 0, 0);
    pass_answered(b, 3600000);
    assert_not_saw(b, "SWEEP"); /* bug: it was killed after a minute, with an invented exit code */
    trainer_exited(b, 0, 7, 0);
    assert_saw(b, "SWEEP");
    swept(b);
    assert_saw(b, "code=7");
}

TEST_IN(chief, end_of_the_chief_does_not_depend_on_other_trainers)
{
    struct bench *b = a_served_bench(2, false);
    comes_to_its_end(b, 0);
    trainer_exited(b, 1, 3, 0);
    assert_not_saw(b, "SWEEP");
    trainer_exited(b, 0, 0, 0);
    swept(b);
    assert_saw(b, "code=0");
}

/* Bug: workers got only the exit grace, and counted as successful however they ended. */
TEST_IN(chief, all_workers_has_no_chief)
{
    struct bench *b = a_served_bench(2, true);
    comes_to_its_end(b, 0);
    trainer_exited(b, 0, 0, 0);
    pass_answered(b, 61000);
    assert_not_saw(b, "SWEEP");
    trainer_exited(b, 1, 3, 0);
    swept(b);
    assert_saw(b, "EXITED 1 local=1 code=3 signal=0");
}

TEST_IN(restart, ports_of_an_epoch_of_an_earlier_server_are_released)
{
    struct bench *b = a_running_bench(1);
    ends(b, 9);
    hears(b, (struct tfe_msg){.type = MSG_PREPARE, .u.prepare = {.epoch = 3, .answer = true}});
    ports_held(b, 3);
    assert_saw(b, "ANSWER 7000\n");
    restart(b, 1, 1);
    assert_saw(b, "ANSWER no");
    assert_saw(b, "SPAWN epoch=1");
}
