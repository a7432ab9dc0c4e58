/* server/core/ban.c: deny list of nodes that an operator has evicted. */
#include "server/core/ban.h"

#include "server/core/core.h"

const char ban_sentence[] = "this node was evicted from its job by an operator";

void ban_add(struct rdzv *r, const struct tfe_id *job, const struct tfe_id *node)
{
    r->bans.v[r->bans.n++ % BANS_MAX] = (struct ban){.job = *job, .node = *node};
}

/* Returns the index of the entry, or BANS_MAX if there is none. */
static uint64_t find(const struct rdzv *r, const char *job, const char *node)
{
    struct ban key;
    uint64_t n = r->bans.n < BANS_MAX ? r->bans.n : BANS_MAX;
    if (id_set(&key.job, job) || id_set(&key.node, node)) {
        return BANS_MAX;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (id_compare(&r->bans.v[i].node, &key.node) == 0 &&
            id_compare(&r->bans.v[i].job, &key.job) == 0) {
            return i;
        }
    }
    return BANS_MAX;
}

bool ban_has(const struct rdzv *r, const char *job, const char *node)
{
    return find(r, job, node) < BANS_MAX;
}

void ban_drop(struct rdzv *r, const char *job, const char *node)
{
    uint64_t at = find(r, job, node);
    if (at < BANS_MAX) {
        r->bans.v[at].node.text[0] = '\0'; /* matches no node's id */
    }
}
