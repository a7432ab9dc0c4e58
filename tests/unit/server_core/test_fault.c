/* tests/unit/server_core/test_fault.c: charges for the end of an epoch, and when the job fails. */
#include "tests/unit/server_core/operator.h"
#include "tests/unit/server_core/plan.h"

static bool is_charged(const char *tail)
{
    struct world *w = a_running_world(1, 2, 2);
    exited_as(w, 1, (struct msg_exited){.epoch = 1, .code = 1, .tail = tail});
    bool charged = strstr(w->log, "~restarts") != NULL;
    assert_int_equal(strstr(w->log, "own_fault") != NULL, charged);
    world_free(w);
    return charged;
}

TEST(verdict, exception_of_the_script_is_its_fault_despite_later_tensorflow_errors)
{
    /* A worker that ends with an exception finds its peers gone in the shutdown barrier and says
     * so. */
    assert_true(
        is_charged("Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n"
                   "    raise ValueError(\"x\")\nValueError: x\n"
                   "E0000 Shutdown barrier in coordination service has failed: ABORTED\n"));
    assert_false(is_charged("Traceback (most recent call last):\n  File \"x.py\", line 1\n"
                            "tensorflow.python.framework.errors_impl.UnavailableError: {{node x}}\n"
                            "Collective ops is aborted by: Connection refused\n"));
    /* The last one is what it ended by. */
    assert_false(is_charged("Traceback (most recent call last):\n  File \"x.py\", line 1\n"
                            "KeyError: 'x'\n\nDuring handling of the above exception, another "
                            "exception occurred:\n\nTraceback (most recent call last):\n"
                            "  File \"x.py\", line 2\n"
                            "errors_impl.UnavailableError: Collective ops is aborted by: reset\n"));
    /* The head of a long traceback does not travel. */
    assert_false(
        is_charged("  File \"x.py\", line 1\nerrors_impl.UnavailableError: Collective ops is "
                   "aborted by: Connection reset\n"));
    assert_true(is_charged("Traceback (most recent call last):\n  File \"x.py\", line 1\n"
                           "errors_impl.InvalidArgumentError: shapes\n"));
    assert_true(is_charged("Traceback (most recent call last):\n"));
    assert_true(is_charged("Traceback (most recent call last):"));
    assert_true(is_charged(""));
}

TEST(budget, five_consecutive_failed_epochs_fail_the_job)
{
    struct world *w = a_running_world(1, 1, 1);
    static const int64_t waits[] = {0, 1000, 2000, 4000};
    for (uint64_t epoch = 1; epoch <= 4; epoch++) {
        exited(w, 0, epoch, 143);
        assert_not_saw(w, "FINISH");
        ready(w, 0, epoch + 1);
        if (waits[epoch - 1]) {
            assert_not_saw(w, "START");
            pass(w, waits[epoch - 1]);
        }
        assert_saw(w, "START");
    }
    exited(w, 0, 5, 143);
    assert_saw(
        w, "0:FINISH failed: job j failed: 5 consecutive epochs made no progress; the last one: "
           "exit code 143 (rank 0 on a)");
    world_free(w);
}

TEST(budget, epoch_with_progress_resets_consecutive_failures)
{
    struct world *w = a_running_world(1, 1, 1);
    for (uint64_t epoch = 1; epoch <= 12; epoch++) {
        if (epoch % 4 == 0) {
            pass(w, 60000);
        }
        exited(w, 0, epoch, 143);
        assert_not_saw(w, "FINISH");
        ready(w, 0, epoch + 1);
        pass(w, 4000);
    }
    world_free(w);
}

