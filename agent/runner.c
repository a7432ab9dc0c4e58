/* agent/runner.c: implementation of runner.h: one libevent loop around the core. */
#include "agent/runner.h"

#include <event2/event.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/core/agent.h"
#include "agent/gpu_wait.h"
#include "agent/health.h"
#include "agent/job_log.h"
#include "agent/os/prober.h"
#include "agent/os/responder.h"
#include "agent/os/termination_file.h"
#include "agent/output/log_serve.h"
#include "agent/output/log_writer.h"
#include "agent/output/output_ring.h"
#include "agent/pending.h"
#include "agent/pool/handover.h"
#include "agent/preemption/preemption.h"
#include "agent/script_channel/checkpoints.h"
#include "agent/script_channel/script_line.h"
#include "agent/script_channel/scripts.h"
#include "agent/server_report.h"
#include "agent/trainer/trainers.h"
#include "agent/uplink.h"
#include "common/base/clock.h"
#include "common/base/heap.h"
#include "common/base/rate.h"
#include "common/base/timer.h"
#include "common/channel/endpoint.h"
#include "common/cli/log.h"
#include "common/cli/sd_notify.h"
#include "common/cli/signals.h"
#include "common/cli/stdio.h"
#include "common/credentials/node_secrets.h"

/* Time to write queued log data at the end. */
#define LOGS_END_MS 2000
/* Rate limit of printed lines that report progress: interval and burst. */
#define PRINTED_EACH_MS 50
#define PRINTED_AT_ONCE 20
/* Interval of log entries about a slow import. */
#define IMPORT_REPORT_MS 1000
/* Upper bound of the time until all threads of a killed program are gone. */
#define ONE_SIGNAL_MS 1000

struct runner {
    const struct runner_options *options;
    struct event_base *base;
    struct event *timer;
    struct event *watchdog, *pool;
    struct event *quit[TERMINATION_SIGNALS];
    struct tfe_mono repeat_until; /* until then another SIGTERM counts as the same one */
    struct agent *core;
    struct uplink *uplink;
    struct trainers *trainers;
    struct scripts *scripts;
    struct script_line *lines;
    struct rate printed; /* rate limiter of lines that report progress */
    struct report *report;
    struct health *health;
    struct gpu_wait *gpu_wait;
    struct log_writer *logs;
    struct output_ring ring; /* recent output of all trainers */
    struct log_serve *serve;
    struct output_show show;
    struct responder *responder;
    struct prober *prober;
    struct notice_watch *notices;
    struct tfe_id node_name;
    struct agent_config config;
    /* proofs of termination found on this machine */
    char proofs[TERMINATION_FILES_MAX][PROOF_CHARS + 1];
    bool stepping;
    struct pending pending;
    /* ports are reserved once the standby of a node that is not needed yet is warm */
    bool hold_pending;
    uint64_t hold_epoch;
    bool hold_fresh;
    int64_t start_us; /* when the last START arrived */
    struct job_log log;
    struct event *import_timer;
    int64_t import_since_us;
    /* the trainer of the job's rank 0 runs here and has not reported that its artifacts are stored
     */
    bool has_artifacts_due;
    bool over;
    int exit_code;
};

static void on_event(void *ctx, const struct agent_event *event);

static void hold_ports_now(struct runner *r)
{
    struct agent_event event = {.type = AGENT_PORTS_HELD};
    struct tfe_reason reason;
    const uint16_t *ports;
    r->hold_pending = false;
    if (ports_hold(r->options->ports, r->hold_epoch, r->hold_fresh, &ports, &reason)) {
        event.type = AGENT_PORTS_FAILED;
        event.reason = reason.text;
    } else {
        event.ports.epoch = r->hold_epoch;
        event.ports.v = ports;
        event.ports.n = r->config.spec.nproc;
    }
    event.now = clock_mono();
    on_event(r, &event);
}

static void hold_ports_if_fit(struct runner *r)
{
    const bool is_fit = health_is_good(r->health); /* starts the checks while the standby imports */
    if (r->hold_pending && is_fit && gpu_wait_is_over(r->gpu_wait) &&
        standbys_are_settled(trainers_standbys(r->trainers))) {
        hold_ports_now(r);
    }
}

