/* agent/core/notices.c: implementation of notices.h. */
#include "agent/core/notices.h"

/* Part of a signal's grace period that is reserved for killing trainers and sending GOODBYE. */
#define EXIT_MARGIN_MS 2000
/* Grace period after a signal while no server is connected: enough for a restart of the server
 * and a reconnect. Without a server nobody can coordinate a checkpoint, so a longer wait gains
 * nothing. */
#define DISCONNECTED_GRACE_MS 5000
/* SIGHUP and SIGINT, which a terminal sends. Clouds, schedulers and service managers send SIGTERM
 * before they stop a machine or container. */
#define SIGNAL_HANGUP 1
#define SIGNAL_INTERRUPT 2

/* Sends the strongest notice if the server does not have it; again forces that on a new
 * connection. */
static void send_strongest(struct notices *n, struct step_context *t, bool again)
{
    struct msg_notice notice;
    if (t->is_up && active_notices_next_message(&n->all, t->now, again, &notice)) {
        notice.interrupted = n->all.sent_kind == NOTICE_SIGNAL && n->is_interrupt;
        step_send(t, MSG_NOTICE)->u.notice = notice;
    }
}

int notices_apply(struct notices *n, struct step_context *t, const struct agent_notice *notice)
{
    if (notice->kind < NOTICE_REBALANCE || notice->kind > NOTICE_OPERATOR) {
        return TFE_EINVAL;
    }
    if (notice->kind == NOTICE_SIGNAL && n->signal) {
        return 0; /* the agent is leaving; a signal cannot be withdrawn */
    }
    if (active_notices_apply(&n->all, t->now, notice)) {
        uint32_t left = notice_ms_left(t->now, notice->deadline);
        step_trace(t, AGENT_TRACE_NOTICE, 0, left == MSG_UNSET ? 0 : left, notice->source);
    }
    send_strongest(n, t, false);
    return 0;
}

void notices_signal(struct notices *n, struct step_context *t, uint32_t signo)
{
    uint32_t grace = t->config.preempt_grace_ms;
    if (t->leave != LEAVE_NOT || n->signal) {
        step_leave(t, LEAVE_AT_ONCE, AGENT_EXIT_SIGNAL + (int)n->signal, NULL);
        t->exits_now = true; /* a second signal ends the grace period */
        return;
    }
    n->is_interrupt = signo == SIGNAL_HANGUP || signo == SIGNAL_INTERRUPT;
    step_trace(t, AGENT_TRACE_DRAINING, 0, signo, NULL);
    if (grace == 0 || t->is_idle) {
        step_leave(t, LEAVE_WITH_GOODBYE, AGENT_EXIT_SIGNAL + (int)signo, NULL);
        return; /* nothing runs, so no switch is needed */
    }
    n->signal = signo;
    n->grace_end =
        step_deadline_in(t, grace > 2 * EXIT_MARGIN_MS ? grace - EXIT_MARGIN_MS : grace / 2);
    n->kill_at = n->grace_end;
    if (!t->is_up) {
        n->kill_at = tfe_mono_min(n->grace_end, step_deadline_in(t, DISCONNECTED_GRACE_MS));
    }
    active_notices_add_permanent(
        &n->all,
        &(struct agent_notice){.kind = NOTICE_SIGNAL, .deadline = step_deadline_in(t, grace)});
    send_strongest(n, t, false);
}

void notices_welcome(struct notices *n, struct step_context *t)
{
    n->kill_at = n->grace_end;  /* a connected server can plan a switch */
    send_strongest(n, t, true); /* repeat it: the server may have lost its records */
}

void notices_tick(struct notices *n, struct step_context *t)
{
    active_notices_expire(&n->all, t->now);
    send_strongest(n, t, false);
}

void notices_settle(const struct notices *n, struct step_context *t)
{
    if (n->signal && (t->is_idle || step_is_past(t, n->kill_at))) {
        step_leave(t, LEAVE_WITH_GOODBYE, notices_exit_code(n), NULL);
    }
}

struct tfe_mono notices_deadline(const struct notices *n, const struct step_context *t)
{
    const struct tfe_mono out = n->signal && t->leave == LEAVE_NOT ? n->kill_at : TFE_MONO_NEVER;
    return tfe_mono_min(out, active_notices_next_expiry(&n->all));
}

bool notices_end_agent(const struct notices *n)
{
    return n->signal != 0;
}

bool notices_is_interrupt(const struct notices *n)
{
    return n->is_interrupt;
}

int notices_exit_code(const struct notices *n)
{
    return n->signal ? AGENT_EXIT_SIGNAL + (int)n->signal : AGENT_EXIT_OK;
}
