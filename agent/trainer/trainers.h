/* agent/trainer/trainers.h: carries out the core's orders about this node's trainers: start,
 * sweep and fence, and reports their events. */
#ifndef TFE_AGENT_TRAINER_TRAINERS_H
#define TFE_AGENT_TRAINER_TRAINERS_H

#include <stdint.h>

#include "agent/core/agent.h"
#include "agent/guard/guard.h"
#include "agent/os/ports.h"
#include "agent/output/output.h"
#include "agent/trainer/command.h"
#include "agent/trainer/environment.h"
#include "agent/trainer/standby.h"
#include "agent/trainer/watchdog.h"

struct event_base;
struct output_ring;
struct log_writer;
struct output_show;
struct trainers;

/* Handles an event for the core. Called from the event loop, or for spawn errors from inside
 * trainers_spawn. Pointers in the event are borrowed for the call. */
typedef void trainers_event_fn(void *ctx, const struct agent_event *event);

/* Options. Pointers are borrowed for the lifetime; the guard's descriptor is taken over. */
struct trainers_options {
    struct event_base *base;
    const struct guard_process *guard;
    const struct command *command;
    /* parameter servers run TensorFlow's standard server instead of the command, which is Python */
    bool default_ps;
    struct ports *ports;
    const struct tfe_id *job;
    uint32_t nproc;
    const struct output_show *show;   /* selects the output shown on the agent's streams */
    struct log_writer *logs;          /* NULL if there are no log files */
    output_line_fn *on_line;          /* receives printed lines, with ctx; NULL if not needed */
    struct output_ring *ring;         /* recent output of all trainers */
    struct trainer_place environment; /* the fields that are the same for all trainers */
    const struct standby_settings *standby;
    /* time from the end of a script's main thread to the end of its process */
    uint32_t exit_grace_ms;
    bool require_cluster; /* kill a trainer that does not use the cluster assigned to it */
    const struct watch_settings *watch;
    /* Called when standbys_are_settled becomes true, see struct standbys_options. */
    void (*settled)(void *ctx);
    trainers_event_fn *on_event;
    void *ctx;
};
struct trainers *trainers_new(const struct trainers_options *options);

/* Has everything killed, waits up to 5 s for the guard to end, and writes the remaining output. */
void trainers_free(struct trainers *t);

/* Handles a completed step of the running epoch; it allows work that was
 * postponed during the start. */
void trainers_stepped(struct trainers *t, uint32_t local);

/* Starts the trainers of a place. started_us is the time of START on clock_us, for the log. */
void trainers_spawn(struct trainers *t, const struct agent_place *place, int64_t started_us);

/* Kills all processes except standbys once every trainer has exited or grace_ms has passed; 0
 * kills at once, even during a sweep with grace. handlers is a bitmap by local rank of trainers
 * that receive SIGTERM at the beginning of the grace period. SWEPT is reported once no process
 * is left and no old port accepts connections. */
void trainers_sweep(struct trainers *t, uint32_t grace_ms, uint64_t handlers);

void trainers_fence(struct trainers *t, struct tfe_mono deadline);

/* Handles the end of a script's main thread. If other threads or atexit handlers keep the
 * process alive longer than the exit grace, it is killed and reported with this exit status. */
void trainers_main_ended(struct trainers *t, uint32_t local, uint32_t code);

/* Returns the number of bytes that the trainers have printed in this epoch. */
uint64_t trainers_printed(const struct trainers *t);

/* Return the standbys and the watchdogs of the trainers; borrowed. */
struct standbys *trainers_standbys(const struct trainers *t);
struct watch *trainers_watch(const struct trainers *t);

uint32_t trainers_guard_pid(const struct trainers *t);

#endif