TEST(budget, joining_node_resets_consecutive_failures_once)
{
    struct world *w = a_world(1, 2);
    join(w, 0, "a");
    ready(w, 0, 1);
    pass(w, 3000);
    for (uint64_t epoch = 1; epoch <= 3; epoch++) {
        exited(w, 0, epoch, 143);
        ready(w, 0, epoch + 1);
        pass(w, 4000);
    }
    exited(w, 0, 4, 143);
    assert_saw(w, "~verdict job=j node=a epoch=4 number=4 preempted");
    join(w, 1, "b");
    ready(w, 0, 5);
    ready(w, 1, 5);
    pass(w, 8000);
    assert_string_equal(job_state(w), "running");
    for (uint64_t epoch = 5; epoch <= 8; epoch++) {
        forget(w);
        exited(w, 1, epoch, 143);
        char line[64];
        snprintf(line, sizeof(line), "~verdict job=j node=b epoch=%u number=%u preempted",
                 (unsigned)epoch, (unsigned)(epoch - 4));
        assert_saw(w, line);
        stopped_and_ready(w, 0, epoch);
        ready(w, 1, epoch + 1);
        pass(w, 50000); /* back-off goes on doubling, and a minute of running would be progress */
    }
    exited(w, 1, 9, 143);
    assert_saw(w, "FINISH failed: job j failed: 5 consecutive epochs made no progress");
    world_free(w);
}

static void renews_idle(struct world *w, uint32_t idle_ms)
{
    assert_int_equal(
        say(w, 0,
            &(struct tfe_msg){.type = MSG_RENEW, .u.renew = {.number = 99, .idle_ms = idle_ms}}),
        0);
}

/* It evaluates and exports, and was killed after a minute: with an exit code that it never had. */
TEST(budget, rank_0_after_the_end_of_others_is_charged_only_for_silence)
{
    struct world *w = a_running_world(1, 2, 2);
    renews_idle(w, 1700000); /* before, it waited for the other one */
    exited(w, 1, 1, 0);
    pass(w, 7200000);
    assert_not_saw(w, "STOP");
    renews_idle(w, 1799999);
    assert_not_saw(w, "~restarts");
    renews_idle(w, 1800000);
    assert_saw(w, "~restarts job=j node=a epoch=1 number=1");
    assert_saw(w, " progress_timeout");
    assert_saw(w, "0:STOP epoch=1");
    world_free(w);
}

TEST(budget, silent_rank_0_is_reported_without_exit_code)
{
    struct world *w = a_world(2, 2);
    w->join.spec.max_restarts = 0;
    w->join.spec.finish_idle_ms = 90000;
    come(w, 2);
    exited(w, 1, 1, 0);
    pass(w, 100000);
    renews_idle(w, 90000);
    stopped_and_ready(w, 0, 1);
    ready(w, 1, 2);
    pass(w, TTL_HELD_MS + 35000);
    assert_saw(w, "FINISH failed: job j failed: ended after 90 s without "
                  "activity, while other trainers had succeeded (rank 0 on a), after 0 restarts");
    world_free(w);
}

/* --- what is known of an end --- */

static void ends_as(struct msg_exited exited, const char *how, bool charged)
{
    struct world *w = a_running_world(1, 2, 2);
    exited.epoch = 1;
    exited_as(w, 1, exited);
    char line[128];
    snprintf(line, sizeof(line), "~verdict job=j node=b epoch=1 number=%d %s\n",
             strcmp(how, "stopped") == 0 ? 0 : 1, how);
    assert_saw(w, line);
    assert_int_equal(strstr(w->log, "~restarts") != NULL, charged);
    world_free(w);
}

