/* server/pool_files.c: who gets the bundle of its job from whom: a tree that grows from a few nodes
 * which the server gives it to.
 *
 *   FETCH ──► WAITS ──somebody has room──► GETS ──FETCH, has_all──► HAS ──► room for others
 *               ▲                           │
 *               └────FETCH, failed──────────┘
 *
 * A share is of a digest, whichever jobs name it. Nodes come into it as they ask, and leave it with
 * their assignment. */
#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "common/net/limits.h"
#include "common/net/log.h"
#include "server/addresses.h"
#include "server/bundles.h"
#include "server/pool_private.h"
#include "server/session.h"

/* A node that is named so often and cannot give it is named no more; and who has found so many such
 * gets it of the server. */
#define STRIKES 3u
#define TRIES 2u

struct pool_share {
    LIST_ENTRY(pool_share) link;
    char digest[MSG_BUNDLE_HEX + 1];
    struct pool_getters nodes;   /* all */
    struct pool_getters waiting; /* in the order in which they asked */
    struct pool_getters givers;  /* who have room, who gave least lately first */
    uint32_t n_server;           /* got it from the server, or get it now … */
    uint32_t n_server_now;       /* … the latter */
    uint32_t n_has, n_offer;     /* have it all; and are named to others */
};

static void say_chunk(struct pool_node *node, struct msg_chunk chunk)
{
    const struct tfe_msg msg = {.type = MSG_CHUNK, .u.chunk = chunk};
    pool_node_say(node, &msg);
}

static void say_why(struct pool_node *node, const char *digest, const char *says)
{
    say_chunk(node, (struct msg_chunk){.digest = digest, .says = says});
}

/* --- the server as a giver -------------------------------------------------------------------- */

static void on_read(void *ctx, struct bundle_reading *reading, uint32_t offset,
                    const uint8_t *bytes, uint32_t n, uint32_t total)
{
    struct pool_node *node = ctx;
    struct pool_getter *g = &node->getter;
    g->reading[g->reading[0] == reading ? 0 : 1] = NULL;
    if (n == 0) {
        say_why(node, g->share->digest, "the server's disk does not give the bundle");
    }
    for (uint32_t at = 0; at < n; at += MSG_CHUNK_MAX) {
        const uint32_t left = n - at;
        say_chunk(node, (struct msg_chunk){.digest = g->share->digest,
                                           .offset = offset + at,
                                           .total = total,
                                           .data = bytes + at,
                                           .n_data = left < MSG_CHUNK_MAX ? left : MSG_CHUNK_MAX,
                                           .says = ""});
    }
}

/* Two pieces at a time: one travels, one is read. */
static void give(struct pool *p, struct pool_node *node, uint32_t offset, uint32_t length)
{
    struct pool_getter *g = &node->getter;
    struct bundle_reading **place = &g->reading[g->reading[0] ? 1 : 0];
    if (*place) {
        return; /* who asks for more than two waits for an answer that does not come */
    }
    *place = bundles_read(p->bundles, g->share->digest, offset, length, on_read, node);
    if (!*place) {
        say_why(node, g->share->digest,
                "the server does not have the bundle any more: hand the job in again");
    }
}

/* --- the share -------------------------------------------------------------------------------- */

static struct pool_share *find_share(const struct pool *p, const char *digest)
{
    struct pool_share *share;
    LIST_FOREACH(share, &p->shares, link)
    {
        if (strcmp(share->digest, digest) == 0) {
            break;
        }
    }
    return share;
}

/* False: no memory. */
static bool join_share(struct pool *p, struct pool_node *node, const char *digest)
{
    struct pool_share *share = find_share(p, digest);
    if (!share) {
        share = calloc(1, sizeof(*share));
        if (!share) {
            return false;
        }
        memcpy(share->digest, digest, MSG_BUNDLE_HEX + 1);
        TAILQ_INIT(&share->nodes);
        TAILQ_INIT(&share->waiting);
        TAILQ_INIT(&share->givers);
        LIST_INSERT_HEAD(&p->shares, share, link);
    }
    node->getter = (struct pool_getter){.share = share};
    TAILQ_INSERT_TAIL(&share->nodes, node, getter.of_share);
    return true;
}

static bool has_room(const struct pool_node *node)
{
    return node->getter.is_offered && node->getter.n_takers < LIMIT_BUNDLE_TAKERS;
}

/* In the list of givers, or not, as it has room. */
static void keep_giver(struct pool_node *node)
{
    struct pool_getter *g = &node->getter;
    if (g->is_listed && !has_room(node)) {
        TAILQ_REMOVE(&g->share->givers, node, getter.in_list);
    } else if (!g->is_listed && has_room(node)) {
        TAILQ_INSERT_TAIL(&g->share->givers, node, getter.in_list);
    }
    g->is_listed = has_room(node);
}

/* It is named to nobody any more. */
static void take_back_offer(struct pool_node *node)
{
    struct pool_getter *g = &node->getter;
    g->share->n_offer -= g->is_offered;
    g->is_offered = false;
    keep_giver(node);
}

/* It gets it from nobody any more, and waits for nobody. */
static void leave_giver(struct pool_node *node)
{
    struct pool_getter *g = &node->getter;
    if (g->state == WAITS) {
        TAILQ_REMOVE(&g->share->waiting, node, getter.in_list);
    }
    if (g->giver) {
        g->giver->getter.n_takers--;
        keep_giver(g->giver);
    }
    for (unsigned i = 0; i < 2; i++) {
        if (g->reading[i]) {
            bundles_let_go(g->reading[i]);
        }
        g->reading[i] = NULL;
    }
    g->share->n_server_now -= g->state == GETS && g->is_server;
    g->giver = NULL;
    g->state = NOT_THERE;
}

