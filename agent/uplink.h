/* agent/uplink.h: the agent's connection to the server. */
#ifndef TFE_AGENT_UPLINK_H
#define TFE_AGENT_UPLINK_H

#include "agent/core/agent.h"
#include "common/credentials/enrollment.h"
#include "common/credentials/join.h"

struct event_base;
struct log_serve;
struct uplink;

/* Handles an event for the core. Called from the event loop; pointers are borrowed for the call. */
typedef void uplink_event_fn(void *ctx, const struct agent_event *event);

/* Creates a connection object. Borrows info and address_host ("" to use the connection's local
 * address). state_dir is the directory of the agent's own key: "" for the default, NULL to keep
 * the key in memory. */
struct uplink *uplink_new(struct event_base *base, const struct join_info *info,
                          const char *state_dir, const char *address_host,
                          uplink_event_fn *on_event, void *ctx);
void uplink_free(struct uplink *u);

/* Returns the agent's own key as text (enrollment_text), or "" if it has none.
 * The caller wipes it. */
void uplink_key(struct uplink *u, char ret[ENROLLMENT_TEXT_MAX]);

/* Returns true if the last connection to the server used a loopback address; the job may
 * then be local as well. */
bool uplink_is_loopback(const struct uplink *u);

void uplink_connect(struct uplink *u);
/* Closes the connection after sending queued data; ends in DISCONNECTED. */
void uplink_finish(struct uplink *u);
/* Closes the connection at once; ends in DISCONNECTED. */
void uplink_hang_up(struct uplink *u);
/* Sends a message; on failure closes the connection. */
void uplink_send(struct uplink *u, const struct tfe_msg *msg);
/* Sends a message that only operators need. Does nothing while the connection is being closed
 * gracefully, so that a queued GOODBYE still arrives. */
void uplink_offer(struct uplink *u, const struct tfe_msg *msg);

/* Passes requests for trainers' output to serve; NULL to ignore them. */
void uplink_serve(struct uplink *u, struct log_serve *serve);
/* Returns true if the connection accepts more low-priority data, so that renewals are not
 * delayed; otherwise log_serve_resume is called later. ctx is a struct uplink. */
bool uplink_accepts(void *ctx);

#endif