TEST(cause, each_cause_has_its_evidence_and_charge)
{
    ends_as((struct msg_exited){.stopped = true}, "stopped", false);
    ends_as((struct msg_exited){.code = 42}, "preempted", false);
    ends_as((struct msg_exited){.code = 143}, "preempted", false);
    ends_as((struct msg_exited){.signal = 15}, "preempted", false);
    ends_as((struct msg_exited){.code = 1}, "own_fault", true);
    ends_as((struct msg_exited){.signal = 11}, "own_fault", true);
    ends_as((struct msg_exited){.signal = 9, .end = ENDING_OUT_OF_MEMORY}, "out_of_memory", true);
    ends_as((struct msg_exited){.signal = 9, .end = ENDING_START_TIMEOUT}, "start_timeout", true);
    ends_as((struct msg_exited){.signal = 9, .end = ENDING_PROGRESS_TIMEOUT}, "progress_timeout",
            true);
    /* Whatever it said last is not what it was ended for. */
    ends_as(
        (struct msg_exited){.signal = 9,
                            .end = ENDING_PROGRESS_TIMEOUT,
                            .tail = "Traceback (most recent call last):\n  File\nValueError: x"},
        "progress_timeout", true);
    ends_as((struct msg_exited){.signal = 9,
                                .end = ENDING_PROGRESS_TIMEOUT,
                                .tail = "Collective ops is aborted by: heartbeat timeout"},
            "progress_timeout", true);
    ends_as((struct msg_exited){.signal = 6, .end = ENDING_START_FAILED}, "start_timeout", true);
    /* TensorFlow aborts at its start when a peer that it waits for dies. */
    ends_as((struct msg_exited){.signal = 6,
                                .end = ENDING_START_FAILED,
                                .tail = "rpc /tensorflow.CoordinationService/Heartbeat failed"},
            "peer_caused", false);
    ends_as(
        (struct msg_exited){.code = 1,
                            .tail = "UNAVAILABLE: /tensorflow.CoordinationService/RegisterTask"},
        "peer_caused", false);
}

/* What JAX 0.10 (Gloo on a CPU) and PyTorch 2.15 (Gloo) print when another process is killed. */
TEST(cause, output_of_jax_and_torch_distinguishes_peer_loss_from_own_fault)
{
    static const char jax_raises[] =
        "Traceback (most recent call last):\n"
        "  File \"/tmp/jx/loop.py\", line 19, in <module>\n"
        "    w = step(w, x)\n"
        "        ^^^^^^^^^^\n"
        "ValueError: UNKNOWN: Gloo all-reduce failed: "
        "[external/gloo/gloo/transport/tcp/pair.cc:538] Read error [127.0.0.1]:51110: Connection "
        "reset by peer\n"
        "F1129 07:27:19.172937   14285 client.h:80] Terminating process because the JAX "
        "distributed service detected fatal errors. This most likely indicates that another task "
        "died; see the other task logs for more details.\n";
    static const char jax_aborts[] =
        "E1129 07:49:50.470827    1801 coordination_service_agent.cc:289] Polled an error from "
        "coordination service (this can be an error from this or another task).\n"
        "F1129 07:49:50.470832    1801 client.h:80] Terminating process because the JAX "
        "distributed service detected fatal errors. This most likely indicates that another task "
        "died; see the other task logs for more details. absl::Status: UNAVAILABLE: Failed to send "
        "RPC to coordination service. Either the leader task was preempted/died/restarted "
        "unexpectedly or this task is experiencing network issues.\n"
        "Additional GRPC error information from remote target coordination_service while calling "
        "/xla.coordination.CoordinationService/PollForError:\n"
        ":UNKNOWN:Error received from peer  {grpc_message:\"Socket closed\", grpc_status:14}\n"
        "*** Check failure stack trace: ***\n";
    static const char torch_raises[] =
        "Traceback (most recent call last):\n"
        "  File \"/tmp/jx/tl.py\", line 20, in <module>\n"
        "    dist.all_reduce(t); t/= dist.get_world_size(); time.sleep(0.02)\n"
        "    ^^^^^^^^^^^^^^^^^^\n"
        "  File \"/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py\", "
        "line 4181, in all_reduce\n"
        "    work.wait()\n"
        "RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:545] Read "
        "error [127.0.0.1]:20876: Connection reset by peer. This is typically caused by a remote "
        "worker hanging or bugs in the application.\n";
    static const char nccl[] = "Traceback (most recent call last):\n"
                               "torch.distributed.DistBackendError: NCCL error in: "
                               "ProcessGroupNCCL.cpp:77, remote process "
                               "exited or there was a network error, NCCL version 2.29.2\n"
                               "ncclRemoteError: A call failed possibly due to a network error or "
                               "a remote process exiting "
                               "prematurely.\n";
    static const char jax_nccl[] = "Traceback (most recent call last):\n"
                                   "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: NCCL "
                                   "operation ncclGroupEnd() failed: remote "
                                   "process exited or there was a network error\n";
    static const char own_fault[] =
        "Traceback (most recent call last):\n"
        "  File \"/tmp/jx/loop.py\", line 19, in <module>\n"
        "ValueError: my mistake\n"
        "F1129 07:27:19.172937   14285 client.h:80] Terminating process because the JAX "
        "distributed service detected fatal errors. This most likely indicates that another task "
        "died; see the other task logs for more details.\n";
    static const char port_in_use[] =
        "Traceback (most recent call last):\n"
        "  File \"/tmp/jx/tl.py\", line 16, in <module>\n"
        "    dist.init_process_group(\"gloo\")\n"
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
        "network address. port: 18503, useIpv6: false, code: -98, name: EADDRINUSE, message: "
        "address already in use\n";
    ends_as((struct msg_exited){.code = 1, .tail = jax_raises}, "peer_caused", false);
    ends_as((struct msg_exited){.signal = 6, .tail = jax_aborts}, "peer_caused", false);
    ends_as((struct msg_exited){.code = 134, .tail = jax_aborts}, "peer_caused", false);
    ends_as((struct msg_exited){.signal = 6, .end = ENDING_START_FAILED, .tail = jax_aborts},
            "peer_caused", false);
    ends_as((struct msg_exited){.code = 1, .tail = torch_raises}, "peer_caused", false);
    ends_as((struct msg_exited){.code = 1, .tail = nccl}, "peer_caused", false);
    ends_as((struct msg_exited){.code = 1, .tail = jax_nccl}, "peer_caused", false);
    ends_as((struct msg_exited){.code = 1, .tail = own_fault}, "own_fault", true);
    ends_as((struct msg_exited){.code = 1, .tail = port_in_use}, "own_fault", true);
}

