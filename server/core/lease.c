/* server/core/lease.c: leases and fences: until when a node keeps its slot, until when trainers of
 * unknown state may run, and when silence is more likely the server's own fault (design 5, 6). */
#include "server/core/lease.h"

#include "server/core/epoch.h"
#include "server/core/job.h"
#include "server/core/layout.h"
#include "server/core/node.h"
#include "server/core/persist.h"

/* Number of renewals within a ttl. */
#define LEASE_RENEWALS 3

#define FENCE_ALONE_MS 120000
#define FENCE_MS 300000

/* Converts a duration on an agent's clock into the longest one on this clock: rates may differ by 5
 * % either way (1.05 / 0.95 = 1.106), and the reply takes up to 50 ms (design 5.1). */
static int64_t held_ms(uint32_t told_ms)
{
    return (int64_t)told_ms * 1106 / 1000 + 50;
}

static uint32_t wanted_ms(const struct rdzv *r, uint32_t n_leases)
{
    uint64_t base = r->config.ttl_ms;
    uint64_t need = (uint64_t)n_leases * LEASE_RENEWALS * 1000 / r->config.renew_rate;
    if (need <= base) {
        return (uint32_t)base;
    }
    /* rounded up to steps, so that not every JOIN requires a write */
    uint64_t step = (base + 1) / 2;
    uint64_t wanted = (need + step - 1) / step * step;
    return wanted < MSG_DURATION_MAX_MS / 3 ? (uint32_t)wanted : MSG_DURATION_MAX_MS / 3;
}

uint32_t lease_wanted_ms(const struct rdzv *r)
{
    return wanted_ms(r, r->n_leases);
}

uint32_t lease_ttl_ms(const struct rdzv *r, const struct job *job)
{
    uint32_t ttl = lease_wanted_ms(r);
    const struct write *w = &job->write;
    if (w->durable_epoch == 0 && !w->is_open) {
        return ttl; /* the job is not stored, so a restarted server would adopt nothing */
    }
    uint32_t durable = w->durable_epoch == 0 ? w->record.ttl_ms : w->durable_ttl_ms;
    ttl = ttl < durable ? ttl : durable;
    return ttl > r->config.ttl_ms ? ttl : r->config.ttl_ms;
}

uint32_t lease_fence_ms(const struct rdzv *r, uint32_t n_members, uint32_t ttl_ms)
{
    uint32_t fence = r->config.fence_ms;
    if (fence == 0) {
        fence = n_members > 1 ? FENCE_MS : FENCE_ALONE_MS;
    }
    return fence < 3 * ttl_ms ? 3 * ttl_ms : fence;
}

struct tfe_mono lease_longest_fence_end(const struct rdzv *r, struct tfe_mono told,
                                        uint32_t recorded_ms)
{
    /* the server grants at most max_nodes leases */
    uint32_t ours = lease_fence_ms(r, 2, wanted_ms(r, r->config.max_nodes));
    return lease_fence_end_from(told, largest(recorded_ms, ours));
}

struct lease_terms lease_terms(const struct rdzv *r, const struct node *node)
{
    const struct job *job = node->job;
    uint32_t ttl = lease_ttl_ms(r, job);
    uint32_t fence = lease_fence_ms(r, node_is_member(node) ? job->epoch.n_seats : 0, ttl);
    /* The chief's grace limits the fence of rank 0, because a switch waits for it. It is at least
     * one ttl, so that one missed renewal is not fatal. */
    uint32_t chief = job->spec.chief_grace_ms;
    if (chief > 0 && chief < fence && (!node_is_member(node) || roster_is_chief(job, node))) {
        fence = chief > ttl ? chief : ttl;
    }
    return (struct lease_terms){.ttl_ms = ttl, .fence_ms = fence};
}

static void counts(struct rdzv *r, struct node *node, bool is_there)
{
    if (node->lease.counts != is_there) {
        node->lease.counts = is_there;
        r->n_leases += is_there ? 1 : UINT32_MAX;
    }
}

/* Never shortens the fence: this reply may get lost, and then the agent keeps the longer fence of
 * an earlier one. */
void lease_extend_fence(struct node *node, struct tfe_mono until)
{
    node->lease.fence_end = tfe_mono_max(node->lease.fence_end, until);
}

uint32_t lease_fence_of_start(struct rdzv *r, struct node *node)
{
    uint32_t fence = lease_terms(r, node).fence_ms;
    /* The agent counts from when it sent an earlier renewal, so its fence ends earlier. */
    lease_extend_fence(node, lease_fence_end_from(r->now, fence));
    return fence;
}

