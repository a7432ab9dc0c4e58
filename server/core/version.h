/* server/core/version.h: TensorFlow's version, the same on all nodes of a job. */
#ifndef TFE_SERVER_CORE_VERSION_H
#define TFE_SERVER_CORE_VERSION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/id.h"

struct node;
struct rdzv;

/* What a job's nodes have told. Written by version.c. */
struct version {
    struct tfe_id text; /* "": nobody that is there has told any */
    uint32_t n_nodes;   /* that have it */
};

/* One that had it leaves. */
static inline void version_leave(struct version *version)
{
    if (--version->n_nodes == 0) {
        version->text.text[0] = '\0';
    }
}

/* The node says that it has this one; NULL: it does not know. True: it was turned away, for the
 * others have another one. */
bool version_take(struct rdzv *r, struct node *node, const char *text);

#endif
