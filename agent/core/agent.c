/* agent/core/agent.c: the door: one event in, actions out. */
#include "agent/core/agent.h"

#include <string.h>

#include "agent/core/core.h"

const char *agent_trace_name(enum agent_trace_kind kind)
{
    switch (kind) {
#define TRACE_NAME(NAME, name, level)                                                              \
    case AGENT_TRACE_##NAME:                                                                       \
        return name;
        AGENT_TRACES(TRACE_NAME)
#undef TRACE_NAME
    }
    return "?";
}

enum agent_trace_level agent_trace_level(enum agent_trace_kind kind)
{
    switch (kind) {
#define TRACE_LEVEL(NAME, name, level)                                                             \
    case AGENT_TRACE_##NAME:                                                                       \
        return AGENT_LEVEL_##level;
        AGENT_TRACES(TRACE_LEVEL)
#undef TRACE_LEVEL
    }
    return AGENT_LEVEL_ERROR;
}

int agent_new(const struct agent_config *config, const struct tfe_mem *mem, struct agent **ret)
{
    if (!id_is_valid(config->job.text) || !id_is_valid(config->node.text) ||
        config->min_nodes == 0 || config->min_nodes > config->max_nodes ||
        config->max_nodes > MSG_NODES_MAX || config->nproc == 0 || config->nproc > MSG_NPROC_MAX ||
        config->highest_epoch >= MSG_EPOCH_LIMIT) {
        return TFE_EINVAL;
    }
    struct agent *a = mem_new(mem, 1, sizeof(*a));
    if (!a) {
        return TFE_ENOMEM;
    }
    a->config = *config;
    a->highest = config->highest_epoch;
    a->mem = mem;
    a->deadline = TFE_MONO_NEVER;
    a->exit_deadline = TFE_MONO_NEVER;
    rng_init(&a->rng, config->seed);
    *ret = a;
    return 0;
}

void agent_free(struct agent *a)
{
    if (a) {
        table_done(a);
        mem_free(a->mem, a);
    }
}

struct agent_action *act_push(struct agent *a, enum agent_action_type type)
{
    TFE_ASSERT(a->n_actions < ACTIONS_MAX);
    struct agent_action *action = &a->actions[a->n_actions++];
    memset(action, 0, sizeof(*action));
    action->type = type;
    return action;
}

struct tfe_msg *act_send(struct agent *a, enum tfe_msg_type type)
{
    struct tfe_msg *msg = &act_push(a, AGENT_SEND)->msg;
    msg->type = type;
    return msg;
}

struct agent_action *act_trace(struct agent *a, enum agent_trace_kind kind, uint64_t number,
                               const char *text)
{
    struct agent_action *action = act_push(a, AGENT_TRACE);
    action->trace = kind;
    action->number = number;
    action->text = text;
    return action;
}

void act_exit(struct agent *a)
{
    struct agent_action *end = act_push(a, AGENT_EXIT);
    end->code = a->exit_code;
    end->text = a->has_sentence ? a->sentence : NULL;
    a->over = true;
}

void leave_with(struct agent *a, enum after_sweep how, int code, const char *sentence)
{
    if (a->after != AFTER_NOTHING) {
        return;
    }
    a->after = how;
    a->exit_code = code;
    a->has_sentence = sentence != NULL;
    if (sentence) {
        size_t n = strnlen(sentence, sizeof(a->sentence) - 1);
        memcpy(a->sentence, sentence, n);
        a->sentence[n] = '\0';
    }
    work_stop(a, "the agent ends");
}

static void take_refused(struct agent *a, const struct msg_refused *refused)
{
    act_trace(a, AGENT_TRACE_REFUSED, (uint64_t)refused->code, msg_refusal_name(refused->code));
    switch (refused->code) {
    case REFUSAL_NOT_AUTHORISED:
        leave_with(a, AFTER_EXIT, AGENT_EXIT_UNAUTHORISED, refused->sentence);
        return;
    case REFUSAL_BAD_REQUEST:
    case REFUSAL_SIZE_MISMATCH:
    case REFUSAL_ADDRESS_UNREACHABLE:
        leave_with(a, AFTER_EXIT, AGENT_EXIT_USAGE, refused->sentence);
        return;
    case REFUSAL_JOB_FINISHED:
    case REFUSAL_NO_SUCH_JOB:
    case REFUSAL_NODE_REPLACED:
    case REFUSAL_NO_SUCH_NODE:
    case REFUSAL_EVICTED:
        leave_with(a, AFTER_EXIT, AGENT_EXIT_FAILED, refused->sentence);
        return;
    case REFUSAL_LIMIT_REACHED:
    case REFUSAL_STORE: /* not said to agents */
        return;         /* the server closes; the next try may find room */
    }
}

static int exit_of(const struct agent *a, enum tfe_result result)
{
    switch (result) {
    case RESULT_DRAINED:
        return a->notices.signal ? AGENT_EXIT_SIGNAL + (int)a->notices.signal : AGENT_EXIT_OK;
    case RESULT_SUCCEEDED:
        return AGENT_EXIT_OK;
    case RESULT_FAILED:
    case RESULT_STOPPED:
        return AGENT_EXIT_FAILED;
    }
    return AGENT_EXIT_FAILED;
}

