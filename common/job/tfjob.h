/* common/job/tfjob.h: a Kubeflow TFJob manifest as a job file of ours. What cannot be honoured
 * is refused by its name: docs/operations.md has the table. */
#ifndef TFE_COMMON_JOB_TFJOB_H
#define TFE_COMMON_JOB_TFJOB_H

#include <jansson.h>
#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/reason.h"

/* Whether tree says that it is a manifest (it has apiVersion or kind). */
bool tfjob_is(const json_t *tree);

/* kubeflow.org/v1 and v1beta1, v1beta2, v1alpha2 with the map tfReplicaSpecs, and v1alpha1 with the
 * list replicaSpecs and tfReplicaType. *ret is a tree for job_file_read, the caller's.
 * TFE_EINVAL: why names the field; TFE_ENOMEM. */
int tfjob_read(const json_t *tree, json_t **ret, struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
