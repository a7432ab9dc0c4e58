/* common/records/epoch_summary.h: computes from a job's ledger how long training ran and stood
 * still, and why. All times in ms. */
#ifndef TFE_COMMON_RECORDS_EPOCH_SUMMARY_H
#define TFE_COMMON_RECORDS_EPOCH_SUMMARY_H

#include "common/base/time.h"
#include "common/records/record.h"
#include "common/records/schemas.h"

#define EPOCHS_CAUSES 10 /* number of causes; larger than any enum tfe_cause */

struct epochs_total {
    int64_t running;
    int64_t standstill[EPOCHS_CAUSES]; /* standstill by enum tfe_cause */
    int64_t now; /* time since the end of the last epoch if the job has no epoch now; -1 if it has
                    one */
    int64_t standstill_all;
    bool is_lower_bound; /* the standstill is a lower bound: it continues, or its end was not
                            observed */
    uint64_t lost_steps;
    bool has_lost;
    double useful; /* percentage of running in running + standstill_all; -1 if unknown */
    const struct msg_status_job
        *job; /* the job's record, borrowed from the list; NULL if the job no longer exists */
};

/* Computes the derived fields of all epochs. Precondition: the list has all records of a job's
 * ledger (schema_epoch), followed by the job's own. */
void epochs_compute(struct record_list *ledger, struct tfe_wall now);

/* Sums the epochs after epochs_compute. */
void epochs_sum(const struct record_list *ledger, struct tfe_wall now, struct epochs_total *ret);

#endif
