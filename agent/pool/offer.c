/* agent/pool/offer.c: see offer.h. */
#include "agent/pool/offer.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "common/base/msg.h"
#include "common/net/channel.h"
#include "common/net/limits.h"
#include "common/net/listener.h"
#include "common/wire/hello.h"

/* The server sends two at a time; some may be on their way out, or strangers in their handshake. */
#define CLIENTS_MAX 8u
/* Who asks for nothing for so long needs nothing. */
#define SILENCE_MS 20000

struct client {
    struct offer *offer;
    struct channel *channel;
    LIST_ENTRY(client) link;
};

struct offer {
    struct event_base *base;
    struct listener *listener;
    struct hello_server *hello;
    struct hello_facts facts;
    LIST_HEAD(, client) clients;
    unsigned n_clients;
    int fd;
    uint32_t n;
    const char *digest;
    char token[TOKEN_TEXT_MAX];
};

static void drop(struct client *c)
{
    LIST_REMOVE(c, link);
    c->offer->n_clients--;
    free(c);
}

static void on_established(void *ctx, struct channel *ch, const struct principal *by)
{
    channel_expect(ch, SILENCE_MS);
}

/* False: it reads too slowly, or the disk fails; it asks somebody else. */
static bool say_piece(const struct offer *o, struct channel *ch, const struct msg_fetch *fetch)
{
    uint8_t bytes[MSG_CHUNK_MAX];
    uint32_t at = fetch->offset;
    const uint32_t left = o->n - at;
    const uint32_t end = at + (fetch->length < left ? fetch->length : left);
    while (at < end) {
        const size_t most = end - at < sizeof bytes ? end - at : sizeof bytes;
        const ssize_t n = pread(o->fd, bytes, most, at);
        struct tfe_msg msg = {.type = MSG_CHUNK,
                              .u.chunk = {.digest = o->digest,
                                          .offset = at,
                                          .total = o->n,
                                          .data = bytes,
                                          .n_data = (size_t)n,
                                          .says = ""}};
        if (n <= 0 || channel_send(ch, &msg) != 0) {
            return false;
        }
        at += (uint32_t)n;
    }
    return true;
}

static void on_message(void *ctx, struct channel *ch, const struct tfe_msg *msg)
{
    struct client *c = ctx;
    const struct offer *o = c->offer;
    const struct msg_fetch *fetch = &msg->u.fetch;
    channel_expect(ch, SILENCE_MS);
    if (msg->type != MSG_FETCH || strcmp(fetch->digest, o->digest) != 0 || fetch->offset >= o->n ||
        !say_piece(o, ch, fetch)) {
        drop(c);
        channel_free(ch);
    }
}

static void on_closed(void *ctx, struct channel *ch, enum channel_end end, const char *detail)
{
    drop(ctx);
}

static void on_silent(void *ctx, struct channel *ch)
{
    drop(ctx);
    channel_free(ch);
}

static void on_accept(void *ctx, int fd, const struct sockaddr *peer, socklen_t peer_len)
{
    static const struct channel_ops ops = {.established = on_established,
                                           .message = on_message,
                                           .closed = on_closed,
                                           .silent = on_silent};
    struct offer *o = ctx;
    struct client *c = o->n_clients < CLIENTS_MAX ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        close(fd);
        return;
    }
    c->offer = o;
    if (channel_accept(o->base, fd, o->hello, &o->facts, LIMIT_HANDSHAKE_MS, &ops, c,
                       &c->channel) != 0) {
        free(c);
        return;
    }
    LIST_INSERT_HEAD(&o->clients, c, link);
    o->n_clients++;
}

/* Keys that are this offer's alone. */
static int make_keys(struct offer *o)
{
    uint8_t secret_key[32];
    uint8_t root[TOKEN_ROOT_BYTES];
    struct token token;
    const struct token_wish wish = {.role = PRINCIPAL_AGENT};
    randombytes_buf(secret_key, sizeof secret_key);
    randombytes_buf(root, sizeof root);
    int rc = hello_server_new(secret_key, root, &o->hello);
    if (rc == 0) {
        hello_server_mint(o->hello, &wish, &token);
        token_format(&token, o->token);
        token_done(&token);
    }
    sodium_memzero(secret_key, sizeof secret_key);
    sodium_memzero(root, sizeof root);
    return rc;
}

int offer_new(struct event_base *base, int fd, uint32_t n, const char *digest, struct offer **ret)
{
    struct tfe_why why;
    struct offer *o = calloc(1, sizeof *o);
    if (!o) {
        return TFE_ENOMEM;
    }
    *o =
        (struct offer){.base = base,
                       .fd = fd,
                       .n = n,
                       .digest = digest,
                       .facts = {.version_min = PROTOCOL_VERSION, .version_max = PROTOCOL_VERSION}};
    LIST_INIT(&o->clients);
    randombytes_buf(&o->facts.boot_nonce, sizeof o->facts.boot_nonce);
    int rc = make_keys(o);
    rc = rc ? rc : listener_new(base, "0.0.0.0", 0, on_accept, o, &o->listener, &why);
    if (rc) {
        offer_free(o);
        return rc;
    }
    *ret = o;
    return 0;
}

void offer_free(struct offer *o)
{
    if (!o) {
        return;
    }
    for (struct client *c; (c = LIST_FIRST(&o->clients));) {
        channel_free(c->channel); // NOLINT(clang-analyzer-unix.Malloc)
        drop(c);
    }
    listener_free(o->listener);
    hello_server_free(o->hello);
    sodium_memzero(o->token, sizeof o->token);
    free(o);
}

uint16_t offer_port(const struct offer *o)
{
    return listener_port(o->listener);
}

const char *offer_token(const struct offer *o)
{
    return o->token;
}
