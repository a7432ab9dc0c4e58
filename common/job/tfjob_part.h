/* common/job/tfjob_part.h: what the two files that read a manifest share; nobody else's. */
#ifndef TFE_COMMON_JOB_TFJOB_PART_H
#define TFE_COMMON_JOB_TFJOB_PART_H

#include <jansson.h>
#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/reason.h"

/* A key of a manifest's mapping. why_not NULL: it is read, or changes nothing for a job; else it is
 * refused, with this sentence. A key that no row names is refused, too. */
struct tfjob_key {
    const char *name; /* NULL ends a list of them */
    const char *why_not;
};

extern const struct tfjob_key tfjob_metadata_keys[]; /* of a job and of a pod */

/* Whether a scalar asks for nothing: "" and false are what Kubernetes has where a field is unset.
 */
bool tfjob_is_empty(const json_t *value);

/* TFE_EINVAL: value is no mapping (absent counts as empty), or has a key that is refused. A refused
 * key whose value asks for nothing is passed over. */
int tfjob_keys(const json_t *value, const char *path, const struct tfjob_key *keys,
               struct tfe_reason *reason) TFE_MUST_CHECK;

/* Takes the reference of value over. TFE_ENOMEM, for value NULL, too. */
int tfjob_put(json_t *object, const char *key, json_t *value,
              struct tfe_reason *reason) TFE_MUST_CHECK;

/* What a replica's template says: {command, env, work_dir, image, restart_policy, stop_grace},
 * which all roles of a job have in common, null where nothing is said, in *ret_shape; and its
 * labels, an object. Both are the caller's. TFE_EINVAL: why names the field below the replica;
 * TFE_ENOMEM. */
int tfjob_template(const json_t *replica, json_t **ret_shape, json_t **ret_labels,
                   struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
