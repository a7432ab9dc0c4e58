/* server/throttle.c: which lines about misbehaving peers are worth logging: one per peer and
 * minute. */
#include "server/throttle.h"

#include <stddef.h>

bool throttle_pass(struct throttle *t, const struct peer *peer, struct tfe_mono now,
                   uint64_t *ret_hidden)
{
    struct peer_key key = peer_key(peer);
    uint32_t hash = 2166136261u; /* FNV-1a: who makes entries collide only hides lines */
    for (size_t i = 0; i < sizeof(key.bytes); i++) {
        hash = (hash ^ key.bytes[i]) * 16777619u;
    }
    struct throttle_entry *e = &t->entries[hash % THROTTLE_PEERS];
    if (e->used && tfe_mono_sub(now, e->since) < THROTTLE_MS) {
        t->hidden++;
        return false;
    }
    *e = (struct throttle_entry){.since = now, .used = true};
    *ret_hidden = t->hidden;
    t->hidden = 0;
    return true;
}
