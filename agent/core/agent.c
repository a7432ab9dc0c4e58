/* agent/core/agent.c: the agent's state machine: dispatches one event and returns the actions for
 * it. */
#include "agent/core/agent.h"

#include <string.h>

#include "agent/core/state.h"

/* Longest time to wait for the connection to close after GOODBYE. */
#define LEAVE_MS 2000

const struct agent_trace_format *agent_trace_format(enum agent_trace_kind kind)
{
    static const struct agent_trace_format words[] = {
#define TRACE_WORDS(NAME, name, level, rank, number, text)                                         \
    [AGENT_TRACE_##NAME] = {name, AGENT_LEVEL_##level, rank, number, text},
        AGENT_TRACES(TRACE_WORDS)
#undef TRACE_WORDS
    };
    return &words[kind];
}

int agent_new(const struct agent_config *config, const struct tfe_mem *mem, struct agent **ret)
{
    if (!id_is_valid(config->job.text) || !id_is_valid(config->node.text) ||
        !job_spec_is_valid(&config->spec) || config->highest_epoch >= MSG_EPOCH_LIMIT) {
        return TFE_EINVAL;
    }
    struct agent *a = mem_new(mem, 1, sizeof(*a));
    if (!a) {
        return TFE_ENOMEM;
    }
    a->mem = mem;
    a->step.config = *config;
    rng_init(&a->step.rng, config->seed);
    tables_init(&a->tables, mem);
    work_init(&a->work, &a->step);
    a->deadline = TFE_MONO_NEVER;
    *ret = a;
    return 0;
}

void agent_free(struct agent *a)
{
    if (a) {
        tables_done(&a->tables);
        mem_free(a->mem, a);
    }
}

/* --- START and RESTART --- */

/* Returns the reason why START must be ignored, or NULL if the epoch can begin. */
static const char *objection(const struct agent *a, const struct msg_start *start)
{
    if (start->epoch <= work_highest(&a->work)) {
        return "an epoch starts here at most once";
    }
    if (!link_has_lease(&a->link, &a->step)) {
        return "received after the end of the lease";
    }
    if (!a->step.is_idle || !preparation_is_ready_for(&a->preparation, start->epoch)) {
        return "this node is not ready for this epoch";
    }
    return NULL;
}

static void on_start(struct agent *a, const struct msg_start *start)
{
    struct step_context *t = &a->step;
    if (t->leave != LEAVE_NOT || work_runs(&a->work, start->epoch)) {
        return; /* the agent is leaving, or START was repeated after a reconnect */
    }
    const struct table *table = NULL;
    const char *reason = objection(a, start);
    if (!reason) {
        table = tables_activate(&a->tables, start->epoch, start->table_digest);
        if (!table) {
            step_trace(t, AGENT_TRACE_VOID_START, start->epoch, 0,
                       "the table of addresses is incomplete");
            /* READY without a digest makes the server send the whole table */
            preparation_request_ready(&a->preparation, t);
            return;
        }
        uint32_t n = work_trainers(t, start, table->rows, table->n);
        if (start->evaluates ? start->rank != table->n : (uint64_t)start->rank + n > table->n) {
            reason = "the rank is outside the table of addresses";
        } else if (!start->evaluates &&
                   !preparation_matches(&a->preparation, table->rows + start->rank, n)) {
            reason = "the address belongs to another process";
        }
    }
    if (reason) {
        /* JOIN answers a START that is ignored: it reports the node's state. If a JOIN is already
         * outstanding, a second one would make it unclear which of them WELCOME confirms. */
        step_trace(t, AGENT_TRACE_VOID_START, start->epoch, 0, reason);
        t->must_join = t->is_up;
        return;
    }
    link_fence(&a->link, t, start->fence_ms);
    preparation_started(&a->preparation);
    progress_begin(&a->progress, t, start->epoch, start->nodes);
    work_start(&a->work, t, start, preparation_host(&a->preparation),
               preparation_ports(&a->preparation));
    work_spawn(&a->work, t, table->rows, table->n);
}

/* Returns the reason why RESTART must be ignored, or NULL if the trainers can restart. */
static const char *objection_again(const struct agent *a, const struct msg_restart *restart)
{
    if (!work_can_restart(&a->work, restart)) {
        return "there is no ended trainer to restart";
    }
    if (!link_has_lease(&a->link, &a->step)) {
        return "received after the end of the lease";
    }
    return processes_can_start(&a->processes) ? NULL : "there is no guard";
}

static void on_restart(struct agent *a, const struct msg_restart *restart)
{
    struct step_context *t = &a->step;
    if (t->leave != LEAVE_NOT || notices_end_agent(&a->notices) ||
        work_has_started(&a->work, restart)) {
        return;
    }
    const char *reason = objection_again(a, restart);
    if (reason) {
        step_trace(t, AGENT_TRACE_VOID_START, restart->epoch, 0, reason);
        t->must_join = t->is_up;
        return;
    }
    const struct table *table = tables_held(&a->tables);
    /* Drop READY for an epoch that an earlier server chose; it may use the same ports. */
    preparation_cancel(&a->preparation, t, UINT64_MAX);
    progress_restart(&a->progress, t, restart->epoch);
    work_restart(&a->work, restart);
    work_spawn(&a->work, t, table->rows, table->n);
}

/* --- handlers of short events --- */

/* Sends the proofs of termination found on this machine. They are repeated after every WELCOME,
 * because the server may have lost its records. */
static void send_proofs(struct step_context *t)
{
    for (size_t i = 0; i < AGENT_PROOFS_MAX && t->config.proofs[i]; i++) {
        struct tfe_msg *msg = step_send_if_up(t, MSG_DEATH);
        if (msg) {
            msg->u.death.certificate = t->config.proofs[i];
        }
    }
}

static void on_welcome(struct agent *a, const struct msg_welcome *welcome)
{
    struct step_context *t = &a->step;
    if (link_welcome(&a->link, t, welcome)) {
        send_proofs(t);
        processes_send(&a->processes, t);
        work_welcome(&a->work, t, welcome->stop_grace_ms);
        progress_welcome(&a->progress, t);
        notices_welcome(&a->notices, t);
    }
}

static void on_stop(struct agent *a, const struct msg_stop *stop)
{
    work_stop_epoch(&a->work, &a->step, stop);
    preparation_cancel(&a->preparation, &a->step, work_highest(&a->work));
}

static void on_save(struct agent *a, const struct msg_save *save)
{
    if (!work_runs(&a->work, save->epoch)) {
        return; /* the epoch ended before SAVE arrived */
    }
    struct agent_action *order = step_add_action(&a->step, AGENT_SAVE);
    order->save.epoch = save->epoch;
    order->save.number = save->number;
    order->save.in_memory = save->in_memory;
    order->save.deadline =
        save->within_ms == MSG_UNSET ? TFE_MONO_NEVER : step_deadline_in(&a->step, save->within_ms);
}

static void on_finish(struct agent *a, const struct msg_finish *finish)
{
    int code = AGENT_EXIT_FAILED;
    switch (finish->result) {
    case RESULT_DRAINED:
        code = notices_exit_code(&a->notices);
        break;
    case RESULT_SUCCEEDED:
        code = AGENT_EXIT_OK;
        break;
    case RESULT_FAILED:
    case RESULT_CANCELLED:
        break;
    }
    step_leave(&a->step, LEAVE_AT_ONCE, code, finish->sentence);
}

/* Handles the refusal of a node whose files are at another commit than the job's: a branch has
 * moved since the job was opened. Before the first WELCOME nothing has used the files, so they may
 * change; the agent joins again after CHECKED_OUT. */
static void on_other_commit(struct agent *a, const struct msg_refused *refused)
{
    struct step_context *t = &a->step;
    if (!t->config.follows_commit || refused->commit == 0 || link_was_up(&a->link)) {
        step_leave(t, LEAVE_AT_ONCE, AGENT_EXIT_USAGE, refused->sentence);
        return;
    }
    link_refused(&a->link, t, refused);
    if (!a->is_checking_out) { /* the server may repeat the message */
        a->is_checking_out = true;
        step_add_action(t, AGENT_CHECK_OUT)->commit = refused->commit;
    }
}

static void on_checked_out(struct agent *a, const struct agent_event *event)
{
    struct step_context *t = &a->step;
    a->is_checking_out = false;
    if (event->checkout.reason) {
        step_leave(t, LEAVE_AT_ONCE, AGENT_EXIT_USAGE, event->checkout.reason);
        return;
    }
    t->config.spec.commit = event->checkout.commit;
    t->config.spec.script_digest = event->checkout.script_digest;
    link_retry_soon(&a->link, t);
}

static void on_refused(struct agent *a, const struct msg_refused *refused)
{
    if (refused->code != REFUSAL_LIMIT_REACHED && refused->code != REFUSAL_COMMIT_MISMATCH) {
        step_trace(&a->step, AGENT_TRACE_REFUSED, 0, (uint64_t)refused->code,
                   msg_refusal_name(refused->code));
    }
    switch (refused->code) {
    case REFUSAL_NOT_AUTHORISED:
        step_leave(&a->step, LEAVE_AT_ONCE, AGENT_EXIT_UNAUTHORISED, refused->sentence);
        return;
    case REFUSAL_BAD_REQUEST:
    case REFUSAL_SIZE_MISMATCH:
    case REFUSAL_VERSION_MISMATCH:
    case REFUSAL_ADDRESS_UNREACHABLE:
        step_leave(&a->step, LEAVE_AT_ONCE, AGENT_EXIT_USAGE, refused->sentence);
        return;
    case REFUSAL_JOB_FINISHED:
    case REFUSAL_NO_SUCH_JOB:
    case REFUSAL_NODE_REPLACED:
    case REFUSAL_NO_SUCH_NODE:
    case REFUSAL_NO_SUCH_KEY:
    case REFUSAL_CONFLICT:
    case REFUSAL_EVICTED:
        step_leave(&a->step, LEAVE_AT_ONCE, AGENT_EXIT_FAILED, refused->sentence);
        return;
    case REFUSAL_COMMIT_MISMATCH:
        on_other_commit(a, refused);
        return;
    case REFUSAL_LIMIT_REACHED:
    case REFUSAL_STORE: /* never sent to agents */
        /* The server closes the connection; a later attempt may be admitted. */
        link_refused(&a->link, &a->step, refused);
        return;
    }
}

/* Returns TFE_EINVAL if the node id, host or port list of the probe is malformed. */
static int on_probe(struct agent *a, const struct msg_probe *probe)
{
    if (!id_is_valid(probe->node) || !probe->host ||
        strnlen(probe->host, TFE_HOST_MAX + 1) > TFE_HOST_MAX || probe->n_ports == 0 ||
        probe->n_ports > MSG_NPROC_MAX) {
        return TFE_EINVAL;
    }
    step_add_action(&a->step, AGENT_PROBE)->probe = probe;
    return 0;
}

static int on_process(struct agent *a, const struct agent_event *event)
{
    if (event->process.local >= a->step.config.spec.nproc) {
        return TFE_EINVAL;
    }
    if (event->type == AGENT_STANDBY && event->process.tensorflow) {
        /* keeps the previous version if this one is malformed */
        (void)id_set(&a->step.tensorflow, event->process.tensorflow);
    }
    processes_set(&a->processes, event->type == AGENT_STANDBY ? PROCESS_STANDBY : PROCESS_TRAINER,
                  event->process.local, event->process.pid);
    return 0;
}

static void on_trainer_exited(struct agent *a, const struct msg_exited *end)
{
    if (work_trainer_exited(&a->work, &a->step, end)) {
        processes_set(&a->processes, PROCESS_TRAINER, end->local_rank, 0);
    }
}

/* Cleans up after the last process of an epoch has ended, and offers READY. */
static void on_idle(struct agent *a)
{
    progress_end(&a->progress);
    processes_trainers_gone(&a->processes);
    a->step.must_send_ready = true;
}

static void on_guard_lost(struct agent *a)
{
    step_trace(&a->step, AGENT_TRACE_GUARD_LOST, 0, 0, NULL);
    a->step.config.proof_hash.text[0] = '\0'; /* a later guard cannot prove termination */
    a->step.config.guard_port = 0;
    processes_guard_lost(&a->processes);
    if (work_guard_lost(&a->work, &a->step)) {
        on_idle(a);
    }
}

static void on_tick(struct agent *a)
{
    struct step_context *t = &a->step;
    if (a->goodbye_sent) {
        t->exits_now = step_is_past(t, a->leave_by);
    } else {
        struct msg_renew fields = {0};
        work_describe_rank0(&a->work, t, &fields);
        link_tick(&a->link, t, &fields);
    }
    work_tick(&a->work, t);
    progress_tick(&a->progress, t);
    notices_tick(&a->notices, t);
}

/* --- dispatch --- */

static int dispatch_message(struct agent *a, const struct tfe_msg *msg)
{
    struct step_context *t = &a->step;
    switch ((int)msg->type) {
    case MSG_WELCOME:
        on_welcome(a, &msg->u.welcome);
        return 0;
    case MSG_RENEWED:
        link_renewed(&a->link, t, &msg->u.renewed);
        return 0;
    case MSG_PREPARE:
        /* ignore PREPARE for an epoch that has started or stopped */
        if (msg->u.prepare.epoch > work_highest(&a->work)) {
            preparation_begin(&a->preparation, t, &msg->u.prepare);
        }
        return 0;
    case MSG_STOP:
        on_stop(a, &msg->u.stop);
        return 0;
    case MSG_TABLE:
        return tables_add(&a->tables, &msg->u.table);
    case MSG_START:
        on_start(a, &msg->u.start);
        return 0;
    case MSG_RESTART:
        on_restart(a, &msg->u.restart);
        return 0;
    case MSG_SAVE:
        on_save(a, &msg->u.save);
        return 0;
    case MSG_NOTED:
        work_noted(&a->work, msg->u.noted.epoch);
        return 0;
    case MSG_LEASE_ENDED:
        link_lease_ended(&a->link, t);
        work_stop(&a->work, t, "the lease has ended");
        return 0;
    case MSG_PROBE:
        return on_probe(a, &msg->u.probe);
    case MSG_FINISH:
        on_finish(a, &msg->u.finish);
        return 0;
    case MSG_REFUSED:
        on_refused(a, &msg->u.refused);
        return 0;
    }
    return TFE_EINVAL;
}

static int dispatch(struct agent *a, const struct agent_event *event)
{
    struct step_context *t = &a->step;
    struct link *l = &a->link;
    struct tfe_msg *msg;
    switch (event->type) {
    case AGENT_BEGIN:
        if (a->begun) {
            return TFE_ESTATE;
        }
        a->begun = true;
        link_begin(l, t);
        return 0;
    case AGENT_TICK:
        on_tick(a);
        return 0;
    case AGENT_CONNECTED:
        link_connected(l);
        preparation_connected(&a->preparation, event->host);
        t->must_join = event->host || preparation_host(&a->preparation);
        if (!t->must_join) {
            step_leave(t, LEAVE_AT_ONCE, AGENT_EXIT_USAGE,
                       "this machine has no IPv4 address, and TensorFlow listens on IPv4 only "
                       "(assign one, or set --address)");
        }
        return 0;
    case AGENT_DISCONNECTED:
        if (a->goodbye_sent) {
            t->exits_now = true;
        } else {
            link_disconnected(l, t, event->lost.how, event->lost.reason);
            if (a->is_checking_out) {
                link_hold(l);
            }
        }
        return 0;
    case AGENT_MESSAGE:
        return dispatch_message(a, event->msg);
    case AGENT_PORTS_HELD:
        return preparation_ports_held(&a->preparation, t, event);
    case AGENT_PORTS_FAILED:
        step_leave(t, LEAVE_WITH_GOODBYE, AGENT_EXIT_FAILED, event->reason);
        return 0;
    case AGENT_SPAWNED:
    case AGENT_STANDBY:
        return on_process(a, event);
    case AGENT_SPAWN_FAILED:
    case AGENT_TRAINER_EXITED:
        on_trainer_exited(a, &event->end);
        return 0;
    case AGENT_SWEPT:
        if (work_swept(&a->work, t)) {
            on_idle(a);
        }
        return 0;
    case AGENT_LISTENING:
        work_listening(&a->work, t, event->epoch);
        return 0;
    case AGENT_ALONE:
        progress_set_alone(&a->progress, t, event->epoch);
        return 0;
    case AGENT_IDLE:
        work_set_idle(&a->work, event->idle_since);
        return 0;
    case AGENT_PROBED:
        msg = step_send_if_up(t, MSG_PROBED);
        if (msg) {
            msg->u.probed = event->probed;
        }
        return 0;
    case AGENT_PROOF:
        msg = step_send_if_up(t, MSG_DEATH);
        if (msg) {
            msg->u.death.certificate = event->certificate;
        }
        return 0;
    case AGENT_FENCED:
        work_fenced(&a->work, t);
        return 0;
    case AGENT_GUARD:
        processes_guard(&a->processes, event->guard_pid);
        t->must_send_ready = true;
        return 0;
    case AGENT_GUARD_LOST:
        on_guard_lost(a);
        return 0;
    case AGENT_PROGRESS:
        if (event->progress.report.ends && work_runs(&a->work, event->progress.report.epoch)) {
            work_script_ended(&a->work, t, event->progress.local);
        }
        return progress_apply(&a->progress, t, event->progress.local, &event->progress.report);
    case AGENT_CHECKED_OUT:
        on_checked_out(a, event);
        return 0;
    case AGENT_NOTICE:
        return notices_apply(&a->notices, t, &event->notice);
    case AGENT_SIGNAL:
        notices_signal(&a->notices, t, event->signo);
        if (notices_end_agent(&a->notices) && !t->is_up) {
            link_retry_soon(l, t);
        }
        return 0;
    }
    return TFE_EINVAL;
}

static void send_join(struct agent *a)
{
    const struct agent_config *c = &a->step.config;
    struct msg_join *join = &step_send(&a->step, MSG_JOIN)->u.join;
    *join = work_join(&a->work);
    join->host = preparation_host(&a->preparation);
    join->job = c->job.text;
    join->node = c->node.text;
    join->node_secret = c->node_secret;
    join->node_name = c->node_name;
    join->pid = c->pid;
    join->durable = c->durable;
    join->fixed_ports = c->fixed_ports;
    join->tensorflow = step_tensorflow(&a->step);
    join->run_key = c->run_key;
    join->proof_hash = c->proof_hash.text[0] ? c->proof_hash.text : NULL;
    join->guard_port = c->guard_port;
    join->new_run = c->new_run && !link_was_up(&a->link);
    join->spec = c->spec;
    join->has_role = c->has_role;
    join->role = c->role;
    uint32_t extra = (uint32_t)c->spec.chief + c->spec.n_ps;
    if (join->running && join->running->nodes > join->spec.max_nodes + extra) {
        /* an operator has resized the job beyond its spec */
        join->spec.max_nodes = join->running->nodes - extra;
    }
    link_join(&a->link, &a->step);
    processes_mark_unsent(&a->processes);
}

static void settle_join(struct agent *a)
{
    if (a->step.must_join) {
        a->step.must_join = false;
        send_join(a);
    }
}

static void settle_ready(struct agent *a)
{
    struct step_context *t = &a->step;
    if (t->must_send_ready && t->is_up && t->leave == LEAVE_NOT &&
        preparation_is_requested(&a->preparation) && work_is_idle(&a->work) &&
        processes_can_start(&a->processes) && !notices_end_agent(&a->notices)) {
        preparation_send_ready(&a->preparation, t, tables_digest(&a->tables),
                               progress_memory(&a->progress));
    }
    t->must_send_ready = false;
}

/* Ends the agent once nothing runs: sends GOODBYE and waits for a clean close, or exits
 * directly. */
static void settle_leave(struct agent *a)
{
    struct step_context *t = &a->step;
    if (t->leave == LEAVE_NOT || a->has_exited) {
        return;
    }
    if (!t->exits_now) {
        work_stop(&a->work, t, "the agent ends");
        if (!a->step.is_idle || a->goodbye_sent) {
            return;
        }
    }
    if (!t->exits_now && t->leave == LEAVE_WITH_GOODBYE && link_is_joined(&a->link)) {
        step_send(t, MSG_GOODBYE)->u.goodbye =
            (struct msg_goodbye){.drained = true, .interrupted = notices_is_interrupt(&a->notices)};
        step_add_action(t, AGENT_DISCONNECT);
        a->goodbye_sent = true;
        a->leave_by = step_deadline_in(t, LEAVE_MS);
        return;
    }
    struct agent_action *out = step_add_action(t, AGENT_EXIT);
    out->exit.code = t->exit_code;
    out->exit.sentence = t->exit_sentence;
    a->has_exited = true;
}

static struct tfe_mono next_deadline(const struct agent *a)
{
    struct tfe_mono when = a->goodbye_sent ? a->leave_by : link_deadline(&a->link, &a->step);
    when = tfe_mono_min(when, work_deadline(&a->work));
    when = tfe_mono_min(when, progress_deadline(&a->progress, &a->step));
    return tfe_mono_min(when, notices_deadline(&a->notices, &a->step));
}

int agent_step(struct agent *a, const struct agent_event *event, struct agent_actions *ret)
{
    struct step_context *t = &a->step;
    *ret = (struct agent_actions){.deadline = a->deadline};
    t->n_actions = 0;
    if (a->has_exited) {
        return TFE_ESTATE;
    }
    t->now = tfe_mono_max(t->now, event->now);
    int rc = dispatch(a, event);
    if (rc) {
        return rc;
    }
    settle_join(a);
    settle_ready(a);
    processes_send(&a->processes, t);
    notices_settle(&a->notices, t);
    settle_leave(a);
    a->deadline = next_deadline(a);
    *ret = (struct agent_actions){.v = t->actions, .n = t->n_actions, .deadline = a->deadline};
    return 0;
}
