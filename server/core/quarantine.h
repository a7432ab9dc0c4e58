/* server/core/quarantine.h: newcomers that fail where others got further without them. */
#ifndef TFE_SERVER_CORE_QUARANTINE_H
#define TFE_SERVER_CORE_QUARANTINE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/core/core.h"

/* Written by quarantine.c. */
struct quarantine {
    struct core_timer timer; /* set: it is left out, for wait_ms */
    uint32_t wait_ms;
    bool is_proven; /* it was in an epoch of this run that made progress */
};

static inline bool quarantine_is_on(const struct quarantine *quarantine)
{
    return wheel_is_set(&quarantine->timer.wheel);
}

#define QUARANTINE_NEW ((struct quarantine){.timer.kind = TIMER_QUARANTINE})

/* Whether a member that came to its end before its first step belongs there: others have got
 * further without it, so that its machine is at fault, or what is installed there. has_progressed:
 * the epoch. */
bool quarantine_is_due(const struct node *node, bool has_progressed);
/* It is left out for a while, ever longer, and costs the job nothing. why is static. */
void quarantine_begin(struct rdzv *r, struct node *node, const char *reason);
void quarantine_end(struct rdzv *r, struct node *node);
/* The epoch made progress, or did for all that is known: none of its members is a newcomer. */
void quarantine_prove_all(struct job *job);

#endif
