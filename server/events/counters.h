/* server/events/counters.h: counts what the server does, for metrics. Adding one up costs next to
 * nothing; what can be counted when somebody asks is counted then (query_metrics.c). */
#ifndef TFE_SERVER_EVENTS_COUNTERS_H
#define TFE_SERVER_EVENTS_COUNTERS_H

#include "common/message/msg.h"
#include "server/core/rdzv.h"
#include "server/events/histogram.h"

struct event_base;

#define GAUGES_CODES 32  /* of refusals; a higher one counts as 0 */
#define GAUGES_CAUSES 32 /* of epochs */

/* The phases of an epoch's beginning: from one time of its row to another. */
#define GAUGES_PHASES(X)                                                                           \
    X(DETECTED, STOPPED, "decide")  /* the reason was seen, until STOP */                          \
    X(STOPPED, GATHERED, "stop")    /* until all members were ready */                             \
    X(GATHERED, COMMITTED, "write") /* until it was durable */                                     \
    X(COMMITTED, STARTED, "start")  /* until the first START */                                    \
    X(STARTED, LISTENING, "listen") /* until all trainers listened */                              \
    X(STARTED, PROGRESSED, "step")  /* from START until the first step was told */                 \
    X(DETECTED, PROGRESSED, "whole")

enum gauges_phase {
#define GAUGES_PHASE_ENUM(from, to, name) PHASE_##from##_##to,
    GAUGES_PHASES(GAUGES_PHASE_ENUM)
#undef GAUGES_PHASE_ENUM
        PHASE__COUNT
};

/* Epochs whose end was counted lately: their rows may come again. */
#define GAUGES_SEEN 1024

struct gauges {
    uint64_t renewals;
    uint64_t refusals[GAUGES_CODES];
    uint64_t epochs[GAUGES_CAUSES];
    struct spread phases[PHASE__COUNT];
    struct spread loop; /* how late a turn of the loop was that should have come at a time */
    uint64_t seen[GAUGES_SEEN];
    struct event *timer;
    struct tfe_mono due;
};

/* TFE_ENOMEM. */
int gauges_start(struct gauges *g, struct event_base *base) TFE_MUST_CHECK;
/* A zeroed one is allowed. */
void gauges_done(struct gauges *g);

/* A row of the ledger, in the wall's time: once it is over its phases count. */
void gauges_note_epoch(struct gauges *g, const char *job, const struct msg_epoch_row *row);

/* trace_fn */
void gauges_trace(void *ctx, const struct rdzv_trace *trace);

#endif