static void on_health(void *ctx, const char *reason)
{
    struct runner *r = ctx;
    char sentence[MSG_SENTENCE_MAX];
    report_check(r->report, reason);
    if (reason && r->hold_pending) {
        snprintf(sentence, sizeof sentence, "a check of this machine failed: %s", reason);
        job_log_waiting(&r->log, sentence, 0, 0);
    }
    if (!reason) {
        hold_ports_if_fit(r);
    }
}

/* Reserves ports, after which the core sends READY. A new node does so once its standby is warm,
 * so that running trainers wait only for its start and not for its import. */
static void hold_ports(struct runner *r, const struct agent_action *action)
{
    r->hold_epoch = action->hold.epoch;
    r->hold_fresh = action->hold.fresh;
    r->hold_pending = true;
    hold_ports_if_fit(r);
    if (r->hold_pending && !standbys_are_settled(trainers_standbys(r->trainers))) {
        r->import_since_us = clock_us();
        timer_after(r->import_timer, IMPORT_REPORT_MS);
    }
}

static void on_import_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct runner *r = ctx;
    if (r->hold_pending && !standbys_are_settled(trainers_standbys(r->trainers))) {
        const char *modules = r->options->settings->standby.preload;
        char sentence[MSG_SENTENCE_MAX];
        snprintf(sentence, sizeof sentence, "importing %s",
                 modules ? modules : "the script's modules (TensorFlow takes seconds)");
        job_log_waiting(&r->log, sentence, (uint32_t)((clock_us() - r->import_since_us) / 1000), 0);
        timer_after(r->import_timer, IMPORT_REPORT_MS);
    }
}

static void on_gpu_wait_over(void *ctx)
{
    hold_ports_if_fit(ctx);
}

static void on_settled(void *ctx)
{
    hold_ports_if_fit(ctx);
}

static void answer(struct runner *r, const struct agent_action *action)
{
    struct tfe_reason reason;
    if (!action->respond.on) {
        responder_close(r->responder);
    } else if (responder_open(r->responder, action->respond.ports, action->respond.n_ports,
                              &reason)) {
        log_error("no_answer_to_probes",
                  LOG_S("reason", reason.text)); /* the server reports it as well */
    }
}

static void on_probed(void *ctx, uint64_t probe, enum tfe_probe_result result);

static void try_ports(struct runner *r, const struct msg_probe *probe)
{
    log_debug("probe", LOG_S("kind", msg_probe_kind_name(probe->kind)), LOG_S("of", probe->node),
              LOG_S("host", probe->host));
    if (prober_start(r->prober, probe, uplink_is_loopback(r->uplink))) {
        on_probed(r, probe->probe, PROBE_NO_ANSWER);
    }
}

/* Only scripts that listen or handle SIGTERM can use a grace period. TensorFlow swallows the
 * signal, so waiting for others gains nothing. */
static void sweep(struct runner *r, const struct agent_action *action)
{
    uint32_t grace_ms = action->sweep.grace_ms;
    uint64_t handlers = 0;
    bool has_listeners =
        action->sweep.planned &&
        scripts_stop(r->scripts, action->sweep.epoch, grace_ms, action->sweep.in_memory, &handlers);
    trainers_sweep(r->trainers, has_listeners || handlers || action->sweep.waits ? grace_ms : 0,
                   handlers);
}

/* Passes the result of CHECK_OUT to the core. The script may differ, or be missing. */
static void on_checked_out(void *ctx, const char *reason)
{
    struct runner *r = ctx;
    const struct runner_options *o = r->options;
    struct agent_event event = {.type = AGENT_CHECKED_OUT, .checkout = {.reason = reason}};
    struct command command;
    struct tfe_reason missing;
    if (!reason && git_source_command(o->git_source, o->settings, o->operands, o->n_operands,
                                      &command, &missing)) {
        event.checkout.reason = missing.text;
    } else if (!reason) {
        event.checkout.commit = o->settings->agent.spec.commit;
        event.checkout.script_digest = o->command->digest = command.digest;
        command_done(&command);
    }
    event.now = clock_mono();
    on_event(r, &event);
}

