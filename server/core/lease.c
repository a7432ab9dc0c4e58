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
static int64_t held_ms(uint32_t sent_ms)
{
    return (int64_t)sent_ms * 1106 / 1000 + 50;
}

/* Returns when a fence of this length that was sent at that time has passed. */
static struct tfe_mono fence_end_from(struct tfe_mono sent, uint32_t fence_ms)
{
    return tfe_mono_add(sent, held_ms(fence_ms));
}

static bool exists(const struct lease *lease)
{
    return wheel_is_set(&lease->timer.wheel);
}

static uint32_t target_ms(const struct rdzv *r, uint32_t n_leases)
{
    uint64_t base = r->config.ttl_ms;
    uint64_t need = (uint64_t)n_leases * LEASE_RENEWALS * 1000 / r->config.renew_rate;
    if (need <= base) {
        return (uint32_t)base;
    }
    /* rounded up to steps, so that not every JOIN requires a write */
    uint64_t step = (base + 1) / 2;
    uint64_t target = (need + step - 1) / step * step;
    return target < MSG_DURATION_MAX_MS / 3 ? (uint32_t)target : MSG_DURATION_MAX_MS / 3;
}

uint32_t lease_target_ms(const struct rdzv *r)
{
    return target_ms(r, r->n_leases);
}

/* Returns the lease that a node of the job is granted: lease_target_ms, limited to what a restarted
 * server would know of. */
