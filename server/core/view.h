/* server/core/view.h: text that tells users what a job or node waits for. rdzv.h declares the other
 * views. */
#ifndef TFE_SERVER_CORE_VIEW_H
#define TFE_SERVER_CORE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/msg.h"

struct job;
struct node;
struct rdzv;

/* Maximum length of the text, which may contain a label. */
#define WAIT_TEXT_MAX 384

/* Latest text of what a job waits for, cached because ten thousand nodes ask for the same one.
 * Written by view.c. */
struct wait {
    struct tfe_mono fresh_until;
    struct tfe_mono until;    /* when the wait ends; NEVER if unknown */
    char text[WAIT_TEXT_MAX]; /* the text; "" if the job waits for nothing */
};

/* Writes what the node, or (NULL) the job, waits for. Returns false if it waits for nothing known.
 * Sets *ret_ms to the time after which the wait is over at the latest, or to 0 if unknown. O(1). */
bool wait_describe(const struct rdzv *r, const struct job *job, const struct node *node,
                   char ret[MSG_SENTENCE_MAX], uint32_t *ret_ms);

/* Returns the same text as wait_describe, valid until the job changes; NULL if the node waits for
 * nothing. */
const char *wait_text(struct rdzv *r, const struct node *node, uint32_t *ret_ms);

/* Returns why the job's epoch ends, if there is more to say than a cause and a name: which nodes
 * were lost and what follows. NULL otherwise. Valid until the next step. */
const char *wait_describe_switch(struct rdzv *r, struct job *job);

/* Discards the cached text, because something of the job has changed. */
void wait_forget(struct job *job);

/* Returns how long the job has been waiting for what wait_describe says; 0 if unknown. */
uint32_t wait_for_ms(const struct rdzv *r, const struct job *job);

#endif
