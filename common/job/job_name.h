/* common/job/job_name.h: generates a name for a job submitted without one. */
#ifndef TFE_COMMON_JOB_JOB_NAME_H
#define TFE_COMMON_JOB_JOB_NAME_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/text/reason.h"

/* Number of random characters at the end of a generated name, as in Kubernetes; each needs one
 * random byte. */
#define JOB_NAME_RANDOM 5u
/* Number of names to try if a name is in use. */
#define JOB_NAME_TRIES 5u

/* True if a canonical job has no name. */
bool job_name_is_wanted(const json_t *job);

/* Sets a generated name: generate_name, or else the name of the script (of the directory, if the
 * script's is generic) and '-', followed by characters from the random bytes. Replaces an earlier
 * name. Returns TFE_ENOMEM with a reason. */
int job_name_make(json_t *job, const uint8_t random[JOB_NAME_RANDOM],
                  struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
