/* agent/trainer/trainers.c: implementation of trainers.h. */
#include "agent/trainer/trainers.h"

#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/guard/guard_link.h"
#include "agent/os/proc.h"
#include "agent/output/output.h"
#include "agent/trainer/environment.h"
#include "common/base/clock.h"
#include "common/base/fd.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/cli/log.h"
#include "common/text/text.h"

/* Intervals of checks whether trainers listen. A new trainer listens after seconds, a standby
 * after 15 to 40 ms, and the other members wait for that, so the first checks are frequent. If
 * only the table in /proc is available, a check takes as long as a short pause, and the minimum
 * interval is longer. */
#define LISTEN_CHECK_FIRST_MS 4
#define LISTEN_CHECK_OFTEN 16
#define LISTEN_CHECK_PROC_MS 25
#define LISTEN_CHECK_LAST_MS 1000
/* Interval of checks while an old port still accepts connections although no process is left. */
#define QUIET_CHECK_MS 100
/* Time that the guard gets to kill and reap all processes when the agent ends. */
#define GUARD_END_MS 5000

extern char **environ;

/* One local trainer of the last spawn. */
struct trainer {
    struct trainers *all;
    uint32_t local;        /* local rank */
    struct output *output; /* NULL if it has ended */
    const char *how;       /* how it was started; static text */
    uint16_t port;
    bool listens; /* listened at the last check */
    /* kind of delay for which a watchdog ended the trainer; ENDING_EXITED if no watchdog did */
    enum tfe_ending late;
    /* runs for the exit grace after the end of the script's main thread, with this exit status */
    struct event *exit_timer;
    uint32_t exit_code;
    bool is_held; /* killed because the process outlived the exit grace */
};

struct trainers {
    struct trainers_options options;
    struct guard_link *guard;
    struct standbys *standbys;
    struct watch *watch;
    char late_reason[MSG_SENTENCE_MAX];
    struct output_sink *sink;
    uint64_t epoch; /* epoch of the last spawn */
    uint32_t n;     /* number of trainers of the last spawn */
    struct trainer trainers[MSG_NPROC_MAX];
    int64_t started_us; /* time of the last spawn order */
    struct tfe_mono fence;
    struct event *listen_timer;
    uint32_t listen_check_ms;
    uint32_t listen_checks; /* number of checks since the last spawn */
    int listen_diag;        /* netlink socket of proc_descendant_listens, or -1 */
    struct event *quiet_timer;
    struct event *grace_timer;
    bool sweeping;
    bool has_grace; /* the sweep's grace period is running */
    bool stuck_logged;
};

static void report_event(struct trainers *t, struct agent_event event)
{
    event.now = clock_mono();
    t->options.on_event(t->options.ctx, &event);
}

static void end_output(struct trainer *trainer)
{
    output_free(trainer->output);
    trainer->output = NULL;
}

static void end_outputs(struct trainers *t)
{
    for (uint32_t local = 0; local < t->options.nproc; local++) {
        end_output(&t->trainers[local]);
    }
}

/* --- events of the guard --- */

static void on_spawned(struct trainers *t, uint32_t local, pid_t pid)
{
    log_debug("trainer_started", LOG_U("epoch", t->epoch), LOG_U("local_rank", local),
              LOG_S("how", t->trainers[local].how), LOG_I("after_us", clock_us() - t->started_us));
    watch_spawned(t->watch, local, pid);
    report_event(t, (struct agent_event){.type = AGENT_SPAWNED, .process = {local, (uint32_t)pid}});
}

static void sweep_if_all_exited(struct trainers *t);

static void spawn_failed(struct trainers *t, uint32_t slot, int error)
{
    struct tfe_reason reason;
    errno = error;
    reason_errno(&reason, "cannot start %s", t->options.command->argv[0]);
    log_error("spawn_failed", LOG_U("local_rank", slot), LOG_S("reason", reason.text));
    report_event(t, (struct agent_event){.type = AGENT_SPAWN_FAILED,
                                         .end = {.local_rank = slot,
                                                 .code = error == ENOENT ? 127u : 126u,
                                                 .tail = reason.text}});
    end_output(&t->trainers[slot]);
    sweep_if_all_exited(t);
}

