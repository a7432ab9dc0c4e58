/* server/driver.h: the one place that steps the core: events in, actions out, and its one timer. */
#ifndef TFE_SERVER_DRIVER_H
#define TFE_SERVER_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "server/action_executor.h"
#include "server/core/rdzv.h"
#include "server/sessions.h"

struct event_base;
struct driver;
struct gauges;
struct store;

/* TFE_EINVAL, TFE_ENOMEM as rdzv_new. */
int driver_new(struct event_base *base, const struct rdzv_config *config,
               struct driver **ret) TFE_MUST_CHECK;

/* Every job that the store keeps, before the first event. Errors as store_load. */
int driver_restore(struct driver *driver, struct store *store,
                   struct tfe_reason *reason) TFE_MUST_CHECK;

/* Starts the thread that writes to the store from here on, and closes it. Before the first event.
 * TFE_ENOMEM, TFE_ESYS. */
int driver_set_store(struct driver *driver, struct store *store, int64_t keep_history_ms,
                     struct tfe_reason *reason) TFE_MUST_CHECK;

/* That thread, for questions. NULL before driver_set_store. */
struct writer *driver_writer(const struct driver *driver);

/* The sessions must be gone already. The thread gets wait_ms to come back from the disk; false: it
 * does not. NULL is allowed (true). */
bool driver_free(struct driver *driver, uint32_t wait_ms);

/* Where actions go. Before the first event. */
void driver_set_sessions(struct driver *driver, struct sessions *sessions);

/* Hear of the ledger, and of the store; they outlive the driver's last step. Before the first
 * event.
 */
void driver_set_events(struct driver *driver, struct events *events);

/* Who hears of the core's traces, besides those that asked earlier. Before the first event. */
void driver_listen(struct driver *driver, trace_fn fn, void *ctx);

/* Counts in there. Before the first event. */
void driver_count(struct driver *driver, struct gauges *gauges);

/* For sessions_new: feed the core. Their ctx is the driver. */
extern const struct session_ops driver_session_ops;

/* For reading only. */
const struct rdzv *driver_core(const struct driver *driver);

/* Why the process has to end though nobody asked for it, once the loop is left; NULL: nothing. */
const char *driver_over(const struct driver *driver);

/* No further step is made: the server goes away, and what its sessions' ends would mean to the jobs
 * is for the agents' leases to decide. */
void driver_stop(struct driver *driver);

#endif
