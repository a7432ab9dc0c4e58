/* server/events/agent_reports.h: what agents report for people, and the core does not need:
 * machines, how they do, what scripts tell. Who is slow, how fast a job is, and what is worth an
 * event. */
#ifndef TFE_SERVER_EVENTS_AGENT_REPORTS_H
#define TFE_SERVER_EVENTS_AGENT_REPORTS_H

#include "common/message/msg.h"
#include "server/core/rdzv.h"
#include "server/events/event_log.h"
#include "server/events/series.h"

struct reports;
/* Of one session; NULL: nothing was reported in it. */
struct report;

/* All outlive it. TFE_ENOMEM. */
int reports_new(const struct rdzv *core, struct events *events, struct series *series,
                struct reports **ret) TFE_MUST_CHECK;
/* The reports of sessions are gone already. NULL is allowed. */
void reports_free(struct reports *all);

/* Whether messages of this type are for reports alone, and not for the core. */
static inline bool reports_own(enum tfe_msg_type type)
{
    return type == MSG_VITALS || type == MSG_METRICS;
}

/* Takes in what a session, whose node the core knows, has said: those above, FACTS, PROGRESS and
 * NOTICE (once the core has them), nothing of any other type. *at is the session's. What there is
 * no memory for is not known. */
void reports_take(struct reports *all, uint32_t session, struct report **at,
                  const struct tfe_msg *msg);
/* The session ends; *at becomes NULL. */
void reports_drop(struct reports *all, struct report **at);

/* Adds to a row of STATUS what is known. Texts are borrowed until the next turn of the loop. */
void reports_show_job(const struct reports *all, struct msg_status_job *row);
/* at NULL is allowed. */
void reports_show_node(const struct report *at, struct msg_status_node *row);

#endif
