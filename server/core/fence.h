/* server/core/fence.h: until when trainers of unknown state may run (design 6). */
#ifndef TFE_SERVER_CORE_FENCE_H
#define TFE_SERVER_CORE_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"

struct job;
struct rdzv;

/* Fences of a job. Written by fence.c. */
struct fence {
    struct tfe_mono run_until; /* until when trainers of an abandoned epoch may run */
    /* Until when stale peers may connect to the even and the odd set of ports. */
    struct tfe_mono ports_until[2];
    /* Until when trainers may run that an earlier server has started and that no record
     * mentions. */
    struct tfe_mono unknown_until;
};

/* Reserves the ports of this epoch: they are not used again before `until`. */
static inline void fence_keep_ports(struct fence *fence, uint64_t epoch, struct tfe_mono until)
{
    struct tfe_mono *kept = &fence->ports_until[epoch & 1];
    *kept = tfe_mono_max(*kept, until);
}

/* Starts nothing in the job before `until`. */
static inline void fence_keep_run(struct fence *fence, struct tfe_mono until)
{
    fence->run_until = tfe_mono_max(fence->run_until, until);
}

/* Sets when trainers that the job's record does not mention have ended at the latest. */
static inline void fence_expect_unknown(struct fence *fence, struct tfe_mono until)
{
    fence->unknown_until = until;
}

/* Returns true if trainers that no record mentions may still run. */
bool fence_knows_not_all(const struct rdzv *r, const struct fence *fence);
/* A node has been in an epoch that the record does not know, so others may be in that epoch or in a
 * later one: waits for the end of such trainers. Returns false if all have ended. */
bool fence_keep_unknown(const struct rdzv *r, struct fence *fence);
/* Returns true if no trainer of the job can make another step. */
bool fence_run_is_over(const struct rdzv *r, const struct job *job);
/* Returns true if stale peers may still connect to the ports of this epoch. */
bool fence_ports_are_spoken(const struct rdzv *r, const struct job *job, uint64_t epoch);

/* Returns when the fences of all members whose trainers' state is unknown have passed. */
struct tfe_mono fence_end(const struct job *job);
/* Returns until when a switch that began at switch_began waits for fences: for all of them if no
 * accounted task keeps the old cluster from another step (with ps, for the chief's only); and
 * always for the chief's if the job wants that, because the chief could write a checkpoint late.
 * Sets *ret_seat to the slot of that fence, or to the number of slots if it is no member's. */
struct tfe_mono fence_switch_end(const struct rdzv *r, const struct job *job,
                                 struct tfe_mono switch_began, uint32_t *ret_seat);

#endif
