/* agent/runner.c: one libevent loop around the agent's core. */
#include "agent/runner.h"

#include <event2/event.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/agent.h"
#include "agent/notice/notice.h"
#include "agent/output/log_writer.h"
#include "agent/reach/prober.h"
#include "agent/reach/responder.h"
#include "agent/scripts/checkpoints.h"
#include "agent/scripts/scripts.h"
#include "agent/trainers/trainers.h"
#include "agent/uplink.h"
#include "common/net/clock.h"
#include "common/net/heap.h"
#include "common/net/log.h"
#include "common/net/timer.h"

/* Events that come up while actions are carried out: ports that are held, trainers that cannot be
 * started. */
#define PENDING_MAX (MSG_NPROC_MAX + 8)

/* What log files that are still to be written get in the end. */
#define LOGS_END_MS 2000

struct runner {
    const struct runner_wish *wish;
    struct event_base *base;
    struct event *timer;
    struct event *sigterm;
    struct event *sigint;
    struct agent *core;
    struct uplink *uplink;
    struct trainers *trainers;
    struct scripts *scripts;
    struct log_writer *logs;
    struct output_show show;
    struct responder *responder;
    struct prober *prober;
    struct notices *notices;
    char node_name[TFE_LABEL_MAX + 1];
    struct agent_config config;
    bool stepping;
    struct agent_event pending[PENDING_MAX];
    size_t n_pending;
    char text[512]; /* of a pending event */
    struct standby_settings standby;
    struct watch_settings watch;
    bool hold_waits; /* for the standby of a node that is not needed yet */
    uint64_t hold_epoch;
    bool hold_fresh;
    int64_t start_us; /* when the last START came */
    bool over;
    int exit_code;
};

static void say(const struct agent_action *action, const char *endpoint)
{
    static const enum log_level levels[] = {[AGENT_LEVEL_DEBUG] = LOG_DEBUG_,
                                            [AGENT_LEVEL_INFO] = LOG_INFO_,
                                            [AGENT_LEVEL_WARN] = LOG_WARN_,
                                            [AGENT_LEVEL_ERROR] = LOG_ERROR_};
    enum log_level level = levels[agent_trace_level(action->trace)];
    const char *event = agent_trace_name(action->trace);
    switch (action->trace) {
    case AGENT_TRACE_EPOCH:
        LOG_AT(level, event, LOG_U("epoch", action->epoch), LOG_U("rank", action->number),
               LOG_U("nodes", action->nodes), LOG_S("cause", action->text));
        return;
    case AGENT_TRACE_CONNECTING:
        LOG_AT(level, event, LOG_S("endpoint", endpoint), LOG_U("waited_ms", action->number),
               LOG_S("why", action->text));
        return;
    case AGENT_TRACE_JOINED:
        LOG_AT(level, event, LOG_S("endpoint", endpoint), LOG_U("ttl_ms", action->number));
        return;
    case AGENT_TRACE_TRAINER_EXITED:
        LOG_AT(level, event, LOG_U("epoch", action->epoch), LOG_U("local_rank", action->nodes),
               LOG_U("status", action->number));
        return;
    case AGENT_TRACE_EXITED:
        LOG_AT(level, event, LOG_U("epoch", action->epoch), LOG_U("status", action->number),
               LOG_S("how", action->text));
        return;
    case AGENT_TRACE_NOTICE:
        LOG_AT(level, event, LOG_U("deadline_ms", action->number), LOG_S("source", action->text));
        return;
    case AGENT_TRACE_DRAINING:
        LOG_AT(level, event, LOG_U("signal", action->number));
        return;
    case AGENT_TRACE_READY:
    case AGENT_TRACE_STOPPING:
    case AGENT_TRACE_VOID_START:
    case AGENT_TRACE_FENCED:
        LOG_AT(level, event, LOG_U("epoch", action->epoch), LOG_S("why", action->text));
        return;
    case AGENT_TRACE_LINK_LOST:
    case AGENT_TRACE_GUARD_LOST:
    case AGENT_TRACE_REFUSED:
        LOG_AT(level, event, LOG_S("why", action->text));
        return;
    }
}

/* Keeps an event that came up in the middle of a step for its end. */
static void later(struct runner *r, const struct agent_event *event)
{
    if (r->n_pending == PENDING_MAX) {
        return; /* more than one step can cause: the core will ask again */
    }
    struct agent_event *kept = &r->pending[r->n_pending++];
    *kept = *event;
    if (event->text) {
        snprintf(r->text, sizeof(r->text), "%s", event->text);
        kept->text = r->text;
    }
}

