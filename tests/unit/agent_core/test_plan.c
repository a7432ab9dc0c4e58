/* tests/unit/agent_core/test_plan.c: reported progress, requested checkpoints, and planned ends. */
#include "tests/unit/agent_core/bench.h"

static void tells(struct bench *b, uint64_t epoch, uint32_t local, struct msg_progress told)
{
    told.epoch = epoch;
    does(b, (struct agent_event){.type = AGENT_PROGRESS, .progress = {local, told}});
}

static void step_done(struct bench *b, uint64_t step)
{
    tells(b, 1, 0, (struct msg_progress){.has_step = true, .step = step});
}

static void stop_planned(struct bench *b, uint64_t epoch)
{
    hears(b, (struct tfe_msg){.type = MSG_STOP, .u.stop = {.epoch = epoch, .planned = true}});
}

TEST_IN(progress, interval_grows_to_10_to_20_s_with_10000_nodes)
{
    struct bench *b = a_joined_bench(1);
    b->nodes = 10000;
    run_epoch(b, 1);
    step_done(b, 1);
    assert_string_equal(b->log, "PROGRESS epoch=1 step=1 saves=0 answers=0\n");
    int64_t waited = 0;
    for (bool told = false; !told; waited += 100) {
        step_done(b, (uint64_t)(waited / 100) + 2);
        assert_not_saw(b, "PROGRESS");
        pass_answered(b, 100);
        told = strstr(b->log, "PROGRESS") != NULL;
    }
    assert_in_range(waited, 10000, 20100);
}

TEST_IN(progress, checkpoint_is_sent_at_once)
{
    struct bench *b = a_running_bench(1);
    step_done(b, 7);
    tells(b, 1, 0,
          (struct msg_progress){
              .has_step = true, .step = 8, .has_saved = true, .saved_step = 8, .saves = 1});
    assert_string_equal(b->log, "PROGRESS epoch=1 step=8 saved=8 saves=1 answers=0\n");
    tells(b, 1, 0, (struct msg_progress){.has_saved = true, .saved_step = 9, .saves = 1});
    assert_string_equal(b->log, "PROGRESS epoch=1 step=8 saved=9 saves=1 answers=0\n");
    tells(b, 1, 0, (struct msg_progress){.listens = true});
    assert_string_equal(b->log, "PROGRESS epoch=1 step=8 saved=9 saves=1 answers=0 listens\n");
}

TEST_IN(progress, trainer_outside_its_cluster_is_reported_once_at_once)
{
    struct bench *b = a_running_bench(1);
    does(b, (struct agent_event){.type = AGENT_ALONE, .epoch = 2});
    assert_string_equal(b->log, ""); /* not of the running epoch */
    does(b, (struct agent_event){.type = AGENT_ALONE, .epoch = 1});
    assert_string_equal(b->log, "PROGRESS epoch=1 saves=0 answers=0 alone\n");
    does(b, (struct agent_event){.type = AGENT_ALONE, .epoch = 1});
    assert_string_equal(b->log, "");
}

TEST_IN(progress, reports_of_several_trainers_are_combined)
{
    struct bench *b = a_running_bench(2);
    tells(b, 1, 1, (struct msg_progress){.has_step = true, .step = 5, .saves = 2, .listens = true});
    assert_string_equal(b->log, "PROGRESS epoch=1 step=5 saves=2 answers=0 listens\n");
    tells(b, 1, 0, (struct msg_progress){.has_step = true, .step = 4, .saves = 2});
    assert_string_equal(b->log, ""); /* another trainer has reported a higher step */
    tells(b, 1, 0, (struct msg_progress){.listens = true});
    tells(b, 1, 1, (struct msg_progress){.listens = false});
    assert_string_equal(b->log, ""); /* the other trainer still listens */
    tells(b, 1, 0, (struct msg_progress){.listens = false});
    assert_string_equal(b->log, "PROGRESS epoch=1 step=5 saves=2 answers=0\n");
    assert_int_equal(act(b, (struct agent_event){.type = AGENT_PROGRESS, .progress.local = 2}),
                     TFE_EINVAL);
}

TEST_IN(progress, saves_without_steps_are_repeated_after_reconnect)
{
    struct bench *b = a_running_bench(1);
    tells(b, 1, 0, (struct msg_progress){.saves = 1});
    lost(b, AGENT_LINK_LOST);
    pass(b, 400);
    connected(b);
    welcome(b);
    assert_saw(b, "PROGRESS epoch=1 saves=1 answers=0\n");
}

