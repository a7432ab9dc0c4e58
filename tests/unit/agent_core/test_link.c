/* tests/unit/agent_core/test_link.c: connecting, joining, renewing, and
 * reconnecting to the server. */
#include "agent/core/link.h"
#include "tests/unit/agent_core/bench.h"

TEST_IN(connect, unreachable_server_is_reported_every_10_s_and_exits_69)
{
    struct bench *b = bench_new(1, 1);
    b->config.join_timeout_ms = 35000;
    begin(b);
    int said = 0;
    while (!b->over) {
        lost(b, AGENT_LINK_UNREACHABLE);
        do {
            pass_until(b, b->deadline);
            if (strstr(b->log, "~connecting")) {
                said++;
                char line[64];
                snprintf(line, sizeof(line), "~connecting epoch=0 number=%d it broke",
                         said * 10000);
                assert_saw(b, line);
            }
        } while (!b->over && !strstr(b->log, "CONNECT\n"));
    }
    assert_int_equal(said, 3);
    assert_int_equal(b->now, 1000000 + 35000);
    assert_saw(b, "EXIT 69 the server was not reached within --join-timeout");
    assert_int_equal(act(b, (struct agent_event){.type = AGENT_TICK}), TFE_ESTATE);
}

TEST_IN(connect, hanging_attempt_ends_at_the_join_timeout)
{
    struct bench *b = a_bench();
    pass(b, 600000);
    assert_int_equal(b->exit_code, 69);
    assert_int_equal(times_seen(b, "~connecting"), 59);
}

TEST_IN(connect, rejected_token_is_final_after_three_attempts)
{
    struct bench *b = a_bench();
    for (int i = 0; i < 2; i++) {
        lost(b, AGENT_LINK_UNAUTHORISED);
        pass(b, 999);
        assert_not_saw(b, "CONNECT");
        pass(b, 1);
        assert_saw(b, "CONNECT");
    }
    lost(b, AGENT_LINK_UNAUTHORISED);
    assert_saw(b, "EXIT 77 the server does not accept this token");
}

TEST_IN(connect, token_that_worked_before_is_retried)
{
    struct bench *b = a_joined_bench(1);
    lost(b, AGENT_LINK_LOST);
    for (int i = 0; i < 20; i++) {
        pass(b, 3500);
        assert_saw(b, "CONNECT");
        lost(b, AGENT_LINK_UNAUTHORISED);
    }
    assert_false(b->over);
}

TEST_IN(connect, reconnect_waits_within_the_last_spread)
{
    int64_t longest = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct bench *b = bench_new(1, seed);
        begin(b);
        connected(b);
        welcome(b);
        pass_until(b, b->deadline);
        struct tfe_msg grown = {
            .type = MSG_RENEWED,
            .u.renewed = {
                .number = b->renewal, .ttl_ms = TTL_MS, .fence_ms = FENCE_MS, .spread_ms = 2000}};
        hears(b, grown);
        pass_until(b, b->deadline);
        renewed(b, b->renewal); /* a renewal without a number of nodes leaves it unchanged */
        int64_t from = b->now;
        lost(b, AGENT_LINK_LOST);
        pass_until(b, b->deadline);
        assert_saw(b, "CONNECT");
        assert_in_range(b->now - from, 100, 2000);
        longest = b->now - from > longest ? b->now - from : longest;
        bench_free(b);
    }
    assert_in_range(longest, 1900, 2000);
}

TEST_IN(join, join_and_ready_contain_the_version_once_a_standby_has_imported)
{
    struct bench *b = bench_new(1, 1);
    b->config.fixed_ports = true;
    begin(b);
    connected(b);
    assert_saw(b, "JOIN j/n highest=0 running=0 fixed_ports\n");
    welcome(b);
    prepare(b, 1);
    does(b, (struct agent_event){.type = AGENT_STANDBY, .process = {0, 8, "2.21.0"}});
    ports_held(b, 1);
    assert_saw(b, "READY epoch=1");
    assert_saw(b, " tensorflow=2.21.0\n");
    does(b, (struct agent_event){.type = AGENT_STANDBY, .process = {0, 9, "2.20 or so"}});
    does(b, (struct agent_event){.type = AGENT_STANDBY, .process = {0, 0, NULL}});
    lost(b, AGENT_LINK_LOST);
    pass(b, 400);
    connected(b);
    assert_saw(b, "JOIN j/n highest=0 running=0 fixed_ports tensorflow=2.21.0\n");
    hears(b, (struct tfe_msg){.type = MSG_REFUSED,
                              .u.refused = {.code = REFUSAL_VERSION_MISMATCH, .sentence = "no"}});
    assert_int_equal(b->exit_code, AGENT_EXIT_USAGE);
}