/* Nobody else gets it from the server while others can give it. */
static bool server_gives(const struct pool_node *node)
{
    const struct pool_share *share = node->getter.share;
    return share->n_server_now < LIMIT_BUNDLE_COPIES &&
           (share->n_server < LIMIT_BUNDLE_COPIES || node->getter.n_failed >= TRIES ||
            (share->n_has > 0 && share->n_offer == 0));
}

/* False: nobody has room, it waits. */
static bool find_giver(struct pool *p, struct pool_node *node)
{
    struct pool_getter *g = &node->getter;
    struct pool_node *giver = g->n_failed < TRIES ? TAILQ_FIRST(&g->share->givers) : NULL;
    if (!giver && !server_gives(node)) {
        return false;
    }
    g->state = GETS;
    if (!giver) {
        g->share->n_server += !g->is_server;
        g->share->n_server_now++;
        g->is_server = true;
        give(p, node, g->offset, g->length);
        return true;
    }
    g->share->n_server -= g->is_server;
    g->is_server = false;
    g->giver = giver;
    giver->getter.n_takers++;
    if (giver->getter.is_listed) { /* others first, the next time */
        TAILQ_REMOVE(&g->share->givers, giver, getter.in_list);
        giver->getter.is_listed = false;
    }
    keep_giver(giver);
    say_chunk(node, (struct msg_chunk){.digest = g->share->digest,
                                       .host = giver->row->host,
                                       .port = giver->getter.port,
                                       .token = giver->getter.token,
                                       .says = ""});
    return true;
}

/* Those who wait, as far as there is room. */
static void serve(struct pool *p, struct pool_share *share)
{
    for (struct pool_node *node = TAILQ_FIRST(&share->waiting), *next; node; node = next) {
        next = TAILQ_NEXT(node, getter.in_list);
        const bool may_go_on = node->getter.n_failed >= TRIES;
        TAILQ_REMOVE(&share->waiting, node, getter.in_list);
        node->getter.state = NOT_THERE;
        if (!find_giver(p, node)) {
            node->getter.state = WAITS;
            if (next) {
                TAILQ_INSERT_BEFORE(next, node, getter.in_list);
            } else {
                TAILQ_INSERT_TAIL(&share->waiting, node, getter.in_list);
            }
            if (!may_go_on) {
                return; /* nor has who asked later */
            }
        }
    }
}

void pool_files_leave(struct pool *p, struct pool_node *node)
{
    struct pool_getter *g = &node->getter;
    struct pool_share *share = g->share;
    struct pool_node *other;
    if (!share) {
        return;
    }
    share->n_has -= g->state == HAS;
    leave_giver(node);
    take_back_offer(node);
    share->n_server -= g->is_server;
    TAILQ_REMOVE(&share->nodes, node, getter.of_share);
    TAILQ_FOREACH(other, &share->nodes, getter.of_share)
    {
        other->getter.giver = other->getter.giver == node ? NULL : other->getter.giver;
    }
    *g = (struct pool_getter){.share = NULL};
    if (TAILQ_EMPTY(&share->nodes)) {
        LIST_REMOVE(share, link);
        free(share);
    } else {
        serve(p, share);
    }
}

/* --- what nodes say --------------------------------------------------------------------------- */

/* It has it all. Others are sent where it says only if that is an address of its own. */
static void take_offer(struct pool_node *node, const struct session *s,
                       const struct msg_fetch *fetch)
{
    struct pool_getter *g = &node->getter;
    const char *host = node->row->host;
    g->share->n_has += g->state != HAS; /* it may say so again */
    leave_giver(node);
    g->state = HAS;
    take_back_offer(node);
    if (fetch->port > 0 && host && addresses_allow(s->all->allowed, host, &s->peer) &&
        g->n_strikes < STRIKES) {
        g->port = fetch->port;
        text_setf(g->token, sizeof(g->token), "%s", fetch->token);
        g->is_offered = true;
        g->share->n_offer++;
        keep_giver(node);
    }
}

/* The one that it was sent to could not give it. */
static void take_failure(struct pool_node *node)
{
    struct pool_getter *g = &node->getter;
    struct pool_node *giver = g->giver;
    g->n_failed++;
    if (giver && ++giver->getter.n_strikes >= STRIKES) {
        log_warn("bundle_giver_dropped", LOG_S("node", giver->id.text));
        take_back_offer(giver);
    }
}

void pool_files_take(struct pool *p, struct pool_node *node, const struct msg_fetch *fetch)
{
    struct pool_getter *g = &node->getter;
    if (!node->job || strcmp(node->job->bundle, fetch->digest) != 0) {
        say_why(node, fetch->digest, "this node's assignment names no such bundle");
        return;
    }
    if (!g->share && !join_share(p, node, node->job->bundle)) {
        session_finish(node->session); /* it asks again on its next connection */
        return;
    }
    struct pool_share *share = g->share;
    if (fetch->has_all) {
        take_offer(node, node->session, fetch);
    } else if (g->state == GETS && g->is_server && !g->giver && !fetch->failed) {
        give(p, node, fetch->offset, fetch->length);
        return;
    } else {
        if (fetch->failed) {
            take_failure(node);
        }
        if (g->state == HAS) { /* it was no good after all */
            share->n_has--;
            take_back_offer(node);
        }
        leave_giver(node);
        g->offset = fetch->offset;
        g->length = fetch->length;
        g->state = WAITS;
        TAILQ_INSERT_TAIL(&share->waiting, node, getter.in_list);
    }
    serve(p, share);
}
