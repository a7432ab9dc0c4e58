/* agent/health.h: the --check commands: whether this machine is fit to train. A node with a failed
 * check is not READY. */
#ifndef TFE_AGENT_HEALTH_H
#define TFE_AGENT_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cli/options.h"

/* Each check runs before every READY of a node that has not passed yet: a handful is plenty. */
#define HEALTH_CHECKS_MAX 16

struct event_base;
struct health;

/* Commands for sh, in the order in which they run. Borrowed from the command line. */
struct health_checks {
    const char *v[HEALTH_CHECKS_MAX];
    size_t n;
};

/* Borrowed for the health's life. */
struct health_config {
    struct event_base *base;
    const struct health_checks *checks;
    const struct option_table *options; /* whose environment variables the commands do not get */
    /* Called from the loop after each run of all checks: reason is NULL if all have passed, else
     * the last line of the first that failed, at most TFE_LABEL_MAX bytes. After a failure the
     * checks run again by themselves. */
    void (*result)(void *ctx, const char *reason);
    void *ctx;
};

struct health *health_new(const struct health_config *config);
/* Kills a check that runs. NULL is allowed. */
void health_free(struct health *h);

/* Returns true if all checks have passed since the last health_forget; else starts them, unless
 * they run already or wait to run again, and result() follows. */
bool health_is_good(struct health *h);

/* A trainer of this node has failed: the checks have to pass again. */
void health_forget(struct health *h);

#endif
