/* agent/pending.h: events that come up while the core's orders are carried out: ports that are
 * held, trainers that cannot be started. Kept for the end of the step. */
#ifndef TFE_AGENT_PENDING_H
#define TFE_AGENT_PENDING_H

#include "agent/core/agent.h"

/* More than one step can cause: what does not fit the core will ask for again. */
#define PENDING_MAX (MSG_NPROC_MAX + 8)

struct pending {
    struct {
        struct agent_event event;
        char text[512]; /* what it says, longer ones are cut */
    } v[PENDING_MAX];
    size_t first, n;
};

/* Copies the event and its text; other things that it points to stay borrowed. */
void pending_keep(struct pending *p, const struct agent_event *event);

/* The next one, in order; it lasts until something is kept again. NULL: there is none, and all room
 * is free. */
const struct agent_event *pending_next(struct pending *p);

#endif
