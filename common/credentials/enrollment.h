/* common/credentials/enrollment.h: the agent's own key: requested with a token, stored for the next
 * start, and renewed before it expires (PROTOCOL.md, "Handshake"). */
#ifndef TFE_COMMON_CREDENTIALS_ENROLLMENT_H
#define TFE_COMMON_CREDENTIALS_ENROLLMENT_H

#include <stdbool.h>

#include "common/handshake/token.h"
#include "common/message/msg.h"

/* Maximum size of an agent's key as text (in its file or the environment), and the variable that
 * passes the key to a child agent, which reads the variable once and then hides it. */
#define ENROLLMENT_TEXT_MAX 1024
#define ENROLLMENT_VARIABLE "TFE_AGENT_KEY"

struct event_base;
struct enrollment;

/* Makes an enrollment. token, borrowed, opens sessions until there is a key. The key is stored in
 * state_dir (by the first agent of a machine only), or in memory if state_dir is NULL. due() is
 * called when it is time to request a key. */
struct enrollment *enrollment_new(struct event_base *base, const struct token *token,
                                  const char *state_dir, void (*due)(void *ctx), void *ctx);
/* Wipes the key and frees. NULL is allowed. */
void enrollment_free(struct enrollment *e);

/* Returns the key or token for the next session, valid until the next call of this module. */
const struct token *enrollment_token(const struct enrollment *e);

/* Writes the key as text, for another agent of this machine, and returns its length; 0 and "" if
 * there is no key. The caller wipes it. */
size_t enrollment_text(struct enrollment *e, char ret[ENROLLMENT_TEXT_MAX]);

/* Schedules due(); called when a session was opened. */
void enrollment_schedule(struct enrollment *e);

/* Returns the request for a new key, valid until the next call of this module. */
struct tfe_msg enrollment_request(struct enrollment *e);

/* Stores the key from the server's answer. Logs an invalid answer; sessions then continue with the
 * old credentials. */
void enrollment_handle_answer(struct enrollment *e, const struct msg_enrolled *enrolled);

/* Handles the server's rejection of enrollment_token. Returns true if that was the key, which is
 * dropped, so that the token remains to be tried. */
bool enrollment_is_refused(struct enrollment *e);

#endif