static void end(struct runner *r, int code, const char *sentence)
{
    r->over = true;
    r->exit_code = code;
    job_log_end(&r->log, code, sentence, r->config.run_key != NULL);
    event_base_loopbreak(r->base);
}

static void execute_action(struct runner *r, const struct agent_action *action)
{
    switch (action->type) {
    case AGENT_CONNECT:
        uplink_connect(r->uplink);
        return;
    case AGENT_DISCONNECT:
        uplink_finish(r->uplink);
        return;
    case AGENT_HANG_UP:
        uplink_hang_up(r->uplink);
        return;
    case AGENT_SEND:
        uplink_send(r->uplink, &action->msg);
        return;
    case AGENT_HOLD_PORTS:
        hold_ports(r, action);
        return;
    case AGENT_RESPOND:
        answer(r, action);
        return;
    case AGENT_PROBE:
        try_ports(r, action->probe);
        return;
    case AGENT_SPAWN:
        job_log_begin(&r->log, action->spawn.rank);
        scripts_begin(r->scripts, action->spawn.epoch, action->spawn.rank);
        report_begin(r->report, action->spawn.epoch, action->spawn.rank,
                     (uint32_t)action->spawn.n_rows);
        notice_watch_set_running(r->notices, true);
        r->has_artifacts_due = r->options->settings->artifacts.uri && action->spawn.rank == 0;
        trainers_spawn(r->trainers, &action->spawn, r->start_us);
        return;
    case AGENT_SWEEP:
        r->log.is_sweeping = true;
        sweep(r, action);
        return;
    case AGENT_SAVE:
        scripts_save(r->scripts, action->save.epoch, action->save.number, action->save.deadline,
                     action->save.in_memory);
        return;
    case AGENT_CHECK_OUT:
        git_source_change(r->options->git_source, r->base, action->commit, on_checked_out, r);
        return;
    case AGENT_FENCE:
        trainers_fence(r->trainers, action->fence);
        return;
    case AGENT_EXIT:
        end(r, action->exit.code, action->exit.sentence);
        return;
    case AGENT_TRACE:
        job_log_trace(&r->log, &action->trace);
        return;
    }
}

static void set_timer(struct runner *r, struct tfe_mono deadline)
{
    if (tfe_mono_is_never(deadline)) {
        evtimer_del(r->timer);
        return;
    }
    timer_after(r->timer, tfe_mono_sub(deadline, clock_mono()));
}

/* Passes events of trainers to the script channel. */
static void notify_scripts(struct runner *r, const struct agent_event *event)
{
    if (event->type == AGENT_TRAINER_EXITED) {
        scripts_trainer_ended(r->scripts, event->end.local_rank);
        if (!r->log.is_sweeping && (event->end.code != 0 || event->end.signal != 0)) {
            health_forget(r->health);
        }
    } else if (event->type == AGENT_SWEPT || event->type == AGENT_GUARD_LOST) {
        scripts_end(r->scripts);
        report_end(r->report);
        gpu_wait_begin(r->gpu_wait);
    }
}

/* Passes events to the report for operators. */
static void notify_report(struct runner *r, const struct agent_event *event)
{
    if (event->type == AGENT_MESSAGE && event->msg->type == MSG_WELCOME) {
        report_up(r->report);
    } else if (event->type == AGENT_DISCONNECTED) {
        report_down(r->report);
    } else if (event->type == AGENT_SPAWNED) {
        report_trainer(r->report, event->process.local, event->process.pid);
    } else if (event->type == AGENT_STANDBY) {
        report_standby(r->report, event->process.tensorflow);
    }
}

/* Makes a failure of a success whose artifacts were not stored. Without this check, os._exit(0)
 * in the script would be a success without them. */
static void require_artifacts(const struct runner *r, struct agent_event *event)
{
    const struct msg_exited *end = &event->end;
    if (event->type == AGENT_TRAINER_EXITED && r->has_artifacts_due && !r->log.is_sweeping &&
        end->local_rank == 0 && end->code == 0 && end->signal == 0) {
        event->end.code = 1;
        event->end.tail =
            "artifacts were not stored: the trainer's process ended with exit status 0 "
            "before its script did (os._exit)";
    }
}

