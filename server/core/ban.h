/* server/core/ban.h: deny list of nodes that an operator has evicted. */
#ifndef TFE_SERVER_CORE_BAN_H
#define TFE_SERVER_CORE_BAN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/id.h"

struct rdzv;

/* Maximum number of entries. A node's id belongs to one process, so no other node has it. If the
 * list is full, the oldest entry is dropped, and its node may join again as a newcomer. */
#define BANS_MAX 256

struct ban {
    struct tfe_id job;
    struct tfe_id node;
};

struct ban_list {
    struct ban v[BANS_MAX]; /* ring buffer */
    uint64_t n;             /* number of entries ever added */
};

/* Text of the REFUSED that an evicted node receives. */
extern const char ban_sentence[];

void ban_add(struct rdzv *r, const struct tfe_id *job, const struct tfe_id *node);
void ban_drop(struct rdzv *r, const char *job, const char *node);
bool ban_has(const struct rdzv *r, const char *job, const char *node);

#endif
