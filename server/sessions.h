/* server/sessions.h: accepted connections, from the first byte to the last; who may say what on
 * them. */
#ifndef TFE_SERVER_SESSIONS_H
#define TFE_SERVER_SESSIONS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/channel/handshake.h"
#include "common/message/msg.h"

struct bans;
struct event_base;
struct keys;
struct pool;
struct principal;
struct addresses;
struct rdzv;
struct rdzv_event;
struct session;
struct sessions;
struct events;
struct reports;
struct series;
struct writer;
struct table_chunks;

/* Where the agents' sessions lead. The number of a session is below max_sessions and is used again
 * only after sessions_forgotten, or after sessions_close, and when its connection is gone. */
struct session_ops {
    /* A message of an agent that agents may send. An error is answered (design 3, REFUSED) and ends
     * the session. */
    int (*message)(void *ctx, uint32_t session, const struct principal *by,
                   const struct tfe_msg *msg);
    /* The connection of a session that has joined is over; sessions_forgotten is the answer, at
     * once or later. May come from inside sessions_send. */
    void (*closed)(void *ctx, uint32_t session);
    /* The connection of a node of the pool is over. Steps nothing. */
    void (*pool_left)(struct session *s);
    /* An event of an operator's order, but for its time. What rdzv_step returns. */
    int (*order)(void *ctx, const struct rdzv_event *event);
};

struct gauges;

struct sessions_config {
    struct event_base *base;
    struct hello_server *hello; /* borrowed */
    struct hello_facts facts;   /* of this server */
    const struct rdzv *rdzv;    /* for status; borrowed */
    struct writer *writer;      /* for the ledger and backups; borrowed */
    const char *backup_dir;     /* borrowed */
    struct keys *keys;          /* borrowed; sessions end with their keys */
    struct bans *bans;          /* borrowed */
    struct events *events;      /* for people, as the next two; borrowed */
    struct series *series;
    struct reports *reports;
    struct pool *pool;               /* borrowed */
    uint32_t max_sessions;           /* of agents */
    uint32_t max_connections;        /* of everybody, as descriptors allow */
    const struct addresses *allowed; /* where agents may be reached; borrowed */
    uint32_t half_open_per_address;
    struct gauges *gauges; /* what is counted; borrowed */
    const struct session_ops *ops;
    void *ops_ctx;
};

/* TFE_ENOMEM. */
int sessions_new(const struct sessions_config *config, struct sessions **ret) TFE_MUST_CHECK;

/* Closes all that is left, without a callback. NULL is allowed. */
void sessions_free(struct sessions *all);

/* listener_accept_fn; ctx is a struct sessions. */
void sessions_accept(void *ctx, int fd, const struct sockaddr *peer, socklen_t peer_len);

/* Says msg to an agent. If its connection is going already, nothing happens; if there is no memory
 * to say it, the session ends, for a peer must not miss a message. */
void sessions_send(struct sessions *all, uint32_t session, const struct tfe_msg *msg);
/* Says a table at the pace at which the agent reads; a START that follows waits for its end, and a
 * STOP of its epoch, or a newer table, takes back what has not been said of it. */
void sessions_send_table(struct sessions *all, uint32_t session, struct table_chunks *chunks);

/* Ends a session that lost a message on its way (no memory to encode it). */
void sessions_fail(struct sessions *all, uint32_t session);

/* Flushes, then closes; ops->closed does not come, the caller has forgotten the session. */
void sessions_close(struct sessions *all, uint32_t session);

/* The answer to ops->closed. */
void sessions_forgotten(struct sessions *all, uint32_t session);

/* Flushes and closes all; on_empty comes from the loop when the last is gone (at once if none is
 * there). Neither ops nor new connections come any more. */
void sessions_stop(struct sessions *all, void (*on_empty)(void *ctx), void *ctx);

#endif
