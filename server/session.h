/* server/session.h: internals of sessions, shared by session.c (one session), session_query.c
 * (queries and orders), agent_keys.c (agents' own keys), session_end.c and session_token.c
 * (how a session ends), and sessions.c (all sessions).
 *
 *   HANDSHAKE ──first frame──► OPEN ──refused, closed, stopping──► LEAVING
 *       └──────────────────────┴──── the channel is closed ──────────┴────► freed
 *
 * The session of an agent has a number, by which the core knows it. The number is reused when the
 * channel is closed and the core has been notified (or has closed the session itself). */
#ifndef TFE_SERVER_SESSION_H
#define TFE_SERVER_SESSION_H

#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/base/rate.h"
#include "common/channel/admission.h"
#include "common/channel/peer.h"
#include "common/cli/log_throttle.h"
#include "common/message/msg.h"
#include "common/message/principal.h"
#include "server/auth/deny_list.h"
#include "server/auth/keys.h"
#include "server/events/agent_reports.h"
#include "server/events/log_relay.h"
#include "server/jobs/pool.h"
#include "server/query/response_stream.h"
#include "server/sessions.h"
#include "server/table_stream.h"

struct channel;

#define SESSION_NO_NUMBER UINT32_MAX

enum session_phase { SESSION_HANDSHAKE, SESSION_OPEN, SESSION_LEAVING };

/* An order that has not been acknowledged yet. */
struct session_order {
    enum tfe_msg_type type;
    char about[MSG_AUDIT_ABOUT_MAX];
    struct tfe_id job; /* job of the order or of its node; "" if none or unknown */
};

struct session {
    /* Fields that every message reads come first, to share cache lines. */
    struct sessions *all;
    struct channel *channel;    /* NULL once the connection is closed */
    struct table_stream *table; /* table that is being sent; NULL if none */
    uint32_t number;            /* agents only; SESSION_NO_NUMBER otherwise */
    enum session_phase phase;
    const struct principal
        *by; /* principal of the session; valid from SESSION_OPEN until the channel is freed */
    struct pool_node *pooled; /* the pool node of this session; NULL if it is not a pool session */
    bool known;               /* true while the core holds the session number */
    bool busy;                /* true while a callback of the session runs: it must not be freed */
    bool idles;               /* true while the session is in sessions.idle */

    struct rate message_rate;              /* rate limit of messages other than renewals */
    struct admission_slot unauthenticated; /* place among unauthenticated connections */
    struct admission_slot operator_slot;   /* place among sessions of observers and admins */
    struct response *response;             /* response that is being sent; NULL if none */
    struct session_order *order;           /* order that is not acknowledged yet; NULL if none */
    struct report *report; /* what the agent has reported about its machine; NULL if nothing */
    TAILQ_ENTRY(session) link, idle_link;
    struct peer peer;
};
TAILQ_HEAD(session_list, session);

struct sessions {
    struct event_base *base;
    struct handshake_server *handshake;
    struct handshake_params params;
    const struct rdzv *rdzv;
    struct writer *writer;
    const char *backup_dir;
    const struct addresses *allowed;
    struct keys *keys;
    struct deny_list *bans;
    struct log_relay *logs;
    struct events *events;
    struct series *series;
    struct reports *reports;
    struct pool *pool;
    struct event token_check;       /* timer: a token in use expires or has expired */
    struct tfe_wall token_check_at; /* time of the next check; ms is 0 if no token in use expires */
    const struct session_ops *ops;
    void *ops_ctx;
    struct admission *unauthenticated; /* unauthenticated connections, by source */
    struct admission *operators;       /* sessions of observers and admins, by token and scope */
    struct batch batch;
    struct session_list list;
    /* Sessions with a token but without a JOIN, and sessions that are closing. If descriptors run
     * short, the one that has been here longest is closed. */
    struct session_list idle;
    uint32_t n;     /* sessions in the list */
    uint32_t n_max; /* maximum that descriptors allow */
    struct session **by_number;
    uint32_t *free_numbers; /* stack: the number released last is reused first */
    uint32_t n_free;
    uint32_t n_fresh; /* numbers from this one on have never been used */
    uint32_t max;
    struct counters *gauges;
    bool stopping;
    struct event empty; /* activated when a stopping server frees its last session */
    void (*on_empty)(void *ctx);
    void *on_empty_ctx;
    struct throttle *refusals; /* rate of log lines about refused requests */
    struct throttle *ends; /* rate of log lines about connections that end by the peer's fault */
    struct throttle *enrollments; /* rate of enrollments per address */
    struct throttle *orders;      /* rate of orders per token; each order is an audit row */
    struct rate audit_rate;       /* rate of audit rows about unauthenticated peers */
};

/* Creates a session for an accepted connection and starts its handshake. Takes ownership of fd.
 * Returns NULL (fd is closed) if out of memory. */
struct session *session_begin(struct sessions *all, int fd, const struct peer *peer);

/* Ends s to free its place, unless it has authenticated meanwhile. */
void session_yield(struct session *s);

/* Flushes pending data, then closes. The session handles nothing more. */
void session_finish(struct session *s);

/* Sends REFUSED with the sentence because the token is not valid (any more), then acts as
 * session_finish(). */
void session_dismiss(struct session *s, const char *sentence);

/* Sends msg if the session is open. If memory runs out the session ends, because its peer must not
 * miss a message. */
void session_send(struct session *s, const struct tfe_msg *msg);

/* Sends REFUSED; the session stays open. */
void session_refuse(struct session *s, enum tfe_refusal code, const char *sentence);

/* Writes an audit row about an action of s or its refusal. */
void session_audit(const struct session *s, const char *what, const char *about,
                   const char *result);

/* Writes the audit row and event of the order of s (ctx). last is the response; NULL if there will
 * be none. */
void session_order_done(void *ctx, const struct tfe_msg *last);

/* Handles ENROL: an agent requests a key of its own. */
void session_enroll(struct session *s, const struct msg_enrol *enrol);

/* Lists the agents that have a session, of jobs that `by` may see: AGENT_ROW …, STATUS_END. Both
 * arguments outlive the source. Returns 0 or TFE_ENOMEM. */
int rows_agents(const struct sessions *all, const struct principal *by,
                struct rows **ret) TFE_MUST_CHECK;

/* As session_drop(), for callers that call session_release() themselves. */
void session_disconnect(struct session *s);

/* Closes the connection at once. Frees s, unless the core must still be notified. */
void session_drop(struct session *s);

/* Adds s to, or removes it from, the sessions that are closed first when descriptors run short. */
void session_idle(struct session *s, bool idles);

/* Frees s if neither a channel, the core nor a running callback holds it. */
void session_release(struct session *s);

/* Handles a message of an observer or admin. The caller calls session_release(). */
void session_query(struct session *s, const struct tfe_msg *msg);

/* Ends s if its token is not valid any more; returns false then. */
bool session_check_token(struct session *s, struct tfe_wall now);

/* Start and stop checking open sessions when tokens expire. */
void sessions_check_init(struct sessions *all);
void sessions_check_done(struct sessions *all);

/* Number of connections that are authenticated, or counted as such. */
static inline uint32_t sessions_shown(const struct sessions *all)
{
    return all->n - admission_count(all->unauthenticated);
}

#endif