/* Appends the reason for killing the trainer to its tail. The reason comes last, because
 * displays that shorten a tail show its end. */
static void late_tail(const struct trainers *t, const char *tail, char ret[MSG_TAIL_MAX])
{
    static const char by_agent[] = MSG_TAIL_BY_AGENT;
    struct text text;
    text_init(&text, ret, MSG_TAIL_MAX);
    text_add_tail(&text, tail, MSG_TAIL_MAX - sizeof by_agent - 1 - strlen(t->late_reason));
    text_addf(&text, "%s%s%s", tail[0] ? "\n" : "", by_agent, t->late_reason);
}

static void exit_timer_stop(struct trainer *trainer)
{
    evtimer_del(trainer->exit_timer);
    trainer->is_held = false;
}

/* Kills a process that non-daemon threads or an atexit handler keep alive. */
static void on_exit_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct trainer *trainer = ctx;
    const struct trainers *t = trainer->all;
    if (!t->guard || t->sweeping || !trainer->output) {
        return;
    }
    trainer->is_held = true;
    log_warn("trainer_held", LOG_U("epoch", t->epoch), LOG_U("local_rank", trainer->local),
             LOG_U("code", trainer->exit_code),
             LOG_S("reason", "the script's main thread has ended, but a thread or an atexit "
                             "handler keeps the process alive for longer than --exit-grace"));
    guard_link_signal(t->guard, trainer->local, SIGKILL);
}

void trainers_main_ended(struct trainers *t, uint32_t local, uint32_t code)
{
    if (local < t->n && t->trainers[local].output && !t->sweeping) {
        t->trainers[local].exit_code = code;
        timer_after(t->trainers[local].exit_timer, t->options.exit_grace_ms);
    }
}

static void on_exited(struct trainers *t, uint32_t slot, int wait_status)
{
    struct trainer *trainer = &t->trainers[slot];
    const char *tail = "";
    char with_reason[MSG_TAIL_MAX];
    bool signalled = WIFSIGNALED(wait_status);
    /* the process may have exited just before the signal */
    bool is_held = trainer->is_held && signalled && WTERMSIG(wait_status) == SIGKILL;
    exit_timer_stop(trainer);
    if (trainer->output) {
        output_close(trainer->output);
        bool has_failed =
            is_held ? trainer->exit_code != 0 : !signalled && WEXITSTATUS(wait_status) != 0;
        tail = output_tail(trainer->output, has_failed);
    }
    enum tfe_ending how = trainer->late;
    if (is_held) {
        signalled = false;
        wait_status = (int)trainer->exit_code << 8; /* encoded as in wait(2) */
    } else if (how != ENDING_EXITED) {
        late_tail(t, tail, with_reason);
        tail = with_reason;
    } else {
        how = watch_ending(t->watch, wait_status);
    }
    struct msg_exited end = {
        .local_rank = slot,
        .code = signalled ? 0 : (uint32_t)WEXITSTATUS(wait_status),
        .signal = signalled ? (uint32_t)WTERMSIG(wait_status) : 0,
        .end = how,
        .tail = tail,
    };
    report_event(t, (struct agent_event){.type = AGENT_TRAINER_EXITED, .end = end});
    end_output(trainer);
    sweep_if_all_exited(t);
}

static void check_quiet(struct trainers *t)
{
    uint16_t port;
    if (t->epoch && ports_still_accepting(t->options.ports, t->epoch, &port)) {
        if (!t->stuck_logged) {
            t->stuck_logged = true;
            log_warn("port_still_accepts", LOG_U("port", port), LOG_U("epoch", t->epoch));
        }
        timer_after(t->quiet_timer, QUIET_CHECK_MS);
        return;
    }
    t->sweeping = false;
    standbys_trainers_ended(t->standbys);
    report_event(t, (struct agent_event){.type = AGENT_SWEPT});
}

