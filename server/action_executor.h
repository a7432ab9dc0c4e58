/* server/action_executor.h: carries out what a step of the core asks for, in its order. */
#ifndef TFE_SERVER_ACTION_EXECUTOR_H
#define TFE_SERVER_ACTION_EXECUTOR_H

#include "common/base/id.h"
#include "server/core/rdzv.h"
#include "server/events/event_log.h"
#include "server/sessions.h"
#include "server/store/writer.h"

/* Hears of one trace; what it points to lives until the call returns. Must not step the core. */
typedef void (*trace_fn)(void *ctx, const struct rdzv_trace *trace);

/* More than the shell has parts that would listen: they come with the process and stay. */
#define LISTENERS_MAX 4

/* Where actions go. */
struct gauges;

struct outlets {
    struct sessions *sessions;
    struct writer *writer;
    struct {
        trace_fn fn; /* NULL: no more */
        void *ctx;
    } listeners[LISTENERS_MAX]; /* to traces, each after those that asked earlier */
    struct gauges *gauges;      /* NULL: nothing is counted */
    struct events *events;      /* hears of the ledger; NULL: nobody does */
    const char *exit;           /* the sentence of an EXIT; NULL: there was none */
    /* Records that found no memory on their way to the writer, to be told to the core as not
     * written. A step asks for RDZV_PERSIST_MAX at most, and each that is answered makes
     * room for the one its answer may ask for. */
    struct lost_record {
        struct tfe_id job;
        uint64_t sequence;
    } lost[RDZV_PERSIST_MAX];
    uint32_t n_lost;
};

/* One pass over the actions. The core is not to be stepped before this returns. */
void actions_run(const struct rdzv_actions *actions, struct outlets *to);

#endif
