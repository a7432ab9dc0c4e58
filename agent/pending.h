/* agent/pending.h: queue of events that occur while the core's actions are carried out, such as
 * reserved ports or failed starts. They are handled at the end of the step. */
#ifndef TFE_AGENT_PENDING_H
#define TFE_AGENT_PENDING_H

#include "agent/core/agent.h"

/* More than one step can cause. If it overflows, the core repeats its request. */
#define PENDING_MAX (MSG_NPROC_MAX + 8)

struct pending {
    struct {
        struct agent_event event;
        char text[512]; /* text of the event, truncated if it is longer */
    } v[PENDING_MAX];
    size_t first, n;
};

/* Appends a copy of the event and its text; other pointers stay borrowed. */
void pending_add(struct pending *p, const struct agent_event *event);

/* Returns the next event, valid until the next pending_add. Returns NULL if there is none; the
 * queue is then empty. */
const struct agent_event *pending_next(struct pending *p);

#endif
