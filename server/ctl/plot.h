/* server/ctl/plot.h: a job's ledger as a picture, for a report. */
#ifndef TFE_SERVER_CTL_PLOT_H
#define TFE_SERVER_CTL_PLOT_H

#include "common/base/time.h"
#include "common/net/why.h"
#include "common/rows/list.h"

/* Draws the epochs of a ledger that epochs_work_out has seen: nodes over time, each epoch with its
 * phases, and what became of the time. The file's name ends in .svg or .png and says which it is;
 * one that is there is replaced. TFE_EINVAL: another name, or there is no epoch; TFE_ESYS. */
int plot_write(const struct row_list *ledger, const char *job, struct tfe_wall now,
               const char *file, struct tfe_why *why) TFE_MUST_CHECK;

#endif
