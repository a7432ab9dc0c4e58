/* server/events/counters.h: counters of the server's activity for metrics. Counting is cheap;
 * values that can be computed on request are (query_metrics.c). */
#ifndef TFE_SERVER_EVENTS_COUNTERS_H
#define TFE_SERVER_EVENTS_COUNTERS_H

#include "common/message/msg.h"
#include "server/core/rdzv.h"
#include "server/events/histogram.h"

struct event_base;

#define COUNTERS_CODES 32  /* number of refusal codes; higher codes count as 0 */
#define COUNTERS_CAUSES 32 /* number of epoch causes */

/* Phases of an epoch's start, each between two timestamps of its row. */
#define COUNTERS_PHASES(X)                                                                         \
    X(DETECTED, STOPPED, "decide")  /* from the detection of the reason to STOP */                 \
    X(STOPPED, GATHERED, "stop")    /* until all members were ready */                             \
    X(GATHERED, COMMITTED, "write") /* until the epoch was durable */                              \
    X(COMMITTED, STARTED, "start")  /* until the first START */                                    \
    X(STARTED, LISTENING, "listen") /* until all trainers listened */                              \
    X(STARTED, PROGRESSED, "step")  /* from START to the first reported step */                    \
    X(DETECTED, PROGRESSED, "whole")

enum counters_phase {
#define COUNTERS_PHASE_ENUM(from, to, name) PHASE_##from##_##to,
    COUNTERS_PHASES(COUNTERS_PHASE_ENUM)
#undef COUNTERS_PHASE_ENUM
        PHASE__COUNT
};

struct counters {
    uint64_t renewals;
    uint64_t refusals[COUNTERS_CODES];
    uint64_t epochs[COUNTERS_CAUSES];
    struct histogram phases[PHASE__COUNT];
    struct histogram loop; /* lateness of timers of the event loop */
    struct event *timer;
    struct tfe_mono due;
};

/* Starts the measurement of the loop. Returns 0 or TFE_ENOMEM. */
int counters_start(struct counters *g, struct event_base *base) TFE_MUST_CHECK;
/* Stops the measurement. Zeroed gauges are allowed. */
void counters_done(struct counters *g);

/* Counts an epoch when it starts, and its phases when its ledger row is final. */
void counters_add_epoch(struct counters *g, const struct msg_epoch_row *row,
                        enum rdzv_ledger_change change);

#endif
