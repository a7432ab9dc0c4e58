/* common/records/record_order.h: sorts the records of STATUS for display. */
#ifndef TFE_COMMON_RECORDS_RECORD_ORDER_H
#define TFE_COMMON_RECORDS_RECORD_ORDER_H

#include "common/message/msg.h"
#include "common/records/record.h"

bool records_job_is_over(const struct msg_status_job *job);

/* Sorts the records: health first, then jobs with their nodes: running jobs, starting jobs, waiting
 * jobs, finished jobs; within each group the job longest in its state first. Nodes are sorted by
 * rank, those without rank last. Returns TFE_ENOMEM, or TFE_ESTATE for a node without a job. */
int records_sort_status(struct record_list *rows) TFE_MUST_CHECK;

#endif
