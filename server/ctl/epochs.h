/* server/ctl/epochs.h: the ledger of a job, with what follows from its rows. */
#ifndef TFE_SERVER_CTL_EPOCHS_H
#define TFE_SERVER_CTL_EPOCHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/error.h"
#include "common/base/msg.h"

/* A row, and what it means. Times in ms; -1: not known. */
struct epochs_row {
    struct msg_epoch_row row; /* blamed is its own */
    int64_t began;            /* since 1970: training could begin: it listened, or what is known */
    int64_t ended;      /* since 1970; of one that nobody saw end, when the next one was due */
    int64_t standstill; /* before it: nobody trained for this epoch's sake; 0 for a run's first */
    int64_t running;    /* it trained; of the running one, until now */
};

struct epochs {
    struct epochs_row *rows;
    size_t n;
    size_t cap;
};

#define EPOCHS_CAUSES 8 /* above every enum tfe_cause */

struct epochs_total {
    int64_t running;
    int64_t standstill[EPOCHS_CAUSES]; /* by enum tfe_cause */
    int64_t standstill_all;
    uint64_t lost_steps;
    bool has_lost;
    double useful; /* share of running in running + standstill, in percent; -1 not known */
};

/* TFE_ENOMEM. */
int epochs_add(struct epochs *e, const struct msg_epoch_row *row) TFE_MUST_CHECK;
/* Once all are there: what follows from them. */
void epochs_work_out(struct epochs *e, struct tfe_wall now);
void epochs_sum(const struct epochs *e, struct epochs_total *ret);
void epochs_done(struct epochs *e);

/* The three forms. TFE_ENOMEM. */
int epochs_print_table(const struct epochs *e, const char *job) TFE_MUST_CHECK;
int epochs_print_json(const struct epochs *e, const char *job) TFE_MUST_CHECK;
void epochs_print_csv(const struct epochs *e);

#endif
