/* server/core/lease.c: who may keep a place, and until when. */
#include "server/core/core.h"

/* Renewals within a ttl. */
#define LEASE_RENEWALS 3

/* DESIGN 5: clocks may differ by 5 % in rate, either way (1.05 / 0.95 = 1.106), and the answer
 * takes its time: what an agent counts as d ms is over here after d * 1.106 + 50 ms at the latest.
 */
static int64_t held_ms(uint32_t told_ms)
{
    return TFE_BUG(lease_short) ? told_ms : (int64_t)told_ms * 1106 / 1000 + 50;
}

uint32_t lease_wanted_ms(const struct rdzv *r)
{
    uint64_t base = r->config.ttl_ms;
    uint64_t need = (uint64_t)r->n_leases * LEASE_RENEWALS * 1000 / r->config.renew_rate;
    if (need <= base) {
        return (uint32_t)base;
    }
    uint64_t step = (base + 1) / 2; /* in steps, so that not every JOIN has to be written */
    uint64_t wanted = (need + step - 1) / step * step;
    return wanted < MSG_DURATION_MAX_MS / 3 ? (uint32_t)wanted : MSG_DURATION_MAX_MS / 3;
}

uint32_t lease_ttl_ms(const struct rdzv *r, const struct job *job)
{
    uint32_t ttl = lease_wanted_ms(r);
    if (job->durable_epoch == 0 && !job->write.is_open) {
        return ttl; /* a restarted server would not know of the job, and adopt nothing */
    }
    uint32_t durable = job->durable_epoch == 0 ? job->write.record.ttl_ms : job->durable_ttl_ms;
    ttl = ttl < durable ? ttl : durable;
    return ttl > r->config.ttl_ms ? ttl : r->config.ttl_ms;
}

uint32_t lease_fence_ms(const struct rdzv *r, uint32_t n_members, uint32_t ttl_ms)
{
    uint32_t fence = r->config.fence_ms;
    if (fence == 0) {
        fence = n_members > 1 ? 300000 : 120000;
    }
    return fence < 3 * ttl_ms ? 3 * ttl_ms : fence;
}

static uint32_t node_fence_ms(const struct rdzv *r, const struct node *node, uint32_t ttl)
{
    uint32_t fence = lease_fence_ms(r, node->seat == NO_SEAT ? 0 : node->job->epoch.n_seats, ttl);
    /* A switch waits for the fence of a rank 0 that nothing is known of, and no longer than asked
     * for; but who misses one renewal need not die of it. */
    uint32_t chief = node->job->chief_grace_ms;
    if (chief > 0 && chief < fence && (node->seat == 0 || node->seat == NO_SEAT)) {
        fence = chief > ttl ? chief : ttl;
    }
    return fence;
}

uint32_t lease_node_fence_ms(const struct rdzv *r, const struct node *node)
{
    return node_fence_ms(r, node, lease_ttl_ms(r, node->job));
}

struct lease_terms lease_terms(const struct rdzv *r, const struct node *node)
{
    uint32_t ttl = lease_ttl_ms(r, node->job);
    return (struct lease_terms){.ttl_ms = ttl, .fence_ms = node_fence_ms(r, node, ttl)};
}

static void counts(struct rdzv *r, struct node *node, bool is_there)
{
    if (node->lease.counts != is_there) {
        node->lease.counts = is_there;
        r->n_leases += is_there ? 1 : UINT32_MAX;
    }
}

/* Never shorter than what was granted before: this answer may get lost, and then the agent keeps to
 * the longer fence of an older one. */
static void extend_fence(const struct rdzv *r, struct node *node, uint32_t fence_ms)
{
    node->lease.fence_end =
        tfe_mono_max(node->lease.fence_end, tfe_mono_add(r->now, held_ms(fence_ms)));
}

uint32_t lease_fence_of_start(struct rdzv *r, struct node *node)
{
    uint32_t fence = lease_node_fence_ms(r, node);
    /* The agent counts from the sending of a renewal that was answered before, so earlier. */
    extend_fence(r, node, fence);
    return fence;
}

struct lease_terms lease_renew(struct rdzv *r, struct node *node)
{
    node->lease.was_shifted = false;
    node->lease.is_held = false;
    counts(r, node, true);
    struct lease_terms terms = lease_terms(r, node);
    uint32_t ttl = terms.ttl_ms;
    if (ttl > node->job->granted_ttl_ms) {
        node->job->granted_ttl_ms = ttl;
    }
    struct tfe_mono end = tfe_mono_add(r->now, held_ms(ttl));
    if (wheel_is_set(&node->lease.timer.wheel)) {
        end = tfe_mono_max(end, node->lease.timer.wheel.due); /* of a longer ttl */
    }
    wheel_set(&r->wheel, &node->lease.timer.wheel, end);
    extend_fence(r, node, terms.fence_ms);
    if (node->haunts != 0) {
        /* Its agent cannot end them, and their fence moves on with its renewals. */
        struct tfe_mono *spoken_until = &node->job->ports_spoken_until[node->haunts & 1];
        *spoken_until = tfe_mono_max(*spoken_until, node->lease.fence_end);
    }
    return terms;
}

void lease_restore(struct rdzv *r, struct node *node, uint32_t ttl_ms, uint32_t fence_ms)
{
    counts(r, node, true);
    wheel_set(&r->wheel, &node->lease.timer.wheel, tfe_mono_add(r->now, held_ms(ttl_ms)));
    node->lease.fence_end =
        tfe_mono_add(r->now, TFE_BUG(restored_no_fence) ? 0 : held_ms(fence_ms));
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
