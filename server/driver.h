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
struct store;
struct writer;

/* Receives one trace of the core. The trace is valid until the call returns. The function must not
 * step the core. */
typedef void (*trace_fn)(void *ctx, const struct rdzv_trace *trace);

/* Maximum number of trace listeners. They are registered at start-up and stay for the life of the
 * process. */
#define LISTENERS_MAX 4

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

/* Sets the sessions that actions are sent to. Call it before the first event. */
void driver_set_sessions(struct driver *driver, struct sessions *sessions);

/* Sets the event log, which receives ledger entries and store failures. It must outlive the
 * driver's last step. Call it before the first event. */
void driver_set_events(struct driver *driver, struct events *events);

/* Adds a listener for traces of the core, which is called after earlier ones. Call it before the
 * first event. */
void driver_listen(struct driver *driver, trace_fn fn, void *ctx);

/* Sets the counters to update. Call it before the first event. */
void driver_count(struct driver *driver, struct counters *gauges);

/* Callbacks for sessions_new() that feed the core. Their ctx is the driver. */
extern const struct session_ops driver_session_ops;

/* Returns the core, read-only. */
const struct rdzv *driver_core(const struct driver *driver);

/* Returns the reason why the process must end although nobody asked for it, or NULL. Valid after
 * the loop has ended. */
const char *driver_over(const struct driver *driver);

/* Stops stepping the core. Sessions that end during shutdown are not reported to it: the leases of
 * the agents decide about their jobs. */
void driver_stop(struct driver *driver);

#endif