static void step(struct runner *r, const struct agent_event *given)
{
    struct agent_event checked = *given;
    const struct agent_event *event = &checked;
    r->log.is_preparing = r->hold_pending;
    notify_scripts(r, event); /* reads what trainers have reported before their end */
    require_artifacts(r, &checked);
    job_log_event(&r->log, event);
    if (event->type == AGENT_TRAINER_EXITED || event->type == AGENT_SWEPT) {
        log_serve_flush(r->serve); /* before the server learns of the end */
    }
    struct agent_actions actions;
    int rc = agent_step(r->core, event, &actions);
    if (rc) {
        log_warn("event_refused", LOG_I("event", event->type),
                 LOG_S("reason", tfe_error_sentence(rc)));
        if (event->type == AGENT_MESSAGE) {
            uplink_hang_up(r->uplink);
        }
        return;
    }
    if (event->type == AGENT_SWEPT || event->type == AGENT_GUARD_LOST) {
        notice_watch_set_running(r->notices, false);
    }
    for (size_t i = 0; i < actions.n && !r->over; i++) {
        execute_action(r, &actions.v[i]);
    }
    if (!r->over) {
        notify_report(r, event);
    }
    if (!r->over) {
        set_timer(r, actions.deadline);
    }
}

static void on_event(void *ctx, const struct agent_event *event)
{
    struct runner *r = ctx;
    if (event->type == AGENT_MESSAGE && event->msg->type == MSG_START) {
        r->start_us = clock_us();
    }
    if (r->over) {
        return;
    }
    if (r->stepping) {
        pending_add(&r->pending, event);
        return;
    }
    r->stepping = true;
    for (; event && !r->over; event = pending_next(&r->pending)) {
        step(r, event);
    }
    r->stepping = false;
}

static void on_probed(void *ctx, uint64_t probe, enum tfe_probe_result result)
{
    log_debug("probed", LOG_S("result", msg_probe_result_name(result)));
    on_event(ctx, &(struct agent_event){
                      .type = AGENT_PROBED, .now = clock_mono(), .probed = {probe, result}});
}

static void on_proof(void *ctx, const char *certificate)
{
    on_event(ctx, &(struct agent_event){
                      .type = AGENT_PROOF, .now = clock_mono(), .certificate = certificate});
}

static void on_script_progress(void *ctx, uint32_t local, bool has_trained,
                               const struct msg_progress *progress)
{
    struct runner *r = ctx;
    if (has_trained) {
        trainers_stepped(r->trainers, local);
    }
    if (progress->has_step && has_trained) {
        report_step(r->report, progress->step);
    }
    on_event(ctx, &(struct agent_event){
                      .type = AGENT_PROGRESS, .now = clock_mono(), .progress = {local, *progress}});
}

static void on_artifact(struct runner *r, uint32_t local, const struct script_message *message)
{
    if (local == 0 && r->has_artifacts_due) {
        r->has_artifacts_due = message->artifact != ARTIFACT_STORED;
        watch_copies(trainers_watch(r->trainers), local);
        report_artifact(r->report, message);
    }
}

static void on_script_message(void *ctx, uint32_t local, const struct script_message *message)
{
    struct runner *r = ctx;
    if (message->type == SCRIPT_PROGRESS) {
        report_metrics(r->report, local, message);
    } else if (message->type == SCRIPT_ARTIFACT) {
        on_artifact(r, local, message);
    } else if (message->type == SCRIPT_ENDS) {
        trainers_main_ended(r->trainers, local, message->code);
    } else if (message->remark == REMARK_STRATEGY_MADE) {
        watch_strategy_made(trainers_watch(r->trainers), local);
    } else if (message->remark == REMARK_IMPORTED) {
        standbys_note_import(trainers_standbys(r->trainers), message->reason);
    }
}