/* --- another commit --- */

static struct tfe_msg other_commit(uint64_t commit)
{
    return (struct tfe_msg){
        .type = MSG_REFUSED,
        .u.refused = {.code = REFUSAL_COMMIT_MISMATCH, .sentence = "other", .commit = commit}};
}

static struct bench *a_bench_at_commit(bool follows)
{
    struct bench *b = bench_new(1, 1);
    b->config.spec.commit = 0xb;
    b->config.follows_commit = follows;
    begin(b);
    connected(b);
    assert_saw(b, "JOIN j/n highest=0 running=0 commit=000000000000000b\n");
    return b;
}

TEST_IN(commit, commit_of_the_job_is_checked_out_once_before_join)
{
    struct bench *b = a_bench_at_commit(true);
    hears(b, other_commit(0xa));
    assert_saw(b, "CHECK_OUT 000000000000000a\n");
    hears(b, other_commit(0xa));
    assert_not_saw(b, "CHECK_OUT");
    lost(b, AGENT_LINK_LOST);
    pass(b, 60000);
    assert_not_saw(b, "CONNECT\n"); /* it would be refused again */
    does(b, (struct agent_event){.type = AGENT_CHECKED_OUT,
                                 .checkout = {.commit = 0xa, .script_digest = 7}});
    pass(b, 400);
    assert_saw(b, "CONNECT\n");
    connected(b);
    assert_saw(b, "JOIN j/n highest=0 running=0 commit=000000000000000a\n");
    welcome(b);
    prepare(b, 1);
    assert_saw(b, "HOLD 1");
}

TEST_IN(commit, failed_checkout_ends_the_agent)
{
    struct bench *b = a_bench_at_commit(true);
    hears(b, other_commit(0xa));
    does(b, (struct agent_event){.type = AGENT_CHECKED_OUT, .checkout = {.reason = "gone"}});
    assert_saw(b, "EXIT 2 gone");
}

TEST_IN(commit, fixed_commit_missing_commit_or_welcome_prevents_a_checkout)
{
    struct bench *b = a_bench_at_commit(false);
    hears(b, other_commit(0xa));
    assert_saw(b, "EXIT 2 other");
    bench_free(b);
    b = a_bench_at_commit(true);
    hears(b, other_commit(0));
    assert_saw(b, "EXIT 2 other");
    bench_free(b);
    b = a_bench_at_commit(true);
    welcome(b); /* trainers may have used the files */
    lost(b, AGENT_LINK_LOST);
    pass(b, 400);
    connected(b);
    hears(b, other_commit(0xa));
    assert_saw(b, "EXIT 2 other");
}

TEST_IN(join, new_run_is_requested_once)
{
    /* Otherwise a run that ended while the server was unreachable would be started again. */
    struct bench *b = bench_new(1, 1);
    b->config.new_run = true;
    begin(b);
    connected(b);
    assert_saw(b, "JOIN j/n highest=0 running=0 new_run\n");
    lost(b, AGENT_LINK_LOST);
    pass(b, 400);
    connected(b);
    assert_saw(b, "new_run"); /* no WELCOME arrived before the connection was lost */
    welcome(b);
    lost(b, AGENT_LINK_LOST);
    pass(b, 400);
    connected(b);
    assert_saw(b, "JOIN j/n highest=0 running=0\n");
}

