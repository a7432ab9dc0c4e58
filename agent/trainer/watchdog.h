/* agent/trainer/watchdog.h: watchdogs over this node's trainers: start timeout, progress
 * timeout, and use of the cluster; also classifies their ends. */
#ifndef TFE_AGENT_TRAINER_WATCHDOG_H
#define TFE_AGENT_TRAINER_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/core/agent.h"
#include "common/message/msg.h"

struct event_base;
struct watch;

/* Timeouts; 0 disables a watchdog. */
struct watch_settings {
    uint32_t start_timeout_ms;
    uint32_t progress_timeout_ms;
};

struct watch_options {
    struct event_base *base;
    const struct watch_settings *settings;
    uint32_t nproc;
    /* Returns the bytes that the trainer has printed; printing counts as activity. */
    uint64_t (*printed)(void *ctx, uint32_t local);
    /* Called when a trainer must be killed, with the reason, which is valid for the call.
     * Called from the event loop. */
    void (*late)(void *ctx, uint32_t local, enum tfe_ending how, const char *reason);
    /* Called once per epoch when a trainer trains without the cluster assigned to it. Like late. */
    void (*alone)(void *ctx, uint32_t local, const char *reason);
    bool require_cluster; /* kill a trainer that trains without its cluster */
    void *ctx;
};

/* Creates the watchdogs. Copies options and borrows its settings. */
struct watch *watch_new(const struct watch_options *options);
void watch_free(struct watch *w);

/* Starts watching the place->n trainers of an epoch. Copies the table; without memory for that
 * no trainer is ever late. */
void watch_begin(struct watch *w, const struct agent_place *place);
/* Records the process of a trainer. */
void watch_spawned(struct watch *w, uint32_t local, pid_t pid);
/* Handles a step reported by a trainer. */
void watch_stepped(struct watch *w, uint32_t local);
/* Handles a report that a trainer copies its artifacts: it is active although it reports no step.
 */
void watch_copies(struct watch *w, uint32_t local);
/* Handles a new distribution strategy. A strategy that uses the cluster has connected
 * to rank 0 by then. */
void watch_strategy_made(struct watch *w, uint32_t local);
/* Sets whether all trainers are inactive. */
void watch_set_idle(struct watch *w, bool is_idle);
/* Records that a trainer listens on its port. */
void watch_listens(struct watch *w, uint32_t local);
/* Stops watching, because the trainers are being terminated. */
void watch_end(struct watch *w);

/* Classifies the end of a trainer that no watchdog killed. Call once per trainer. */
enum tfe_ending watch_ending(struct watch *w, int wait_status);

#endif
