/* agent/pool/fetch.h: downloads a bundle from the server and caches it on this machine
 * by its digest. An error never ends the download: it is retried with backoff and
 * reported to the server. */
#ifndef TFE_AGENT_POOL_FETCH_H
#define TFE_AGENT_POOL_FETCH_H

#include "common/message/msg.h"

struct event_base;
struct fetch;

/* Options of a download. Pointers are borrowed for its lifetime. */
struct fetch_options {
    struct event_base *base;
    const char *digest;
    /* directory of the cache; NULL to hold the bundle in memory for the lifetime of the fetch */
    const char *state_dir;
    void (*send)(void *ctx, const struct tfe_msg *msg); /* sends a message to the server */
    void *send_ctx;
    /* Called once from the event loop as the last action. fd is the complete bundle, which
     * matches the digest; it belongs to the fetch until fetch_free. */
    void (*ended)(void *ctx, int fd);
    void *ctx;
};

/* Starts a download. */
struct fetch *fetch_new(const struct fetch_options *options);
/* Cancels or frees a download. Accepts NULL. */
void fetch_free(struct fetch *f);

/* Repeats the request after a reconnect to the server. */
void fetch_welcome(struct fetch *f);
/* Handles a CHUNK from the server. */
void fetch_handle_chunk(struct fetch *f, const struct msg_chunk *chunk);

#endif
