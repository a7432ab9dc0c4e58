/* agent/messages.h: what an agent says besides its events: what it waits for, why it was stopped.
 */
#ifndef TFE_AGENT_MESSAGES_H
#define TFE_AGENT_MESSAGES_H

#include "common/base/time.h"
#include "common/message/msg.h"

/* What was said last of what is waited for. Zeroed: nothing. */
struct waiting {
    char said[MSG_SENTENCE_MAX];
    struct tfe_mono again_at;
    uint32_t pause_ms;
};

/* Logs it if it is news, else again after 10 s, 20 s … 5 min. since_ms, up_to_ms: how long it has
 * lasted, and may yet; 0: not known. */
void waiting_say(struct waiting *w, const char *sentence, uint32_t since_ms, uint32_t up_to_ms);
/* Nothing is waited for any more. */
void waiting_end(struct waiting *w);

/* What of a job's end is to be said where those last lines of a trainer have been shown: not the
 * same again. */
void end_words(const char *sentence, const char *shown, char ret[MSG_SENTENCE_MAX]);

/* Why the server stops an epoch, and who is to blame: for logs. */
void stop_words(const struct msg_stop *stop, char ret[MSG_SENTENCE_MAX]);

#endif
