/* common/job/job_file.h: reads job files. A job file is a JSON object whose fields are defined in
 * one table and described by docs/job-file.schema.json. Its canonical form has every field in the
 * table's order, with its default or null if absent, and is a valid job file itself. */
#ifndef TFE_COMMON_JOB_JOB_FILE_H
#define TFE_COMMON_JOB_JOB_FILE_H

#include <jansson.h>

#include "common/base/error.h"
#include "common/message/submission.h"
#include "common/text/reason.h"

/* Validates a job file and returns its canonical form, owned by the caller. Returns TFE_EINVAL with
 * a reason that names the field ("workers.min: ..."), or TFE_ENOMEM. */
int job_file_read(const json_t *tree, json_t **ret, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Reads a job file or a TFJob manifest into the canonical form. warning is one sentence for the
 * user, or "". Returns errors as job_file_read. */
int job_file_read_any(const json_t *tree, json_t **ret, struct tfe_reason *warning,
                      struct tfe_reason *reason) TFE_MUST_CHECK;

/* Sets warning to what the user of a canonical job should know: one sentence, or "". */
void job_file_warn(const json_t *job, struct tfe_reason *warning);

#endif