static void on_quiet_timer(evutil_socket_t fd, short what, void *ctx)
{
    check_quiet(ctx);
}

static void on_swept(struct trainers *t, pid_t stuck_pid)
{
    if (stuck_pid) {
        if (!t->stuck_logged) {
            t->stuck_logged = true;
            log_warn("descendant_stuck", LOG_I("pid", stuck_pid), LOG_U("epoch", t->epoch));
        }
        return; /* the guard keeps trying */
    }
    if (t->sweeping) {
        check_quiet(t);
    }
}

static uint64_t printed(void *ctx, uint32_t local)
{
    const struct trainers *t = ctx;
    return t->trainers[local].output ? output_bytes(t->trainers[local].output) : 0;
}

static void on_late(void *ctx, uint32_t local, enum tfe_ending how, const char *reason)
{
    struct trainers *t = ctx;
    if (!t->guard || t->sweeping || !t->trainers[local].output) {
        return;
    }
    log_warn("trainer_late", LOG_U("epoch", t->epoch), LOG_U("local_rank", local),
             LOG_S("how", msg_ending_name(how)), LOG_S("reason", reason));
    snprintf(t->late_reason, sizeof t->late_reason, "%s", reason);
    t->trainers[local].late = how;
    guard_link_signal(t->guard, local, SIGKILL);
}

static void on_alone(void *ctx, uint32_t local, const char *reason)
{
    struct trainers *t = ctx;
    log_warn("trains_alone", LOG_U("epoch", t->epoch), LOG_U("local_rank", local),
             LOG_S("reason", reason));
    report_event(t, (struct agent_event){.type = AGENT_ALONE, .epoch = t->epoch});
}

static void on_standby_changed(void *ctx, uint32_t local, uint32_t pid, const char *tensorflow)
{
    report_event(ctx,
                 (struct agent_event){.type = AGENT_STANDBY, .process = {local, pid, tensorflow}});
}

static void on_standbys_settled(void *ctx)
{
    struct trainers *t = ctx;
    t->options.settled(t->options.ctx);
}

static void on_guard_event(void *ctx, const struct guard_event *event);

/* Without a guard nothing enforces the fence: kill all trainers, then fork a new guard. */
static void on_lost(struct trainers *t)
{
    guard_link_free(t->guard);
    t->guard = NULL;
    standbys_guard(t->standbys, NULL);
    t->sweeping = false;
    t->has_grace = false;
    evtimer_del(t->quiet_timer);
    evtimer_del(t->grace_timer);
    if (!proc_kill_all_descendants_and_reap(getpid())) {
        log_error("descendants_left");
    }
    end_outputs(t);
    report_event(t, (struct agent_event){.type = AGENT_GUARD_LOST});
    struct guard_process process;
    struct tfe_reason reason;
    if (guard_fork(&process, NULL, &reason)) {
        /* Without a guard nothing can start; the core receives an error for each start. */
        log_error("no_guard", LOG_S("reason", reason.text));
        return;
    }
    t->guard = guard_link_new(t->options.base, &process, on_guard_event, t);
    guard_link_fence(t->guard, t->fence);
    standbys_guard(t->standbys, t->guard);
    report_event(t, (struct agent_event){.type = AGENT_GUARD, .guard_pid = (uint32_t)process.pid});
}

static void on_guard_event(void *ctx, const struct guard_event *event)
{
    struct trainers *t = ctx;
    switch (event->type) {
    case GUARD_SWEPT:
        on_swept(t, event->pid);
        return;
    case GUARD_FENCED:
        report_event(t, (struct agent_event){.type = AGENT_FENCED});
        return;
    case GUARD_LOST:
        on_lost(t);
        return;
    default:
        break;
    }
    if (event->slot >= GUARD_STANDBY_SLOT || event->type == GUARD_COLD) {
        standbys_event(t->standbys, event);
    } else if (event->type == GUARD_SPAWNED) {
        on_spawned(t, event->slot, event->pid);
    } else if (event->type == GUARD_SPAWN_FAILED) {
        spawn_failed(t, event->slot, event->value);
    } else if (event->type == GUARD_EXITED) {
        on_exited(t, event->slot, event->value);
    }
}

