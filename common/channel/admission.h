/* common/channel/admission.h: divides a limited resource (connections, bytes, rows) among holders,
 * so that no single key, scope or source can exhaust it for all others.
 *
 * Each admitted slot counts for up to three holders: the key that caused it, the scope of that key,
 * and the source address of an unauthenticated peer. A holder's quota is a quarter of what the
 * other holders leave free, or a fixed number. A part of the capacity is reserved for privileged
 * slots (those of admins without scope). Privileged slots have no quota and are never evicted for
 * others.
 *
 * If the capacity is exceeded, the oldest slot of the largest holder is evicted. This module only
 * counts and names the slot; the caller closes what the slot stands for. Pure: no clock, no I/O. */
#ifndef TFE_COMMON_CHANNEL_ADMISSION_H
#define TFE_COMMON_CHANNEL_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/base/error.h"
#include "common/message/principal.h"

/* Maximum length of a holder's name: key ids and sources have 16 bytes, scopes up to 64. */
#define ADMISSION_NAME_MAX 64

/* A holder's quota is what the others leave free, divided by this. */
#define ADMISSION_QUOTA_DIVISOR 4

enum admission_kind { ADMISSION_KEY, ADMISSION_SCOPE, ADMISSION_SOURCE, ADMISSION_KINDS };

struct admission;
struct admission_holder;

struct admission_config {
    uint64_t capacity;
    uint64_t reserve;   /* part of the capacity reserved for privileged slots */
    uint64_t quota_max; /* fixed quota of a holder; 0 for a quarter of what the others leave */
    /* Above its quota the holder loses its oldest slot instead of the newest. For unauthenticated
     * peers, where the next one to connect may be legitimate. */
    bool evicts_oldest;
};

/* The holders for which a slot counts. n is 0 if the slot counts for no holder of that kind. */
struct admission_claim {
    struct {
        const void *name;
        size_t n; /* length of the name, at most ADMISSION_NAME_MAX */
    } by[ADMISSION_KINDS];
    uint64_t cost; /* units of the capacity that the slot uses */
    bool is_privileged;
};

/* A slot, embedded in the object that it stands for. Zeroed: not admitted. */
struct admission_slot {
    void *owner; /* object that embeds the slot */
    struct admission_holder *holders[ADMISSION_KINDS];
    TAILQ_ENTRY(admission_slot) link[ADMISSION_KINDS];
    uint64_t cost;
    bool is_privileged, is_in;
};

/* Returns the claim of a session with this principal: it counts for the token with which the peer
 * first connected and for that token's scope, unless that is every job. Admins without scope are
 * privileged. The claim borrows from `by`. */
struct admission_claim admission_claim_of(const struct principal *by, uint64_t cost);

/* Makes an empty admission. Returns 0 or TFE_ENOMEM. */
int admission_new(const struct admission_config *config, struct admission **ret) TFE_MUST_CHECK;

/* Frees an admission without slots. NULL is allowed. */
void admission_free(struct admission *a);

/* Changes the capacity; the reserve is unchanged. */
void admission_resize(struct admission *a, uint64_t capacity);

/* Admits a slot even if the capacity is exceeded; admission_next_eviction then names the slot to
 * evict. The slot becomes the newest of its holders. Returns TFE_ENOMEM if the slot was not
 * admitted. Precondition: the slot is not admitted. */
int admission_enter(struct admission *a, const struct admission_claim *claim, void *owner,
                    struct admission_slot *slot) TFE_MUST_CHECK;

/* Makes an admitted slot the newest of its holders. */
void admission_touch(struct admission_slot *slot);

/* Removes a slot; does nothing if it is not admitted. */
void admission_leave(struct admission *a, struct admission_slot *slot);

/* Returns the slot to evict because `newest` was admitted, or NULL if there is capacity: `newest`
 * itself (with evicts_oldest: its holder's oldest) if one of its holders exceeds its quota, else
 * the oldest slot of the largest holder if the capacity is exceeded, or `newest` if no other may be
 * evicted. Call again after each eviction. may_evict, unless NULL, says whether the slot of an
 * owner may be evicted; `newest` always may. */
struct admission_slot *admission_next_eviction(struct admission *a, struct admission_slot *newest,
                                               bool (*may_evict)(const void *owner));

/* Returns the units used by all slots. */
uint64_t admission_used(const struct admission *a);
uint32_t admission_count(const struct admission *a);

/* Returns the quota of one holder, given what others use; at least 1. For resources whose holders
 * are counted elsewhere. */
uint64_t admission_quota(uint64_t capacity, uint64_t reserve, uint64_t used_by_others);

#endif
