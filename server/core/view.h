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

/* What a job waits for, as its nodes are informed. Written by view.c. */
struct wait {
    /* Number of the last change of the job that may have changed a text. A node that has received
     * the text of this number gets none with its renewals. */
    uint64_t number;
    bool is_due; /* the job has changed since: the next renewal takes a new number */
    struct tfe_mono
        fresh_until;          /* while an epoch runs: the text changes with time alone after this */
    struct tfe_mono until;    /* when the wait ends; NEVER if unknown */
    char text[WAIT_TEXT_MAX]; /* the text, the same for all nodes while no epoch runs; "" if none */
};

/* Sets waits, waits_ms and no_wait if what the node waits for may have changed since the last
 * RENEWED or WELCOME on its present connection. The text is valid until the next step. */
void wait_report(struct rdzv *r, struct node *node, struct msg_renewed *ret);

/* Returns why the job's epoch ends, if there is more to say than a cause and a name: which nodes
 * were lost and what follows. NULL otherwise. Valid until the next step. */
const char *wait_describe_switch(struct rdzv *r, struct job *job);

/* Discards the cached texts of the job after a change. */
static inline void wait_change(struct wait *wait)
{
    wait->is_due = true;
}

#endif
