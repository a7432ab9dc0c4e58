/* agent/server_report.c: implementation of server_report.h. */
#include "agent/server_report.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/machine.h"
#include "agent/os/memory.h"
#include "agent/preemption/preemption.h"
#include "common/base/clock.h"
#include "common/base/heap.h"
#include "common/base/id.h"
#include "common/base/timer.h"
#include "common/base/worker.h"
#include "common/cli/log.h"

/* Interval of samples during training. It grows with the number of nodes, so that the server
 * receives at most 200 MACHINE_STATS per second from a job. */
#define SAMPLE_MS 5000
#define SAMPLE_PER_NODE_MS 5
/* Delay before standbys are reported, because they come and go within a switch. */
#define SETTLE_MS 1000
/* Intervals of METRICS; those of nodes without rank 0 are used only if rank 0 reports none. */
#define METRICS_MS 1000
#define METRICS_OTHERS_MS 10000
#define METRICS_EACH_MS 20
/* Changes below an eighth are noise and not reported. */
#define NOISE 8

/* Activity between two samples: percentage of one processor, or bytes read and written. An idle
 * process still polls and sends heartbeats. */
#define ACTIVE_BUSY_PERCENT 2
#define ACTIVE_IO_BYTES 4096
/* Trainers without activity for this long are idle. */
#define IDLE_AFTER_MS 15000

/* Result of one sample. */
struct sample {
    struct msg_machine_stats machine_stats; /* only load and memory are set */
    uint64_t busy_us, io_bytes;
    struct tfe_mono at;
};

struct report {
    struct report_options options;
    struct event *sample_timer, *metrics_due, *settle;
    bool is_up;

    /* State shared with the thread, protected by its lock. */
    struct worker *worker; /* NULL if the thread could not be started */
    struct machine machine;
    bool is_read;          /* machine is valid */
    bool sample_requested; /* a sample is requested */
    bool stop;
    pid_t pids[MSG_NPROC_MAX];
    struct sample sample;

    struct msg_machine_info machine_info; /* its texts are stored elsewhere */
    bool has_machine;                     /* the numbers of the machine are set */
    struct tfe_id tensorflow;
    struct cloud_info cloud;
    char failed_check[TFE_LABEL_MAX + 1]; /* "" if all pass */
    bool has_check;                       /* a check has failed since the start */

    uint64_t epoch; /* 0 if nothing runs */
    uint32_t rank, nodes;
    uint64_t step;
    struct tfe_mono step_at;
    bool has_step;
    /* Sample and step that the next interval is measured from; valid if has_mark. */
    bool has_mark;
    struct sample mark;
    uint64_t mark_step;
    struct tfe_mono mark_step_at;
    struct msg_machine_stats now, sent;

    /* Activity of the running epoch's trainers. */
    bool has_activity_mark;
    struct sample activity_mark; /* last sample of the trainers' CPU and I/O */
    uint64_t printed;            /* bytes printed at that sample */
    struct tfe_mono active_at;   /* time of the last activity */
    bool is_idle;                /* idle state that was reported */

    struct script_message artifact; /* last state of the copy of the artifacts; epoch 0 if none */
    bool has_artifact;              /* it is unsent */

    struct script_message unsent_metrics; /* unsent metrics; epoch 0 if there are none */
    uint32_t metrics_local;
};

/* --- thread --- */

static void work(void *ctx)
{
    struct report *r = ctx;
    struct machine machine;
    machine_read(&machine);
    worker_lock(r->worker);
    r->machine = machine;
    r->is_read = true;
    worker_notify(r->worker);
    while (!r->stop) {
        if (!r->sample_requested) {
            worker_wait(r->worker, TFE_MONO_NEVER);
            continue;
        }
        pid_t pids[MSG_NPROC_MAX];
        memcpy(pids, r->pids, sizeof(pids));
        r->sample_requested = false;
        worker_unlock(r->worker);
        const uint64_t free_bytes = memory_free_bytes();
        struct sample sample = {
            .machine_stats = {.load_milli = machine_load_milli(),
                              .free_mib = free_bytes == UINT64_MAX ? 0 : free_bytes >> 20},
            .busy_us = machine_busy_us(pids, MSG_NPROC_MAX),
            .io_bytes = machine_io_bytes(pids, MSG_NPROC_MAX),
            .at = clock_mono()};
        worker_lock(r->worker);
        r->sample = sample;
        worker_notify(r->worker);
    }
    worker_unlock(r->worker);
}

/* --- MACHINE_INFO --- */

