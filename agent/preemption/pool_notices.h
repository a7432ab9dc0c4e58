/* agent/preemption/pool_notices.h: forwards machine facts and termination notices of a pool
 * node to the server for the node's whole lifetime. The agents of its jobs watch for
 * notices by themselves. */
#ifndef TFE_AGENT_PREEMPTION_POOL_NOTICES_H
#define TFE_AGENT_PREEMPTION_POOL_NOTICES_H

#include <stdint.h>

#include "agent/preemption/notice_selection.h"
#include "agent/preemption/preemption.h"
#include "common/message/msg.h"

struct event_base;
struct pool_notices;

/* Options. Callbacks are called from the event loop, send also from within pool_notices_up. */
struct pool_notices_options {
    struct event_base *base;
    const struct notice_selection *choice; /* copied */
    uint32_t grace_ms;                     /* deadline of a notice that names none */
    /* Called at most once with the available facts. */
    void (*on_cloud)(void *ctx, const struct cloud_info *info);
    /* Sends a notice to the server; called only between pool_notices_up and pool_notices_down. */
    void (*send)(void *ctx, const struct msg_notice *notice);
    void *ctx;
};

/* Watches the selected clouds and file. A command or signal is left to the agents of jobs,
 * because processes below a pool node end with each job. Never acknowledges to a cloud that
 * the node is drained. */
struct pool_notices *pool_notices_new(const struct pool_notices_options *options);
/* Frees the watcher. Accepts NULL. */
void pool_notices_free(struct pool_notices *w);

/* Handles a new connection: sends the active notice, or repeats a withdrawal that
 * may have been lost. */
void pool_notices_up(struct pool_notices *w);
void pool_notices_down(struct pool_notices *w);

#endif
