/* common/job/tfjob.h: converts a Kubeflow TFJob manifest to a job file. Rejects unsupported fields
 * by name; docs/operations.md has the table. */
#ifndef TFE_COMMON_JOB_TFJOB_H
#define TFE_COMMON_JOB_TFJOB_H

#include <jansson.h>
#include <stdbool.h>

#include "common/base/error.h"
#include "common/text/reason.h"

/* True if tree is a manifest (has apiVersion or kind). */
bool tfjob_is(const json_t *tree);

/* Converts a manifest: kubeflow.org/v1, v1beta1, v1beta2 and v1alpha2 with the map tfReplicaSpecs,
 * or v1alpha1 with the list replicaSpecs and tfReplicaType. *ret is input for job_file_read, owned
 * by the caller. Returns TFE_EINVAL with a reason that names the field, or TFE_ENOMEM. */
int tfjob_read(const json_t *tree, json_t **ret, struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
