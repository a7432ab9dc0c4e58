/* server/core/fence.c: until when trainers of unknown state may run (design 6). */
#include "server/core/fence.h"

#include "server/core/job.h"

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
