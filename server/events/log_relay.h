/* server/events/log_relay.h: relays trainers' output from agents to clients. Stores nothing except
 * the last lines of failed trainers.
 *
 *   LOGS ──► rows_logs: a request ──LOG_REQUEST──► agents
 *   response_stream.h ◄── rows_next ── queued rows ◄──LOG_CHUNK── agents, within their credit
 *            ──── credit of consumed rows ──LOG_CREDIT──►
 *
 * A client that does not read consumes no rows, so its agents get no credit and stop sending: they
 * count the lines that they cannot hold and report them as lost. */
#ifndef TFE_SERVER_EVENTS_LOG_RELAY_H
#define TFE_SERVER_EVENTS_LOG_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/message/msg.h"

struct log_relay;
struct principal;
struct rows;
struct sessions;

/* Makes a relay. all must outlive it. Returns 0 or TFE_ENOMEM. */
int log_relay_new(struct sessions *all, struct log_relay **ret) TFE_MUST_CHECK;

/* Frees what is stored of the output of a job that is forgotten. */
void log_relay_forget(struct log_relay *r, const char *job);

/* Frees the relay. Precondition: all record sources were freed. NULL is allowed. */
void log_relay_free(struct log_relay *r);

/* Makes the record source that answers LOGS about a job that `by` may see: LOG_LINES, then
 * STATUS_END or REFUSED. Returns 0 or TFE_ENOMEM. */
int rows_logs(struct log_relay *r, const struct principal *by, const struct msg_logs *request,
              struct rows **ret) TFE_MUST_CHECK;

/* Handles a message of an agent's session. Returns true if it was requested output. */
bool log_relay_handle(struct log_relay *r, uint32_t session, const struct tfe_msg *msg);

/* Stores the last lines of trainers that failed. Call before the core handles EXITED. */
void log_relay_exited(struct log_relay *r, uint32_t session, const struct msg_exited *exited);

/* Adds an agent that has connected or is about to start an epoch to the requests that follow its
 * job. */
void log_relay_agent_joined(struct log_relay *r, uint32_t session);

/* Removes a session that has ended; ignores SESSION_NO_NUMBER. */
void log_relay_agent_left(struct log_relay *r, uint32_t session);

#endif
