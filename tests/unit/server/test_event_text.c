/* tests/unit/server/test_event_text.c: text of the events about the server's actions. */
#include <stdlib.h>
#include <string.h>

#include "common/base/heap.h"
#include "server/events/event_text.h"
#include "tests/unit/test_runner.h"

static struct rdzv *core;
static struct events *events;

static int make(void **state)
{
    (void)state;
    struct rdzv_config config = {
        .incarnation = 1, .ttl_ms = 10000, .exit_grace_ms = 60000, .max_sessions = 8};
    return rdzv_new(&config, &heap_mem, &core) || events_new(core, &events) ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    events_free(events);
    rdzv_free(core);
    return 0;
}

#define FIXTURE make, end

/* Asserts kind, level and text of the newest event. */
static void check(const char *kind, enum tfe_event_level level, const char *message)
{
    const struct msg_event_row *row = events_next(events, NULL, events_newest(events) - 1);
    assert_non_null(row);
    assert_string_equal(row->kind, kind);
    assert_int_equal(row->level, level);
    assert_string_equal(row->message, message);
}

static struct rdzv_trace of_ann(enum rdzv_trace_kind kind, uint64_t number, const char *text)
{
    return (struct rdzv_trace){.kind = kind,
                               .job = "j",
                               .node = "n1",
                               .name = "ann",
                               .epoch = 7,
                               .number = number,
                               .text = text};
}

TEST_IN(event, each_trace_gives_one_plain_sentence)
{
    static const struct {
        enum rdzv_trace_kind trace;
        uint64_t number;
        const char *text;
        const char *kind;
        enum tfe_event_level level;
        const char *message;
    } all[] = {
        {TRACE_NODE_JOINED, 0, "ann", "node_joined", EVENT_INFO, "ann has joined"},
        {TRACE_NODE_BACK, 0, NULL, "node_back", EVENT_INFO, "ann is connected again"},
        {TRACE_NODE_READY, 0, "h", "node_ready", EVENT_INFO,
         "ann is ready, its trainers are reachable at h"},
        {TRACE_NODE_UNREACHED, 0, "h:1", "node_unreached", EVENT_WARN,
         "ann has not been reached at h:1 yet"},
        {TRACE_NODE_DEAD, 0, "its guard", "node_dead", EVENT_WARN,
         "all processes of ann have ended, as proven by its guard"},
        {TRACE_NODE_SUSPECT, 0, NULL, "node_suspect", EVENT_WARN,
         "ann disconnected without GOODBYE: it is lost when its lease expires"},
        {TRACE_NODE_LOST, 0, "its lease expired", "node_lost", EVENT_WARN,
         "ann is lost: its lease expired"},
        {TRACE_NODE_LEFT, 0, NULL, "node_left", EVENT_INFO, "ann has left"},
        {TRACE_NODE_QUARANTINED, 90000, "own_fault", "node_quarantined", EVENT_WARN,
         "ann is quarantined for 1m30s: its trainers fail while those of other nodes do not "
         "(own_fault)"},
        {TRACE_NODE_REFUSED, 0, "the job has other sizes", "node_refused", EVENT_WARN,
         "ann was refused: the job has other sizes"},
        {TRACE_WORKER_RESTART, 2, NULL, "worker_restart", EVENT_INFO,
         "the trainer of ann restarts, restart 2 in epoch 7, which continues"},
        {TRACE_WORKER_MISSING, 0, "it leaves", "worker_missing", EVENT_WARN,
         "epoch 7 continues without the worker on ann (it leaves)"},
        {TRACE_WORKER_DONE, 1, NULL, "worker_done", EVENT_INFO,
         "the worker on ann has ended with exit status 0"},
        {TRACE_EVALUATOR, 1, "restarts", "evaluator", EVENT_INFO, "the evaluator on ann restarts"},
        {TRACE_SWITCH, 0, "node_lost", "switch", EVENT_INFO, "epoch 7 ends (node_lost)"},
        {TRACE_EPOCH, 3, "joined", "epoch", EVENT_INFO, "epoch 7 begins with 3 nodes (joined)"},
        {TRACE_REBUILT, 3, NULL, "rebuilt", EVENT_WARN,
         "epoch 7 was rebuilt from the reports of 3 nodes"},
        {TRACE_WAIT_FENCE, 61000, NULL, "wait_fence", EVENT_WARN,
         "the next epoch waits up to 1m01s for the fence of a lost node's trainers"},
        {TRACE_MASS_LOSS, 5000, "half are gone", "mass_loss", EVENT_ERROR,
         "leases are held for 5.0s: half are gone"},
        {TRACE_WRITE_FAILED, 1000, NULL, "write_failed", EVENT_ERROR,
         "cannot write the record of the next epoch; next try in 1.0s"},
        {TRACE_NODE_ALONE, 1, NULL, "node_alone", EVENT_WARN,
         "ann, rank 1, does not use the cluster that TF_CONFIG gives it: it neither listens at its "
         "address nor is connected to rank 0, and trains alone"},
        {TRACE_NODE_STAYS, 0, "ann", "node_stays", EVENT_INFO,
         "the termination notice of ann was withdrawn"},
        {TRACE_SAVE, 1, NULL, "save", EVENT_INFO, "a checkpoint is requested from the scripts"},
        {TRACE_SAVED, 2000, NULL, "saved", EVENT_INFO,
         "the scripts have saved a checkpoint, 2.0s after the request"},
        {TRACE_GROWTH_WAITS, 0, "waits for a checkpoint", "growth_waits", EVENT_INFO,
         "growth waits for a checkpoint"},
        {TRACE_NODE_EXITED, 3, "Traceback\nKeyError: 'x'\n\n", "node_exited", EVENT_WARN,
         "a trainer of ann has failed with code 3: KeyError: 'x'"},
        {TRACE_NODE_EXITED, 255, "", "node_exited", EVENT_WARN,
         "a trainer of ann has failed with code 255"},
        {TRACE_VERDICT, 0, "own_fault", "verdict", EVENT_INFO,
         "verdict: the trainer of ann failed by its own fault"},
        {TRACE_VERDICT, 0, "peer_caused", "verdict", EVENT_INFO,
         "verdict: the trainer of ann ended because another trainer failed"},
        {TRACE_RESTARTS, 2, NULL, "restarts", EVENT_INFO, "restart 2 of the budget is used"},
        {TRACE_RESTARTS, 0, "10 minutes of progress", "restarts", EVENT_INFO,
         "the number of used restarts was lowered to 0: 10 minutes of progress"},
        {TRACE_NODE_NOTICED, 30000, "preempt", "node_noticed", EVENT_WARN,
         "ann will terminate in 30s (preempt)"},
        {TRACE_JOB_FINISHED, 0, "", "job_finished", EVENT_INFO, "the job has ended"},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const struct rdzv_trace trace = of_ann(all[i].trace, all[i].number, all[i].text);
        const uint64_t before = events_newest(events);
        event_of_trace(events, &trace);
        assert_int_equal(events_newest(events), before + 1);
        check(all[i].kind, all[i].level, all[i].message);
    }
}

