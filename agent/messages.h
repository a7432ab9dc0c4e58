/* agent/messages.h: builds the agent's log texts about waiting, stopping and the end of a job. */
#ifndef TFE_AGENT_MESSAGES_H
#define TFE_AGENT_MESSAGES_H

#include "common/base/time.h"
#include "common/message/msg.h"

/* State of the log entries about waiting. Zero-initialised: nothing was logged. */
struct waiting {
    char sentence_logged[MSG_SENTENCE_MAX];
    struct tfe_mono log_at;
    uint32_t pause_ms;
    char reason[MSG_SENTENCE_MAX]; /* what the node waits for, by the server; "" if nothing */
    struct tfe_mono until;         /* end of that wait; in the past if unknown */
};

/* Logs what the agent waits for: at once if the sentence changed, otherwise after 10 s, 20 s
 * and so on up to 5 min. since_ms is how long it has waited, up_to_ms how long it may still
 * wait; 0 if unknown. */
void waiting_log(struct waiting *w, const char *sentence, uint32_t since_ms, uint32_t up_to_ms);
/* Applies what RENEWED reports of the node's wait and, unless is_quiet, logs it. */
void waiting_renew(struct waiting *w, const struct msg_renewed *renewed, bool is_quiet);
/* Resets the state when nothing is waited for. */
void waiting_end(struct waiting *w);

/* Builds the sentence about the end of a job. Omits a trainer's last lines if they are the ones
 * that were `shown` on the agent's stderr. */
void end_sentence(const char *sentence, const char *shown, char ret[MSG_SENTENCE_MAX]);

/* Builds the log text about why the server stops an epoch and which node caused it. */
void stop_sentence(const struct msg_stop *stop, char ret[MSG_SENTENCE_MAX]);

#endif
