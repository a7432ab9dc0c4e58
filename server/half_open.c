/* server/half_open.c: connections that have shown no token yet, by where they come from.
 *
 *   sources, by address    by_count
 *     192.0.2.1  ──────────► [3]      oldest ► … ► newest
 *     192.0.2.7  ──┐
 *     2001:db8:: ──┴───────► [1]
 *
 * A source moves by one with each connection that comes or goes, so the busiest is found at once. A
 * stranger pays with its own connections, or needs more addresses than others have connections. */
#include "server/half_open.h"

#include <bsd/sys/tree.h>
#include <stdlib.h>
#include <string.h>

struct half_open_source {
    RB_ENTRY(half_open_source) node;
    TAILQ_ENTRY(half_open_source) equal; /* in its list of by_count */
    struct peer_key key;
    uint32_t n;
    TAILQ_HEAD(, half_open_place) places; /* the oldest first */
};
RB_HEAD(source_tree, half_open_source);
TAILQ_HEAD(source_list, half_open_source);

struct half_open {
    struct source_tree sources;
    uint32_t n;
    uint32_t per_source;
    uint32_t most;                 /* of one source; 0: nobody is there */
    struct source_list by_count[]; /* up to one above per_source */
};

static int compare(const struct half_open_source *a, const struct half_open_source *b)
{
    return memcmp(a->key.bytes, b->key.bytes, sizeof(a->key.bytes));
}

RB_GENERATE_INTERNAL(source_tree, half_open_source, node, compare, __attribute__((unused)) static)

int half_open_new(uint32_t per_source, struct half_open **ret)
{
    struct half_open *h = calloc(1, sizeof(*h) + (per_source + 2) * sizeof(h->by_count[0]));
    if (!h) {
        return TFE_ENOMEM;
    }
    RB_INIT(&h->sources);
    h->per_source = per_source;
    for (uint32_t i = 0; i < per_source + 2; i++) {
        TAILQ_INIT(&h->by_count[i]);
    }
    *ret = h;
    return 0;
}

void half_open_free(struct half_open *h)
{
    free(h);
}

static struct half_open_source *source_get(struct half_open *h, const struct peer *peer)
{
    struct half_open_source key = {.key = peer_key(peer)};
    struct half_open_source *source = RB_FIND(source_tree, &h->sources, &key);
    if (!source && (source = calloc(1, sizeof(*source))) != NULL) {
        source->key = key.key;
        TAILQ_INIT(&source->places);
        RB_INSERT(source_tree, &h->sources, source);
        TAILQ_INSERT_TAIL(&h->by_count[0], source, equal);
    }
    return source;
}

/* Forgets a source that has none any more. */
static void count(struct half_open *h, struct half_open_source *source, uint32_t n)
{
    TAILQ_REMOVE(&h->by_count[source->n], source, equal);
    h->n += n - source->n;
    source->n = n;
    if (n == 0) {
        RB_REMOVE(source_tree, &h->sources, source);
        free(source);
    } else {
        TAILQ_INSERT_TAIL(&h->by_count[n], source, equal);
    }
    h->most = n > h->most ? n : h->most;
    while (h->most > 0 && TAILQ_EMPTY(&h->by_count[h->most])) {
        h->most--;
    }
}

int half_open_enter(struct half_open *h, const struct peer *peer, struct half_open_place *place)
{
    struct half_open_source *source = source_get(h, peer);
    if (!source) {
        return TFE_ENOMEM;
    }
    place->source = source;
    TAILQ_INSERT_TAIL(&source->places, place, link);
    count(h, source, source->n + 1);
    return 0;
}

void half_open_leave(struct half_open *h, struct half_open_place *place)
{
    struct half_open_source *source = place->source;
    if (source) {
        place->source = NULL;
        TAILQ_REMOVE(&source->places, place, link);
        count(h, source, source->n - 1);
    }
}

struct session *half_open_surplus(struct half_open *h, const struct half_open_place *newest,
                                  uint32_t room)
{
    struct half_open_source *source = newest->source;
    if (!source || source->n <= h->per_source) {
        source = h->n > room ? TAILQ_FIRST(&h->by_count[h->most]) : NULL;
    }
    return source ? TAILQ_FIRST(&source->places)->session : NULL;
}

uint32_t half_open_count(const struct half_open *h)
{
    return h->n;
}