/* Rate-limits the progress of a script that prints a lot. */
static void on_line(void *ctx, const char *line, size_t n)
{
    struct runner *r = ctx;
    struct script_message message;
    if (script_line_read(r->lines, line, n, &message) &&
        rate_pass(&r->printed, clock_mono(), PRINTED_EACH_MS, PRINTED_AT_ONCE)) {
        scripts_printed(r->scripts, 0, &message);
    }
}

static void send_report(void *ctx, const struct tfe_msg *msg)
{
    struct runner *r = ctx;
    uplink_offer(r->uplink, msg);
}

static enum tfe_standby standby_state(void *ctx)
{
    const struct runner *r = ctx;
    return standbys_state(trainers_standbys(r->trainers));
}

static uint64_t printed_bytes(void *ctx)
{
    const struct runner *r = ctx;
    return trainers_printed(r->trainers);
}

static void report_idle(void *ctx, struct tfe_mono since)
{
    const struct runner *r = ctx;
    watch_set_idle(trainers_watch(r->trainers), !tfe_mono_is_never(since));
    on_event(ctx,
             &(struct agent_event){.type = AGENT_IDLE, .now = clock_mono(), .idle_since = since});
}

static void on_notice(void *ctx, const struct agent_notice *notice, const char *from)
{
    struct agent_event event = {.type = AGENT_NOTICE, .now = clock_mono(), .notice = *notice};
    event.notice.source = from;
    on_event(ctx, &event);
}

static void on_cloud(void *ctx, const struct cloud_info *info)
{
    const struct runner *r = ctx;
    report_cloud(r->report, info);
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    on_event(ctx, &(struct agent_event){.type = AGENT_TICK, .now = clock_mono()});
}

/* Returns true for repeated signals. PDEATHSIG arrives once per thread of the pool's program
 * when it dies, which is one request to leave. */
static bool is_repeated_signal(struct runner *r, int signo)
{
    const struct tfe_mono now = clock_mono();
    int at_death = 0;
    if (prctl(PR_GET_PDEATHSIG, &at_death) == 0 && at_death == signo) {
        (void)prctl(PR_SET_PDEATHSIG, 0);
        r->repeat_until = tfe_mono_add(now, ONE_SIGNAL_MS);
        return false;
    }
    return signo == SIGTERM && tfe_mono_before(now, r->repeat_until);
}

static void on_signal(evutil_socket_t signo, short what, void *ctx)
{
    if (!is_repeated_signal(ctx, (int)signo)) {
        on_event(ctx, &(struct agent_event){
                          .type = AGENT_SIGNAL, .now = clock_mono(), .signo = (uint32_t)signo});
    }
}

static void make_config(struct runner *r)
{
    const struct agent_settings *s = r->options->settings;
    r->config = s->agent;
    node_label(s->agent.node_name, &r->node_name);
    r->config.node_name = r->node_name.text;
    r->config.spec.script_digest = r->options->command->digest;
    r->config.highest_epoch = s->checkpoint_dir ? checkpoints_epoch(s->checkpoint_dir) : 0;
    r->config.pid = (uint32_t)getpid();
    /* A new secret per process, never read from disk, because machine images may be cloned. */
    node_secret_make(r->config.node_secret);
    (void)node_id_of(r->config.node_secret, &r->config.node);
    randombytes_buf(&r->config.seed, sizeof(r->config.seed));
    r->config.proof_hash = r->options->guard->proof_hash;
    r->config.guard_port = r->options->guard->proof_port;
    r->log.show = &r->show;
    r->log.join_timeout_ms = s->agent.join_timeout_ms;
    endpoint_format(r->log.endpoint, r->options->info->host, r->options->info->port);
    _Static_assert(TERMINATION_FILES_MAX == AGENT_PROOFS_MAX, "what is found is brought");
    size_t n = s->standalone ? 0 : termination_files_find(s->agent.job.text, r->proofs);
    for (size_t i = 0; i < n; i++) {
        r->config.proofs[i] = r->proofs[i];
    }
}

/* Creates the log writer. Sets reason if the user can fix the failure. */
static int make_logs(struct runner *r, struct tfe_reason *reason)
{
    const struct agent_settings *s = r->options->settings;
    r->show = s->show;
    if (!s->logs.root) {
        /* without log files all output must be shown */
        memset(r->show.tee, 3, sizeof(r->show.tee));
        return 0;
    }
    struct log_writer_options options = s->logs;
    options.base = r->base;
    options.ring = &r->ring;
    options.job = &r->config.job;
    return log_writer_new(&options, &r->logs, reason);
}

