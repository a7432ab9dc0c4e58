/* agent/preemption/warnings.h: forwards machine facts and termination notices of a pool
 * node to the server for the node's whole lifetime. The agents of its jobs watch for
 * notices by themselves. */
#ifndef TFE_AGENT_PREEMPTION_WARNINGS_H
#define TFE_AGENT_PREEMPTION_WARNINGS_H

#include <stdint.h>

#include "agent/preemption/choice.h"
#include "agent/preemption/cloud.h"
#include "common/message/msg.h"

struct event_base;
struct warnings;

/* Options. Callbacks are called from the event loop, say also from within warnings_up. */
struct warnings_wish {
    struct event_base *base;
    const struct notice_choice *choice; /* copied */
    uint32_t grace_ms;                  /* deadline of a notice that names none */
    /* Called at most once with the available facts. */
    void (*on_cloud)(void *ctx, const struct cloud_facts *facts);
    /* Sends a notice to the server; called only between warnings_up and warnings_down. */
    void (*say)(void *ctx, const struct msg_notice *notice);
    void *ctx;
};

/* Watches the selected clouds and file. A command or signal is left to the agents of jobs,
 * because processes below a pool node end with each job. Never acknowledges to a cloud that
 * the node is drained. */
struct warnings *warnings_new(const struct warnings_wish *wish);
/* Frees the watcher. Accepts NULL. */
void warnings_free(struct warnings *w);

/* Handles a new connection: sends the active notice, or repeats a withdrawal that
 * may have been lost. */
void warnings_up(struct warnings *w);
void warnings_down(struct warnings *w);

#endif
