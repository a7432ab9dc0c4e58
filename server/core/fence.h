/* server/core/fence.h: until when trainers that nothing is known of may run (design 6). */
#ifndef TFE_SERVER_CORE_FENCE_H
#define TFE_SERVER_CORE_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"

struct job;
struct rdzv;

/* Written by fence.c. */
struct fence {
    struct tfe_mono
        run_until; /* trainers of an epoch that nobody leads any more may run until then */
    /* … and stale peers may speak to the ports of the even and the odd set. */
    struct tfe_mono ports_until[2];
    /* … and those of epochs that a server before this one has started and no record is left of, if
     * there are any. */
    struct tfe_mono unknown_until;
};

/* The ports of this epoch are not used again before. */
static inline void fence_keep_ports(struct fence *fence, uint64_t epoch, struct tfe_mono until)
{
    struct tfe_mono *kept = &fence->ports_until[epoch & 1];
    *kept = tfe_mono_max(*kept, until);
}

/* Nothing may be started in its job before. */
static inline void fence_keep_run(struct fence *fence, struct tfe_mono until)
{
    fence->run_until = tfe_mono_max(fence->run_until, until);
}

/* What the job's record does not know, or all where it has none, ends by then. */
static inline void fence_expect_unknown(struct fence *fence, struct tfe_mono until)
{
    fence->unknown_until = until;
}

/* Whether what no record knows may still run. */
bool fence_knows_not_all(const struct rdzv *r, const struct fence *fence);
/* Somebody has been in an epoch that the record does not know: others may be in that or in a later
 * one. False: not any more. */
bool fence_keep_unknown(const struct rdzv *r, struct fence *fence);
/* Whether nothing that this job has started can make another step. */
bool fence_run_is_over(const struct rdzv *r, const struct job *job);
/* Whether the ports that belong to this epoch may still be spoken to. */
bool fence_ports_are_spoken(const struct rdzv *r, const struct job *job, uint64_t epoch);

/* By when the fences of all members of the epoch have passed that nothing is known of. */
struct tfe_mono fence_end(const struct job *job);
/* Until when a switch that began then waits for fences: for all of those where no task is accounted
 * for that would keep the old cluster from another step (the chief's alone, where it has ps); for
 * the chief's always, where the job wants that, lest it writes a checkpoint late. ret_seat: whose
 * fence that is; n_seats of the epoch: no member's. */
struct tfe_mono fence_switch_end(const struct rdzv *r, const struct job *job,
                                 struct tfe_mono switch_began, uint32_t *ret_seat);

#endif
