/* server/core/lease.c: who may keep a place, and until when. */
#include "server/core/core.h"

/* DESIGN 5: clocks may differ by 5 % in rate, either way (1.05 / 0.95 = 1.106), and the answer
 * takes its time: what an agent counts as d ms is over here after d * 1.106 + 50 ms at the latest.
 */
static int64_t held_ms(uint32_t told_ms)
{
    return TFE_BUG(lease_short) ? told_ms : (int64_t)told_ms * 1106 / 1000 + 50;
}

uint32_t lease_fence_ms(const struct rdzv *r, uint32_t n_members)
{
    uint32_t fence = r->config.fence_ms;
    if (fence == 0) {
        fence = n_members > 1 ? 300000 : 120000;
    }
    return fence < 3 * r->config.ttl_ms ? 3 * r->config.ttl_ms : fence;
}

uint32_t lease_node_fence_ms(const struct rdzv *r, const struct node *node)
{
    uint32_t fence = lease_fence_ms(r, node->seat == NO_SEAT ? 0 : node->job->epoch.n_seats);
    /* A switch waits for the fence of a rank 0 that nothing is known of, and no longer than asked
     * for; but who misses one renewal need not die of it. */
    uint32_t chief = node->job->chief_grace_ms;
    if (chief > 0 && chief < fence && (node->seat == 0 || node->seat == NO_SEAT)) {
        fence = chief > r->config.ttl_ms ? chief : r->config.ttl_ms;
    }
    return fence;
}

void lease_renew(struct rdzv *r, struct node *node)
{
    node->lease.was_shifted = false;
    node->lease.is_held = false;
    wheel_set(&r->wheel, &node->lease.timer.wheel, tfe_mono_add(r->now, held_ms(r->config.ttl_ms)));
    /* Never shorter than what was granted before: this answer may get lost, and then the agent
     * keeps to the longer fence of an older one. */
    node->lease.fence_end = tfe_mono_max(
        node->lease.fence_end, tfe_mono_add(r->now, held_ms(lease_node_fence_ms(r, node))));
}

void lease_restore(struct rdzv *r, struct node *node, uint32_t ttl_ms, uint32_t fence_ms)
{
    wheel_set(&r->wheel, &node->lease.timer.wheel, tfe_mono_add(r->now, held_ms(ttl_ms)));
    node->lease.fence_end = tfe_mono_add(r->now, TFE_BUG(restored_no_fence) ? 0 : held_ms(fence_ms));
}

struct tfe_mono lease_end_from(const struct rdzv *r, struct tfe_mono granted)
{
    return tfe_mono_add(granted, held_ms(r->config.ttl_ms));
}

struct tfe_mono lease_fence_end_from(struct tfe_mono told, uint32_t fence_ms)
{
    return tfe_mono_add(told, held_ms(fence_ms));
}

void lease_end(struct rdzv *r, struct node *node)
{
    wheel_cancel(&r->wheel, &node->lease.timer.wheel);
}
