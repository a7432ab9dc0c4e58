/* tests/unit/agent/test_link.c: connecting, joining, renewing, losing the server and finding it
 * again. */
#include "agent/core/link.h"
#include "tests/unit/agent/bench.h"

TEST(connect, begins_at_once_and_only_once)
{
    struct bench *b = a_bench();
    assert_string_equal(b->log, "CONNECT\n");
    assert_int_equal(act(b, (struct agent_event){.type = AGENT_BEGIN}), TFE_ESTATE);
    connected(b);
    assert_string_equal(b->log, "JOIN j/n highest=0 running=0\n");
    welcome(b);
    assert_saw(b, "~joined epoch=0 number=10000");
    assert_saw(b, "PROCESSES guard=50\n");
    bench_free(b);
}

TEST(connect, tells_of_the_epoch_that_checkpoints_were_found_of)
{
    /* A server that has lost its memory would begin at 1 again, and every save were a stale one. */
    struct bench *b = bench_new(1, 1);
    b->config.highest_epoch = 7;
    begin(b);
    connected(b);
    assert_string_equal(b->log, "JOIN j/n highest=7 running=0\n");
    bench_free(b);
}

TEST(connect, backs_off_with_full_jitter_that_doubles_up_to_its_cap)
{
    static const int64_t caps[] = {100, 200, 400, 800, 1600, 3000, 3000, 3000};
    int64_t longest[8] = {0};
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct bench *b = bench_new(1, seed);
        begin(b);
        for (size_t i = 0; i < 8; i++) {
            lost(b, AGENT_LINK_UNREACHABLE);
            int64_t from = b->now;
            do {
                pass_until(b, b->deadline);
            } while (!strstr(b->log, "CONNECT\n"));
            int64_t waited = b->now - from;
            assert_in_range(waited, 1, caps[i]);
            longest[i] = waited > longest[i] ? waited : longest[i];
        }
        bench_free(b);
    }
    for (size_t i = 0; i < 8; i++) {
        assert_true(longest[i] > caps[i] * 9 / 10);
    }
}

TEST(connect, says_every_10_s_that_the_server_is_not_there_and_gives_up_with_69)
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
    bench_free(b);
}

TEST(connect, a_try_that_never_ends_does_not_outlast_the_join_timeout)
{
    struct bench *b = a_bench();
    pass(b, 600000);
    assert_int_equal(b->exit_code, 69);
    assert_int_equal(times_seen(b, "~connecting"), 59);
    bench_free(b);
}

TEST(connect, an_unknown_token_is_believed_wrong_after_three_tries_a_second_apart)
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
    bench_free(b);
}

TEST(connect, a_token_that_worked_before_is_not_given_up)
{
    struct bench *b = a_joined_bench(1);
    lost(b, AGENT_LINK_LOST);
    for (int i = 0; i < 20; i++) {
        pass(b, 3500);
        assert_saw(b, "CONNECT");
        lost(b, AGENT_LINK_UNAUTHORISED);
    }
    assert_false(b->over);
    bench_free(b);
}

TEST(connect, after_a_lost_connection_within_the_spread)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct bench *b = bench_new(1, seed);
        begin(b);
        connected(b);
        welcome(b);
        lost(b, AGENT_LINK_LOST);
        assert_saw(b, "~connection_lost epoch=0 number=0 it broke");
        pass(b, 99);
        assert_not_saw(b, "CONNECT");
        pass(b, 301);
        assert_saw(b, "CONNECT");
        bench_free(b);
    }
}

TEST(connect, after_a_lost_connection_within_the_spread_of_the_job_as_it_was_last)
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
        renewed(b, b->renewal); /* says nothing of it, and so it stands */
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

TEST(connect, the_reason_outlives_the_event)
{
    struct bench *b = a_joined_bench(1);
    char *text = malloc(16);
    assert_non_null(text);
    strcpy(text, "short-lived");
    struct agent_event event = {.type = AGENT_DISCONNECTED, .now = {b->now}, .lost.why = text};
    struct agent_actions actions;
    assert_int_equal(agent_step(b->a, &event, &actions), 0);
    free(text); /* what an action points to belongs to the core */
    assert_int_equal(actions.v[0].type, AGENT_TRACE);
    assert_string_equal(actions.v[0].trace.text, "short-lived");
    bench_free(b);
}