static const char *known(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static void send_machine_info(struct report *r)
{
    if (!r->is_up || (!r->has_machine && !r->cloud.cloud && !r->has_check)) {
        /* the cloud's facts and a failed check are sent without waiting for the machine's facts,
         * because the layout may depend on them */
        return;
    }
    struct tfe_msg msg = {.type = MSG_MACHINE_INFO, .u.machine_info = r->machine_info};
    /* the thread no longer writes to machine once has_machine is set */
    msg.u.machine_info.gpu = r->has_machine ? known(r->machine.gpu) : NULL;
    msg.u.machine_info.tensorflow = known(r->tensorflow.text);
    msg.u.machine_info.cloud = r->cloud.cloud;
    msg.u.machine_info.zone = known(r->cloud.zone);
    msg.u.machine_info.instance = known(r->cloud.instance);
    msg.u.machine_info.failed_check = known(r->failed_check);
    r->options.send(r->options.ctx, &msg);
}

void report_check(struct report *r, const char *failed)
{
    const char *text = failed ? failed : "";
    if (strcmp(r->failed_check, text) != 0) {
        snprintf(r->failed_check, sizeof r->failed_check, "%s", text);
        r->has_check = true;
        send_machine_info(r);
    }
}

static void set_machine(struct report *r)
{
    r->machine_info.cores = r->machine.cores;
    r->machine_info.memory_mib = r->machine.memory_mib;
    r->machine_info.gpus = r->machine.gpus;
    r->machine_info.gpu_memory_mib = r->machine.gpu_memory_mib;
    r->has_machine = true;
    send_machine_info(r);
}

void report_cloud(struct report *r, const struct cloud_info *cloud)
{
    r->cloud = *cloud;
    r->machine_info.has_spot = cloud->has_spot;
    r->machine_info.is_spot = cloud->is_spot;
    send_machine_info(r);
}

/* --- MACHINE_STATS --- */

static bool differs(uint64_t a, uint64_t b)
{
    const uint64_t by = a > b ? a - b : b - a;
    return by > (a > b ? a : b) / NOISE;
}

static void send_machine_stats(struct report *r)
{
    r->now.standby = r->options.standby ? r->options.standby(r->options.ctx) : WARMTH_NONE;
    const struct msg_machine_stats *a = &r->now;
    const struct msg_machine_stats *b = &r->sent;
    if (r->is_up && (a->standby != b->standby || differs(a->step_us, b->step_us) ||
                     differs(a->work_us, b->work_us) || differs(a->free_mib, b->free_mib) ||
                     differs(a->load_milli + 250, b->load_milli + 250))) {
        const struct tfe_msg msg = {.type = MSG_MACHINE_STATS, .u.machine_stats = r->now};
        r->sent = r->now;
        r->options.send(r->options.ctx, &msg);
    }
}

/* Computes the duration of a step and its CPU time since the previous mark. */
static void apply_sample(struct report *r, const struct sample *sample)
{
    const uint64_t steps = r->has_mark && r->step > r->mark_step ? r->step - r->mark_step : 0;
    r->now.load_milli = sample->machine_stats.load_milli;
    r->now.free_mib = sample->machine_stats.free_mib;
    if (steps > 0) {
        const int64_t ms = tfe_mono_sub(r->step_at, r->mark_step_at);
        const uint64_t busy =
            sample->busy_us > r->mark.busy_us ? sample->busy_us - r->mark.busy_us : 0;
        r->now.step_us = (uint64_t)(ms > 0 ? ms : 0) * 1000 / steps;
        r->now.work_us = busy / steps;
    }
    if (r->has_step && (steps > 0 || !r->has_mark)) {
        r->has_mark = true;
        r->mark = *sample;
        r->mark_step = r->step;
        r->mark_step_at = r->step_at;
    }
    send_machine_stats(r);
}

/* --- activity --- */

static void set_active(struct report *r, struct tfe_mono at)
{
    r->active_at = at;
    if (r->is_idle) {
        r->is_idle = false;
        r->options.idle(r->options.ctx, TFE_MONO_NEVER);
    }
}

/* Checks for output, progress, CPU time and I/O since the previous sample. */
static void check_activity(struct report *r, const struct sample *sample)
{
    const struct sample *before = &r->activity_mark;
    const uint64_t printed = r->options.printed(r->options.ctx);
    const int64_t ms = tfe_mono_sub(sample->at, before->at);
    /* The sums may shrink, because ended processes no longer count. */
    bool is_active = !r->has_activity_mark || printed != r->printed ||
                     sample->io_bytes >= before->io_bytes + ACTIVE_IO_BYTES ||
                     sample->busy_us >= before->busy_us + (uint64_t)ms * 10 * ACTIVE_BUSY_PERCENT ||
                     (r->has_step && !tfe_mono_before(r->step_at, before->at));
    r->has_activity_mark = true;
    r->activity_mark = *sample;
    r->printed = printed;
    if (is_active) {
        set_active(r, sample->at);
    } else if (!r->is_idle && tfe_mono_sub(sample->at, r->active_at) >= IDLE_AFTER_MS) {
        r->is_idle = true;
        r->options.idle(r->options.ctx, r->active_at);
    }
}

static void on_sample(void *ctx)
{
    struct report *r = ctx;
    worker_lock(r->worker);
    const bool is_read = r->is_read;
    struct sample sample = r->sample;
    r->sample.at = (struct tfe_mono){0};
    worker_unlock(r->worker);
    if (is_read && !r->has_machine) {
        set_machine(r);
    }
    if (sample.at.ms != 0 && r->epoch != 0) {
        apply_sample(r, &sample);
        check_activity(r, &sample);
    }
}

static int64_t sample_interval_ms(const struct report *r)
{
    const int64_t ms = (int64_t)r->nodes * SAMPLE_PER_NODE_MS;
    return ms > SAMPLE_MS ? ms : SAMPLE_MS;
}

static void on_sample_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct report *r = ctx;
    if (r->epoch == 0) {
        return;
    }
    if (r->worker) {
        worker_lock(r->worker);
        r->sample_requested = true;
        worker_wake(r->worker);
        worker_unlock(r->worker);
    }
    (void)timer_after(r->sample_timer, sample_interval_ms(r));
}

