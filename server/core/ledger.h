/* server/core/ledger.h: the rows of the ledger: why an epoch began, what each phase cost, why it
 * ended. */
#ifndef TFE_SERVER_CORE_LEDGER_H
#define TFE_SERVER_CORE_LEDGER_H

#include <stdbool.h>

#include "common/base/id.h"
#include "common/base/time.h"
#include "server/core/rdzv.h"

struct job;
struct node;
struct rdzv;

/* Rows of the ledger: of the current epoch, and of the one before, which an action may still point
 * to; and what is known of the one to come. */
struct ledger {
    struct rdzv_ledger v[2];
    char blamed[2][TFE_LABEL_MAX + 1];
    unsigned current; /* of v */
    char next_blamed[TFE_LABEL_MAX + 1];
    bool next_planned;
    struct tfe_mono next_detected;
    struct tfe_mono next_stopped;
};

/* Nothing is known of the epoch to come. */
void ledger_begin_run(struct job *job);
/* The node that the next epoch will owe its beginning to, unless another one has been named. */
void ledger_blame(struct job *job, const struct node *node);
/* STOP to the current epoch. */
void ledger_stop(struct rdzv *r, struct job *job);
/* Nothing more will be known of the current epoch, ended now if it has not been. */
void ledger_close(struct rdzv *r, struct job *job);
/* A new epoch has been formed. */
void ledger_form(struct rdzv *r, struct job *job);
void ledger_open(struct rdzv *r, struct job *job);
/* All of its members listen. */
void ledger_listening(struct rdzv *r, struct job *job);
void ledger_progressed(struct rdzv *r, struct job *job);
void ledger_adopt(struct job *job);

#endif
