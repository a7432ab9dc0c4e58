/* common/records/record_order.h: rows of STATUS in the order in which people look for things. */
#ifndef TFE_COMMON_RECORDS_RECORD_ORDER_H
#define TFE_COMMON_RECORDS_RECORD_ORDER_H

#include "common/message/msg.h"
#include "common/records/record_list.h"

bool order_is_over(const struct msg_status_job *job);

/* What is not well with the server stays in front. Jobs as they came, each followed by its nodes,
 * to: those that run, those that are about to, those
 * that wait, those that are over; of each the one first that has been so longest. Nodes by rank,
 * those without one behind. TFE_ENOMEM; TFE_ESTATE: a node of no job. */
int order_status(struct row_list *rows) TFE_MUST_CHECK;

#endif