static void on_event(void *ctx, const struct agent_event *event);

static void hold_ports_now(struct runner *r)
{
    struct agent_event event = {.type = AGENT_PORTS_HELD, .epoch = r->hold_epoch};
    struct tfe_why why;
    const uint16_t *ports;
    r->hold_waits = false;
    if (ports_hold(r->wish->ports, r->hold_epoch, r->hold_fresh, &ports, &why)) {
        event.type = AGENT_PORTS_FAILED;
        event.text = why.text;
    } else {
        event.ports = ports;
        event.n_ports = r->config.nproc;
    }
    event.now = clock_mono();
    on_event(r, &event);
}

/* READY follows from the held ports. A newcomer says it once its standby is warm, so that those who
 * train stand still for its start, and not for its import. */
static void hold_ports(struct runner *r, const struct agent_action *action)
{
    r->hold_epoch = action->epoch;
    r->hold_fresh = action->fresh;
    r->hold_waits = true;
    if (trainers_are_settled(r->trainers)) {
        hold_ports_now(r);
    }
}

static void on_settled(void *ctx)
{
    struct runner *r = ctx;
    if (r->hold_waits) {
        hold_ports_now(r);
    }
}

static void answer(struct runner *r, const struct agent_action *action)
{
    struct tfe_why why;
    if (!action->answer) {
        responder_close(r->responder);
    } else if (responder_open(r->responder, action->ports, action->n_ports, &why)) {
        log_error("no_answer_to_probes", LOG_S("why", why.text)); /* the server will say so too */
    }
}

static void on_probed(void *ctx, uint64_t probe, enum tfe_probe_result result);

static void try_ports(struct runner *r, const struct msg_probe *probe)
{
    log_debug("probe", LOG_S("kind", msg_probe_kind_name(probe->kind)), LOG_S("of", probe->node),
              LOG_S("host", probe->host));
    if (prober_start(r->prober, probe)) {
        on_probed(r, probe->probe, PROBE_NO_ANSWER);
    }
}

/* Only scripts that listen can use a grace: TensorFlow swallows SIGTERM, so waiting for others
 * costs and brings nothing. */
static void sweep(struct runner *r, const struct agent_action *action)
{
    uint32_t listeners =
        action->planned ? scripts_stop(r->scripts, action->epoch, action->grace_ms) : 0;
    trainers_sweep(r->trainers, listeners ? action->grace_ms : 0);
}

