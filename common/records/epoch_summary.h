/* common/records/epoch_summary.h: what the rows of a ledger mean: how long training stood still,
 * and why. */
#ifndef TFE_COMMON_RECORDS_EPOCH_SUMMARY_H
#define TFE_COMMON_RECORDS_EPOCH_SUMMARY_H

#include "common/base/time.h"
#include "common/records/record_list.h"
#include "common/records/schemas.h"

#define EPOCHS_CAUSES 10 /* above every enum tfe_cause */

struct epochs_total {
    int64_t running;
    int64_t standstill[EPOCHS_CAUSES]; /* by enum tfe_cause */
    int64_t now; /* of a job that has no epoch just now: since the last one's end; -1: it has one */
    int64_t standstill_all;
    bool is_least; /* … or longer: it lasts, or where it ended nobody saw */
    uint64_t lost_steps;
    bool has_lost;
    double useful; /* share of running in running + standstill, in percent; -1 not known */
    const struct msg_status_job *job; /* borrowed from the rows; NULL: it is not there any more */
};

/* Once all rows of a job's ledger (kind_epoch), and the job's own behind them, are there: what
 * follows from them. */
void epochs_work_out(struct row_list *ledger, struct tfe_wall now);

/* … and then what they come to. */
void epochs_sum(const struct row_list *ledger, struct tfe_wall now, struct epochs_total *ret);

#endif
