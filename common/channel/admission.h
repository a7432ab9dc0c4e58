/* common/channel/admission.h: shares of a limited resource (connections, bytes, rows) among those
 * who hold parts of it, so that no single key, scope or source can take it from all others.
 *
 * Each part, a place, counts for up to three holders: the key that caused it, the scope of that
 * key, and the source address of a peer that has shown no key. A holder has at most its share: a
 * quarter of what the other holders leave free, or a fixed number. Part of the capacity is a
 * reserve that only privileged places (those of unscoped admins) use. Privileged places have no
 * share, and never give way to others.
 *
 * Where the capacity is exceeded, the oldest place of the largest holder goes. This component only
 * counts and names it; the caller ends whatever the place stands for. Pure: no clock, no I/O. */
#ifndef TFE_COMMON_CHANNEL_ADMISSION_H
#define TFE_COMMON_CHANNEL_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/base/error.h"
#include "common/message/principal.h"

/* A key's id and a source have 16 bytes, a scope is a pattern of up to 64 characters. */
#define ADMISSION_NAME_MAX 64

/* A holder's share of what the others leave: one in so many. */
#define ADMISSION_SHARE 4

enum admission_kind { ADMISSION_KEY, ADMISSION_SCOPE, ADMISSION_SOURCE, ADMISSION_KINDS };

struct admission;
struct admission_holder;

struct admission_config {
    uint64_t capacity;
    uint64_t reserve; /* of the capacity, for privileged places alone */
    uint64_t most;    /* fixed share of a holder; 0: a quarter of what the others leave */
    /* Above its share the holder's oldest place goes instead of the newest. For peers that have
     * proved nothing: whoever connects next may be honest. */
    bool oldest_goes;
};

/* Who a place counts for. n 0: for no holder of that kind. */
struct admission_claim {
    struct {
        const void *name;
        size_t n; /* at most ADMISSION_NAME_MAX */
    } by[ADMISSION_KINDS];
    uint64_t cost; /* units of the capacity */
    bool is_privileged;
};

/* Embedded in what it stands for. Zeroed: it holds nothing. */
struct admission_place {
    void *owner; /* the caller's */
    struct admission_holder *holders[ADMISSION_KINDS];
    TAILQ_ENTRY(admission_place) link[ADMISSION_KINDS];
    uint64_t cost;
    bool is_privileged, is_in;
};

/* What a session's principal holds counts for the token that it came in with and for that token's
 * scope, unless that is every job; an unscoped admin is privileged. Borrows from by. */
struct admission_claim admission_claim_of(const struct principal *by, uint64_t cost);

/* TFE_ENOMEM. */
int admission_new(const struct admission_config *config, struct admission **ret) TFE_MUST_CHECK;

/* Preconditions: every place has been left. NULL is allowed. */
void admission_free(struct admission *a);

/* Changes the capacity; the reserve stays. */
void admission_resize(struct admission *a, uint64_t capacity);

/* Counts a place, whether or not there is room: admission_surplus says who has to go for it. It
 * becomes the newest of its holders. TFE_ENOMEM: it counts for nobody. Preconditions: place is not
 * in. */
int admission_enter(struct admission *a, const struct admission_claim *claim, void *owner,
                    struct admission_place *place) TFE_MUST_CHECK;

/* Makes the place the newest of its holders again. */
void admission_touch(struct admission_place *place);

/* Does nothing if the place is not in. */
void admission_leave(struct admission *a, struct admission_place *place);

/* Returns the place that has to leave because newest has entered, or NULL if there is room: newest
 * itself (or the oldest of its holder, with oldest_goes) if a holder of it is above its share; else
 * the oldest place of the largest holder if the capacity is exceeded. It is newest itself where all
 * others may stay. To be called again after each place that left. may_go NULL: all places may;
 * else only those for which it returns true, and newest. */
struct admission_place *admission_surplus(struct admission *a, struct admission_place *newest,
                                          bool (*may_go)(const void *owner));

/* Of all holders together. */
uint64_t admission_used(const struct admission *a);
uint32_t admission_count(const struct admission *a);

/* What one holder may have of a capacity of which others use so much: the rule itself, for
 * resources whose holders are counted elsewhere. At least 1. */
uint64_t admission_share(uint64_t capacity, uint64_t reserve, uint64_t used_by_others);

#endif