static uint32_t granted_ms(const struct rdzv *r, const struct job *job)
{
    uint32_t ttl = lease_target_ms(r);
    const struct persist *w = &job->persist;
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

struct tfe_mono lease_longest_fence_end(const struct rdzv *r, struct tfe_mono sent,
                                        uint32_t recorded_ms)
{
    /* the server grants at most max_nodes leases */
    uint32_t ours = lease_fence_ms(r, 2, target_ms(r, r->config.max_nodes));
    return fence_end_from(sent, largest(recorded_ms, ours));
}

struct lease_terms lease_terms(const struct rdzv *r, const struct node *node)
{
    const struct job *job = node->job;
    uint32_t ttl = granted_ms(r, job);
    uint32_t fence = lease_fence_ms(r, node_is_member(node) ? job->epoch.n_slots : 0, ttl);
    /* The chief's grace limits the fence of rank 0, because a switch waits for it. It is at least
     * one ttl, so that one missed renewal is not fatal. */
    uint32_t chief = job->spec.chief_grace_ms;
    if (chief > 0 && chief < fence && (!node_is_member(node) || layout_is_chief(job, node))) {
        fence = chief > ttl ? chief : ttl;
    }
    return (struct lease_terms){.ttl_ms = ttl, .fence_ms = fence};
}

static void set_counted(struct rdzv *r, struct node *node, bool is_set)
{
    if (node->lease.is_counted != is_set) {
        node->lease.is_counted = is_set;
        r->n_leases += is_set ? 1 : UINT32_MAX;
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
    lease_extend_fence(node, fence_end_from(r->now, fence));
    return fence;
}

struct lease_terms lease_renew(struct rdzv *r, struct node *node)
{
    struct lease *lease = &node->lease;
    lease->was_shifted = false;
    lease->is_held = false;
    lease->renewed_at = r->now;
    set_counted(r, node, true);
    struct lease_terms terms = lease_terms(r, node);
    node->job->persist.granted_ttl_ms = largest(node->job->persist.granted_ttl_ms, terms.ttl_ms);
    struct tfe_mono end = tfe_mono_add(r->now, held_ms(terms.ttl_ms));
    if (exists(lease)) {
        /* an earlier, longer lease may last longer */
        end = tfe_mono_max(end, lease->timer.wheel.due);
    }
    wheel_set(&r->wheel, &lease->timer.wheel, end);
    lease_extend_fence(node, fence_end_from(r->now, terms.fence_ms));
    if (lease->left_epoch != 0) {
        /* The node's agent cannot end these trainers, so their fence moves on with its renewals. */
        fence_reserve_ports(&node->job->fence, lease->left_epoch, lease->fence_end);
        if (lease->left_epoch >= node->job->epoch.number) {
            /* the epoch is not in the job's record */
            fence_extend_run(&node->job->fence, lease->fence_end);
        }
    }
    return terms;
}

void lease_restore(struct rdzv *r, struct node *node, uint32_t ttl_ms, struct tfe_mono fence_end)
{
    set_counted(r, node, true);
    node->lease.renewed_at = r->now;
    wheel_set(&r->wheel, &node->lease.timer.wheel, tfe_mono_add(r->now, held_ms(ttl_ms)));
    node->lease.fence_end = fence_end;
}

/* Extends a lease that has ended, because the server itself was late (design 5.2). */
static void lease_shift(struct rdzv *r, struct node *node, struct tfe_mono until)
{
    node->lease.was_shifted = true;
    wheel_set(&r->wheel, &node->lease.timer.wheel, until);
}

/* Extends a lease that has ended, because most members are silent together (design 5.2). */
static void lease_hold(struct rdzv *r, struct node *node, struct tfe_mono until)
{
    node->lease.is_held = true;
    wheel_set(&r->wheel, &node->lease.timer.wheel, until);
}

/* Ends a held lease now. */
static void lease_release(struct rdzv *r, struct node *node)
{
    if (node->lease.is_held && exists(&node->lease)) {
        wheel_set(&r->wheel, &node->lease.timer.wheel, r->now);
    }
}

void lease_set_left(struct node *node, uint64_t epoch)
{
    node->lease.left_epoch = epoch;
}

struct tfe_mono lease_end_from(const struct rdzv *r, const struct job *job, struct tfe_mono granted)
{
    return tfe_mono_add(granted, held_ms(granted_ms(r, job)));
}

void lease_end(struct rdzv *r, struct node *node)
{
    set_counted(r, node, false);
    wheel_cancel(&r->wheel, &node->lease.timer.wheel);
}

/* --- fences ----------------------------------------------------------------------------------- */

bool fence_has_unknown(const struct rdzv *r, const struct fence *fence)
{
    return !is_past(r, fence->unknown_until);
}

bool fence_await_unknown(const struct rdzv *r, struct fence *fence)
{
    fence_extend_run(fence, fence->unknown_until);
    return fence_has_unknown(r, fence);
}

bool fence_run_is_over(const struct rdzv *r, const struct job *job)
{
    return layout_is_stopped(job) && is_past(r, job->fence.run_until);
}

bool fence_ports_in_use(const struct rdzv *r, const struct job *job, uint64_t epoch)
{
    return tfe_mono_before(r->now, job->fence.ports_until[epoch & 1]);
}

/* Returns the latest fence end of the unaccounted members, or `end` if that is later. Sets
 * *ret_slot to the member's slot in the first case. */
static struct tfe_mono later_end(const struct job *job, bool of_all, struct tfe_mono end,
                                 uint32_t *ret_slot)
{
    for (uint32_t slot = 0; slot < job->epoch.n_slots; slot++) {
        const struct node *node = job->epoch.slots[slot];
        if (!of_all && !layout_needs_fence(job, slot)) {
            continue;
        }
        if (!node->slot.is_accounted && tfe_mono_before(end, slot_fence_end(node))) {
            end = slot_fence_end(node);
            *ret_slot = slot;
        }
    }
    return end;
}

struct tfe_mono fence_end(const struct job *job)
{
    uint32_t slot;
    return later_end(job, true, (struct tfe_mono){0}, &slot);
}

static struct tfe_mono chief_end(const struct rdzv *r, const struct job *job,
                                 struct tfe_mono switch_began)
{
    const struct node *chief = layout_chief(job);
    struct tfe_mono end = chief->slot.is_accounted ? (struct tfe_mono){0} : slot_fence_end(chief);
    if (node_is_connected(chief)) {
        /* The node continues renewing while its agent cannot end its trainers, which may last for
         * ever. */
        end = tfe_mono_min(end, tfe_mono_add(switch_began, lease_terms(r, chief).fence_ms));
    }
    return end;
}

struct tfe_mono fence_switch_end(const struct rdzv *r, const struct job *job,
                                 struct tfe_mono switch_began, uint32_t *ret_slot)
{
    struct tfe_mono end = job->fence.run_until;
    *ret_slot = job->epoch.n_slots;
    if (!layout_is_stopped(job)) {
        end = later_end(job, false, end, ret_slot);
    } else if (job->epoch.is_open && job->spec.chief_grace_ms > 0 &&
               tfe_mono_before(end, chief_end(r, job, switch_began))) {
        end = chief_end(r, job, switch_began);
        *ret_slot = layout_chief(job)->slot.index;
    }
    return end;
}

/* --- mass loss -------------------------------------------------------------------------------- */

/* An iteration of the event loop that is this late may have left renewals unread. */
#define LATE_MS 500
/* Minimum number of silent members that counts as a mass loss. */
#define MASS_MIN 3

void mass_loss_check_clock(struct rdzv *r, struct tfe_mono now)
{
    if (!tfe_mono_is_never(r->deadline) && tfe_mono_sub(now, r->deadline) > LATE_MS) {
        r->late_at = now;
    }
}

/* A live node renews every third of its ttl, plus or minus a fifth: with less than half of the ttl
 * left it has missed a renewal. The lease may end later, if an earlier server granted a longer one,
 * and earlier, if leases have become longer since. */
bool lease_is_silent(const struct rdzv *r, const struct node *node)
{
    if (node->is_gone) {
        return true;
    }
    struct tfe_mono end = tfe_mono_min(lease_end_from(r, node->job, node->lease.renewed_at),
                                       node->lease.timer.wheel.due);
    return exists(&node->lease) &&
           tfe_mono_sub(end, r->now) < (int64_t)granted_ms(r, node->job) / 2;
}

static bool is_mass_loss(const struct rdzv *r, const struct job *job)
{
    uint32_t silent = 0;
    uint32_t n = 0;
    for (uint32_t slot = 0; slot < job->epoch.n_slots; slot++) {
        const struct node *node = job->epoch.slots[slot];
        if (node->is_gone && layout_can_lose(job, node)) {
            continue; /* its slot has been empty for long */
        }
        n++;
        /* The timer of the lease that has just ended is no longer set. */
        silent += lease_is_silent(r, node) || !exists(&node->lease);
    }
    return silent >= MASS_MIN && silent > n / 2;
}

bool mass_loss_postpones(struct rdzv *r, struct node *node)
{
    struct job *job = node->job;
    struct mass_loss *mass_loss = &job->mass_loss;
    struct tfe_mono late_until = lease_end_from(r, job, r->late_at);
    if (r->late_at.ms != 0 && tfe_mono_before(r->now, late_until) && !node->lease.was_shifted) {
        lease_shift(r, node, late_until);
        return true;
    }
    if (!epoch_engages(job, node) || node->slot.is_accounted) {
        return false;
    }
    if (mass_loss->mass_epoch != job->epoch.number && is_mass_loss(r, job)) {
        mass_loss->mass_epoch = job->epoch.number; /* only once per epoch */
        mass_loss->mass_until = lease_end_from(r, job, r->now);
        send_trace(r, TRACE_MASS_LOSS, job, node,
                   (uint64_t)tfe_mono_sub(mass_loss->mass_until, r->now),
                   "more than half of the members are silent; the leases are extended once");
    }
    if (tfe_mono_before(r->now, mass_loss->mass_until)) {
        lease_hold(r, node, mass_loss->mass_until);
        return true;
    }
    return false;
}

void mass_loss_release(struct rdzv *r, struct job *job)
{
    if (is_past(r, job->mass_loss.mass_until)) {
        return;
    }
    for (uint32_t slot = 0; slot < job->epoch.n_slots; slot++) {
        lease_release(r, job->epoch.slots[slot]);
    }
    job->mass_loss.mass_until = r->now;
}
