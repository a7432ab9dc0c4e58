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
struct text;

/* Rows of the ledger: of the current epoch, and of the one before, which an action may still point
 * to; and what is known of the one to come. Written by ledger.c. */
struct ledger {
    struct rdzv_ledger v[2];
    char blamed[2][TFE_LABEL_MAX + 1];
    unsigned current; /* of v */
    char next_blamed[TFE_LABEL_MAX + 1];
    char told_blamed[TFE_LABEL_MAX + 1]; /* a STOP may point to it, when next_blamed is gone */
    bool next_planned;
    struct tfe_mono next_detected;
    struct tfe_mono next_stopped;
    /* How far the epoch before has come. */
    bool has_reached;
    uint64_t reached;
};

/* Nothing is known of the epoch to come. */
void ledger_begin_run(struct job *job);
/* The node that the next epoch will owe its beginning to. */
void ledger_blame(struct job *job, const struct node *node);
/* Its label, for a STOP of this step; NULL: nobody is to blame. */
const char *ledger_blamed(struct job *job);
/* Of all members that are gone or out of sight, up to three by name: "m1, m2 and 3 more". Returns
 * how many there are. */
uint32_t ledger_add_lost(struct text *text, const struct job *job);
/* Where the next epoch owes its beginning to more than one such loss it blames all of them. */
void ledger_blame_lost(struct job *job);
/* STOP to the current epoch; detected: when the reason for the next one was seen. */
void ledger_stop(struct rdzv *r, struct job *job, struct tfe_mono detected);
/* Nothing more will be known of the current epoch, ended now if it has not been. */
void ledger_close(struct rdzv *r, struct job *job);
/* A new epoch has been formed. */
void ledger_form(struct rdzv *r, struct job *job);
/* It is durable, and begins. */
void ledger_open(struct rdzv *r, struct job *job);
/* A worker of the current epoch starts again, and nobody else. */
void ledger_count_restart(struct rdzv *r, struct job *job);
/* That has come, of the current epoch. */
void ledger_note(struct rdzv *r, struct job *job, enum tfe_epoch_time what);
/* The current epoch has told where it went on: what it does again of the one before is known now.
 */
void ledger_learn_from(struct rdzv *r, struct job *job, uint64_t step);
/* The epoch has been adopted: nothing is known of its beginning. */
void ledger_begin_row(struct job *job);

#endif