static void send_logs(void *ctx, const struct tfe_msg *msg)
{
    uplink_offer(ctx, msg);
}

/* Handles the end of the pool node that started this agent in a container, where
 * PDEATHSIG does not arrive. */
static void on_pool_gone(evutil_socket_t fd, short what, void *ctx)
{
    (void)kill(getpid(), SIGTERM);
}

/* Creates all parts. Returns TFE_EINVAL or TFE_ENOMEM if the core cannot be created. */
static int make_parts(struct runner *r)
{
    const struct agent_settings *s = r->options->settings;
    r->timer = evtimer_new(r->base, on_timer, r);
    r->import_timer = evtimer_new(r->base, on_import_timer, r);
    must_succeed(r->timer && r->import_timer);
    signals_watch_termination(r->base, on_signal, r, s->notice.signo, r->quit);
    r->watchdog = sd_notify_watchdog(r->base);
    if (s->pool_fd >= 0) {
        r->pool = event_new(r->base, s->pool_fd, EV_READ, on_pool_gone, NULL);
        must_succeed(r->pool && event_add(r->pool, NULL) == 0);
    }
    if (r->options->standalone) {
        standalone_watch(r->options->standalone, r->base);
    }
    const bool is_container = s->handover && s->handover->is_container;
    const char *base = is_container ? s->handover->base : NULL;
    r->scripts = scripts_new(&(struct scripts_options){.base = r->base,
                                                       .nproc = r->config.spec.nproc,
                                                       .private_base = base,
                                                       .checkpoint_dir = s->checkpoint_dir,
                                                       .state_memory = s->state_memory,
                                                       .has_artifacts = s->artifacts.uri != NULL,
                                                       .on_progress = on_script_progress,
                                                       .on_message = on_script_message,
                                                       .ctx = r});
    r->trainers = trainers_new(&(struct trainers_options){
        .base = r->base,
        .guard = r->options->guard,
        .command = r->options->command,
        .default_ps = s->default_ps,
        .ports = r->options->ports,
        .job = &r->config.job,
        .nproc = r->config.spec.nproc,
        .show = &r->show,
        .logs = r->logs,
        .on_line = on_line,
        .ring = &r->ring,
        .environment = {.job = r->config.job.text,
                        .node_id = r->config.node.text,
                        .socket = scripts_socket(r->scripts),
                        .preempt_file = scripts_preempt_file(r->scripts),
                        .tmp_dir = scripts_tmp_dir(r->scripts),
                        .artifacts_dir = scripts_artifacts_dir(r->scripts),
                        .artifacts = &s->artifacts},
        .standby = &s->standby,
        .exit_grace_ms = r->config.exit_grace_ms,
        .require_cluster = r->config.spec.require_cluster,
        .watch = &s->watch,
        .settled = on_settled,
        .on_event = on_event,
        .ctx = r,
    });
    r->report = report_new(&(struct report_options){.base = r->base,
                                                    .nproc = r->config.spec.nproc,
                                                    .send = send_report,
                                                    .standby = standby_state,
                                                    .printed = printed_bytes,
                                                    .idle = report_idle,
                                                    .ctx = r});
    r->health = health_new(&(struct health_config){.base = r->base,
                                                   .checks = &s->checks,
                                                   .options = &agent_options,
                                                   .result = on_health,
                                                   .ctx = r});
    r->gpu_wait = gpu_wait_new(&(struct gpu_wait_config){.base = r->base,
                                                         .options = &agent_options,
                                                         .limit_ms = s->gpu_memory_wait_ms,
                                                         .over = on_gpu_wait_over,
                                                         .ctx = r});
    r->uplink = uplink_new(r->base, r->options->info, agent_settings_state_dir(s), s->address_host,
                           on_event, r);
    r->serve = log_serve_new(&(struct log_serve_options){.base = r->base,
                                                         .ring = &r->ring,
                                                         .logs = r->logs,
                                                         .has_room = uplink_accepts,
                                                         .send = send_logs,
                                                         .ctx = r->uplink});
    uplink_serve(r->uplink, r->serve);
    const struct notice_watch_options notice = {
        .choice = &s->notice,
        .intervals = &notice_intervals_default,
        .options = &agent_options,
        .grace_ms = s->agent.preempt_grace_ms,
        .on_cloud = on_cloud,
    };
    r->notices = notice_watch_new(r->base, &notice, on_notice, r);
    r->responder = responder_new(r->base, r->config.node.text);
    r->prober = prober_new(r->base, on_probed, on_proof, r);
    return agent_new(&r->config, &heap_mem, &r->core);
}

