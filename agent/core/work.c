/* agent/core/work.c: the epochs on this node: ready, start, end, account for it. */
#include <string.h>

#include "agent/core/core.h"
#include "common/base/text.h"

/* How long a GOODBYE may take to reach the server. */
#define LEAVE_MS 2000

void work_prepare(struct agent *a, const struct msg_prepare *prepare)
{
    if (prepare->epoch <= a->highest) {
        return; /* overtaken */
    }
    if (a->prepare != prepare->epoch) {
        a->prepare = prepare->epoch;
        a->fresh_ports = prepare->fresh_ports;
        a->held = 0;
        probe_answer(a, false);
    }
    a->answer = prepare->answer;
    a->asked = true;
    work_ready(a);
}

/* Nothing of an older epoch runs here. */
static bool is_free(const struct agent *a)
{
    return a->work == WORK_IDLE || (TFE_BUG(ready_early) && a->work == WORK_SWEEPING);
}

void work_ready(struct agent *a)
{
    if (a->prepare == 0 || !a->asked || a->guard_lost || a->notices.signal || !is_free(a) ||
        a->after != AFTER_NOTHING || a->link.state != LINK_UP) {
        return;
    }
    if (a->held != a->prepare) {
        struct agent_action *hold = act_push(a, AGENT_HOLD_PORTS);
        hold->epoch = a->prepare;
        hold->fresh = a->fresh_ports;
        return;
    }
    probe_answer(a, a->answer);
    struct msg_ready *ready = &act_send(a, MSG_READY)->u.ready;
    ready->epoch = a->prepare;
    ready->host = a->host;
    ready->ports = a->ports;
    ready->n_ports = a->config.nproc;
    ready->answering = a->answers;
    ready->table_digest = a->table.digest;
    act_trace(a, AGENT_TRACE_READY, 0, NULL)->epoch = a->prepare;
}

void work_ports_held(struct agent *a, uint64_t epoch, const uint16_t *ports)
{
    if (epoch != a->prepare || a->held == epoch) {
        return;
    }
    memcpy(a->ports, ports, a->config.nproc * sizeof(*ports));
    a->held = epoch;
    work_ready(a);
}

/* A START that may not be followed is answered with who we are and what became of us. A JOIN that
 * is under way says it already; a second one would make it unclear which of them a WELCOME counts
 * from. */
static void void_start(struct agent *a, const struct msg_start *start, const char *why)
{
    act_trace(a, AGENT_TRACE_VOID_START, 0, why)->epoch = start->epoch;
    if (a->link.state == LINK_UP) {
        link_join(a);
    }
}

/* The ports are this node's own row: it was READY with them, and the table's digest fits. */
static void remember(struct agent *a, const struct msg_start *start)
{
    const char *host = a->table.rows[start->rank].host;
    memcpy(a->running_host, host, strlen(host) + 1);
    for (uint32_t i = 0; i < a->config.nproc; i++) {
        a->running_ports[i] = a->table.rows[start->rank + i].port;
    }
    a->running = (struct msg_running){
        .run = start->run,
        .rank = start->rank,
        .nodes = start->nodes,
        .world = start->world,
        .digest = start->table_digest,
        .host = a->running_host,
        .ports = a->running_ports,
        .n_ports = a->config.nproc,
        .cause = start->cause,
    };
}

