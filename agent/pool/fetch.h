/* agent/pool/fetch.h: downloads a bundle from the server, and keeps it on this machine by its
 * digest. An error is never the end: the download is tried again, later and later, and the server
 * knows why. */
#ifndef TFE_AGENT_POOL_FETCH_H
#define TFE_AGENT_POOL_FETCH_H

#include "common/message/msg.h"

struct event_base;
struct fetch;

/* Borrowed for its life. */
struct fetch_wish {
    struct event_base *base;
    const char *digest;
    const char *state_dir; /* bundles are kept there; NULL: in memory, and no longer than it */
    void (*send)(void *ctx, const struct tfe_msg *msg); /* to the server */
    void *send_ctx;
    /* Once, from the loop, as its last act: fd is open on the bundle, which is as its digest says.
     * It is the fetch's until fetch_free. */
    void (*ended)(void *ctx, int fd);
    void *ctx;
};

/* Begins. */
struct fetch *fetch_new(const struct fetch_wish *wish);
/* NULL is allowed. */
void fetch_free(struct fetch *f);

/* The connection to the server is there again: asks anew. */
void fetch_welcome(struct fetch *f);
/* A CHUNK of the server's. */
void fetch_take(struct fetch *f, const struct msg_chunk *chunk);

#endif
