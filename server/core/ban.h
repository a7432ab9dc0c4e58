/* server/core/ban.h: nodes that an operator has evicted, and that are refused from then on. */
#ifndef TFE_SERVER_CORE_BAN_H
#define TFE_SERVER_CORE_BAN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/id.h"

struct rdzv;

/* A node's id is its process's, so that nobody else brings it. Older bans are forgotten, and who
 * had one is let in again, as a newcomer. */
#define BANS_MAX 256

struct ban {
    struct tfe_id job;
    struct tfe_id node;
};

struct ban_list {
    struct ban v[BANS_MAX]; /* a ring */
    uint64_t n;             /* so many ever */
};

/* What such a node is told. */
extern const char ban_sentence[];

void ban_add(struct rdzv *r, const struct tfe_id *job, const struct tfe_id *node);
void ban_drop(struct rdzv *r, const char *job, const char *node);
bool ban_has(const struct rdzv *r, const char *job, const char *node);

#endif
