/* server/core/doubt.h: mass loss: decides when silence is more likely the server's own fault than
 * the nodes'. */
#ifndef TFE_SERVER_CORE_DOUBT_H
#define TFE_SERVER_CORE_DOUBT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"

struct job;
struct node;
struct rdzv;

/* Mass-loss state of a job. Written by doubt.c. */
struct doubt {
    uint64_t mass_epoch;        /* number of the epoch in which leases were held once */
    struct tfe_mono mass_until; /* until then no member's lease ends */
};

/* Notes at the beginning of a step whether this iteration of the event loop is late. */
void doubt_look_at_clock(struct rdzv *r, struct tfe_mono now);
/* Called when a lease has ended. Returns true if the lease is extended, because the server was late
 * or because more than half of the members fell silent together. */
bool doubt_postpones(struct rdzv *r, struct node *node);
/* Returns true if the node has missed a renewal. */
bool doubt_is_silent(const struct rdzv *r, const struct node *node);
/* A survivor's trainer has failed, so the loss is real: ends the held leases. */
void doubt_release(struct rdzv *r, struct job *job);

#endif
