/* server/query/mask_secrets.h: hides the secrets of a submitted job before it is shown. */
#ifndef TFE_SERVER_QUERY_MASK_SECRETS_H
#define TFE_SERVER_QUERY_MASK_SECRETS_H

#include <jansson.h>
#include <stdbool.h>

#include "common/base/error.h"

/* Changes a canonical job (common/job/job_file.h) into what is shown of it. env becomes the list of
 * its names. The URLs of repository and artifacts are masked (git_url_mask). Unless
 * shows_arguments, the command ends with the program or, behind Python, the script or module that
 * it runs, and "…". Returns TFE_ENOMEM. */
int mask_job(json_t *job, bool shows_arguments) TFE_MUST_CHECK;

#endif