TEST_IN(renew, response_to_an_unknown_request_is_ignored)
{
    struct bench *b = a_joined_bench(1);
    pass_until(b, b->deadline);
    renewed(b, 0);
    assert_string_equal(b->log, "");
    renewed(b, 2);
    assert_string_equal(b->log, "");
    renewed(b, UINT64_MAX);
    assert_string_equal(b->log, "");
    renewed(b, 1);
    assert_saw(b, "FENCE");
}

TEST_IN(renew, response_to_a_forgotten_request_is_ignored)
{
    struct bench *b = bench_new(1, 1);
    b->config.monitor_interval_ms = 1000;
    begin(b);
    connected(b);
    welcome(b);
    while (b->renewal < RENEWALS_MAX + 1) {
        pass_until(b, b->deadline);
    }
    /* its sending time was overwritten by that of the last renewal, which would set
     * the fence too late */
    renewed(b, 1);
    assert_string_equal(b->log, "");
    renewed(b, 2);
    assert_saw(b, "FENCE");
}

TEST_IN(link, training_agent_waits_longer_than_the_join_timeout)
{
    struct bench *b = bench_new(1, 1);
    b->config.join_timeout_ms = 5000;
    begin(b);
    connected(b);
    welcome(b);
    run_epoch(b, 1);
    lost(b, AGENT_LINK_LOST);
    for (int i = 0; i < 20; i++) {
        pass(b, 3500);
        assert_saw(b, "CONNECT");
        lost(b, AGENT_LINK_UNREACHABLE);
    }
    /* The guard kills the trainers at the fence; afterwards there is no reason to wait. */
    does(b, (struct agent_event){.type = AGENT_FENCED});
    assert_saw(b, "~fenced epoch=1");
    assert_saw(b, "SWEEP");
    trainer_exited(b, 0, 0, 9);
    swept(b);
    assert_saw(b, "~exited epoch=1 number=0 stopped");
    pass_until(b, b->deadline);
    assert_saw(b, "EXIT 69");
}

struct refusal_case {
    enum tfe_refusal code;
    int exit_code;
};

