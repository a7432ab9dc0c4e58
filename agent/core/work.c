/* agent/core/work.c: implementation of work.h. */
#include "agent/core/work.h"

#include <string.h>

#include "common/text/text.h"

static void set_state(struct work *w, struct step_context *t, enum work_state state)
{
    w->state = state;
    t->is_idle = state == WORK_IDLE;
}

void work_init(struct work *w, struct step_context *t)
{
    set_state(w, t, WORK_IDLE);
    w->highest = t->config.highest_epoch;
    w->exit_deadline = TFE_MONO_NEVER;
    w->idle_since = TFE_MONO_NEVER;
}

struct msg_join work_join(struct work *w)
{
    bool has_ended = w->state == WORK_IDLE && w->epoch != 0 && w->exited.epoch == w->epoch;
    w->exit_joined = has_ended;
    return (struct msg_join){
        .highest_epoch = w->highest,
        .running_epoch = w->state == WORK_IDLE ? 0 : w->epoch,
        .exited = has_ended ? &w->exited : NULL,
        .running = (w->state != WORK_IDLE || has_ended) && !w->evaluates ? &w->running : NULL,
        .evaluates = w->evaluates && (w->state != WORK_IDLE || has_ended),
        .restart = w->state == WORK_IDLE ? 0 : w->restart,
    };
}

static void send_exited(const struct work *w, struct step_context *t)
{
    struct tfe_msg *msg = step_send_if_up(t, MSG_EXITED);
    if (msg) {
        msg->u.exited = w->exited;
    }
}

static void send_listening(const struct work *w, struct step_context *t)
{
    struct tfe_msg *msg = step_send_if_up(t, MSG_LISTENING);
    if (msg) {
        msg->u.listening.epoch = w->epoch;
    }
}

void work_welcome(struct work *w, struct step_context *t, uint32_t stop_grace_ms)
{
    w->stop_grace_ms = stop_grace_ms;
    if (w->exit_pending && !w->exit_joined) {
        send_exited(w, t);
    }
    if (w->state == WORK_RUNNING && w->has_listened) {
        /* Repeat LISTENING: a server that lost its records has no other proof that the trainers of
         * this node listen. */
        send_listening(w, t);
    }
}

uint32_t work_trainers(const struct step_context *t, const struct msg_start *start,
                       const struct msg_row *rows, size_t n_rows)
{
    bool works = !start->evaluates && start->rank < n_rows && rows[start->rank].role == TASK_WORKER;
    return works ? t->config.spec.nproc : 1;
}

static void record_running(struct work *w, const struct step_context *t,
                           const struct msg_start *start, const char *host, const uint16_t *ports)
{
    memcpy(w->host, host, strlen(host) + 1);
    memcpy(w->ports, ports, t->config.spec.nproc * sizeof(ports[0]));
    w->running = (struct msg_running){
        .run = start->run,
        .rank = start->rank,
        .nodes = start->nodes,
        .world = start->world,
        .digest = start->table_digest,
        .host = w->host,
        .ports = w->ports,
        .n_ports = t->config.spec.nproc,
        .cause = start->cause,
    };
}

void work_start(struct work *w, struct step_context *t, const struct msg_start *start,
                const char *host, const uint16_t *ports)
{
    record_running(w, t, start, host, ports);
    w->epoch = start->epoch;
    w->highest = start->epoch;
    w->restart = 0;
    w->evaluates = start->evaluates;
}

bool work_has_started(const struct work *w, const struct msg_restart *restart)
{
    return w->epoch == restart->epoch && w->restart >= restart->number;
}

bool work_can_restart(const struct work *w, const struct msg_restart *restart)
{
    return w->state == WORK_IDLE && w->epoch == restart->epoch && w->epoch == w->highest &&
           restart->number > w->restart;
}

void work_restart(struct work *w, const struct msg_restart *restart)
{
    w->restart = restart->number;
}

