/* common/channel/enrollment.h: the agent's own key: asked for with a token, kept for the next
 * start, renewed before it ends (PROTOCOL.md, "Handshake"). */
#ifndef TFE_COMMON_CHANNEL_ENROLLMENT_H
#define TFE_COMMON_CHANNEL_ENROLLMENT_H

#include <stdbool.h>

#include "common/channel/token.h"
#include "common/message/msg.h"

/* An agent's key as a text, as its file has it, and where one is handed to an agent that is started
 * with it. It is read once, and hidden then. */
#define ENROLMENT_TEXT_MAX 1024
#define ENROLMENT_VARIABLE "TFE_AGENT_KEY"

struct event_base;
struct enrolment;

/* token: what opens sessions as long as there is no key; borrowed. state_dir: where the key is
 * kept; of two agents the first has it there. NULL: in memory only. due: it is time to ask. */
struct enrolment *enrolment_new(struct event_base *base, const struct token *token,
                                const char *state_dir, void (*due)(void *ctx), void *ctx);
/* Wipes. NULL is allowed. */
void enrolment_free(struct enrolment *e);

/* What to open the next session with; until the next call of something here. */
const struct token *enrolment_token(const struct enrolment *e);

/* The key as a text, for another agent of this machine; its length, 0 and "": there is none. The
 * caller wipes it. */
size_t enrolment_text(struct enrolment *e, char ret[ENROLMENT_TEXT_MAX]);

/* A session was opened: due comes when it is time. */
void enrolment_begin(struct enrolment *e);

/* The question for a new key; until the next call of something here. */
struct tfe_msg enrolment_ask(struct enrolment *e);

/* The answer. What is wrong with it is logged: sessions go on by what they were opened with. */
void enrolment_take(struct enrolment *e, const struct msg_enrolled *enrolled);

/* The server does not know what enrolment_token gave. True: that was the key, which is gone; there
 * is the token to try. */
bool enrolment_is_refused(struct enrolment *e);

#endif
