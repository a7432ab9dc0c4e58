/* server/core/ledger.h: rows of the ledger: why an epoch began, how long each phase took, why it
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

/* Ledger rows of the current epoch and of the one before (to which an action may still point), and
 * what is known of the next one. Written by ledger.c. */
struct ledger {
    struct rdzv_ledger v[2];
    char blamed[2][TFE_LABEL_MAX + 1];
    unsigned current; /* index in v of the current epoch's row */
    char next_blamed[TFE_LABEL_MAX + 1];
    /* copy of next_blamed to which a STOP points after next_blamed has been cleared */
    char sent_blamed[TFE_LABEL_MAX + 1];
    bool next_planned;
    struct tfe_mono next_detected;
    struct tfe_mono next_stopped;
    /* The last step of the previous epoch, if known. */
    bool has_reached;
    uint64_t reached;
};

/* Clears what is known of the next epoch. */
void ledger_begin_run(struct job *job);
/* Sets the node that is the reason for the next epoch. */
void ledger_blame(struct job *job, const struct node *node);
/* Returns the label of the node that is the reason for the next epoch, for a STOP of this step;
 * NULL if none is. */
const char *ledger_blamed(struct job *job);
/* Appends up to three names of members that are gone or disconnected: "m1, m2 and 3 more". Returns
 * how many there are. */
uint32_t ledger_add_lost(struct text *text, const struct job *job);
/* If more than one lost member is the reason for the next epoch, names all of them. */
void ledger_blame_lost(struct job *job);
/* Notes that STOP was sent to the current epoch. detected: when the reason for the next epoch was
 * seen. */
void ledger_stop(struct rdzv *r, struct job *job, struct tfe_mono detected);
/* Closes the row of the current epoch, which ends now unless it has ended before. */
void ledger_close(struct rdzv *r, struct job *job);
/* Starts the row of an epoch that has been formed. */
void ledger_form(struct rdzv *r, struct job *job);
/* Notes that the epoch is durable and starts. */
void ledger_open(struct rdzv *r, struct job *job);
/* Counts a restart of one worker of the current epoch. */
void ledger_count_restart(struct rdzv *r, struct job *job);
/* Notes that a phase of the current epoch has been reached now. */
void ledger_note(struct rdzv *r, struct job *job, enum tfe_epoch_time what);
/* The current epoch has reported from which step it continued: computes the lost steps of the
 * previous epoch. */
void ledger_learn_from(struct rdzv *r, struct job *job, uint64_t step);
/* Starts the row of an adopted epoch, whose start is unknown. */
void ledger_begin_row(struct job *job);

#endif
