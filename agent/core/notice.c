/* agent/core/notice.c: warnings that this machine will go away, told to the server, which plans for
 * it.
 *
 * A signal ends the agent once its trainers have ended, on the server's word or at the last moment;
 * a server that is away just then has some seconds to come back. After any other notice it stays,
 * without work, until its machine goes; where that does not come true it is back in the job 2
 * minutes after the deadline. */
#include "agent/core/core.h"

/* DESIGN 9: a machine that still lives so long after its deadline stays. */
#define BACK_MS 120000
/* Kept of a signal's grace, to kill and to say goodbye. */
#define OUT_MS 2000
/* A signal that no server has heard of is waited with for so long: as a restart of the server, and
 * finding it again, takes. Steps that nobody can save are not worth a whole grace. */
#define ALONE_MS 5000

/* The notice that says most: the first deadline of those that mean leaving, else a hint. 0: none.
 */
static enum tfe_notice strongest(const struct agent *a)
{
    const struct notices *n = &a->notices;
    enum tfe_notice best = n->stands[NOTICE_REBALANCE] ? NOTICE_REBALANCE : 0;
    for (int kind = NOTICE_PREEMPT; kind <= NOTICE_OPERATOR; kind++) {
        if (n->stands[kind] && (best <= NOTICE_REBALANCE ||
                                tfe_mono_before(n->v[kind].deadline, n->v[best].deadline))) {
            best = (enum tfe_notice)kind;
        }
    }
    return best;
}

static uint32_t ms_left(const struct agent *a, struct tfe_mono deadline)
{
    if (tfe_mono_is_never(deadline)) {
        return MSG_UNSET;
    }
    int64_t left = tfe_mono_sub(tfe_mono_max(deadline, a->now), a->now);
    return left > MSG_DURATION_MAX_MS ? MSG_DURATION_MAX_MS : (uint32_t)left;
}

/* again: on a new connection, where what was told on the last, a withdrawal too, may have been
 * lost. */
static void tell(struct agent *a, bool again)
{
    struct notices *n = &a->notices;
    enum tfe_notice kind = strongest(a);
    bool is_known = kind == n->told && (kind == 0 || n->v[kind].deadline.ms == n->told_deadline.ms);
    if (a->link.state != LINK_UP || (kind == 0 && n->ever == 0) || (!again && is_known)) {
        return;
    }
    n->ever = kind ? kind : n->ever;
    act_send(a, MSG_NOTICE)->u.notice =
        (struct msg_notice){.kind = n->ever,
                            .deadline_ms = kind ? ms_left(a, n->v[kind].deadline) : MSG_UNSET,
                            .withdrawn = kind == 0,
                            .uncertain = kind && n->v[kind].uncertain};
    n->told = kind;
    n->told_deadline = kind ? n->v[kind].deadline : TFE_MONO_NEVER;
}

static void stand(struct agent *a, const struct agent_notice *notice, struct tfe_mono back_at)
{
    struct notices *n = &a->notices;
    n->back_at[notice->kind] = n->stands[notice->kind] && tfe_mono_is_never(notice->deadline)
                                   ? n->back_at[notice->kind]
                                   : back_at;
    n->stands[notice->kind] = true;
    n->v[notice->kind] = *notice;
}

int notice_take(struct agent *a, const struct agent_notice *notice, const char *source)
{
    struct notices *n = &a->notices;
    if (notice->kind < NOTICE_REBALANCE || notice->kind > NOTICE_OPERATOR) {
        return TFE_EINVAL;
    }
    if (notice->kind == NOTICE_SIGNAL && n->signal) {
        return 0; /* on the way out: nothing takes that back */
    }
    if (notice->withdrawn) {
        n->stands[notice->kind] = false;
    } else {
        if (!n->stands[notice->kind]) {
            uint32_t left = ms_left(a, notice->deadline);
            act_trace(a, AGENT_TRACE_NOTICE, left == MSG_UNSET ? 0 : left, source);
        }
        struct tfe_mono from = tfe_mono_is_never(notice->deadline) ? a->now : notice->deadline;
        stand(a, notice,
              notice->kind == NOTICE_REBALANCE ? TFE_MONO_NEVER : tfe_mono_add(from, BACK_MS));
    }
    tell(a, false);
    return 0;
}

void notice_signal(struct agent *a, uint32_t signo)
{
    struct notices *n = &a->notices;
    uint32_t grace = a->config.preempt_grace_ms;
    if (a->after != AFTER_NOTHING || n->signal) {
        a->exit_code =
            a->after != AFTER_NOTHING ? a->exit_code : AGENT_EXIT_SIGNAL + (int)n->signal;
        act_exit(a); /* on the way out already: at once */
        return;
    }
    act_trace(a, AGENT_TRACE_DRAINING, signo, NULL);
    if (grace == 0 || a->work == WORK_IDLE) {
        leave_with(a, AFTER_GOODBYE, AGENT_EXIT_SIGNAL + (int)signo, NULL); /* nothing to plan */
        return;
    }
    n->signal = signo;
    n->last_moment = tfe_mono_add(a->now, grace > 2 * OUT_MS ? grace - OUT_MS : grace / 2);
    n->out_at = n->last_moment;
    if (a->link.state != LINK_UP) {
        n->out_at = tfe_mono_min(n->last_moment, tfe_mono_add(a->now, ALONE_MS));
        link_hurry(a);
    }
    stand(a, &(struct agent_notice){.kind = NOTICE_SIGNAL, .deadline = tfe_mono_add(a->now, grace)},
          TFE_MONO_NEVER);
    tell(a, false);
}

void notice_welcome(struct agent *a)
{
    a->notices.out_at = a->notices.last_moment; /* there is somebody who plans */
    tell(a, true);                              /* the server may be another one */
}

void notice_tick(struct agent *a)
{
    struct notices *n = &a->notices;
    for (int kind = NOTICE_PREEMPT; kind <= NOTICE_OPERATOR; kind++) {
        if (n->stands[kind] && !tfe_mono_before(a->now, n->back_at[kind])) {
            n->stands[kind] = false;
        }
    }
    tell(a, false);
}

void notice_settle(struct agent *a)
{
    const struct notices *n = &a->notices;
    if (n->signal && a->after == AFTER_NOTHING && !a->over &&
        (a->work == WORK_IDLE || !tfe_mono_before(a->now, n->out_at))) {
        leave_with(a, AFTER_GOODBYE, AGENT_EXIT_SIGNAL + (int)n->signal, NULL);
    }
}

struct tfe_mono notice_deadline(const struct agent *a)
{
    const struct notices *n = &a->notices;
    struct tfe_mono when = n->signal && a->after == AFTER_NOTHING ? n->out_at : TFE_MONO_NEVER;
    for (int kind = NOTICE_PREEMPT; kind <= NOTICE_OPERATOR; kind++) {
        when = n->stands[kind] ? tfe_mono_min(when, n->back_at[kind]) : when;
    }
    return when;
}
