/* server/ctl/jobs/job_text.h: parses a job file, YAML or JSON. */
#ifndef TFE_SERVER_CTL_JOBS_JOB_TEXT_H
#define TFE_SERVER_CTL_JOBS_JOB_TEXT_H

#include <jansson.h>
#include <stddef.h>

#include "common/base/error.h"
#include "common/text/reason.h"

/* Parses text to the canonical form of a job (see job_file.h). Returns 0, or TFE_EINVAL,
 * TFE_ETOOBIG or TFE_ENOMEM with *reason. */
int job_text_read(const char *text, size_t n, json_t **ret,
                  struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
