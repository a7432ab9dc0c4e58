/* agent/core/link.h: the connection to the server and the lease that renewals extend. Used for a
 * job's agent and for a pool node (agent/pool/member.c). */
#ifndef TFE_AGENT_CORE_LINK_H
#define TFE_AGENT_CORE_LINK_H

#include "agent/core/step_context.h"

/* Number of unanswered RENEWs whose send time is stored. Renewals are sent every TTL / 3, so a
 * lease expires before more are outstanding. */
#define RENEWALS_MAX 8

/* Transitions: DOWN --CONNECT--> CONNECTING --> JOINING --WELCOME--> UP --> DOWN */
enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_JOINING, LINK_UP };

struct link {
    enum link_state state;
    bool token_worked; /* a handshake with the token has succeeded in this process */
    bool ever_up;
    /* consecutive connections that the server closed during the handshake */
    uint32_t n_unauthorised;
    struct tfe_mono unreachable_since; /* start of the current period without a server */
    struct tfe_mono log_at;
    struct tfe_mono retry_at;
    uint32_t backoff_ms;
    uint32_t spread_ms;
    uint32_t ttl_ms;
    uint32_t renew_ms;
    struct tfe_mono renew_at;
    struct tfe_mono join_sent;
    uint64_t renewals; /* number of the last RENEW sent on this connection */
    struct tfe_mono renew_sent[RENEWALS_MAX];
    /* send time of the last answered request; fences are measured from it */
    struct tfe_mono granted;
    struct tfe_mono lease_end; /* end of the lease on the agent's clock */
    /* JOINING, UP: replace the connection if no response has arrived by then */
    struct tfe_mono response_due;
    char reason[MSG_SENTENCE_MAX]; /* why the last connection attempt failed */
    bool is_refused;               /* the server sent REFUSED on the current connection */
    bool was_refused;              /* the server sent REFUSED on the previous connection */
};

void link_begin(struct link *l, struct step_context *t);
void link_connected(struct link *l);

/* Records that JOIN or POOL is sent, which WELCOME answers. */
void link_join(struct link *l, struct step_context *t);
/* Returns true if the server has accepted this node before. */
bool link_was_up(const struct link *l);

/* Returns false if no JOIN is outstanding. */
bool link_welcome(struct link *l, struct step_context *t, const struct msg_welcome *welcome);
void link_renewed(struct link *l, struct step_context *t, const struct msg_renewed *renewed);
void link_lease_ended(struct link *l, const struct step_context *t);

/* Sets the guard's fence for the epoch in START; 0 leaves the fence unchanged. */
void link_fence(const struct link *l, struct step_context *t, uint32_t fence_ms);

/* Schedules the next attempt, or leaves if the token has proved to be invalid. */
void link_disconnected(struct link *l, struct step_context *t, enum agent_link how,
                       const char *reason);
/* Records that the server has no capacity. Consecutive refusals with the same text are logged
 * once. */
void link_refused(struct link *l, struct step_context *t, const struct msg_refused *refused);

/* Defers the next attempt until link_retry_soon(). Precondition: disconnected. */
void link_hold(struct link *l);
/* Shortens the backoff to its first value, because little time is left to find the server, or
 * because the reason for a refusal is gone. */
void link_retry_soon(struct link *l, struct step_context *t);

/* Renews the lease, reconnects, closes an unresponsive connection, or leaves if --join-timeout has
 * passed while nothing runs. fields are those of RENEW except its number. */
void link_tick(struct link *l, struct step_context *t, const struct msg_renew *fields);

/* Returns the time of the next link_tick. */
struct tfe_mono link_deadline(const struct link *l, const struct step_context *t);

/* Returns true if JOIN or POOL has been sent on this connection. */
bool link_is_joined(const struct link *l);
bool link_has_lease(const struct link *l, const struct step_context *t);

#endif