void work_start(struct agent *a, const struct msg_start *start)
{
    if (a->after != AFTER_NOTHING) {
        return; /* on the way out */
    }
    if (start->epoch <= a->highest) {
        if (a->work == WORK_RUNNING && a->epoch == start->epoch) {
            return; /* told twice, over a reconnect */
        }
        void_start(a, start, "an epoch starts here at most once");
        return;
    }
    if (!tfe_mono_before(a->now, a->link.lease_end)) {
        void_start(a, start, "it came after the end of the lease");
        return;
    }
    if (a->work != WORK_IDLE || a->held != start->epoch || a->answers) {
        void_start(a, start, "this node is not ready for it");
        return;
    }
    if (!table_begin(a, start->epoch, start->table_digest)) {
        act_trace(a, AGENT_TRACE_VOID_START, 0, "its table is not whole")->epoch = start->epoch;
        a->asked = true; /* it counts on this node, whatever connection it asked on */
        work_ready(a);   /* with no digest: the table comes again */
        return;
    }
    if ((uint64_t)start->rank + a->config.nproc > a->table.n) {
        void_start(a, start, "its rank is outside of its table");
        return;
    }
    remember(a, start);
    link_fence(a, start->fence_ms);
    a->highest = start->epoch;
    a->epoch = start->epoch;
    a->prepare = 0;
    a->held = 0;
    a->work = WORK_RUNNING;
    a->alive = a->config.nproc;
    a->decided = false;
    a->first_ended_well = false;
    a->has_listened = false;
    a->exit_pending = false; /* the server has taken leave of the epoch it was about */
    a->exit_deadline = TFE_MONO_NEVER;
    progress_begin(a);
    struct agent_action *told =
        act_trace(a, AGENT_TRACE_EPOCH, start->rank, msg_cause_name(start->cause));
    told->epoch = start->epoch;
    told->nodes = start->nodes;
    act_push(a, AGENT_SPAWN)->place = (struct agent_place){
        .epoch = start->epoch,
        .run = start->run,
        .rank = start->rank,
        .restarts = a->starts++,
        .rows = a->table.rows,
        .n_rows = a->table.n,
    };
}

/* Decides what will be told of the end of this epoch here; the first decision stays. */
static void decide(struct agent *a, struct msg_exited how)
{
    if (a->decided) {
        return;
    }
    a->decided = true;
    struct text text;
    text_init(&text, a->tail, sizeof(a->tail));
    text_add_tail(&text, how.tail ? how.tail : "", MSG_TAIL_MAX);
    how.epoch = a->epoch;
    how.tail = a->tail;
    a->exited = how;
}

/* gently: trainers that listen have the stop grace. What began so may go on without. */
static void sweep(struct agent *a, bool gently)
{
    if (a->work == WORK_RUNNING || (a->work == WORK_SWEEPING && a->sweeps_gently && !gently)) {
        a->work = WORK_SWEEPING;
        a->sweeps_gently = gently;
        struct agent_action *sweep = act_push(a, AGENT_SWEEP);
        sweep->planned = gently;
        sweep->epoch = a->epoch;
        sweep->grace_ms = gently ? a->link.stop_grace_ms : 0;
        if (TFE_BUG(exited_early) && a->link.state == LINK_UP) {
            act_send(a, MSG_EXITED)->u.exited = a->exited;
        }
    }
}

static void stop(struct agent *a, bool gently, const char *why)
{
    if (a->work == WORK_RUNNING) {
        act_trace(a, AGENT_TRACE_STOPPING, 0, why)->epoch = a->epoch;
        decide(a, (struct msg_exited){.stopped = true});
    }
    sweep(a, gently);
}

void work_stop(struct agent *a, const char *why)
{
    stop(a, false, why);
}

void work_stop_epoch(struct agent *a, const struct msg_stop *said)
{
    uint64_t epoch = said->epoch;
    if (a->work != WORK_IDLE && a->epoch <= epoch) {
        stop(a, said->planned && a->epoch == epoch && !TFE_BUG(stop_hard), "the server says so");
    }
    if (epoch > a->highest) {
        a->highest = epoch;
    }
    if (a->prepare && a->prepare <= a->highest) {
        a->prepare = 0;
        probe_answer(a, false);
    }
}

void work_trainer_exited(struct agent *a, const struct agent_event *event)
{
    if (a->work == WORK_IDLE || event->local >= a->config.nproc || a->alive == 0) {
        return;
    }
    uint32_t status = event->signal ? 128 + event->signal : event->code;
    struct agent_action *told = act_trace(a, AGENT_TRACE_TRAINER_EXITED, status, NULL);
    told->epoch = a->epoch;
    told->nodes = event->local;
    a->pids[event->local] = 0;
    a->alive--;
    if (a->work == WORK_SWEEPING) {
        return;
    }
    if (status == 0 && event->local == 0) {
        a->first_ended_well = true;
    }
    if (status != 0 && !a->first_ended_well) {
        decide(a, (struct msg_exited){.local_rank = event->local,
                                      .code = event->code,
                                      .signal = event->signal,
                                      .tail = event->text,
                                      .end = event->end});
    } else if (a->alive == 0) {
        /* After the first ended well the others' codes do not matter. */
        decide(a, (struct msg_exited){.code = 0});
    } else if (tfe_mono_is_never(a->exit_deadline)) {
        a->exit_deadline = tfe_mono_add(a->now, a->config.exit_grace_ms);
    }
    if (a->decided) {
        sweep(a, false);
    }
}