TEST_IN(progress, snapshot_is_sent_with_the_steps_and_outlives_the_epoch)
{
    struct bench *b = a_running_bench(1);
    struct msg_progress told = {
        .has_step = true,
        .step = 7,
        .memory = {.bytes = 64, .has_snapshot = true, .epoch = 1, .step = 6},
        .has_from = true,
        .from_step = 5};
    tells(b, 1, 0, told);
    assert_string_equal(b->log,
                        "PROGRESS epoch=1 step=7 saves=0 answers=0 kept=1/6 in 64 from=5\n");
    told.memory.step = 7;
    tells(b, 1, 0, told);
    assert_string_equal(b->log, ""); /* sent with the next progress, at most every 200 ms */
    pass(b, 200);
    assert_saw(b, " step=7 saves=0 answers=0 kept=1/7 in 64 from=5\n");
    told.snapshot_answers = 3;
    tells(b, 1, 0, told); /* sent at once, because a switch may wait for it */
    assert_saw(b, " kept=1/7 in 64 from=5 kept_answers=3\n");
    told.snapshot_answers = 2;
    tells(b, 1, 0, told);
    assert_string_equal(b->log, "");
    stop(b, 1);
    prepare(b, 2);
    swept(b);
    ports_held(b, 2);
    assert_saw(b, " kept=1/7 in 64\n");
    table(b, 2);
    start(b, 2);
    stop(b, 2);
    prepare(b, 3);
    swept(b);
    ports_held(b, 3);
    assert_saw(b, " kept=1/7 in 64\n"); /* no snapshot was stored in epoch 2 */
}

TEST_IN(progress, report_of_an_ended_epoch_is_ignored)
{
    struct bench *b = a_running_bench(1);
    tells(b, 2, 0, (struct msg_progress){.has_step = true, .step = 1});
    assert_string_equal(b->log, "");
    step_done(b, 3);
    step_done(b, 4);
    trainer_exited(b, 0, 1, 0);
    swept(b);
    step_done(b, 5);
    assert_string_equal(b->log, "");
    pass(b, 1000);
    assert_not_saw(b, "PROGRESS");
}

TEST_IN(stop, planned_stop_passes_in_memory_to_the_scripts)
{
    struct bench *b = a_running_bench(1);
    hears(b, (struct tfe_msg){.type = MSG_STOP,
                              .u.stop = {.epoch = 1, .planned = true, .in_memory = true}});
    assert_saw(b, "SWEEP planned grace=5000 in_memory\n");
    stop(b, 1);
    assert_saw(b, "SWEEP\n");
}

TEST_IN(stop, unplanned_stop_ends_the_grace_of_a_planned_one)
{
    struct bench *b = a_running_bench(1);
    stop_planned(b, 1);
    stop_planned(b, 1);
    assert_string_equal(b->log, "");
    stop(b, 1);
    assert_string_equal(b->log, "SWEEP\n");
    stop(b, 1);
    assert_string_equal(b->log, "");
    bench_free(b);

    b = a_running_bench(1);
    stop_planned(b, 1);
    does(b, (struct agent_event){.type = AGENT_FENCED});
    assert_saw(b, "SWEEP\n");
    bench_free(b);

    b = a_running_bench(1);
    stop_planned(b, 2); /* the plan is for a later epoch, so this one must end now */
    assert_saw(b, "SWEEP\n");
}

static void warned(struct bench *b, enum tfe_notice kind, int64_t within_ms)
{
    does(b, (struct agent_event){
                .type = AGENT_NOTICE,
                .notice = {.kind = kind,
                           .source = "imds",
                           .deadline = within_ms < 0 ? TFE_MONO_NEVER
                                                     : (struct tfe_mono){b->now + within_ms}}});
}

static void taken_back(struct bench *b, enum tfe_notice kind)
{
    does(b,
         (struct agent_event){.type = AGENT_NOTICE, .notice = {.kind = kind, .withdrawn = true}});
}

TEST_IN(notice, notice_contains_the_remaining_time)
{
    struct bench *b = a_running_bench(1);
    does(b,
         (struct agent_event){
             .type = AGENT_NOTICE,
             .notice = {.kind = NOTICE_PREEMPT, .deadline = {b->now + 120000}, .uncertain = true}});
    assert_saw(b, "NOTICE preempt in=120000 uncertain\n");
    assert_int_equal(act(b, (struct agent_event){.type = AGENT_NOTICE, .notice = {.kind = 0}}),
                     TFE_EINVAL);
}

