/* common/job/job_name.h: a name for a job that is handed in without one. */
#ifndef TFE_COMMON_JOB_JOB_NAME_H
#define TFE_COMMON_JOB_JOB_NAME_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/reason.h"

/* Letters and digits behind a name's beginning, as Kubernetes makes them; each needs a random byte.
 */
#define JOB_NAME_RANDOM 5u
/* Names that are tried where one is taken. */
#define JOB_NAME_TRIES 5u

/* Whether job, in its canonical form, has none. */
bool job_name_is_wanted(const json_t *job);

/* Gives it one: what its generate_name says, or its script's name (its directory's, where the
 * script's says nothing) and '-'; then what comes of the random bytes. A name that was made before
 * is made anew. TFE_ENOMEM with why. */
int job_name_make(json_t *job, const uint8_t random[JOB_NAME_RANDOM],
                  struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
