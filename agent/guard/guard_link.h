/* agent/guard/guard_link.h: the agent's end of the pipe to its guard. On libevent. */
#ifndef TFE_AGENT_GUARD_GUARD_LINK_H
#define TFE_AGENT_GUARD_GUARD_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/guard/guard.h"
#include "common/base/time.h"

struct event_base;
struct guard_link;

/* Comes from the loop, never from inside a guard_link_* call, and may free the link. */
typedef void guard_event_fn(void *ctx, const struct guard_event *event);

/* Takes over process->fd. */
struct guard_link *guard_link_new(struct event_base *base, const struct guard_process *process,
                                  guard_event_fn *on_event, void *ctx);

/* Closes the pipe: the guard then kills everything and ends. Does not wait for it. NULL is allowed.
 */
void guard_link_free(struct guard_link *link);

pid_t guard_link_pid(const struct guard_link *link);

/* Starts a process in an empty slot, in a session and group of its own, with stdin from /dev/null,
 * the two descriptors as stdout and stderr (borrowed), nothing else open, default signal handlers,
 * an empty signal mask, and PDEATHSIG KILL. argv and envp may be megabytes. TFE_ESYS; TFE_ESTATE:
 * the slot is in use, or a sweep is not over; TFE_EINVAL: no such slot. */
int guard_link_spawn(struct guard_link *link, uint32_t slot, const struct spawn_spec *spec,
                     int stdout_fd, int stderr_fd) TFE_MUST_CHECK;

/* Starts a standby in an empty slot: a process that runs the bootstrap (argv says it all), with a
 * socket as descriptor 3, until a trainer's start is handed to it. Sweeps and the fence leave it
 * alone; the end of the agent does not. background: idle I/O priority, and a lower CPU priority
 * where that can be undone. Errors as guard_link_spawn. */
int guard_link_spawn_standby(struct guard_link *link, uint32_t slot, const struct spawn_spec *spec,
                             bool background) TFE_MUST_CHECK;

/* As guard_link_spawn, into the process of the standby in slot from, which is empty from now on. A
 * standby that turns out not to be there or not to take it is replaced by a plain start, told by
 * COLD if it said why; SPAWNED may come a second time then. Errors as guard_link_spawn; the
 * standby stays. */
int guard_link_hand_over(struct guard_link *link, uint32_t slot, uint32_t from,
                         const struct spawn_spec *spec, int stdout_fd,
                         int stderr_fd) TFE_MUST_CHECK;

/* Signals the slot's whole session (every group in it), SIGCONT after it so that a stopped process
 * takes it; SIGTERM goes to its main process alone. An empty slot is ignored. */
void guard_link_signal(struct guard_link *link, uint32_t slot, int signo);

/* Kills every descendant but standbys, also double-forked ones, until none is left; then SWEPT.
 */
void guard_link_sweep(struct guard_link *link);

/* The newest fence counts. At deadline (clock_mono's clock, CLOCK_BOOTTIME) the guard kills
 * everything, whatever the agent does, and starts nothing more until the next fence. TFE_MONO_NEVER
 * disarms. */
void guard_link_fence(struct guard_link *link, struct tfe_mono deadline);

#endif