TEST_IN(refused, each_code_has_its_exit)
{
    static const struct refusal_case cases[] = {
        {REFUSAL_NOT_AUTHORISED, 77}, {REFUSAL_BAD_REQUEST, 2}, {REFUSAL_SIZE_MISMATCH, 2},
        {REFUSAL_JOB_FINISHED, 1},    {REFUSAL_NO_SUCH_JOB, 1}, {REFUSAL_NODE_REPLACED, 1},
        {REFUSAL_NO_SUCH_NODE, 1},    {REFUSAL_EVICTED, 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bench *b = a_bench();
        connected(b);
        hears(b, (struct tfe_msg){.type = MSG_REFUSED,
                                  .u.refused = {.code = cases[i].code, .sentence = "do this"}});
        char line[64];
        snprintf(line, sizeof(line), "EXIT %d do this\n", cases[i].exit_code);
        assert_saw(b, line);
        bench_free(b);
    }
}

TEST_IN(refused, refusal_at_a_limit_is_retried)
{
    struct bench *b = a_bench();
    connected(b);
    hears(b, (struct tfe_msg){.type = MSG_REFUSED,
                              .u.refused = {.code = REFUSAL_LIMIT_REACHED, .sentence = "full"}});
    assert_saw(b, "~refused epoch=0 number=5 full\n");
    assert_false(b->over);
    lost(b, AGENT_LINK_LOST);
    pass(b, 3000);
    assert_saw(b, "CONNECT");
}

static void refused_as(struct bench *b, const char *sentence)
{
    connected(b);
    hears(b, (struct tfe_msg){.type = MSG_REFUSED,
                              .u.refused = {.code = REFUSAL_LIMIT_REACHED, .sentence = sentence}});
}

TEST_IN(refused, refusal_at_a_limit_is_reported_once_and_at_the_end)
{
    struct bench *b = a_bench();
    refused_as(b, "full");
    for (int i = 0; i < 5; i++) {
        lost(b, AGENT_LINK_LOST);
        while (!strstr(b->log, "CONNECT\n")) {
            pass_until(b, b->deadline);
        }
        refused_as(b, "full");
        assert_not_saw(b, "~refused");
    }
    lost(b, AGENT_LINK_LOST);
    refused_as(b, "fuller");
    assert_saw(b, "~refused epoch=0 number=5 fuller\n");
    lost(b, AGENT_LINK_LOST);
    pass(b, 600000);
    assert_saw(b, "EXIT 69 the server did not admit this node within --join-timeout: fuller");
}

TEST_IN(refused, refusal_ends_a_running_trainer_before_exit)
{
    struct bench *b = a_running_bench(1);
    hears(b, (struct tfe_msg){.type = MSG_REFUSED,
                              .u.refused = {.code = REFUSAL_NODE_REPLACED, .sentence = "gone"}});
    assert_saw(b, "SWEEP");
    assert_not_saw(b, "EXIT ");
    trainer_exited(b, 0, 0, 15);
    swept(b);
    assert_saw(b, "EXIT 1 gone");
}

TEST_IN(link, that_ends_after_finish_is_not_reported_as_lost)
{
    struct bench *b = a_running_bench(1);
    hears(b, (struct tfe_msg){.type = MSG_FINISH,
                              .u.finish = {.result = RESULT_SUCCEEDED, .sentence = "done"}});
    assert_saw(b, "SWEEP");
    lost(b, AGENT_LINK_LOST);
    assert_not_saw(b, "~connection_lost");
    swept(b);
    assert_saw(b, "EXIT 0 done");
    b = a_running_bench(1);
    lost(b, AGENT_LINK_LOST);
    assert_saw(b, "~connection_lost");
}

TEST_IN(link, leaving_agent_without_a_server_does_not_loop)
{
    /* Bug: while trainers were being killed, the time of the next attempt was in the past, so
     * the shell's timer fired continuously. */
    struct bench *b = a_running_bench(1);
    lost(b, AGENT_LINK_LOST);
    signalled(b, 15);
    assert_saw(b, "SWEEP");
    int steps = 0;
    int64_t until = b->now + 30000;
    while (b->deadline <= until) {
        b->now = b->deadline;
        assert_int_equal(step(b, (struct agent_event){.type = AGENT_TICK}), 0);
        assert_true(++steps < 5);
    }
    assert_not_saw(b, "CONNECT");
    swept(b);
    assert_saw(b, "EXIT 143");
}

TEST_IN(link, join_contains_the_larger_size_of_the_running_epoch)
{
    struct bench *b = a_joined_bench(1); /* an operator has increased the size of the job since */
    b->nodes = b->config.spec.max_nodes + 3;
    run_epoch(b, 1);
    lost(b, AGENT_LINK_LOST);
    pass(b, 2000);
    connected(b);
    char max[32];
    snprintf(max, sizeof(max), " max=%u", b->nodes);
    assert_saw(b, max);
}

TEST_IN(link, sizes_out_of_range_are_refused_at_creation)
{
    struct bench *b = bench_new(1, 1);
    struct agent_config good = b->config;
    for (int i = 0; i < 6; i++) {
        struct agent_config c = good;
        switch (i) {
        case 0:
            c.spec.nproc = 0;
            break;
        case 1:
            c.spec.nproc = MSG_NPROC_MAX + 1;
            break;
        case 2:
            c.spec.min_nodes = 0;
            break;
        case 3:
            c.spec.min_nodes = 5;
            break;
        case 4:
            c.spec.max_nodes = MSG_NODES_MAX + 1;
            break;
        default:
            c.job.text[0] = '\0';
            break;
        }
        assert_int_equal(agent_new(&c, &b->mem, &b->a), TFE_EINVAL);
    }
    b->flaky.fail_at = 1;
    assert_int_equal(agent_new(&good, &b->mem, &b->a), TFE_ENOMEM);
    agent_free(NULL);
}

TEST_IN(renew, monitor_interval_limits_the_time_between_renewals)
{
    struct bench *b = bench_new(1, 1);
    b->config.monitor_interval_ms = 1000;
    begin(b);
    connected(b);
    welcome(b);
    for (int i = 0; i < 200; i++) {
        int64_t from = b->now;
        pass_until(b, b->deadline);
        assert_saw(b, "RENEW");
        assert_in_range(b->now - from, 800, 1000);
        renewed(b, b->renewal);
    }
}
