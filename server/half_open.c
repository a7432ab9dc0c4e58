/* server/half_open.c: how many connections may be in their handshake, in all and per address; the
 * others wait, they are never refused.
 *
 *   arrived ──place free──────────────────────────────────► admitted ──► leave
 *      │                                                       ▲
 *      └─none─► quiet ──bytes──► talking ──place free, in turn─┘
 *                 └─LIMIT_HANDSHAKE_MS without a byte, or gone──► closed
 *
 * A client speaks first. So one that waits here without a byte has used up the time of its
 * handshake just as it would have done in it, and an outsider with hundreds of silent connections
 * cannot make an honest client of the same address wait for longer than that. */
#include "server/half_open.h"

#include <bsd/sys/tree.h>
#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "common/net/limits.h"
#include "common/net/log.h"

struct held {
    struct half_open_address *place;
    struct peer peer;
    int fd;
    struct event bytes; /* while quiet: readable, or its time is over */
    TAILQ_ENTRY(held) link;
};
TAILQ_HEAD(held_list, held);

struct half_open_address {
    RB_ENTRY(half_open_address) node;
    struct half_open *all;
    struct peer_key key;
    uint32_t admitted;
    struct held_list quiet;
    struct held_list talking;
};
RB_HEAD(address_tree, half_open_address);

struct half_open {
    struct event_base *base;
    half_open_admit_fn *admit;
    half_open_full_fn *full;
    void *ctx;
    uint32_t per_address;
    uint32_t n; /* admitted and waiting */
    bool is_full;
    struct address_tree addresses;
};

static int compare(const struct half_open_address *a, const struct half_open_address *b)
{
    return memcmp(a->key.bytes, b->key.bytes, sizeof(a->key.bytes));
}

RB_GENERATE_INTERNAL(address_tree, half_open_address, node, compare, __attribute__((unused)) static)

int half_open_new(struct event_base *base, uint32_t per_address, half_open_admit_fn *admit,
                  half_open_full_fn *full, void *ctx, struct half_open **ret)
{
    struct half_open *h = calloc(1, sizeof(*h));
    if (h == NULL) {
        return TFE_ENOMEM;
    }
    *h = (struct half_open){
        .base = base, .admit = admit, .full = full, .ctx = ctx, .per_address = per_address};
    RB_INIT(&h->addresses);
    *ret = h;
    return 0;
}

static struct half_open_address *address_get(struct half_open *h, const struct peer *peer)
{
    struct half_open_address key = {.key = peer_key(peer)};
    struct half_open_address *place = RB_FIND(address_tree, &h->addresses, &key);
    if (place == NULL && (place = calloc(1, sizeof(*place))) != NULL) {
        place->all = h;
        place->key = key.key;
        TAILQ_INIT(&place->quiet);
        TAILQ_INIT(&place->talking);
        RB_INSERT(address_tree, &h->addresses, place);
    }
    return place;
}

static void count(struct half_open *h, int change)
{
    h->n = change > 0 ? h->n + 1 : h->n - 1;
    bool full = h->n >= LIMIT_HALF_OPEN;
    if (full != h->is_full) {
        h->is_full = full;
        h->full(h->ctx, full);
    }
}

/* One connection fewer at this address; forgets the address after the last. */
static void drop(struct half_open_address *place)
{
    struct half_open *h = place->all;
    if (place->admitted == 0 && TAILQ_EMPTY(&place->quiet) && TAILQ_EMPTY(&place->talking)) {
        RB_REMOVE(address_tree, &h->addresses, place);
        free(place);
    }
    count(h, -1);
}

static void held_close(struct held *held, struct held_list *list)
{
    struct half_open_address *place = held->place;
    (void)event_del(&held->bytes);
    TAILQ_REMOVE(list, held, link);
    (void)close(held->fd);
    free(held);
    drop(place);
}

static void held_admit(struct held *held, struct held_list *list)
{
    struct half_open_address *place = held->place;
    struct half_open *h = place->all;
    struct peer peer = held->peer;
    int fd = held->fd;
    (void)event_del(&held->bytes);
    TAILQ_REMOVE(list, held, link);
    free(held);
    place->admitted++;
    h->admit(h->ctx, fd, &peer, place);
}

static void on_bytes(evutil_socket_t fd, short what, void *ctx)
{
    struct held *held = ctx;
    struct half_open_address *place = held->place;
    char byte;
    ssize_t n = (what & EV_TIMEOUT) != 0 ? 0 : recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n <= 0) {
        /* Readable without a byte to read, by an error or a race, is as good as gone. */
        held_close(held, &place->quiet);
    } else if (place->admitted < place->all->per_address) {
        held_admit(held, &place->quiet);
    } else {
        TAILQ_REMOVE(&place->quiet, held, link);
        TAILQ_INSERT_TAIL(&place->talking, held, link);
    }
}

/* Lets the connection wait for a place. */
static int hold(struct half_open_address *place, int fd, const struct peer *peer)
{
    static const struct timeval limit = {.tv_sec = LIMIT_HANDSHAKE_MS / 1000,
                                         .tv_usec = LIMIT_HANDSHAKE_MS % 1000 * 1000};
    struct held *held = calloc(1, sizeof(*held));
    if (held == NULL) {
        return TFE_ENOMEM;
    }
    held->place = place;
    held->peer = *peer;
    held->fd = fd;
    if (event_assign(&held->bytes, place->all->base, fd, EV_READ, on_bytes, held) != 0 ||
        event_add(&held->bytes, &limit) != 0) {
        free(held);
        return TFE_ENOMEM;
    }
    TAILQ_INSERT_TAIL(&place->quiet, held, link);
    return 0;
}

void half_open_arrived(struct half_open *h, int fd, const struct peer *peer)
{
    struct half_open_address *place = address_get(h, peer);
    if (place == NULL) {
        (void)close(fd);
        return;
    }
    count(h, +1);
    if (place->admitted < h->per_address) {
        place->admitted++;
        h->admit(h->ctx, fd, peer, place);
    } else if (hold(place, fd, peer) != 0) {
        (void)close(fd);
        drop(place);
    }
}

void half_open_leave(struct half_open *h, struct half_open_address *place)
{
    struct held *next = TAILQ_FIRST(&place->talking);
    place->admitted--;
    if (next != NULL && place->admitted < h->per_address) {
        /* Admitting may leave at once and come back here, so the count of the one that left comes
         * first: place stays, for it counts the next one. */
        count(h, -1);
        held_admit(next, &place->talking);
        return;
    }
    drop(place);
}

static void close_list(struct held_list *list)
{
    struct held *held;
    while ((held = TAILQ_FIRST(list)) != NULL) {
        held_close(held, list);
    }
}

void half_open_close_waiting(struct half_open *h)
{
    struct half_open_address *place = RB_MIN(address_tree, &h->addresses);
    while (place != NULL) {
        struct half_open_address *next = RB_NEXT(address_tree, &h->addresses, place);
        /* Counted as admitted meanwhile, so that it outlives its own lists. */
        place->admitted++;
        close_list(&place->quiet);
        close_list(&place->talking);
        count(h, +1);
        place->admitted--;
        drop(place);
        place = next;
    }
}

void half_open_free(struct half_open *h)
{
    struct half_open_address *place;
    if (h == NULL) {
        return;
    }
    half_open_close_waiting(h);
    while ((place = RB_MIN(address_tree, &h->addresses)) != NULL) {
        RB_REMOVE(address_tree, &h->addresses, place);
        free(place);
    }
    free(h);
}