void work_tick(struct agent *a)
{
    if (a->work != WORK_RUNNING || tfe_mono_before(a->now, a->exit_deadline)) {
        return;
    }
    /* Some of the node's trainers ended well a while ago. If the first was among them the rest no
     * longer matters; else it hangs, and that is a failure. */
    if (a->first_ended_well) {
        decide(a, (struct msg_exited){.code = 0});
    } else {
        decide(a, (struct msg_exited){.code = 1,
                                      .tail = "others of this node ended, this trainer did not"});
    }
    sweep(a, false);
}

void work_listening(struct agent *a, uint64_t epoch)
{
    if (a->work == WORK_RUNNING && epoch == a->epoch && !a->has_listened) {
        a->has_listened = true;
        if (a->link.state == LINK_UP) {
            act_send(a, MSG_LISTENING)->u.listening.epoch = epoch;
        }
    }
}

/* Nothing runs any more: say what became of it, and do what was waiting for this. */
void work_swept(struct agent *a)
{
    if (a->work != WORK_SWEEPING) {
        return;
    }
    a->work = WORK_IDLE;
    a->alive = 0;
    memset(a->pids, 0, sizeof(a->pids));
    uint32_t status = a->exited.signal ? 128 + a->exited.signal : a->exited.code;
    act_trace(a, AGENT_TRACE_EXITED, status, a->exited.stopped ? "stopped" : NULL)->epoch =
        a->epoch;
    if (a->after == AFTER_NOTHING) {
        a->exit_pending = true;
        if (a->link.state == LINK_UP) {
            act_send(a, MSG_EXITED)->u.exited = a->exited;
        }
    }
    work_ready(a);
}

void work_welcome(struct agent *a)
{
    if (a->exit_pending && !a->link.exited_told) {
        act_send(a, MSG_EXITED)->u.exited = a->exited;
    }
    if (a->work == WORK_RUNNING && a->has_listened) {
        /* Also where it was told before: the server may be another one, and nobody's ports prove
         * anything about a node that has not said it. */
        act_send(a, MSG_LISTENING)->u.listening.epoch = a->epoch;
    }
}

void work_noted(struct agent *a, uint64_t epoch)
{
    if (a->exit_pending && a->exited.epoch == epoch) {
        a->exit_pending = false;
    }
}

void work_guard_lost(struct agent *a)
{
    act_trace(a, AGENT_TRACE_GUARD_LOST, 0, NULL);
    a->guard_pid = 0;
    a->guard_lost = true;
    if (a->work == WORK_IDLE) {
        return;
    }
    decide(a, (struct msg_exited){.stopped = true});
    a->work = WORK_SWEEPING;
    work_swept(a);
}

void work_fenced(struct agent *a)
{
    if (a->work == WORK_RUNNING) {
        act_trace(a, AGENT_TRACE_FENCED, 0, NULL)->epoch = a->epoch;
        decide(a, (struct msg_exited){.stopped = true});
    }
    sweep(a, false);
}

/* Once idle, the way out: GOODBYE and a clean close, or the exit itself. */
void work_leave(struct agent *a)
{
    if (a->work != WORK_IDLE || a->after == AFTER_NOTHING || a->over || a->leaving) {
        return;
    }
    if (a->after == AFTER_GOODBYE && (a->link.state == LINK_UP || a->link.state == LINK_JOINING)) {
        act_send(a, MSG_GOODBYE)->u.goodbye.drained = true;
        act_push(a, AGENT_DISCONNECT);
        a->leaving = true;
        a->leave_by = tfe_mono_add(a->now, LEAVE_MS);
        return;
    }
    act_exit(a);
}
