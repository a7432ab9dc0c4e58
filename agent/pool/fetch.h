/* agent/pool/fetch.h: a bundle from whoever the server names: itself, or a node that has it; kept
 * on this machine by its digest, and given to others from then on. */
#ifndef TFE_AGENT_POOL_FETCH_H
#define TFE_AGENT_POOL_FETCH_H

#include "common/base/error.h"
#include "common/base/msg.h"
#include "common/net/why.h"

struct event_base;
struct fetch;

/* Borrowed for its life. */
struct fetch_wish {
    struct event_base *base;
    const char *digest;
    const char *state_dir; /* bundles are kept there; NULL: in memory, and no longer than it */
    void (*send)(void *ctx, const struct tfe_msg *msg); /* to the server */
    void *send_ctx;
    /* Once, from the loop, and its last act: open on the bundle, and the callee's no longer than
     * fetch_free; -1: it is not to be had, why says it. */
    void (*ended)(void *ctx, int fd, const char *why);
    void *ctx;
};

/* Begins. TFE_ESYS with why. */
int fetch_new(const struct fetch_wish *wish, struct fetch **ret,
              struct tfe_why *why) TFE_MUST_CHECK;
/* NULL is allowed. */
void fetch_free(struct fetch *f);

/* The connection to the server is there again: it is told anew what is wanted, or offered. */
void fetch_welcome(struct fetch *f);
/* A CHUNK of the server's. */
void fetch_take(struct fetch *f, const struct msg_chunk *chunk);
/* It has ended well, and was what its digest says: others get it here from now on, if a port can be
 * had. */
void fetch_offer(struct fetch *f);

/* … or it was not: it is not kept. */
void fetch_spoilt(struct fetch *f);

#endif
