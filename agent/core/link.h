/* agent/core/link.h: the connection to the server and the lease that it renews. */
#ifndef TFE_AGENT_CORE_LINK_H
#define TFE_AGENT_CORE_LINK_H

#include "agent/core/turn.h"

/* Renewals under way whose sending time is remembered: with ttl/3 between two, more are not
 * answered within a lease. */
#define RENEWALS_MAX 8

/* The connection:  DOWN --CONNECT--> CONNECTING --> JOINING --WELCOME--> UP --> DOWN */
enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_JOINING, LINK_UP };

struct link {
    enum link_state state;
    bool token_worked; /* in this process */
    bool ever_up;
    uint32_t unauthorised; /* tries in a row */
    struct tfe_mono since; /* of the first try in a row that did not succeed */
    struct tfe_mono say_next;
    struct tfe_mono retry_at;
    uint32_t backoff_ms;
    uint32_t spread_ms;
    uint32_t ttl_ms;
    uint32_t renew_ms;
    struct tfe_mono renew_at;
    struct tfe_mono join_sent;
    uint64_t renewals; /* number of the last RENEW on this connection */
    struct tfe_mono renew_sent[RENEWALS_MAX];
    struct tfe_mono granted;       /* sending of what was answered last: fences count from it */
    struct tfe_mono lease_end;     /* on the agent's own clock */
    struct tfe_mono silent_at;     /* JOINING, UP: nothing was answered, try another connection */
    char reason[MSG_SENTENCE_MAX]; /* the last try failed */
    bool is_refused;               /* the server has said why, before it closes */
    bool was_refused;              /* … of the last try that ended */
};

void link_begin(struct link *l, struct turn *t);
void link_connected(struct link *l);

/* Says JOIN; of_work is the half of it that tells of epochs (work_join). */
void link_join(struct link *l, struct turn *t, const struct msg_join *of_work);

/* False: it answers no JOIN of ours. */
bool link_welcome(struct link *l, struct turn *t, const struct msg_welcome *welcome);
void link_renewed(struct link *l, struct turn *t, const struct msg_renewed *renewed);
void link_lease_ended(struct link *l, const struct turn *t);

/* START tells the fence of its epoch (0: it does not). */
void link_fence(const struct link *l, struct turn *t, uint32_t fence_ms);

/* Tries again later, or leaves: the token is wrong. */
void link_disconnected(struct link *l, struct turn *t, enum agent_link how, const char *reason);
/* The server has no room just now, and says so in its words; told once, however often it says them
 * in a row. */
void link_refused(struct link *l, struct turn *t, const struct msg_refused *refused);

/* There is little time left to find the server again: the tries follow each other as after a first
 * one. */
void link_hurry(struct link *l, struct turn *t);

/* says: what a RENEW carries besides its number. Renews, tries again, hangs up, or leaves: the
 * server was not found in time and nothing runs. */
void link_tick(struct link *l, struct turn *t, const struct msg_renew *says);

/* When the link wants to be ticked. */
struct tfe_mono link_deadline(const struct link *l, const struct turn *t);

/* A JOIN has been said there. */
bool link_is_joined(const struct link *l);
bool link_has_lease(const struct link *l, const struct turn *t);

#endif
