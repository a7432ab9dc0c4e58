/* server/driver.h: steps the core: passes events in, executes actions, and keeps its timer.
 * Nothing else calls rdzv_step(). */
#ifndef TFE_SERVER_DRIVER_H
#define TFE_SERVER_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/text/reason.h"
#include "server/core/rdzv.h"
#include "server/sessions.h"

struct event_base;
struct driver;
struct counters;
struct events;
struct pool;
struct store;
struct trace_log;
struct writer;

/* Destinations of the core's actions. Those of traces and ledger rows are NULL where nothing
 * receives them. */
struct outlets {
    struct sessions *sessions;
    struct trace_log *traces;
    struct events *events;
    struct counters *gauges;
    struct pool *pool;
};

/* Returns 0, TFE_EINVAL or TFE_ENOMEM as rdzv_new(). */
int driver_new(struct event_base *base, const struct rdzv_config *config,
               struct driver **ret) TFE_MUST_CHECK;

/* Restores every job of the store. Call it before the first event. Errors as store_load(). */
int driver_restore(struct driver *driver, struct store *store,
                   struct tfe_reason *reason) TFE_MUST_CHECK;

/* Starts the writer thread, which takes ownership of the store. Call it before the first event.
 * Returns 0, TFE_ENOMEM or TFE_ESYS. */
int driver_set_store(struct driver *driver, struct store *store, int64_t keep_history_ms,
                     struct tfe_reason *reason) TFE_MUST_CHECK;

/* Returns the writer, for queries; NULL before driver_set_store(). */
struct writer *driver_writer(const struct driver *driver);

/* Precondition: the sessions are freed. Waits up to wait_ms for the writer thread to return from
 * the disk; returns false if it does not. NULL is allowed and returns true. */
bool driver_free(struct driver *driver, uint32_t wait_ms);

/* Returns the destinations of the core's actions, to be set before the first event. They must
 * outlive the driver's last step. */
struct outlets *driver_outlets(struct driver *driver);

/* Callbacks for sessions_new() that feed the core. Their ctx is the driver. */
extern const struct session_ops driver_session_ops;

/* Returns the core, read-only. */
const struct rdzv *driver_core(const struct driver *driver);

/* Returns the reason why the process must end without a request for it, or NULL. Valid after the
 * loop has ended. */
const char *driver_over(const struct driver *driver);

/* Stops stepping the core. Sessions that end during shutdown are not reported to it: the leases of
 * the agents decide about their jobs. */
void driver_stop(struct driver *driver);

#endif
