/* common/job/tfjob.h: converts a Kubeflow TFJob manifest to a job file. Rejects unsupported fields
 * by name; docs/operations.md has the table. */
#ifndef TFE_COMMON_JOB_TFJOB_H
#define TFE_COMMON_JOB_TFJOB_H

#include <jansson.h>

#include "common/base/error.h"
#include "common/text/reason.h"

/* Reads a job file, a manifest, or a list with one of them, into the canonical form of job_file.h.
 * Manifests are those of kubeflow.org/v1, v1beta1, v1beta2 and v1alpha2 with the map
 * tfReplicaSpecs, or of v1alpha1 with the list replicaSpecs and tfReplicaType. Returns errors as
 * job_file_read. */
int tfjob_read(const json_t *tree, json_t **ret, struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
