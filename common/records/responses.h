/* common/records/responses.h: JSON documents of whole responses, shared by tfe-ctl --json and
 * tfe-web's API. Each function returns NULL if out of memory or if the records do not form a valid
 * response. */
#ifndef TFE_COMMON_RECORDS_RESPONSES_H
#define TFE_COMMON_RECORDS_RESPONSES_H

#include <jansson.h>

#include "common/records/record.h"

/* Response to STATUS: {"jobs": [... with "nodes": [...]], "health": [...]}, in the order of the
 * records. */
json_t *response_status(const struct record_list *rows) TFE_MUST_CHECK;

/* Response to STATUS without nodes: as response_status without "nodes". */
json_t *response_jobs(const struct record_list *rows) TFE_MUST_CHECK;

/* Response to EPOCHS after epochs_compute (epoch_summary.h): {"job", "epochs", "total", "now"}. */
json_t *response_epochs(const struct record_list *ledger, const char *job) TFE_MUST_CHECK;

/* Response to EVENTS: {"events": [...], "newest": highest number, or `after` if there are no
 * events}. */
json_t *response_events(const struct record_list *rows, uint64_t after) TFE_MUST_CHECK;

/* Nodes of a response to STATUS: {"nodes": [...]}, each with its job. Changes the records'
 * schemas. */
json_t *response_nodes(struct record_list *rows) TFE_MUST_CHECK;

/* Response to STATUS for one job with detail: the job with {"metrics", "nodes", "conditions",
 * "pool"}. Returns NULL also if there is no job. */
json_t *response_job(const struct record_list *rows) TFE_MUST_CHECK;

#endif
