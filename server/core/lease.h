/* server/core/lease.h: who may keep a place, and until when. */
#ifndef TFE_SERVER_CORE_LEASE_H
#define TFE_SERVER_CORE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "server/core/core.h"

/* The place of a node, and until when it is its own. Written by lease.c. */
struct lease {
    struct core_timer timer;   /* not set: no lease */
    struct tfe_mono heard;     /* when it was renewed, or known to have been */
    bool counts;               /* among the server's leases */
    bool was_shifted;          /* for a late turn of the server's loop, since the last renewal */
    bool is_held;              /* over, but for a mass loss that is being held; likewise */
    struct tfe_mono fence_end; /* by then its guard has killed its trainers, whatever happens */
    uint64_t left_epoch; /* an epoch it was left out of while its trainers may run on; 0 none */
};

struct lease_terms {
    uint32_t ttl_ms;
    uint32_t fence_ms;
};

static inline bool lease_is_there(const struct lease *lease)
{
    return wheel_is_set(&lease->timer.wheel);
}

#define LEASE_NEW ((struct lease){.timer.kind = TIMER_LEASE})

/* What the node is granted if it asks now, for its present standing. */
struct lease_terms lease_terms(const struct rdzv *r, const struct node *node);
/* Gives or prolongs: the lease ends ttl from now on a clock that may run 5 % fast, its fence
 * likewise. Returns what the node is to be told. */
struct lease_terms lease_renew(struct rdzv *r, struct node *node);
void lease_end(struct rdzv *r, struct node *node);
/* It is over, but goes on until then: was_shifted or is_held says why. */
void lease_shift(struct rdzv *r, struct node *node, struct tfe_mono until);
void lease_hold(struct rdzv *r, struct node *node, struct tfe_mono until);
/* One that is held is over now. */
void lease_release(struct rdzv *r, struct node *node);
/* For a member of an adopted epoch: what it may have been granted by the server before. */
void lease_restore(struct rdzv *r, struct node *node, uint32_t ttl_ms, struct tfe_mono fence_end);
/* The node's trainers of this epoch may run on after it was left out; 0: nothing of it does. */
void lease_set_left(struct node *node, uint64_t epoch);

/* When a lease granted at that time is over at the latest. */
struct tfe_mono lease_end_from(const struct rdzv *r, const struct job *job,
                               struct tfe_mono granted);
/* How long a lease should be for the server to bear the renewals. */
uint32_t lease_wanted_ms(const struct rdzv *r);
/* What a node of the job is granted: that, but no more than a restarted server would know of. */
uint32_t lease_ttl_ms(const struct rdzv *r, const struct job *job);

/* When a fence of this length that was told at that time has passed. */
struct tfe_mono lease_fence_end_from(struct tfe_mono told, uint32_t fence_ms);
/* The fence that START tells the node, for its new standing. */
uint32_t lease_fence_of_start(struct rdzv *r, struct node *node);
/* The node's trainers may live for as long as those of a member that nobody has heard of. */
void lease_extend_fence(struct node *node, struct tfe_mono until);
/* The fence of an epoch of n members (0: of a node that is in none, which runs nothing and so does
 * not need the long one); the setting, or the rule of design 6. */
uint32_t lease_fence_ms(const struct rdzv *r, uint32_t n_members, uint32_t ttl_ms);
/* When the longest has passed that a server with these settings, or the one of a record (0: there
 * is none), may have told anybody by then: what one was granted of which no record is left. */
struct tfe_mono lease_longest_fence_end(const struct rdzv *r, struct tfe_mono told,
                                        uint32_t recorded_ms);

#endif
