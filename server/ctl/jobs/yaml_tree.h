/* server/ctl/jobs/yaml_tree.h: converts YAML to a JSON tree. Pure except for memory. */
#ifndef TFE_SERVER_CTL_JOBS_YAML_TREE_H
#define TFE_SERVER_CTL_JOBS_YAML_TREE_H

#include <jansson.h>
#include <stddef.h>

#include "common/base/error.h"
#include "common/text/reason.h"

#define YAML_TREE_DEPTH_MAX 32u        /* a TFJob manifest needs twelve levels */
#define YAML_TREE_NODES_MAX 65536u     /* command and environment of a job have up to 512 texts */
#define YAML_TREE_BYTES_MAX (1u << 20) /* sixteen times the maximum size of a job */

/* Parses one document (empty ones beside it are ignored) of mappings, sequences and scalars. A
 * plain scalar is null, a boolean (true, false), an integer or a number as in the core schema of
 * YAML 1.2; all others, such as "yes" and 0777, are texts. Refused with the line in *reason:
 * invalid YAML, several documents, anchors, aliases and tags (no part may stand for much more), a
 * key that is no text or occurs twice, a NUL, and values above the limits. *ret is owned by the
 * caller, and unchanged after an error. Returns 0, TFE_EINVAL, TFE_ETOOBIG or TFE_ENOMEM. */
int yaml_tree_read(const char *text, size_t n, json_t **ret,
                   struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
