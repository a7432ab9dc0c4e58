/* server/core/wait.h: what is not training waits for something: a sentence for people. */
#ifndef TFE_SERVER_CORE_WAIT_H
#define TFE_SERVER_CORE_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/msg.h"

/* With a label inside. */
#define WAIT_WORDS_MAX 384

/* What a job waits for, as it was told last: ten thousand nodes ask for the same. Written by
 * wait.c. */
struct wait {
    struct tfe_mono fresh_until;
    struct tfe_mono until;      /* NEVER: not known */
    char words[WAIT_WORDS_MAX]; /* "" for nothing */
};

struct job;
struct node;
struct rdzv;

/* What the node, or (NULL) the job waits for. False: for nothing, or nobody could say. *ret_ms: by
 * then at the latest it does so no more; 0: not known. O(1). */
bool wait_describe(const struct rdzv *r, const struct job *job, const struct node *node,
                   char ret[MSG_SENTENCE_MAX], uint32_t *ret_ms);

/* The same in words that live until the job changes; NULL: for nothing. */
const char *wait_words(struct rdzv *r, const struct node *node, uint32_t *ret_ms);

/* Why its epoch ends, where that is more than a cause and a name: who was lost, and what comes
 * then. NULL: it is not. In words that live until the next step. */
const char *wait_why_switch(struct rdzv *r, struct job *job);

/* Something of the job has changed. */
void wait_forget(struct job *job);

/* How long it has been waiting for what wait_describe says of the job; 0: not known. */
uint32_t wait_for_ms(const struct rdzv *r, const struct job *job);

#endif
