/* agent/preemption/cloud_info.h: reads the description of this machine from the cloud's metadata
 * service, once, after the source of notices has found the service. */
#ifndef TFE_AGENT_PREEMPTION_CLOUD_INFO_H
#define TFE_AGENT_PREEMPTION_CLOUD_INFO_H

#include "agent/preemption/source.h"

/* Queries of one cloud, sent one after the other. */
struct cloud_ask {
    struct source_poll poll; /* must be first: a poll is cast to its cloud_ask */
    void (*on_notify)(void *ctx, const struct cloud_facts *facts);
    void *ctx;
    const struct source_fact *at; /* current query, or NULL if none is left */
    unsigned failures;            /* failures of the current query */
    struct cloud_facts facts;
};

/* Starts the queries of a working source. on_notify is called once from the event loop with the
 * available facts; unavailable ones stay "". */
void cloud_ask_start(struct cloud_ask *ask, struct source *s,
                     void (*on_notify)(void *ctx, const struct cloud_facts *facts), void *ctx);
/* Stops the queries. Accepts a zeroed or stopped struct. */
void cloud_ask_stop(struct cloud_ask *ask);

#endif