/* --- listening --- */

static void listen_checks_end(struct trainers *t)
{
    evtimer_del(t->listen_timer);
    fd_close(&t->listen_diag);
}

/* Returns the time until the next check. */
static uint32_t listen_pause(struct trainers *t)
{
    uint32_t next = t->listen_check_ms;
    if (t->listen_diag < 0 && next < LISTEN_CHECK_PROC_MS) {
        next = LISTEN_CHECK_PROC_MS;
    } else if (++t->listen_checks >= LISTEN_CHECK_OFTEN) {
        next += next / 4;
    }
    return next < LISTEN_CHECK_LAST_MS ? next : LISTEN_CHECK_LAST_MS;
}

static void on_listen_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct trainers *t = ctx;
    if (!t->guard || t->sweeping) {
        return;
    }
    bool all = true;
    for (uint32_t i = 0; i < t->n; i++) {
        if (!t->trainers[i].listens &&
            proc_descendant_listens(guard_link_pid(t->guard), t->trainers[i].port,
                                    &t->listen_diag)) {
            t->trainers[i].listens = true;
            watch_listens(t->watch, i);
        }
        all = all && t->trainers[i].listens;
    }
    if (!all) {
        t->listen_check_ms = listen_pause(t);
        timer_after(t->listen_timer, t->listen_check_ms);
        return;
    }
    listen_checks_end(t);
    ports_release(t->options.ports, t->epoch);
    report_event(t, (struct agent_event){.type = AGENT_LISTENING, .epoch = t->epoch});
}

/* --- orders --- */

/* Returns the replica name ("ps-0") for output, or NULL if the rank is enough. */
static const char *place_name(const struct agent_place *place, uint32_t local,
                              char ret[OUTPUT_NAME_MAX])
{
    (void)snprintf(ret, OUTPUT_NAME_MAX, "%s-%u", msg_task_name(place->own.role),
                   (unsigned)(place->rank + local - place->own.first));
    return place->has_roles ? ret : NULL;
}

/* Reserves the trainer's previous ports for its restart. Returns false if one has been taken
 * by another process. */
static bool rebind_ports(struct trainers *t, const struct agent_place *place)
{
    struct tfe_reason reason;
    const uint16_t *ports;
    if (ports_hold(t->options.ports, place->epoch, false, &ports, &reason)) {
        log_error("ports_lost", LOG_S("reason", reason.text));
        return false;
    }
    for (uint32_t local = 0; local < place->n; local++) {
        if (ports[local] != t->trainers[local].port) {
            return false;
        }
    }
    return true;
}

/* Standard server for parameter servers, without GPUs, whose memory it would otherwise allocate. */
static const char default_ps[] =
    "import json, os\n"
    "import tensorflow as tf\n"
    "place = json.loads(os.environ['TF_CONFIG'])\n"
    "config = tf.compat.v1.ConfigProto(device_count={'GPU': 0})\n"
    "tf.distribute.Server(place['cluster'], job_name='ps', task_index=place['task']['index'],\n"
    "                     protocol='grpc', config=config).join()\n";

