/* common/job/tfjob_part.h: declarations shared by the two files that read a manifest. Private to
 * them. */
#ifndef TFE_COMMON_JOB_TFJOB_PART_H
#define TFE_COMMON_JOB_TFJOB_PART_H

#include <jansson.h>
#include <stdbool.h>

#include "common/base/error.h"
#include "common/text/reason.h"

/* A key of a mapping in a manifest. note is NULL if the key is read or has no effect; otherwise
 * the key is rejected with this sentence. Keys without a row are rejected, too. */
struct tfjob_key {
    const char *name; /* key; NULL ends the list */
    const char *note;
};

extern const struct tfjob_key tfjob_metadata_keys[]; /* keys of a job's and of a pod's metadata */

/* True if a scalar requests nothing: Kubernetes writes "" and false for unset fields. */
bool tfjob_is_empty(const json_t *value);

/* Checks the keys of a mapping; absent counts as empty. Returns TFE_EINVAL if value is not a
 * mapping or has a rejected key whose value is not empty. */
int tfjob_keys(const json_t *value, const char *path, const struct tfjob_key *keys,
               struct tfe_reason *reason) TFE_MUST_CHECK;

/* Sets a member and takes over the reference of value. Returns TFE_ENOMEM, also if value is
 * NULL. */
int tfjob_put(json_t *object, const char *key, json_t *value,
              struct tfe_reason *reason) TFE_MUST_CHECK;

/* Reads a replica's template. *ret_shape: {command, env, work_dir, image, restart_policy,
 * stop_grace}, with null for absent values. *ret_labels: its labels, an object. Both are owned by
 * the caller. Returns TFE_EINVAL with a reason that names the field relative to the replica, or
 * TFE_ENOMEM. */
int tfjob_template(const json_t *replica, json_t **ret_shape, json_t **ret_labels,
                   struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
