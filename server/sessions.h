/* server/sessions.h: all accepted connections, and which principal may send which message on them.
 */
#ifndef TFE_SERVER_SESSIONS_H
#define TFE_SERVER_SESSIONS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/handshake/handshake.h"
#include "common/message/msg.h"

struct deny_list;
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

/* Receivers of what agents send. A session number is below max_sessions; it is reused only after
 * sessions_forgotten() or sessions_close(), and once the connection is closed. */
struct session_ops {
    /* Handles a message of an agent. If it returns an error, REFUSED is sent (design 3) and the
     * session ends. */
    int (*message)(void *ctx, uint32_t session, const struct principal *by,
                   const struct tfe_msg *msg);
    /* The connection of a joined session is closed. The receiver calls sessions_forgotten(), at
     * once or later. May be called from inside sessions_send(). */
    void (*closed)(void *ctx, uint32_t session);
    /* Passes the event of an operator's order to the core; event->now is set by the receiver.
     * Returns the result of rdzv_step(). */
    int (*order)(void *ctx, const struct rdzv_event *event);
};

struct counters;

struct sessions_config {
    struct event_base *base;
    struct handshake_server *handshake; /* borrowed */
    struct handshake_params params;     /* handshake parameters of this server */
    const struct rdzv *rdzv;            /* read by status queries; borrowed */
    struct writer *writer;              /* for ledger queries and backups; borrowed */
    const char *backup_dir;             /* borrowed */
    struct keys *keys;                  /* borrowed; a session ends when its token does */
    struct deny_list *bans;             /* borrowed */
    struct events *events;              /* borrowed, as are series and reports */
    struct series *series;
    struct reports *reports;
    struct pool *pool;               /* borrowed */
    uint32_t max_sessions;           /* maximum number of agents */
    uint32_t max_connections;        /* maximum number of connections, by available descriptors */
    const struct addresses *allowed; /* addresses that agents may announce; borrowed */
    uint32_t half_open_per_address;
    struct counters *gauges; /* counters for metrics; borrowed */
    const struct session_ops *ops;
    void *ops_ctx;
};

/* Returns 0 or TFE_ENOMEM. */
int sessions_new(const struct sessions_config *config, struct sessions **ret) TFE_MUST_CHECK;

/* Closes all sessions without callbacks. NULL is allowed. */
void sessions_free(struct sessions *all);

/* Implements listener_accept_fn; ctx is a struct sessions. */
void sessions_accept(void *ctx, int fd, const struct sockaddr *peer, socklen_t peer_len);

/* Sends msg to an agent. Does nothing if the connection is closing. If memory runs out the session
 * ends, because a peer must not miss a message. */
void sessions_send(struct sessions *all, uint32_t session, const struct tfe_msg *msg);
/* Sends a table at the pace at which the agent reads it. A following START is sent after the
 * table; a STOP of its epoch, or a newer table, cancels the unsent rest. */
void sessions_send_table(struct sessions *all, uint32_t session, struct table_chunks *chunks);

/* Ends a session whose message could not be encoded because memory ran out. */
void sessions_fail(struct sessions *all, uint32_t session);

/* Flushes, then closes. ops->closed is not called: the caller has forgotten the session. */
void sessions_close(struct sessions *all, uint32_t session);

/* Acknowledges ops->closed: the caller no longer uses the session number. */
void sessions_forgotten(struct sessions *all, uint32_t session);

/* Drops what agents reported about a job that is forgotten: a later job of its name starts without
 * metrics, progress and output. */
void sessions_forget_job(struct sessions *all, const char *job);

/* Flushes and closes all sessions; on_empty is called from the loop when the last one is freed, or
 * at once if there is none. Accepts no new connections and calls no ops from here on. */
void sessions_stop(struct sessions *all, void (*on_empty)(void *ctx), void *ctx);

#endif