TEST(join, one_that_is_not_answered_is_tried_on_another_connection)
{
    struct bench *b = a_bench();
    connected(b);
    pass(b, 9999);
    assert_not_saw(b, "HANG_UP");
    pass(b, 1);
    assert_int_equal(times_seen(b, "HANG_UP"), 1);
    lost(b, AGENT_LINK_LOST);
    pass(b, 3000);
    assert_saw(b, "CONNECT");
    bench_free(b);
}

TEST(join, said_again_late_in_life_is_no_time_without_a_server)
{
    /* The wait for --join-timeout was counted from the first try ever: an agent that was told to
     * start something it could not start, ten minutes into its life, gave up the server it was
     * talking to. */
    struct bench *b = a_joined_bench(1);
    pass_answered(b, 700000);
    start(b, 9);
    assert_saw(b, "~void_start");
    assert_saw(b, "JOIN");
    pass(b, 1000);
    assert_false(b->over);
    welcome(b);
    pass(b, 3000);
    assert_false(b->over);
    bench_free(b);
}

TEST(join, and_ready_tell_tensorflows_version_as_soon_as_a_standby_has_imported_it)
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
    bench_free(b);
}

TEST(join, asks_for_a_new_run_once)
{
    /* A run that ended while the server was away would have been begun again. */
    struct bench *b = bench_new(1, 1);
    b->config.new_run = true;
    begin(b);
    connected(b);
    assert_saw(b, "JOIN j/n highest=0 running=0 new_run\n");
    lost(b, AGENT_LINK_LOST);
    pass(b, 400);
    connected(b);
    assert_saw(b, "new_run"); /* it was not welcomed yet */
    welcome(b);
    lost(b, AGENT_LINK_LOST);
    pass(b, 400);
    connected(b);
    assert_saw(b, "JOIN j/n highest=0 running=0\n");
    bench_free(b);
}

TEST(join, under_way_is_not_said_twice)
{
    /* A WELCOME to the first would have counted lease and fence from the sending of the second. */
    struct bench *b = a_joined_bench(1);
    pass_answered(b, 20000);
    int64_t joined = b->now;
    start(b, 9);
    assert_saw(b, "JOIN");
    b->now += 5000;
    start(b, 9);
    assert_saw(b, "~void_start");
    assert_not_saw(b, "JOIN");
    welcome(b);
    char line[64];
    snprintf(line, sizeof(line), "FENCE %lld\n", (long long)joined + FENCE_MS);
    assert_saw(b, line);
    bench_free(b);
}

TEST(renew, a_third_of_the_ttl_with_a_fifth_of_jitter)
{
    struct bench *b = a_joined_bench(1);
    int64_t shortest = INT64_MAX;
    int64_t longest = 0;
    for (int i = 0; i < 2000; i++) {
        int64_t from = b->now;
        uint64_t number = b->renewal;
        pass_until(b, b->deadline);
        assert_int_equal(b->renewal, number + 1);
        renewed(b, b->renewal);
        int64_t waited = b->now - from;
        shortest = waited < shortest ? waited : shortest;
        longest = waited > longest ? waited : longest;
    }
    assert_in_range(shortest, 2666, 2700);
    assert_in_range(longest, 3950, 4000);
    bench_free(b);
}

TEST(renew, monitor_interval_is_the_longest_time_between_two)
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
    bench_free(b);
}

static int64_t next_renewal_after(struct bench *b, uint32_t ttl_ms)
{
    hears(b, (struct tfe_msg){
                 .type = MSG_RENEWED,
                 .u.renewed = {.number = b->renewal, .ttl_ms = ttl_ms, .fence_ms = 10 * ttl_ms}});
    int64_t from = b->now;
    pass_until(b, b->deadline);
    assert_saw(b, "RENEW");
    return b->now - from;
}

