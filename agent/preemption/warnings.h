/* agent/preemption/warnings.h: what a node of the pool hears of its machine for all of its life:
 * what the cloud says that it is, and the warnings that it will go. An agent of a job below it
 * watches by itself. */
#ifndef TFE_AGENT_PREEMPTION_WARNINGS_H
#define TFE_AGENT_PREEMPTION_WARNINGS_H

#include <stdint.h>

#include "agent/preemption/choice.h"
#include "agent/preemption/cloud.h"
#include "common/message/msg.h"

struct event_base;
struct warnings;

/* The callbacks come from the loop, say also from warnings_up. */
struct warnings_wish {
    struct event_base *base;
    const struct notice_choice *choice; /* is copied */
    uint32_t grace_ms;                  /* deadline of a warning that names none */
    /* Once at most, with what is known then. */
    void (*on_cloud)(void *ctx, const struct cloud_facts *facts);
    /* What the server is to hear; only between warnings_up and warnings_down. */
    void (*say)(void *ctx, const struct msg_notice *notice);
    void *ctx;
};

/* Watches the clouds and the file that choice wants. A command is left to the agents of jobs: what
 * runs below a node of the pool is ended with each job. So is a signal, and no cloud is told from
 * here that all has ended. */
struct warnings *warnings_new(const struct warnings_wish *wish);
/* NULL is allowed. */
void warnings_free(struct warnings *w);

/* A connection is there, and the server is to hear what stands, and of a withdrawal that may have
 * been lost. */
void warnings_up(struct warnings *w);
void warnings_down(struct warnings *w);

#endif