TEST(cause, silent_peer_excuses_an_exit_without_output)
{
    /* Its machine stands still, and may go on before its lease is over: then nobody was lost. */
    struct world *w = a_running_world(1, 2, 2);
    w->renews[1] = false;
    pass(w, 9000);
    exited(w, 0, 1, 1);
    assert_saw(w, "peer_caused");
    assert_not_saw(w, "~restarts");
    world_free(w);

    w = a_running_world(1, 2, 2);
    w->renews[1] = false;
    pass(w, 9000);
    exited_as(
        w, 0,
        (struct msg_exited){.epoch = 1,
                            .code = 1,
                            .tail = "Traceback (most recent call last):\n  File\nValueError: x"});
    assert_saw(w, "own_fault"); /* it has said what it was */
    world_free(w);

    w = a_running_world(1, 2, 2);
    w->renews[1] = false;
    pass(w, 9000);
    exited_as(w, 0, (struct msg_exited){.epoch = 1, .signal = 9, .end = ENDING_PROGRESS_TIMEOUT});
    assert_saw(w, "peer_caused"); /* it was silent because it waited */
    assert_not_saw(w, "~restarts");
    world_free(w);
}

/* --- quarantine --- */

TEST(quarantine, earlier_peer_failures_are_not_counted)
{
    struct world *w = a_running_world(1, 2, 1);
    pass(w, 60000);
    join(w, 1, "b");
    ready(w, 1, 2);
    stopped_and_ready(w, 0, 1);
    exited_as(
        w, 0,
        (struct msg_exited){.epoch = 2, .code = 1, .tail = "Collective ops is aborted by: x"});
    assert_saw(w, "~verdict job=j node=a epoch=2 number=1 peer_caused");
    exited(w, 1, 2, 1);
    assert_saw(w, "~node_quarantined");
    ready(w, 0, 3);
    exited_as(
        w, 0,
        (struct msg_exited){.epoch = 3, .code = 1, .tail = "Collective ops is aborted by: x"});
    assert_saw(w, "epoch=3 number=1 ");
    world_free(w);
}

