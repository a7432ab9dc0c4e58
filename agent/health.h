/* agent/health.h: runs the --check commands, which decide whether this machine is fit to train. A
 * node with a failed check is not READY. */
#ifndef TFE_AGENT_HEALTH_H
#define TFE_AGENT_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cli/options.h"

/* Maximum number of checks. All of them run before a node becomes READY, one after the other. */
#define HEALTH_CHECKS_MAX 16

struct event_base;
struct health;

/* Commands for sh, in the order in which they run; borrowed from the command line. */
struct health_checks {
    const char *v[HEALTH_CHECKS_MAX];
    size_t n;
};

/* Options. Pointers are borrowed until health_free(). */
struct health_config {
    struct event_base *base;
    const struct health_checks *checks;
    const struct option_table *options; /* commands do not get the variables of these options */
    /* Called from the event loop after each run of the checks. reason is NULL if all have passed,
     * else the last line of the first failed one, at most TFE_LABEL_MAX bytes. Failed checks are
     * repeated automatically. */
    void (*result)(void *ctx, const char *reason);
    void *ctx;
};

struct health *health_new(const struct health_config *config);
/* Kills a running check. NULL is allowed. */
void health_free(struct health *h);

/* Returns true if all checks have passed since the last health_forget(). Otherwise starts them,
 * unless they run or wait for their repetition; result() is called when they have ended. */
bool health_is_good(struct health *h);

/* Makes the checks necessary again, because a trainer of this node has failed. */
void health_forget(struct health *h);

#endif