static int spawn_one(struct trainers *t, const struct agent_place *place, uint32_t local)
{
    struct trainer_place where = t->options.environment;
    where.node = place;
    where.local_rank = local;
    where.nproc = place->n;
    char **env;
    if (environment_new((const char *const *)environ, &where, &env)) {
        return ENOMEM;
    }
    int out;
    int err;
    char name[OUTPUT_NAME_MAX];
    struct output_place whose = {.run = place->run,
                                 .epoch = place->epoch,
                                 .rank = place->rank + local,
                                 .local_rank = local,
                                 .name = place_name(place, local, name)};
    int rc = output_new(t->sink, &whose, &t->trainers[local].output, &out, &err);
    if (rc) {
        environment_free(env);
        return rc == TFE_ENOMEM ? ENOMEM : EMFILE;
    }
    struct spawn_spec spec = {
        .argv = (const char *const *)t->options.command->argv,
        .envp = (const char *const *)env,
        .directory = t->options.command->directory,
    };
    if (t->options.default_ps && place->own.role == TASK_PS) {
        const char *const argv[] = {t->options.command->argv[0], "-c", default_ps, NULL};
        spec.argv = argv;
        t->trainers[local].how = "exec";
        rc = guard_link_spawn(t->guard, local, &spec, out, err);
    } else {
        rc = standbys_spawn(t->standbys, local, &spec, out, err, &t->trainers[local].how);
    }
    close(out);
    close(err);
    environment_free(env);
    return rc ? EAGAIN : 0;
}

void trainers_spawn(struct trainers *t, const struct agent_place *place, int64_t started_us)
{
    t->started_us = started_us;
    t->epoch = place->epoch;
    t->stuck_logged = false;
    t->n = place->n;
    bool has_ports = !place->is_again || rebind_ports(t, place);
    /* PyTorch's store binds without SO_REUSEPORT, which fails while the agent holds the port. */
    if (t->options.standby->framework == FRAMEWORK_TORCH &&
        !standbys_can_share_ports(t->standbys)) {
        ports_release(t->options.ports, place->epoch);
    }
    for (uint32_t local = 0; local < place->n; local++) {
        const struct msg_row *row = local == 0 ? &place->own : &place->rows[place->rank + local];
        t->trainers[local].port = has_ports ? row->port : t->trainers[local].port;
        int error = !t->guard ? ESRCH : has_ports ? spawn_one(t, place, local) : EADDRINUSE;
        if (error) {
            spawn_failed(t, local, error);
        }
    }
    standbys_trainers_began(t->standbys);
    for (uint32_t local = 0; local < t->options.nproc; local++) {
        exit_timer_stop(&t->trainers[local]);
        t->trainers[local].late = ENDING_EXITED;
        t->trainers[local].listens = false;
    }
    watch_begin(t->watch, place);
    t->listen_check_ms = LISTEN_CHECK_FIRST_MS;
    t->listen_checks = 0;
    timer_after(t->listen_timer, t->listen_check_ms);
}

void trainers_stepped(struct trainers *t, uint32_t local)
{
    standbys_trainers_stepped(t->standbys);
    watch_stepped(t->watch, local);
}

static void sweep_now(struct trainers *t)
{
    t->has_grace = false;
    evtimer_del(t->grace_timer);
    guard_link_sweep(t->guard);
}

static void on_grace_timer(evutil_socket_t fd, short what, void *ctx)
{
    sweep_now(ctx);
}

static bool any_alive(const struct trainers *t)
{
    for (uint32_t local = 0; local < t->options.nproc; local++) {
        if (t->trainers[local].output) {
            return true;
        }
    }
    return false;
}

/* Ends the grace period of a sweep when the last trainer has exited. */
static void sweep_if_all_exited(struct trainers *t)
{
    if (t->has_grace && t->guard && !any_alive(t)) {
        sweep_now(t);
    }
}

void trainers_sweep(struct trainers *t, uint32_t grace_ms, uint64_t handlers)
{
    listen_checks_end(t);
    watch_end(t->watch);
    if (!t->guard) {
        report_event(t, (struct agent_event){.type = AGENT_SWEPT});
        return;
    }
    bool begins = !t->sweeping;
    t->sweeping = true;
    if (begins && grace_ms && any_alive(t)) {
        t->has_grace = true;
        timer_after(t->grace_timer, grace_ms);
        for (uint32_t local = 0; local < t->options.nproc; local++) {
            if (handlers >> local & 1 && t->trainers[local].output) {
                guard_link_signal(t->guard, local, SIGTERM);
            }
        }
    } else if (begins || t->has_grace) {
        sweep_now(t);
    }
}

