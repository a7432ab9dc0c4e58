/* server/action_executor.h: executes the actions of a step of the core, in their order. */
#ifndef TFE_SERVER_ACTION_EXECUTOR_H
#define TFE_SERVER_ACTION_EXECUTOR_H

#include "common/base/id.h"
#include "server/core/rdzv.h"
#include "server/events/event_log.h"
#include "server/sessions.h"
#include "server/store/writer.h"

/* Receives one trace of the core. The trace is valid until the call returns. The function must not
 * step the core. */
typedef void (*trace_fn)(void *ctx, const struct rdzv_trace *trace);

/* Maximum number of trace listeners. They are registered at start-up and stay for the life of the
 * process. */
#define LISTENERS_MAX 4

/* Destinations of the core's actions. */
struct counters;

struct outlets {
    struct sessions *sessions;
    struct writer *writer;
    struct {
        trace_fn fn; /* NULL ends the list */
        void *ctx;
    } listeners[LISTENERS_MAX]; /* called for each trace, in order of registration */
    struct counters *gauges;    /* counters for metrics; NULL if nothing is counted */
    struct events *events;      /* receives ledger entries; NULL if there is no event log */
    const char *exit;           /* reason of an EXIT action; NULL if there was none */
    /* Records that could not be queued for the writer because memory ran out; the driver reports
     * each to the core as not written. A step persists at most RDZV_PERSIST_MAX records, and each
     * report makes room for the one record that it may cause. */
    struct lost_record {
        struct tfe_id job;
        uint64_t sequence;
    } lost[RDZV_PERSIST_MAX];
    uint32_t n_lost;
};

/* Executes all actions. The core must not be stepped before this returns. */
void actions_run(const struct rdzv_actions *actions, struct outlets *to);

#endif
