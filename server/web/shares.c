/* server/web/shares.c: see shares.h. */
#include "server/web/shares.h"

#include <stdlib.h>

#include "common/handshake/token.h"

static const struct admission_config configs[SHARE__COUNT] = {
    [SHARE_CALLS] = {.capacity = SHARE_CALLS_MAX, .reserve = SHARE_CALLS_RESERVE},
    [SHARE_STREAMS] = {.capacity = SHARE_STREAMS_MAX, .reserve = SHARE_STREAMS_RESERVE},
    /* A login lasts for hours even if it is not used, so a new login replaces the holder's oldest
     * one. No reserve is needed. */
    [SHARE_LOGINS] = {.capacity = SHARE_LOGINS_MAX, .evicts_oldest = true},
    [SHARE_UPLOADS] = {.capacity = SHARE_UPLOADS_MAX, .reserve = SHARE_UPLOADS_RESERVE},
    [SHARE_LOGS] = {.capacity = SHARE_LOGS_MAX, .reserve = SHARE_LOGS_RESERVE},
};

struct shares {
    struct admission *kinds[SHARE__COUNT];
};

int shares_new(struct shares **ret)
{
    struct shares *all = calloc(1, sizeof(*all));
    if (!all) {
        return TFE_ENOMEM;
    }
    for (size_t kind = 0; kind < SHARE__COUNT; kind++) {
        if (admission_new(&configs[kind], &all->kinds[kind]) != 0) {
            shares_free(all);
            return TFE_ENOMEM;
        }
    }
    *ret = all;
    return 0;
}

void shares_free(struct shares *all)
{
    for (size_t kind = 0; all && kind < SHARE__COUNT; kind++) {
        admission_free(all->kinds[kind]);
    }
    free(all);
}

static bool is_unscoped_admin(const struct token *token)
{
    return token->role == PRINCIPAL_ADMIN && !token_is_stored(token->key_id);
}

static struct admission_claim claim_of(const struct share_holder *holder, bool has_reserve)
{
    struct admission_claim claim = {.cost = 1};
    const struct token *token = holder->token;
    if (token) {
        claim.by[ADMISSION_KEY].name = token->key_id;
        claim.by[ADMISSION_KEY].n = sizeof(token->key_id);
        claim.is_privileged = has_reserve && is_unscoped_admin(token);
    } else {
        claim.by[ADMISSION_SOURCE].name = holder->source;
        claim.by[ADMISSION_SOURCE].n = HTTP_SOURCE_BYTES;
    }
    return claim;
}

static bool may_go(const void *owner)
{
    const struct share *share = owner;
    return !share->is_fixed;
}

bool share_enter(struct shares *all, enum share_kind kind, const struct share_holder *holder,
                 void *owner, void (*evict)(void *owner), struct share *share)
{
    struct admission *a = all->kinds[kind];
    const struct admission_claim claim = claim_of(holder, configs[kind].reserve > 0);
    struct admission_slot *place;
    if (admission_enter(a, &claim, share, &share->place) != 0) {
        return false;
    }
    share->all = all;
    share->kind = kind;
    share->owner = owner;
    share->evict = evict;
    while ((place = admission_next_eviction(a, &share->place, may_go)) != NULL) {
        struct share *other = place->owner;
        if (other == share) {
            share_release(share);
            return false;
        }
        other->evict(other->owner);
    }
    return true;
}

void share_release(struct share *share)
{
    if (share->all) {
        admission_leave(share->all->kinds[share->kind], &share->place);
        share->all = NULL;
    }
}

uint32_t shares_count(const struct shares *all, enum share_kind kind)
{
    return admission_count(all->kinds[kind]);
}