static int take_message(struct agent *a, const struct tfe_msg *msg)
{
    switch ((int)msg->type) {
    case MSG_WELCOME:
        if (a->link.state == LINK_JOINING) {
            link_welcome(a, &msg->u.welcome);
            work_welcome(a);
            progress_welcome(a);
            notice_welcome(a);
        }
        return 0;
    case MSG_RENEWED:
        link_renewed(a, &msg->u.renewed);
        return 0;
    case MSG_PREPARE:
        work_prepare(a, &msg->u.prepare);
        return 0;
    case MSG_STOP:
        if (!TFE_BUG(stop_ignored)) {
            work_stop_epoch(a, &msg->u.stop);
        }
        return 0;
    case MSG_TABLE:
        return table_take(a, &msg->u.table);
    case MSG_START:
        work_start(a, &msg->u.start);
        return 0;
    case MSG_SAVE:
        progress_ask(a, &msg->u.save);
        return 0;
    case MSG_NOTED:
        work_noted(a, msg->u.noted.epoch);
        return 0;
    case MSG_LEASE_ENDED:
        link_lease_ended(a);
        return 0;
    case MSG_PROBE:
        return probe_take(a, &msg->u.probe);
    case MSG_FINISH:
        leave_with(a, AFTER_EXIT, exit_of(a, msg->u.finish.result), msg->u.finish.sentence);
        return 0;
    case MSG_REFUSED:
        take_refused(a, &msg->u.refused);
        return 0;
    }
    return TFE_EINVAL;
}

static int take(struct agent *a, const struct agent_event *event)
{
    switch (event->type) {
    case AGENT_BEGIN:
        if (a->begun) {
            return TFE_ESTATE;
        }
        a->begun = true;
        link_begin(a);
        return 0;
    case AGENT_TICK:
        link_tick(a);
        work_tick(a);
        progress_tick(a);
        notice_tick(a);
        return 0;
    case AGENT_CONNECTED:
        link_connected(a, event->host);
        return 0;
    case AGENT_DISCONNECTED:
        link_disconnected(a, event->link, event->text);
        return 0;
    case AGENT_MESSAGE:
        return take_message(a, event->msg);
    case AGENT_PORTS_HELD:
        if (event->n_ports != a->config.nproc) {
            return TFE_EINVAL;
        }
        work_ports_held(a, event->epoch, event->ports);
        return 0;
    case AGENT_PORTS_FAILED:
        leave_with(a, AFTER_GOODBYE, AGENT_EXIT_FAILED, event->text);
        return 0;
    case AGENT_SPAWNED:
        if (event->local >= a->config.nproc) {
            return TFE_EINVAL;
        }
        a->pids[event->local] = event->pid;
        return 0;
    case AGENT_STANDBY:
        if (event->local >= a->config.nproc) {
            return TFE_EINVAL;
        }
        a->standby_pids[event->local] = event->pid;
        return 0;
    case AGENT_SPAWN_FAILED:
    case AGENT_TRAINER_EXITED:
        work_trainer_exited(a, event);
        return 0;
    case AGENT_SWEPT:
        work_swept(a);
        return 0;
    case AGENT_LISTENING:
        work_listening(a, event->epoch);
        return 0;
    case AGENT_PROBED:
        probe_done(a, event->probe, event->result);
        return 0;
    case AGENT_FENCED:
        work_fenced(a);
        return 0;
    case AGENT_GUARD:
        a->guard_pid = event->pid;
        a->guard_lost = false;
        work_ready(a);
        memset(a->told_pids, 0xff, sizeof(a->told_pids));
        return 0;
    case AGENT_GUARD_LOST:
        work_guard_lost(a);
        return 0;
    case AGENT_PROGRESS:
        return progress_take(a, event);
    case AGENT_NOTICE:
        return notice_take(a, &event->notice, event->text);
    case AGENT_SIGNAL:
        notice_signal(a, event->code);
        return 0;
    }
    return TFE_EINVAL;
}

int agent_step(struct agent *a, const struct agent_event *event, struct agent_actions *ret)
{
    *ret = (struct agent_actions){.deadline = a->deadline};
    a->n_actions = 0;
    if (a->over) {
        return TFE_ESTATE;
    }
    if (tfe_mono_before(a->now, event->now)) {
        a->now = event->now;
    }
    int rc = take(a, event);
    if (rc) {
        return rc;
    }
    link_tell_processes(a);
    notice_settle(a);
    work_leave(a);
    a->deadline = link_deadline(a);
    if (a->work == WORK_RUNNING) {
        a->deadline = tfe_mono_min(a->deadline, a->exit_deadline);
    }
    a->deadline = tfe_mono_min(a->deadline, progress_deadline(a));
    a->deadline = tfe_mono_min(a->deadline, notice_deadline(a));
    *ret = (struct agent_actions){.v = a->actions, .n = a->n_actions, .deadline = a->deadline};
    return 0;
}