TEST(renew, a_third_of_what_the_last_answer_said)
{
    /* The server lengthens leases when it has many. */
    struct bench *b = a_joined_bench(1);
    pass_until(b, b->deadline);
    (void)next_renewal_after(b, 60000); /* the next one had been planned */
    assert_in_range(next_renewal_after(b, 60000), 16000, 24000);
    assert_in_range(next_renewal_after(b, 60000), 16000, 24000);
    assert_in_range(next_renewal_after(b, 3000), 1, 1000); /* at once: it is too long */
    assert_in_range(next_renewal_after(b, 3000), 800, 1200);
    bench_free(b);
}

TEST(renew, the_fence_counts_from_the_sending)
{
    struct bench *b = a_bench();
    connected(b);
    int64_t sent = b->now;
    b->now += 700;
    welcome(b);
    char line[64];
    snprintf(line, sizeof(line), "FENCE %lld\n", (long long)sent + FENCE_MS);
    assert_saw(b, line);
    pass_until(b, b->deadline);
    int64_t first = b->now;
    pass_until(b, b->deadline);
    int64_t second = b->now;
    b->now += 1000;
    renewed(b, 1); /* the answers lag behind by one */
    snprintf(line, sizeof(line), "FENCE %lld\n", (long long)first + FENCE_MS);
    assert_string_equal(b->log, line);
    renewed(b, 2);
    snprintf(line, sizeof(line), "FENCE %lld\n", (long long)second + FENCE_MS);
    assert_string_equal(b->log, line);
    bench_free(b);
}

/* A server that died before the first renewal of an epoch left it the short fence of a node that
 * trains in none. */
TEST(renew, start_brings_the_fence_of_its_epoch_with_it)
{
    struct bench *b = a_joined_bench(1);
    prepare(b, 1);
    ports_held(b, 1);
    pass_until(b, b->deadline);
    int64_t sent = b->now;
    b->now += 200;
    renewed(b, 1);
    pass_until(b, b->deadline); /* the next one is not answered before START comes */
    table(b, 1);
    b->fence_of_start = 3 * FENCE_MS;
    start(b, 1);
    char line[64];
    snprintf(line, sizeof(line), "FENCE %lld\n", (long long)sent + 3 * FENCE_MS);
    assert_saw(b, line);
    bench_free(b);
}

TEST(renew, a_start_without_a_fence_leaves_the_one_that_stands)
{
    struct bench *b = a_joined_bench(1);
    prepare(b, 1);
    ports_held(b, 1);
    table(b, 1);
    start(b, 1);
    assert_saw(b, "SPAWN");
    assert_not_saw(b, "FENCE");
    bench_free(b);
}

TEST(renew, an_answer_to_what_was_never_asked_is_ignored)
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
    bench_free(b);
}

TEST(renew, an_answer_so_late_that_nobody_knows_when_it_was_asked_for_is_ignored)
{
    struct bench *b = bench_new(1, 1);
    b->config.monitor_interval_ms = 1000;
    begin(b);
    connected(b);
    welcome(b);
    while (b->renewal < RENEWALS_MAX + 1) {
        pass_until(b, b->deadline);
    }
    renewed(b, 1); /* the sending of the last one is kept in its place: a fence too late */
    assert_string_equal(b->log, "");
    renewed(b, 2);
    assert_saw(b, "FENCE");
    bench_free(b);
}

TEST(renew, a_server_that_is_silent_for_a_ttl_is_hung_up_on_while_the_trainers_go_on)
{
    struct bench *b = a_running_bench(1);
    int64_t joined = 1000000;
    pass_until(b, joined + TTL_MS - 1);
    assert_not_saw(b, "HANG_UP");
    pass(b, 1);
    assert_saw(b, "HANG_UP");
    assert_not_saw(b, "SWEEP");
    pass(b, 20000);
    assert_not_saw(b, "HANG_UP");
    lost(b, AGENT_LINK_LOST);
    pass(b, 400);
    assert_saw(b, "CONNECT");
    connected(b);
    assert_saw(b, "JOIN j/n highest=1 running=1\n");
    bench_free(b);
}

TEST(renew, numbers_begin_anew_with_the_connection)
{
    struct bench *b = a_joined_bench(1);
    pass_answered(b, 30000);
    assert_true(b->renewal > 5);
    lost(b, AGENT_LINK_LOST);
    pass(b, 400);
    connected(b);
    welcome(b);
    pass_until(b, b->deadline);
    assert_saw(b, "RENEW 1\n");
    bench_free(b);
}