void work_spawn(struct work *w, struct step_context *t, const struct msg_row *rows, size_t n_rows)
{
    const struct msg_running *running = &w->running;
    struct msg_row own = {.rank = running->rank,
                          .host = w->host,
                          .port = w->ports[0],
                          .role = TASK_EVALUATOR,
                          .first = running->rank};
    own = w->evaluates ? own : rows[running->rank];
    w->is_ps_chief = !w->evaluates && running->rank == 0 && t->config.spec.n_ps > 0;
    w->n = own.role == TASK_WORKER ? t->config.spec.nproc : 1;
    set_state(w, t, WORK_RUNNING);
    w->n_alive = w->n;
    w->is_decided = false;
    w->exit_pending = false; /* the server no longer needs EXITED for the previous start */
    w->first_succeeded = false;
    w->other_succeeded = false;
    w->script_succeeded = false;
    w->has_listened = false;
    w->has_grace = false;
    w->exit_deadline = TFE_MONO_NEVER;
    w->idle_since = TFE_MONO_NEVER;
    w->exited = (struct msg_exited){.epoch = 0};
    step_trace(t, AGENT_TRACE_EPOCH, w->epoch, running->nodes, msg_cause_name(running->cause))
        ->rank = running->rank;
    step_add_action(t, AGENT_SPAWN)->spawn = (struct agent_place){
        .epoch = w->epoch,
        .run = running->run,
        .rank = running->rank,
        .n = w->n,
        .restarts = w->starts++,
        .is_again = w->restart > 0,
        .has_roles = t->config.spec.chief || t->config.spec.evaluator || t->config.spec.n_ps > 0,
        .rows = rows,
        .n_rows = n_rows,
        .own = own,
    };
}

/* Decides what EXITED reports for this epoch. The first decision is final. */
static void decide_exit(struct work *w, struct msg_exited how)
{
    if (w->is_decided) {
        return;
    }
    w->is_decided = true;
    struct text text;
    text_init(&text, w->tail, sizeof(w->tail));
    text_add_tail(&text, how.tail ? how.tail : "", MSG_TAIL_MAX);
    how.epoch = w->epoch;
    how.restart = w->restart;
    how.tail = w->tail;
    w->exited = how;
}

/* Terminates the trainers. With a planned STOP, trainers that listen get the stop grace; NULL gives
 * no grace. A gentle sweep in progress can be replaced by one without grace. */
static void sweep(struct work *w, struct step_context *t, const struct msg_stop *planned)
{
    if (w->state == WORK_RUNNING || (w->state == WORK_SWEEPING && w->has_grace && !planned)) {
        set_state(w, t, WORK_SWEEPING);
        w->has_grace = planned;
        struct agent_action *order = step_add_action(t, AGENT_SWEEP);
        order->sweep.epoch = w->epoch;
        order->sweep.planned = planned;
        order->sweep.waits = planned && w->evaluates;
        order->sweep.in_memory = planned && planned->in_memory;
        if (planned) {
            order->sweep.grace_ms = w->evaluates ? t->config.exit_grace_ms : w->stop_grace_ms;
        }
    }
}

static void stop(struct work *w, struct step_context *t, const struct msg_stop *planned,
                 const char *reason)
{
    if (w->state == WORK_RUNNING) {
        step_trace(t, AGENT_TRACE_STOPPING, w->epoch, 0, reason);
        decide_exit(w, (struct msg_exited){.stopped = true});
    }
    sweep(w, t, planned);
}

void work_stop(struct work *w, struct step_context *t, const char *reason)
{
    stop(w, t, NULL, reason);
}

void work_stop_epoch(struct work *w, struct step_context *t, const struct msg_stop *stop_msg)
{
    if (w->state != WORK_IDLE && w->epoch <= stop_msg->epoch) {
        bool is_planned = stop_msg->planned && w->epoch == stop_msg->epoch;
        stop(w, t, is_planned ? stop_msg : NULL, "requested by the server");
    }
    if (stop_msg->epoch > w->highest) {
        w->highest = stop_msg->epoch;
    }
}

/* Returns the exit status as a POSIX shell reports it. */
static uint32_t status_of(uint32_t code, uint32_t signal)
{
    return signal ? 128 + signal : code;
}

/* Returns true for the job's rank 0, whose success is the job's success. When another rank
 * succeeds, no deadline starts: rank 0 may evaluate and export for a long time (design 4.10). */
static bool is_rank0(const struct work *w, uint32_t local_rank)
{
    return !w->evaluates && w->running.rank == 0 && local_rank == 0;
}

