/* server/core/doubt.h: when silence is more likely the server's own fault than the nodes'. */
#ifndef TFE_SERVER_CORE_DOUBT_H
#define TFE_SERVER_CORE_DOUBT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"

struct job;
struct node;
struct rdzv;

/* Written by doubt.c. */
struct doubt {
    uint64_t mass_epoch;        /* in which a mass loss was held once */
    struct tfe_mono mass_until; /* no member's lease ends before */
};

/* At the begin of every step: whether this turn of the loop is late. */
void doubt_look_at_clock(struct rdzv *r, struct tfe_mono now);
/* A lease is over: whether it is given more time (true), because the server was late or because
 * more than half of the members fell silent together. */
bool doubt_postpones(struct rdzv *r, struct node *node);
/* Whether the node has missed a renewal. */
bool doubt_is_silent(const struct rdzv *r, const struct node *node);
/* A survivor's trainer has ended: the loss is real, whoever is silent has no more time. */
void doubt_release(struct rdzv *r, struct job *job);

#endif
