/* agent/pending.c: implementation of pending.h. */
#include "agent/pending.h"

#include <stdio.h>

/* Returns the location of the event's pointer to text, or NULL if it has none. */
static const char **text_of(struct agent_event *event)
{
    switch ((int)event->type) {
    case AGENT_DISCONNECTED:
        return &event->lost.reason;
    case AGENT_PORTS_FAILED:
        return &event->reason;
    case AGENT_SPAWN_FAILED:
    case AGENT_TRAINER_EXITED:
        return &event->end.tail;
    case AGENT_NOTICE:
        return &event->notice.source;
    case AGENT_PROOF:
        return &event->certificate;
    case AGENT_CHECKED_OUT:
        return &event->checkout.reason;
    }
    return NULL;
}

void pending_add(struct pending *p, const struct agent_event *event)
{
    if (p->n == PENDING_MAX) {
        return;
    }
    struct agent_event *kept = &p->v[p->n].event;
    char *copy = p->v[p->n++].text;
    *kept = *event;
    const char **text = text_of(kept);
    if (text && *text) {
        snprintf(copy, sizeof(p->v[0].text), "%s", *text);
        *text = copy;
    }
}

const struct agent_event *pending_next(struct pending *p)
{
    if (p->first == p->n) {
        p->first = 0;
        p->n = 0;
        return NULL;
    }
    return &p->v[p->first++].event;
}
