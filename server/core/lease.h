/* server/core/lease.h: leases and fences: until when a node keeps its slot, until when trainers of
 * unknown state may run, and when silence is more likely the server's own fault. */
#ifndef TFE_SERVER_CORE_LEASE_H
#define TFE_SERVER_CORE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "server/core/core.h"

struct job;
struct node;
struct rdzv;

/* Lease of a node: until when the node keeps its slot. Written by lease.c. */
struct lease {
    struct core_timer timer;    /* end of the lease; not set if there is no lease */
    struct tfe_mono renewed_at; /* time of the latest renewal */
    bool is_counted;            /* the lease is included in the server's n_leases */
    /* extended since the last renewal, because an iteration of the server's loop was late */
    bool was_shifted;
    bool is_held; /* over, and held because of a mass loss since the last renewal */
    /* by then the node's guard has killed its trainers, whatever happens */
    struct tfe_mono fence_end;
    /* number of an epoch without this node, whose trainers may run on; 0 if none */
    uint64_t left_epoch;
};

struct lease_terms {
    uint32_t ttl_ms;
    uint32_t fence_ms;
};

#define LEASE_NEW ((struct lease){.timer.kind = TIMER_LEASE})

/* Returns the durations that the node is granted if it renews now. */
struct lease_terms lease_terms(const struct rdzv *r, const struct node *node);
/* Grants or extends the node's lease: it ends one ttl from now on a clock that may run 5 % fast,
 * and so does the fence. Returns what to send to the node. */
struct lease_terms lease_renew(struct rdzv *r, struct node *node);
void lease_end(struct rdzv *r, struct node *node);
/* Sets the lease of a member of an adopted epoch to the most that the earlier server may have
 * granted. */
void lease_restore(struct rdzv *r, struct node *node, uint32_t ttl_ms, struct tfe_mono fence_end);
/* Notes that the node's trainers of this epoch may run on after the node was left out of the next
 * one; 0: none does. */
void lease_set_left(struct node *node, uint64_t epoch);

/* Returns when a lease granted at that time has ended at the latest. */
struct tfe_mono lease_end_from(const struct rdzv *r, const struct job *job,
                               struct tfe_mono granted);
/* Returns how long leases must be for the server to bear the rate of renewals. */
uint32_t lease_target_ms(const struct rdzv *r);
/* Returns the fence to send in the node's START, for its new membership. */
uint32_t lease_fence_of_start(struct rdzv *r, struct node *node);
/* Extends the fence: the node's trainers may live until then. */
void lease_extend_fence(struct node *node, struct tfe_mono until);
/* Returns the fence for an epoch of n members; 0 members: for a node without trainers, which does
 * not need the long one. It is the setting, or follows the rule of design 6. */
uint32_t lease_fence_ms(const struct rdzv *r, uint32_t n_members, uint32_t ttl_ms);
/* Returns when the longest fence has passed that a server with these settings, or with the recorded
 * fence (0: none), may have granted to any node until then. */
struct tfe_mono lease_longest_fence_end(const struct rdzv *r, struct tfe_mono sent,
                                        uint32_t recorded_ms);

/* --- fences ----------------------------------------------------------------------------------- */

/* Fences of a job. Written by lease.c. */
struct fence {
    struct tfe_mono run_until; /* until when trainers of an abandoned epoch may run */
    /* Until when stale peers may connect to the even and the odd set of ports. */
    struct tfe_mono ports_until[2];
    /* Until when trainers may run that an earlier server has started and that no record
     * mentions. */
    struct tfe_mono unknown_until;
};

/* Reserves the ports of this epoch: they are not used again before `until`. */
static inline void fence_reserve_ports(struct fence *fence, uint64_t epoch, struct tfe_mono until)
{
    struct tfe_mono *reserved = &fence->ports_until[epoch & 1];
    *reserved = tfe_mono_max(*reserved, until);
}

/* Starts nothing in the job before `until`. */
static inline void fence_extend_run(struct fence *fence, struct tfe_mono until)
{
    fence->run_until = tfe_mono_max(fence->run_until, until);
}

/* Sets when trainers that the job's record does not mention have ended at the latest. */
static inline void fence_set_unknown(struct fence *fence, struct tfe_mono until)
{
    fence->unknown_until = until;
}

/* Returns true if trainers that no record mentions may still run. */
bool fence_has_unknown(const struct rdzv *r, const struct fence *fence);
/* A node has been in an epoch that the record does not know, so others may be in that epoch or in a
 * later one: waits for the end of such trainers. Returns false if all have ended. */
bool fence_await_unknown(const struct rdzv *r, struct fence *fence);
/* Returns true if no trainer of the job can make another step. */
bool fence_run_is_over(const struct rdzv *r, const struct job *job);
/* Returns true if stale peers may still connect to the ports of this epoch. */
bool fence_ports_in_use(const struct rdzv *r, const struct job *job, uint64_t epoch);

/* Returns when the fences of all members whose trainers' state is unknown have passed. */
struct tfe_mono fence_end(const struct job *job);
/* Returns until when a switch that began at switch_began waits for fences: for all of them if no
 * accounted task keeps the old cluster from another step (with ps, for the chief's only); and
 * always for the chief's if the job wants that, because the chief could write a checkpoint late.
 * Sets *ret_slot to the slot of that fence, or to the number of slots if it is no member's. */
struct tfe_mono fence_switch_end(const struct rdzv *r, const struct job *job,
                                 struct tfe_mono switch_began, uint32_t *ret_slot);

/* --- mass loss -------------------------------------------------------------------------------- */

/* Mass-loss state of a job. Written by lease.c. */
struct mass_loss {
    uint64_t mass_epoch;        /* number of the epoch in which leases were held once */
    struct tfe_mono mass_until; /* until then no member's lease ends */
};

/* Notes at the beginning of a step whether this iteration of the event loop is late. */
void mass_loss_check_clock(struct rdzv *r, struct tfe_mono now);
/* Called when a lease has ended. Returns true if the lease is extended, because the server was late
 * or because more than half of the members fell silent together. */
bool mass_loss_postpones(struct rdzv *r, struct node *node);
/* Returns true if the node has missed a renewal. */
bool lease_is_silent(const struct rdzv *r, const struct node *node);
/* A survivor's trainer has failed, so the loss is real: ends the held leases. */
void mass_loss_release(struct rdzv *r, struct job *job);

#endif
