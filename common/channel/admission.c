/* common/channel/admission.c: quotas of the holders of a limited resource.
 *
 *     by_name                    by_use (smallest first)
 *     key 4f…    ─────────────► 3     slots: oldest > … > newest
 *     scope a-*  ─────────────► 5
 *     192.0.2.1  ─────────────► 9
 *
 * A holder exists as long as it has a slot; both trees find it in logarithmic time. */
#include "common/channel/admission.h"

#include <bsd/sys/tree.h>
#include <stdlib.h>
#include <string.h>

struct admission_holder {
    RB_ENTRY(admission_holder) by_name, by_use;
    enum admission_kind kind;
    size_t n;
    uint8_t name[ADMISSION_NAME_MAX];
    uint64_t used;
    uint64_t since; /* time (a counter) of the last change of `used`; of holders with equal use the
                       earlier is evicted first */
    TAILQ_HEAD(, admission_slot) slots; /* slots of the holder, oldest first */
};
RB_HEAD(name_tree, admission_holder);
RB_HEAD(use_tree, admission_holder);

struct admission {
    struct admission_config config;
    struct name_tree by_name;
    struct use_tree by_use;
    uint64_t used, turn;
    uint64_t privileged_used; /* part of `used` that belongs to privileged slots */
    uint32_t n;
};

static int compare_names(const struct admission_holder *a, const struct admission_holder *b)
{
    if (a->kind != b->kind) {
        return a->kind < b->kind ? -1 : 1;
    }
    if (a->n != b->n) {
        return a->n < b->n ? -1 : 1;
    }
    return memcmp(a->name, b->name, a->n);
}

static int compare_uses(const struct admission_holder *a, const struct admission_holder *b)
{
    if (a->used != b->used) {
        return a->used < b->used ? -1 : 1;
    }
    if (a->since != b->since) {
        return a->since > b->since ? -1 : 1;
    }
    return compare_names(a, b);
}

RB_GENERATE_INTERNAL(name_tree, admission_holder, by_name, compare_names,
                     __attribute__((unused)) static)
RB_GENERATE_INTERNAL(use_tree, admission_holder, by_use, compare_uses,
                     __attribute__((unused)) static)

uint64_t admission_quota(uint64_t capacity, uint64_t reserve, uint64_t used_by_others)
{
    const uint64_t taken = reserve + used_by_others;
    const uint64_t quota = taken < capacity ? (capacity - taken) / ADMISSION_QUOTA_DIVISOR : 0;
    return quota > 0 ? quota : 1;
}

struct admission_claim admission_claim_of(const struct principal *by, uint64_t cost)
{
    const bool is_scoped = strcmp(by->scope, PRINCIPAL_EVERY_JOB) != 0;
    struct admission_claim claim = {.by = {[ADMISSION_KEY] = {by->origin, sizeof(by->origin)}},
                                    .cost = cost,
                                    .is_privileged = !is_scoped && by->role == PRINCIPAL_ADMIN};
    if (is_scoped) {
        claim.by[ADMISSION_SCOPE].name = by->scope;
        claim.by[ADMISSION_SCOPE].n = strlen(by->scope);
    }
    return claim;
}

int admission_new(const struct admission_config *config, struct admission **ret)
{
    struct admission *a = calloc(1, sizeof(*a));
    if (!a) {
        return TFE_ENOMEM;
    }
    a->config = *config;
    RB_INIT(&a->by_name);
    RB_INIT(&a->by_use);
    *ret = a;
    return 0;
}

void admission_free(struct admission *a)
{
    free(a);
}

void admission_resize(struct admission *a, uint64_t capacity)
{
    a->config.capacity = capacity;
}

/* Returns the holder of this name, created if necessary, or NULL if out of memory. */
static struct admission_holder *holder_get(struct admission *a, enum admission_kind kind,
                                           const void *name, size_t n)
{
    struct admission_holder key = {.kind = kind,
                                   .n = n < ADMISSION_NAME_MAX ? n : ADMISSION_NAME_MAX};
    memcpy(key.name, name, key.n);
    struct admission_holder *holder = RB_FIND(name_tree, &a->by_name, &key);
    if (!holder && (holder = malloc(sizeof(*holder))) != NULL) {
        *holder = key;
        TAILQ_INIT(&holder->slots);
        RB_INSERT(name_tree, &a->by_name, holder);
        RB_INSERT(use_tree, &a->by_use, holder);
    }
    return holder;
}

/* Sets a holder's use; frees the holder if it has no slot. */
static void holder_set(struct admission *a, struct admission_holder *holder, uint64_t used)
{
    RB_REMOVE(use_tree, &a->by_use, holder);
    holder->used = used;
    holder->since = ++a->turn;
    if (TAILQ_EMPTY(&holder->slots)) {
        RB_REMOVE(name_tree, &a->by_name, holder);
        free(holder);
    } else {
        RB_INSERT(use_tree, &a->by_use, holder);
    }
}

static void leave_holders(struct admission *a, struct admission_slot *slot)
{
    for (unsigned kind = 0; kind < ADMISSION_KINDS; kind++) {
        struct admission_holder *holder = slot->holders[kind];
        if (holder) {
            TAILQ_REMOVE(&holder->slots, slot, link[kind]);
            holder_set(a, holder, holder->used - slot->cost);
            slot->holders[kind] = NULL;
        }
    }
}

