/* common/job/job_file.h: what a submitted job wants, as our own job file says it. It is a JSON
 * object; its fields stand in one table, and docs/job-file.schema.json describes them for others.
 * The canonical form has every field, in the table's order: what is not said has its default, or is
 * null. It is a job file itself, and its own canonical form. */
#ifndef TFE_COMMON_JOB_JOB_FILE_H
#define TFE_COMMON_JOB_JOB_FILE_H

#include <jansson.h>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/message/submission.h"

/* Reads a tree of our own form and gives its canonical one, which is the caller's.
 * TFE_EINVAL: why names the field ("workers.min: …"); TFE_ENOMEM. */
int job_file_read(const json_t *tree, json_t **ret, struct tfe_reason *reason) TFE_MUST_CHECK;

/* What a job file says, ours or a TFJob manifest, to the canonical form. warning is one sentence
 * for the user, or "". As job_file_read. */
int job_file_take(const json_t *tree, json_t **ret, struct tfe_reason *warning,
                  struct tfe_reason *reason) TFE_MUST_CHECK;

/* What the user of a job in its canonical form has to know: one sentence, or "". */
void job_file_warn(const json_t *job, struct tfe_reason *warning);

#endif