bool work_trainer_exited(struct work *w, struct step_context *t, const struct msg_exited *end)
{
    if (w->state == WORK_IDLE || end->local_rank >= w->n || w->n_alive == 0) {
        return false;
    }
    uint32_t status = status_of(end->code, end->signal);
    struct agent_trace *trace = step_trace(t, AGENT_TRACE_TRAINER_EXITED, w->epoch, status, NULL);
    trace->rank = end->local_rank;
    trace->is_signal = end->signal != 0;
    w->n_alive--;
    if (w->state == WORK_SWEEPING) {
        return true;
    }
    if (status == 0 && end->local_rank == 0 && !job_needs_all_workers(&t->config.spec)) {
        w->first_succeeded = true;
    }
    w->other_succeeded = w->other_succeeded || (status == 0 && !is_rank0(w, end->local_rank));
    bool is_ignored = w->first_succeeded || (w->script_succeeded && end->local_rank != 0);
    if (status != 0 && !is_ignored) {
        decide_exit(w, *end);
    } else if (w->n_alive == 0) {
        /* If only the first trainer counts, the exit codes of the others are ignored after its
         * success. */
        decide_exit(w, (struct msg_exited){.code = 0});
    } else if (status == 0 && is_rank0(w, end->local_rank) &&
               !job_needs_all_workers(&t->config.spec) && tfe_mono_is_never(w->exit_deadline)) {
        w->exit_deadline = step_deadline_in(t, t->config.exit_grace_ms);
    }
    if (w->is_decided) {
        sweep(w, t, NULL);
    }
    return true;
}

void work_script_ended(struct work *w, struct step_context *t, uint32_t local_rank)
{
    /* Trainers that all count keep their full time, and their exit codes matter. */
    const bool others_count = job_needs_all_workers(&t->config.spec) && w->n > 1;
    if (w->state == WORK_RUNNING && w->is_ps_chief && local_rank == 0 && !w->script_succeeded &&
        !others_count) {
        w->script_succeeded = true;
        w->exit_deadline = step_deadline_in(t, t->config.exit_grace_ms);
    }
}

void work_set_idle(struct work *w, struct tfe_mono since)
{
    if (w->state == WORK_RUNNING) {
        w->idle_since = since;
    }
}

void work_describe_rank0(const struct work *w, const struct step_context *t, struct msg_renew *ret)
{
    if (w->state != WORK_RUNNING || w->evaluates || w->running.rank != 0) {
        return;
    }
    ret->others_ended = w->other_succeeded;
    if (!tfe_mono_is_never(w->idle_since)) {
        int64_t ms = tfe_mono_sub(t->now, w->idle_since);
        ms = ms < 0 ? 0 : ms;
        ret->idle_ms = ms > MSG_DURATION_MAX_MS ? MSG_DURATION_MAX_MS : (uint32_t)ms;
    }
}

void work_tick(struct work *w, struct step_context *t)
{
    if (w->state != WORK_RUNNING || !step_is_past(t, w->exit_deadline)) {
        return;
    }
    /* The job's rank 0 has succeeded; terminate the remaining trainers. */
    decide_exit(w, (struct msg_exited){.code = 0});
    sweep(w, t, NULL);
}

void work_listening(struct work *w, struct step_context *t, uint64_t epoch)
{
    if (work_runs(w, epoch) && !w->has_listened) {
        w->has_listened = true;
        send_listening(w, t);
    }
}

bool work_swept(struct work *w, struct step_context *t)
{
    if (w->state != WORK_SWEEPING) {
        return false;
    }
    set_state(w, t, WORK_IDLE);
    w->n_alive = 0;
    step_trace(t, AGENT_TRACE_EXITED, w->epoch, status_of(w->exited.code, w->exited.signal),
               w->exited.stopped ? "stopped" : NULL)
        ->is_signal = w->exited.signal != 0;
    if (t->leave == LEAVE_NOT) { /* otherwise GOODBYE reports the end */
        w->exit_pending = true;
        send_exited(w, t);
    }
    return true;
}

void work_noted(struct work *w, uint64_t epoch)
{
    if (w->exited.epoch == epoch) {
        w->exit_pending = false;
    }
}

bool work_guard_lost(struct work *w, struct step_context *t)
{
    if (w->state == WORK_IDLE) {
        return false;
    }
    decide_exit(w, (struct msg_exited){.stopped = true});
    set_state(w, t, WORK_SWEEPING);
    return work_swept(w, t);
}

void work_fenced(struct work *w, struct step_context *t)
{
    if (w->state == WORK_RUNNING) {
        step_trace(t, AGENT_TRACE_FENCED, w->epoch, 0, NULL);
        decide_exit(w, (struct msg_exited){.stopped = true});
    }
    sweep(w, t, NULL);
}

struct tfe_mono work_deadline(const struct work *w)
{
    return w->state == WORK_RUNNING ? w->exit_deadline : TFE_MONO_NEVER;
}

bool work_runs(const struct work *w, uint64_t epoch)
{
    return w->state == WORK_RUNNING && w->epoch == epoch;
}

bool work_is_idle(const struct work *w)
{
    return w->state == WORK_IDLE;
}

uint64_t work_highest(const struct work *w)
{
    return w->highest;
}
