/* common/records/responses.h: what the rows of one answer are as JSON, together: the same wherever
 * it is asked for (tfe-ctl's --json, tfe-web's API). Each returns NULL where there is no memory, or
 * the rows make no sense together. */
#ifndef TFE_COMMON_RECORDS_RESPONSES_H
#define TFE_COMMON_RECORDS_RESPONSES_H

#include <jansson.h>

#include "common/records/record_list.h"

/* Of STATUS: {"jobs": [… with "nodes": […] in each], "health": […]}. In the rows' order. */
json_t *answer_status(const struct row_list *rows) TFE_MUST_CHECK;

/* Of STATUS without nodes: the same without "nodes". */
json_t *answer_jobs(const struct row_list *rows) TFE_MUST_CHECK;

/* Of EPOCHS, worked out (epoch_summary.h): {"job", "epochs", "total", "now"}. */
json_t *answer_epochs(const struct row_list *ledger, const char *job) TFE_MUST_CHECK;

/* Of EVENTS: {"events": [...], "newest": its number, or after where there is none}. */
json_t *answer_events(const struct row_list *rows, uint64_t after) TFE_MUST_CHECK;

/* Of STATUS: {"nodes": […]}, each with its job. Changes the rows' kinds. */
json_t *answer_nodes(struct row_list *rows) TFE_MUST_CHECK;

/* Of STATUS for one job with detail: the job, with {"metrics", "nodes", "conditions", "pool"}. NULL
 * for no job, too. */
json_t *answer_job(const struct row_list *rows) TFE_MUST_CHECK;

#endif
