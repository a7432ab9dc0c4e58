/* server/session.h: the inside of sessions, for session.c (one of them) and sessions.c (all of
 * them).
 *
 *   HANDSHAKE ──first frame──► OPEN ──refused, closed, stopping──► LEAVING
 *       └──────────────────────┴──── the channel's end ──────────────┴────► gone
 *
 * An agent's session has a number, by which the core knows it. The number is used again when both
 * the channel is gone and the core has been told (or has closed the session itself). */
#ifndef TFE_SERVER_SESSION_H
#define TFE_SERVER_SESSION_H

#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/base/msg.h"
#include "common/wire/token.h"
#include "server/half_open.h"
#include "server/history.h"
#include "server/peer.h"
#include "server/sessions.h"
#include "server/status.h"
#include "server/table_stream.h"
#include "server/throttle.h"

struct channel;

#define SESSION_NO_NUMBER UINT32_MAX

enum session_phase { SESSION_HANDSHAKE, SESSION_OPEN, SESSION_LEAVING };

struct session {
    /* What a message looks at comes first (as in the core's nodes). */
    struct sessions *all;
    struct channel *channel;    /* NULL: gone */
    struct table_stream *table; /* a table that has not been said to its end */
    uint32_t number;            /* agents */
    enum session_phase phase;
    enum token_role role;
    bool known; /* the core holds this number */
    bool busy;  /* in a callback of its own: not to be freed */

    struct half_open_address *place; /* while in the handshake */
    struct status_stream *stream;    /* an answer that is still being produced */
    struct history *history;         /* the same, from the store */
    struct event silent;             /* while the peer owes us a message */
    TAILQ_ENTRY(session) link;
    struct peer peer;
};
TAILQ_HEAD(session_list, session);

struct sessions {
    struct event_base *base;
    struct hello_server *hello;
    struct hello_facts facts;
    const struct rdzv *rdzv;
    struct writer *writer;
    const struct session_ops *ops;
    void *ops_ctx;
    struct half_open *half_open;
    struct table_gate tables;
    struct listener *listener;
    struct session_list list;
    struct session **by_number;
    uint32_t *free_numbers; /* a stack: the last one given back is the next one used */
    uint32_t n_free;
    uint32_t n_fresh; /* numbers from here on were never used */
    uint32_t max;
    uint32_t n_queries;
    bool stopping;
    struct event empty; /* activated when the last session of a stopping server goes */
    void (*on_empty)(void *ctx);
    void *on_empty_ctx;
    struct throttle refusals; /* what peers may not do */
    struct throttle ends;     /* connections that end by the peer's fault */
};

/* An admitted connection becomes a session in its handshake; owns fd. half_open_admit_fn; ctx is a
 * struct sessions. */
void session_begin(void *ctx, int fd, const struct peer *peer, struct half_open_address *place);

/* Flushes what was sent, then closes; the session does nothing more. */
void session_finish(struct session *s);

/* Ends it without a word. Frees s, unless the core has still to be told of it. */
void session_cut(struct session *s);

/* Frees s if nothing holds it any more: neither channel nor core nor a callback of its own. */
void session_release(struct session *s);

/* Gives an agent's session its number. False: all are in use. */
bool sessions_take_number(struct sessions *all, struct session *s);

/* s is about to be freed. */
void sessions_remove(struct sessions *all, struct session *s);

#endif
