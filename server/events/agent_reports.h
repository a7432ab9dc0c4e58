/* server/events/agent_reports.h: reports of agents that are for display and not for the core:
 * machine info, statistics, metrics of scripts. Computes throughput and stragglers, and raises
 * events. */
#ifndef TFE_SERVER_EVENTS_AGENT_REPORTS_H
#define TFE_SERVER_EVENTS_AGENT_REPORTS_H

#include "common/message/msg.h"
#include "server/core/rdzv.h"
#include "server/events/event_log.h"
#include "server/events/series.h"

struct reports;
/* Reports of one session; NULL if it has sent none. */
struct report;

/* Makes an empty set. The arguments must outlive it. Returns 0 or TFE_ENOMEM. */
int reports_new(const struct rdzv *core, struct events *events, struct series *series,
                struct reports **ret) TFE_MUST_CHECK;
/* Frees the set. Precondition: the reports of all sessions were dropped. NULL is allowed. */
void reports_free(struct reports *all);

/* True for messages that only this module handles, not the core. */
static inline bool reports_is_only_handler(enum tfe_msg_type type)
{
    return type == MSG_MACHINE_STATS || type == MSG_METRICS || type == MSG_ARTIFACT;
}

/* Handles a message of a session whose node the core knows: those of reports_is_only_handler,
 * FACTS, PROGRESS and NOTICE (after the core has handled them); ignores others. *at belongs to the
 * session. Drops data if out of memory. */
void reports_handle(struct reports *all, uint32_t session, struct report **at,
                    const struct tfe_msg *msg);
/* Drops the reports of a session that ends; sets *at to NULL. */
void reports_drop(struct reports *all, struct report **at);

/* Forgets the progress of a job. Without it, the last known progress of a job that is suspended or
 * over stays. */
void reports_forget(struct reports *all, const char *job);

/* Adds reported values to a job's row of STATUS. Texts are borrowed until the loop's next
 * iteration. */
void reports_show_job(const struct reports *all, struct msg_status_job *row);
/* Adds reported values to a node's row of STATUS. at may be NULL. */
void reports_show_node(const struct report *at, struct msg_status_node *row);

#endif
