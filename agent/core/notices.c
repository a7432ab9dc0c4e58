/* agent/core/notices.c: implementation of notices.h. */
#include "agent/core/notices.h"

/* Part of a signal's grace period that is reserved for killing trainers and sending GOODBYE. */
#define OUT_MS 2000
/* Grace period after a signal while no server is connected: enough for a restart of the server
 * and a reconnect. Without a server nobody can coordinate a checkpoint, so a longer wait gains
 * nothing. */
#define ALONE_MS 5000
/* SIGHUP and SIGINT, which a terminal sends. Clouds, schedulers and service managers send SIGTERM
 * before they stop a machine or container. */
#define TERMINAL_CLOSED 1
#define TERMINAL_INTERRUPT 2

/* Sends the strongest notice if the server does not have it; again forces that on a new
 * connection. */
static void tell(struct notices *n, struct turn *t, bool again)
{
    struct msg_notice notice;
    if (t->is_up && standing_tell(&n->all, t->now, again, &notice)) {
        notice.interrupted = n->all.told == NOTICE_SIGNAL && n->is_interrupt;
        turn_send(t, MSG_NOTICE)->u.notice = notice;
    }
}

int notices_take(struct notices *n, struct turn *t, const struct agent_notice *notice)
{
    if (notice->kind < NOTICE_REBALANCE || notice->kind > NOTICE_OPERATOR) {
        return TFE_EINVAL;
    }
    if (notice->kind == NOTICE_SIGNAL && n->signal) {
        return 0; /* the agent is leaving; a signal cannot be withdrawn */
    }
    if (standing_take(&n->all, t->now, notice)) {
        uint32_t left = standing_ms_left(t->now, notice->deadline);
        turn_trace(t, AGENT_TRACE_NOTICE, 0, left == MSG_UNSET ? 0 : left, notice->source);
    }
    tell(n, t, false);
    return 0;
}

void notices_signal(struct notices *n, struct turn *t, uint32_t signo)
{
    uint32_t grace = t->config.preempt_grace_ms;
    if (t->leave != LEAVE_NOT || n->signal) {
        turn_leave(t, LEAVE_AT_ONCE, AGENT_EXIT_SIGNAL + (int)n->signal, NULL);
        t->leaves_now = true; /* a second signal ends the grace period */
        return;
    }
    n->is_interrupt = signo == TERMINAL_CLOSED || signo == TERMINAL_INTERRUPT;
    turn_trace(t, AGENT_TRACE_DRAINING, 0, signo, NULL);
    if (grace == 0 || t->is_idle) {
        turn_leave(t, LEAVE_WITH_GOODBYE, AGENT_EXIT_SIGNAL + (int)signo, NULL);
        return; /* nothing runs, so no switch is needed */
    }
    n->signal = signo;
    n->last_moment = turn_in(t, grace > 2 * OUT_MS ? grace - OUT_MS : grace / 2);
    n->out_at = n->last_moment;
    if (!t->is_up) {
        n->out_at = tfe_mono_min(n->last_moment, turn_in(t, ALONE_MS));
    }
    standing_keep(&n->all,
                  &(struct agent_notice){.kind = NOTICE_SIGNAL, .deadline = turn_in(t, grace)});
    tell(n, t, false);
}

void notices_welcome(struct notices *n, struct turn *t)
{
    n->out_at = n->last_moment; /* a connected server can plan a switch */
    tell(n, t, true);           /* repeat it: the server may have lost its records */
}

void notices_tick(struct notices *n, struct turn *t)
{
    standing_drop_old(&n->all, t->now);
    tell(n, t, false);
}

void notices_settle(const struct notices *n, struct turn *t)
{
    if (n->signal && (t->is_idle || turn_is_past(t, n->out_at))) {
        turn_leave(t, LEAVE_WITH_GOODBYE, notices_exit_code(n), NULL);
    }
}

struct tfe_mono notices_deadline(const struct notices *n, const struct turn *t)
{
    const struct tfe_mono out = n->signal && t->leave == LEAVE_NOT ? n->out_at : TFE_MONO_NEVER;
    return tfe_mono_min(out, standing_deadline(&n->all));
}

bool notices_mean_end(const struct notices *n)
{
    return n->signal != 0;
}

bool notices_are_interrupt(const struct notices *n)
{
    return n->is_interrupt;
}

int notices_exit_code(const struct notices *n)
{
    return n->signal ? AGENT_EXIT_SIGNAL + (int)n->signal : AGENT_EXIT_OK;
}
