/* agent/preemption/cloud_info.h: what the cloud says of this machine: asked once, when its metadata
 * service has answered whoever watches for warnings, and in nobody's way. */
#ifndef TFE_AGENT_PREEMPTION_CLOUD_INFO_H
#define TFE_AGENT_PREEMPTION_CLOUD_INFO_H

#include "agent/preemption/source.h"

/* Questions of one cloud, one after the other. */
struct cloud_ask {
    struct source_poll poll; /* first: a poll is its ask */
    void (*on_told)(void *ctx, const struct cloud_facts *facts);
    void *ctx;
    const struct source_fact *at; /* NULL: none, or not any more */
    unsigned failures;            /* of this question */
    struct cloud_facts facts;
};

/* Asks what s has questions for, which works. on_told comes once, from the loop, with what is known
 * then; what is not told stays "". */
void cloud_ask_start(struct cloud_ask *ask, struct source *s,
                     void (*on_told)(void *ctx, const struct cloud_facts *facts), void *ctx);
/* Zeroed, or stopped before, is allowed. */
void cloud_ask_stop(struct cloud_ask *ask);

#endif
