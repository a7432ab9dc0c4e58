/* server/core/fence.c: until when trainers that nothing is known of may run (design 6). */
#include "server/core/fence.h"

#include "server/core/job.h"

bool fence_keep_unknown(const struct rdzv *r, struct fence *fence)
{
    fence_keep_run(fence, fence->unknown_until);
    return !is_past(r, fence->unknown_until);
}

bool fence_run_is_over(const struct rdzv *r, const struct job *job)
{
    return roster_is_stopped(job) && is_past(r, job->fence.run_until);
}

bool fence_ports_are_spoken(const struct rdzv *r, const struct job *job, uint64_t epoch)
{
    return tfe_mono_before(r->now, job->fence.ports_until[epoch & 1]);
}

struct tfe_mono fence_end(const struct job *job)
{
    struct tfe_mono end = {0};
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        const struct node *node = job->epoch.seats[seat];
        if (!node->seat.is_accounted) {
            end = tfe_mono_max(end, seat_fence_end(node));
        }
    }
    return end;
}

uint32_t fence_last_seat(const struct job *job)
{
    uint32_t last = job->epoch.n_seats;
    struct tfe_mono end = {0};
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        const struct node *node = job->epoch.seats[seat];
        if (!node->seat.is_accounted && tfe_mono_before(end, seat_fence_end(node))) {
            end = seat_fence_end(node);
            last = seat;
        }
    }
    return last;
}

static struct tfe_mono chief_end(const struct rdzv *r, const struct job *job,
                                 struct tfe_mono switch_began)
{
    const struct node *chief = roster_chief(job);
    struct tfe_mono end = chief->seat.is_accounted ? (struct tfe_mono){0} : seat_fence_end(chief);
    if (node_is_connected(chief)) {
        /* It goes on renewing while its agent cannot end it: that may last for ever. */
        end = tfe_mono_min(end, tfe_mono_add(switch_began, lease_terms(r, chief).fence_ms));
    }
    return end;
}

struct tfe_mono fence_switch_end(const struct rdzv *r, const struct job *job,
                                 struct tfe_mono switch_began)
{
    struct tfe_mono end = job->fence.run_until;
    if (!roster_is_stopped(job)) {
        end = tfe_mono_max(end, fence_end(job));
    } else if (job->epoch.is_open && job->spec.chief_grace_ms > 0) {
        end = tfe_mono_max(end, chief_end(r, job, switch_began));
    }
    return end;
}
