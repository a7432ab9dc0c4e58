/* server/ctl/jobs/yaml_tree.h: a YAML text as a JSON tree. Pure but for memory. */
#ifndef TFE_SERVER_CTL_JOBS_YAML_TREE_H
#define TFE_SERVER_CTL_JOBS_YAML_TREE_H

#include <jansson.h>
#include <stddef.h>

#include "common/base/error.h"
#include "common/base/reason.h"

#define YAML_TREE_DEPTH_MAX 32u        /* a manifest needs twelve */
#define YAML_TREE_NODES_MAX 65536u     /* a job's command and environment are 512 texts */
#define YAML_TREE_BYTES_MAX (1u << 20) /* sixteen times of what a job may say */

/* Reads one document (empty ones beside it are passed over) of mappings, sequences and scalars. A
 * plain scalar is null, a boolean (true, false), a whole number or a number as in YAML 1.2's core
 * schema; all others, "yes" and 0777 among them, are texts. Refused, with the line in why: what is
 * no YAML, more than one document, anchors, aliases and tags (nothing of one file may stand for
 * much of it), a key that is no text, or twice in its mapping, a NUL, and what is above the limits.
 * *ret is the caller's. TFE_EINVAL, TFE_ETOOBIG, TFE_ENOMEM; *ret stays as it was then. */
int yaml_tree_read(const char *text, size_t n, json_t **ret,
                   struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
