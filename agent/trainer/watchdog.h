/* agent/trainer/watchdog.h: watchdogs over this node's trainers, and what the kernel knows of their
 * end. */
#ifndef TFE_AGENT_TRAINER_WATCHDOG_H
#define TFE_AGENT_TRAINER_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/core/agent.h"
#include "common/message/msg.h"

struct event_base;
struct watch;

/* 0: no such watchdog. */
struct watch_settings {
    uint32_t start_timeout_ms;
    uint32_t progress_timeout_ms;
};

struct watch_wish {
    struct event_base *base;
    const struct watch_settings *settings;
    uint32_t nproc;
    /* Bytes that the trainer has printed so far: a script that prints is not silent. */
    uint64_t (*printed)(void *ctx, uint32_t local);
    /* The trainer is to be ended, for this reason; why is valid for the call. From the loop. */
    void (*late)(void *ctx, uint32_t local, enum tfe_ending how, const char *reason);
    /* The trainer trains without the cluster that it was given; once an epoch. As late. */
    void (*alone)(void *ctx, uint32_t local, const char *reason);
    bool require_cluster; /* and is to be ended for it */
    void *ctx;
};

/* Copies the wish, borrows the settings. */
struct watch *watch_new(const struct watch_wish *wish);
void watch_free(struct watch *w);

/* The trainers of an epoch were started, place->n of them; the table is copied. Without the memory
 * to copy it nobody can be named, and nobody is ended for being late. */
void watch_begin(struct watch *w, const struct agent_place *place);
/* One of them runs as this process. */
void watch_spawned(struct watch *w, uint32_t local, pid_t pid);
/* It has told a step. */
void watch_stepped(struct watch *w, uint32_t local);
/* Its script has made a strategy: one that uses the cluster is connected to rank 0 by now. */
void watch_strategy_made(struct watch *w, uint32_t local);
/* Whether the trainers show no sign of life. */
void watch_set_idle(struct watch *w, bool is_idle);
/* It listens now. */
void watch_listens(struct watch *w, uint32_t local);
/* They are being ended. */
void watch_end(struct watch *w);

/* How a trainer came to an end that was not ended for being late. Asked once for each. */
enum tfe_ending watch_ending(struct watch *w, int wait_status);

#endif
