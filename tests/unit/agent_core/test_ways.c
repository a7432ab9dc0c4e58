/* tests/unit/agent_core/test_ways.c: exits of an agent, and properties of every path: lack of
 * memory, and any event in any state. */
#include "common/base/rng.h"
#include "tests/unit/agent_core/bench.h"

/* --- signals in every state --- */

TEST_IN(signal, signal_after_finish_keeps_the_exit_code_of_the_job)
{
    struct bench *b = a_running_bench(1);
    hears(b, (struct tfe_msg){
                 .type = MSG_FINISH,
                 .u.finish = {.result = RESULT_FAILED, .run = 1, .sentence = "why it failed"}});
    signalled(b, 15);
    assert_string_equal(b->log, "EXIT 1 why it failed\n");
}

/* --- lack of memory and random events --- */

static struct bench *a_life(uint64_t fail_at)
{
    struct bench *b = bench_new(2, 3);
    b->flaky.fail_at = fail_at;
    b->retries = true;
    begin(b);
    connected(b);
    welcome(b);
    for (uint64_t epoch = 1; epoch < 4; epoch++) {
        prepare(b, epoch);
        ports_held(b, epoch);
        uint32_t world = (uint32_t)(8 * epoch);
        struct msg_row rows[24];
        for (uint32_t i = 0; i < world; i++) {
            rows[i] = (struct msg_row){i, i % 2 ? "a" : "a-longer-name", (uint16_t)(i + epoch),
                                       TASK_WORKER, 0};
        }
        rows[2] = (struct msg_row){2, "me", 7000, TASK_WORKER, 0};
        rows[3] = (struct msg_row){3, "me", 7001, TASK_WORKER, 0};
        for (uint32_t i = 0; i < world; i += 4) {
            struct msg_table chunk = {
                .epoch = epoch, .world = world, .rows = rows + i, .n_rows = 4};
            hears(b, (struct tfe_msg){.type = MSG_TABLE, .u.table = chunk});
        }
        struct msg_start msg = {.epoch = epoch, .run = 1, .rank = 2, .world = world, .nodes = 2};
        msg.cause = CAUSE_JOINED;
        msg.table_digest = table_digest(rows, world);
        hears(b, (struct tfe_msg){.type = MSG_START, .u.start = msg});
        assert_saw(b, "SPAWN");
        pass_answered(b, 20000);
        stop(b, epoch);
        swept(b);
        noted(b, epoch);
    }
    return b;
}

TEST_IN(memory, failed_allocation_changes_nothing)
{
    struct bench *well = a_life(0);
    assert_true(well->flaky.asked > 8);
    for (uint64_t i = 2; i <= well->flaky.asked; i++) { /* allocation 1 creates the core */
        struct bench *b = a_life(i);
        assert_int_equal(b->failed, 1);
        assert_true(b->history == well->history);
        bench_free(b);
    }
    bench_free(well);
}

TEST_IN(step, any_message_in_any_state_is_handled)
{
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct rng rng;
        rng_init(&rng, seed);
        struct bench *b = bench_new((uint32_t)rng_between(&rng, 1, 3), seed);
        begin(b);
        uint64_t epoch = 1;
        uint64_t spawned = 0;
        for (int i = 0; i < 300 && !b->over; i++) {
            epoch += rng_between(&rng, 0, 9) == 0;
            uint32_t local = (uint32_t)rng_between(&rng, 0, 3);
            uint16_t ports[3] = {1, 2, 3};
            struct agent_event event = {.type = AGENT_MESSAGE};
            struct tfe_msg msg = {.type = MSG_NOTED, .u.noted.epoch = epoch};
            struct msg_row rows[8];
            size_t n = rows_of(b, rows);
            event.msg = &msg;
            switch (rng_between(&rng, 0, 19)) {
            case 0:
                event = (struct agent_event){.type = AGENT_CONNECTED};
                break;
            case 1:
                event = (struct agent_event){.type = AGENT_DISCONNECTED, .lost.reason = "t"};
                break;
            case 2:
            case 3:
                msg.type = MSG_WELCOME;
                msg.u.welcome = (struct msg_welcome){
                    .node = "n", .ttl_ms = 1000, .fence_ms = 9000, .renew_ms = 333, .spread_ms = 9};
                break;
            case 4:
            case 5:
                msg.type = MSG_PREPARE;
                break;
            case 6:
                msg.type = MSG_STOP;
                break;
            case 7:
            case 8:
                msg.type = MSG_TABLE;
                msg.u.table = (struct msg_table){
                    .epoch = epoch, .world = (uint32_t)n, .rows = rows, .n_rows = n};
                break;
            case 9:
            case 10:
                msg.type = MSG_START;
                msg.u.start = (struct msg_start){.epoch = epoch, .rank = local};
                msg.u.start.table_digest = table_digest(rows, n);
                break;
            case 11:
                break;
            case 12:
                event = (struct agent_event){.type = AGENT_PORTS_HELD,
                                             .ports = {epoch, ports, b->config.spec.nproc}};
                break;
            case 13:
                event = (struct agent_event){.type = AGENT_TRAINER_EXITED,
                                             .end = {.local_rank = local, .tail = "t"}};
                event.end.code = (uint32_t)rng_between(&rng, 0, 1);
                break;
            case 14:
            case 15:
                event.type = AGENT_SWEPT;
                break;
            case 16:
                event.type = rng_between(&rng, 0, 1) ? AGENT_GUARD_LOST : AGENT_FENCED;
                break;
            case 17:
                event = rng_between(&rng, 0, 1)
                            ? (struct agent_event){.type = AGENT_SPAWNED, .process = {local, 7}}
                            : (struct agent_event){.type = AGENT_LISTENING, .epoch = epoch};
                break;
            case 18:
                event = rng_between(&rng, 0, 20)
                            ? (struct agent_event){.type = AGENT_GUARD, .guard_pid = 7}
                            : (struct agent_event){.type = AGENT_SIGNAL, .signo = 15};
                break;
            default:
                pass(b, (int64_t)rng_between(&rng, 0, 2000));
                continue;
            }
            int rc = act(b, event);
            assert_true(rc == 0 || rc == TFE_EINVAL);
            /* At most one SPAWN, of an epoch above the last one. */
            const char *spawn = strstr(b->log, "SPAWN epoch=");
            if (spawn) {
                uint64_t now = strtoull(spawn + strlen("SPAWN epoch="), NULL, 10);
                assert_true(now > spawned);
                spawned = now;
            }
        }
        bench_free(b);
    }
}