/* --- a script that cannot start --- */

/* The n members of a first epoch that nobody is told to listen in, without --retry-start. */
static struct world *a_first_start(uint32_t n)
{
    struct world *w = a_world(n, n);
    w->holds_leader = true;
    w->join.spec.retry_start = false;
    come(w, n);
    if (n > 1) {
        pass(w, 400); /* START to all */
    }
    return w;
}

static const struct msg_exited no_module = {
    .epoch = 1,
    .code = 1,
    .tail = "Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n"
            "ModuleNotFoundError: No module named 'tensroflow'\n"};

static void assert_reason(struct world *w, const char *reason, uint32_t retry_ms)
{
    struct msg_status_job row;
    char room[MSG_SENTENCE_MAX];
    assert_int_equal(rdzv_find_job(w->r, "j", &row), 0);
    rdzv_view_reason(w->r, &row, room);
    if (reason) {
        assert_string_equal(row.reason, reason);
    } else {
        assert_null(row.reason);
    }
    assert_int_equal(row.retry_ms, retry_ms);
}

TEST(start, same_failure_on_all_ranks_at_start_fails_the_job)
{
    struct world *w = a_first_start(2);
    exited_as(w, 0, no_module);
    assert_not_saw(w, "~switch"); /* the other one is about to say the same */
    exited_as(w, 1, no_module);
    assert_string_equal(job_state(w), "failed");
    assert_saw(w, "job j failed: ModuleNotFoundError: No module named 'tensroflow' (x.py:1, rank 0 "
                  "on a and 1 "
                  "other); not retried: every rank failed before training began");
    assert_reason(w,
                  "ModuleNotFoundError: No module named 'tensroflow' (x.py:1, rank 0 on a and 1 "
                  "other); not retried: every rank failed before training began (--retry-start "
                  "retries)",
                  0);
    world_free(w);

    w = a_first_start(1);
    exited_as(w, 0, (struct msg_exited){.epoch = 1, .code = 2, .tail = "usage: x.py\n"});
    assert_string_equal(job_state(w), "failed");
    world_free(w);
}

TEST(start, same_failure_on_all_ranks_is_reported_by_the_lowest_rank)
{
    struct world *w = a_first_start(3);
    exited_as(w, 2, no_module);
    exited_as(w, 0, no_module);
    exited_as(w, 1, no_module);
    assert_saw(w, "job j failed: ModuleNotFoundError: No module named 'tensroflow' (x.py:1, rank 0 "
                  "on a and 2 others); not retried");
    world_free(w);
}

TEST(failure, last_failure_and_retry_time_are_shown_until_progress)
{
    struct world *w = a_world(2, 2);
    struct msg_exited second = no_module;
    come(w, 2);
    pass(w, 4000);
    assert_reason(w, NULL, 0);
    exited_as(w, 0, no_module);
    second.tail = "Traceback (most recent call last):\n  File \"y.py\", line 2, in <module>\n"
                  "tensorflow.python.framework.errors_impl.UnavailableError: aborted\n";
    exited_as(w, 1, second);
    assert_reason(w, "ModuleNotFoundError: No module named 'tensroflow' (x.py:1, rank 0 on a)",
                  1000);
    ready(w, 0, 2);
    ready(w, 1, 2);
    pass(w, 1000);
    assert_string_equal(job_state(w), "running");
    assert_reason(w, "ModuleNotFoundError: No module named 'tensroflow' (x.py:1, rank 0 on a)", 0);
    listens(w, 0, 2, 1);
    assert_reason(w, NULL, 0);
    world_free(w);
}

