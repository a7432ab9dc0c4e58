/* server/core/doubt.c: mass loss: decides when silence is more likely the server's own fault than
 * the nodes' (design 5). */
#include "server/core/doubt.h"

#include "server/core/job.h"

/* An iteration of the event loop that is this late may have left renewals unread. */
#define LATE_MS 500
/* Minimum number of silent members that counts as a mass loss. */
#define MASS_MIN 3

void doubt_look_at_clock(struct rdzv *r, struct tfe_mono now)
{
    if (!tfe_mono_is_never(r->deadline) && tfe_mono_sub(now, r->deadline) > LATE_MS) {
        r->late_at = now;
    }
}

/* A live node renews every third of its ttl, plus or minus a fifth: with less than half of the ttl
 * left it has missed a renewal. The lease may end later, if an earlier server granted a longer one,
 * and earlier, if leases have become longer since. */
bool doubt_is_silent(const struct rdzv *r, const struct node *node)
{
    if (node->is_gone) {
        return true;
    }
    struct tfe_mono end =
        tfe_mono_min(lease_end_from(r, node->job, node->lease.heard), node->lease.timer.wheel.due);
    return lease_is_there(&node->lease) &&
           tfe_mono_sub(end, r->now) < (int64_t)lease_ttl_ms(r, node->job) / 2;
}

static bool is_mass_loss(const struct rdzv *r, const struct job *job)
{
    uint32_t silent = 0;
    uint32_t n = 0;
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        const struct node *node = job->epoch.seats[seat];
        if (node->is_gone && roster_can_miss(job, node)) {
            continue; /* its slot has been empty for long */
        }
        n++;
        /* The timer of the lease that has just ended is no longer set. */
        silent += doubt_is_silent(r, node) || !lease_is_there(&node->lease);
    }
    return silent >= MASS_MIN && silent > n / 2;
}

bool doubt_postpones(struct rdzv *r, struct node *node)
{
    struct job *job = node->job;
    struct doubt *doubt = &job->doubt;
    struct tfe_mono late_until = lease_end_from(r, job, r->late_at);
    if (r->late_at.ms != 0 && tfe_mono_before(r->now, late_until) && !node->lease.was_shifted) {
        lease_shift(r, node, late_until);
        return true;
    }
    if (!epoch_engages(job, node) || node->seat.is_accounted) {
        return false;
    }
    if (doubt->mass_epoch != job->epoch.number && is_mass_loss(r, job)) {
        doubt->mass_epoch = job->epoch.number; /* only once per epoch */
        doubt->mass_until = lease_end_from(r, job, r->now);
        send_trace(r, TRACE_MASS_LOSS, job, node, (uint64_t)tfe_mono_sub(doubt->mass_until, r->now),
                   "more than half of the members are silent, waiting another lease");
    }
    if (tfe_mono_before(r->now, doubt->mass_until)) {
        lease_hold(r, node, doubt->mass_until);
        return true;
    }
    return false;
}

void doubt_release(struct rdzv *r, struct job *job)
{
    if (is_past(r, job->doubt.mass_until)) {
        return;
    }
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        lease_release(r, job->epoch.seats[seat]);
    }
    job->doubt.mass_until = r->now;
}
