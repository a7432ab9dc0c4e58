/* server/driver.h: the one place that steps the core: events in, actions out, and its one timer. */
#ifndef TFE_SERVER_DRIVER_H
#define TFE_SERVER_DRIVER_H

#include "common/base/error.h"
#include "server/core/rdzv.h"
#include "server/sessions.h"

struct event_base;
struct driver;

/* TFE_EINVAL, TFE_ENOMEM as rdzv_new. */
int driver_new(struct event_base *base, const struct rdzv_config *config,
               struct driver **ret) TFE_MUST_CHECK;

/* The sessions must be gone already. NULL is allowed. */
void driver_free(struct driver *driver);

/* Where actions go. Before the first event. */
void driver_set_sessions(struct driver *driver, struct sessions *sessions);

/* For sessions_new: feed the core. Their ctx is the driver. */
extern const struct session_ops driver_session_ops;

/* For reading only. */
const struct rdzv *driver_core(const struct driver *driver);

/* Why the process has to end though nobody asked for it, once the loop is left; NULL: it has not. Static.
 */
const char *driver_over(const struct driver *driver);

/* No further step is made: the server goes away, and what its sessions' ends would mean to the jobs
 * is for the agents' leases to decide. */
void driver_stop(struct driver *driver);

#endif