static void carry_out(struct runner *r, const struct agent_action *action)
{
    char endpoint[TFE_HOST_MAX + 16];
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
    case AGENT_ANSWER:
        answer(r, action);
        return;
    case AGENT_PROBE:
        try_ports(r, &action->msg.u.probe);
        return;
    case AGENT_SPAWN:
        scripts_begin(r->scripts, action->place.epoch, action->place.rank);
        notices_set_running(r->notices, true);
        trainers_spawn(r->trainers, &action->place, r->start_us);
        return;
    case AGENT_SWEEP:
        sweep(r, action);
        return;
    case AGENT_SAVE:
        scripts_save(r->scripts, action->epoch, action->number, action->deadline);
        return;
    case AGENT_FENCE:
        trainers_fence(r->trainers, action->deadline);
        return;
    case AGENT_EXIT:
        r->over = true;
        r->exit_code = action->code;
        if (action->text) {
            snprintf(endpoint, sizeof(endpoint), "%s:%u: ", r->wish->info->host,
                     r->wish->info->port);
            fprintf(stderr, "tfe-agent: %s%s\n",
                    action->code == AGENT_EXIT_UNREACHED ? endpoint : "", action->text);
        }
        event_base_loopbreak(r->base);
        return;
    case AGENT_TRACE:
        snprintf(endpoint, sizeof(endpoint), "%s:%u", r->wish->info->host, r->wish->info->port);
        say(action, endpoint);
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

/* What the channel to the scripts must know of what happens to the trainers. */
static void tell_scripts(struct runner *r, const struct agent_event *event)
{
    if (event->type == AGENT_TRAINER_EXITED) {
        scripts_trainer_ended(r->scripts, event->local);
    } else if (event->type == AGENT_SWEPT || event->type == AGENT_GUARD_LOST) {
        scripts_end(r->scripts);
    }
}

static void step(struct runner *r, const struct agent_event *event)
{
    tell_scripts(r, event);
    struct agent_actions actions;
    int rc = agent_step(r->core, event, &actions);
    if (rc) {
        log_warn("event_refused", LOG_I("event", event->type),
                 LOG_S("why", tfe_error_sentence(rc)));
        if (event->type == AGENT_MESSAGE) {
            uplink_hang_up(r->uplink);
        }
        return;
    }
    if (event->type == AGENT_SWEPT || event->type == AGENT_GUARD_LOST) {
        notices_set_running(r->notices, false);
    }
    for (size_t i = 0; i < actions.n && !r->over; i++) {
        carry_out(r, &actions.v[i]);
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
        later(r, event);
        return;
    }
    r->stepping = true;
    step(r, event);
    for (size_t i = 0; i < r->n_pending && !r->over; i++) {
        struct agent_event next = r->pending[i];
        step(r, &next);
    }
    r->n_pending = 0;
    r->stepping = false;
}

static void on_probed(void *ctx, uint64_t probe, enum tfe_probe_result result)
{
    log_debug("probed", LOG_S("result", msg_probe_result_name(result)));
    on_event(ctx, &(struct agent_event){
                      .type = AGENT_PROBED, .now = clock_mono(), .probe = probe, .result = result});
}

static void on_script_news(void *ctx, uint64_t epoch, uint32_t local,
                           const struct agent_progress *progress)
{
    struct runner *r = ctx;
    if (progress->has_trained) {
        trainers_stepped(r->trainers, local);
    }
    on_event(ctx, &(struct agent_event){.type = AGENT_PROGRESS,
                                        .now = clock_mono(),
                                        .epoch = epoch,
                                        .local = local,
                                        .progress = *progress});
}

static void on_notice(void *ctx, const struct agent_notice *notice, const char *from)
{
    on_event(ctx, &(struct agent_event){
                      .type = AGENT_NOTICE, .now = clock_mono(), .notice = *notice, .text = from});
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    on_event(ctx, &(struct agent_event){.type = AGENT_TICK, .now = clock_mono()});
}

static void on_signal(evutil_socket_t signo, short what, void *ctx)
{
    (void)what;
    on_event(ctx, &(struct agent_event){
                      .type = AGENT_SIGNAL, .now = clock_mono(), .code = (uint32_t)signo});
}

static void make_config(struct runner *r)
{
    const struct agent_settings *s = r->wish->settings;
    if (s->node_name) {
        snprintf(r->node_name, sizeof(r->node_name), "%s", s->node_name);
    } else if (gethostname(r->node_name, sizeof(r->node_name) - 1)) {
        snprintf(r->node_name, sizeof(r->node_name), "?");
    }
    r->config = (struct agent_config){
        .job = s->job,
        .node_name = r->node_name,
        .min_nodes = s->min_nodes,
        .max_nodes = s->max_nodes,
        .nproc = s->nproc,
        .max_restarts = s->max_restarts,
        .gather_ms = s->gather_ms,
        .grow_wait_ms = s->grow_wait_ms,
        .elastic_timeout_ms = s->elastic_timeout_ms,
        .new_run = s->new_run,
        .run_key = s->run_key,
        .durable = s->durable,
        .no_grow = s->no_grow,
        .chief_grace_ms = s->chief_grace_ms,
        .stop_grace_ms = s->stop_grace_ms,
        .script_digest = r->wish->command->digest,
        .highest_epoch = s->checkpoint_dir ? checkpoints_epoch(s->checkpoint_dir) : 0,
        .pid = (uint32_t)getpid(),
        .join_timeout_ms = s->join_timeout_ms,
        .monitor_interval_ms = s->monitor_interval_ms,
        .exit_grace_ms = s->exit_grace_ms,
        .preempt_grace_ms = s->preempt_grace_ms,
    };
    /* Per process, never read from disk: images get baked. */
    uint8_t random[8];
    randombytes_buf(random, sizeof(random));
    sodium_bin2hex(r->config.node.text, sizeof(r->config.node.text), random, sizeof(random));
    randombytes_buf(&r->config.seed, sizeof(r->config.seed));
}

/* With why where a person can do something about it. */
static int make_logs(struct runner *r, struct tfe_why *why)
{
    const struct agent_settings *s = r->wish->settings;
    r->show = s->show;
    if (!s->log_dir) {
        memset(r->show.tee, 3, sizeof(r->show.tee)); /* what is not shown would be nowhere */
        return 0;
    }
    struct log_wish wish = {
        .root = s->log_dir, .max_bytes = s->log_max_bytes, .keep_ms = s->log_keep_ms};
    return log_writer_new(&wish, &r->logs, why);
}

static int make_parts(struct runner *r)
{
    r->base = event_base_new();
    if (!r->base) {
        return TFE_ENOMEM;
    }
    r->timer = evtimer_new(r->base, on_timer, r);
    r->sigterm = evsignal_new(r->base, SIGTERM, on_signal, r);
    r->sigint = evsignal_new(r->base, SIGINT, on_signal, r);
    if (!r->timer || !r->sigterm || !r->sigint || evsignal_add(r->sigterm, NULL) ||
        evsignal_add(r->sigint, NULL)) {
        return TFE_ENOMEM;
    }
    if (r->wish->standalone && standalone_watch(r->wish->standalone, r->base)) {
        return TFE_ENOMEM;
    }
    struct scripts_wish scripts = {
        .base = r->base,
        .nproc = r->config.nproc,
        .checkpoint_dir = r->wish->settings->checkpoint_dir,
        .on_news = on_script_news,
        .ctx = r,
    };
    int rc = scripts_new(&scripts, &r->scripts);
    if (rc) {
        return rc;
    }
    const struct agent_settings *s = r->wish->settings;
    r->standby = (struct standby_settings){
        .is_off = s->no_standby, .preload = s->preload, .min_free_percent = s->standby_min_free};
    r->watch = (struct watch_settings){.start_timeout_ms = s->start_timeout_ms,
                                       .progress_timeout_ms = s->progress_timeout_ms};
    struct trainers_wish trainers = {
        .base = r->base,
        .guard = r->wish->guard,
        .command = r->wish->command,
        .ports = r->wish->ports,
        .job = r->config.job.text,
        .node = r->config.node.text,
        .nproc = r->config.nproc,
        .show = &r->show,
        .logs = r->logs,
        .scripts = r->scripts,
        .standby = &r->standby,
        .watch = &r->watch,
        .settled = on_settled,
        .on_event = on_event,
        .ctx = r,
    };
    rc = trainers_new(&trainers, &r->trainers);
    if (rc == 0) {
        rc = responder_new(r->base, r->config.node.text, &r->responder);
    }
    if (rc == 0) {
        rc = prober_new(r->base, on_probed, r, &r->prober);
    }
    if (rc == 0) {
        rc = uplink_new(r->base, r->wish->info, r->wish->settings->address_host, on_event, r,
                        &r->uplink);
    }
    if (rc == 0) {
        const struct notice_wish notice = {
            .choice = &r->wish->settings->notice,
            .pace = &notice_pace_default,
            .options = &agent_options,
            .grace_ms = r->wish->settings->preempt_grace_ms,
        };
        rc = notices_new(r->base, &notice, on_notice, r, &r->notices);
    }
    return rc ? rc : agent_new(&r->config, &heap_mem, &r->core);
}

static void free_parts(struct runner *r)
{
    standalone_unwatch(r->wish->standalone);
    notices_free(r->notices);
    uplink_free(r->uplink);
    responder_free(r->responder);
    prober_free(r->prober);
    trainers_free(r->trainers);
    log_writer_free(r->logs, LOGS_END_MS);
    scripts_free(r->scripts);
    agent_free(r->core);
    struct event *events[] = {r->timer, r->sigterm, r->sigint};
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        if (events[i]) {
            event_free(events[i]);
        }
    }
    if (r->base) {
        event_base_free(r->base);
    }
}

int runner_run(const struct runner_wish *wish)
{
    struct runner r = {.wish = wish, .exit_code = AGENT_EXIT_FAILED};
    make_config(&r);
    struct tfe_why why = {.text = ""};
    int rc = make_logs(&r, &why);
    rc = rc ? rc : make_parts(&r);
    if (rc) {
        fprintf(stderr, "tfe-agent: cannot start: %s\n",
                why.text[0] ? why.text : tfe_error_sentence(rc));
        free_parts(&r);
        return why.text[0] ? AGENT_EXIT_USAGE : AGENT_EXIT_FAILED;
    }
    log_info("node", LOG_S("job", r.config.job.text), LOG_S("node", r.config.node.text),
             LOG_S("name", r.node_name), LOG_U("guard_pid", trainers_guard_pid(r.trainers)));
    on_event(&r, &(struct agent_event){.type = AGENT_GUARD,
                                       .now = clock_mono(),
                                       .pid = trainers_guard_pid(r.trainers)});
    trainers_begin(r.trainers);
    on_event(&r, &(struct agent_event){.type = AGENT_BEGIN, .now = clock_mono()});
    if (!r.over) {
        event_base_dispatch(r.base);
    }
    int code = r.exit_code;
    free_parts(&r);
    return code;
}