void trainers_fence(struct trainers *t, struct tfe_mono deadline)
{
    t->fence = deadline;
    if (t->guard) {
        guard_link_fence(t->guard, deadline);
    }
}

uint64_t trainers_printed(const struct trainers *t)
{
    uint64_t bytes = 0;
    for (uint32_t local = 0; local < t->n; local++) {
        bytes += t->trainers[local].output ? output_bytes(t->trainers[local].output) : 0;
    }
    return bytes;
}

struct standbys *trainers_standbys(const struct trainers *t)
{
    return t->standbys;
}

struct watch *trainers_watch(const struct trainers *t)
{
    return t->watch;
}

uint32_t trainers_guard_pid(const struct trainers *t)
{
    return t->guard ? (uint32_t)guard_link_pid(t->guard) : 0;
}

struct trainers *trainers_new(const struct trainers_options *options)
{
    struct trainers *t = must_alloc(sizeof(*t));
    t->options = *options;
    t->fence = TFE_MONO_NEVER;
    t->listen_diag = -1;
    t->listen_timer = evtimer_new(options->base, on_listen_timer, t);
    t->quiet_timer = evtimer_new(options->base, on_quiet_timer, t);
    t->grace_timer = evtimer_new(options->base, on_grace_timer, t);
    must_succeed(t->listen_timer && t->quiet_timer && t->grace_timer);
    for (uint32_t local = 0; local < options->nproc; local++) {
        struct trainer *trainer = &t->trainers[local];
        *trainer = (struct trainer){.all = t, .local = local};
        trainer->exit_timer = evtimer_new(options->base, on_exit_timer, trainer);
        must_succeed(trainer->exit_timer);
    }
    t->sink = output_sink_new(&(struct output_options){.base = options->base,
                                                       .stdout_fd = STDOUT_FILENO,
                                                       .stderr_fd = STDERR_FILENO,
                                                       .nproc = options->nproc,
                                                       .show = options->show,
                                                       .logs = options->logs,
                                                       .ring = options->ring,
                                                       .on_line = options->on_line,
                                                       .on_line_ctx = options->ctx});
    const struct standbys_options standbys = {.base = options->base,
                                              .command = options->command,
                                              .settings = options->standby,
                                              .nproc = options->nproc,
                                              .has_end = options->environment.artifacts_dir,
                                              .changed = on_standby_changed,
                                              .settled = on_standbys_settled,
                                              .ctx = t};
    t->guard = guard_link_new(options->base, options->guard, on_guard_event, t);
    t->standbys = standbys_new(&standbys);
    standbys_guard(t->standbys, t->guard);
    t->watch = watch_new(&(struct watch_options){.base = options->base,
                                                 .settings = options->watch,
                                                 .nproc = options->nproc,
                                                 .printed = printed,
                                                 .late = on_late,
                                                 .alone = on_alone,
                                                 .require_cluster = options->require_cluster,
                                                 .ctx = t});
    return t;
}

/* Waits for the guard, which ends after its last descendant. */
static void await_end(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        (void)poll(&ready, 1, GUARD_END_MS);
        close(fd);
    }
    (void)waitpid(pid, NULL, WNOHANG);
}

void trainers_free(struct trainers *t)
{
    if (!t) {
        return;
    }
    watch_free(t->watch);
    standbys_free(t->standbys);
    if (t->guard) {
        pid_t pid = guard_link_pid(t->guard);
        guard_link_free(t->guard);
        await_end(pid);
    }
    end_outputs(t);
    output_sink_free(t->sink, 1000);
    listen_checks_end(t);
    event_drop(&t->listen_timer);
    event_drop(&t->quiet_timer);
    event_drop(&t->grace_timer);
    for (uint32_t local = 0; local < t->options.nproc; local++) {
        event_drop(&t->trainers[local].exit_timer);
    }
    free(t);
}