TEST_IN(notice, strongest_notice_is_sent)
{
    struct bench *b = a_running_bench(1);
    warned(b, NOTICE_REBALANCE, -1);
    assert_saw(b, "~notice epoch=0 number=0 imds");
    assert_saw(b, "NOTICE rebalance\n");
    warned(b, NOTICE_MAINTENANCE, 900000);
    assert_saw(b, "NOTICE maintenance in=900000\n");
    warned(b, NOTICE_PREEMPT, 120000);
    assert_saw(b, "NOTICE preempt in=120000\n");
    warned(b, NOTICE_PREEMPT, 120000);
    assert_not_saw(b, "NOTICE"); /* the source repeats it every few seconds */
    taken_back(b, NOTICE_PREEMPT);
    assert_saw(b, "NOTICE maintenance in=900000\n");
    taken_back(b, NOTICE_MAINTENANCE);
    assert_saw(b, "NOTICE rebalance\n");
    taken_back(b, NOTICE_REBALANCE);
    assert_saw(b, "NOTICE rebalance withdrawn\n");
}

/* Bug: after a suspend, the notice was processed before the clock was checked. The next notice
 * then expired together with the last one, and nobody was notified. */
TEST_IN(notice, new_notice_at_the_end_of_the_last_one_counts)
{
    struct bench *b = a_running_bench(1);
    warned(b, NOTICE_PREEMPT, 30000);
    pass_answered(b, 149999);
    b->now++;
    warned(b, NOTICE_PREEMPT, -1);
    assert_saw(b, "~notice epoch=0 number=0 imds");
    assert_saw(b, "NOTICE preempt\n");
    pass_answered(b, 119999);
    assert_not_saw(b, "withdrawn");
    pass(b, 1);
    assert_saw(b, "NOTICE preempt withdrawn\n");
}

static struct bench *a_graceful_bench_of(uint32_t grace_ms)
{
    struct bench *b = bench_new(1, 1);
    b->config.preempt_grace_ms = grace_ms;
    begin(b);
    connected(b);
    welcome(b);
    prepare(b, 1);
    ports_held(b, 1);
    table(b, 1);
    start(b, 1);
    return b;
}

static struct bench *a_graceful_bench(void)
{
    return a_graceful_bench_of(30000);
}

/* Ctrl-C at a terminal does not mean that the machine will be preempted. */
TEST_IN(signal, terminal_signal_is_sent_as_an_interruption)
{
    static const struct {
        uint32_t signo;
        bool is_interrupt;
    } signals[] = {{1, true}, {2, true}, {15, false}};
    for (size_t i = 0; i < 3; i++) {
        struct bench *b = a_graceful_bench();
        signalled(b, signals[i].signo);
        assert_saw(b, signals[i].is_interrupt ? "NOTICE signal in=30000 interrupted\n"
                                              : "NOTICE signal in=30000\n");
        stop_planned(b, 1);
        swept(b);
        assert_saw(b, signals[i].is_interrupt ? "GOODBYE interrupted\n" : "GOODBYE\n");
        bench_free(b);
        b = a_graceful_bench_of(0);
        signalled(b, signals[i].signo);
        assert_not_saw(b, "NOTICE");
        swept(b);
        assert_saw(b, signals[i].is_interrupt ? "GOODBYE interrupted\n" : "GOODBYE\n");
        bench_free(b);
    }
}

/* No server is reachable for the whole time. */
static void pass_alone(struct bench *b, int64_t ms)
{
    const int64_t until = b->now + ms;
    b->n_log = 0;
    b->log[0] = '\0';
    while (!b->over && b->deadline <= until) {
        const size_t before = b->n_log;
        b->now = b->deadline > b->now ? b->deadline : b->now;
        assert_int_equal(step(b, (struct agent_event){.type = AGENT_TICK}), 0);
        if (strstr(b->log + before, "CONNECT\n")) {
            assert_int_equal(
                step(b, (struct agent_event){.type = AGENT_DISCONNECTED,
                                             .lost = {AGENT_LINK_UNREACHABLE, "refused"}}),
                0);
        }
    }
    b->now = until;
}

TEST_IN(signal, signal_while_disconnected_is_sent_after_reconnect)
{
    /* Bug: trainers were killed at once. A restart of the server at the time of an eviction lost
     * all steps since the last checkpoint. */
    struct bench *b = a_graceful_bench();
    lost(b, AGENT_LINK_LOST);
    pass_alone(b, 60000);
    signalled(b, 15);
    pass_alone(b, 1000);
    do {
        pass_until(b, b->deadline);
    } while (!strstr(b->log, "CONNECT\n"));
    const int64_t left = 1060000 + 30000 - b->now;
    char told[64];
    snprintf(told, sizeof(told), "NOTICE signal in=%lld\n", (long long)left);
    connected(b);
    welcome(b);
    assert_saw(b, told);
    pass_answered(b, left - 2001); /* the whole grace period, as with a server */
    assert_not_saw(b, "SWEEP");
    stop_planned(b, 1);
    assert_saw(b, "SWEEP planned grace=5000\n");
    swept(b);
    assert_saw(b, "GOODBYE\nDISCONNECT\n");
    lost(b, AGENT_LINK_LOST);
    assert_string_equal(b->log, "EXIT 143 -\n");
}
