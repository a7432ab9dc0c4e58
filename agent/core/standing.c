/* agent/core/standing.c: implementation of standing.h. */
#include "agent/core/standing.h"

/* A machine that is still alive this long after its deadline is assumed to stay (design 4.9). */
#define BACK_MS 120000

uint32_t standing_ms_left(struct tfe_mono now, struct tfe_mono deadline)
{
    if (tfe_mono_is_never(deadline)) {
        return MSG_UNSET;
    }
    int64_t left = tfe_mono_sub(tfe_mono_max(deadline, now), now);
    return left > MSG_DURATION_MAX_MS ? MSG_DURATION_MAX_MS : (uint32_t)left;
}

void standing_drop_old(struct standing *s, struct tfe_mono now)
{
    for (int kind = NOTICE_PREEMPT; kind <= NOTICE_OPERATOR; kind++) {
        if (s->stands[kind] && !tfe_mono_before(now, s->back_at[kind])) {
            s->stands[kind] = false;
        }
    }
}

struct tfe_mono standing_deadline(const struct standing *s)
{
    struct tfe_mono when = TFE_MONO_NEVER;
    for (int kind = NOTICE_PREEMPT; kind <= NOTICE_OPERATOR; kind++) {
        when = s->stands[kind] ? tfe_mono_min(when, s->back_at[kind]) : when;
    }
    return when;
}

static void stand(struct standing *s, const struct agent_notice *notice, struct tfe_mono back_at)
{
    if (!s->stands[notice->kind] || !tfe_mono_is_never(notice->deadline)) {
        s->back_at[notice->kind] = back_at;
    }
    s->stands[notice->kind] = true;
    s->v[notice->kind] = *notice;
    s->v[notice->kind].source = NULL; /* borrowed from the event, so it must not be stored */
}

bool standing_take(struct standing *s, struct tfe_mono now, const struct agent_notice *notice)
{
    /* Expire old notices now: on a machine that was suspended, this notice may arrive before the
     * tick, and would inherit the expiry time of the old one. */
    standing_drop_old(s, now);
    const bool is_new = !notice->withdrawn && !s->stands[notice->kind];
    if (notice->withdrawn) {
        s->stands[notice->kind] = false;
    } else {
        struct tfe_mono from = tfe_mono_is_never(notice->deadline) ? now : notice->deadline;
        stand(s, notice,
              notice->kind == NOTICE_REBALANCE ? TFE_MONO_NEVER : tfe_mono_add(from, BACK_MS));
    }
    return is_new;
}

void standing_keep(struct standing *s, const struct agent_notice *notice)
{
    stand(s, notice, TFE_MONO_NEVER);
}

/* Returns the notice with the earliest deadline, a rebalance hint if there is no other, or 0 if
 * none is active. */
static enum tfe_notice strongest(const struct standing *s)
{
    enum tfe_notice best = s->stands[NOTICE_REBALANCE] ? NOTICE_REBALANCE : 0;
    for (int kind = NOTICE_PREEMPT; kind <= NOTICE_OPERATOR; kind++) {
        if (s->stands[kind] && (best <= NOTICE_REBALANCE ||
                                tfe_mono_before(s->v[kind].deadline, s->v[best].deadline))) {
            best = (enum tfe_notice)kind;
        }
    }
    return best;
}

bool standing_tell(struct standing *s, struct tfe_mono now, bool again, struct msg_notice *ret)
{
    enum tfe_notice kind = strongest(s);
    bool is_known = kind == s->told && (kind == 0 || s->v[kind].deadline.ms == s->told_deadline.ms);
    if ((kind == 0 && s->ever == 0) || (!again && is_known)) {
        return false;
    }
    s->ever = kind ? kind : s->ever;
    *ret = (struct msg_notice){.kind = s->ever,
                               .deadline_ms =
                                   kind ? standing_ms_left(now, s->v[kind].deadline) : MSG_UNSET,
                               .withdrawn = kind == 0,
                               .uncertain = kind && s->v[kind].uncertain};
    s->told = kind;
    s->told_deadline = kind ? s->v[kind].deadline : TFE_MONO_NEVER;
    return true;
}
