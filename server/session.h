/* server/session.h: the inside of sessions: session.c (one of them), session_query.c (what it asks
 * and orders), agent_keys.c (agents' own keys), session_end.c, session_judge.c (how it ends, and
 * why), sessions.c (all of them).
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

#include "common/base/log_throttle.h"
#include "common/base/rate.h"
#include "common/channel/admission.h"
#include "common/message/msg.h"
#include "common/message/principal.h"
#include "server/auth/deny_list.h"
#include "server/auth/keys.h"
#include "server/events/agent_reports.h"
#include "server/events/log_relay.h"
#include "server/jobs/pool.h"
#include "server/peer.h"
#include "server/query/response_stream.h"
#include "server/sessions.h"
#include "server/table_stream.h"

struct channel;

#define SESSION_NO_NUMBER UINT32_MAX

enum session_phase { SESSION_HANDSHAKE, SESSION_OPEN, SESSION_LEAVING };

/* One that has not been answered. */
struct session_order {
    enum tfe_msg_type type;
    char about[MSG_AUDIT_ABOUT_MAX];
    struct tfe_id job; /* that it, or its node, is of; "": none, or not known */
};

struct session {
    /* What a message looks at comes first (as in the core's nodes). */
    struct sessions *all;
    struct channel *channel;    /* NULL: gone */
    struct table_stream *table; /* a table that has not been said to its end */
    uint32_t number;            /* agents */
    enum session_phase phase;
    const struct principal *by; /* who speaks; once open, and as long as there is a channel */
    struct pool_node *pooled;   /* it is of a node of the pool; NULL: it is not */
    bool known;                 /* the core holds this number */
    bool busy;                  /* in a callback of its own: not to be freed */
    bool idles;                 /* it is one of idle */

    struct rate said;                 /* messages but renewals */
    struct admission_place half_open; /* until it has shown a token */
    struct admission_place asking;    /* of observers and admins */
    struct answer *answer;            /* to a question, that is still being said; NULL: none */
    struct session_order *order;      /* NULL: none */
    struct report *report;            /* what its agent has reported for people; NULL: nothing */
    TAILQ_ENTRY(session) link, idle_link;
    struct peer peer;
};
TAILQ_HEAD(session_list, session);

struct sessions {
    struct event_base *base;
    struct hello_server *hello;
    struct hello_facts facts;
    const struct rdzv *rdzv;
    struct writer *writer;
    const char *backup_dir;
    const struct addresses *allowed;
    struct keys *keys;
    struct bans *bans;
    struct log_relay *logs;
    struct events *events;
    struct series *series;
    struct reports *reports;
    struct pool *pool;
    struct event judging;      /* when a key ends, or has ended */
    struct tfe_wall judged_by; /* ms 0: no key that ends is in use */
    const struct session_ops *ops;
    void *ops_ctx;
    struct admission *half_open; /* connections without a token, by source */
    struct admission *asking;    /* sessions of observers and admins, by key and scope */
    struct gate gate;
    struct session_list list;
    /* Those that have shown a token but no JOIN, or that end: who has been so longest gives way
     * when descriptors are short. */
    struct session_list idle;
    uint32_t n;     /* in the list */
    uint32_t n_max; /* that descriptors are for */
    struct session **by_number;
    uint32_t *free_numbers; /* a stack: the last one given back is the next one used */
    uint32_t n_free;
    uint32_t n_fresh; /* numbers from here on were never used */
    uint32_t max;
    struct gauges *gauges;
    bool stopping;
    struct event empty; /* activated when the last session of a stopping server goes */
    void (*on_empty)(void *ctx);
    void *on_empty_ctx;
    struct throttle *refusals;   /* what peers may not do */
    struct throttle *ends;       /* connections that end by the peer's fault */
    struct throttle *enrolments; /* of an address */
    struct throttle *orders;     /* of a key: each is a row of the audit */
    struct rate strangers;       /* rows of the audit about them */
};

/* An accepted connection becomes a session in its handshake; owns fd. NULL: no memory, fd is
 * closed. */
struct session *session_begin(struct sessions *all, int fd, const struct peer *peer);

/* Makes room for others: ends s, unless it has shown a token after all. */
void session_give_way(struct session *s);

/* Flushes what was sent, then closes; the session does nothing more. */
void session_finish(struct session *s);

/* Its token is not good (any more): says so, and as session_finish. */
void session_dismiss(struct session *s, const char *sentence);

/* To who is there; what it cannot take for want of memory it must not miss: it ends then. */
void session_say(struct session *s, const struct tfe_msg *msg);

/* Answers REFUSED; the session goes on. */
void session_refuse(struct session *s, enum tfe_refusal code, const char *sentence);

/* Writes down in the audit what s did, or was refused. */
void session_note(const struct session *s, const char *what, const char *about, const char *result);

/* The order that s (ctx) gave has been answered; last NULL: it will not be. */
void session_ordered(void *ctx, const struct tfe_msg *last);

/* An agent asks for a key of its own. */
void session_enrol(struct session *s, const struct msg_enrol *enrol);

/* Agents that have a session, of jobs that `by` may see: AGENT_ROW …, STATUS_END. Both outlive the
 * source. TFE_ENOMEM. */
int rows_agents(const struct sessions *all, const struct principal *by,
                struct rows **ret) TFE_MUST_CHECK;

/* As session_cut, for callers that release it themselves. */
void session_break(struct session *s);

/* Ends it without a word. Frees s, unless the core has still to be told of it. */
void session_cut(struct session *s);

/* Whether it gives way to whoever comes. */
void session_idle(struct session *s, bool idles);

/* Frees s if nothing holds it any more: neither channel nor core nor a callback of its own. */
void session_release(struct session *s);

/* An observer's or admin's message. The caller releases s. */
void session_query(struct session *s, const struct tfe_msg *msg);

/* Ends s if its key is not good any more; false: it has. */
bool session_judge(struct session *s, struct tfe_wall now);

/* Judges all that are open when a key of theirs ends. */
void sessions_judge_init(struct sessions *all);
void sessions_judge_done(struct sessions *all);

/* Connections that have shown a token, or are treated so. */
static inline uint32_t sessions_shown(const struct sessions *all)
{
    return all->n - admission_count(all->half_open);
}

#endif
