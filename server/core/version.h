/* server/core/version.h: TensorFlow's version, which must be the same on all nodes of a job. */
#ifndef TFE_SERVER_CORE_VERSION_H
#define TFE_SERVER_CORE_VERSION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/id.h"

struct node;
struct rdzv;

/* TensorFlow version of a job. Written by version.c. */
struct version {
    struct tfe_id text; /* version that the present nodes have reported, or "" */
    uint32_t n_nodes;   /* number of nodes that have reported it */
};

/* Counts one node less that has reported the version. */
static inline void version_leave(struct version *version)
{
    if (--version->n_nodes == 0) {
        version->text.text[0] = '\0';
    }
}

/* Notes the version that the node reports (NULL: unknown). Returns true if the node was refused
 * because the other nodes have another version. */
bool version_take(struct rdzv *r, struct node *node, const char *text);

#endif
