/* agent/core/notices.c: see notices.h. */
#include "agent/core/notices.h"

/* design 4.9: a machine that still lives so long after its deadline stays. */
#define BACK_MS 120000
/* Kept of a signal's grace, to kill and to say goodbye. */
#define OUT_MS 2000
/* A signal that no server has heard of is waited with for so long: as a restart of the server, and
 * finding it again, takes. Steps that nobody can save are not worth a whole grace. */
#define ALONE_MS 5000
/* What a terminal sends to what runs in it: SIGHUP, SIGINT. SIGTERM is what clouds, schedulers and
 * service managers send before a machine or a container goes. */
#define TERMINAL_CLOSED 1
#define TERMINAL_INTERRUPT 2

/* The notice that says most: the first deadline of those that mean leaving, else a hint. 0: none.
 */
static enum tfe_notice strongest(const struct notices *n)
{
    enum tfe_notice best = n->stands[NOTICE_REBALANCE] ? NOTICE_REBALANCE : 0;
    for (int kind = NOTICE_PREEMPT; kind <= NOTICE_OPERATOR; kind++) {
        if (n->stands[kind] && (best <= NOTICE_REBALANCE ||
                                tfe_mono_before(n->v[kind].deadline, n->v[best].deadline))) {
            best = (enum tfe_notice)kind;
        }
    }
    return best;
}

static uint32_t ms_left(const struct turn *t, struct tfe_mono deadline)
{
    if (tfe_mono_is_never(deadline)) {
        return MSG_UNSET;
    }
    int64_t left = tfe_mono_sub(tfe_mono_max(deadline, t->now), t->now);
    return left > MSG_DURATION_MAX_MS ? MSG_DURATION_MAX_MS : (uint32_t)left;
}

/* again: on a new connection, where what was told on the last, a withdrawal too, may have been
 * lost. */
static void tell(struct notices *n, struct turn *t, bool again)
{
    enum tfe_notice kind = strongest(n);
    bool is_known = kind == n->told && (kind == 0 || n->v[kind].deadline.ms == n->told_deadline.ms);
    if (!t->is_up || (kind == 0 && n->ever == 0) || (!again && is_known)) {
        return;
    }
    n->ever = kind ? kind : n->ever;
    turn_send(t, MSG_NOTICE)->u.notice =
        (struct msg_notice){.kind = n->ever,
                            .deadline_ms = kind ? ms_left(t, n->v[kind].deadline) : MSG_UNSET,
                            .withdrawn = kind == 0,
                            .interrupted = kind == NOTICE_SIGNAL && n->is_interrupt,
                            .uncertain = kind && n->v[kind].uncertain};
    n->told = kind;
    n->told_deadline = kind ? n->v[kind].deadline : TFE_MONO_NEVER;
}

/* What has not come true by its time is over. */
static void drop_old(struct notices *n, const struct turn *t)
{
    for (int kind = NOTICE_PREEMPT; kind <= NOTICE_OPERATOR; kind++) {
        if (n->stands[kind] && turn_is_past(t, n->back_at[kind])) {
            n->stands[kind] = false;
        }
    }
}

static void stand(struct notices *n, const struct agent_notice *notice, struct tfe_mono back_at)
{
    if (!n->stands[notice->kind] || !tfe_mono_is_never(notice->deadline)) {
        n->back_at[notice->kind] = back_at;
    }
    n->stands[notice->kind] = true;
    n->v[notice->kind] = *notice;
    n->v[notice->kind].source = NULL; /* borrowed */
}

int notices_take(struct notices *n, struct turn *t, const struct agent_notice *notice)
{
    if (notice->kind < NOTICE_REBALANCE || notice->kind > NOTICE_OPERATOR) {
        return TFE_EINVAL;
    }
    if (notice->kind == NOTICE_SIGNAL && n->signal) {
        return 0; /* on the way out: nothing takes that back */
    }
    /* Before the tick: a machine that was suspended hears of the next one first, whose time would
     * be the old one's. */
    drop_old(n, t);
    if (notice->withdrawn) {
        n->stands[notice->kind] = false;
    } else {
        if (!n->stands[notice->kind]) {
            uint32_t left = ms_left(t, notice->deadline);
            turn_trace(t, AGENT_TRACE_NOTICE, 0, left == MSG_UNSET ? 0 : left, notice->source);
        }
        struct tfe_mono from = tfe_mono_is_never(notice->deadline) ? t->now : notice->deadline;
        stand(n, notice,
              notice->kind == NOTICE_REBALANCE ? TFE_MONO_NEVER : tfe_mono_add(from, BACK_MS));
    }
    tell(n, t, false);
    return 0;
}

void notices_signal(struct notices *n, struct turn *t, uint32_t signo)
{
    uint32_t grace = t->config.preempt_grace_ms;
    if (t->leave != LEAVE_NOT || n->signal) {
        turn_leave(t, LEAVE_AT_ONCE, AGENT_EXIT_SIGNAL + (int)n->signal, NULL);
        t->leaves_now = true; /* on the way out already */
        return;
    }
    n->is_interrupt = signo == TERMINAL_CLOSED || signo == TERMINAL_INTERRUPT;
    turn_trace(t, AGENT_TRACE_DRAINING, 0, signo, NULL);
    if (grace == 0 || t->is_idle) {
        turn_leave(t, LEAVE_WITH_GOODBYE, AGENT_EXIT_SIGNAL + (int)signo, NULL);
        return; /* nothing to plan */
    }
    n->signal = signo;
    n->last_moment = turn_in(t, grace > 2 * OUT_MS ? grace - OUT_MS : grace / 2);
    n->out_at = n->last_moment;
    if (!t->is_up) {
        n->out_at = tfe_mono_min(n->last_moment, turn_in(t, ALONE_MS));
    }
    stand(n, &(struct agent_notice){.kind = NOTICE_SIGNAL, .deadline = turn_in(t, grace)},
          TFE_MONO_NEVER);
    tell(n, t, false);
}

void notices_welcome(struct notices *n, struct turn *t)
{
    n->out_at = n->last_moment; /* there is somebody who plans */
    tell(n, t, true);           /* the server may be another one */
}

void notices_tick(struct notices *n, struct turn *t)
{
    drop_old(n, t);
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
    struct tfe_mono when = n->signal && t->leave == LEAVE_NOT ? n->out_at : TFE_MONO_NEVER;
    for (int kind = NOTICE_PREEMPT; kind <= NOTICE_OPERATOR; kind++) {
        when = n->stands[kind] ? tfe_mono_min(when, n->back_at[kind]) : when;
    }
    return when;
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