static void free_parts(struct runner *r)
{
    standalone_unwatch(r->options->standalone);
    notice_watch_free(r->notices);
    health_free(r->health);
    gpu_wait_free(r->gpu_wait);
    report_free(r->report);
    if (r->uplink) {
        uplink_serve(r->uplink, NULL);
    }
    log_serve_free(r->serve);
    uplink_free(r->uplink);
    responder_free(r->responder);
    prober_free(r->prober);
    trainers_free(r->trainers);
    log_writer_free(r->logs, LOGS_END_MS);
    output_ring_done(&r->ring);
    scripts_free(r->scripts);
    script_line_free(r->lines);
    agent_free(r->core);
    event_drop(&r->timer);
    event_drop(&r->import_timer);
    signals_unwatch(r->quit);
    event_drop(&r->watchdog);
    event_drop(&r->pool);
    if (r->base) {
        event_base_free(r->base);
    }
}

/* Tells a user at a terminal that the agent is connecting. */
static void print_begun(const struct runner *r)
{
    char text[ENDPOINT_TEXT_MAX + 2 * TFE_ID_MAX + 128];
    if (!r->options->settings->handover && isatty(STDERR_FILENO)) {
        (void)snprintf(
            text, sizeof text,
            "%s connects to %s to join job %s (Ctrl-C leaves the job; tfe-ctl watch shows it)",
            r->node_name.text, r->log.endpoint, r->config.job.text);
        stdio_print_message("tfe-agent", text);
    }
}

int runner_run(const struct runner_options *options)
{
    struct runner r = {.options = options, .exit_code = AGENT_EXIT_FAILED};
    make_config(&r);
    struct tfe_reason reason = {.text = ""};
    output_ring_init(&r.ring, OUTPUT_RING_BYTES);
    r.base = event_base_new();
    must_succeed(r.base);
    int rc = script_line_new(options->settings->progress_regex, &r.lines, &reason);
    if (rc) {
        reason_prefix(&reason, "--progress-regex");
    } else {
        rc = make_logs(&r, &reason);
    }
    if (rc == 0) {
        rc = make_parts(&r);
    }
    if (rc) {
        const bool is_usage_error = reason.text[0];
        if (!is_usage_error) {
            reason_set(&reason, "%s", tfe_error_sentence(rc));
        }
        reason_prefix(&reason, "cannot start");
        stdio_print_message("tfe-agent", reason.text);
        free_parts(&r);
        return is_usage_error ? AGENT_EXIT_USAGE : AGENT_EXIT_FAILED;
    }
    log_info("node", LOG_S("job", r.config.job.text), LOG_S("node", r.config.node.text),
             LOG_S("name", r.node_name.text), LOG_U("guard_pid", trainers_guard_pid(r.trainers)));
    on_event(&r, &(struct agent_event){.type = AGENT_GUARD,
                                       .now = clock_mono(),
                                       .guard_pid = trainers_guard_pid(r.trainers)});
    standbys_begin(trainers_standbys(r.trainers));
    on_event(&r, &(struct agent_event){.type = AGENT_BEGIN, .now = clock_mono()});
    if (!r.over) {
        print_begun(&r);
        sd_notify_send("READY=1"); /* waiting for a server counts as ready */
        event_base_dispatch(r.base);
    }
    sd_notify_send("STOPPING=1");
    int code = r.exit_code;
    free_parts(&r);
    return code;
}
