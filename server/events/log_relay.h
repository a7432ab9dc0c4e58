/* server/events/log_relay.h: trainers' output on its way from agents to whoever asks. Nothing of it
 * is kept but the tails of ends.
 *
 *   LOGS ──► rows_logs: an ask ──LOG_ASK──► agents
 *   response_stream.h ◄── rows_next ── what has come ◄──LOG_CHUNK── … as far as their window goes
 *            ──── what was pulled is given back ──LOG_CREDIT──►
 *
 * An asker that does not read pulls no rows, so its agents get no credit and stop: what they have
 * no room for they count, and tell as lost. */
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

/* all outlives it. TFE_ENOMEM. */
int log_relay_new(struct sessions *all, struct log_relay **ret) TFE_MUST_CHECK;

/* Every source is freed. NULL is allowed. */
void log_relay_free(struct log_relay *r);

/* The source of an answer to LOGS, of a job that `by` may see: LOG_LINES …, STATUS_END, or REFUSED.
 * TFE_ENOMEM. */
int rows_logs(struct log_relay *r, const struct principal *by, const struct msg_logs *wish,
              struct rows **ret) TFE_MUST_CHECK;

/* A message of an agent's session. True: it was a piece of an answer that is waited for. */
bool log_relay_take(struct log_relay *r, uint32_t session, const struct tfe_msg *msg);

/* An agent's trainers have ended: their last lines, if they failed. Before the core knows. */
void log_relay_exited(struct log_relay *r, uint32_t session, const struct msg_exited *exited);

/* An agent is there, or is about to start an epoch: those who follow its job hear of it, too. */
void log_relay_came(struct log_relay *r, uint32_t session);

/* A session is no more; SESSION_NO_NUMBER: nobody's. */
void log_relay_left(struct log_relay *r, uint32_t session);

#endif