static void on_settle(evutil_socket_t fd, short what, void *ctx)
{
    send_machine_stats(ctx);
}

void report_standby(struct report *r, const char *tensorflow)
{
    if (tensorflow && strcmp(r->tensorflow.text, tensorflow) != 0 &&
        id_set(&r->tensorflow, tensorflow) == 0) {
        send_machine_info(r);
    }
    (void)timer_after(r->settle, SETTLE_MS);
}

/* --- METRICS --- */

static void send_metrics(struct report *r)
{
    const struct script_message *m = &r->unsent_metrics;
    struct msg_metric metrics[MSG_METRICS_MAX];
    _Static_assert(SCRIPT_METRICS_MAX <= MSG_METRICS_MAX, "all of them");
    _Static_assert(SCRIPT_METRIC_NAME_MAX <= MSG_METRIC_NAME_MAX, "whole names");
    for (size_t i = 0; i < m->metrics.n; i++) {
        metrics[i] = (struct msg_metric){m->metrics.v[i].name, m->metrics.v[i].value};
    }
    const struct tfe_msg msg = {.type = MSG_METRICS,
                                .u.metrics = {.epoch = r->epoch,
                                              .step = m->step,
                                              .samples = m->samples,
                                              .total = m->total,
                                              .metrics = metrics,
                                              .n_metrics = m->metrics.n}};
    r->options.send(r->options.ctx, &msg);
    r->unsent_metrics.epoch = 0;
}

static void on_metrics_due(evutil_socket_t fd, short what, void *ctx)
{
    struct report *r = ctx;
    if (r->is_up && r->epoch != 0 && r->unsent_metrics.epoch == r->epoch) {
        const int64_t others_ms = (int64_t)r->nodes * METRICS_EACH_MS;
        int64_t pause_ms = METRICS_MS;
        if (r->rank != 0) {
            pause_ms = others_ms > METRICS_OTHERS_MS ? others_ms : METRICS_OTHERS_MS;
        }
        send_metrics(r);
        (void)timer_after(r->metrics_due, pause_ms);
    }
}

void report_metrics(struct report *r, uint32_t local, const struct script_message *message)
{
    if (r->epoch == 0 || message->epoch != r->epoch || local > r->metrics_local) {
        return; /* all trainers report nearly the same; only the first one counts */
    }
    struct script_metrics before = r->unsent_metrics.metrics;
    const bool adds = r->unsent_metrics.epoch == r->epoch;
    r->metrics_local = local;
    r->unsent_metrics = *message;
    if (adds) { /* keep unsent metrics that the new report lacks */
        struct script_metrics fresh = message->metrics;
        r->unsent_metrics.metrics = before;
        for (size_t i = 0; i < fresh.n; i++) {
            script_metrics_add(&r->unsent_metrics.metrics, fresh.v[i].name, fresh.v[i].value);
        }
    }
    if (!evtimer_pending(r->metrics_due, NULL)) {
        (void)timer_after(r->metrics_due, r->rank == 0 ? 0 : METRICS_MS);
    }
}

