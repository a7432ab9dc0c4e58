/* server/core/lease.c: leases: until when a node keeps its slot. */
#include "server/core/lease.h"

#include "server/core/job.h"

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