TEST(failure, failure_in_a_job_with_roles_names_the_replica)
{
    struct world *w = a_world(1, 2);
    w->join.spec.chief = true;
    w->join.spec.max_restarts = 0;
    come(w, 2);
    pass(w, 4000);
    exited_as(w, 1, no_module);
    pass(w, TTL_HELD_MS);
    assert_saw(w, "job j failed: ModuleNotFoundError: No module named 'tensroflow' (x.py:1, "
                  "worker-0 on b), after 0 restarts");
    world_free(w);
}

/* Where no restart was to be had, the charge for the first rank's word was still called the end. */
TEST(start, failed_start_uses_no_restart_budget)
{
    struct world *w = a_world(2, 2);
    w->holds_leader = true;
    w->join.spec.retry_start = false;
    w->join.spec.max_restarts = 0;
    come(w, 2);
    pass(w, 400);
    exited_as(w, 0, no_module);
    exited_as(w, 1, no_module);
    assert_saw(w, "job j failed: ModuleNotFoundError: No module named 'tensroflow' (x.py:1, rank 0 "
                  "on a and 1 "
                  "other); not retried: every rank failed before training began");
    assert_false(rdzv_get_run(w->r, "j").is_used_up);
    world_free(w);
}

TEST(start, different_failures_of_ranks_are_retried_after_a_second)
{
    struct world *w = a_first_start(2);
    exited_as(w, 0, no_module);
    pass(w, 999);
    assert_not_saw(w, "~switch");
    pass(w, 1);
    assert_saw(w, "~switch");
    world_free(w);

    w = a_first_start(2);
    struct msg_exited other = no_module;
    other.tail = "Traceback (most recent call last):\n  File \"x.py\"\nOSError: no room\n";
    exited_as(w, 0, no_module);
    exited_as(w, 1, other);
    assert_saw(w, "~switch");
    assert_string_equal(job_state(w), "preparing");
    world_free(w);
}

TEST(start, late_or_repeated_failure_is_retried)
{
    struct world *w = a_first_start(1);
    pass(w, 3001);
    exited_as(w, 0, no_module);
    assert_saw(w, "~restarts job=j node=a epoch=1 number=1");
    ready(w, 0, 2);
    pass(w, 1000);
    assert_saw(w, "START epoch=2");
    struct msg_exited again = no_module;
    again.epoch = 2;
    exited_as(w, 0, again);
    assert_saw(w, "~restarts job=j node=a epoch=2 number=2");
    world_free(w);
}

TEST(start, failure_is_retried_by_policy_or_after_a_signal)
{
    struct world *w = a_world(1, 1);
    come(w, 1); /* with --retry-start */
    exited_as(w, 0, no_module);
    assert_saw(w, "~restarts");
    world_free(w);

    w = a_first_start(1);
    exited_as(w, 0, (struct msg_exited){.epoch = 1, .signal = 11, .tail = ""});
    assert_saw(w, "~restarts");
    world_free(w);
}

TEST(fault, unnamed_signal_is_reported_by_number)
{
    struct world *w = a_world(1, 1);
    w->join.spec.max_restarts = 0;
    come(w, 1);
    trainer_listens(w, 0, 1);
    exited_as(w, 0, (struct msg_exited){.epoch = 1, .signal = 40});
    assert_saw(w, "ended by signal 40 (rank 0 on a)");
    world_free(w);
}

TEST(fault, permanent_fault_ends_the_job_also_below_min)
{
    struct world *w = a_world(2, 2);
    w->join.spec.max_restarts = 0;
    come(w, 2);
    trainer_listens(w, 1, 1);
    exited_as(w, 0, (struct msg_exited){.epoch = 1, .code = 3, .tail = "ValueError: no"});
    drain(w, "b");
    trainers_stop(w, 1, 1);
    ready(w, 0, 2);
    assert_string_equal(job_state(w), "waiting");
    pass(w, 20000);
    assert_string_equal(job_state(w), "failed");
    world_free(w);
}
