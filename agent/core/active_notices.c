/* agent/core/active_notices.c: implementation of active_notices.h. */
#include "agent/core/active_notices.h"

/* A machine that is still alive this long after its deadline is assumed to stay (design 4.9). */
#define EXPIRY_MS 120000

uint32_t notice_ms_left(struct tfe_mono now, struct tfe_mono deadline)
{
    if (tfe_mono_is_never(deadline)) {
        return MSG_UNSET;
    }
    int64_t left = tfe_mono_sub(tfe_mono_max(deadline, now), now);
    return left > MSG_DURATION_MAX_MS ? MSG_DURATION_MAX_MS : (uint32_t)left;
}

void active_notices_expire(struct active_notices *s, struct tfe_mono now)
{
    for (int kind = NOTICE_PREEMPT; kind <= NOTICE_OPERATOR; kind++) {
        if (s->is_active[kind] && !tfe_mono_before(now, s->expires_at[kind])) {
            s->is_active[kind] = false;
        }
    }
}

struct tfe_mono active_notices_next_expiry(const struct active_notices *s)
{
    struct tfe_mono when = TFE_MONO_NEVER;
    for (int kind = NOTICE_PREEMPT; kind <= NOTICE_OPERATOR; kind++) {
        when = s->is_active[kind] ? tfe_mono_min(when, s->expires_at[kind]) : when;
    }
    return when;
}

static void activate(struct active_notices *s, const struct agent_notice *notice,
                     struct tfe_mono expires_at)
{
    if (!s->is_active[notice->kind] || !tfe_mono_is_never(notice->deadline)) {
        s->expires_at[notice->kind] = expires_at;
    }
    s->is_active[notice->kind] = true;
    s->v[notice->kind] = *notice;
    s->v[notice->kind].source = NULL; /* borrowed from the event, so it must not be stored */
}

bool active_notices_apply(struct active_notices *s, struct tfe_mono now,
                          const struct agent_notice *notice)
{
    /* Expire old notices now: on a machine that was suspended, this notice may arrive before the
     * tick, and would inherit the expiry time of the old one. */
    active_notices_expire(s, now);
    const bool is_new = !notice->withdrawn && !s->is_active[notice->kind];
    if (notice->withdrawn) {
        s->is_active[notice->kind] = false;
    } else {
        struct tfe_mono from = tfe_mono_is_never(notice->deadline) ? now : notice->deadline;
        activate(s, notice,
                 notice->kind == NOTICE_REBALANCE ? TFE_MONO_NEVER : tfe_mono_add(from, EXPIRY_MS));
    }
    return is_new;
}

void active_notices_add_permanent(struct active_notices *s, const struct agent_notice *notice)
{
    activate(s, notice, TFE_MONO_NEVER);
}

/* Returns the notice with the earliest deadline, a rebalance hint if there is no other, or 0 if
 * none is active. */
static enum tfe_notice strongest(const struct active_notices *s)
{
    enum tfe_notice best = s->is_active[NOTICE_REBALANCE] ? NOTICE_REBALANCE : 0;
    for (int kind = NOTICE_PREEMPT; kind <= NOTICE_OPERATOR; kind++) {
        if (s->is_active[kind] && (best <= NOTICE_REBALANCE ||
                                   tfe_mono_before(s->v[kind].deadline, s->v[best].deadline))) {
            best = (enum tfe_notice)kind;
        }
    }
    return best;
}

bool active_notices_next_message(struct active_notices *s, struct tfe_mono now, bool again,
                                 struct msg_notice *ret)
{
    enum tfe_notice kind = strongest(s);
    bool is_known =
        kind == s->sent_kind && (kind == 0 || s->v[kind].deadline.ms == s->sent_deadline.ms);
    if ((kind == 0 && s->last_kind == 0) || (!again && is_known)) {
        return false;
    }
    s->last_kind = kind ? kind : s->last_kind;
    *ret = (struct msg_notice){.kind = s->last_kind,
                               .deadline_ms =
                                   kind ? notice_ms_left(now, s->v[kind].deadline) : MSG_UNSET,
                               .withdrawn = kind == 0,
                               .uncertain = kind && s->v[kind].uncertain};
    s->sent_kind = kind;
    s->sent_deadline = kind ? s->v[kind].deadline : TFE_MONO_NEVER;
    return true;
}