TEST_IN(event, of_a_trainer_names_a_signal_only_if_one_ended_it)
{
    struct rdzv_trace trace = of_ann(TRACE_NODE_EXITED, 128 + 11, "");
    trace.is_signal = true;
    event_of_trace(events, &trace);
    check("node_exited", EVENT_WARN, "a trainer of ann was ended by signal 11");
    trace.is_signal = false;
    event_of_trace(events, &trace);
    check("node_exited", EVENT_WARN, "a trainer of ann has failed with code 139");
}

TEST_IN(event, hint_is_described_as_possible)
{
    struct rdzv_trace trace = of_ann(TRACE_NODE_NOTICED, 0, "rebalance");
    trace.uncertain = true;
    event_of_trace(events, &trace);
    check("node_noticed", EVENT_WARN, "ann may terminate (rebalance)");
}

TEST_IN(event, stopped_or_successful_trainer_gives_no_event)
{
    struct rdzv_trace trace = of_ann(TRACE_NODE_EXITED, 143, "");
    trace.stopped = true;
    event_of_trace(events, &trace);
    trace = of_ann(TRACE_NODE_EXITED, 0, "");
    event_of_trace(events, &trace);
    assert_int_equal(events_newest(events), 0);
}

TEST_IN(event, node_without_label_is_named_by_id_or_as_an_agent)
{
    struct rdzv_trace trace = of_ann(TRACE_NODE_LEFT, 0, NULL);
    trace.name = "";
    event_of_trace(events, &trace);
    check("node_left", EVENT_INFO, "n1 has left");
    trace = (struct rdzv_trace){.kind = TRACE_NODE_REFUSED, .text = "it comes too late"};
    event_of_trace(events, &trace);
    check("node_refused", EVENT_WARN, "an agent was refused: it comes too late");
}

TEST_IN(event, first_step_contains_the_duration_of_each_phase)
{
    struct msg_epoch_row row = {.run = 1, .epoch = 7};
    row.at[EPOCH_DETECTED].ms = 1000;
    row.at[EPOCH_STOPPED].ms = 1010;
    row.at[EPOCH_GATHERED].ms = 1300;
    row.at[EPOCH_COMMITTED].ms = 1305;
    row.at[EPOCH_PROGRESSED].ms = 62305;
    event_of_first_step(events, "j", &row);
    check("first_step", EVENT_INFO,
          "epoch 7 trains: 10 ms until STOP, 290 ms until all were ready, 5 ms on disk, 1m01s to "
          "the first step");
}