TEST(link, an_agent_that_trains_waits_for_the_server_longer_than_the_join_timeout)
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
    /* Its guard ends the trainers at the fence; then there is nothing left to wait with. */
    does(b, (struct agent_event){.type = AGENT_FENCED});
    assert_saw(b, "~fenced epoch=1");
    assert_saw(b, "SWEEP");
    trainer_exited(b, 0, 0, 9);
    swept(b);
    assert_saw(b, "~exited epoch=1 number=0 stopped");
    pass_until(b, b->deadline);
    assert_saw(b, "EXIT 69");
    bench_free(b);
}

struct refusal_case {
    enum tfe_refusal code;
    int exit_code;
};

TEST(refused, each_code_has_its_exit)
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

TEST(refused, at_a_limit_it_tries_again)
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
    bench_free(b);
}

static void refused_as(struct bench *b, const char *sentence)
{
    connected(b);
    hears(b, (struct tfe_msg){.type = MSG_REFUSED,
                              .u.refused = {.code = REFUSAL_LIMIT_REACHED, .sentence = sentence}});
}

TEST(refused, at_a_limit_is_said_once_in_the_servers_words_and_in_the_end)
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
    assert_saw(b, "EXIT 69 the server did not let this node in within --join-timeout: fuller");
    bench_free(b);
}

TEST(connect, without_an_ipv4_address_is_the_end)
{
    struct bench *b = a_bench();
    does(b, (struct agent_event){.type = AGENT_CONNECTED});
    assert_not_saw(b, "JOIN");
    assert_saw(b, "EXIT 2 this machine reaches the server over IPv6 and has no IPv4 address");
    bench_free(b);
    b = a_running_bench(1); /* it has had one: its trainers are reached there */
    lost(b, AGENT_LINK_LOST);
    pass(b, 400);
    does(b, (struct agent_event){.type = AGENT_CONNECTED});
    assert_saw(b, "JOIN");
    assert_not_saw(b, "EXIT");
    bench_free(b);
}

TEST(refused, a_running_trainer_is_ended_first)
{
    struct bench *b = a_running_bench(1);
    hears(b, (struct tfe_msg){.type = MSG_REFUSED,
                              .u.refused = {.code = REFUSAL_NODE_REPLACED, .sentence = "gone"}});
    assert_saw(b, "SWEEP");
    assert_not_saw(b, "EXIT ");
    trainer_exited(b, 0, 0, 15);
    swept(b);
    assert_saw(b, "EXIT 1 gone");
    bench_free(b);
}

TEST(link, on_the_way_out_without_a_server_the_agent_does_not_spin)
{
    /* The time of the next try lay in the past while the trainers were ended: the shell's timer
     * came back at once, for as long as that took. */
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
    bench_free(b);
}

TEST(link, what_servers_may_not_send_is_an_error)
{
    struct bench *b = a_joined_bench(1);
    static const int types[] = {MSG_JOIN,   MSG_RENEW,   MSG_READY,     MSG_LISTENING,
                                MSG_EXITED, MSG_GOODBYE, MSG_PROCESSES, MSG_STATUS,
                                0,          255};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct tfe_msg msg = {.type = (enum tfe_msg_type)types[i]};
        assert_int_equal(act(b, (struct agent_event){.type = AGENT_MESSAGE, .msg = &msg}),
                         TFE_EINVAL);
    }
    bench_free(b);
}

TEST(link, brings_the_size_of_what_it_runs_where_that_is_larger_than_it_was_told)
{
    struct bench *b = a_joined_bench(1); /* an operator has let the job grow since */
    b->nodes = b->config.spec.max_nodes + 3;
    run_epoch(b, 1);
    lost(b, AGENT_LINK_LOST);
    pass(b, 2000);
    connected(b);
    char max[32];
    snprintf(max, sizeof(max), " max=%u", b->nodes);
    assert_saw(b, max);
    bench_free(b);
}

TEST(link, sizes_out_of_range_make_no_agent)
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
    bench_free(b);
}
