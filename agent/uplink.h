/* agent/uplink.h: the agent's connection to the server. */
#ifndef TFE_AGENT_UPLINK_H
#define TFE_AGENT_UPLINK_H

#include "agent/core/agent.h"
#include "common/channel/enrollment.h"
#include "common/channel/join.h"

struct event_base;
struct log_serve;
struct uplink;

/* Takes an event for the core, from the loop; what it points to is borrowed for the call. */
typedef void uplink_event_fn(void *ctx, const struct agent_event *event);

/* info and address_host ("": the connection's local address) are borrowed. state_dir: where the
 * agent's own key is kept, "" the usual directory; NULL: in memory only. */
struct uplink *uplink_new(struct event_base *base, const struct join_info *info,
                          const char *state_dir, const char *address_host,
                          uplink_event_fn *on_event, void *ctx);
void uplink_free(struct uplink *u);

/* The agent's own key as a text (enrolment_text), "" if it has none. The caller wipes it. */
void uplink_key(struct uplink *u, char ret[ENROLMENT_TEXT_MAX]);

/* Whether the server, as last connected to, is on this machine's loopback: the job may be too. */
bool uplink_is_loopback(const struct uplink *u);

void uplink_connect(struct uplink *u);
/* Sends what is queued, then closes. */
void uplink_finish(struct uplink *u);
/* Closes at once. Both end in DISCONNECTED. */
void uplink_hang_up(struct uplink *u);
/* A message that cannot be sent ends the connection. */
void uplink_send(struct uplink *u, const struct tfe_msg *msg);
/* The same of what only people look at: where the connection ends by itself it is passed over, so
 * that a goodbye which is on its way still arrives. */
void uplink_offer(struct uplink *u, const struct tfe_msg *msg);

/* From here on, what the server asks of trainers' output goes there; NULL: it is passed over. */
void uplink_serve(struct uplink *u, struct log_serve *serve);
/* Whether the connection takes more of what can wait, so that renewals do not wait behind it; else
 * log_serve_go_on comes. ctx is a struct uplink. */
bool uplink_has_room(void *ctx);

#endif