int admission_enter(struct admission *a, const struct admission_claim *claim, void *owner,
                    struct admission_slot *slot)
{
    *slot = (struct admission_slot){
        .owner = owner, .cost = claim->cost, .is_privileged = claim->is_privileged};
    for (unsigned kind = 0; kind < ADMISSION_KINDS; kind++) {
        const size_t n = claim->by[kind].n;
        if (n == 0) {
            continue;
        }
        struct admission_holder *holder =
            holder_get(a, (enum admission_kind)kind, claim->by[kind].name, n);
        if (!holder) {
            leave_holders(a, slot);
            return TFE_ENOMEM;
        }
        slot->holders[kind] = holder;
        TAILQ_INSERT_TAIL(&holder->slots, slot, link[kind]);
        holder_set(a, holder, holder->used + slot->cost);
    }
    slot->is_in = true;
    a->used += slot->cost;
    a->privileged_used += slot->is_privileged ? slot->cost : 0;
    a->n++;
    return 0;
}

void admission_touch(struct admission_slot *slot)
{
    for (unsigned kind = 0; kind < ADMISSION_KINDS; kind++) {
        struct admission_holder *holder = slot->holders[kind];
        if (holder) {
            TAILQ_REMOVE(&holder->slots, slot, link[kind]);
            TAILQ_INSERT_TAIL(&holder->slots, slot, link[kind]);
        }
    }
}

void admission_leave(struct admission *a, struct admission_slot *slot)
{
    if (slot->is_in) {
        leave_holders(a, slot);
        slot->is_in = false;
        a->used -= slot->cost;
        a->privileged_used -= slot->is_privileged ? slot->cost : 0;
        a->n--;
    }
}

/* True if the holder exceeds its quota. A single slot never does: a large one only has to fit the
 * capacity. */
static bool exceeds_quota(const struct admission *a, const struct admission_holder *holder)
{
    const struct admission_config *c = &a->config;
    const uint64_t quota = c->quota_max
                               ? c->quota_max
                               : admission_quota(c->capacity, c->reserve, a->used - holder->used);
    return holder->used > quota && TAILQ_NEXT(TAILQ_FIRST(&holder->slots), link[holder->kind]);
}

/* Returns the holder's oldest slot that may be evicted for `newest`, or NULL if there is none. */
static struct admission_slot *oldest_of(struct admission_holder *holder,
                                        const struct admission_slot *newest,
                                        bool (*may_evict)(const void *owner))
{
    struct admission_slot *slot;
    TAILQ_FOREACH(slot, &holder->slots, link[holder->kind])
    {
        if (slot == newest || ((!slot->is_privileged || newest->is_privileged) &&
                               (!may_evict || may_evict(slot->owner)))) {
            return slot;
        }
    }
    return NULL;
}

/* Returns the holder of `newest` that exceeds its quota, or NULL if none does. */
static struct admission_holder *too_large(const struct admission *a,
                                          const struct admission_slot *newest)
{
    for (unsigned kind = 0; kind < ADMISSION_KINDS && !newest->is_privileged; kind++) {
        struct admission_holder *holder = newest->holders[kind];
        if (holder && exceeds_quota(a, holder)) {
            return holder;
        }
    }
    return NULL;
}

/* Returns the use of the slot's largest holder. */
static uint64_t largest_use(const struct admission_slot *slot)
{
    uint64_t quota_max = 0;
    for (unsigned kind = 0; kind < ADMISSION_KINDS; kind++) {
        const struct admission_holder *holder = slot->holders[kind];
        quota_max = holder && holder->used > quota_max ? holder->used : quota_max;
    }
    return quota_max;
}

struct admission_slot *admission_next_eviction(struct admission *a, struct admission_slot *newest,
                                               bool (*may_evict)(const void *owner))
{
    const struct admission_config *c = &a->config;
    const uint64_t reserve = newest->is_privileged ? 0 : c->reserve;
    const bool is_displaceable = !newest->is_privileged && !c->evicts_oldest;
    struct admission_holder *holder = too_large(a, newest);
    if (holder) {
        struct admission_slot *slot =
            c->evicts_oldest ? oldest_of(holder, newest, may_evict) : newest;
        return slot ? slot : newest;
    }
    if (a->used + reserve <= c->capacity) {
        return NULL;
    }
    if (!newest->is_privileged && a->privileged_used + reserve + newest->cost > c->capacity) {
        return newest; /* would not fit even if all unprivileged slots were evicted */
    }
    const uint64_t own = largest_use(newest);
    RB_FOREACH_REVERSE(holder, use_tree, &a->by_use)
    {
        if (is_displaceable && holder->used <= own) {
            break;
        }
        struct admission_slot *slot = oldest_of(holder, newest, may_evict);
        if (slot) {
            return slot;
        }
    }
    return newest;
}

uint64_t admission_used(const struct admission *a)
{
    return a->used;
}

uint32_t admission_count(const struct admission *a)
{
    return a->n;
}
