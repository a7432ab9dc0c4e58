/* agent/trainer/trainers.h: the trainers of this node as the core's orders see them: start, sweep,
 * listen.
 */
#ifndef TFE_AGENT_TRAINER_TRAINERS_H
#define TFE_AGENT_TRAINER_TRAINERS_H

#include <stdint.h>

#include "agent/core/agent.h"
#include "agent/guard/guard.h"
#include "agent/os/ports.h"
#include "agent/output/output.h"
#include "agent/trainer/command.h"
#include "agent/trainer/standby.h"
#include "agent/trainer/watchdog.h"

struct event_base;
struct kept;
struct log_writer;
struct output_show;
struct trainers;

/* Takes an event for the core: from the loop, or (spawn errors only) from inside trainers_spawn.
 * What it points to is borrowed for the call. */
typedef void trainers_event_fn(void *ctx, const struct agent_event *event);

/* Borrows all it is given, for its life; guard's descriptor is taken over. */
struct trainers_wish {
    struct event_base *base;
    const struct guard_process *guard;
    const struct command *command;
    bool default_ps; /* a ps runs TensorFlow's own server in place of the command, a Python one */
    struct ports *ports;
    const struct tfe_id *job;
    const char *node;
    uint32_t nproc;
    const struct output_show *show; /* which of their output comes out here */
    struct log_writer *logs;        /* NULL: there are no log files */
    output_line_fn *on_line;        /* of what they print, with ctx; NULL: nobody reads it */
    struct kept *kept;              /* of what they print */
    const char *socket;             /* of the channel to scripts, for them; NULL: there is none */
    const char *preempt_file;       /* likewise */
    const char *tmp_dir;            /* likewise */
    const struct standby_settings *standby;
    uint32_t exit_grace_ms; /* from the end of a script's main thread to the end of its process */
    bool require_cluster;   /* a trainer that does not use its cluster is ended */
    const struct watch_settings *watch;
    /* trainers_are_settled became true. From the loop or from inside trainers_begin. */
    void (*settled)(void *ctx);
    trainers_event_fn *on_event;
    void *ctx;
};
struct trainers *trainers_new(const struct trainers_wish *wish);

/* Has everything killed, waits for the guard's end (5 s at most) and writes what is left of the
 * output. */
void trainers_free(struct trainers *t);

/* Gets what the first start will need, standbys above all. */
void trainers_begin(struct trainers *t);

/* Whether a start now would be as quick as it can be: a node that is not needed yet waits for this
 * before it says that it is ready. Always true once it has run a trainer. */
bool trainers_are_settled(const struct trainers *t);

/* A trainer has completed a step of the running epoch: what was put off until now may be done. */
void trainers_stepped(struct trainers *t, uint32_t local);

/* Starts the trainers of a place. asked_us: when START came (clock_us), for the log. */
void trainers_spawn(struct trainers *t, const struct agent_place *place, int64_t asked_us);

/* TERM and KILL to everything but standbys, once every trainer has ended by itself or grace_ms are
 * over (0: at once; also for a sweep that goes on with a grace). handlers, a bit per local rank:
 * who gets SIGTERM when the grace begins. SWEPT comes once nothing is left and no old port accepts
 * any more. */
void trainers_sweep(struct trainers *t, uint32_t grace_ms, uint64_t handlers);

void trainers_fence(struct trainers *t, struct tfe_mono deadline);

/* The main thread of this trainer's script is through: if threads or atexit handlers hold the
 * process for longer than the exit grace it is killed, and reported as ended with this exit status.
 */
void trainers_main_ended(struct trainers *t, uint32_t local, uint32_t code);

/* This trainer's script has made a strategy. */
void trainers_strategy_made(struct trainers *t, uint32_t local);

/* Whether the epoch's trainers show no sign of life. */
void trainers_set_idle(struct trainers *t, bool is_idle);

/* Bytes that they have printed in this epoch so far. */
uint64_t trainers_printed(const struct trainers *t);

uint32_t trainers_guard_pid(const struct trainers *t);

/* What has become of the standbys now. */
enum tfe_standby trainers_standby(const struct trainers *t);

#endif