struct lease_terms lease_renew(struct rdzv *r, struct node *node)
{
    struct lease *lease = &node->lease;
    lease->was_shifted = false;
    lease->is_held = false;
    lease->heard = r->now;
    counts(r, node, true);
    struct lease_terms terms = lease_terms(r, node);
    write_note_granted(&node->job->write, terms.ttl_ms);
    struct tfe_mono end = tfe_mono_add(r->now, held_ms(terms.ttl_ms));
    if (lease_is_there(lease)) {
        /* an earlier, longer lease may last longer */
        end = tfe_mono_max(end, lease->timer.wheel.due);
    }
    wheel_set(&r->wheel, &lease->timer.wheel, end);
    lease_extend_fence(node, lease_fence_end_from(r->now, terms.fence_ms));
    if (lease->left_epoch != 0) {
        /* The node's agent cannot end these trainers, so their fence moves on with its renewals. */
        fence_keep_ports(&node->job->fence, lease->left_epoch, lease->fence_end);
        if (lease->left_epoch >= node->job->epoch.number) {
            /* the epoch is not in the job's record */
            fence_keep_run(&node->job->fence, lease->fence_end);
        }
    }
    return terms;
}

void lease_restore(struct rdzv *r, struct node *node, uint32_t ttl_ms, struct tfe_mono fence_end)
{
    counts(r, node, true);
    node->lease.heard = r->now;
    wheel_set(&r->wheel, &node->lease.timer.wheel, tfe_mono_add(r->now, held_ms(ttl_ms)));
    node->lease.fence_end = fence_end;
}

void lease_shift(struct rdzv *r, struct node *node, struct tfe_mono until)
{
    node->lease.was_shifted = true;
    wheel_set(&r->wheel, &node->lease.timer.wheel, until);
}

void lease_hold(struct rdzv *r, struct node *node, struct tfe_mono until)
{
    node->lease.is_held = true;
    wheel_set(&r->wheel, &node->lease.timer.wheel, until);
}

void lease_release(struct rdzv *r, struct node *node)
{
    if (node->lease.is_held && lease_is_there(&node->lease)) {
        wheel_set(&r->wheel, &node->lease.timer.wheel, r->now);
    }
}

void lease_set_left(struct node *node, uint64_t epoch)
{
    node->lease.left_epoch = epoch;
}

struct tfe_mono lease_end_from(const struct rdzv *r, const struct job *job, struct tfe_mono granted)
{
    return tfe_mono_add(granted, held_ms(lease_ttl_ms(r, job)));
}

struct tfe_mono lease_fence_end_from(struct tfe_mono told, uint32_t fence_ms)
{
    return tfe_mono_add(told, held_ms(fence_ms));
}

void lease_end(struct rdzv *r, struct node *node)
{
    counts(r, node, false);
    wheel_cancel(&r->wheel, &node->lease.timer.wheel);
}

/* --- fences ---- */

bool fence_knows_not_all(const struct rdzv *r, const struct fence *fence)
{
    return !is_past(r, fence->unknown_until);
}

bool fence_keep_unknown(const struct rdzv *r, struct fence *fence)
{
    fence_keep_run(fence, fence->unknown_until);
    return fence_knows_not_all(r, fence);
}

bool fence_run_is_over(const struct rdzv *r, const struct job *job)
{
    return roster_is_stopped(job) && is_past(r, job->fence.run_until);
}

bool fence_ports_are_spoken(const struct rdzv *r, const struct job *job, uint64_t epoch)
{
    return tfe_mono_before(r->now, job->fence.ports_until[epoch & 1]);
}

/* Returns the latest fence end of the unaccounted members, or `end` if that is later. Sets
 * *ret_seat to the member's slot in the first case. */
static struct tfe_mono later_end(const struct job *job, bool of_all, struct tfe_mono end,
                                 uint32_t *ret_seat)
{
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        const struct node *node = job->epoch.seats[seat];
        if (!of_all && !roster_is_fenced(job, seat)) {
            continue;
        }
        if (!node->seat.is_accounted && tfe_mono_before(end, seat_fence_end(node))) {
            end = seat_fence_end(node);
            *ret_seat = seat;
        }
    }
    return end;
}

struct tfe_mono fence_end(const struct job *job)
{
    uint32_t seat;
    return later_end(job, true, (struct tfe_mono){0}, &seat);
}

static struct tfe_mono chief_end(const struct rdzv *r, const struct job *job,
                                 struct tfe_mono switch_began)
{
    const struct node *chief = roster_chief(job);
    struct tfe_mono end = chief->seat.is_accounted ? (struct tfe_mono){0} : seat_fence_end(chief);
    if (node_is_connected(chief)) {
        /* The node goes on renewing while its agent cannot end its trainers, which may last for
         * ever. */
        end = tfe_mono_min(end, tfe_mono_add(switch_began, lease_terms(r, chief).fence_ms));
    }
    return end;
}

struct tfe_mono fence_switch_end(const struct rdzv *r, const struct job *job,
                                 struct tfe_mono switch_began, uint32_t *ret_seat)
{
    struct tfe_mono end = job->fence.run_until;
    *ret_seat = job->epoch.n_seats;
    if (!roster_is_stopped(job)) {
        end = later_end(job, false, end, ret_seat);
    } else if (job->epoch.is_open && job->spec.chief_grace_ms > 0 &&
               tfe_mono_before(end, chief_end(r, job, switch_began))) {
        end = chief_end(r, job, switch_began);
        *ret_seat = roster_chief(job)->seat.index;
    }
    return end;
}

/* --- mass loss ---- */

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