/* --- ARTIFACT --- */

static void send_artifact(struct report *r)
{
    const struct script_message *m = &r->artifact;
    const struct tfe_msg msg = {.type = MSG_ARTIFACT,
                                .u.artifact = {.epoch = m->epoch,
                                               .state = m->artifact,
                                               .place = m->place,
                                               .files = m->files,
                                               .bytes = m->bytes,
                                               .error = known(m->reason)}};
    if (r->is_up && r->has_artifact) {
        r->has_artifact = false;
        r->options.send(r->options.ctx, &msg);
    }
}

void report_artifact(struct report *r, const struct script_message *message)
{
    const struct script_message *last = &r->artifact;
    const bool is_same =
        last->epoch == message->epoch && last->artifact == message->artifact && !message->reason[0];
    if (message->files <= MSG_NUMBER_MAX && message->bytes <= MSG_NUMBER_MAX && !is_same) {
        r->artifact = *message;
        r->has_artifact = true;
        send_artifact(r);
    }
}

/* --- lifetime --- */

void report_up(struct report *r)
{
    r->is_up = true;
    r->sent = (struct msg_machine_stats){.standby = WARMTH_NONE};
    send_machine_info(r);
    send_machine_stats(r);
    send_artifact(r);
    if (r->unsent_metrics.epoch != 0 && !evtimer_pending(r->metrics_due, NULL)) {
        (void)timer_after(r->metrics_due, 0);
    }
}

void report_down(struct report *r)
{
    r->is_up = false;
}

void report_begin(struct report *r, uint64_t epoch, uint32_t rank, uint32_t nodes)
{
    r->epoch = epoch;
    r->rank = rank;
    r->nodes = nodes;
    r->has_step = r->has_mark = false;
    r->step = 0;
    r->now.step_us = r->now.work_us = 0;
    r->has_activity_mark = r->is_idle = false;
    r->active_at = clock_mono();
    r->unsent_metrics.epoch = 0;
    r->metrics_local = UINT32_MAX;
    (void)timer_after(r->sample_timer, SAMPLE_MS);
}

void report_trainer(struct report *r, uint32_t local, uint32_t pid)
{
    if (r->worker && local < MSG_NPROC_MAX) {
        worker_lock(r->worker);
        r->pids[local] = (pid_t)pid;
        worker_unlock(r->worker);
    }
}

void report_end(struct report *r)
{
    r->epoch = 0;
    for (uint32_t local = 0; local < MSG_NPROC_MAX; local++) {
        report_trainer(r, local, 0);
    }
    (void)evtimer_del(r->sample_timer);
}

void report_step(struct report *r, uint64_t step)
{
    if (!r->has_step || step > r->step) {
        r->has_step = true;
        r->step = step;
        r->step_at = clock_mono();
    }
}

struct report *report_new(const struct report_options *options)
{
    struct report *r = must_alloc(sizeof(*r));
    r->options = *options;
    r->sample_timer = evtimer_new(options->base, on_sample_timer, r);
    r->metrics_due = evtimer_new(options->base, on_metrics_due, r);
    r->settle = evtimer_new(options->base, on_settle, r);
    must_succeed(r->sample_timer && r->metrics_due && r->settle);
    const struct worker_config config = {.name = "tfe-report",
                                         .stack = 128 * 1024,
                                         .work = work,
                                         .base = options->base,
                                         .on_notify = on_sample,
                                         .done = free,
                                         .ctx = r};
    if (worker_start(&config, &r->worker) != 0) {
        r->worker = NULL;
        log_info("machine_not_known",
                 LOG_S("reason", "cannot start the thread that inspects the machine"));
    }
    return r;
}

void report_free(struct report *r)
{
    if (!r) {
        return;
    }
    event_drop(&r->sample_timer);
    event_drop(&r->metrics_due);
    event_drop(&r->settle);
    if (!r->worker) {
        free(r);
        return;
    }
    worker_lock(r->worker);
    r->stop = true;
    worker_wake(r->worker);
    worker_unlock(r->worker);
    /* the thread may be waiting for nvidia-smi; the process exits regardless */
    (void)worker_free(r->worker, 0);
}
