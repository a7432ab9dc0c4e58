/* server/core/quarantine.h: quarantine of newcomers that fail where other nodes got further without
 * them. */
#ifndef TFE_SERVER_CORE_QUARANTINE_H
#define TFE_SERVER_CORE_QUARANTINE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/core/core.h"

/* Quarantine of a node. Written by quarantine.c. */
struct quarantine {
    struct core_timer timer; /* end of the quarantine; not set if the node is not in quarantine */
    uint32_t wait_ms;
    bool is_proven; /* the node was a member of an epoch of this run that made progress */
};

static inline bool quarantine_is_on(const struct quarantine *quarantine)
{
    return wheel_is_set(&quarantine->timer.wheel);
}

#define QUARANTINE_NEW ((struct quarantine){.timer.kind = TIMER_QUARANTINE})

/* Returns true if a member that ended before its first step belongs in quarantine: other nodes got
 * further without it, so its machine or its installation is at fault. has_progressed: the epoch has
 * made progress. */
bool quarantine_is_due(const struct node *node, bool has_progressed);
/* Leaves the node out for a time that doubles with each failure, without charging the job. reason
 * is a static string. */
void quarantine_begin(struct rdzv *r, struct node *node, const char *reason);
void quarantine_end(struct rdzv *r, struct node *node);
/* Marks all members as proven: the epoch has made progress, or is assumed to have. */
void quarantine_prove_all(struct job *job);

#endif
