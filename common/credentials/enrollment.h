/* common/credentials/enrollment.h: the agent's own key: requested with a token, stored for the next
 * start, and renewed before it expires (PROTOCOL.md, "Handshake"). */
#ifndef TFE_COMMON_CREDENTIALS_ENROLLMENT_H
#define TFE_COMMON_CREDENTIALS_ENROLLMENT_H

#include <stdbool.h>

#include "common/handshake/token.h"
#include "common/message/msg.h"

/* Maximum size of an agent's key as text (in its file or the environment), and the variable that
 * passes the key to a child agent, which reads the variable once and then hides it. */
#define ENROLMENT_TEXT_MAX 1024
#define ENROLMENT_VARIABLE "TFE_AGENT_KEY"

struct event_base;
struct enrolment;

/* Makes an enrollment. token, borrowed, opens sessions until there is a key. The key is stored in
 * state_dir (by the first agent of a machine only), or in memory if state_dir is NULL. due() is
 * called when it is time to request a key. */
struct enrolment *enrolment_new(struct event_base *base, const struct token *token,
                                const char *state_dir, void (*due)(void *ctx), void *ctx);
/* Wipes the key and frees. NULL is allowed. */
void enrolment_free(struct enrolment *e);

/* Returns the key or token for the next session, valid until the next call of this module. */
const struct token *enrolment_token(const struct enrolment *e);

/* Writes the key as text, for another agent of this machine, and returns its length; 0 and "" if
 * there is no key. The caller wipes it. */
size_t enrolment_text(struct enrolment *e, char ret[ENROLMENT_TEXT_MAX]);

/* Schedules due(); called when a session was opened. */
void enrolment_begin(struct enrolment *e);

/* Returns the request for a new key, valid until the next call of this module. */
struct tfe_msg enrolment_ask(struct enrolment *e);

/* Stores the key from the server's answer. Logs an invalid answer; sessions then continue with the
 * old credentials. */
void enrolment_take(struct enrolment *e, const struct msg_enrolled *enrolled);

/* Handles the server's rejection of enrollment_token. Returns true if that was the key, which is
 * dropped, so that the token remains to be tried. */
bool enrolment_is_refused(struct enrolment *e);

#endif
